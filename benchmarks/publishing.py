"""Posting a report beside a plain PyGithub script that does the naive same: ``make bench``.

GitHub is the loopback one of the tests, in a process of its own. Each sample is a process too,
on a pull request of its own where a first run has left its summary; a push followed, and now
its findings are posted. Requests and writes are counted by the server; CPU time is that of the
client's process from the moment when everything is imported, its git processes included. Both
sides wait a second between two writes, as GitHub asks. The result is written to
``benchmarks/results/publishing.md``.
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
sys.path[:0] = [str(TOP), str(TOP / "tests")]

# They are found only now, hence the noqa.
from testing.loopback_github.process import GitHubProcess  # noqa: E402
from testing.repositories.git_repo import GitRepo, closed_environment  # noqa: E402

NAME, TOKEN = "acme/shop", "t-bot"
FILES, LINES = 300, 12
#: Findings of a run, and what is allowed for it: requests and milliseconds of CPU; None: no target.
CASES: tuple[tuple[int, int | None, int | None], ...] = ((20, 8, 150), (500, None, None))
_MARKER = "<!-- naive -->"


@dataclass(frozen=True)
class Sample:
    requests: int
    writes: int
    seconds: float
    cpu: float


# ── in the child ──


def ours(url: str, git: str, number: int, findings: int, run: str) -> float:
    """Post by our publisher; the seconds of CPU after imports."""
    import httpcore2  # noqa: F401 - what is imported late counts as imported
    import httpx2  # noqa: F401
    import jinja2  # noqa: F401
    import unidiff  # noqa: F401

    from rlm_ci.change import change_set
    from rlm_ci.git.repository import Repository, discover
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting import publisher
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.report.findings import Finding, Location, Part, Report, Severity, Subject
    from rlm_ci.report.formats import markdown  # noqa: F401

    head = "main" if run == "first" else "feature"
    change = change_set.from_range(
        Repository(*discover(git), dict(os.environ)), "base", head, "benchmark"
    )
    found = tuple(
        Finding(f"x/r{line}", Severity.HIGH, f"problem in {path}", "mend it",
                (Location(path, line, line, quote=f"row {line}"),))
        for path, line in _places(findings)
    )  # fmt: skip
    subject = Subject(NAME, change.base, change.head, change.merge_base, pull_request=number)
    report = Report(subject, Severity.HIGH, (Part("x", "what it says", {}, found),))
    destination = Destination(NAME, number, change.head or "")
    began = _cpu()
    result = publisher.Publisher(
        GitHubClient(TOKEN, url), destination, report, run=run,
        diff=change.diff,
    ).publish()  # fmt: skip
    took = _cpu() - began
    if not result.ok:
        raise SystemExit(f"not posted: {result.to_dict()}")
    return took


def naive(url: str, git: str, number: int, findings: int, run: str) -> float:
    """The same by PyGithub alone: no marker's author, no known findings, no second look."""
    from github import Auth, Github

    del git
    rows: list[Any] = [
        {"path": path, "line": line, "side": "RIGHT", "body": f"**high** problem in {path}"}
        for path, line in _places(findings)
    ]
    began = _cpu()
    client = Github(auth=Auth.Token(TOKEN), base_url=url)
    repo = client.get_repo(NAME)
    pull = repo.get_pull(number)
    text = "\n".join(
        [_MARKER, run, *(f"- {row['path']}:{row['line']} {row['body']}" for row in rows)]
    )
    known = next((c for c in pull.get_issue_comments() if c.body.startswith(_MARKER)), None)
    if known:
        known.edit(text[:65_000])
    else:
        pull.create_issue_comment(text[:65_000])
    head = repo.get_commit(pull.head.sha)
    if run != "first":
        pull.create_review(commit=head, body="see below", event="COMMENT", comments=rows[:50])
    notes: list[Any] = [
        {"path": row["path"], "start_line": row["line"], "end_line": row["line"],
         "annotation_level": "failure", "message": row["body"]}
        for row in rows
    ]  # fmt: skip
    output: dict[str, Any] = {"title": "findings", "summary": text[:65_000]}
    made = repo.create_check_run(
        "naive", head.sha, status="completed", conclusion="failure",
        output={**output, "annotations": notes[:50]},
    )  # fmt: skip
    for start in range(50, len(notes), 50):
        made.edit(output={**output, "annotations": notes[start : start + 50]})
    return _cpu() - began


