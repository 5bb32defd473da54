"""The fix loop's own time in an iteration: ``python benchmarks/loop.py``.

Agent and validator answer at once, so nearly all of an iteration is ours: prompt, trees, facts on
the disk, the tamper guard, patch and state. An iteration lasts from one tick of the run's record
to the next. The peer is the bare cost of what was run in it: the same two commands in bubblewrap,
or three questions by a plain HTTP client and one command. Ours and the peer's are measured in
turn; what counts is the difference. The canary is measured as a ratio to a run of the validator,
with both in the same run of the loop. The result is written to ``benchmarks/results/loop.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

# The builders and the model of the tests; they are found only now, hence the noqa.
from rlm_ci import errors  # noqa: E402
from testing.loopback_model.replies import Answer, Call  # noqa: E402
from testing.loopback_model.server import Asked, ModelServer  # noqa: E402
from testing.repositories.git_repo import GitRepo, closed_environment  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

RLM_CI = str(Path(sys.executable).parent / "rlm-ci")
TARGET = 150.0
FILES, CALLS = 200, 3
#: The agent edits one line; the validator says no and nothing else.
EDITED = "edited.txt"
AGENT = ["sh", "-c", f"read n < {EDITED}; echo $((n + 1)) > {EDITED}"]
VALIDATOR = ["false"]
KEY = "sk-loopback-0123456789abcdef"
#: The canary: at most so many runs of the validator, on so many tests that take some seconds.
RATIO, SLOW_RATIO = 3.0, 4.0
TEST_FILES, TESTS = 15, 20
PROPERTY_FILES, PROPERTIES, GO_TESTS = 4, 10, 60
WORK = """
def value{number}(start: int) -> int:
    data = str(start).encode()
    for _ in range({rounds}):
        data = sha256(data).digest()
    return start * {factor} + len(data)
"""
TEST = """
def test_value{number}() -> None:
    assert value{number}({start}) == {expected}
    assert value{number}(0) != {start}
"""
PROPERTY = """
@given(st.integers(0, 1000))
def test_value{number}(start: int) -> None:
    assert value{number}(start) == start * {factor} + 32
"""
GO_WORK = """
func Value{number}(start int) int {{
	data := []byte{{byte(start)}}
	for round := 0; round < 200000; round++ {{
		sum := sha256.Sum256(data)
		data = sum[:]
	}}
	return start*{factor} + len(data)
}}
"""
GO_TEST = """
func TestValue{number}(t *testing.T) {{
	if got := Value{number}(3); got != {expected} {{
		t.Errorf("got %d, want %d", got, {expected})
	}}
}}
"""


@dataclass(frozen=True)
class Case:
    """A repository, and who works on it: a command, or the built-in agent at ``url``."""

    name: str
    repository: Path
    url: str = ""

    @property
    def commands(self) -> list[list[str]]:
        return [VALIDATOR] if self.url else [AGENT, VALIDATOR]


@dataclass(frozen=True)
class Sample:
    """Milliseconds of one iteration, and of what a run takes besides its iterations."""

    wall: float
    cpu: float
    around: float = 0.0


# -- ours ---------------------------------------------------------------------------------------


def fix(case: Case, iterations: int, path: str | None = None) -> tuple[list[float], float, float]:
    """Run so many iterations: the milliseconds of each, and wall and CPU of the whole process."""
    shutil.rmtree(case.repository / ".runs", ignore_errors=True)
    script = case.repository / "agent.sh"
    script.write_text(AGENT[2] + "\n", encoding="utf-8")
    who = ["--agent", "openai", "--model", "m-1"] if case.url else ["--agent", "sh agent.sh"]
    argv = [RLM_CI, "rlm", "be fast", *who, "--validator", *VALIDATOR, "--quiet"]
    argv += ["--max-iterations", str(iterations)]
    environment = {**closed_environment(), "PATH": path or os.environ["PATH"]}
    if case.url:
        environment |= {"OPENAI_BASE_URL": case.url, "OPENAI_API_KEY": KEY}
    cpu, start = children(), time.perf_counter()
    done = subprocess.run(
        argv, check=False, cwd=case.repository, env=environment, capture_output=True
    )
    whole, taken = (time.perf_counter() - start) * 1000, children() - cpu
    if done.returncode != errors.LIMIT:
        raise SystemExit(f"rlm ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    (journal,) = case.repository.glob(".runs/*/cli/*/calls.jsonl")
    records = map(json.loads, journal.read_bytes().splitlines())
    facts = (one for one in records if one["type"] == "fact" and one["kind"] == "clock")
    ticks = [one["value"]["seconds"] * 1000 for one in facts]
    if len(ticks) != iterations + 1:
        raise SystemExit(f"{iterations} iterations were asked for, and {len(ticks) - 1} were done")
    return [after - before for before, after in pairwise(ticks)], whole, taken


def ours(case: Case, iterations: int) -> Sample:
    """A run of one iteration is what the CPU of a longer one is compared with."""
    first, alone, alone_cpu = fix(case, 1)
    found, _, cpu = fix(case, iterations)
    per_iteration = (cpu - alone_cpu) / (iterations - 1)
    return Sample(statistics.median(found), per_iteration, alone - first[0])


# -- the peer -----------------------------------------------------------------------------------


def bare(case: Case, iterations: int) -> Sample:
    """The same commands with as little around them as there can be, and the same calls."""
    root = str(case.repository)
    isolated = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    places = ["--ro-bind", "/", "/", "--bind", root, root, "--proc", "/proc", "--dev", "/dev"]
    walls = []
    cpu = children()
    for _ in range(iterations):
        start = time.perf_counter()
        if case.url:
            ask(case.url)
        for command in case.commands:
            argv = [*isolated, *places, "--", *command]
            subprocess.run(argv, check=False, cwd=root, capture_output=True)
        walls.append((time.perf_counter() - start) * 1000)
    return Sample(statistics.median(walls), (children() - cpu) / iterations)


def ask(url: str) -> None:
    """A question and its answer, as often as the built-in agent asks in an iteration."""
    where = urlsplit(url)
    connection = HTTPConnection(where.netloc)
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": "fast"}]})
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    for _ in range(CALLS):
        connection.request("POST", f"{where.path}/chat/completions", body, headers)
        connection.getresponse().read()
    connection.close()


def children() -> float:
    """Milliseconds of CPU of all children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


