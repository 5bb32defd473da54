"""The journal beside its peers, in one run: ``python benchmarks/journal.py``.

Append is compared with a bare ``os.write`` of the same bytes, by the CPU that it takes; replay,
which checks every checksum and number, with ``json.loads`` of each line into a list, by CPU and
by peak memory. Every measurement is a process of its own, ours and the peer's in turn; what
counts is the median of the ratios of neighbours. The CPU is that of the loop, without what a
process takes to start. The result is written to ``benchmarks/results/journal.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
#: Turns of the append at least: its ratio is held as the median of five.
_APPENDS = 5
#: How many times a bare ``os.write`` an append may cost, and why it is not less.
_APPEND_TARGET = 7
_APPEND_REASON = (
    f"Append is held by {_APPEND_TARGET} times a bare `os.write`, as the median of {_APPENDS} "
    "turns at least. An earlier target of 4 had a floor that only wrote bytes: a record also has "
    "a number, a checksum and sorted names, which the bare write is given ready-made."
)
#: Few different records, so that they lie as near as one that was made just before.
_POOL = 50


def event(number: int) -> dict[str, Any]:
    """One of ``events.jsonl``, as the contract lists its fields."""
    return {
        "schema_version": 1,
        "timestamp": f"2026-10-05T12:{number // 60 % 60:02}:{number % 60:02}Z",
        "task_id": "0951-guard",
        "run_id": "2026-10-05T12-00-05Z-1a2b3c4d",
        "event": "iteration",
        "actor": "loop",
        "payload": {"iteration": number % 10},
    }


# -- what is measured, each in a process of its own ----------------------------------------------


def append_ours(path: str, count: int) -> float:
    from rlm_ci.runs.journal.journal import Journal

    found = [event(number) for number in range(_POOL)]
    with Journal.open(path) as journal:
        append = journal.append
        start = time.process_time()
        for number in range(count):
            append(found[number % _POOL], durable=False)
        return time.process_time() - start


def append_bare(path: str, count: int) -> float:
    from rlm_ci.runs.journal.reader import to_line

    lines = [to_line({**event(number), "seq": count // 2}) for number in range(_POOL)]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write = os.write
    start = time.process_time()
    for number in range(count):
        write(descriptor, lines[number % _POOL])
    taken = time.process_time() - start
    os.fsync(descriptor)
    os.close(descriptor)
    return taken


def replay_ours(path: str, count: int) -> float:
    from rlm_ci.runs.journal.journal import replay

    start = time.process_time()
    number = 0
    for record in replay(path):
        number = record["seq"]
    assert number == count
    return time.process_time() - start


def replay_bare(path: str, count: int) -> float:
    start = time.process_time()
    with open(path, "rb") as stream:
        found = [json.loads(line) for line in stream]
    assert len(found) == count
    return time.process_time() - start


MEASURED = {
    "append": append_ours, "write": append_bare, "replay": replay_ours, "loads": replay_bare
}  # fmt: skip


def measured(name: str, path: str, count: int) -> None:
    seconds = MEASURED[name](path, count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak]))


# -- side by side -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One process: seconds of CPU in its loop, and the peak of its memory in MB."""

    seconds: float
    megabytes: float


def measure(name: str, path: Path, count: int) -> Sample:
    argv = [sys.executable, __file__, "--one", name, str(path), "--count", str(count)]
    done = subprocess.run(argv, check=True, capture_output=True)
    return Sample(*json.loads(done.stdout))


def side_by_side(
    names: tuple[str, str], paths: tuple[Path, Path], count: int, runs: int, *, fresh: bool
) -> list[tuple[Sample, Sample]]:
    """Pairs of ours and the peer's. The first turn warms the caches and is left out."""
    found = []
    for turn in range(runs + 1):
        pair = []
        for name, path in zip(names, paths, strict=True):
            if fresh:
                path.unlink(missing_ok=True)
            pair.append(measure(name, path, count))
        if turn:
            found.append((pair[0], pair[1]))
    return found


def row(
    name: str, peer: str, found: list[tuple[float, float]], unit: str, target: float
) -> tuple[str, bool]:
    ratio = statistics.median(a / b for a, b in found)
    own, other = (statistics.median(values) for values in zip(*found, strict=True))
    held = ratio <= target
    line = (
        f"| {name} | {own:.2f} {unit} | {peer} | {other:.2f} {unit} | {ratio:.2f}× | "
        f"{target:g}× | {'yes' if held else 'no'} |"
    )
    return line, held


def rows(work: Path, count: int, runs: int) -> list[tuple[str, bool]]:
    journal, bare = work / "journal", work / "bare"
    appended = side_by_side(
        ("append", "write"), (journal, bare), count // 5, max(runs, _APPENDS), fresh=True
    )
    micro = [(a.seconds / count * 5e6, b.seconds / count * 5e6) for a, b in appended]
    found = [row("append, CPU of a record", "`os.write`", micro, "µs", _APPEND_TARGET)]
    journal.unlink()
    measure("append", journal, count)
    length = journal.stat().st_size // count
    replayed = side_by_side(("replay", "loads"), (journal, journal), count, runs, fresh=False)
    name = f"replay of {count:,} records of {length} bytes"
    seconds = [(a.seconds, b.seconds) for a, b in replayed]
    memory = [(a.megabytes, b.megabytes) for a, b in replayed]
    peer = "`json.loads` a line"
    found.append(row(f"{name}, CPU", peer, seconds, "s", 0.5))
    found.append(row(f"{name}, peak memory", peer, memory, "MB", 0.1))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=7, help="counted turns")
    parser.add_argument("--count", type=int, default=1_000_000, help="records")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, path = arguments.one
        measured(name, path, arguments.count)
        return 0
    load = os.getloadavg()[0]
    try:
        import orjson

        encoder = f"orjson {orjson.__version__}"
    except ImportError:
        encoder = "without orjson"
    method = (
        f"`benchmarks/journal.py`: medians of {arguments.runs} turns, of {_APPENDS} at least for "
        "append, a process each; the ratio is "
        "the median of the ratios of neighbouring runs. Replay checks every checksum and number; "
        "appended records are not waited for, as the peer's are not."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{encoder}, load {load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# The journal beside its peers", "", method, "", machine, ""]
    lines += [
        "| | rlm-ci | peer | peer's | ratio | target | held |",
        "|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as work:
        found = rows(Path(work), arguments.count, arguments.runs)
    lines += [*(line for line, _ in found), "", _APPEND_REASON]
    print("\n".join(lines))
    result = TOP / "benchmarks" / "results" / "journal.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all(held for _, held in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