def _places(findings: int) -> list[tuple[str, int]]:
    return [(f"wide/f{n % FILES:03}.py", 2 + n // FILES) for n in range(findings)]


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


# ── in the parent ──


def history(folder: Path) -> GitRepo:
    """``base``; ``main`` as the first push had it; ``feature`` with all of the files."""
    repo = GitRepo(folder)
    repo.write("README.md", "# Shop\n").commit("Start")
    repo.run("branch", "base")
    repo.write("wide/f000.py", _text(0)).commit("First")
    repo.checkout("feature", new=True)
    repo.write_all({f"wide/f{n:03}.py": _text(n) for n in range(FILES)})
    repo.commit("All")
    return repo


def _text(number: int) -> str:
    rows = [f"file {number}", *(f"row {line}" for line in range(2, LINES + 1))]
    return "".join(f"{row}\n" for row in rows)


def sample(hub: GitHubProcess, repo: GitRepo, who: str, findings: int, number: int) -> Sample:
    """One run on a new pull request that has had its first."""
    hub.call("pull", repository=NAME, number=number, head="main", base="base")

    def child(run: str) -> dict[str, Any]:
        argv = [sys.executable, __file__, "--child", who, hub.url, str(repo.path), str(number),
                str(findings if run == "second" else 1), run]  # fmt: skip
        environment = {**closed_environment(), "PATH": os.environ["PATH"]}
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env=environment)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    child("first")
    hub.call("push", repository=NAME, number=number, head="feature")
    before = len(hub.call("log"))
    told = child("second")
    log = hub.call("log")[before:]
    wrong = [row for row in log if row["status"] >= 400]
    if wrong:
        raise SystemExit(f"{who} was refused: {wrong}")
    return Sample(len(log), sum(row["writes"] for row in log), told["seconds"], told["cpu"])


def row(
    hub: GitHubProcess,
    repo: GitRepo,
    case: tuple[int, int | None, int | None],
    runs: int,
    numbers: list[int],
) -> tuple[list[str], bool]:
    """The lines of one case, and whether its targets hold."""
    findings, most, cpu = case
    samples: dict[str, list[Sample]] = {"ours": [], "naive": []}
    for turn in range(runs + 1):
        for who, kept in samples.items():
            numbers[0] += 1
            made = sample(hub, repo, who, findings, numbers[0])
            if turn:  # the first one warms the caches
                kept.append(made)
    lines = []
    held = True
    for who, kept in samples.items():
        requests = max(one.requests for one in kept)
        spent = statistics.median(one.cpu for one in kept) * 1000
        target = ""
        if who == "ours" and most and cpu:
            holds = requests <= most and spent <= cpu
            held = held and holds
            target = f"{most} requests, {cpu} ms: {'held' if holds else 'not held'}"
        name = "rlm-ci" if who == "ours" else "plain PyGithub"
        seconds = statistics.median(one.seconds for one in kept)
        lines.append(
            f"| {findings} findings | {name} | {requests} | {max(one.writes for one in kept)} | "
            f"{seconds:.2f} s | {spent:.0f} ms | {target} |"
        )
    return lines, held


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        who, url, git, number, findings, run = sys.argv[2:]
        began = time.perf_counter()
        cpu = {"ours": ours, "naive": naive}[who](url, git, int(number), int(findings), run)
        print(json.dumps({"seconds": time.perf_counter() - began, "cpu": cpu}))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--runs", type=int, default=7, help="counted runs of each side")
    runs = parser.parse_args().runs
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(TOP / "rlm_ci")], check=True)
    method = (
        f"`make bench`: {runs} runs of each side in turn, GitHub on loopback as a process of its "
        "own; most requests and writes, medians of the times. The time includes imports, and the "
        "waiting between writes."
    )
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{os.getloadavg()[0]:.1f} before, {time.strftime('%Y-%m-%d', time.gmtime())}."
    )
    lines = ["# Posting a report, where the summary is already there", "", method, "", machine, ""]
    lines += ["| | by | requests | writes | time | CPU | target |", "|---|---|--:|--:|--:|--:|---|"]
    print("\n".join(lines[4:]), flush=True)
    all_held = True
    with tempfile.TemporaryDirectory() as work:
        repo = history(Path(work) / "shop")
        seed = {
            "repositories": [{"full_name": NAME, "git": str(repo.path)}],
            "tokens": [{"token": TOKEN}],
        }
        with GitHubProcess(Path(work), seed) as hub:
            numbers = [0]
            for case in CASES:
                made, held = row(hub, repo, case, runs, numbers)
                print("\n".join(made), flush=True)
                lines += made
                all_held = all_held and held
            wrong = hub.call("violations")
            if wrong:
                raise SystemExit(f"against GitHub's description: {wrong}")
    result = TOP / "benchmarks" / "results" / "publishing.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(TOP)}")
    return 0 if all_held else 1


if __name__ == "__main__":
    raise SystemExit(main())
