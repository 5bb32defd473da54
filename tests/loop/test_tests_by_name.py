"""Tests that a runner tells by name: another one in the place of one is one less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from loop.spaces import workspace

from rlm_ci.loop import tamper
from rlm_ci.loop.collected import parse

if TYPE_CHECKING:
    from pathlib import Path

    from histories import GitRepo


def cargo(*told: str, rows: bool = True) -> str:
    """What cargo prints of such tests, with a row for each or without."""
    failed, ignored = (sum(one.endswith(how) for one in told) for how in ("FAILED", "ignored"))
    listed = "".join(f"test {one}\n" for one in told) if rows else ""
    return (
        f"running {len(told)} tests\n{listed}\n"
        f"test result: {'FAILED' if failed else 'ok'}. {len(told) - failed - ignored} passed; "
        f"{failed} failed; {ignored} ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    )


FIRST = ("tests::a ... FAILED", "tests::b - should panic ... ok", "c ... ignored",
         "src/lib.rs - total (line 3) ... ok")  # fmt: skip
SAME = ("tests::a ... ok", "tests::b - should panic ... ok", "src/lib.rs - total (line 9) ... ok")
LAST = {
    "the same": (cargo(*SAME), False),
    "more": (cargo(*SAME, "other::new ... ok"), False),
    "another in the place of one": (cargo("other::a ... ok", *SAME[1:]), True),
    "one is ignored, and others are new": (
        cargo("tests::a ... ignored", *SAME[1:], "x ... ok", "y ... ok"), True,
    ),
    "no names": (cargo(*SAME, rows=False), False),
    "names that a test prints": (cargo(*SAME).replace("test c", "test x ... y\ntest c"), False),
    "a part was left out": (
        cargo("x ... ok", "y ... ok", "z ... ok").replace("test x ... ok\n", ""), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAST)
def test_another_test_in_the_place_of_one_is_one_less(
    project: GitRepo, tmp_path: Path, case: str
) -> None:
    after, is_weaker = LAST[case]
    space = workspace(project, tmp_path / "run")
    found = tamper.findings(space, space.tree(), parse(cargo(*FIRST)), parse(after))
    assert bool(found) == is_weaker, found
    assert not is_weaker or "tests::a" in found[0].message
