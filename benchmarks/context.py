"""Long contexts beside their peers, in one run: ``python benchmarks/context.py``.

The source is 1 GiB of real code: all Python files of the standard library and of the packages in
this environment, over and over, each round in another order and each file with the round's number
and its name before it. It is made anew in a temporary folder, and an object is built of it.

Each row is a whole process, ours and the peer's in turn, with the file in the page cache; what
counts is the median of the ratios of neighbours. Before the clock runs, our counts of hits are
compared with the peer's. The result is written to ``benchmarks/results/context.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RLM_CI = str(Path(sys.executable).parent / "rlm-ci")
ABSENT, RARE, COMMON = "zqxjvwzq", "heartbeat", "return"
#: None has a letter that Unicode folds together with another than its ASCII one: so the peer,
#: which folds by Unicode, finds the same.
QUERIES = (ABSENT, RARE, COMMON, "timeout", "import", "deprecated", "def __init__", "queue")
RG = ["rg", "--no-mmap", "-i", "-F"]
#: Starts a command and says how long it took, its peak in KiB and its exit code. The peak that the
#: system tells begins with that of who starts it: this is smaller than all that we measure.
LAUNCH = """
import os, sys, time
null = os.open(os.devnull, os.O_WRONLY)
actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - start, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""
READS = 10_000
#: An installed program has its bytecode; without it, Python would compile us at every start.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
#: Our command with the search that needs no extra.
WITHOUT_EXTRA = """
import sys
sys.modules["stringzilla"] = None
from rlm_ci.__main__ import main
raise SystemExit(main())
"""
PLAIN = [sys.executable, "-c", WITHOUT_EXTRA]


def make_source(path: Path, size: int) -> int:
    """Write ``size`` bytes of code; returns how many files it was made of."""
    roots = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    files = sorted({found for root in roots for found in Path(root).rglob("*.py")})
    left, rounds = size, 0
    with path.open("wb") as stream:
        while left:
            rounds += 1
            order = random.Random(rounds).sample(files, len(files))
            for file in order:
                text = b"# %d: %s\n" % (rounds, os.fsencode(file.name)) + file.read_bytes()
                left -= stream.write(text[:left])
    return len(files)


@dataclass(frozen=True)
class Sample:
    """One process, or some in a row: seconds from start to end, and the largest one's peak."""

    seconds: float
    megabytes: float


def measure(*commands: list[str]) -> Sample:
    seconds = megabytes = 0.0
    for command in commands:
        argv = [sys.executable, "-I", "-S", "-c", LAUNCH, *command]
        said = subprocess.run(argv, check=True, capture_output=True, env=ENVIRONMENT).stdout
        taken, peak, code = said.split()
        if int(code) not in (0, 1):  # 1: the peer has found nothing
            raise SystemExit(f"{command} ended with {int(code)}")
        seconds += float(taken)
        megabytes = max(megabytes, int(peak) / 1024)
    return Sample(seconds, megabytes)


@dataclass
class Row:
    """``command`` beside ``peer``; before each turn the folder ``fresh`` is removed."""

    name: str
    command: list[str]
    peer_name: str
    peer: list[list[str]]
    target: float
    fresh: Path | None = None
    own: list[Sample] = field(default_factory=list)
    others: list[Sample] = field(default_factory=list)

    def turn(self, *, counts: bool) -> None:
        if self.fresh is not None:
            shutil.rmtree(self.fresh, ignore_errors=True)
        own, other = measure(self.command), measure(*self.peer)
        if counts:
            self.own.append(own)
            self.others.append(other)

    def line(self) -> tuple[str, bool]:
        pairs = zip(self.own, self.others, strict=True)
        ratio = statistics.median(a.seconds / b.seconds for a, b in pairs)
        own = statistics.median(sample.seconds for sample in self.own)
        other = statistics.median(sample.seconds for sample in self.others)
        line = (
            f"| {self.name} | {own * 1000:.0f} ms | {self.peer_name} | {other * 1000:.0f} ms | "
            f"{ratio:.2f}× | {self.target:g}× | {'yes' if ratio <= self.target else 'no'} |"
        )
        return line, ratio <= self.target

    def peak(self, name: str, limit: float, floor: float = 0) -> tuple[str, bool]:
        """A line about the most memory that one of our processes took, above ``floor``."""
        most = max(sample.megabytes for sample in self.own) - floor
        held = most <= limit
        return (
            f"| {name} | {most:.0f} MiB | | | | {limit:g} MiB | {'yes' if held else 'no'} |",
            held,
        )


