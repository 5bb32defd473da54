"""Runs as a kill leaves them: the one place of the tests that knows how a run is stored."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from rlm_ci.recursion.journal import run_json
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.journal.node_records import NAMES, RESULTS

if TYPE_CHECKING:
    from collections.abc import Mapping
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


#: By the folder of a recursion, the journals to which its records went, in order.
_WRITTEN: dict[str, list[str]] = {}


class OrderedJournals(Journals):
    """Remembers in which order its records are written."""

    def _append(self, name: str, record: dict[str, Any]) -> None:
        super()._append(name, record)
        _WRITTEN.setdefault(self.folder, []).append(name)


def _order(folder: Path) -> list[str]:
    """In which order its records were written; of another process, an order that may have been."""
    if str(folder) in _WRITTEN:
        return _WRITTEN[str(folder)]
    sizes = {name: len((folder / name).read_bytes().splitlines()) for name in NAMES}
    return [
        name
        for _, name in sorted(
            (at / size, name) for name, size in sizes.items() for at in range(size)
        )
    ]


def written(folder: Path) -> int:
    """The number of all records of a recursion in ``folder``."""
    return len(_order(folder))


def written_with_result(folder: Path, number: int) -> int:
    """How many records there were when result ``number``, from 1, was written."""
    places = (at for at, name in enumerate(_order(folder), 1) if name == RESULTS)
    return next(islice(places, number - 1, None))


def recursion_killed_after(folder: Path, number: int, place: Path, *, torn: int = 0) -> None:
    """As ``killed_after``, of a recursion; ``torn`` bytes of the next record are there, too."""
    order = _order(folder)
    counts = Counter(order[:number])
    recursion_cut(folder, place, {name: counts[name] for name in NAMES})
    if torn:
        name = order[number]
        line = (folder / name).read_bytes().splitlines(keepends=True)[counts[name]]
        with (place / name).open("ab") as stream:
            stream.write(line[:torn])


def recursion_cut(folder: Path, place: Path, counts: Mapping[str, int]) -> None:
    """Leave in ``place`` so many records of each journal of the recursion in ``folder``."""
    place.mkdir(exist_ok=True)
    if place != folder:
        shutil.copy(folder / run_json.NAME, place)
    for name, count in counts.items():
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        (place / name).write_bytes(b"".join(lines[:count]))
