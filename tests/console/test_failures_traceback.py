"""A bug of ours: the run that it ends says so, keeps its traceback, and gives no secret away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from rlm_ci.console.failures import failure
from rlm_ci.console.progress import Progress
from rlm_ci.errors import ConfigError
from rlm_ci.judge.judge import open_repository
from rlm_ci.models.record.record import Record
from rlm_ci.pipelines import definition, load
from rlm_ci.pipelines.attempt import Attempt, Mode
from rlm_ci.pipelines.stored_runs import StoredRuns, settings_of
from rlm_ci.runs.request import RunRequest
from rlm_ci.runs.run import Run
from rlm_ci.solve.pipeline import CALLS, RlmJob
from testing.run_store import SECRET, Place

if TYPE_CHECKING:
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.state import FinalState
    from testing.repositories.git_repo import GitRepo


class Broken(Attempt):
    def _solve(self) -> tuple[FinalState, Report]:
        raise KeyError(f"a {SECRET}")


def logs(run: Run) -> list[Path]:
    return list(Path(run.path).glob("error-*.log"))


def test_the_state_of_an_attempt_names_its_bug(repo: GitRepo) -> None:
    """CONTRACT: 'a bug; the traceback is in the run directory'."""
    place = Place(repo.path)
    progress = Progress({}, quiet=True)
    settings = settings_of({"repo": str(repo.path)})
    work = RlmJob(settings, open_repository(settings), progress, skipped=())
    with place.create(pipeline="rlm") as run, Record.open(run.path_of(CALLS), redact=str) as record:
        attempt = Broken(work, run, "goal", record, Mode("iterative", "so"), head={})
        attempt.carry_out()
        final, report = attempt.final, attempt.report
    assert attempt.error is not None
    assert (final.status, final.exit_code, attempt.error.code) == ("error", 10, 10)
    state = json.loads(Path(run.path, "rlm/state.json").read_text())
    assert state["final"]["status"] == "error"
    assert state["final"]["exitCode"] == 10
    assert report.parts[0].error is not None
    [log] = logs(run)
    assert str(log) in str(attempt.error)
    assert "Broken" not in str(attempt.error)
    assert "in _solve" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert SECRET not in log.read_text() + str(state) + str(attempt.error)


def test_a_run_keeps_the_traceback_of_what_broke_in_it(repo: GitRepo) -> None:
    place = Place(repo.path)
    runs = StoredRuns(settings_of({"repo": str(repo.path)}))

    def action(_run: Run, _goal: str | None) -> NoReturn:
        raise KeyError(SECRET)

    asked = RunRequest("rlm", "go", {}, "0" * 64)
    with place.create(pipeline="rlm") as run:
        with pytest.raises(Exception, match="internal error: KeyError") as caught:
            load.conduct(run, asked, runs, definition.BUILT_IN, {"rlm": action})
        told = failure(caught.value)
        assert told is caught.value
        assert (told.code, run.manifest.exit_code, run.manifest.is_resumable) == (10, 10, False)
    [log] = logs(run)
    assert "in action" in log.read_text()
    assert SECRET not in log.read_text() + str(told) + place.texts()


def test_what_is_no_bug_stays_what_it_is(tmp_path: Path) -> None:
    known = ConfigError("wrong", where="here")
    assert failure(known) is known
    assert failure(ModuleNotFoundError("no", name="jinja2")).code == 4
    assert failure(ModuleNotFoundError("no", name="rlm_ci.nothing"), str(tmp_path)).code == 10