# -- side by side -------------------------------------------------------------------------------


def git_processes(case: Case, work: Path) -> float:
    """How many are started in an iteration: counted by a program of that name before git."""
    folder, log = work / "counting", work / "started"
    folder.mkdir(exist_ok=True)
    program = folder / "git"
    real = shutil.which("git")
    program.write_text(f'#!/bin/sh\necho >> {log}\nexec {real} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    found = []
    for iterations in (1, 5):
        log.unlink(missing_ok=True)
        fix(case, iterations, f"{folder}:{os.environ['PATH']}")
        found.append(len(log.read_bytes()))
    return (found[1] - found[0]) / 4


def compare(case: Case, runs: int, iterations: int, processes: float) -> tuple[str, bool]:
    """A line of the table, and whether the target holds."""
    pairs = []
    for turn in range(runs + 1):
        pair = (ours(case, iterations), bare(case, iterations))
        if turn:  # the first one warms the caches
            pairs.append(pair)
    own = statistics.median(a.wall - b.wall for a, b in pairs)
    cpu = statistics.median(a.cpu - b.cpu for a, b in pairs)
    whole = statistics.median(a.wall for a, _ in pairs)
    peer = statistics.median(b.wall for _, b in pairs)
    around = statistics.median(a.around for a, _ in pairs)
    held = own <= TARGET
    line = (
        f"| {case.name} | {whole:.0f} ms | {peer:.0f} ms | {own:.0f} ms | {cpu:.0f} ms | "
        f"{processes:.0f} | {around:.0f} ms | {TARGET:.0f} ms | {'yes' if held else 'no'} |"
    )
    return line, held


# -- the canary ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suite:
    """A project with one fault, and ``mend.sh`` that mends it; at most ``ratio`` validator runs."""

    title: str
    repository: Path
    validator: str
    claims: int
    ratio: float


def suites(work: Path) -> Iterator[Suite]:
    """Tests of pytest, properties of hypothesis, and, where there is a toolchain, tests of Go."""
    yield Suite(
        f"{TEST_FILES * TESTS} tests of pytest, one of them mended",
        python_suite(work / "pytest", TEST_FILES, TESTS, TEST, rounds=12_000),
        "python -m pytest",
        TEST_FILES * TESTS,
        RATIO,
    )
    yield Suite(
        f"{PROPERTY_FILES * PROPERTIES} properties of hypothesis, one of them mended",
        python_suite(work / "hypothesis", PROPERTY_FILES, PROPERTIES, PROPERTY, rounds=400),
        "python -m pytest",
        PROPERTY_FILES * PROPERTIES,
        SLOW_RATIO,
    )
    if shutil.which("go"):
        yield Suite(
            f"{GO_TESTS} tests of Go, one of them mended",
            go_suite(work / "go"),
            "go test ./...",
            GO_TESTS,
            SLOW_RATIO,
        )


def python_suite(folder: Path, files: int, tests: int, template: str, *, rounds: int) -> Path:
    repo = GitRepo(folder).write("work/__init__.py", "")
    for at in range(files):
        rows = [(number, number + 2, at + 1) for number in range(tests)]
        works = [
            WORK.format(number=number, factor=factor, rounds=rounds) for number, factor, _ in rows
        ]
        cases = [
            template.format(number=number, start=start, factor=factor, expected=start * factor + 32)
            for number, factor, start in rows
        ]
        names = ", ".join(f"value{number}" for number, _, _ in rows)
        repo.write(f"work/part{at}.py", "from hashlib import sha256\n\n" + "\n".join(works))
        imports = "from hypothesis import given, strategies as st\n" if "@given" in template else ""
        imports += f"from work.part{at} import {names}\n\n"
        repo.write(f"tests/test_part{at}.py", imports + "\n".join(cases))
    return with_fault(repo, "work/part0.py", "start * 2 ", "start * 3 ")


def go_suite(folder: Path) -> Path:
    repo = GitRepo(folder).write("go.mod", "module work\n\ngo 1.19\n")
    rows = [(number, number + 2) for number in range(GO_TESTS)]
    head = 'package work\n\nimport "crypto/sha256"\n'
    repo.write("work.go", head + "".join(GO_WORK.format(number=n, factor=f) for n, f in rows))
    tests = "".join(GO_TEST.format(number=n, expected=3 * f + 32) for n, f in rows)
    repo.write("work_test.go", 'package work\n\nimport "testing"\n' + tests)
    return with_fault(repo, "work.go", "start*2 ", "start*3 ")


def with_fault(repo: GitRepo, path: str, right: str, wrong: str) -> Path:
    text = (Path(repo) / path).read_text(encoding="utf-8")
    repo.write("right.txt", text).write(path, text.replace(right, wrong, 1))
    repo.write("mend.sh", f"cat right.txt > {path}\n").commit("all of it")
    return Path(repo)


def probed(suite: Suite) -> tuple[float, float]:
    """Seconds of a run of the validator, and of the canary: all that it takes, in one fix."""
    repository = suite.repository
    shutil.rmtree(repository / ".runs", ignore_errors=True)
    argv = [RLM_CI, "rlm", "mend it", "--agent", "sh mend.sh", "--validator", suite.validator]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**closed_environment(), "PATH": path}
    done = subprocess.run(
        [*argv, "--no-apply"],
        check=False, cwd=repository, env=environment, capture_output=True,
    )  # fmt: skip
    printed = " ".join((done.stdout + done.stderr).decode().split())
    if done.returncode or f"{suite.claims} tests can fail" not in printed:
        raise SystemExit(f"rlm ended with {done.returncode}: {printed[-2000:]}")
    (run,) = repository.glob(".runs/*/cli/*/")
    records = map(json.loads, (run / "calls.jsonl").read_bytes().splitlines())
    seconds = [
        record["value"]["seconds"]
        for record in records
        if record["type"] == "fact" and record["kind"] == "validator"
        if record["place"].startswith("validator-")
    ]
    events = list(map(json.loads, (run / "events.jsonl").read_bytes().splitlines()))
    times = [datetime.fromisoformat(event["timestamp"]).timestamp() for event in events]
    (begin,) = (
        at for at, event in enumerate(events) if "canary" in event["payload"].get("summary", "")
    )
    return statistics.median(seconds), times[begin + 1] - times[begin]


