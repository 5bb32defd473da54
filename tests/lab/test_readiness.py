"""The checks of ``doctor``: what is there, what is not, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.evaluation import RLMRunner
from rlm_ci.lab.readiness import EpisodeNeeds, checks

if TYPE_CHECKING:
    from pathlib import Path


class Connector:
    model = "loopback"

    def generate_response(self, prompt: str) -> str:
        return prompt


class Engine:
    def execute_code(self, code: str) -> str:
        return code


def test_a_runner_that_has_all_it_needs(tmp_path: Path) -> None:
    runner = RLMRunner(Connector(), Engine(), workdir=tmp_path)
    found = {one.name: one for one in runner.doctor()}
    names = ("rlm_run_dir", "sandbox_runtime", "model_connection")
    assert [found[name].status for name in names] == ["pass"] * 3
    assert found["model_connection"].detail == "Connected model: loopback"
    assert {f"framework_{name}" for name in runner.supported_frameworks()} <= found.keys()
    assert not (tmp_path / ".runs").exists()
    with pytest.raises(ConfigError):
        runner.doctor("nowhere")


def test_what_is_missing_says_what_to_do(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir(mode=0o755)
    needs = EpisodeNeeds("coding", str(tmp_path / "gone"), str(runs), "", "none", {})
    found = {one.name: one for one in checks(needs)}
    states = {name: found[name].status for name in (
        "rlm_run_dir", "sandbox_runtime", "model_connection", "workdir_exists"
    )}  # fmt: skip
    assert states == {
        "rlm_run_dir": "warn",
        "sandbox_runtime": "warn",
        "model_connection": "warn",
        "workdir_exists": "fail",
    }
    assert all(one.recommendation for one in found.values() if one.status != "pass")
    fixed = {one.name: one.status for one in checks(needs, fix=True)}
    assert fixed["rlm_run_dir"] == "pass"
    assert runs.stat().st_mode & 0o777 == 0o700
