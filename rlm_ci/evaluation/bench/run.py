"""A benchmark as a run: its model, its budgets, and an episode for each case."""

from __future__ import annotations

import itertools
import os
import shutil
from decimal import Decimal
from functools import partial

from rlm_ci import sandbox
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.environments.names import environment_of
from rlm_ci.environments.turn_loop import MIN_TOKENS
from rlm_ci.errors import OK, LimitError, RemoteError
from rlm_ci.evaluation.bench import benchmark, confidence, summary
from rlm_ci.evaluation.bench.benchmark import DIRECT, WINDOW, BenchOptions, BenchServices, CaseRun
from rlm_ci.evaluation.bench.generators.seeded import CONTEXT
from rlm_ci.evaluation.bench.scoring.score import Reply
from rlm_ci.evaluation.episodes import trajectory
from rlm_ci.evaluation.results import of_episode
from rlm_ci.evaluation.run import EpisodeJob
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import models_of
from rlm_ci.models import ModelRequest, prices
from rlm_ci.models.budget import BudgetUse
from rlm_ci.models.gateway import Gateway, require_endpoint
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.pipelines import definition, load
from rlm_ci.pipelines.job import without_runs
from rlm_ci.runs import FAILED, SUCCEEDED
from rlm_ci.runs.request import RunRequest
from rlm_ci.system import files, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.console.progress import Progress
    from rlm_ci.errors import RlmCiError
    from rlm_ci.evaluation.bench.packs.pack import Preset
    from rlm_ci.evaluation.bench.prepare import PreparedCase
    from rlm_ci.evaluation.results import RLMBenchmarkResult
    from rlm_ci.evaluation.terms import EpisodeCaller
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run

PIPELINE = "bench"
HARNESS = "harness"
_CODING = "coding"
#: The test that the agent of a generated repository sees.
_TESTS = "python3 -m unittest"
#: What ends an episode and the benchmark with it.
_SHARED = ("max_calls", "max_tokens", "budget_usd")
_BY_CODE = "Act by programs: use run_python, and let one program do many steps."
_BY_FILE = f"The context is the file {CONTEXT}."


def carry_out(
    preset: Preset,
    options: BenchOptions,
    settings: Settings,
    runs: StoredRuns,
    *,
    progress: Progress,
    caller: EpisodeCaller | None = None,
) -> tuple[RLMBenchmarkResult, RlmCiError | None]:
    """Run a preset; the result, and why not all of its cases have a score of their own.

    Raises what keeps it from its end, once what was run is stored.
    """
    options.require()
    process.harden()
    load.configure(settings, open_repository(settings), "a benchmark")
    if caller is None or caller.model is None:
        require_endpoint(models_of(settings), "set one of them: any endpoint with OpenAI's API")
    for name in {options.environment, *(case.environment for case in preset.cases)} - {None}:
        environment_of(str(name))
    with (
        runs.create(runs.task_or_own(), PIPELINE) as held,
        Record.open(held.path_of(FILE), redact=held.redactor.text) as record,
    ):
        progress.say(f"Run: {held.id}")
        held.begin()
        try:
            job = BenchmarkJob(settings, runs, held, record, progress=progress, caller=caller)
            result = job.run(preset, options)
        except BaseException as error:
            held.stop(error)
            raise
        failure = _failure(result)
        score = confidence.mean([one["score"] for one in result.case_results])
        done = (
            f"{result.completed_cases} of {result.total_cases} cases completed, score {score:.3f}"
        )
        code = OK if failure is None else failure.code
        held.finish(FAILED if failure else SUCCEEDED, exit_code=code, summary=done)
    return result, failure


def _failure(result: RLMBenchmarkResult) -> RlmCiError | None:
    path = result.summary_path
    if result.cancelled:
        what = str(summary.read(str(path)).record["cancelled_reason"])
        hint = f"raise the budget, and run it again; what was run is in {path}"
        return LimitError(what, budget="", where="rlm-ci bench", hint=hint)
    failed = sum(bool(one["error"]) for one in result.case_results)
    if failed:
        what = f"the model did not answer {failed} of {result.total_cases} cases"
        return RemoteError(what, where="rlm-ci bench", hint=f"see the error of each in {path}")
    return None


