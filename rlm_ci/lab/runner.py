"""``RLMRunner``: episodes, chats and benchmarks for a Python program, and its environments.

Each episode is a run in the store of the repository, as ``rlm-ci run`` makes it.
"""

from __future__ import annotations

import os
from functools import partial, wraps
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Setting, convert
from rlm_ci.console.progress import Progress
from rlm_ci.environments.names import CODING, ENVIRONMENTS, GENERIC, REPL, supported_environments
from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.errors import ConfigError, RlmCiError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import endpoint_of
from rlm_ci.lab import chat, readiness, trajectories
from rlm_ci.lab import run as episodes
from rlm_ci.lab.bench import compare, summary
from rlm_ci.lab.bench import run as benchmarks
from rlm_ci.lab.bench.benchmark import BenchOptions
from rlm_ci.lab.bench.compare import Gates
from rlm_ci.lab.bench.packs import pack
from rlm_ci.lab.chat import ChatSession
from rlm_ci.lab.connectors import WHERE, ConnectedEngine, ConnectorModel, method_of
from rlm_ci.lab.event_bus import RLMEventBus
from rlm_ci.lab.frameworks import supported_frameworks
from rlm_ci.lab.observability import RLMObservability
from rlm_ci.lab.readiness import EnvironmentDoctorCheck, EpisodeNeeds
from rlm_ci.lab.results import RLMBenchmarkComparison, RLMBenchmarkResult, RLMRunResult, of_episode
from rlm_ci.lab.terms import EpisodeCaller
from rlm_ci.lab.trajectories import Trajectories
from rlm_ci.pipelines import definition, load, stored_runs
from rlm_ci.runs.request import RunRequest
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.config.settings import Settings
    from rlm_ci.runs.run import Run


class RLMEnvironment:
    """One environment under one of its names.

    ``run_task`` takes what that of the runner takes. ``doctor_checks`` says whether it is ready.
    """

    def __init__(
        self,
        name: str,
        run_task: Callable[..., RLMRunResult],
        doctor: Callable[[str], list[EnvironmentDoctorCheck]],
    ) -> None:
        self.name = name
        self.run_task: Callable[..., RLMRunResult] = partial(run_task, environment=name)
        self.doctor_checks: Callable[[], list[EnvironmentDoctorCheck]] = partial(doctor, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class GenericRLMEnvironment(RLMEnvironment):
    """Python in a sandbox, questions to a model, children."""


class DSPyCodingRLMEnvironment(RLMEnvironment):
    """The same on a copy of the code, with tools that read, edit and test it."""


class PureRLMEnvironment(RLMEnvironment):
    """A REPL whose variable is the context."""


_CLASSES = {
    GENERIC: GenericRLMEnvironment,
    CODING: DSPyCodingRLMEnvironment,
    REPL: PureRLMEnvironment,
}


class Environments(dict[str, RLMEnvironment]):
    """All environments by their names. An unknown name is a KeyError that lists the known ones."""

    def __init__(self, *methods: Any) -> None:
        super().__init__(
            (name, _CLASSES[kind](name, *methods)) for name, kind in ENVIRONMENTS.items()
        )

    def __missing__(self, name: str) -> RLMEnvironment:
        names = ", ".join(self)
        raise KeyError(f"there is no environment {printable(str(name)[:100])!r}: known: {names}")


def _with_hints(cls: type[RLMRunner]) -> type[RLMRunner]:
    """Errors of all public methods say what to do in their text."""

    def telling(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **more: Any) -> Any:
            try:
                return method(*args, **more)
            except RlmCiError as error:
                error.has_hint_in_text = True
                raise

        return call

    for name, method in list(vars(cls).items()):
        if callable(method) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, telling(method))
    return cls


