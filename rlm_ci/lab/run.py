"""The pipeline ``run``: one episode, and an attempt at it, from its options to its report."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from functools import partial

from rlm_ci.environments.delegation import ChildSlots, ChildTask, Delegation
from rlm_ci.environments.names import CODING, REPL, environment_of
from rlm_ci.environments.repl.host.model_functions import fingerprint
from rlm_ci.environments.repl.host.options import ReplServices, RunFiles
from rlm_ci.environments.turn_loop import ask_shortened
from rlm_ci.errors import ConfigError, LimitError, RemoteError, UsageError
from rlm_ci.lab.chat import CompactionRules
from rlm_ci.lab.episodes import episode
from rlm_ci.lab.episodes.episode import EpisodeServices
from rlm_ci.lab.episodes.setups import (
    CONTEXT_LIMIT,
    ReplSetups,
    SandboxedPython,
    Setups,
    out_of_time,
)
from rlm_ci.lab.episodes.work_tree import WorkTree, WorkTreeContext
from rlm_ci.lab.event_bus import RLMEventBus, RLMRuntimeEvent
from rlm_ci.lab.mcp import connection
from rlm_ci.lab.mcp.tools import McpServers
from rlm_ci.lab.observability import RLMObservability
from rlm_ci.lab.terms import EpisodeCaller, EpisodeTerms
from rlm_ci.models import ModelRequest
from rlm_ci.models.context_length import ContextFit
from rlm_ci.pipelines import attempt, load
from rlm_ci.pipelines.attempt import RunAttempt, VerbJob, without_runs
from rlm_ci.pipelines.definition import EPISODE_RESULT
from rlm_ci.pipelines.run_context import RunContext
from rlm_ci.report.findings import Report, Subject
from rlm_ci.runs.cancel import MARK, end_leftovers
from rlm_ci.runs.manifest import BUDGETS, timestamp
from rlm_ci.system import files, process
from rlm_ci.text.printable import printable_file
from rlm_ci.workspace import apply
from rlm_ci.workspace.sandboxed_commands import ReplaySandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.context.context import Context
    from rlm_ci.git.repository import Repository
    from rlm_ci.lab.episodes.episode import EpisodeEnd, EpisodeOptions
    from rlm_ci.lab.episodes.setups import Interpreter
    from rlm_ci.lab.mcp.connection import McpProgram
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run


VERSION = 1
#: Tokens of the summary of a conversation.
_SUMMARY_TOKENS = 1024
#: Steps of an episode without a limit.
_UNLIMITED = 1 << 20


class EpisodeAttempt(RunAttempt):
    """One process's attempt at an episode."""

    part = episode.PART

    def __init__(
        self, work: PipelineJob, run: Run, task: str, record: Record, caller: EpisodeCaller
    ) -> None:
        super().__init__(work, run, record)
        self._task = task
        if caller.model is not None:
            model = caller.model.with_sub_provider(work.settings.episode.sub_provider)
            caller = caller.replace(model=model)
        self._caller = caller
        self._sinks: RLMObservability | None = None
        self._bus = caller.bus or RLMEventBus()
        self._terms = EpisodeTerms(work, run, record, caller)
        self.end: EpisodeEnd | None = None

    def _work(self) -> Report:
        with self._observed():
            report = self._solve()
        if self.end is not None and self.end.budget in BUDGETS:
            self.detail = self.end.budget
        return report

    def _event(self, name: str, payload: Mapping[str, Any]) -> None:
        super()._event(name, payload)
        if self._sinks is not None:
            at = timestamp(self._run.now())
            self._sinks.on_event(RLMRuntimeEvent(name, at, dict(payload)))

    @contextmanager
    def _observed(self) -> Iterator[None]:
        """Pass events and spans to the sinks; a replay is no new episode."""
        if self._all.replay:
            yield
            return
        task = os.path.dirname(os.path.dirname(self._run.path))
        sinks = self._caller.observability
        sinks = self._sinks = sinks or RLMObservability.of(task, self._all.settings.environ)
        end = self._bus.subscribe(sinks.on_event)
        try:
            yield
        finally:
            end()
            sinks.flush()

    def _solve(self) -> Report:
        options = self._terms.agree(self._task)
        max_steps, max_minutes = self._raised(options)
        self._run.set_sandbox(options.sandbox)
        attempt.keep(self._record, self._all.more)
        gateway = self._gateway(options, max_minutes)
        with ExitStack() as stack:
            stack.callback(gateway.close)
            context = self._context(options)
            if context is not None:
                stack.enter_context(context)
            tree = self._work_tree(options, gateway)
            if tree is not None:
                stack.callback(tree.close)
            setups = self._setups(options, gateway, tree, context, stack)
            root = ChildTask(options.task, environment=options.environment)
            mark = root.fingerprint()
            if context is not None and environment_of(options.environment) == REPL:
                mark = fingerprint(options.task, context.object_id)
            services = self._services(options, gateway, setups)
            delegation = Delegation(
                services.run_child,
                slots=ChildSlots(
                    min(options.parallelism, self._caller.max_parallelism or options.parallelism)
                ),
                lineage=(mark,),
                max_depth=options.max_depth,
                max_children=options.max_children,
                parallelism=options.parallelism if tree is None else 1,  # they share a copy
                deadline=None if self._all.replay else self._clock.deadline(max_minutes),
            )
            self.end = services.run_root(self._run.id, root, delegation, max_steps)
            return self._concluded(self.end, options, services, tree)

    def _concluded(
        self,
        end: EpisodeEnd,
        options: EpisodeOptions,
        services: EpisodeServices,
        tree: WorkTree | None,
    ) -> Report:
        """The report, once all results are written."""
        self._write(end, options)
        if options.session and not self._all.replay:
            self._add_turn(end, options, services)
        metrics = {
            "environment": options.environment,
            "model": options.model,
            "steps": end.steps,
            "final_reward": end.reward,
            "sandbox": options.sandbox,
            **({"session": options.session} if options.session else {}),
            **self._landed(end, options, tree),
        }
        subject = Subject(head=options.head, worktree=True)
        return episode.build(end, metrics=metrics, subject=subject, usage=self._usage())

    def _raised(self, options: EpisodeOptions) -> tuple[int, float | None]:
        """The steps and minutes, with what the run was given since; a prompt tells the first."""
        more = self._increased()
        steps = more.get("max_iterations", options.max_steps)
        return int(_UNLIMITED if steps is None else steps), more.get(
            "max_minutes", options.max_minutes
        )

    # ── the episode ──

    def _gateway(self, options: EpisodeOptions, max_minutes: float | None) -> Gateway:
        self._all.progress.left = lambda: self._left(max_minutes, metered=True)
        connector, others = self._caller.model, (options.sub_model,)
        return self._gateway_to(
            options.model, options.provider, max_minutes, connector=connector, others=others
        )

    def _context(self, options: EpisodeOptions) -> Context | None:
        """The context that the settings name, or the record has; a REPL's is the task without."""
        is_named = self._all.settings.context.source and not self._all.replay
        is_known = self._record.find("context", "start", {}) is not None
        if not (is_named or is_known or environment_of(options.environment) == REPL):
            return None
        context = RunContext(self._all, self._run, self._record, self._step)
        return context.open(options.task, required=True)

    def _setups(
        self,
        options: EpisodeOptions,
        gateway: Gateway,
        tree: WorkTree | None,
        context: Context | None,
        stack: ExitStack,
    ) -> Setups:
        repl, text = None, ""
        if environment_of(options.environment) == REPL:
            repl = self._repl(options, gateway, context, stack)
        elif context is not None:
            text = context.raw(0, min(context.byte_length, CONTEXT_LIMIT + 1)).decode(
                "utf-8", "replace"
            )
        return Setups(
            options,
            gateway.complete,
            self._record.fact,
            interpreter=self._interpreter(options, tree),
            seconds=partial(_seconds, options, gateway),
            work_tree=tree,
            repl=repl,
            context=self._run.redactor.text(text),
            servers=self._caller.servers,
        )

    def _repl(
        self, options: EpisodeOptions, gateway: Gateway, context: Context | None, stack: ExitStack
    ) -> ReplSetups:
        sessions, replay = self._terms.sessions, self._all.replay
        sessions.keep_to(options.sandbox, self._run.id)
        stack.callback(sessions.close)
        services = ReplServices(
            complete=gateway.complete,
            fact=self._record.fact,
            redact=self._run.redactor.text,
            files=RunFiles(self._run.path, os.path.dirname(replay) if replay else None),
            open=sessions.open,
            left=gateway.calls_left,
            scratch=stack.enter_context(files.scratch("rlm-ci-repl-")),
            longest=self._run.redactor.longest,
            batch=self._record.batch,
        )
        return ReplSetups(options, services, context)

    def _services(
        self, options: EpisodeOptions, gateway: Gateway, setups: Setups
    ) -> EpisodeServices:
        return EpisodeServices(
            options,
            gateway.complete,
            self._record,
            self._clock,
            self._bus,
            setups.of,
            self._run.path_of,
            self._run.redactor.text,
            self._step,
            {},
            replay=bool(self._all.replay),
        )

    def _work_tree(self, options: EpisodeOptions, gateway: Gateway) -> WorkTree | None:
        """The copy of the code, if the episode works on it."""
        if environment_of(options.environment) != CODING:
            return None
        root, replay = self._all.repository.root, bool(self._all.replay)
        if not replay:
            apply.undo_killed(root)
        return WorkTree(
            WorkTreeContext(
                options,
                self._all.repository,
                ReplaySandbox() if replay else self._terms.sandbox(),
                self._all.settings.environ,
                self._all.skipped,
                self._run.redactor,
                self._record.fact,
                self._run.path_of,
                partial(_seconds, options, gateway),
                replay,
            )
        )

    def _landed(
        self, end: EpisodeEnd, options: EpisodeOptions, tree: WorkTree | None
    ) -> dict[str, Any]:
        """The changes of the work tree, applied if the episode is completed and that is wanted."""
        if tree is None:
            return {}
        settings = self._all.settings
        may_apply = not settings.ci if settings.loop.apply is None else settings.loop.apply
        changes = tree.conclude(apply=bool(may_apply and end.completed))
        return {**changes, "validator": options.validator}

    def _interpreter(self, options: EpisodeOptions, tree: WorkTree | None) -> Interpreter | None:
        """The caller's, or the sandbox; None where Python runs in a copy of the code."""
        if self._all.replay:
            return None
        if options.engine:
            if self._caller.interpreter is None:
                raise ConfigError(
                    "the run began with an execution engine of a Python program",
                    where=self._run.id,
                    hint="continue it there, by RLMRunner.resume_run",
                )
            return self._caller.interpreter
        if tree is not None or environment_of(options.environment) == REPL:
            return None
        return SandboxedPython(self._terms.sandbox(), self._all.settings.environ)

    # ── the chat session ──

    def _add_turn(
        self, end: EpisodeEnd, options: EpisodeOptions, services: EpisodeServices
    ) -> None:
        """Add what was said to the session; a resumed run finds it there."""
        chat = self._all.settings.chat

        def summarize(prompt: str) -> str:
            message = {"role": "user", "content": prompt}
            request = ModelRequest(options.model, (message,), max_tokens=_SUMMARY_TOKENS)
            try:
                fit = ContextFit.of(options.context_tokens)
                return ask_shortened(services.complete, request, "compaction", fit).text
            except (LimitError, RemoteError):
                return ""  # the session keeps the beginnings of the messages instead

        has_words = end.completed or end.cut_off
        turn = {
            "timestamp": timestamp(self._run.now()),
            "user": options.task,
            "assistant": end.answer if has_words else f"(no answer: {end.reason})",
            "run_id": self._run.id,
        }
        head = {"environment": options.environment, "framework": options.framework or "native"}
        rules = CompactionRules(chat.compaction, chat.compaction_limit, chat.keep_recent)
        session = self._terms.session(str((options.session or {})["id"]))
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
            "provider": options.provider,
            "max_steps": options.max_steps,
            "max_depth": options.max_depth,
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
        files.write(self._run.path_of(EPISODE_RESULT), f"{text}\n".encode(), 0o600)
        if end.completed or end.cut_off:
            path = self._run.path_of("rlm", episode.ANSWER)
            files.write(path, printable_file(end.answer), 0o600)


