"""The pipeline ``run``: one episode, from its options to its report."""

from __future__ import annotations

import json
import os

from rlm_ci import sandbox
from rlm_ci.change import privileged_events
from rlm_ci.console.failures import failure
from rlm_ci.console.messages import warn
from rlm_ci.environments.delegation import ChildSlots, ChildTask, Delegation
from rlm_ci.environments.names import environment_of
from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.errors import ConfigError, LimitError, RemoteError, UsageError
from rlm_ci.evaluation.chat import ChatSession, CompactionRules
from rlm_ci.evaluation.episodes import report
from rlm_ci.evaluation.episodes.code_runs import SandboxedPython
from rlm_ci.evaluation.episodes.episode import EpisodeServices
from rlm_ci.evaluation.episodes.options import EpisodeOptions
from rlm_ci.evaluation.episodes.setups import Setups
from rlm_ci.evaluation.event_bus import RLMEventBus
from rlm_ci.judge import config_file
from rlm_ci.judge.options import models_of, output_of, rests_on
from rlm_ci.models import ModelRequest
from rlm_ci.models.gateway import Gateway, earlier, provider_of, require_endpoint
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.pipelines import budget_increase, load
from rlm_ci.pipelines.attempt import RunAttempt
from rlm_ci.pipelines.job import PipelineJob, without_runs
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Part, Report, Severity, Subject
from rlm_ci.runs.manifest import BUDGETS, PAUSED, timestamp
from rlm_ci.system import files, process
from rlm_ci.text.printable import printable, printable_file
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.errors import RlmCiError
    from rlm_ci.evaluation.connectors import ConnectorModel
    from rlm_ci.evaluation.episodes.code_runs import Interpreter
    from rlm_ci.evaluation.episodes.node import EpisodeEnd
    from rlm_ci.git.repository import Repository
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run

PIPELINE = "run"
#: The result of the episode, beside its report.
RESULT = "run.json"
VERSION = 1
#: Tokens of the summary of a conversation.
_SUMMARY_TOKENS = 1024
#: Steps of an episode without a limit.
_UNLIMITED = 1 << 20


class EpisodeCaller(Value):
    """What a Python program brings: a model, an interpreter, who follows the events, rewards."""

    model: ConnectorModel | None = None
    interpreter: Interpreter | None = None
    bus: RLMEventBus | None = None
    profile: RLMRewardProfile = RLMRewardProfile()
    max_parallelism: int = 4


