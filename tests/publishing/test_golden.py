"""Every surface, whole, as a reader gets it."""

from __future__ import annotations

import pytest
from publishing import golden


@pytest.mark.parametrize("name", golden.FILES)
def test_surface_is_as_recorded(name: str) -> None:
    expected = (golden.CASES / name).read_text("utf-8")
    assert golden.render(name) == expected, "if that was meant, see golden.py"


def test_every_case_is_used() -> None:
    assert {path.name for path in golden.CASES.iterdir()} == set(golden.FILES)
