"""What a claim is about survives other words, moved lines and layout, and no other code."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import Finding, Location, Severity, fingerprints

QUOTE = "    total = price * 1.1\n    return total\n    }"


def claim(quote: str | None = QUOTE, path: str = "shop.py", **more: Any) -> Finding:
    known: dict[str, Any] = {"source": "model:m", "subject": "Cart.total", **more}
    return Finding("review/float-money", Severity.MEDIUM, "m",
                   evidence=(Location(path, 4, 6, quote=quote),), **known)  # fmt: skip


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (claim("total=price * 1.1"), True),
        (claim("  }\n\n  return total"), True),
        (claim("    }"), False),
        (claim("    total = price * 1.2"), False),
        (claim(path="cart.py"), False),
        (claim(subject="Cart.tax"), False),
        (claim(subject=None), False),
    ],
)
def test_lines_of_one_definition_are_the_same(other: Finding, is_same: bool) -> None:
    assert claim_mark.is_same(claim_mark.of(claim()), claim_mark.of(other)) is is_same


def test_what_has_no_mark_is_about_nothing() -> None:
    nowhere = Finding("review/x", Severity.LOW, "m", source="model:m")
    for finding in (claim(source="check"), claim(None), claim("\n"), nowhere):
        assert claim_mark.of(finding) == ""
    assert not claim_mark.is_same("", "")
    assert not claim_mark.is_worse(claim_mark.of(claim()), "")
    assert claim_mark.is_mark(claim_mark.of(claim("\n".join(f"line {at}" for at in range(99)))))
    assert not claim_mark.is_mark("x")


def test_the_definition_of_a_claim_does_not_change_its_fingerprint() -> None:
    assert fingerprints([claim()]) == fingerprints([claim(subject=None)])
    assert fingerprints([claim(source="check")]) != fingerprints(
        [claim(source="check", subject=None)]
    )
