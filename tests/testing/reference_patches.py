"""What a patch says, read a second time, slowly, and from its text alone."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testing.repositories.git_repo import GitRepo

#: Number to text of the lines of one hunk, for each side.
Sides = dict[str, dict[int, str]]

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

#: What GitHub calls each of git's letters.
STATUS = {"A": "added", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}


def walk(patch: str) -> list[Sides]:
    """The hunks of a patch, line by line; raises AssertionError where it is not one."""
    hunks: list[Sides] = []
    left = {"old": 0, "new": 0}
    at = {"old": 0, "new": 0}
    for line in patch.removesuffix("\n").split("\n"):
        if not any(left.values()):
            if line.startswith("\\ "):
                continue
            header = _HEADER.match(line)
            assert header, line
            old, olds, new, news = header.groups()
            at = {"old": int(old), "new": int(new)}
            left = {"old": int(olds or 1), "new": int(news or 1)}
            hunks.append({"old": {}, "new": {}})
            continue
        if line.startswith("\\ "):
            continue
        assert line[:1] in (" ", "+", "-"), line
        for side in {" ": ("old", "new"), "+": ("new",), "-": ("old",)}[line[0]]:
            hunks[-1][side][at[side]] = line[1:]
            at[side] += 1
            left[side] -= 1
    assert not any(left.values())
    return hunks


def patch_of(before: Sequence[str], after: Sequence[str], context: int = 3) -> str:
    """A patch as GitHub's list of files has it: without headers, without a last line break."""
    lines = difflib.unified_diff(before, after, "a", "b", n=context, lineterm="")
    return "\n".join(list(lines)[2:])


def github_files(repo: GitRepo, base: str, head: str) -> list[dict[str, Any]]:
    """GitHub's *list pull request files* for a range, from git itself."""
    raw = repo.run("diff", "--raw", "-z", "-M", "--no-abbrev", base, head)
    fields = iter(raw.decode("utf-8", "surrogateescape").split("\0"))
    records = []
    for field in fields:
        if not field:
            continue
        letter = field.split(" ")[4][0]
        old = new = next(fields)
        if letter in "RC":
            new = next(fields)
        text = repo.run("diff", "-M", base, head, "--", f":(literal){old}", f":(literal){new}")
        patch = text.decode("utf-8", "replace").removesuffix("\n").partition("\n@@ ")[2]
        record: dict[str, Any] = {
            "sha": "0" * 40,
            "filename": new.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            "status": STATUS.get(letter, "modified"),
        }
        if old != new:
            record["previous_filename"] = old
        if patch:
            record["patch"] = f"@@ {patch}"
        records.append(record)
    return records
