"""Runs as a kill leaves them: the one place of the tests that knows how a run is stored."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from rlm_ci.recursion.journal import recovery, run_json

if TYPE_CHECKING:
    from pathlib import Path

_CALLS = "calls.jsonl"


def facts(folder: Path) -> list[dict[str, Any]]:
    """The records of a run in ``folder``, in order."""
    return [json.loads(line) for line in (folder / _CALLS).read_bytes().splitlines()]


def killed_after(folder: Path, number: int, place: Path) -> list[dict[str, Any]]:
    """Leave in ``place`` what a run in ``folder`` has recorded when it is killed so late.

    ``number`` is that of its last record, 0 for none. Returns the records that it has.
    """
    place.mkdir(exist_ok=True)
    lines = (folder / _CALLS).read_bytes().splitlines(keepends=True)[:number]
    (place / _CALLS).write_bytes(b"".join(lines))
    return [json.loads(line) for line in lines]


def recursion_killed_after(folder: Path, number: int, place: Path, *, torn: int = 0) -> None:
    """As ``killed_after``, of a recursion; ``torn`` bytes of the next record are there, too."""
    place.mkdir(exist_ok=True)
    if place != folder:
        shutil.copy(folder / run_json.NAME, place)
    for name in recovery.NAMES:
        left = b""
        for line in (folder / name).read_bytes().splitlines(keepends=True):
            seq = json.loads(line)["seq"]
            if seq <= number:
                left += line
            elif seq == number + 1:
                left += line[:torn]
        (place / name).write_bytes(left)
