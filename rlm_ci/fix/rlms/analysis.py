"""A bounded recursive analysis of a role's context: its budgets, its run, and its checked answer.

What came of it is one fact of the run. Within it each answer and each block is one too, so a run
that was killed goes on where it was, and pays nothing twice.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from decimal import Decimal
from functools import lru_cache
from time import monotonic

from rlm_ci.change import evidence
from rlm_ci.context.builder.build import build
from rlm_ci.context.builder.sources import SourceListing
from rlm_ci.environments.delegation import ChildSlots, Delegation
from rlm_ci.environments.repl.episode import ReplEpisodes
from rlm_ci.environments.repl.host.model_functions import fingerprint
from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices, RunFiles
from rlm_ci.environments.repl.pool import Sessions
from rlm_ci.environments.repl.session import SessionLimits
from rlm_ci.environments.turn_loop import LoopWatcher
from rlm_ci.errors import ConfigError, LimitError, RemoteError, RlmCiError, UnavailableError
from rlm_ci.models.budget import BudgetUse, PartLedger
from rlm_ci.models.json_question import repeats
from rlm_ci.models.strict_json import read_object
from rlm_ci.report.findings import Location
from rlm_ci.resources import loader
from rlm_ci.system import files
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Context
    from rlm_ci.environments.repl.episode import ReplEnd
    from rlm_ci.environments.repl.session import ReplSession
    from rlm_ci.environments.turn_loop import LoopAction, Observation
    from rlm_ci.fix.rlms.trigger import RlmsOptions
    from rlm_ci.models import Completion, ModelRequest
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.workspace.workspace import Workspace

    #: The content of a file of the context, and the id of its blob.
    Open = Callable[[str], tuple[bytes | None, str]]


#: The text in the example of the prompt, which small models copy.
_EXAMPLES = ("must know, in a few sentences",)
_SCHEMA = "rlms-answer.schema.json"
#: Findings, and citations of all findings, that are looked at; characters of texts.
_FINDINGS, _CITATIONS = 80, 120
_TITLE, _DETAIL, _SUMMARY, _SNIPPET, _QUOTE, _PATH = 200, 2000, 4000, 220, 4000, 500
#: Citations that do not hold and are listed.
_LISTED = 20
_NO_FILE = "the context has no such file"
_TOO_MANY = f"only the first {_CITATIONS} citations are looked at"


class CheckedAnswer(Value):
    """An answer as far as it holds.

    ``findings`` have their verified citations; ``left_out`` is how many have none. ``rejected`` are
    the first citations that do not hold, with the reason.
    """

    summary: str
    findings: tuple[Mapping[str, Any], ...]
    offered: int
    verified: int
    reanchored: int
    left_out: int
    rejected: tuple[Mapping[str, Any], ...]

    @property
    def citations(self) -> list[Mapping[str, Any]]:
        return [citation for finding in self.findings for citation in finding["citations"]]


def check(text: str, paths: Iterable[str], opened: Open, *, must_cite: bool) -> CheckedAnswer:
    """The answer in ``text``, about the files ``paths``.

    Raises ValueError, in words for the model, for what is no answer, and for one without a citation
    that holds if it ``must_cite``.
    """
    answer = read_object(text, lambda value: loader.misfit(value, _SCHEMA))
    wrong = loader.misfit(answer, _SCHEMA)
    if wrong or repeats(answer["summary"], _EXAMPLES):
        raise ValueError(wrong or "the summary repeats the example of the prompt")
    checker = _Citations({encodable(path): path for path in paths}, opened, must_cite=must_cite)
    raw_findings = answer["findings"][:_FINDINGS]
    findings = tuple(filter(None, map(checker.finding, raw_findings)))
    if must_cite and not checker.verified:
        places = (
            f"{citation['path']}:{citation['start_line']}: {citation['why']}"
            for citation in checker.rejected
        )
        why = "; ".join(places) or "it cites nothing"
        raise ValueError(f"no citation of the answer holds: {why}"[:_DETAIL])
    return CheckedAnswer(
        answer["summary"][:_SUMMARY],
        findings,
        checker.offered,
        checker.verified,
        checker.reanchored,
        len(answer["findings"]) - len(findings),
        tuple(checker.rejected),
    )


class _Citations:
    def __init__(self, names: Mapping[str, str], opened: Open, *, must_cite: bool) -> None:
        self._names = names
        self._open = opened
        self._must_cite = must_cite
        self.offered = self.verified = self.reanchored = 0
        self.rejected: list[dict[str, Any]] = []

    def finding(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """A finding with the citations that hold; None if it needs one, and has none."""
        title = printable(row["title"][:_TITLE])
        places = [cited for cited in map(self._location, row["citations"]) if cited is not None]
        if self._must_cite and not places:
            return None
        citations = [{**cited, "signal": title} for cited in places]
        detail = encodable(row.get("detail", "")[:_DETAIL])
        return {"title": title, "detail": detail, "citations": citations}

    def _location(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        self.offered += 1
        if self.offered > _CITATIONS:
            self._reject(row, _TOO_MANY)
            return None
        path = self._names.get(row["path"].removeprefix("./"))
        if path is None:
            self._reject(row, _NO_FILE)
            return None
        content, blob = self._open(path)
        quote = (row.get("quote") or "")[:_QUOTE] or None
        start, end = (None if line is None else int(line)
                      for line in (row["start_line"], row.get("end_line")))  # fmt: skip
        claim = Location(path, start, end, quote=quote)
        anchored_claim = evidence.anchor(claim, content, blob)
        if anchored_claim.location is None:
            self._reject(row, evidence.flaw(claim, content, blob) or _NO_FILE)
            return None
        self.verified += 1
        self.reanchored += anchored_claim.outcome == evidence.REANCHORED
        location = anchored_claim.location
        return {
            "path": encodable(location.path),
            "start_line": location.line_start,
            "end_line": location.line_end,
            "snippet": encodable((location.quote or "")[:_SNIPPET]),
            "blob": blob,
        }

    def _reject(self, row: Mapping[str, Any], why: str) -> None:
        if len(self.rejected) < _LISTED:
            path = printable(row["path"][:_PATH])
            line = str(row["start_line"])[:20]
            self.rejected.append({"path": path, "start_line": line, "why": why})


#: Before the names of limits.
LIMITS = "loop.rlms.limits."
_BUDGETS = ("max_calls", "max_tokens", "budget_usd")


class AnalysisShare:
    """The share of the analysis with the files in ``folder``, which began ``began`` seconds after
    the run: at most half of what was left of each budget, and the limits of ``options``.

    ``turns`` is the way to the model for its turns, ``calls`` that for all other calls.
    """

    def __init__(
        self,
        gateway: Gateway,
        record: Record,
        clock: RunClock,
        options: RlmsOptions,
        *,
        folder: str,
        began: float,
    ) -> None:
        self._record = record
        self._folder = folder
        budgets, before = self._agreed(gateway)
        spent = record.spent
        seconds, limit = options.timeout_seconds, options.max_subcalls
        words = dict.fromkeys(_BUDGETS, "half of what was left of the run's budget is used up")
        words["max_minutes"] = f"the limit of {count(seconds, 'second')} is reached"
        words["max_minutes"] += f" ({LIMITS}timeout_seconds)"
        share = PartLedger(
            gateway.ledger,
            words,
            **budgets,
            max_minutes=seconds / 60,
            clock=clock.seconds,
            used=clock.seconds() - began,
            price=gateway.price,
            spent=spent - before,
        )
        message = f"the limit of {count(limit, 'sub-call')} is reached ({LIMITS}max_subcalls)"
        calls = PartLedger(
            share,
            {"max_calls": message},
            max_calls=limit,
            price=gateway.price,
            spent=BudgetUse(self.subcalls()),
        )
        self.turns, self.calls = gateway.within(share), gateway.within(calls)

    def _agreed(self, gateway: Gateway) -> tuple[dict[str, Any], BudgetUse]:
        """The budgets, and what the run had used when the analysis began: a fact."""

        def produce() -> Mapping[str, Any]:
            halves = {name: str(amount / 2) if name == "budget_usd" else int(amount) // 2
                    for name, amount in gateway.ledger.budgets_left().items()}  # fmt: skip
            used = self._record.spent.to_dict()
            return {"rest": {**dict.fromkeys(_BUDGETS), **halves}, "used": used}

        fact = self._record.fact("share", self._folder, {}, produce)
        used, budgets = fact["used"], dict(fact["rest"])
        if budgets["budget_usd"] is not None:
            budgets["budget_usd"] = Decimal(budgets["budget_usd"])
        return budgets, BudgetUse(**{**used, "usd": Decimal(used["usd"])})

    def is_subcall(self, step: str) -> bool:
        """Whether the call at ``step`` is no turn of the analysis itself."""
        inner, _, last = step.removeprefix(f"{self._folder}/").rpartition("/")
        return last.startswith("llm-") or (last.startswith("turn-") and bool(inner))

    def subcalls(self) -> int:
        """How many there are so far, those of earlier processes too."""
        return sum(map(self.is_subcall, self._record.places(f"{self._folder}/")))

    def depth(self) -> int:
        """How deep the code has asked itself so far."""
        places = self._record.places(f"{self._folder}/")
        return max((path.count("/rlm-") for path in places), default=0)


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
            self._answer = check(
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
