"""The name of a run: what gives it, and that no two runs share one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.judge.options import artifact_name, fitted, is_name, run_name

FILE = "acme/shop/.github/workflows/{}.yml@refs/pull/12/merge"


def name(workflow: str = "rlm-ci", matrix: Any = None, **env: str) -> str:
    variables = {
        "GITHUB_ACTIONS": "true", "GITHUB_JOB": "judge",
        "GITHUB_WORKFLOW_REF": FILE.format(workflow), "RLM_CI_GITHUB_MATRIX": json.dumps(matrix),
    }  # fmt: skip
    return run_name(Settings(PROGRAM, {}, variables | env))


def test_it_is_the_workflows_job_and_what_tells_its_runs_apart() -> None:
    assert name() == "judge"
    assert name("quality") == "quality/judge"
    assert name(matrix={"folder": "api", "python": 3.13, "fast": True}) == "judge (api, 3.13, true)"
    assert name(matrix={"row": {"os": "linux", "sizes": [1, 2]}}) == "judge (linux, 1, 2)"
    assert name(RLM_CI_CONFIG="web/rlm-ci.toml") == "judge (web/rlm-ci.toml)"
    assert name(matrix={"c": "diff-budget"}, RLM_CI_CHECKS="diff-budget") == "judge (diff-budget)"
    assert name(GITHUB_WORKFLOW_REF="", RLM_CI_GITHUB_MATRIX="") == "judge"
    assert name(GITHUB_ACTIONS="false") == name(GITHUB_JOB="") == ""
    assert (
        name(GITHUB_JOB="", RLM_CI_CHECKS="diff-budget, doc-archive") == "diff-budget, doc-archive"
    )


def test_a_given_one_wins() -> None:
    assert name(matrix=[1], RLM_CI_PUBLISH_NAME="the API") == "the API"
    assert name(RLM_CI_PUBLISH_NAME="the API", GITHUB_ACTIONS="") == "the API"


@pytest.mark.parametrize(
    "odd", ["a --> b", "<!--", "a\nb", "x" * 81, "ä", "a|b", "`a`", "::error::", "."]
)
def test_one_that_cannot_be_is_refused_or_made_fit(odd: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a run"):
        name(RLM_CI_PUBLISH_NAME=odd)
    assert not is_name(odd)
    assert is_name(name(matrix=[odd]))
    assert is_name(name(RLM_CI_GITHUB_MATRIX=f"{{{odd}"))


def test_what_is_made_fit_stays_told_apart() -> None:
    odd = ["a|b", "a<b", "a-b", "a/b", "x" * 100, "x" * 101, f"{'x' * 99} "]
    assert len({fitted(one) for one in odd}) == len(odd)
    artifacts = {artifact_name(one) for one in ("", "a/b", "a-b", "judge")}
    assert len(artifacts) == 4
    assert not any(set(one) & set('":<>|*?\r\n\\/') for one in artifacts)
    assert artifact_name("judge") == "rlm-ci-report-judge"