class BenchmarkJob:
    """What a benchmark needs of its run, and the episodes of its cases: runs beside it."""

    def __init__(
        self,
        settings: Settings,
        runs: StoredRuns,
        held: Run,
        record: Record,
        *,
        progress: Progress,
        caller: EpisodeCaller | None,
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._held = held
        self._progress = progress
        self._caller = caller
        model = caller.model if caller else None
        self._gateway = Gateway(
            models_of(settings),
            record,
            RunClock(record.fact),
            model=settings.model or (model.model if model else None),
            max_minutes=None,
            provider=model.name if model else None,
            connector=model,
        )
        self._numbers = itertools.count(1)
        self._known = dict(definition.BUILT_IN)

    def run(self, preset: Preset, options: BenchOptions) -> RLMBenchmarkResult:
        if options.context_tokens is None:
            address = models_of(self._settings).base_url
            window = prices.context_window(self._gateway.model, address) or WINDOW
            options = options.replace(context_tokens=window)
        if options.include_mcp:
            self._progress.say("the harness has its own tools only: no MCP server is connected")
        if options.judge_model:
            self._gateway.ledger.require_price(options.judge_model)
        services = BenchServices(
            self._gateway.model,
            self._ask,
            self._episode,
            judge=partial(self._ask, model=options.judge_model),
            sandbox=lambda: sandbox.choose(self._settings.sandbox, self._settings.environ),
            clean=self._held.redactor.text,
            step=self._progress.step,
        )
        path = self._held.path_of(*summary.INSIDE)
        return benchmark.run(preset, options, services, self._held.id, path)

    def _ask(self, prompt: str, model: str | None = None) -> Reply:
        messages = ({"role": "user", "content": prompt},)
        most = self._settings.models.max_completion_tokens
        # Near the end of a budget, a shorter answer is better than none.
        request = ModelRequest(
            model or self._gateway.model, messages, most, min_tokens=min(MIN_TOKENS, most)
        )
        # Each at a place of its own: a repeat is asked again.
        said = self._gateway.complete(request, f"{DIRECT}-{next(self._numbers)}")
        usage = said.usage
        return Reply(
            said.text,
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
            None if said.cost is None else float(said.cost),
        )

    # ── episodes ──

    def _episode(self, prepared: PreparedCase, options: BenchOptions) -> CaseRun:
        if options.mode != HARNESS:
            return self._run_episode(prepared, options, prepared.case.environment)
        with files.scratch("rlm-ci-bench-harness-") as folder:
            task = prepared.case.task
            if prepared.workdir is None:
                prepared = prepared.replace(workdir=folder)
                if prepared.context is not None:
                    shutil.copyfile(prepared.context, os.path.join(folder, CONTEXT))
                    task = f"{task}\n\n{_BY_FILE}"
            if options.harness_strategy == "codemode":
                task = f"{task}\n\n{_BY_CODE}"
            ended = self._run_episode(prepared.replace(context=None), options, _CODING, task)
        return ended.replace(harness=_counters(ended, options))

    def _run_episode(
        self,
        prepared: PreparedCase,
        options: BenchOptions,
        environment: str,
        task: str | None = None,
    ) -> CaseRun:
        settings = self._of_case(prepared, options, environment)
        repository = open_repository(settings)
        task = prepared.case.task if task is None else task
        own = {key: settings.values[key] for key in settings.rows if key.startswith("episode.")}
        asked = RunRequest(
            definition.EPISODE,
            self._held.redactor.text(task),
            {key: str(value) for key, value in own.items() if value is not None},
            definition.digest(self._known, definition.EPISODE),
        )
        # The change and its config file have been looked at: generated files have none.
        job = EpisodeJob(
            settings,
            repository,
            self._progress,
            skipped=without_runs(self._runs.root, settings.runs_dir, settings.out_dir),
            caller=self._caller,
        )
        created = self._runs.create(
            self._held.task_id, definition.EPISODE, parent_run_id=self._held.id
        )
        with created as run:
            asked.write(run.path)
            try:
                load.conduct(run, asked, self._runs, self._known, {definition.EPISODE: job})
            finally:
                self._held.add_child(run.manifest)
                usage = None if job.report is None else job.report.usage
                if usage is not None:
                    use = BudgetUse(
                        usage.calls,
                        usage.prompt_tokens,
                        usage.completion_tokens,
                        Decimal(str(usage.cost_usd or 0)),
                    )
                    self._gateway.ledger.charge(use)
            result = of_episode(run, job, task, environment)
        budget = job.end.budget if job.end else ""
        told = f"the rest of the budget is not enough for another case ({budget})"
        limit = told if budget in _SHARED else ""
        return CaseRun(result, usage.cost_usd if usage else None, limit)

    def _of_case(self, prepared: PreparedCase, options: BenchOptions, environment: str) -> Settings:
        """The settings of the benchmark, with those of one case, and the rest of its budgets."""
        case = prepared.case
        own: dict[str, Any] = {
            "episode.environment": environment,
            "episode.max_steps": case.max_steps,
            "episode.exec_timeout": case.exec_timeout,
            "episode.branch_width": options.branch_width,
            "episode.framework": options.framework,
            "episode.sub_model": options.sub_model,
            "episode.sub_provider": options.sub_provider,
            "context.source": prepared.context,
            **self._gateway.ledger.rest(),
        }
        if prepared.workdir is not None:
            own |= {"repo": prepared.workdir, "loop.apply": True}
            own["loop.validator"] = _TESTS if prepared.module else "none"
        settings = Settings(PROGRAM, {}, self._settings.environ)
        for key, row in settings.rows.items():
            if key in self._settings.rows:
                settings.values[key] = self._settings.values[key]
                settings.sources[key] = self._settings.sources[key]
            if key in own:
                settings.values[row.key] = own[key]
                settings.sources[row.key] = f"case {case.case_id}"
        return settings


def _counters(ended: CaseRun, options: BenchOptions) -> dict[str, Any]:
    """The fields that the mode harness adds. It has its own tools only, none of MCP servers."""
    taken = [line.get("action") for line in trajectory.read(str(ended.result.run_path))]
    actions = [one.get("action") for one in taken if isinstance(one, dict)]
    programs = sum(name == "run_python" for name in actions)
    is_codemode = options.harness_strategy == "codemode"
    return {
        "mcp_enabled": False,
        "mcp_server": options.mcp_server,
        "harness_strategy": options.harness_strategy,
        "harness_tool_calls": len(actions),
        "mcp_tool_calls": 0,
        "codemode_chain_calls": programs if is_codemode else 0,
        "codemode_search_calls": 0,
        "codemode_discovery_calls": 0,
        "codemode_guardrail_blocked": False,
    }