def compare_canary(suite: Suite, runs: int) -> tuple[str, bool]:
    """A line of the table, and whether the target holds."""
    pairs = [probed(suite) for _ in range(runs + 1)][1:]
    ratio = statistics.median(canary / validator for validator, canary in pairs)
    validator = statistics.median(validator for validator, _ in pairs)
    canary = statistics.median(canary for _, canary in pairs)
    is_held = ratio <= suite.ratio
    return (
        f"| {suite.title} | {validator:.1f} s | {canary:.1f} s "
        f"| {ratio:.2f}× | {suite.ratio:.0f}× | {'yes' if is_held else 'no'} |"
    ), is_held


# -- all of it ----------------------------------------------------------------------------------


def repositories(work: Path) -> tuple[Path, Path]:
    """One of many small files, and this project's own."""
    small = GitRepo(work / "small")
    for number in range(FILES):
        text = "".join(f"line {line} of file {number}\n" for line in range(40))
        small.write(f"source/part{number}.txt", text)
    large = GitRepo(work / "large")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=TOP, check=True, capture_output=True).stdout
    for name in filter(None, os.fsdecode(names).split("\0")):
        source, target = TOP / name, Path(large) / name
        if source.is_file() and not source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for repo in (small, large):
        repo.write(EDITED, "0\n").write("agent.sh", AGENT[2] + "\n")
        repo.commit("all of it")
    return Path(small), Path(large)


