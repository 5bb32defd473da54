"""The review of real packages, as the solver makes it: finished, verified, fit to be published."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change.evidence import flaw
from rlm_ci.recursion.corpus.corpus import in_folder
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.nodes import COMPLETED, NodeResult
from rlm_ci.recursion.process_pool import ProcessPool
from rlm_ci.recursion.scheduler import Budget, Constraints
from rlm_ci.recursion.solver import RLM
from rlm_ci.recursion.tree_split import TreeShape
from rlm_ci.report.findings import Report, Severity, Subject
from rlm_ci.report.render import render
from rlm_ci.review.objective import ReviewObjective, options
from rlm_ci.review.results import report as results_report

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rlm_ci.recursion.corpus.corpus import Corpus


def solved(
    corpus: Corpus,
    folder: Path,
    order: str = "bfs",
    shape: TreeShape | None = None,
    executor: Executor | None = None,
) -> NodeResult:
    store = Journals.open(str(folder))
    rlm = RLM(corpus, store, executor=executor)
    limits = Constraints(order=order, shape=shape or TreeShape())
    result = rlm.solve(rlm.root, ReviewObjective(options()), Budget(), limits)
    store.close()
    return result


def write(top: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(content)


def test_the_solver_gives_the_same_review_in_every_order(tmp_path: Path) -> None:
    top = tmp_path / "top"
    code = "import pickle\n\n\ndef load(x, y=[]):\n    return pickle.loads(x) % (1,)\n"
    write(top, {f"p{one}/m{two}.py": code * (1 + two) for one in range(3) for two in range(4)})
    corpus = in_folder(str(top), EligibilityRules())
    shape = TreeShape(leaf_bytes=300, leaf_files=2)
    first = solved(corpus, tmp_path / "a", shape=shape)
    other = solved(corpus, tmp_path / "b", "dfs", shape=shape)
    assert first == other
    assert first.status == COMPLETED
    assert len({node for one in first.findings for node in one.nodes}) > 3
    whole = solved(corpus, tmp_path / "c")
    assert {one.finding.rule for one in whole.findings} >= {
        one.finding.rule for one in first.findings
    }


@pytest.mark.full
@pytest.mark.parametrize("name", ["jinja2", "requests", "github", "hypothesis"])
def test_a_package_is_reviewed_without_a_key(name: str, tmp_path: Path) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    root = os.path.dirname(spec.origin)
    corpus = in_folder(root, EligibilityRules())
    chosen = options()
    result = solved(corpus, tmp_path / "a")
    assert result.status == COMPLETED
    assert result.counts.rejected == 0
    assert result.findings
    for one in result.findings:
        for place in one.finding.evidence:
            content = Path(root, place.path).read_bytes()
            assert flaw(place, content, place.blob) is None
    # What many people use every day has nothing that would fail their builds.
    open_ones = [one.finding for one in result.findings if one.finding.suppression is None]
    assert max(one.severity for one in open_ones) < Severity.HIGH
    part = results_report.part(result, chosen)
    report = Report(Subject(), Severity.HIGH, (part,), evidence=result.counts)
    made = results_report.artifacts(
        result, report, title=name, sarif=lambda one: render(one, "sarif")
    )
    assert len("".join(made["report.md"])) > 1000
    with ProcessPool(2) as workers:
        other = solved(corpus, tmp_path / "b", "dfs", executor=workers)
    assert other == result
