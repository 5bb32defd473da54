"""One episode: a model acts in an environment until it is done, or a limit ends it; and its report.

Children are episodes of the same run: they share its record, ledger, clock and slots.

``rlm/trajectory.jsonl`` has the steps of an episode and its end, one JSON object a line. It follows
from the run's record: a resumed run writes it again from its beginning.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import partial

from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.delegation import OVER, ChildResult
from rlm_ci.environments.repl.host.model_functions import ReplResult, ReplTask
from rlm_ci.environments.repl.host.options import CHILD_TURNS
from rlm_ci.environments.rewards import CYCLE, MISSING_ARGUMENT, RLMRewardProfile
from rlm_ci.environments.tool_calls import is_plain
from rlm_ci.environments.turn_loop import LoopWatcher, TurnLimits, TurnLoop
from rlm_ci.errors import LimitError
from rlm_ci.lab import event_bus, frameworks
from rlm_ci.lab.episodes.branches import BestOf
from rlm_ci.lab.frameworks import FrameworkEpisode
from rlm_ci.models.context_length import ContextFit
from rlm_ci.models.gateway import CONNECTOR
from rlm_ci.report.findings import INCOMPLETE, Document, Finding, Part, Report, Severity
from rlm_ci.runs.journal import spans
from rlm_ci.runs.state import BLOCKED, FAILED, PASSED
from rlm_ci.system import files
from rlm_ci.text.printable import clip, count, encodable, printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from rlm_ci.environments.answer_formats import AnswerFormat
    from rlm_ci.environments.delegation import ChildTask, Delegation
    from rlm_ci.environments.turn_loop import (
        Complete,
        Environment,
        LoopAction,
        LoopEnd,
        Observation,
        Translate,
    )
    from rlm_ci.lab.event_bus import RLMEventBus
    from rlm_ci.models import Completion, ModelRequest
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record
    from rlm_ci.report.findings import Subject, Usage


class EpisodeNode(Value):
    """One episode of a run; ``parent`` is the id of the one that delegated it, None for the root.

    ``position`` is the beginning of its places in the record. Its own children go through
    ``delegation``, which has its depth.
    """

    run_id: str
    parent: str | None
    task: ChildTask
    delegation: Delegation
    environment: str
    model: str
    max_steps: int
    position: str

    @property
    def depth(self) -> int:
        return self.delegation.depth


class EpisodeSetup(Value):
    """An environment and its model's first messages, by role.

    ``scratch(place)`` is a copy of the environment, to try a branch in. ``close`` is called at the
    end of the episode; before it, ``partial`` for the answer so far of one that has none.
    """

    environment: Environment
    answers: AnswerFormat
    prompts: tuple[tuple[str, str], ...]
    scratch: Callable[[str], AbstractContextManager[Environment]]
    translate: Translate | None = None
    close: Callable[..., None] | None = None
    partial: Callable[[], str] | None = None


class EpisodeEnd(Value):
    """The end of an episode: ``reason`` is empty where it is ``completed``.

    ``limit`` ended it, or its steps were ``exhausted``; ``blocked``: the model said that it cannot
    be done. ``cut_off``: the answer is the longest of those that had no end.
    """

    answer: str
    completed: bool
    steps: int
    reward: float
    reason: str = ""
    limit: LimitError | None = None
    exhausted: bool = False
    blocked: bool = False
    cut_off: bool = False

    @property
    def budget(self) -> str:
        """The budget that ended it, "" for none."""
        if self.exhausted:
            return "max_iterations"
        return "" if self.limit is None else self.limit.budget

    @property
    def status(self) -> str:
        """The word for it in reports and manifests."""
        if self.completed:
            return PASSED
        return self.budget or (BLOCKED if self.blocked else FAILED)


NAME = "trajectory.jsonl"
#: Bytes of a trajectory that are read.
_LIMIT = 256 << 20


class Trajectory(Closing):
    """Writes one file. ``head`` are keys of every line, behind its type."""

    def __init__(self, path: str, head: Mapping[str, Any], redact: Callable[[str], str]) -> None:
        """Begin the file anew. Raises StorageError."""
        self.path = path
        self._head = head
        self._redact = redact
        try:
            self._file = files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            raise files.storage_error(error, path) from None

    def add(self, kind: str, **fields: Any) -> None:
        """Append a line. Raises StorageError."""
        line = {"type": kind, **self._head, **fields}
        data = f"{self._redact(encodable(json.dumps(line)))}\n".encode()
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise files.storage_error(error, self.path) from None

    def close(self) -> None:
        os.close(self._file)


def read(path: str) -> Iterator[dict[str, Any]]:
    """The lines of a trajectory, of this program or of another; what is no object is left out."""
    for line in (files.read_or_none(path, _LIMIT) or b"").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


#: The kind of the fact that a child has begun.
CHILD = "child"
#: Characters of an observation in the trajectory, and of the last one in an end without answer.
_SHOWN = 20_000
_LAST_OBSERVATION = 4_000
#: Steps of a child, unless its task says so.
_CHILD_STEPS = 3
#: The score of a branch that ends the task, beside its reward.
_DONE, _FINAL = 0.05, 0.02
#: What stands behind words that had no end.
_CUT_OFF = (
    "the answer was cut off at the cap on its tokens: raise models.max_completion_tokens, or ask "
    "for less"
)


class EpisodeServices(Value):
    """What all episodes of a run share.

    ``setup`` makes the environment of one; ``path_of`` names files in the run's folder;
    ``on_step`` is told of each step in words. ``ids`` are those of the episodes by their place.
    """

    options: EpisodeOptions
    complete: Complete
    record: Record
    clock: RunClock
    bus: RLMEventBus
    setup: Callable[[EpisodeNode], EpisodeSetup]
    path_of: Callable[..., str]
    redact: Callable[[str], str]
    on_step: Callable[[str], None]
    ids: dict[str, str]
    replay: bool = False

    def run_root(
        self, run_id: str, task: ChildTask, delegation: Delegation, max_steps: int
    ) -> EpisodeEnd:
        """Run the episode of the run itself. Raises what ends the whole run."""
        options = self.options
        return self._run(
            EpisodeNode(
                run_id,
                None,
                task,
                delegation,
                options.environment,
                options.model,
                max_steps,
                delegation.path,
            )
        )

    def run_child(self, task: ChildTask, delegation: Delegation) -> ChildResult:
        """Run the episode of a child. Raises what ends the whole run."""
        options = self.options
        above, _, number = delegation.path.rpartition("/")
        path, steps = delegation.path, task.max_steps or _CHILD_STEPS
        if isinstance(task, ReplTask):  # its block is the fact
            path, steps = task.folder, CHILD_TURNS
            number = ".".join(path.split("/")[-2:])
        elif self.replay and self.record.find(CHILD, path, {}) is None:
            return ChildResult("", reason=OVER)
        else:
            self.record.fact(CHILD, path, {}, lambda: {"started": True})
        parent = self.ids[above]
        end = self._run(
            EpisodeNode(
                f"{parent}.{number}",
                parent,
                task,
                delegation,
                task.environment or options.environment,
                options.sub_model or options.model,
                min(steps, options.max_steps),
                path,
            )
        )
        outcome = (end.answer, end.completed, end.steps, end.reward, end.reason)
        if isinstance(task, ReplTask):
            return ReplResult(*outcome, limit=end.limit)
        return ChildResult(*outcome)

    def _run(self, node: EpisodeNode) -> EpisodeEnd:
        self.ids[node.delegation.path] = node.run_id
        return Episode(self, node).run()


class Episode(LoopWatcher):
    """Runs one episode."""

    def __init__(self, services: EpisodeServices, node: EpisodeNode) -> None:
        self._services = services
        self._node = node
        self._profile = RLMRewardProfile.from_mapping(services.options.rewards)
        self._reward = 0.0
        self._steps = 0
        #: The last action with what came of it, and when its turn began.
        self._last = ""
        self._at = ""
        self._trajectory: Trajectory | None = None
        self._setup: EpisodeSetup | None = None
        self._loop: TurnLoop | None = None
        self._used: Counter[str] = Counter()
        #: The longest words of a chat that had no end.
        self._cut_words = ""

    def run(self) -> EpisodeEnd:
        """Carry it out. Raises what ends the whole run, but no spent budget."""
        name = (NAME,) if self._node.parent is None else ("children", f"{self._node.run_id}.jsonl")
        path = self._services.path_of("rlm", *name)
        node, title = self._node, "episode"
        if node.parent is not None:
            title = f"child {node.run_id.removeprefix(node.parent).strip('.')}"
        with (
            spans.span("episode", f"{title}: {node.task.task}", key=node.run_id) as step,
            Trajectory(path, self._head(), self._services.redact) as self._trajectory,
        ):
            self._tell(event_bus.RUN_START, max_steps=node.max_steps)
            end = self._ended()
            outcome = {
                "timestamp": self._at,
                "completed": end.completed,
                "steps": end.steps,
                "total_reward": end.reward,
                "final_response": end.answer,
                "reason": end.reason,
                "status": end.status,
                "usage": self.usage,
                "cancelled": False,
            }
            self._trajectory.add("final", **outcome)
            self._tell(event_bus.RUN_END, **outcome)
            step.outcome = spans.DONE if end.completed else spans.FAILED
            step.details |= {
                "task": node.task.task,
                "environment": node.environment,
                "reason": end.reason,
                "answer": end.answer,
                "run_id": node.run_id,
                "parent_run_id": node.parent,
                "depth": node.depth,
                "framework": self._services.options.framework or "native",
                "completed": end.completed,
                "steps": end.steps,
                "status": end.status,
                "reward": end.reward,
                "usage": self.usage,
            }
        return end

    @property
    def usage(self) -> dict[str, int]:
        """The calls and tokens of this episode, without those of its children."""
        names = ("total_calls", "prompt_tokens", "completion_tokens")
        return {name: self._used[name] for name in names}

    # ── the loop ──

    def _ended(self) -> EpisodeEnd:
        options = self._services.options
        self._setup = setup = self._services.setup(self._node)
        history = Conversation()
        for role, text in setup.prompts:
            history.prompt(text, role)
        bounds = TurnLimits(turns=self._node.max_steps, max_tokens=options.max_completion_tokens)
        services = self._services
        best = BestOf(
            services.complete,
            services.record.fact,
            self._try,
            options.branch_width,
            self._used.update,
        )

        def complete(request: ModelRequest, step: str) -> Completion:
            _, self._at = services.clock.tick(step)  # a fact: the time of the turn's steps
            return best(request, step)

        if options.framework is None:
            run = partial(self._own_loop(complete, setup, bounds).run, history, self._node.position)
        else:
            run = partial(self._framework, options.framework, complete, setup, bounds)
        completed = False
        try:
            try:
                ended = run()
            except LimitError as error:
                return self._without_answer(setup, str(error), limit=error)
            if ended.exhausted:
                return self._without_answer(setup, ended.reason, exhausted=True)
            if ended.reason or ended.blocked:
                reason = ended.reason or f"the model is blocked: {printable(ended.text[:500])}"
                return self._without_answer(setup, reason, blocked=ended.blocked)
            completed = True
            return self._end(ended.text)
        finally:
            if setup.close is not None:
                setup.close(completed=completed)

    def _without_answer(self, setup: EpisodeSetup, reason: str, **more: Any) -> EpisodeEnd:
        """What there is without an answer: of a REPL its variable, else what it did last.

        Words that were no action are no answer; in a chat, those that were cut off are a part.
        """
        answer = setup.partial() if setup.partial else ""
        if not answer and self._cut_words and not more.get("blocked"):
            reason = reason if more.get("limit") else _CUT_OFF
            return self._end(f"{self._cut_words}\n\n[{_CUT_OFF}]", reason, cut_off=True, **more)
        answer = answer or f"There is no answer: {reason}. {self._last or 'Nothing was done.'}"
        return self._end(answer, reason, **more)

    def _own_loop(self, complete: Complete, setup: EpisodeSetup, bounds: TurnLimits) -> TurnLoop:
        self._loop = TurnLoop(
            complete,
            setup.environment,
            model=self._node.model,
            bounds=bounds,
            answers=setup.answers,
            watcher=self,
            translate=setup.translate,
            takes_words=self._takes_words,
            fit=ContextFit.of(self._services.options.context_tokens),
        )
        return self._loop

    @property
    def _takes_words(self) -> bool:
        """Whether words are an answer: in a chat, but for one of before that was so."""
        session = self._services.options.session
        is_conversation = session is not None and session.get("takes_words") is True
        return is_conversation and self._node.parent is None

    def _framework(
        self, name: str, complete: Complete, setup: EpisodeSetup, bounds: TurnLimits
    ) -> LoopEnd:
        prompts = dict(setup.prompts)
        episode = FrameworkEpisode(
            complete,
            setup.environment,
            goal=prompts["user"],
            system=prompts["system"],
            model=self._node.model,
            bounds=bounds,
            step=self._node.position,
            watcher=self,
            textual=self._services.options.provider == CONNECTOR,
            fit=ContextFit.of(self._services.options.context_tokens),
        )
        return frameworks.run(name, episode)

    def _end(self, text: str, reason: str = "", **more: Any) -> EpisodeEnd:
        answer = self._services.redact(text.strip())
        reward = round(self._reward, 6)
        return EpisodeEnd(answer, not reason, self._steps, reward, reason, **more)

    def _try(self, completion: Completion, step: str) -> float:
        """The score of a branch: its calls are carried out in a scratch copy."""
        if self._setup is None or self._loop is None:
            raise RuntimeError("a branch is tried while its loop runs")
        score, done = 0.0, False
        with self._setup.scratch(step) as environment:
            tried = {tool["function"]["name"] for tool in environment.tools()}
            calls = self._loop.calls(completion, 0)
            if self._setup.translate is not None:
                calls = list(map(self._setup.translate, calls))
            for call in calls:
                arguments, _ = self._loop.actions.checked(call)
                if done:
                    break
                if arguments is None:
                    score += MISSING_ARGUMENT
                elif call.name in tried:
                    observation = environment.act(call.name, arguments)
                    score += self._profile.apply_global_scale(observation.reward)
                    done = observation.final
            score += 0.0 if calls else MISSING_ARGUMENT
        return round(score + (_DONE + _FINAL) * done, 6)

    # ── what is told of it ──

    def before(self, action: LoopAction) -> None:
        self._steps = action.turn
        self._cut_words = ""
        self._tell(event_bus.STEP_START, step=action.turn, action=self._action(action))
        about = next(iter(self._action(action).values()), "")
        indent = "  " * self._node.depth
        self._services.on_step(f"{indent}step {action.turn}: {printable(about)}")

    def after(self, action: LoopAction, observation: Observation) -> None:
        reward = self._profile.apply_global_scale(observation.reward)
        self._steps = action.turn
        self._reward += reward
        seen = {
            "text": observation.text[:_SHOWN],
            "success": not observation.failed,
            **observation.details,
        }
        self._last = (
            f"The last action was {action.name}: {clip(observation.text, _LAST_OBSERVATION)}"
        )
        arguments = action.arguments or {}
        tasks = arguments.get("tasks") or [arguments.get("task", "")]
        for task, child in zip(tasks, observation.details.get("children", ()), strict=False):
            if child["skipped"] and child["reward"] == CYCLE:
                self._tell(event_bus.CYCLE_GUARD, step=action.turn, task=task)
        spans.current().details |= {"step": action.turn, "reward": round(reward, 6)}
        fields = {"step": action.turn, "action": self._action(action), "reward": round(reward, 6)}
        if action.origin:
            fields["origin"] = action.origin
        if self._trajectory is not None:
            raw = self._services.redact(action.completion.text[:_SHOWN])
            self._trajectory.add(
                "step", **fields, timestamp=self._at, planner_raw=raw, observation=seen,
                usage=self.usage,
            )  # fmt: skip
        self._tell(
            event_bus.STEP_END, **fields, observation=seen, total_reward=round(self._reward, 6)
        )

    def answered(self, turn: int, completion: Completion) -> None:
        self._steps = turn
        is_cut_off = completion.finish_reason == "length" and is_plain(completion.text)
        if self._takes_words and is_cut_off:
            self._cut_words = max(self._cut_words, completion.text, key=len)

    def _action(self, action: LoopAction) -> dict[str, Any]:
        return {"action": action.name, **(action.arguments or {})}

    def _head(self) -> Mapping[str, Any]:
        return {
            "run_id": self._node.run_id,
            "depth": self._node.depth,
            "parent_run_id": self._node.parent,
            "environment": self._node.environment,
            "framework": self._services.options.framework or "native",
            "task": self._node.task.task[:_SHOWN],
        }

    def _tell(self, name: str, **payload: Any) -> None:
        self._services.bus.emit(name, {**self._head(), **payload})


class EpisodeOptions(Value):
    """``environment`` is the name that was asked for. ``sub_model`` answers children and sub-calls.

    ``engine``: code runs in the caller's own. ``max_minutes`` is the time budget, ``rewards`` the
    profile, ``session`` the chat session that the episode is a turn of, with what was said before.
    ``mcp`` are the tools of MCP servers; ``context_tokens`` is what the model reads.
    """

    task: str
    environment: str
    model: str
    provider: str
    head: str | None
    max_steps: int
    exec_timeout: float
    branch_width: int
    framework: str | None
    max_depth: int
    max_children: int
    parallelism: int
    max_minutes: float | None
    max_completion_tokens: int
    sandbox: str
    isolated: bool
    rewards: Mapping[str, float]
    sub_model: str | None = None
    engine: bool = False
    validator: str | None = None
    mark: str = ""
    session: Mapping[str, Any] | None = None
    mcp: Sequence[Mapping[str, Any]] = ()
    context_tokens: int | None = None


PART = "run"
#: The name of the document with the answer.
ANSWER = "answer.md"
UNSOLVED = f"{PART}/unsolved"
_UNSANDBOXED = "; code ran without a sandbox"
RULES = {
    "unsolved": Severity.HIGH,
}


def build(
    end: EpisodeEnd,
    *,
    metrics: Mapping[str, Any],
    subject: Subject,
    usage: Usage,
) -> Report:
    """The report: the answer as a document, or why there is none."""
    findings: tuple[Finding, ...] = ()
    is_incomplete = bool(end.budget) or end.cut_off
    if not (end.completed or is_incomplete):
        message = f"The episode ended without an answer: {end.reason}"
        source = f"model:{metrics['model']}"
        findings = (Finding(UNSOLVED, Severity.HIGH, message, source=source),)
    done = "answered" if "session" in metrics else "solved"
    unsandboxed = _UNSANDBOXED if metrics["sandbox"] == "none" else ""
    part = Part(
        PART,
        f"{_summary(end, done)}{_changed(metrics)}{unsandboxed}",
        {"status": end.status, **metrics},
        findings,
        state=INCOMPLETE if is_incomplete else None,
    )
    documents: tuple[Document, ...] = ()
    if end.completed or end.cut_off:
        documents = (Document(ANSWER, end.answer, (), shown=True),)
    return Report(subject, Severity.HIGH, (part,), documents=documents, usage=usage)


def _changed(metrics: Mapping[str, Any]) -> str:
    """What became of the files, where the episode worked on code."""
    if not metrics.get("files"):
        return ""
    why = metrics["not_applied"]
    if metrics["applied"]:
        outcome = "applied"
    else:
        outcome = f"not applied: {why}" if why else f"not applied, in {metrics['patch']}"
    untested = "" if metrics["validator"] else "; nothing tested it (no validator)"
    return f"; {count(metrics['files'], 'file')} changed, {outcome}{untested}"


def _summary(end: EpisodeEnd, done: str) -> str:
    """How the episode ended, in a line."""
    reward = f"reward {end.reward:g}"
    if end.completed:
        return f"{done} in {count(end.steps, 'step')}, {reward}"
    if end.budget or end.cut_off:
        return f"{end.reason}, {reward}"
    return f"no answer after {count(end.steps, 'step')}, {reward}"