def rows(work: Path) -> list[Row]:
    source, folder = str(work / "source.txt"), str(work / "object")
    search = [RLM_CI, "context", "search", folder]
    plain = [*PLAIN, "context", "search", folder]
    found = []
    for kind, query in (("absent", ABSENT), ("rare", RARE), ("common", COMMON)):
        peer = [[*RG, "-c", query, source]]
        name = f"search, {kind} (`{query}`)"
        found.append(Row(name, [*search, query], "`rg -c`", peer, 1.0))
        found.append(Row("… without the extra `fast`", [*plain, query], "`rg -c`", peer, 4.0))
    peers = [[*RG, "-c", query, source] for query in QUERIES]
    found.append(Row("8 queries at once", [*search, *QUERIES], "8 × `rg -c`", peers, 0.5))
    fresh = work / "built"
    build = ["context", "build", source, "--link", "--out", str(fresh)]
    digest = [["openssl", "dgst", "-sha256", source]]
    for name, program in (
        ("build, without the copy", [RLM_CI]),
        ("… without the extra `fast`", PLAIN),
    ):
        argv = [*program, *build]
        found.append(Row(name, argv, "`openssl dgst`", digest, 1.35, fresh))
    return found


def agree(work: Path) -> None:
    """Ours and the peer's counts of all hits are the same, with the extra and without."""
    source, folder = str(work / "source.txt"), str(work / "object")
    counts = []
    for query in QUERIES:
        said = subprocess.run(
            [*RG, "--count-matches", query, source], capture_output=True, check=False
        )
        counts.append(int(said.stdout or 0))
    for program in ([RLM_CI], PLAIN):
        argv = [*program, "context", "search", folder, *QUERIES, "--format", "json"]
        said = subprocess.run(argv, capture_output=True, check=True)
        own = [found["total_hits"] for found in json.loads(said.stdout)["queries"]]
        if own != counts:
            raise SystemExit(f"hits of {QUERIES}: {own}, where the peer finds {counts}")


def reads(folder: str) -> None:
    """Print the microseconds of a pointer read, over READS in random order."""
    from rlm_ci.context.context import Context

    some = random.Random(5)
    with Context.open(folder) as context:
        half = READS // 2
        spans = [some.randrange(context.byte_length - 8192) for _ in range(half)]
        pointers = [context.pointer(some.randrange(context.chunk_count)) for _ in range(half)]
        pointers += [f"ctx:{context.object_id}#bytes:{at}-{at + 8192}" for at in spans]
        some.shuffle(pointers)
        start = time.perf_counter()
        for pointer in pointers:
            context.read(pointer, 2048)
        print((time.perf_counter() - start) / READS * 1e6)


def read_line(work: Path, runs: int) -> tuple[str, bool]:
    argv = [sys.executable, __file__, "--reads", str(work / "object")]
    taken = statistics.median(
        float(subprocess.run(argv, check=True, capture_output=True).stdout) for _ in range(runs)
    )
    name = f"{READS:,} pointer reads of 2 KiB, each"
    return f"| {name} | {taken:.1f} µs | | | | 25 µs | {'yes' if taken <= 25 else 'no'} |", (
        taken <= 25
    )


def table(work: Path, size: int, runs: int) -> tuple[int, list[tuple[str, bool]]]:
    """The number of files in the source, and the lines of the table."""
    files = make_source(work / "source.txt", size)
    build = [RLM_CI, "context", "build", str(work / "source.txt"), "--link"]
    subprocess.run([*build, "--out", str(work / "object")], check=True, stdout=subprocess.DEVNULL)
    agree(work)
    measured = rows(work)
    for number in range(runs + 1):  # the first turn warms the caches
        for row in measured:
            row.turn(counts=number > 0)
    lines = [row.line() for row in measured]
    floor = measure([sys.executable, "-I", "-c", "pass"]).megabytes
    lines.append(measured[0].peak("search: peak of a process", 64))
    lines.append(measured[-3].peak("8 queries: peak of a process", 64))
    lines.append(measured[-2].peak("build: peak above the interpreter", 64, floor))
    lines.append(read_line(work, runs))
    return files, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=7, help="counted turns")
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of the source")
    parser.add_argument("--work", type=Path, help="where to make a temporary folder")
    parser.add_argument("--reads", metavar="OBJECT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reads:
        reads(arguments.reads)
        return 0
    for program in ("rg", "openssl"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed, and we are measured against it")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        files, found = table(Path(work), arguments.size, arguments.runs)
    rg = subprocess.run(["rg", "--version"], check=True, capture_output=True, text=True).stdout
    method = (
        f"`benchmarks/context.py`: medians of {arguments.runs} turns, whole processes; the ratio "
        f"is the median of the ratios of neighbouring runs. The source is {arguments.size:,} bytes "
        f"of real code ({files:,} Python files of the standard library and of installed packages, "
        "repeated in changing order), in the page cache. `rg -c` is `rg --no-mmap -i -F -c`; our "
        "counts of hits were compared with `rg --count-matches`. We search on all cores, `rg` on "
        "one, as it does with one file."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"stringzilla {version('stringzilla')}, {rg.split(chr(10), maxsplit=1)[0]}, "
        f"load {load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# Long contexts beside their peers", "", method, "", machine, ""]
    lines += [
        "| | rlm-ci | peer | peer's | ratio | target | held |",
        "|---|--:|---|--:|--:|--:|---|",
    ]
    lines += [line for line, _ in found]
    print("\n".join(lines))
    result = TOP / "benchmarks" / "results" / "context.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all(held for _, held in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
