"""A bounded recursive analysis of a role's context: by code in the sandbox, and by models.

What came of it is one fact of the run. Within it each answer and each block is one too, so a run
that was killed goes on where it was, and pays nothing twice.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from time import monotonic

from rlm_ci.context.builder.build import build
from rlm_ci.context.builder.sources import SourceListing
from rlm_ci.environments.delegation import ChildSlots, Delegation
from rlm_ci.environments.repl.episode import ReplEpisodes
from rlm_ci.environments.repl.host.model_functions import fingerprint
from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices
from rlm_ci.environments.repl.host.run_files import RunFiles
from rlm_ci.environments.repl.pool import Sessions
from rlm_ci.environments.repl.session import SessionLimits
from rlm_ci.environments.turn_loop import LoopWatcher
from rlm_ci.errors import ConfigError, LimitError, RemoteError, RlmCiError, UnavailableError
from rlm_ci.fix.rlms import answer as answers
from rlm_ci.fix.rlms.share import LIMITS, AnalysisShare
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Context
    from rlm_ci.environments.repl.episode import ReplEnd
    from rlm_ci.environments.repl.session import ReplSession
    from rlm_ci.environments.turn_loop import LoopAction, Observation
    from rlm_ci.fix.rlms.answer import CheckedAnswer
    from rlm_ci.fix.rlms.options import RlmsOptions
    from rlm_ci.models import Completion, ModelRequest
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.workspace.workspace import Workspace

#: Why there is no result: as ``error_code`` says it.
LIMIT, NONSENSE, NO_MODEL = "limit_exceeded", "invalid_worker_output", "model_invocation_failed"
SETTINGS, WORKER = "invalid_config", "worker_failure"
#: Children at once, characters of a question, and children of one analysis.
_CONCURRENCY, _QUESTION, _CHILDREN = 4, 60_000, 1 << 30
#: Words whose number the result has, by the names of its signals.
_SIGNALS = {
    "class": "class ", "python_def": "def ", "function": "function", "arrow_function": "=>",
    "test": "test", "todo": "todo", "error": "error",
}  # fmt: skip


class AnalysisTask(Value):
    """What is analysed: the files ``paths`` of ``tree``; all that it writes is below ``folder``."""

    folder: str
    question: str
    tree: str
    paths: tuple[str, ...]


class AnalysisEnd(Value):
    """What came of an analysis; without an ``answer``, ``code`` and ``error`` say why.

    ``stats`` are its figures, ``trace`` its blocks, ``signals`` the words of its context; ``cause``
    is what ended it before its model had answered.
    """

    answer: CheckedAnswer | None
    code: str
    error: str
    stats: Mapping[str, Any]
    trace: Sequence[Mapping[str, Any]]
    signals: Mapping[str, int]
    files: tuple[str, ...]
    omitted: Mapping[str, int]
    at: str
    cause: RlmCiError | None = None


class AnalysisContext(Value):
    """What all analyses of a run share. ``folder`` is the run's, ``max_minutes`` its limit.

    ``context_tokens`` is what the model reads.
    """

    options: RlmsOptions
    gateway: Gateway
    max_completion_tokens: int
    max_minutes: float | None
    record: Record
    clock: RunClock
    redactor: Redactor
    workspace: Workspace
    sandbox: str
    environ: Mapping[str, str]
    folder: str
    on_step: Callable[[str], None]
    context_tokens: int | None = None


class Analysis:
    """One analysis: ``run`` it once."""

    def __init__(self, shared: AnalysisContext, task: AnalysisTask) -> None:
        self._all = shared
        self._options = shared.options
        self._task = task
        self._turns = 0
        self._wrong = ""
        self._answer: CheckedAnswer | None = None
        self._open_sessions: list[ReplSession] = []
        self._signals: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._omitted: Mapping[str, int] = {}
        self._watcher = _Watcher()
        self._entries = shared.workspace.entries(task.tree)
        self._contents = lru_cache(8)(self._content)

    def run(self) -> AnalysisEnd:
        """Carry it out within its limits. Raises StorageError, DamagedError, and an interrupt."""
        shared, folder = self._all, self._task.folder
        began, at = shared.clock.tick(folder)
        share = AnalysisShare(
            shared.gateway, shared.record, shared.clock, self._options, folder=folder, began=began
        )
        code, error = "", ""
        cause: RlmCiError | None = None
        try:
            code, error = self._carry_out(share, began)
        except LimitError as limit:
            code, error = LIMIT, limit.what
        except RemoteError as remote:
            code, error, cause = NO_MODEL, str(remote), remote
        except (ConfigError, UnavailableError) as wrong:
            code, error, cause = SETTINGS, str(wrong), wrong
        ended, _ = shared.clock.tick(f"{folder}/end")
        stats = {
            "steps": self._turns,
            "depth": share.depth(),
            "subcalls": share.subcalls(),
            "seconds": round(max(0.0, ended - began), 3),
        }
        return AnalysisEnd(
            None if code else self._answer, code, error, stats, self._watcher.blocks,
            self._signals, self._names, self._omitted, at, cause,
        )  # fmt: skip

    def _carry_out(self, share: AnalysisShare, began: float) -> tuple[str, str]:
        """Why there is no answer, as a code and in words; ("", "") if there is one."""
        shared = self._all
        deadline = monotonic() + began + self._options.timeout_seconds - shared.clock.seconds()
        scratch = os.path.join(shared.folder, "rlm", "scratch")
        with ExitStack() as stack:
            _clear(scratch)  # of a killed process
            stack.callback(_clear, scratch)
            sessions = stack.enter_context(
                closing(Sessions(shared.sandbox, shared.environ, replay=False))
            )
            stack.enter_context(self._watched(deadline))
            context = stack.enter_context(self._context(os.path.join(scratch, "context")))
            end = self._ask(context, self._services(sessions, share, scratch), deadline)
        if end.limit is not None:
            return LIMIT, end.limit.what
        if end.exhausted:
            steps = count(self._options.max_steps, "step")
            return LIMIT, f"the limit of {steps} is reached ({LIMITS}max_steps)"
        if end.reason and self._wrong:
            return NONSENSE, f"no answer could be accepted: {self._wrong}"
        if end.reason:
            has_code = self._watcher.blocks and self._watcher.blocks[-1]["step"] == end.turns
            return WORKER if has_code else NONSENSE, end.reason
        return "", ""

    def _context(self, step: str) -> Context:
        """The files as one text. Raises LimitError if it is too long for code."""
        names = b"".join(os.fsencode(path) + b"\0" for path in sorted(self._task.paths))
        context = build(SourceListing(names, self._all.workspace.path), step)
        self._names = tuple(file.path for file in context.files)
        self._omitted = dict(context.omitted)
        if context.byte_length > (limit := SessionLimits.context):
            message = f"the context has {context.byte_length:,} bytes, and code can have {limit:,}"
            context.close()
            raise LimitError(message, budget="context")
        results = context.search(list(_SIGNALS.values()), top_k=1, preview_bytes=1)
        self._signals = {
            name: result.total_hits for name, result in zip(_SIGNALS, results, strict=True)
        }
        return context

    @contextmanager
    def _watched(self, deadline: float) -> Iterator[None]:
        """Close the sessions at ``deadline``, whatever their code does."""

        def end() -> None:
            for open_session in tuple(self._open_sessions):
                open_session.close()

        timer = threading.Timer(max(0.0, deadline - monotonic()), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    # ── the question ──

    def _ask(self, context: Context, services: ReplServices, deadline: float) -> ReplEnd:
        shared, options, task = self._all, self._options, self._task
        episodes = ReplEpisodes(
            ReplOptions(
                model=shared.gateway.model,
                sub_model=shared.gateway.model,
                max_tokens=shared.max_completion_tokens,
                concurrency=_CONCURRENCY,
                block_seconds=float(options.timeout_seconds),
                max_turns=options.max_steps,
                sandbox=shared.sandbox,
                question_limit=_QUESTION,
                context_tokens=shared.context_tokens,
            ),
            services,
        )
        delegation = Delegation(
            episodes.run_child,
            slots=ChildSlots(_CONCURRENCY),
            lineage=(fingerprint(task.question, context.object_id),),
            max_depth=options.max_depth,
            max_children=_CHILDREN,
            parallelism=_CONCURRENCY,
            deadline=min(deadline, shared.clock.deadline(shared.max_minutes) or deadline),
        )
        return episodes.run(task.question, context, delegation, task.folder, watcher=self._watcher)

    def _services(self, sessions: Sessions, share: AnalysisShare, scratch: str) -> ReplServices:
        shared = self._all

        def complete(request: ModelRequest, step: str) -> Completion:
            if share.is_subcall(step):
                return share.calls.complete(request, step)
            shared.clock.tick(step)  # so that a resumed run knows the time that it has used
            share.turns.ledger.require_time()
            self._turns += 1
            shared.on_step(f"analysis, turn {self._turns}: asking for code")
            return share.turns.complete(request, step)

        def opened(**arguments: Any) -> ReplSession:
            session = sessions.open(**arguments)
            self._open_sessions.append(session)
            return session

        def left() -> int | None:
            left = (gateway.calls_left() for gateway in (shared.gateway, share.turns, share.calls))
            return min((calls for calls in left if calls is not None), default=None)

        return ReplServices(
            complete=complete,
            fact=shared.record.fact,
            redact=shared.redactor.text,
            files=RunFiles(shared.folder),
            open=opened,
            left=left,
            scratch=scratch,
            longest=shared.redactor.longest,
            on_step=shared.on_step,
            flaw=self._flaw,
        )

    def _flaw(self, text: str) -> str:
        """What is wrong with an answer, for the model; it is kept if nothing is."""
        try:
            self._answer = answers.check(
                text, self._names, self._contents, must_cite=self._options.require_citations
            )
            self._wrong = ""
        except ValueError as error:
            self._wrong = str(error)
        return self._wrong

    def _content(self, path: str) -> tuple[bytes | None, str]:
        oid = self._entries[path].oid
        return self._all.workspace.contents([oid])[0], oid


class _Watcher(LoopWatcher):
    """Keeps what came of each block."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []

    def after(self, action: LoopAction, observation: Observation) -> None:
        if details := observation.details:
            names = ("block", "asked", "failed")
            values = {name: details[name] for name in names}
            self.blocks.append({"step": action.turn, **values, "error": observation.failed})


def _clear(folder: str) -> None:
    with suppress(OSError):
        files.clear(folder)
