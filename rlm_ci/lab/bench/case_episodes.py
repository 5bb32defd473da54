"""The episodes of a benchmark: runs beside it, under the rest of its budgets."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.lab.bench.benchmark import CaseRun
from rlm_ci.lab.results import RLMRunResult
from rlm_ci.models.budget import BudgetUse
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.pipelines import definition, load
from rlm_ci.runs import manifest, request
from rlm_ci.runs.request import RunRequest
from rlm_ci.runs.store import sibling
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal
    from typing import Any

    from rlm_ci.lab.run import EpisodeJob
    from rlm_ci.models.budget import Ledger
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run

#: What ends an episode and the benchmark with it.
SHARED = ("max_calls", "max_tokens", "budget_usd")
_HINT = "restore it, or start a new benchmark"
#: Bytes of a result: an answer has a million characters, and JSON six bytes for some of them.
_LIMIT = 64 << 20


class CaseEpisodes:
    """Begins the episodes of a benchmark, and goes on with those of an earlier process.

    The record has a fact for each, so that what they used stays charged to ``ledger``.
    """

    def __init__(self, run: Run, record: Record, ledger: Ledger, runs: StoredRuns) -> None:
        """Raises ConfigError where an episode of the benchmark is gone."""
        self._held = run
        self._record = record
        self._ledger = ledger
        self._runs = runs
        self._used: dict[str, BudgetUse] = {}
        self._number = 0
        #: The last episode of each attempt, if it goes on or has a result.
        self._last: dict[str, str] = {}
        while begun := record.find("episode", self._next_place(), {}):
            self._number += 1
            self._last[begun["attempt"]] = begun["run_id"]
            self._charge(begun["run_id"], self._folder(begun["run_id"]))
        self._last = {
            name: run_id for name, run_id in self._last.items() if self._is_of_use(run_id)
        }

    def budgets_left(self, attempt: str) -> dict[str, int | Decimal]:
        """The budgets of the episode of an attempt: the rest, and what it used before."""
        used = self._used.get(self._last.get(attempt, ""), BudgetUse())
        before = (used.calls, used.tokens, used.usd)
        spent: dict[str, Any] = dict(zip(SHARED, before, strict=True))
        return {name: left + spent[name] for name, left in self._ledger.budgets_left().items()}

    def conduct(
        self, attempt: str, run_request: RunRequest, make: Callable[[], EpisodeJob], task: str
    ) -> CaseRun:
        """The episode of an attempt, carried out to its end unless that is stored.

        ``make`` gives its job. Raises what keeps it from its end.
        """
        with self._taken(attempt, run_request) as run:
            if _goes_on(run):
                self._carry_out(run, make())
            result = _result(run, task)
            cost = _use(run.path)[1]
            budget = run.manifest.status_detail
        if budget not in SHARED:
            return CaseRun(result, cost)
        reason = f"the rest of the budget is not enough for another case ({budget})"
        return CaseRun(result, cost, reason, str(budget))

    def _carry_out(self, run: Run, job: EpisodeJob) -> None:
        run_request = RunRequest.read(run.path, definition.EPISODE)
        try:
            load.conduct(
                run, run_request, self._runs, definition.BUILT_IN, {definition.EPISODE: job}
            )
        finally:
            self._held.add_child(run.manifest)
            self._charge(run.id, run.path)

    def _taken(self, attempt: str, run_request: RunRequest) -> Run:
        """The episode that an earlier process left, or a new one."""
        if attempt in self._last:
            run = self._runs.open(self._folder(self._last[attempt]))
            run.raised = run.manifest.spent_budget in SHARED
            return run
        run = self._runs.create(self._held.task_id, definition.EPISODE, parent_run_id=self._held.id)
        try:
            run_request.write(run.path)
            begun = {"attempt": attempt, "run_id": run.id}
            self._record.fact("episode", self._next_place(), {}, lambda: begun)
            self._number += 1
            self._last[attempt], self._used[run.id] = run.id, BudgetUse()
            self._held.add_child(run.manifest)
        except BaseException:
            run.close()
            raise
        return run

    def _charge(self, run_id: str, folder: str) -> None:
        """Charge what an episode has used since it was charged last."""
        now, before = _use(folder)[0], self._used.get(run_id, BudgetUse())
        self._ledger.charge(now - before)
        self._used[run_id] = now

    def _is_of_use(self, run_id: str) -> bool:
        folder = self._folder(run_id)
        record = manifest.read(folder)
        return (record.is_resumable and request.is_kept(folder)) or os.path.isfile(
            os.path.join(folder, definition.EPISODE_RESULT)
        )

    def _folder(self, run_id: str) -> str:
        folder = sibling(self._held.path, run_id)
        if folder is None:
            raise ConfigError("an episode of the benchmark is gone", where=run_id, hint=_HINT)
        return folder

    def _next_place(self) -> str:
        """The place of the next episode's fact."""
        return f"episode-{self._number + 1}"


def _goes_on(run: Run) -> bool:
    return run.raised or (run.manifest.is_resumable and request.is_kept(run.path))


def _use(folder: str) -> tuple[BudgetUse, float | None]:
    """What an episode used so far, and its cost; None where a price is not known."""
    path = os.path.join(folder, FILE)
    if not os.path.lexists(path):
        return BudgetUse(), None
    with Record.open(path, redact=str, replay_only=True) as record:
        return record.spent, record.usage()["cost_usd"]


def _result(run: Run, task: str) -> RLMRunResult:
    """The result of an episode that has ended, as it is stored. Raises DamagedError."""
    path = os.path.join(run.path, definition.EPISODE_RESULT)
    record = None
    with suppress(ValueError, RecursionError, files.UnreadableError):
        record = json.loads(files.read(path, _LIMIT))
    kinds = {"completed": bool, "steps": int, "final_response": str, "environment": str}
    kinds["usage"] = dict
    if not (
        isinstance(record, dict)
        and all(type(record.get(name)) is kind for name, kind in kinds.items())
        and type(record.get("final_reward")) in (int, float)
    ):
        raise DamagedError("it is no result of an episode", where=path, hint=_HINT)
    return RLMRunResult(
        run_id=run.id,
        run_path=Path(run.path, "rlm", "trajectory.jsonl"),
        completed=record["completed"],
        steps=record["steps"],
        total_reward=record["final_reward"],
        final_response=record["final_response"],
        started_at=run.manifest.started_at,
        finished_at=str(run.manifest.completed_at),
        environment=record["environment"],
        task=task,
        usage_summary=record["usage"],
    )