class EpisodeJob(PipelineJob):
    """The pipeline ``run``. ``caller`` is empty for a command line; ``end`` is set at the end."""

    def __init__(self, *args: Any, caller: EpisodeCaller | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.caller = caller or EpisodeCaller()
        self.bus = self.caller.bus or RLMEventBus()
        self.end: EpisodeEnd | None = None

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """The exit code, and a line about the end. Raises RlmCiError, once it is stored."""
        if not goal or not goal.strip():
            raise UsageError("there is no task", where="TASK", hint='add it: rlm-ci run "TASK"')
        run.redactor = Redactor(self.settings.environ)
        run.rests_on = rests_on(self.settings, self.repository.root)
        self.progress.redact = clean = run.redactor.text
        path = self.replay or run.path_of(FILE)
        cache = earlier(run.path, FILE) if self.settings.models.cache and not self.replay else ()
        with Record.open(path, redact=clean, replay_only=bool(self.replay), cache=cache) as record:
            attempt = EpisodeAttempt(self, run, record)
            self.report = attempt.carry_out(clean(goal))
        for name, pieces in output_of(self.settings).rendered(self.report):
            files.write(run.path_of(name), pieces, 0o600)
        if attempt.error is not None:
            run.detail = PAUSED if attempt.goes_on else None
            raise attempt.error
        self.end = end = attempt.end
        if end is None:
            raise RuntimeError("an attempt without an error has an end")
        run.detail = end.budget if end.budget in BUDGETS else None
        return self.report.exit_code(), report.summary(end)


class EpisodeAttempt(RunAttempt):
    """One process's attempt at an episode."""

    _all: EpisodeJob

    def __init__(self, work: EpisodeJob, run: Run, record: Record) -> None:
        super().__init__(work, run, record)
        self.error: RlmCiError | None = None
        self.end: EpisodeEnd | None = None
        self.goes_on = False

    def carry_out(self, task: str) -> Report:
        """The report; ``error`` has any exception, also of a bug."""
        is_under_way = self._record.find("terms", "start", {}) is not None
        try:
            made = self._work(task)
        except Exception as error:  # noqa: BLE001 - the report has any error
            self.error = failure(error, self._run.path, self._run.redactor.text)
            # Another endpoint or settings may mend it.
            self.goes_on = is_under_way and isinstance(self.error, ConfigError)
            part = Part.from_error(report.PART, self.error)
            made = Report(Subject(), Severity.HIGH, (part,), usage=self._usage())
        return self._run.redactor.report(made.replace(run_id=self._run.id))

    def _work(self, task: str) -> Report:
        options = self._options(task)
        max_steps, max_minutes = self._raised(options)
        self._run.set_sandbox(options.sandbox)
        budget_increase.keep(self._record, self._all.more)
        services = self._services(options, max_minutes)
        root = ChildTask(options.task, environment=options.environment)
        delegation = Delegation(
            services.run_child,
            slots=ChildSlots(min(options.parallelism, self._all.caller.max_parallelism)),
            lineage=(root.fingerprint(),),
            max_depth=options.max_depth,
            max_children=options.max_children,
            parallelism=options.parallelism,
            deadline=None if self._all.replay else self._clock.deadline(max_minutes),
        )
        self.end = end = services.run_root(self._run.id, root, delegation, max_steps)
        self._write(end, options)
        if options.session and not self._all.replay:
            self._add_turn(end, options, services)
        metrics = {
            "environment": options.environment,
            "model": options.model,
            "steps": end.steps,
            "final_reward": end.reward,
            "sandbox": options.sandbox,
        }
        subject = Subject(head=options.head, worktree=True)
        return report.build(end, metrics=metrics, subject=subject, usage=self._usage())

    # ── the options ──

    def _options(self, task: str) -> EpisodeOptions:
        def produce() -> Mapping[str, Any]:
            settings, repository, caller = (
                self._all.settings,
                self._all.repository,
                self._all.caller,
            )
            told = settings.episode
            environment_of(told.environment, settings.sources["episode.environment"])
            if caller.model is None:
                require_endpoint(models_of(settings), "set one of them")
                _require_provider(settings)
            place = None if caller.interpreter else self._sandbox()
            model = settings.model or (caller.model.model if caller.model else "")
            seconds = told.time_budget_seconds
            return EpisodeOptions(
                task=task,
                environment=told.environment,
                model=model,
                provider=caller.model.name if caller.model else provider_of(models_of(settings)),
                # None outside of git and before the first commit.
                head=repository.head_commit() if repository.git_dir else None,
                max_steps=told.max_steps,
                exec_timeout=told.exec_timeout,
                branch_width=told.branch_width,
                framework=told.framework,
                max_depth=told.max_depth,
                max_children=told.max_children_per_step,
                parallelism=told.parallelism,
                max_minutes=None if seconds is None else seconds / 60,
                max_completion_tokens=settings.models.max_completion_tokens,
                sandbox=place.name if place else "engine",
                isolated=place.isolated if place else False,
                rewards=caller.profile.to_dict(),
                sub_model=told.sub_model,
                session=self._session_so_far(),
            ).to_dict()

        return self._record.shaped(
            "terms", "start", {}, produce, lambda told: EpisodeOptions(**told)
        )

    def _raised(self, options: EpisodeOptions) -> tuple[int, float | None]:
        """The steps and minutes, with what the run was given since; a prompt tells the first."""
        _, more = budget_increase.carried(self._record, self._all.more)
        budget_increase.apply(self._all.settings, more)
        steps = more.get("max_iterations", options.max_steps)
        return int(_UNLIMITED if steps is None else steps), more.get(
            "max_minutes", options.max_minutes
        )

    def _sandbox(self) -> Any:
        return sandbox.choose(self._all.settings.sandbox, self._all.settings.environ)

    # ── the episode ──

    def _services(self, options: EpisodeOptions, max_minutes: float | None) -> EpisodeServices:
        settings, caller, record = self._all.settings, self._all.caller, self._record
        gateway = Gateway(
            models_of(settings),
            record,
            self._clock,
            model=options.model,
            max_minutes=max_minutes,
            provider=options.provider,
            replay=bool(self._all.replay),
            connector=caller.model,
        )
        self._all.progress.left = lambda: self._left(max_minutes, metered=True)
        setups = Setups(
            options,
            gateway.complete,
            record.fact,
            interpreter=self._interpreter(options),
            seconds_left=gateway.ledger.seconds_left,
        )
        return EpisodeServices(
            options,
            gateway.complete,
            record,
            self._clock,
            self._all.bus,
            setups.of,
            self._run.path_of,
            self._run.redactor.text,
            self._step,
            {},
            replay=bool(self._all.replay),
        )

    def _interpreter(self, options: EpisodeOptions) -> Interpreter | None:
        if self._all.replay:
            return None
        if self._all.caller.interpreter is not None:
            return self._all.caller.interpreter
        if options.sandbox == "engine":
            raise ConfigError(
                "the run began with an execution engine of a Python program",
                where=self._run.id,
                hint="continue it there, by RLMRunner.resume_run",
            )
        return SandboxedPython(self._sandbox(), self._all.settings.environ)

    # ── the chat session ──

    def _session(self, session_id: str) -> ChatSession:
        task = os.path.dirname(os.path.dirname(self._run.path))
        return ChatSession(task, session_id)

    def _session_so_far(self) -> Mapping[str, Any] | None:
        session_id = self._all.settings.chat.session_id
        if session_id is None:
            return None
        record = self._session(session_id).read() or {"histories": [], "compacted_summaries": []}
        return {
            "id": session_id,
            "history": record["histories"],
            "summaries": record["compacted_summaries"],
        }

    def _add_turn(
        self, end: EpisodeEnd, options: EpisodeOptions, services: EpisodeServices
    ) -> None:
        """Add what was said to the session; a resumed run finds it there."""
        told = self._all.settings.chat

        def summarize(prompt: str) -> str:
            message = {"role": "user", "content": prompt}
            request = ModelRequest(options.model, (message,), max_tokens=_SUMMARY_TOKENS)
            try:
                return services.complete(request, "compaction").text
            except (LimitError, RemoteError):
                return ""  # the session keeps the beginnings of the messages instead

        turn = {
            "timestamp": timestamp(self._run.now()),
            "user": options.task,
            "assistant": end.answer if end.completed else f"(no answer: {end.reason})",
            "run_id": self._run.id,
        }
        head = {"environment": options.environment, "framework": options.framework or "native"}
        rules = CompactionRules(told.compaction, told.compaction_limit, told.keep_recent)
        session = self._session(str((options.session or {})["id"]))
        session.add(turn, head, rules, summarize)

    def _write(self, end: EpisodeEnd, options: EpisodeOptions) -> None:
        """``run.json``, and the answer."""
        usage = self._usage()
        record = {
            "version": VERSION,
            "task": options.task,
            "environment": options.environment,
            "framework": options.framework,
            "model": options.model,
            "status": end.status,
            "completed": end.completed,
            "reason": end.reason,
            "steps": end.steps,
            "final_reward": end.reward,
            "final_response": end.answer,
            "usage": {
                "total_calls": usage.calls,
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
            },
        }
        text = self._run.redactor.text(json.dumps(record, indent=2))
        files.write(self._run.path_of(RESULT), f"{text}\n".encode(), 0o600)
        if end.completed:
            path = self._run.path_of("rlm", report.ANSWER)
            files.write(path, printable_file(end.answer), 0o600)


def _require_provider(settings: Settings) -> None:
    """Raise ConfigError where sub-calls are to go to another provider than the endpoint."""
    wanted, now = settings.episode.sub_provider, provider_of(models_of(settings))
    if wanted not in (None, now):
        raise ConfigError(
            f"there is no provider {printable(wanted)[:80]!r} here",
            where=settings.sources["episode.sub_provider"],
            hint=f"known: {now}, that of the endpoint; --sub-model names another model there",
        )


def make(
    settings: Settings,
    repository: Repository,
    runs: StoredRuns,
    progress: Progress,
    replay: str | None = None,
    *,
    caller: EpisodeCaller | None = None,
) -> EpisodeJob:
    """The job that the settings and the config file describe.

    Raises ConfigError, also if the change's code must not run.
    """
    process.harden()
    event = (
        privileged_events.event_of(settings.github.event_name) if settings.github.actions else None
    )
    for change in load.changes_of(settings, repository):
        privileged_events.refuse_execution(change, event, what="an episode")
        for doubt in config_file.apply(settings, change):
            warn(doubt)
    return EpisodeJob(
        settings,
        repository,
        progress,
        skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        replay=replay,
        caller=caller,
    )