@_with_hints
class RLMRunner:
    """Runs episodes of ``llm_connector`` in ``workdir``.

    The connector has ``generate_response(prompt, **kwargs)``; None is the endpoint that the
    environment variables name. The engine has ``execute_code(code)``; None is the sandbox.
    ``run_dir`` is the folder of the runs, ``.runs`` in ``workdir`` by default. At most
    ``max_parallelism`` children run at once. Methods raise RlmCiError.
    """

    def __init__(  # noqa: PLR0917 - the specification's
        self,
        llm_connector: Any,
        execution_engine: Any,
        run_dir: Path | None = None,
        workdir: Path | None = None,
        observability: RLMObservability | None = None,
        event_bus: RLMEventBus | None = None,
        reward_profile: RLMRewardProfile | dict[str, Any] | None = None,
        benchmark_pack_paths: list[str | Path] | None = None,
        max_parallelism: int = 4,
    ) -> None:
        self.llm_connector = llm_connector
        self.execution_engine = execution_engine
        for name, path in (("workdir", workdir), ("run_dir", run_dir)):
            _require(isinstance(path, str | Path | None), name, "a path", path)
        self.workdir = Path(workdir) if workdir is not None else Path.cwd()
        self.event_bus = RLMEventBus() if event_bus is None else event_bus
        self.observability = observability
        method_of(self.event_bus, "emit")
        if observability is not None:
            method_of(observability, "on_event")
        if not isinstance(reward_profile, RLMRewardProfile):
            reward_profile = RLMRewardProfile.from_mapping(reward_profile)
        self.reward_profile = reward_profile
        paths: Any = benchmark_pack_paths or []
        paths = [paths] if isinstance(paths, str | Path) else paths
        are_paths = isinstance(paths, list | tuple) and all(
            isinstance(path, str | Path) for path in paths
        )
        _require(are_paths, "benchmark_pack_paths", "a list of paths", paths)
        self.benchmark_pack_paths = list(paths)
        self.max_parallelism: int = _converted(
            "episode.parallelism", "max_parallelism", max_parallelism
        )
        self.environments = Environments(self.run_task, self.doctor)
        self._run_dir = run_dir

    # ── episodes ──

    def run_task(  # noqa: PLR0917 - the specification's
        self,
        task: str,
        max_steps: int = 4,
        exec_timeout: int = 30,
        environment: str = "generic",
        sub_model: str | None = None,
        sub_provider: str | None = None,
        branch_width: int = 1,
        framework: str | None = None,
        max_depth: int = 2,
        max_children_per_step: int = 4,
        parallelism: int = 2,
        time_budget_seconds: int | None = None,
        *,
        context: str | Path | None = None,
    ) -> RLMRunResult:
        """Run one episode to its end, whatever that is; raises what keeps it from one.

        ``context`` is a Path or the absolute path of a file or folder, else a text: the variable
        of the REPL, or a part of the prompt.
        """
        flags = _flags(
            "episode",
            environment=environment,
            max_steps=max_steps,
            exec_timeout=exec_timeout,
            branch_width=branch_width,
            framework=framework,
            max_depth=max_depth,
            max_children_per_step=max_children_per_step,
            parallelism=parallelism,
            time_budget_seconds=time_budget_seconds,
            sub_model=sub_model,
            sub_provider=sub_provider,
        )
        return self._run(flags, task, context)

    def resume_run(self, run_id: str) -> RLMRunResult:
        """Continue an episode whose process has ended, with this runner's connector and engine."""
        runs, path, request = self._resumable(run_id, definition.EPISODE)
        settings = self._settings(request.flags)
        with runs.open(path) as run:
            return self._conduct(run, request, settings, runs)

    def _resumable(
        self, run_id: str, pipeline: str
    ) -> tuple[stored_runs.StoredRuns, str, RunRequest]:
        """The store of a run that can be continued, its folder, and its request."""
        runs = stored_runs.StoredRuns(self._settings({}))
        entry = runs.own_run(run_id)
        if not entry.is_resumable or entry.run.pipeline_id != pipeline:
            is_other = entry.run.pipeline_id != pipeline
            reason = f"it is a run of {entry.run.pipeline_id}" if is_other else entry.run.status
            raise UsageError(
                f"the run cannot be continued: {reason}", where=entry.run_id, hint="start a new one"
            )
        return runs, entry.path, RunRequest.read(entry.path, pipeline)

    def _run(
        self, flags: dict[str, str], task: str, context: str | Path | None = None
    ) -> RLMRunResult:
        convert(Setting("task", "what is to be done"), task, WHERE)
        settings = self._settings(flags)
        pipelines = load.load(settings, open_repository(settings))
        runs = stored_runs.StoredRuns(settings)
        clean = runs.redactor.text
        with runs.create(runs.task_or_own(), definition.EPISODE) as run:
            if context is not None:
                source = os.path.abspath(_context_of(context, run))
                flags["context.source"] = settings.values["context.source"] = source
            digest = definition.digest(pipelines, definition.EPISODE)
            request = RunRequest(definition.EPISODE, clean(task), flags, digest)
            request.write(run.path)
            return self._conduct(run, request, settings, runs)

    def _conduct(
        self, run: Run, request: RunRequest, settings: Settings, runs: stored_runs.StoredRuns
    ) -> RLMRunResult:
        repository = open_repository(settings)
        pipelines = load.load(settings, repository)
        load.require_same(pipelines, request)
        load.require_leave(pipelines, request.pipeline_id, settings)
        with Progress(settings.environ, quiet=True) as progress:
            job = episodes.make(settings, repository, runs, progress, caller=self._caller(settings))
            load.conduct(run, request, runs, pipelines, {definition.EPISODE: job})
            return of_episode(run, job, str(request.goal), settings.episode.environment)

    def _settings(self, flags: Mapping[str, Any]) -> Settings:
        settings = stored_runs.settings_of({**flags, "repo": str(self.workdir)})
        settings.sources.update(
            (key, key.rpartition(".")[2]) for key in flags if key.startswith(("episode.", "chat."))
        )
        if self._run_dir is not None:
            settings.values["runs_dir"] = os.path.abspath(self._run_dir)
            settings.sources["runs_dir"] = "run_dir"
        return settings

    def _caller(self, settings: Settings) -> EpisodeCaller:
        limits = (settings.max_tokens, settings.budget_usd)
        connector = self.llm_connector
        return EpisodeCaller(
            None
            if connector is None
            else ConnectorModel(connector, metered=limits != (None, None)),
            None if self.execution_engine is None else ConnectedEngine(self.execution_engine),
            self.event_bus,
            self.observability,
            self.reward_profile,
            self.max_parallelism,
        )

    # ── conversations ──

    def run_chat_turn(
        self,
        message: str,
        session_id: str = "default",
        *,
        environment: str = "generic",
        max_steps: int = 4,
        enable_compaction: bool = True,
        compaction_limit: int = 6,
        keep_recent: int = 4,
        **more: Any,
    ) -> RLMRunResult:
        """Answer a message by an episode that knows what was said in the session before.

        ``more`` are further parameters of ``run_task``. Beyond ``compaction_limit`` exchanges, all
        but the newest ``keep_recent`` are summarized.
        """
        parameters = signature(self.run_task).parameters
        for name in more:
            if name not in parameters or name == "task":
                raise TypeError(f"run_chat_turn() got an unexpected keyword argument {name!r}")
        flags = _flags("episode", environment=environment, max_steps=max_steps, **more)
        flags |= _flags(
            "chat",
            session_id=session_id,
            compaction=str(enable_compaction).lower(),
            compaction_limit=compaction_limit,
            keep_recent=keep_recent,
        )
        return self._run(flags, message)

    def get_chat_session(self, session_id: str = "default") -> dict[str, Any] | None:
        """What is known of a session; None for one that has not begun."""
        record = self._chat_session(session_id).read()
        return None if record is None else chat.metadata(record)

    def reset_chat_session(self, session_id: str = "default") -> bool:
        """Forget a session; whether there was one."""
        return self._chat_session(session_id).forget()

    def _chat_session(self, session_id: str) -> ChatSession:
        runs = stored_runs.StoredRuns(self._settings({}))
        return ChatSession(os.path.join(runs.store.root, runs.task_or_own()), session_id)

    # ── what was run ──

    def list_runs(self, limit: int = 10) -> list[dict[str, Any]]:
        """Summaries of the newest episodes, those of rlm-code included."""
        statuses = map(trajectories.status, islice(self._trajectories().recent(), limit))
        return [status for status in statuses if status is not None]

    def get_run_status(self, run_id: str | None = None) -> dict[str, Any] | None:
        """The summary of one episode, of the latest for None; None for an unknown one."""
        trajectory = self._trajectories().find(run_id)
        return None if trajectory is None else trajectories.status(trajectory)

    def load_run_events(self, run_id: str) -> list[dict[str, Any]]:
        """The lines of a trajectory; none for an unknown one."""
        trajectory = self._trajectories().find(run_id)
        return [] if trajectory is None else trajectory.lines()

    def visualize_run(
        self, run_id: str | None = None, *, include_children: bool = True, max_depth: int = 3
    ) -> dict[str, Any]:
        """One episode for a viewer, its children nested. Raises UsageError for an unknown one."""
        trajectory = self._trajectories().require(run_id)
        return trajectories.picture(
            trajectory, include_children=include_children, max_depth=max_depth
        )

    def export_log(self, run_id: str, path: str | Path) -> int:
        """Write an episode as a log that the visualizer of rlm opens; the number of its steps."""
        return trajectories.write(self._trajectories().require(run_id), str(path))

    def _trajectories(self) -> Trajectories:
        folders = [os.path.join(self.workdir, trajectories.RLM_CODE)]
        if self._run_dir is not None:
            folders.append(os.path.abspath(self._run_dir))
        return Trajectories(stored_runs.StoredRuns(self._settings({})), tuple(folders))

    # ── benchmarks ──

    def run_benchmark(
        self,
        *,
        preset: str = "dspy_quick",
        mode: str = "native",
        include_mcp: bool = False,
        mcp_server: str | None = None,
        harness_strategy: str = "tool_call",
        limit: int | None = None,
        environment: str | None = None,
        framework: str | None = None,
        max_steps: int | None = None,
        exec_timeout: int | None = None,
        branch_width: int = 1,
        sub_model: str | None = None,
        sub_provider: str | None = None,
        pack_paths: list[str | Path] | None = None,
        repeats: int = 1,
    ) -> RLMBenchmarkResult:
        """Run the cases of a preset, ``repeats`` times each, beside one direct prompt.

        A budget that is used up ends it early, with ``cancelled`` set.
        """
        options = BenchOptions(
            mode=mode,
            repeats=repeats,
            limit=limit,
            **_checked(
                "episode",
                environment=environment,
                framework=framework,
                max_steps=max_steps,
                exec_timeout=exec_timeout,
                branch_width=branch_width,
                sub_model=sub_model,
                sub_provider=sub_provider,
            ),
            include_mcp=include_mcp,
            mcp_server=mcp_server,
            harness_strategy=harness_strategy,
        )
        chosen = pack.choose(preset, [*self.benchmark_pack_paths, *(pack_paths or ())])
        settings = self._settings({})
        runs = stored_runs.StoredRuns(settings)
        with Progress(settings.environ, quiet=True) as progress:
            caller = self._caller(settings)
            result, _ = benchmarks.carry_out(
                chosen, options, settings, runs, progress=progress, caller=caller
            )
            return result

    def resume_benchmark(self, benchmark_id: str) -> RLMBenchmarkResult:
        """Continue a benchmark whose process has ended, with this runner's connector and engine."""
        runs, path, request = self._resumable(benchmark_id, definition.BENCH)
        settings = self._settings(request.flags)
        repository = open_repository(settings)
        pipelines = load.of_run(load.load(settings, repository), request)
        load.require_same(pipelines, request)
        with Progress(settings.environ, quiet=True) as progress, runs.open(path) as run:
            caller = self._caller(settings)
            job = benchmarks.make(settings, repository, runs, progress, caller=caller)
            load.conduct(run, request, runs, pipelines, {definition.BENCH: job})
            return job.ended()[0]

    def compare_benchmarks(
        self,
        *,
        candidate: str = "latest",
        baseline: str = "previous",
        min_reward_delta: float = 0.0,
        min_completion_delta: float = 0.0,
        max_steps_increase: float = 0.0,
        fail_on_completion_regression: bool = True,
        min_score_delta: float | None = None,
        max_cost_increase: float | None = None,
        max_latency_increase: float | None = None,
    ) -> RLMBenchmarkComparison:
        """Compare two benchmarks of one suite. Raises ConfigError for those of two.

        The last three gates are off unless they are given.
        """
        gates = Gates(
            min_score_delta=min_score_delta,
            max_cost_increase=max_cost_increase,
            max_latency_increase=max_latency_increase,
            min_reward_delta=min_reward_delta,
            min_completion_delta=min_completion_delta,
            max_steps_increase=max_steps_increase,
            fail_on_completion_regression=fail_on_completion_regression,
        )
        for name, value in gates.to_dict().items():
            if value is not None and not isinstance(value, bool):
                convert(Setting(name, "a number, or None for no gate", kind="number"), value, WHERE)
        return compare.compare(self._benchmarks(), candidate, baseline, gates).result

    def benchmark_presets(self) -> list[dict[str, Any]]:
        """The presets there are, those of this runner's packs included."""
        return pack.presets(self.benchmark_pack_paths)

    def benchmark_pack_aliases(self) -> dict[str, str]:
        """The bundled packs by name, with their files."""
        return pack.aliases()

    def list_benchmark_runs(self, limit: int = 20) -> list[dict[str, Any]]:
        """Summaries of the newest benchmarks without their cases; those of rlm-code come last."""
        outlines = [benchmark.outline() for benchmark in self._benchmarks()]
        folder = os.path.join(self.workdir, os.path.dirname(trajectories.RLM_CODE), "benchmarks")
        return [*outlines, *summary.of_rlm_code(folder)][:limit]

    def _benchmarks(self) -> list[summary.StoredBenchmark]:
        return summary.of_store(stored_runs.StoredRuns(self._settings({})).store)

    # ── what there is ──

    def doctor(self, environment: str = "generic") -> list[EnvironmentDoctorCheck]:
        """Whether episodes can be run here, check by check."""
        settings = self._settings({})
        model = self._caller(settings).model
        is_set = not endpoint_of(settings).lack
        needs = EpisodeNeeds(
            environment,
            os.path.abspath(self.workdir),
            stored_runs.StoredRuns(settings).store.root,
            model.model if model else (settings.model or "") if is_set else "",
            settings.sandbox,
            settings.environ,
            "" if self.execution_engine is None else type(self.execution_engine).__name__,
        )
        return readiness.checks(needs)

    def observability_status(self) -> list[dict[str, Any]]:
        """The sinks for figures: ``name``, ``enabled``, ``available``, ``detail``."""
        settings = self._settings({})
        runs = stored_runs.StoredRuns(settings)
        task = os.path.join(runs.store.root, runs.task_or_own())
        return (self.observability or RLMObservability.of(task, settings.environ)).status()

    def supported_frameworks(self) -> list[str]:
        """The names of all frameworks; ``doctor`` tells which of them are installed."""
        return list(supported_frameworks())

    def supported_environments(self) -> list[str]:
        """All names of environments."""
        return list(supported_environments())