def _seconds(options: EpisodeOptions, gateway: Gateway) -> float:
    """How long a piece of code may take. Raises LimitError once the time budget is over."""
    left = gateway.ledger.seconds_left()
    if left == 0:
        raise out_of_time()
    return options.exec_timeout if left is None else min(options.exec_timeout, left)


class EpisodeJob(VerbJob):
    """The pipeline ``run``. ``caller`` is empty for a command line; ``end`` is set at the end."""

    def __init__(self, *args: Any, caller: EpisodeCaller | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.caller = caller or EpisodeCaller()
        self.end: EpisodeEnd | None = None
        #: The MCP servers that the user has named.
        self._programs: tuple[McpProgram, ...] = ()

    def prepare(self, run: Run, goal: str | None) -> None:
        """Read the file of MCP servers; a replay starts none. Raises ConfigError, UsageError."""
        if not goal or not goal.strip():
            raise UsageError("there is no task", where="TASK", hint='add it: rlm-ci run "TASK"')
        options = self.settings.episode
        if options.mcp_config and not self.replay:
            environ = {**self.settings.environ, MARK: run.id}
            self._programs = connection.load(
                options.mcp_config, environ, root=self.repository.root, server=options.mcp_server
            )

    def secrets(self) -> tuple[Iterable[str], Mapping[str, str]]:
        return (), {
            f"{program.name} {name}": text
            for program in self._programs
            for name, text in program.file_variables.items()
        }

    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:
        with McpServers(self._programs) as servers:
            caller = self.caller.replace(servers=servers) if self._programs else self.caller
            attempt = EpisodeAttempt(self, run, goal, record, caller).carry_out()
        if self._programs:
            end_leftovers(run.id)
        self.end = attempt.end
        return attempt


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
    load.configure(settings, repository, "an episode")
    return EpisodeJob(
        settings,
        repository,
        progress,
        skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        replay=replay,
        caller=caller,
    )
