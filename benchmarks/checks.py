"""The checks as whole processes, each beside its peer, in one run: ``make bench``.

For every row the command and its peer run in turn, A B A B …; what counts is the median of
the ratios of neighbours, so that a machine that slows down slows both. Where the target says
"plus start-up", that of our program is taken off first: ``rlm-ci --version`` in the same turn;
the ratio with only a bare start of Python taken off stands beside it.
The histories are made by the same builders as in the tests. The result is written to
``benchmarks/results/checks.md``.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

# The builders of the tests' histories; they are found only now, hence the noqa.
from testing.repositories.archives import BRANCH, archive_stubs  # noqa: E402
from testing.repositories.delegated_runs import guard_runs, registered, write_index  # noqa: E402
from testing.repositories.git_repo import GitRepo, closed_environment  # noqa: E402
from testing.repositories.shapes import large_patch, many_files  # noqa: E402

PYTHON = sys.executable
RLM_CI = str(Path(PYTHON).parent / "rlm-ci")
TASK = "0951-guard"


#: How many times its peer the archive check may take, and why it is not less.
ARCHIVE_TARGET = 5.0
ARCHIVE_REASON = (
    f"doc-archive is held by {ARCHIVE_TARGET:g} times its peer, its own start aside. The peer asks "
    "git for names and sizes, and opens no file of the work tree; the check opens and reads all "
    "3,000. The only other program that does this work takes more than ten times as long."
)


@dataclass(frozen=True)
class Row:
    """What is compared: ``target`` times the peer, plus a start where ``plus_start``."""

    name: str
    command: list[str]
    peer: list[str]
    peer_name: str
    cwd: Path
    target: float
    plus_start: bool = False
    peer_stdin: bytes = b""
    stdin: bytes = b""
    memory: bool = False


@dataclass(frozen=True)
class Sample:
    """One process from start to end: seconds, and the peak of its memory in MB."""

    seconds: float
    megabytes: float


def measure(command: list[str], cwd: Path, stdin: bytes = b"") -> Sample:
    """Run once. The peak is that of the largest process of the tree."""
    environment = {**closed_environment(), "PATH": os.environ["PATH"]}
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        start = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=cwd, stdin=given, stdout=subprocess.DEVNULL, env=environment
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        raise SystemExit(f"{command} ended with {child.returncode}")
    return Sample(seconds, usage.ru_maxrss / 1024)


def rows(work: Path) -> list[Row]:
    """Make the histories, and say what is run on them."""
    bare = [PYTHON, "-I", "-c", "pass"]
    found = []
    for count, target in ((100, 3.5), (10_000, 4.0)):
        repo = GitRepo(work / f"guard-{count}")
        write_index(Path(repo), registered(TASK))
        guard_runs(Path(repo) / ".runs", TASK, count)
        guard = [RLM_CI, "check", "delegation-guard", "--task", TASK]
        name = f"delegation-guard, {count:,} runs"
        found.append(Row(name, guard, bare, "`python -I -c pass`", Path(repo), target))
    wide = many_files(GitRepo(work / "wide"), 3000, 200)
    numstat = ["git", "diff", "--numstat", "-z", "-M", wide.base, wide.head]
    budget = [RLM_CI, "check", "diff-budget", "--base", wide.base, "--head", wide.head]
    cwd = Path(wide.repo)
    found.append(
        Row(
            "diff-budget, 3,000 files of 200 lines",
            budget,
            numstat,
            "its `git diff --numstat -z`",
            cwd,
            1.1,
            True,
        )
    )
    stubs = archive_stubs(GitRepo(work / "stubs"), 3000, 0, mentions=False, checkout=True)
    repo = stubs.repo
    tree = repo.run("ls-tree", "-r", "-z", BRANCH).split(b"\0")
    oids = [row.split(b"\t")[0].split(b" ")[2] for row in tree if row]
    batch = f"git ls-tree -r {BRANCH} >/dev/null && exec git cat-file --batch-check"
    found.append(
        Row(
            "doc-archive, 3,000 stubs",
            [RLM_CI, "check", "doc-archive"],
            ["sh", "-c", batch],
            "`git ls-tree -r` and `git cat-file --batch-check`",
            Path(repo),
            ARCHIVE_TARGET,
            True,
            peer_stdin=b"".join(oid + b"\n" for oid in oids),
        )
    )
    staged = weakened_tests(GitRepo(work / "tests"))
    blobs = "HEAD:cart.py :cart.py HEAD:tests/test_3.py :tests/test_3.py"
    read = f"printf '%s\\n' {blobs} | git cat-file --batch --buffer"
    git = f"git diff-index --cached --raw HEAD && {read}"
    bare_thrice = " && ".join([f"{PYTHON} -I -c pass"] * 3)
    found.append(
        Row(
            "test-guard, staged tests",
            [RLM_CI, "check", "test-guard", "--staged"],
            ["sh", "-c", f"{bare_thrice} && {git}"],
            "3 × `python -I -c pass`, and what it asks git",
            Path(staged),
            1.0,
        )
    )
    found += agent_hooks(work)
    large = large_patch(GitRepo(work / "patch"), 40)
    numstat = ["git", "diff", "--numstat", "-z", "-M", large.base, large.head]
    budget = [RLM_CI, "check", "diff-budget", "--base", large.base, "--head", large.head]
    found.append(
        Row("diff-budget, 40-MB patch: peak memory", budget, numstat, "its `git diff --numstat -z`",
            Path(large.repo), 1.5, memory=True)
    )  # fmt: skip
    return found


def agent_hooks(work: Path) -> list[Row]:
    """A stop that has nothing to say, and one that judges 20 changed files."""
    found = []
    hook = [RLM_CI, "agent-hook", "stop", "--agent", "claude"]
    guard = [RLM_CI, "check", "delegation-guard", "--task", TASK]
    for name, peer, peer_name, target in (
        ("agent-hook stop, nothing changed", guard, "delegation-guard, 10,000 runs", 1.0),
        ("agent-hook stop, 20 files", [RLM_CI, "check"], "`rlm-ci check`", 1.5),
    ):
        repo = GitRepo(work / name.replace(" ", "-"))
        test = "def test_{0}():\n    assert {0} == {0}\n    assert {0} > -1\n"
        paths = [f"tests/test_{number}.py" for number in range(400)]
        repo.write_all({path: test.format(at) for at, path in enumerate(paths)})
        # A stop that is held is judged again the next time.
        repo.write(".gitignore", ".runs/\n")
        repo.write("rlm-ci.toml", "[agent_hooks]\nmax_blocks = 1000\n").commit()
        write_index(Path(repo), registered(TASK))
        guard_runs(Path(repo) / ".runs", TASK, 10_000 if peer is guard else 1)
        event = f'{{"session_id": "s", "cwd": "{repo.path}"}}'.encode()
        measure([RLM_CI, "agent-hook", "session-start", "--agent", "claude"], repo.path, event)
        if peer is not guard:
            for path in paths[:20]:
                repo.write(path, "def test():\n    pass\n")
        found.append(Row(name, hook, peer, peer_name, repo.path, target, stdin=event))
    return found


def weakened_tests(repo: GitRepo) -> GitRepo:
    """A repository with a staged change of a test and of the code."""
    test = "from cart import total\n\n\ndef test_{0}():\n    assert total([{0}]) == {0}\n"
    repo.write_all({f"tests/test_{number}.py": test.format(number) for number in range(100)})
    repo.write("cart.py", "def total(cart):\n    return sum(cart)\n").commit()
    repo.write("cart.py", "def total(cart):\n    return max(cart)\n")
    return repo.write("tests/test_3.py", test.format(3).replace("== 3", "> 0")).stage()


def compare(row: Row, runs: int) -> tuple[str, bool]:
    """A line of the table, and whether the target holds."""
    own, peer, starts, bares = [], [], [], []
    for number in range(runs + 1):
        a = measure(row.command, row.cwd, row.stdin)
        b = measure(row.peer, row.cwd, row.peer_stdin)
        if row.plus_start:
            start = measure([RLM_CI, "--version"], row.cwd).seconds
            bare = measure([PYTHON, "-I", "-c", "pass"], row.cwd).seconds
        else:
            start = bare = 0.0
        if number:  # the first one warms the caches
            own.append(a.megabytes if row.memory else a.seconds)
            peer.append(b.megabytes if row.memory else b.seconds)
            starts.append(start)
            bares.append(bare)
    unit, scale = ("MB", 1.0) if row.memory else ("ms", 1000.0)
    ratio = statistics.median(a / b for a, b in zip(own, peer, strict=True))
    net = statistics.median((a - s) / b for a, s, b in zip(own, starts, peer, strict=True))
    strict = statistics.median((a - s) / b for a, s, b in zip(own, bares, peer, strict=True))
    held = net <= row.target
    target = f"{row.target:g}×" + (" plus start-up" if row.plus_start else "")
    without = f" ({net:.2f}× without start-up, {strict:.2f}× without Python's alone)"
    without = without if row.plus_start else ""
    line = (
        f"| {row.name} | {statistics.median(own) * scale:.1f} {unit} | {row.peer_name} | "
        f"{statistics.median(peer) * scale:.1f} {unit} | {ratio:.2f}×{without} | {target} | "
        f"{'yes' if held else 'no'} |"
    )
    return line, held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=15, help="counted runs of each command")
    parser.add_argument("--only", default="", help="rows with this in their name; none is written")
    arguments = parser.parse_args()
    # Compiled code as an installed package has it, and no tests' leftovers in the figures.
    subprocess.run([PYTHON, "-m", "compileall", "-q", str(TOP / "rlm_ci")], check=True)
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    method = (
        f"`make bench`: medians of {arguments.runs} runs in turn, whole processes; the ratio is "
        "the median of the ratios of neighbouring runs."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{git.strip()}, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# The checks beside their peers", "", method, "", machine, ""]
    lines += [
        "| | rlm-ci | peer | peer's | ratio | target | held |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines[4:]), flush=True)
    all_held = True
    with tempfile.TemporaryDirectory() as work:
        for row in rows(Path(work)):
            if arguments.only not in row.name:
                continue
            line, held = compare(row, arguments.runs)
            print(line, flush=True)
            lines.append(line)
            all_held = all_held and held
    lines += ["", ARCHIVE_REASON]
    if not arguments.only:
        result = TOP / "benchmarks" / "results" / "checks.md"
        result.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"written: {result.relative_to(TOP)}")
    return 0 if all_held else 1


if __name__ == "__main__":
    raise SystemExit(main())