def _context_of(context: str | Path, run: Run) -> str:
    """The path of a context; a text is kept in the folder of the run."""
    if isinstance(context, Path) or (os.path.isabs(context[:4096]) and os.path.exists(context)):
        return str(context)
    path = run.path_of("context.txt")
    files.write(path, encodable(run.redactor.text(context)).encode(), 0o600)
    return path


def _checked(section: str, **values: Any) -> dict[str, Any]:
    """Those values of settings that are given. Raises ConfigError for a wrong one."""
    return {
        name: _converted(f"{section}.{name}", name, value)
        for name, value in values.items()
        if value is not None
    }


def _converted(key: str, name: str, value: Any) -> Any:
    """The value of the setting ``key`` that is called ``name`` here. Raises ConfigError."""
    row = next(row for row in PROGRAM if row.key == key)
    return convert(row.replace(key=name), str(value), WHERE)


def _require(is_sound: bool, name: str, kind: str, value: object) -> None:  # noqa: FBT001
    """Raises ConfigError for a parameter that is not of its kind."""
    if not is_sound:
        raise ConfigError(f"{name} must be {kind}, not {value!r}", where=WHERE, hint=f"give {kind}")


def _flags(section: str, **values: Any) -> dict[str, str]:
    """Settings as a command line has them: the request of a run keeps texts."""
    checked = _checked(section, **values)
    return {f"{section}.{name}": str(value) for name, value in checked.items()}
