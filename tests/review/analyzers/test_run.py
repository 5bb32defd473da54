"""Analyzers over the texts of a leaf: whole files, versions, settings, and nothing left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, NodeResult
from rlm_ci.recursion.scheduler import Constraints
from rlm_ci.recursion.tree_split import TreeShape
from rlm_ci.report.findings import UNTOUCHED, Finding
from rlm_ci.review.analyzers import programs, run, sandboxed
from rlm_ci.review.analyzers.programs import Analyzer
from rlm_ci.review.objective import ReviewObjective, options
from testing.analyzed_file import SHOP, rules
from testing.review_leaves import FILE_GROUP, by_file, leaf, reviewed, text
from testing.solver_cases import solve

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_by_a_pipe_it_says_the_same_as_of_files_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("shop/orders.py", "-odd\n.py", "stub.pyi", "script", "tests/test_a.py", "__init__.py")
    shebang = "#!/usr/bin/env python3\nimport os\n"
    texts = [text(name, shebang if name == "script" else SHOP) for name in names]
    texts.append(text("broken.py", "def f(:\n"))
    chosen = options()
    by_files = run.analyse(leaf(texts, chosen), _rows(chosen), chosen["domains"])
    monkeypatch.setattr(run, "ScratchFolder", None)
    by_pipe = run.analyse(leaf(texts, chosen), _rows(chosen), chosen["domains"], by_pipe=True)
    assert by_pipe.findings
    assert sorted(by_pipe.findings, key=str) == sorted(by_files.findings, key=str)
    assert (by_pipe.seen, by_pipe.failed) == (by_files.seen, ())


def _rows(chosen: Mapping[str, Any]) -> list[Analyzer]:
    return [Analyzer.from_dict(row) for row in chosen["analyzers"]]


def placed(finding: Finding) -> tuple[str, str, list[int | None]]:
    return finding.rule, finding.message, [place.line_start for place in finding.evidence]


def in_slices(folder: Path, path: str, content: str, **more: Any) -> NodeResult:
    """The review of a file that is looked at in slices."""
    constraints = Constraints(shape=TreeShape(200, 4, 64))
    objective = ReviewObjective(options(domains=("security", "quality"), **more))
    files = {path: content.encode()}
    result = solve(folder, files, objective=objective, constraints=constraints)
    assert len((folder / "nodes.jsonl").read_bytes().splitlines()) > 4
    return result


ORDERS = "".join(
    f"    def order_{number}(self, name, seen=[]):\n"
    f"        seen.append(exec(name), self.order_{number - 1})\n\n"
    for number in range(1, 20)
)
LARGE = f"import os\nimport sys\n\n\nclass Orders:\n{ORDERS}\n\nprint(os.sep, missing)\n"


def test_a_file_larger_than_a_leaf_is_judged_as_a_whole(tmp_path: Path) -> None:
    """A class that is cut, an import that is used further down: programs see all of the file."""
    whole = by_file({"big.py": LARGE}, domains=("security", "quality"))
    assert {"ruff-f401", "ruff-f821", "ruff-b006", "ruff-s102"} <= set(rules(whole))
    result = in_slices(tmp_path, "big.py", LARGE)
    assert result.status == COMPLETED
    assert result.metrics["files"] == result.metrics["looked"] == 1
    assert [placed(one.finding) for one in result.findings] == [
        placed(one.finding) for one in whole.findings
    ]


def test_a_file_larger_than_a_leaf_that_does_not_parse_is_told(tmp_path: Path) -> None:
    result = in_slices(tmp_path, "big.py", f"{LARGE}\n\ndef broken(:\n    pass\n")
    line = LARGE.count("\n") + 3
    assert rules(result)["ruff-invalid-syntax"] == ("high", line)


def test_an_analyzer_that_fails_on_a_sliced_file_leaves_it_uncovered(tmp_path: Path) -> None:
    result = in_slices(tmp_path, "big.py", LARGE.replace("\n", "\r", 3))
    assert result.status == PARTIAL
    ((path, why),) = result.uncovered
    assert path == "big.py"
    assert "carriage returns" in why
    assert result.metrics["looked"] == 0


def test_a_change_answers_for_its_own_lines() -> None:
    texts = [text("shop.py", SHOP)]
    result = reviewed(texts, changed={"shop.py": [[8, 10]]}, domains=("security", "quality"))
    waved = {one.finding.rule: one.finding.suppression for one in result.findings}
    assert waved["review/ruff-s608"] is None
    assert waved["review/ruff-b006"] == UNTOUCHED
    assert result.summary.endswith("; 1 not of this change")


def test_another_version_than_the_run_began_with_is_not_mixed_in() -> None:
    chosen = options()
    chosen["analyzers"][0]["version"] = "0.0.1"
    task = leaf([text("a.py", SHOP)], chosen)
    known = [Analyzer.from_dict(row) for row in chosen["analyzers"]]
    done = run.analyse(task, known, chosen["domains"])
    assert done.findings == ()
    assert "and was 0.0.1 when the run began" in done.failed[0][2]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"name": "Tool", "command": ["x", "{files}"]}, "cannot be called"),
        ({"name": "", "command": ["x", "{files}"]}, "cannot be called"),
        ({"name": "a/b", "command": ["x", "{files}"]}, "cannot be called"),
        ({"name": "tool", "command": []}, "has no command"),
        ({"name": "tool", "command": ["x"]}, "names no files"),
        ({"name": "tool", "command": ["x", "--all={files}"]}, "names no files"),
        ({"name": "ruff", "command": ["ruff", "{files}"]}, "two analyzers have the name"),
    ],
)
def test_a_row_that_cannot_work_is_refused(row: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        options(analyzers=[row])


def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown domain 'style'"):
        options(domains=("style",))
    with pytest.raises(ConfigError, match="no domain is named"):
        options(domains=())


def test_ruff_that_is_asked_for_by_name_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "locate", lambda _program: None)
    assert options()["analyzers"] == []
    with pytest.raises(UnavailableError, match="ruff is not installed"):
        options(ruff="on")


def test_options_name_no_place_of_this_machine() -> None:
    told = json.dumps(options())
    assert sys.prefix not in told
    assert json.loads(told) == options()


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert by_file({"a.py": SHOP}, kind=FILE_GROUP).findings
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(RuntimeError),
        sandboxed.ScratchFolder([sandboxed.ScratchInput(0, "a", b"x")]),
    ):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_leaf_without_anything_to_analyse_starts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = options()
    monkeypatch.setattr(sandboxed, "write_new", lambda *_: pytest.fail("a folder was made"))
    task = leaf([text("a.md", "# A\n")], chosen)
    known = [Analyzer.from_dict(row) for row in chosen["analyzers"]]
    assert run.analyse(task, known, chosen["domains"]) == run.LeafAnalysis()
