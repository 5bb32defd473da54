"""What every call of a tool is asked before it runs, and what its errors tell."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.config.options import DELEGATE_MODES
from rlm_ci.delegation.tool import (
    FULL,
    STATUS_ONLY,
    Call,
    CheckedTool,
    Tool,
    ToolError,
)
from testing.tool_calls import called, nobody, refused, served

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

SECRET = "hunter2-hunter2-hunter2"
RUN = ".runs/a-task/cli/a-run/manifest.json"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_arguments"),
        ({"run_id": 7}, "invalid_arguments"),
        ({"run_id": "x", "manifest_path": "y"}, "manifest_not_found"),
        ({"run_id": "x", "extra": 1}, "invalid_arguments"),
        ({"run_id": "-x"}, "invalid_arguments"),
        ({"run_id": "../../x"}, "manifest_not_found"),
        ({"run_id": "none"}, "manifest_not_found"),
        ({"run_id": "a\0b"}, "manifest_not_found"),
        ({"run_id": "latest", "repo": "/"}, "path_not_permitted"),
        ({"run_id": "latest", "repo": "a\0b"}, "path_not_permitted"),
        ({"manifest_path": "/etc/passwd"}, "manifest_not_found"),
        ({"manifest_path": "manifest.json"}, "manifest_not_found"),
        ({"manifest_path": f"/nowhere/{RUN}"}, "path_not_permitted"),
        ({"manifest_path": f"../{RUN}"}, "path_not_permitted"),
        ({"manifest_path": f"x\0/{RUN}"}, "path_not_permitted"),
        ({"manifest_path": RUN}, "manifest_not_found"),
        ({"run_id": "x", "confirm_nonce": SECRET}, "secret_not_permitted"),
        ({"run_id": "x", "delegationToken": SECRET}, "secret_not_permitted"),
        ({"run_id": "x", "a": [{"b": {"OPENAI_API_KEY": SECRET}}]}, "secret_not_permitted"),
    ],
)
def test_wrong_arguments_get_a_clear_error(
    repo: GitRepo, arguments: dict[str, Any], code: str
) -> None:
    server = served(repo.path)
    error = called(server, "delegate.status", **arguments)["error"]
    assert error["code"] == code
    assert error["message"]
    assert SECRET not in str(error)


def test_no_link_leads_to_a_manifest(repo: GitRepo, tmp_path: Path) -> None:
    """Neither the run, nor its task, nor the folder of the runs may be one."""
    server = served(repo.path)
    outside = tmp_path / "outside" / "a-task" / "cli" / "a-run"
    outside.mkdir(parents=True)
    (outside / "manifest.json").write_text("{}")
    top = repo.path / ".runs"
    for inner, target in (
        ("", outside.parents[2]),
        ("a-task", outside.parents[1]),
        ("a-task/cli/a-run", outside),
        ("a-task/cli/a-run/manifest.json", outside / "manifest.json"),
    ):
        link = top / inner
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        assert refused(server, "delegate.status", manifest_path=RUN) == "path_not_permitted"
        link.unlink()


def test_a_mode_offers_its_tools_and_those_of_narrower_ones(repo: GitRepo) -> None:
    for mode in DELEGATE_MODES:
        server = served(repo.path, mode=mode)
        code = refused(server, "repo_rlm_start")
        assert code == ("invalid_arguments" if mode == FULL else "delegate_mode_forbidden")
        assert refused(server, "delegate.status") == "invalid_arguments"


def _checked(run: Any) -> CheckedTool:
    return CheckedTool(Tool("delegate.status", "", STATUS_ONLY, run))


def test_errors_tell_no_secret_and_no_traceback(
    repo: GitRepo,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("MY_TOKEN", SECRET)
    server = served(repo.path)
    call = Call(server, threading.Event(), nobody)

    def refuse(*_: object) -> dict[str, Any]:
        raise ToolError("no", f"never {SECRET}", count=2)

    def fail(*_: object) -> dict[str, Any]:
        raise ZeroDivisionError(f"of {SECRET}")

    told = _checked(refuse).answer(call, {"run_id": "x"})
    assert told.record == {"error": {"code": "no", "message": "never [redacted]", "count": 2}}
    for wrong in (fail, lambda *_: {}, lambda *_: {"error": 1}):
        answer = _checked(wrong).answer(call, {"run_id": "x"})
        assert answer.is_error
        assert answer.record["error"]["code"] == "internal"
        assert "Traceback" not in str(answer)
        assert SECRET not in str(answer) + str(capfd.readouterr())
