"""A benchmark as a run: its model, its budgets, and an episode for each case."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from contextlib import suppress
from functools import partial

from rlm_ci import sandbox
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.environments.names import environment_of
from rlm_ci.errors import OK, ConfigError, DamagedError, LimitError, RemoteError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import models_of
from rlm_ci.lab.bench import benchmark, prepare, summary, text
from rlm_ci.lab.bench.benchmark import BenchOptions, BenchServices
from rlm_ci.lab.bench.case_episodes import CaseEpisodes
from rlm_ci.lab.bench.generators.seeded import CONTEXT
from rlm_ci.lab.bench.packs import pack
from rlm_ci.lab.bench.scoring.scorers import Reply
from rlm_ci.lab.episodes import episode
from rlm_ci.lab.mcp import connection
from rlm_ci.lab.mcp.tools import PREFIX as MCP
from rlm_ci.lab.run import EpisodeJob
from rlm_ci.models import ModelRequest, context_length
from rlm_ci.models.gateway import SETTING, Gateway, context_of, provider_of, require_endpoint
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.pipelines import attempt, definition, load, stored_runs
from rlm_ci.pipelines.attempt import PipelineJob, without_runs
from rlm_ci.runs.manifest import timestamp
from rlm_ci.runs.request import OF_A_COMMAND, RunRequest
from rlm_ci.system import files, process
from rlm_ci.text.printable import printable
from rlm_ci.values import Value
from rlm_ci.workspace import stored_trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.console.progress import Progress
    from rlm_ci.errors import RlmCiError
    from rlm_ci.git.repository import Repository
    from rlm_ci.lab.bench.benchmark import CaseRun
    from rlm_ci.lab.bench.packs.pack import Preset
    from rlm_ci.lab.bench.prepare import PreparedCase
    from rlm_ci.lab.results import RLMBenchmarkResult
    from rlm_ci.lab.terms import EpisodeCaller
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.report.render import RenderOptions
    from rlm_ci.runs.run import Run

#: Kinds of facts: what the benchmark began with, and the result of an attempt.
_TERMS, _ATTEMPT = "benchmark", "attempt"
HARNESS = "harness"
_CODING = "coding"
#: The test that the agent of a generated repository sees.
_TESTS = "python3 -m unittest"
_BY_CODE = "Act by programs: use run_python, and let one program do many steps."
_BY_FILE = f"The context is the file {CONTEXT}."


class BenchTerms(Value):
    """What a benchmark began with, and keeps when it is resumed.

    ``pack`` is the file of the preset, "" for a bundled one.
    """

    preset: str
    pack: str
    suite_hash: str
    options: BenchOptions
    model: str
    provider: str
    started_at: str

    def fact(self) -> dict[str, Any]:
        return {**self.to_dict(), "options": self.options.to_dict()}

    @classmethod
    def of(cls, record: Record) -> BenchTerms:
        """Those in the record of a benchmark. Raises DamagedError."""

        def missing() -> Mapping[str, Any]:
            raise DamagedError("it has no beginning", where=record.path, hint="start a new run")

        def shaped(record: Mapping[str, Any]) -> BenchTerms:
            return cls(**{**record, "options": BenchOptions(**record["options"])})

        return record.shaped(_TERMS, "start", {}, missing, shaped)

    def loaded(self) -> Preset:
        """The preset. Raises ConfigError where the pack has another suite now."""
        self.options.require()
        packs = pack.read(self.pack) if self.pack else pack.load().values()
        preset = next((entry for entry in packs if entry.name == self.preset), None)
        if preset is None or _suite_hash(preset, self.options) != self.suite_hash:
            raise ConfigError(
                f"the cases of {printable(self.preset)[:80]} have changed since the run began",
                where=printable(self.pack or self.preset)[:200],
                hint="put them back, or start a new run",
            )
        return preset


def _suite_hash(preset: Preset, options: BenchOptions) -> str:
    changed = prepare.with_options(preset, seed=options.seed, tokens=options.tokens)
    return prepare.suite_hash(prepare.suite(changed))


def carry_out(
    preset: Preset,
    options: BenchOptions,
    settings: Settings,
    runs: StoredRuns,
    *,
    progress: Progress,
    flags: Mapping[str, Any] | None = None,
    caller: EpisodeCaller | None = None,
) -> tuple[RLMBenchmarkResult, RlmCiError | None]:
    """Run a preset; the result, and why not all of its cases have a score of their own.

    ``flags`` are those of the command line, for a resume. Raises what keeps it from its end, once
    what was run is stored.
    """
    options.require()
    job = make(settings, open_repository(settings), runs, progress, caller=caller)
    if caller is None or caller.model is None:
        require_endpoint(models_of(settings), "set one of them: any endpoint with OpenAI's API")
    for name in {options.environment, *(case.environment for case in preset.cases)} - {None}:
        environment_of(str(name))
    terms = job.terms(preset, options)
    keys = {row.key for row in PROGRAM if row.flag} - OF_A_COMMAND
    request = RunRequest(
        definition.BENCH,
        None,
        {key: value for key, value in (flags or {}).items() if key in keys},
        definition.digest(definition.BENCHMARKS, definition.BENCH),
    )
    with runs.create(runs.task_or_own(), definition.BENCH) as run:
        with Record.open(run.path_of(FILE), redact=run.redactor.text) as record:
            record.fact(_TERMS, "start", {}, terms.fact)
        request.write(run.path)  # from here on it can be resumed
        progress.say(f"Run: {run.id}")
        actions = {definition.BENCH: job}
        try:
            load.conduct(run, request, runs, definition.BENCHMARKS, actions)
        finally:
            stored_runs.tell_way_on(run, progress)
    return job.ended()


def make(
    settings: Settings,
    repository: Repository,
    runs: StoredRuns,
    progress: Progress,
    replay: str | None = None,
    *,
    caller: EpisodeCaller | None = None,
) -> BenchJob:
    """The job of a benchmark. Raises ConfigError, also if the change's code must not run."""
    if replay:
        raise ValueError("a benchmark is not replayed, but its episodes are")
    process.harden()
    load.configure(settings, repository, "a benchmark")
    skipped = without_runs(runs.root, settings.runs_dir, settings.out_dir)
    return BenchJob(settings, repository, progress, skipped=skipped, runs=runs, caller=caller)


