"""A question that a model answers by code over the whole text; see ``environments/repl``."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress

from rlm_ci.ask.citations.shown_text import ShownText
from rlm_ci.environments.delegation import ChildSlots, Delegation
from rlm_ci.environments.repl.episode import ReplEpisodes
from rlm_ci.environments.repl.host.model_functions import fingerprint
from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices, RunFiles
from rlm_ci.environments.repl.session import SessionLimits
from rlm_ci.environments.symbolic.loop import AskEnd
from rlm_ci.environments.turn_loop import LoopWatcher
from rlm_ci.errors import ConfigError, LimitError
from rlm_ci.models.record.clock import over
from rlm_ci.runs.state import NO_PROGRESS, PASSED, FinalState
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.context.context import Context
    from rlm_ci.environments.repl.pool import Sessions
    from rlm_ci.environments.turn_loop import LoopAction, Observation
    from rlm_ci.models import Completion, ModelRequest
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs.state import RunState

#: The folder of its files in a run, and the beginning of its places in the record.
FOLDER = "rlm/repl"
#: More turns, or children, than any run has.
ANY_TURNS = 1 << 30


class ComputeLimits(Value):
    """Of a run, as its record has them. ``max_minutes`` None is no limit."""

    max_minutes: float | None
    max_depth: int


class ComputedQuestion:
    """One question. ``folder`` is the run's, ``original`` that of the run that is replayed."""

    def __init__(
        self,
        options: ReplOptions,
        limits: ComputeLimits,
        gateway: Gateway,
        *,
        record: Record,
        clock: RunClock,
        state: RunState,
        redactor: Redactor,
        sessions: Sessions,
        folder: str,
        original: str | None,
        on_step: Callable[[str], None],
    ) -> None:
        self._options = options
        self._limits = limits
        self._gateway = gateway
        self._record = record
        self._clock = clock
        self._state = state
        self._redactor = redactor
        self._sessions = sessions
        self._folder = folder
        self._original = original
        self._on_step = on_step

    def answer(self, question: str, context: Context) -> AskEnd:
        """Ask until there is an answer, or an end without one. Raises what ends a run."""
        limits = self._limits
        if context.byte_length > (limit := SessionLimits.context):
            raise ConfigError(
                f"the context has {context.byte_length:,} bytes, and code can have {limit:,}",
                where="--context",
                hint="ask about a part of it, or leave --environment repl out",
            )
        with ExitStack() as stack:
            scratch = os.path.join(self._folder, "rlm", "scratch")
            _clear(scratch)  # of a killed process
            stack.callback(_clear, scratch)
            stack.enter_context(closing(self._sessions))
            services = ReplServices(
                complete=self._complete,
                fact=self._record.fact,
                redact=self._redactor.text,
                files=RunFiles(self._folder, self._original),
                open=self._sessions.open,
                left=self._gateway.calls_left,
                scratch=scratch,
                longest=self._redactor.longest,
                on_step=self._on_step,
                batch=self._record.batch,
            )
            episodes = ReplEpisodes(self._options, services)
            delegation = Delegation(
                episodes.run_child,
                slots=ChildSlots(self._options.concurrency),
                lineage=(fingerprint(question, context.object_id),),
                max_depth=limits.max_depth,
                max_children=ANY_TURNS,
                parallelism=self._options.concurrency,
                deadline=self._clock.deadline(limits.max_minutes),
            )
            watcher = _Watcher(self._state, self._on_step)
            self._watcher = watcher
            end = episodes.run(question, context, delegation, FOLDER, watcher=watcher)
            watcher.end()
        turns = count(end.turns, "turn")
        seen = ShownText(context, self._folder, end.prompts).parts
        if not end.reason:
            final = FinalState.of(PASSED, f"answered after {turns}")
            return AskEnd(final, end.answer, look=seen)
        status = (
            end.limit.budget if end.limit else "max_iterations" if end.exhausted else NO_PROGRESS
        )
        reason = f"the limit of {turns} is reached" if end.exhausted else end.reason
        answer = f"(Not final: {reason}.)\n\n{end.answer}" if end.answer.strip() else ""
        return AskEnd(FinalState.of(status, reason), answer, look=seen)

    def _complete(self, request: ModelRequest, step: str) -> Completion:
        """An answer, unless a limit of the run is reached."""
        head, _, last = step.rpartition("/")
        if head == FOLDER and last.startswith("turn-"):  # one of the run's own
            turn = int(last.removeprefix("turn-"))
            seconds, at = self._clock.tick(turn)
            self._watcher.begin(turn, at, request)
            stop = over(0, seconds / 60, None, self._limits.max_minutes)
            if stop:
                raise LimitError(stop[1], budget=stop[0], where=stop[0], hint="start a new run")
        return self._gateway.complete(request, step)


def _clear(folder: str) -> None:
    with suppress(OSError):
        files.clear(folder)


class _Watcher(LoopWatcher):
    """Reports the turns of the run, and adds them to its state."""

    def __init__(self, state: RunState, on_step: Callable[[str], None]) -> None:
        self._state = state
        self._on_step = on_step
        self._turn: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._block = 0

    def begin(self, turn: int, at: str, request: ModelRequest) -> None:
        self.end()
        self._on_step(f"turn {turn}: asking for code")
        self._turn = {"turn": turn, "startedAt": at, "prompt_bytes": request.prompt_bytes()}
        self._blocks = []

    def before(self, action: LoopAction) -> None:
        self._on_step(f"turn {action.turn}: running block {self._block + 1}")

    def after(self, action: LoopAction, observation: Observation) -> None:  # noqa: ARG002 - as it is called
        details = observation.details
        if not details:  # it was no block
            return
        names = ("block", "asked", "failed", "not_allowed", "seconds")
        self._block = details["block"]
        self._blocks.append(
            {
                "error": observation.failed,
                "answered": observation.final and not observation.blocked,
                **{name: details[name] for name in names},
            }
        )

    def end(self) -> None:
        """Add the turn that is over."""
        if self._turn:
            self._state.add({**self._turn, "blocks": self._blocks})
            self._turn = {}
