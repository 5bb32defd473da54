"""The recursion over a repository, measured: ``python benchmarks/recursion.py``.

What it costs to schedule and to journal a node, with leaves that return at once; to go on with a
run that was killed; how much longer than its calls a run with a model takes; and what the wiki of a
large library takes, anew and again. Each sample is a process of its own. The model is on loopback,
and costs next to nothing. The result is written to ``benchmarks/results/recursion.md``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

TOP = Path(__file__).resolve().parent.parent
NODES = (1_000, 10_000, 100_000)
#: On a processor: microseconds of a node, seconds of going on. MiB; wall beside the ideal.
NODE_TARGET, RESUME_TARGET, MEMORY_TARGET, WALL_TARGET = 60.0, 5.0, 1024.0, 1.10
#: Seconds of a wiki of CPython's library, and of the same when nothing has changed.
FIRST_TARGET, AGAIN_TARGET = 60.0, 3.0
DELAY, CONCURRENCY, LEAVES = 0.2, 32, 480
FAN = 64


# ── in the child ──


def analyse(_task: object) -> dict[str, Any]:
    return {}


class AtOnce:
    """An objective with nothing to do; with a model, one question a leaf."""

    name, domain = "at-once", None
    options: Mapping[str, Any] = {}
    analyse = staticmethod(analyse)

    def judge(self, node: Any, _task: object, _analysis: object, ask: Any) -> Any:
        from rlm_ci.recursion.nodes import COMPLETED, NodeResult

        if ask is not None:
            text = f"question about {node.scope.path} {node.scope.first}"
            ask("find", ({"role": "user", "content": text},))
        return NodeResult(node.id, COMPLETED, "", 1.0)

    def aggregate(self, node: Any, _children: Sequence[Any], _ask: object) -> Any:
        from rlm_ci.recursion.nodes import COMPLETED, NodeResult

        return NodeResult(node.id, COMPLETED, "", 1.0)


def path_of(number: int) -> str:
    """``p000/m01/d02/f03.py``: digits to the base of ``FAN``."""
    parts = (number // FAN**3, number // FAN**2 % FAN, number // FAN % FAN, number % FAN)
    return "p{:03}/m{:02}/d{:02}/f{:02}.py".format(*parts)


def corpus(leaves: int) -> Any:
    """So many small files in folders of folders; nobody reads them from a disk."""
    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile

    files = tuple(CorpusFile.of((path_of(at), "0" * 40, 1)) for at in range(leaves))
    found = Corpus(None, files, (), lambda some: [b"\n"] * len(some))
    assert found.digest
    return found


def solve(folder: str, leaves: int, ask: Any = None) -> tuple[float, float, int]:
    """Seconds that a run took, those of them on a processor, and its nodes."""
    from rlm_ci.recursion.journal.journal import Journals
    from rlm_ci.recursion.scheduler import Budget, Constraints
    from rlm_ci.recursion.solver import RLM
    from rlm_ci.recursion.tree_split import TreeShape

    files = corpus(leaves)
    began, worked = time.perf_counter(), time.process_time()
    with Journals.open(folder) as store:
        rlm = RLM(files, store, ask=ask)
        shape = TreeShape(leaf_files=1, most_parts=FAN)
        constraints = Constraints(shape=shape, concurrency=CONCURRENCY)
        result = rlm.solve(rlm.root, AtOnce(), Budget(), constraints)
    took, worked = time.perf_counter() - began, time.process_time() - worked
    if result.status != "completed":
        raise SystemExit(f"the run is {result.status}: {result.uncovered[:3]}")
    with open(os.path.join(folder, "run.json"), encoding="utf-8") as stream:
        return took, worked, json.load(stream)["progress"]["nodes_total"]


def overhead(folder: str, leaves: str) -> list[float]:
    _, worked, nodes = solve(folder, int(leaves))
    return [worked / nodes * 1e6, nodes, peak()]


def peak() -> float:
    """MiB at most of this process. Not ``ru_maxrss``, which begins with that of who started it."""
    with open("/proc/self/status", encoding="ascii") as stream:
        line = next(line for line in stream if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def going_on(folder: str, leaves: str) -> list[float]:
    _, worked, _ = solve(folder, int(leaves))
    return [worked, peak()]


def asking(folder: str, url: str) -> list[float]:
    """Seconds of a run with a model, journalled and budgeted as any."""
    from rlm_ci.models import ModelRequest
    from rlm_ci.models.budget import Ledger
    from rlm_ci.models.openai.client import OpenAIModel
    from rlm_ci.models.record.record import Record

    ledger = Ledger(max_calls=10**6, max_tokens=10**12)
    model = OpenAIModel(base_url=url, api_key="sk-loopback-0123456789abcdef")
    with model, Record.open(os.path.join(folder, "calls.jsonl"), redact=str) as record:

        def ask_of(node: Any) -> Any:
            def ask(step: str, messages: Any, **_: Any) -> Any:
                request = ModelRequest("m-1", tuple(messages), 1000)
                return record.complete(model, ledger, request, f"{node.id}/{step}")

            return ask

        first = ModelRequest("m-1", ({"role": "user", "content": "imports, the connection"},), 1000)
        record.complete(model, ledger, first, "first")
        took, _, _ = solve(os.path.join(folder, "rlm"), LEAVES, ask_of)
    return [took]


CHILDREN = {"overhead": overhead, "resume": going_on, "model": asking}


# ── in the parent ──


@contextmanager
def service(delay: float) -> Iterator[str]:
    """A model that takes ``delay`` seconds; its base URL."""
    argv = [sys.executable, "-m", "testing.loopback_model", "--delay", str(delay)]
    environment = {**os.environ, "PYTHONPATH": str(TOP / "tests")}
    with subprocess.Popen(
        argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if not process.stdout:
            raise SystemExit("the model service did not start")
        yield process.stdout.readline().strip()
        process.communicate(timeout=10)  # closes stdin, at which it ends


def child(name: str, folder: Path, argument: object) -> list[float]:
    argv = [sys.executable, __file__, "--child", name, str(folder), str(argument)]
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        argv, check=True, stdout=subprocess.PIPE, text=True, cwd=TOP, env=environment
    )
    found: list[float] = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Row:
    name: str
    measured: str
    target: str
    held: bool

    def line(self) -> str:
        return f"| {self.name} | {self.measured} | {self.target} | {'yes' if self.held else 'no'} |"


def fresh(work: Path) -> Path:
    folder = work / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def node_rows(work: Path, sizes: Sequence[int], runs: int) -> list[Row]:
    rows: list[Row] = []
    figures: list[float] = []
    samples: list[list[float]] = []
    for leaves in sizes:
        samples = [child("overhead", fresh(work), leaves) for _ in range(runs)]
        figure = statistics.median(sample[0] for sample in samples)
        figures.append(figure)
        name = f"a node, of {int(samples[0][1]):,}"
        rows.append(Row(name, f"{figure:.1f} µs", f"{NODE_TARGET:g} µs", figure <= NODE_TARGET))
    rows.append(memory_row(statistics.median(sample[2] for sample in samples)))
    if len(figures) > 2:
        ratio = figures[-1] / figures[1]
        rows.append(Row("… the largest run beside that of 10,000", f"{ratio:.2f}×", "1.5×",
                        ratio <= 1.5))  # fmt: skip
    return rows


def memory_row(memory: float) -> Row:
    name = "… peak of the process"
    return Row(name, f"{memory:.0f} MiB", f"{MEMORY_TARGET:g} MiB", memory <= MEMORY_TARGET)


def resume_rows(work: Path, leaves: int, runs: int) -> list[Row]:
    """Going on with a run whose journals each lack their last 300 records."""
    whole = fresh(work)
    child("overhead", whole, leaves)
    cut_tail(whole, 300)
    samples = []
    for _ in range(runs):
        again = work / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(whole, again)
        samples.append(child("resume", again, leaves))
    seconds, memory = (statistics.median(figures) for figures in zip(*samples, strict=True))
    with open(whole / "run.json", encoding="utf-8") as stream:
        nodes = json.load(stream)["progress"]["nodes_total"]
    return [
        Row(f"going on with a run of {nodes:,} nodes", f"{seconds:.2f} s",
            f"{RESUME_TARGET:g} s", seconds <= RESUME_TARGET),
        memory_row(memory),
    ]  # fmt: skip


def cut_tail(folder: Path, count: int) -> None:
    """As if it had been killed before the last ``count`` records of each journal."""
    for name in ("results.jsonl", "nodes.jsonl", "queue.jsonl"):
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(lines[:-count]))


def model_rows(work: Path, runs: int) -> list[Row]:
    ideal = max(DELAY, LEAVES * DELAY / CONCURRENCY)
    with service(DELAY) as url:
        samples = [child("model", fresh(work), url)[0] for _ in range(runs)]
    ratio = statistics.median(samples) / ideal
    name = f"{LEAVES} calls of {DELAY * 1000:.0f} ms, {CONCURRENCY} at once"
    return [Row(name, f"{ratio:.3f} × {ideal:.1f} s", f"{WALL_TARGET:.2f}×", ratio <= WALL_TARGET)]


def wiki_rows(work: Path, runs: int) -> list[Row]:
    """Whole processes: the first wiki of CPython's library, and one of the unchanged tree."""
    lib = work / "Lib"
    ignored = shutil.ignore_patterns("site-packages", "__pycache__")
    shutil.copytree(sysconfig.get_path("stdlib"), lib, ignore=ignored)
    author = ("-c", "user.name=Lib", "-c", "user.email=lib@example.com")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "Lib")):
        subprocess.run(["git", "-C", str(lib), *command], check=True)
    out = work / "wiki"
    argv = [str(Path(sys.executable).parent / "rlm-ci"), "wiki", "--out", str(out)]
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for folder in (out, lib / ".runs", lib / "out"):
            shutil.rmtree(folder, ignore_errors=True)
        for found in figures:
            start = time.perf_counter()
            subprocess.run(argv, check=True, cwd=lib, capture_output=True)
            found.append(time.perf_counter() - start)
    first, second = map(statistics.median, figures)
    lines = sum(path.read_bytes().count(b"\n") for path in lib.rglob("*.py"))
    return [
        Row(f"wiki of CPython's library, {lines:,} lines of Python", f"{first:.1f} s",
            f"{FIRST_TARGET:g} s", first <= FIRST_TARGET),
        Row("… again, nothing changed", f"{second:.2f} s", f"{AGAIN_TARGET:g} s",
            second <= AGAIN_TARGET),
    ]  # fmt: skip


