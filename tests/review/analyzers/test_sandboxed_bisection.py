"""A file that an analyzer fails on takes nothing from the files beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.recursion.nodes import PARTIAL
from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput
from rlm_ci.review.analyzers import sandboxed
from rlm_ci.review.analyzers.sandboxed import AnalyzerError, ScratchInput, by_halves
from rlm_ci.review.objective import ReviewObjective, analyse, options
from testing.analyzed_file import SHOP, rules
from testing.analyzer_programs import at, log, tool
from testing.review_leaves import leaf, reviewed, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Python on which ruff's stack overflows.
DEEP = f"total = {'-' * 100_000}1\n"


@pytest.mark.full
@pytest.mark.parametrize("by_pipe", [False, True])
def test_a_file_that_ruff_crashes_on_stands_alone(by_pipe: bool) -> None:
    texts = [text(f"src/m{number}.py", "x = 1\n") for number in range(5)]
    texts[3:3] = [text("src/deep.py", DEEP), text("src/shop.py", SHOP)]
    chosen = {**options(), "by_pipe": by_pipe}
    task = leaf(texts, chosen)
    result = ReviewObjective(chosen).judge(task.node, task, analyse(task), None)
    assert "ruff-s608" in rules(result)
    assert result.status == PARTIAL
    [(path, why)] = result.uncovered
    assert (path, "overflow" in why) == ("src/deep.py", True)
    assert result.metrics["looked"] == 6


BAD = "any(os.path.basename(one).startswith('bad') for one in files)"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.stdout.write('{]')", "its output is not JSON"),
        ("print('{}')", "its output is not SARIF: it has no runs"),
        ("import signal; os.kill(os.getpid(), signal.SIGSEGV)", "it printed nothing and ended"),
        ("import time; time.sleep(60)", "it took more than"),
        ("print('{' + ' ' * 3000000)", "it printed more than 1 MiB"),
        (log(f"[{at('files[0]')}] * 20001"), "it has more than 20,000 results"),
        ("os.symlink('/etc/passwd', sys.argv[1])", "what it printed cannot be read: it is a link"),
        (
            log("[]").replace("'tool'", "'invocations': [{'executionSuccessful': False}], 'tool'"),
            "it says that it did not finish",
        ),
    ],
)  # fmt: skip
def test_a_file_that_breaks_a_tool_takes_nothing_from_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    monkeypatch.setattr(sandboxed, "PRINTED", 8 << 20 if "20001" in body else 1 << 20)
    if "sleep" in body:
        monkeypatch.setattr(sandboxed, "SECONDS", 16.0)
    bad = "\n".join(f"    {line}" for line in body.splitlines())
    good = log(f"[{at('one', 1)} for one in files]")
    row = tool(tmp_path, f"if {BAD}:\n{bad}\n    sys.exit()\n{good}", "{sarif}", "{files}")
    names = ["a.go", "b.go", "bad.go", "c.go", "d.go"]
    result = reviewed([text(one, "package a\n") for one in names], analyzers=[row], ruff="off")
    found = {one.finding.evidence[0].path for one in result.findings}
    assert found == {"a.go", "b.go", "c.go", "d.go"}
    [(path, told)] = result.uncovered
    assert (path, why in told) == ("bad.go", True), told


class Tool:
    """Fails wherever one of ``culprits`` is shown to it, or always; counts its runs."""

    def __init__(self, *culprits: int, always: bool = False) -> None:
        self.culprits = frozenset(culprits)
        self.always = always
        self.runs = 0

    def __call__(self, files: Sequence[ScratchInput], _seconds: float) -> AnalyzerOutput:
        self.runs += 1
        if self.always or any(one.text in self.culprits and one.content for one in files):
            raise AnalyzerError("it fails")
        return AnalyzerOutput((), len(files))


FILES = [ScratchInput(number, f"{number}.go", b"x") for number in range(1024)]


@pytest.mark.parametrize("culprits", [(), (0,), (1023,), (0, 1), (5, 1000), (1, 300, 600, 900)])
def test_few_runs_find_what_a_tool_fails_on(culprits: tuple[int, ...]) -> None:
    run = Tool(*culprits)
    heard, broken = by_halves(FILES, run)
    assert [one.text for some, _ in broken for one in some] == list(culprits)
    assert sum(one.rejected for one in heard) == len(FILES) - len(culprits)
    assert run.runs <= 2 + 20 * len(culprits)


def test_a_tool_that_always_fails_is_not_tried_on_each_file() -> None:
    run = Tool(always=True)
    assert by_halves(FILES, run) == ([], [(FILES, "it fails")])
    assert run.runs == 4


def test_many_culprits_end_the_search_and_none_is_lost() -> None:
    run = Tool(*range(0, 1024, 2))
    heard, broken = by_halves(FILES, run)
    told = [one.text for some, _ in broken for one in some]
    assert len(told) + sum(one.rejected for one in heard) == len(FILES)
    assert set(told) >= run.culprits
    assert run.runs <= 81