@contextmanager
def model() -> Iterator[str]:
    """The address of one that writes a line, reads it, and is done; a process of its own."""
    argv = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        if not served.stdout:
            raise SystemExit("the model did not start")
        yield served.stdout.readline().strip()
        served.communicate(timeout=10)  # closes stdin, at which it ends


def serve() -> None:
    numbers = count(1)

    def answer(asked: Asked) -> Answer:
        said = sum(message["role"] == "assistant" for message in asked.messages)
        if said == 0:
            written = {"path": EDITED, "content": f"{next(numbers)}\n"}
            return Answer(None, [Call("write", json.dumps(written))])
        if said == 1:
            return Answer(None, [Call("read", json.dumps({"path": EDITED}))])
        return Answer(None, [Call("done", json.dumps({"summary": "one line"}))])

    with ModelServer(answer, key=KEY) as served:
        print(served.url, flush=True)
        sys.stdin.read()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=7, help="counted runs of each side")
    parser.add_argument("--iterations", type=int, default=12, help="of each of these runs")
    parser.add_argument("--probes", type=int, default=3, help="counted runs with the canary")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    load = os.getloadavg()[0]
    method = (
        f"`benchmarks/loop.py`: medians of {arguments.runs} runs of each side in turn, with "
        f"{arguments.iterations} iterations each. Our own time is that of an iteration without "
        "what the peer takes: the same commands in a bare bubblewrap, the same calls. Start and "
        "end are those of the whole program, sandbox probe and snapshot included."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{load:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# An iteration of the fix loop, nobody else taking any time", "", method, ""]
    lines += [machine, ""]
    heads = ["", "an iteration", "peer's", "our own", "our own CPU", "gits started"]
    heads += ["start and end", "target", "held"]
    lines += [
        f"| {' | '.join(heads)} |".replace("|  |", "| |"),
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    print("\n".join(lines[-2:]), flush=True)
    all_held = True
    with tempfile.TemporaryDirectory() as work, model() as url:
        small, large = repositories(Path(work))
        files = sum(1 for one in large.rglob("*") if one.is_file() and ".git" not in one.parts)
        for case in (
            Case(f"{FILES} files, a command as agent", small),
            Case(f"{FILES} files, the built-in agent with {CALLS} calls", small, url),
            Case(f"this project's {files} files, a command", large),
        ):
            processes = git_processes(case, Path(work))
            line, held = compare(case, arguments.runs, arguments.iterations, processes)
            print(line, flush=True)
            lines.append(line)
            all_held = all_held and held
        lines += ["", "## The canary, beside one run of the validator", ""]
        lines += ["Medians as above. All that the canary takes counts: fresh copies and the last"]
        lines[-1] += " run without pytest's variables as well. Each test does some work."
        lines += ["", "| | the validator | the canary | ratio | target | held |"]
        lines += ["|---|--:|--:|--:|--:|---|"]
        for suite in suites(Path(work)):
            line, held = compare_canary(suite, arguments.probes)
            print(line, flush=True)
            lines.append(line)
            all_held = all_held and held
    result = TOP / "benchmarks" / "results" / "loop.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all_held else 1


if __name__ == "__main__":
    raise SystemExit(main())
