"""Edits of the files of a run, one by one: flipped, longer, shorter, gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci.runs import checksums, manifest
from rlm_ci.runs.journal import reader
from rlm_ci.runs.journal.journal import replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.program import Ended

#: What docs/runs-reference.md says is no evidence.
NO_EVIDENCE = (".lock", "runner.log", "rlm/git/", "rlm/work/", "rlm/verdict/")


def evidence_of(folder: Path) -> list[str]:
    every = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in every]
    return [name for name in names if not any(name.startswith(one) or f"/{one}" in name or
            name.endswith(f"/{one}") for one in NO_EVIDENCE)]  # fmt: skip


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" APPROVED")


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: data.rfind(b"\n", 0, -1) + 1])


def unseen(folder: Path, verified: Callable[[], Ended]) -> list[tuple[str, str, str]]:
    """The edits that ``verified`` does not notice: two of each file, in turn one of each kind."""
    found = []
    changes: tuple[Callable[[Path], None], ...] = (flip, append, cut, Path.unlink)
    for number, one in enumerate(evidence_of(folder)):
        path = folder / one
        data = path.read_bytes()
        for change in (changes[number % 4], changes[(number + 2) % 4]):
            if change is not Path.unlink and not data:
                continue
            change(path)
            ended = verified()
            if ended.code not in (1, 5, 6):
                found.append((one, change.__name__, ended.stdout))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
    return found


def forge(folder: Path) -> None:
    """Write the sums of a run anew, as somebody would who knows how."""
    run = manifest.read(str(folder))
    sums = checksums.sum_up(str(folder), run)
    path = folder / "events.jsonl"
    events = list(replay(str(path)))
    events[-1]["payload"] |= sums
    path.write_bytes(b"".join(map(reader.to_line, events)))