def rows(work: Path, arguments: argparse.Namespace) -> list[Row]:
    sizes = [size for size in NODES if size <= arguments.largest]
    parts: list[Callable[[], list[Row]]] = [
        lambda: node_rows(work, sizes, arguments.runs),
        lambda: resume_rows(work, sizes[-1], arguments.runs),
        lambda: model_rows(work, arguments.runs),
        lambda: wiki_rows(work, arguments.runs),
    ]
    return [row for part in parts for row in part()]


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        from rlm_ci.__main__ import COLLECT_FROM

        gc.set_threshold(COLLECT_FROM, 20, 20)  # as in the program
        name, *more = sys.argv[2:]
        print(json.dumps(CHILDREN[name](*more)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=3, help="counted turns")
    parser.add_argument("--largest", type=int, default=NODES[-1], help="leaves of the largest run")
    parser.add_argument("--work", type=Path, help="where to make a temporary folder")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    method = (
        f"`benchmarks/recursion.py`: medians of {arguments.runs} processes. A node is all that "
        "happens to it: it is parted, decided on, scheduled, given to an objective that returns at "
        "once, put together with its siblings and written to three journals, synced ten times a "
        "second. Times of nodes and of going on are those on a processor, without the disk's. The "
        "model is a server on loopback."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# The recursion over a repository", "", method, "", machine, ""]
    lines += ["| | measured | target | held |", "|---|--:|--:|---|"]
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        found = rows(Path(work), arguments)
    lines += [row.line() for row in found]
    print("\n".join(lines))
    result = TOP / "benchmarks" / "results" / "recursion.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all(row.held for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