def _failure(record: Mapping[str, Any], path: str) -> RlmCiError | None:
    if record["cancelled"]:
        hint = f"what was run is in {path}"
        budget = str(record["cancelled_budget"])
        return LimitError(
            str(record["cancelled_reason"]), budget=budget, where="rlm-ci bench", hint=hint
        )
    failed = sum(bool(entry["error"]) for entry in record["case_results"])
    if failed:
        what = f"the model did not answer {failed} of {record['total_cases']} cases"
        return RemoteError(what, where="rlm-ci bench", hint=f"see the error of each in {path}")
    return None


class BenchJob(PipelineJob):
    """The pipeline of a benchmark, begun or resumed: what is recorded is not made again."""

    def __init__(
        self, *args: Any, runs: StoredRuns, caller: EpisodeCaller | None = None, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._runs = runs
        self._caller = caller
        self._result: RLMBenchmarkResult | None = None
        self._attempt = ""
        self._numbers = itertools.count(1)

    def terms(self, preset: Preset, options: BenchOptions) -> BenchTerms:
        """Those of a new benchmark. Raises ConfigError without a model."""
        settings, address = self.settings, models_of(self.settings)
        connector_model = self._caller.model if self._caller else None
        model = settings.model or (connector_model.model if connector_model else "")
        if options.context_tokens is None:
            context = context_of(address, model, connector_model)
            options = options.replace(context_tokens=context.tokens)
        is_bundled = preset.source in pack.aliases().values()
        return BenchTerms(
            preset.name,
            "" if is_bundled else os.path.abspath(preset.source),
            _suite_hash(preset, options),
            options,
            model,
            connector_model.name if connector_model else provider_of(address),
            timestamp(time.time()),
        )

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:  # noqa: ARG002 - as it is called
        with self.recording(run) as record:
            terms = BenchTerms.of(record)
            preset, options = terms.loaded(), terms.options
            _, more = attempt.carried(record, self.more)
            attempt.apply(self.settings, more)
            self._gateway = self._opened(record, terms)
            attempt.keep(record, self.more)
            with suppress(ConfigError):  # not every benchmark needs one
                chosen = sandbox.choose(self.settings.sandbox, self.settings.environ)
                run.set_sandbox(chosen.name)
            self._servers = self._named_servers(options)
            self._held, self._record = run, record
            self.progress.written = record.active.shown
            self._episodes = CaseEpisodes(run, record, self._gateway.ledger, self._runs)
            result = benchmark.run(
                preset,
                options,
                self._services(options),
                run.id,
                run.path_of(*summary.INSIDE),
                started_at=terms.started_at,
            )
        self._result = result
        failure = self.ended()[1]
        if isinstance(failure, LimitError):
            run.detail = failure.budget
        score = summary.mean([case_result["score"] for case_result in result.case_results])
        done = (
            f"{result.completed_cases} of {result.total_cases} cases completed, score {score:.3f}"
        )
        return OK if failure is None else failure.code, done

    def _named_servers(self, options: BenchOptions) -> str | None:
        """The file of the MCP servers that the harness connects. Raises ConfigError."""
        path: str | None = self.settings.episode.mcp_config
        if not options.include_mcp or options.mode != HARNESS:
            if path and self.settings.sources["episode.mcp_config"] == "--mcp-config":
                self.progress.say("no MCP server is connected: give --mode harness --include-mcp")
            return None
        if not path:
            self.progress.say("no MCP server is connected: --mcp-config names none")
            return None
        environ, root = self.settings.environ, self.repository.root
        connection.load(path, environ, root=root, server=options.mcp_server)
        return os.path.abspath(path)

    def ended(self) -> tuple[RLMBenchmarkResult, RlmCiError | None]:
        """The result, and why not all cases have a score."""
        if self._result is None:
            raise RuntimeError("the benchmark has not been run")
        path = str(self._result.summary_path)
        return self._result, _failure(summary.read(path).record, path)

    def shown(self, _options: RenderOptions) -> str:
        if self._result is None:
            return ""
        return text.result(summary.read(str(self._result.summary_path)).record)

    def _opened(self, record: Record, terms: BenchTerms) -> Gateway:
        return Gateway(
            models_of(self.settings),
            record,
            RunClock(record.fact),
            model=terms.model,
            max_minutes=None,
            provider=terms.provider,
            connector=self._caller.model if self._caller else None,
            others=(terms.options.judge_model, terms.options.sub_model),
        )

    def _services(self, options: BenchOptions) -> BenchServices:
        settings, window = self.settings, options.context_tokens or context_length.DEFAULT
        limit = settings.models.max_completion_tokens
        self._answer_tokens = context_length.answer_tokens(window, limit)
        return BenchServices(
            self._gateway.model,
            self._ask,
            self._episode,
            judge=partial(self._ask, model=options.judge_model),
            sandbox=lambda: sandbox.choose(settings.sandbox, settings.environ),
            recorded=self._recorded,
            clean=self._held.redactor.text,
            step=self.progress.step,
            answer_tokens=self._answer_tokens,
        )

    def _recorded(self, step: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The result of an attempt. One that the model did not answer is made again."""
        stored = self._record.find(_ATTEMPT, step, {})
        if stored is not None:
            return stored
        self._attempt, self._numbers = step, itertools.count(1)
        entry = make()
        return entry if entry["error"] else self._record.fact(_ATTEMPT, step, {}, lambda: entry)

    def _ask(self, prompt: str, model: str | None = None) -> Reply:
        messages = ({"role": "user", "content": prompt},)
        request = ModelRequest(model or self._gateway.model, messages, self._answer_tokens)
        # Each at a place of its own: a repeat is asked again.
        completion = self._gateway.complete(request, f"{self._attempt}/{next(self._numbers)}")
        usage = completion.usage
        return Reply(
            completion.text,
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
            None if completion.cost is None else float(completion.cost),
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
        counters = _counters(ended, options, has_servers=self._servers is not None)
        return ended.replace(harness=counters)

    def _run_episode(
        self,
        prepared: PreparedCase,
        options: BenchOptions,
        environment: str,
        task: str | None = None,
    ) -> CaseRun:
        settings = self._of_case(prepared, options, environment)
        task = prepared.case.task if task is None else task
        values = {key: settings.values[key] for key in settings.rows if key.startswith("episode.")}
        request = RunRequest(
            definition.EPISODE,
            self._held.redactor.text(task),
            {key: str(value) for key, value in values.items() if value is not None},
            definition.digest(definition.BUILT_IN, definition.EPISODE),
        )

        def make() -> EpisodeJob:
            # The change and its config file have been looked at: generated files have none.
            skipped = without_runs(self._runs.root, settings.runs_dir, settings.out_dir)
            repository = open_repository(settings)
            return EpisodeJob(
                settings, repository, self.progress, skipped=skipped, caller=self._caller
            )

        ended = self._episodes.conduct(self._attempt, request, make, task)
        has_patch = prepared.module and environment_of(environment) == _CODING
        if has_patch and prepared.workdir and ended.result.completed:
            folder = ended.result.run_path.parent
            stored_trees.put(str(folder), prepared.workdir, settings.environ)
        return ended

    def _of_case(self, prepared: PreparedCase, options: BenchOptions, environment: str) -> Settings:
        """The settings of the benchmark, with those of one case, and the rest of its budgets."""
        case = prepared.case
        values: dict[str, Any] = {
            "model": self._gateway.model,
            "episode.environment": environment,
            "episode.max_steps": case.max_steps,
            "episode.exec_timeout": case.exec_timeout,
            "episode.branch_width": options.branch_width,
            "episode.framework": options.framework,
            "episode.sub_model": options.sub_model,
            "episode.sub_provider": options.sub_provider,
            SETTING: options.context_tokens,
            # Those to a case's own files come from the episode's folder, also in a resumed run.
            "loop.apply": False,
            "episode.mcp_config": self._servers,
            "episode.mcp_server": options.mcp_server,
            "context.source": prepared.context,
            **self._episodes.budgets_left(self._attempt),
        }
        if prepared.workdir is not None:
            values["repo"] = prepared.workdir
            values["loop.validator"] = _TESTS if prepared.module else "none"
        settings = Settings(PROGRAM, {}, self.settings.environ)
        for key, row in settings.rows.items():
            if key in self.settings.rows:
                settings.values[key] = self.settings.values[key]
                settings.sources[key] = self.settings.sources[key]
            if key in values:
                settings.values[row.key] = values[key]
                settings.sources[row.key] = f"case {case.case_id}"
        return settings


def _counters(ended: CaseRun, options: BenchOptions, *, has_servers: bool) -> dict[str, Any]:
    """The fields that the mode harness adds."""
    taken = [line.get("action") for line in episode.read(str(ended.result.run_path))]
    actions = [action.get("action") for action in taken if isinstance(action, dict)]
    programs = sum(name == "run_python" for name in actions)
    is_codemode = options.harness_strategy == "codemode"
    return {
        "mcp_enabled": has_servers,
        "mcp_server": options.mcp_server,
        "harness_strategy": options.harness_strategy,
        "harness_tool_calls": len(actions),
        "mcp_tool_calls": sum(str(name).startswith(MCP) for name in actions),
        "codemode_chain_calls": programs if is_codemode else 0,
    }
