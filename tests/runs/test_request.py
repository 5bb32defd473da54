"""What a run was asked for is read back as it was, and says nothing that a person could not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rlm_ci.errors import DamagedError
from rlm_ci.runs.request import NAME, RunRequest

FLAGS: dict[str, str | bool] = {
    "sandbox": "none",
    "loop.agent": "codex",
    "loop.apply": False,
    "max_calls": "3",
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    asked = RunRequest("rlm", "make it pass", FLAGS, "0" * 64)
    asked.write(str(tmp_path))
    assert RunRequest.read(str(tmp_path), "rlm") == asked


def test_a_request_for_another_pipeline_than_the_manifest_names_is_damage(tmp_path: Path) -> None:
    RunRequest("ci", "make it pass", FLAGS, "0" * 64).write(str(tmp_path))
    with pytest.raises(DamagedError, match="names the pipeline 'ci'"):
        RunRequest.read(str(tmp_path), "rlm")


@pytest.mark.parametrize(
    "key",
    ["output", "repo", "openai.base_url", "openai.api_key", "loop.agent_env", "runs_dir", "out_dir",
     "loop.goal", "stage_timeout_ms", "no such setting", ""],
)  # fmt: skip
def test_a_flag_that_no_command_line_gives_to_a_run_is_damage(tmp_path: Path, key: str) -> None:
    """Where results go and where keys are sent is not up to the folder of a run."""
    RunRequest("rlm", "go", FLAGS, "0" * 64).write(str(tmp_path))
    path = tmp_path / NAME
    record = json.loads(path.read_text())
    record["flags"][key] = "x"
    path.write_text(json.dumps(record))
    with pytest.raises(DamagedError, match="has the flag") as caught:
        RunRequest.read(str(tmp_path), "rlm")
    assert (caught.value.where, caught.value.code) == (str(path), 6)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"definition": "0"}, "definition: expected 64 hexadecimal digits"),
        ({"flags": {"sandbox": 3}}, "flags.sandbox: expected a string"),
        ({"goal": 3}, "goal: expected a string"),
        ({"other": 1}, "other: no such member is known"),
    ],
)
def test_what_is_wrong_in_it_is_named(tmp_path: Path, change: dict[str, object], told: str) -> None:
    RunRequest("rlm", "go", FLAGS, "0" * 64).write(str(tmp_path))
    path = tmp_path / NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DamagedError, match=f"is not valid: {re.escape(told)}"):
        RunRequest.read(str(tmp_path), "rlm")
