"""Snapshots that say something else by now."""

from __future__ import annotations

import pytest

from rlm_ci.guard.loosened.snapshots import is_snapshot, replaced
from rlm_ci.guard.weakening import TextChange

OLD = "".join(f"line {number}\n" for number in range(10))


@pytest.mark.parametrize(
    ("new", "code_changed", "expected"),
    [
        (OLD.replace("line 3", "line x"), True, (0, 1)),
        (OLD.replace("line 3", "line x"), False, (1, 0)),
        (OLD.replace("line", "other"), True, (1, 0)),
        (OLD + "more\n", False, (0, 0)),
        (None, True, (0, 0)),
    ],
)
def test_a_snapshot_is_replaced_or_changes_with_the_code(
    new: str | None,
    code_changed: bool,
    expected: tuple[int, int],
) -> None:
    change = TextChange("web/__snapshots__/a.test.js.snap", OLD, new)
    found, notes = replaced([change], code_changed=code_changed)
    assert (len(found), len(notes)) == expected


def test_a_short_snapshot_is_compared_by_its_letters() -> None:
    old = "hide paste keys=1;1 clear success keys=0;1 show"
    for new, found in ((old.replace("keys=1;1", "keys>1"), 0), ("quite another line of it", 1)):
        change = TextChange("testdata/a.golden", old, new)
        assert len(replaced([change], code_changed=True)[0]) == found
        assert len(replaced([change], code_changed=False)[0]) == 1


def test_snapshots_are_known_by_name() -> None:
    assert all(
        map(is_snapshot, ["a/__snapshots__/x.ambr", "src/snapshots/a.snap", "x.approved.txt"])
    )
    assert not any(map(is_snapshot, ["src/snapshots.py", "docs/snapshot.md", "snapshots/make.py"]))
