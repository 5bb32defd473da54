"""Snapshots: files with expected values that a tool writes."""

from __future__ import annotations

from collections import Counter

from rlm_ci.guard.weakened_tests.compare import EXPECTED
from rlm_ci.guard.weakening import Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.guard.weakening import TextChange

REPLACED = "snapshot-replaced"

_FOLDERS = ("__snapshots__", "__image_snapshots__", "snapshots")
_ENDINGS = (".snap", ".ambr", ".storyshot", ".golden")
#: Endings of what may write them.
_PROGRAMS = ("py", "sh")
#: The same in front of an ending of any kind.
_MARKS = (".approved", ".verified")


#: Letters of both sides of a snapshot that is compared by them, too; the part that stays.
_SHORT, _ALIKE = 2000, 0.7


def is_snapshot(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not dot or not ending.replace("_", "").isalnum():
        return False
    in_folder = folder.rpartition("/")[2] in _FOLDERS and ending not in _PROGRAMS
    return in_folder or name.endswith(_ENDINGS) or stem.endswith(_MARKS)


def replaced(
    changes: Sequence[TextChange], *, code_changed: bool
) -> tuple[list[Weakening], list[Weakening]]:
    """Snapshots that say something else by now, and notes of those that changed with the code.

    With the code, half of the lines of a snapshot may change. One that is gone needs no change.
    """
    weakenings, notes = list[Weakening](), list[Weakening]()
    for change in changes:
        if change.before is None or change.after is None:
            continue
        old, new = (Counter(text.split("\n")) for text in (change.before, change.after))
        lost = (old - new).total()
        if not lost:
            continue
        part = lost / old.total()
        if len(change.before) + len(change.after) <= _SHORT:
            from difflib import SequenceMatcher

            matcher = SequenceMatcher(None, change.before, change.after, autojunk=False)
            part = 0.0 if matcher.ratio() >= _ALIKE else part
        if code_changed and part <= 1 / 2:
            notes.append(Weakening(EXPECTED, change.path.rpartition("/")[2], change.path))
            continue
        why = "most of it is new" if code_changed else "no code changed"
        message = f"the snapshot has {lost:,} of {old.total():,} lines changed, and {why}"
        weakenings.append(Weakening(REPLACED, message, change.path))
    return weakenings, notes
