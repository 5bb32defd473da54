"""A run of a question about a long text, and its report."""

from __future__ import annotations

import os

from rlm_ci.ask.citations.citations import cite
from rlm_ci.ask.citations.compare_files import FileComparison, refuted_by
from rlm_ci.ask.compute import ANY_TURNS, ComputedQuestion, ComputeLimits
from rlm_ci.environments.repl.host.options import ReplOptions
from rlm_ci.environments.repl.pool import Sessions
from rlm_ci.environments.symbolic.iteration import NOT_ALLOWED, all_calls, counted_in, unread
from rlm_ci.environments.symbolic.loop import PlanExecutor, Question
from rlm_ci.environments.symbolic.planner.plan import PlanLimits
from rlm_ci.environments.symbolic.planner.planner import BadPlanError, Planner
from rlm_ci.environments.symbolic.planner.prompt import ContextMetadata
from rlm_ci.environments.symbolic.subcalls import ModelAccess, Subcalls
from rlm_ci.environments.symbolic.visible_context import VisibleContext
from rlm_ci.errors import FINDINGS, OK, ConfigError
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import provider_of, require_endpoint
from rlm_ci.pipelines.agreed_context import agreed_context
from rlm_ci.pipelines.attempt import Attempt
from rlm_ci.pipelines.run_context import RunContext
from rlm_ci.report.findings import (
    INCOMPLETE,
    Document,
    Evidence,
    Finding,
    Part,
    Report,
    Severity,
    Subject,
)
from rlm_ci.runs.manifest import PAUSED
from rlm_ci.runs.state import PASSED
from rlm_ci.system import files
from rlm_ci.text import printable as text_printable
from rlm_ci.text.printable import printable_file
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.ask.citations.citations import CitedAnswer
    from rlm_ci.config.settings import Settings
    from rlm_ci.context.context import Context
    from rlm_ci.environments.symbolic.iteration import Iteration
    from rlm_ci.environments.symbolic.loop import AskEnd
    from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan
    from rlm_ci.errors import RlmCiError
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.agreed_context import AgreedContext
    from rlm_ci.pipelines.attempt import Mode, PipelineJob
    from rlm_ci.report.findings import Location, Usage
    from rlm_ci.runs.run import Run
    from rlm_ci.runs.state import FinalState


PART = "rlm"
#: The name of the document with the answer.
ANSWER = "answer.md"
#: The environment of a question that is answered by code.
REPL = "repl"
FAILED = f"{PART}/failed"
UNVERIFIED = f"{PART}/unverified-citation"
RULES = {
    "failed": Severity.HIGH,
    "unverified-citation": Severity.MEDIUM,
}


def metrics(model: str, context: Context, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of a run over ``context``; ``turns`` are those of its state."""
    subcalls = [call for turn in turns for call in all_calls(turn)]
    parts, missing = unread(turns)
    not_allowed = sum((subcall["error"] or "").startswith(NOT_ALLOWED) for subcall in subcalls)
    return {
        "mode": "symbolic",
        "iterations": len(turns),
        "subcalls": len(subcalls),
        "model": model,
        "context": context.object_id,
        "context_bytes": context.byte_length,
        "chunks": context.chunk_count,
        "planner_prompt_bytes": max((turn["planner_prompt_bytes"] for turn in turns), default=0),
        **({"models_not_allowed": not_allowed} if not_allowed else {}),
        **({"map_parts": parts, "map_parts_read": parts - len(missing)} if parts else {}),
    }


def figures(
    model: str, context: Context, turns: Sequence[Mapping[str, Any]], sandbox: str | None
) -> dict[str, Any]:
    """As ``metrics``; with a ``sandbox``, those of a question that was answered by code."""
    if sandbox is None:
        return metrics(model, context, turns)
    blocks = [block for turn in turns for block in turn["blocks"]]
    not_allowed = sum(block["not_allowed"] for block in blocks)
    return {
        "mode": "symbolic",
        "environment": REPL,
        "sandbox": sandbox,
        "turns": len(turns),
        "blocks": len(blocks),
        "subcalls": sum(block["asked"] for block in blocks),
        "subcalls_failed": sum(block["failed"] for block in blocks),
        "model": model,
        "context": context.object_id,
        "context_bytes": context.byte_length,
        "chunks": context.chunk_count,
        "largest_prompt_bytes": max((turn["prompt_bytes"] for turn in turns), default=0),
        **({"models_not_allowed": not_allowed} if not_allowed else {}),
    }


def build(
    ended: AskEnd,
    cited: CitedAnswer | None,
    *,
    metrics: Mapping[str, Any],
    subject: Subject,
    usage: Usage,
    notes: Sequence[str] = (),
) -> Report:
    """The report: the answer with its evidence, or why there is none; ``notes`` on the context.

    A place outside of the work tree is no evidence: readers cannot look it up. A citation that
    does not hold is a finding of severity medium, a failure of the planner is high.
    """
    final = ended.final
    source = f"model:{metrics['model']}"
    findings: list[Finding] = []
    if final.exit_code == FINDINGS:
        findings.append(Finding(FAILED, Severity.HIGH, final.reason, source=source))
    for pointer, why in cited.rejected if cited is not None else ():
        message = f"The answer cites {pointer}, which does not hold: {why}"
        findings.append(
            Finding(UNVERIFIED, Severity.MEDIUM, message, subject=pointer, source=source)
        )
    part = Part(
        PART,
        _summary(final, cited, metrics, notes),
        {"status": final.status, **metrics},
        tuple(findings),
        state=INCOMPLETE if final.exit_code not in (OK, FINDINGS) else None,
    )
    documents: tuple[Document, ...] = ()
    if cited is not None:
        places = tuple(filter(_is_in_worktree, cited.locations))
        documents = (Document(ANSWER, cited.text, places, shown=True),)
    evidence = cited.evidence if cited is not None else Evidence()
    return Report(
        subject, Severity.HIGH, (part,), documents=documents, evidence=evidence, usage=usage
    )


def _is_in_worktree(location: Location) -> bool:
    return not os.path.isabs(location.path) and ".." not in location.path.split("/")


def _summary(
    final: FinalState,
    cited: CitedAnswer | None,
    metrics: Mapping[str, Any],
    notes: Sequence[str],
) -> str:
    parts = [final.reason]
    if final.status == PASSED and cited is not None:
        citations = text_printable.count(cited.verified, "citation")
        parts.append(f"{citations} verified" if cited.offered else "it cites nothing")
        wrong = cited.offered - cited.verified
        if wrong:
            parts.append(f"{wrong:,} could not be verified")
    if "map_parts" in metrics:
        mapped = text_printable.count(metrics["map_parts"], "part")
        parts.append(f"{metrics['map_parts_read']:,} of {mapped} of the text read by maps")
    not_allowed = metrics.get("models_not_allowed", 0)
    if not_allowed:
        number = text_printable.count(not_allowed, "sub-call")
        parts.append(f"{number} named a model that is not allowed")
    if final.status != PASSED and cited is not None:
        parts.append("the answer is what it had by then")
    parts += notes
    if metrics.get("sandbox") == "none":
        parts.append("its code ran without a sandbox")
    return "; ".join(parts)


#: The kind of a fact: the refuted places of an answer.
_STANDING = "standing"
#: Characters of the question in the prompt of each sub-call.
_QUESTION = 2000
#: The limits of the mode that are settings, and the others: what a plan may do before the next one
#: corrects it, and what one sub-call reads.
_SETTINGS = (
    "reads", "subcalls", "read_bytes", "prompt_bytes", "top_k", "preview_bytes", "concurrency",
)  # fmt: skip
_FIXED = {
    "searches": 4, "snippets": 8, "snippet_bytes": 8192, "subcall_input_bytes": 120_000,
    "counts": 4,
}  # fmt: skip
#: The maps of a plan, and the sub-calls of one map.
_MAPS = {"maps": 1, "map_parts": 1000}
_ORDER = (
    "searches", "reads", "subcalls", "read_bytes", "snippets", "snippet_bytes",
    "subcall_input_bytes", "prompt_bytes", "top_k", "preview_bytes", "concurrency", "counts",
    *_MAPS,
)  # fmt: skip
#: In the REPL: how deep children with a REPL of their own may go, and the seconds of one block.
_REPL = {"max_depth": 2, "block_seconds": 120}

#: The parts of what the model reads for a planner's prompt and for one text in it; bytes of the
#: prompt of a sub-call beside its texts.
_PLAN, _TEXT, _FRAME = 0.95, 0.15, 2_000
#: What a shorter prompt does not offer: it would take a fifth of it.
_SHORT = 10_000
_ANY = 1 << 40


class AskOptions(Value):
    """The options of a run, the same whenever it is resumed."""

    goal: str
    model: str
    provider: str
    head: str | None
    max_iterations: float | None
    max_minutes: float | None
    max_completion_tokens: int
    limits: Mapping[str, int]
    subcall_models: Sequence[str] = ()
    environment: str = "symbolic"
    #: The rest is for the REPL.
    sandbox: str = ""
    isolated: bool = True
    max_depth: int = 0
    block_seconds: float = 0.0
    #: What the model reads; for both environments.
    context_tokens: int | None = None


class AskRun(Attempt):
    """The symbolic mode. Without a context it raises NoContextError, unless it is ``required``.

    ``commit`` is the one that the context holds, if it is not the work tree.
    """

    turns = "symbolic_iterations"

    def __init__(
        self,
        work: PipelineJob,
        run: Run,
        goal: str,
        record: Record,
        mode: Mode,
        *,
        required: bool,
        commit: str | None = None,
    ) -> None:
        super().__init__(work, run, goal, record, mode, head={"context": None})
        self._required = required
        self._commit = commit
        self._kept = RunContext(work, run, record, self._step)
        self._sessions = Sessions(
            work.settings.sandbox, work.settings.environ, replay=bool(work.replay)
        )

    def _failed(self, error: RlmCiError) -> Report:
        report = super()._failed(error)
        if isinstance(error, BadPlanError):
            self.detail = PAUSED  # another attempt or model may give a better plan
        return report

    def _solve(self) -> tuple[FinalState, Report]:
        with self._kept.open(self._goal, required=self._required) as context:
            options = self._options()
            if options.environment == REPL:
                self._run.set_sandbox(options.sandbox)
                self._state.describe(environment=options.environment, sandbox=options.sandbox)
            limits = options.limits
            self._state.describe(
                model=options.model,
                maxIterations=options.max_iterations or 0,
                maxMinutes=options.max_minutes or 0,
                # In one order, also if they come from the record.
                budgets={name: limits[name] for name in _ORDER if name in limits},
                context={
                    "object_id": context.object_id,
                    "index_path": self._run.shown("rlm", "context", "index.json"),
                    "chunk_count": context.chunk_count,
                    "byte_length": context.byte_length,
                },
            )
            is_computed = options.environment == REPL
            ended = (self._compute if is_computed else self._ask)(options, context)
            return ended.final, self._report(options, context, ended)

    # ── the options ──

    def _options(self) -> AskOptions:
        def produce() -> Mapping[str, Any]:
            settings, repository = self._all.settings, self._all.repository
            _require_our_agent(settings)
            require_endpoint(models_of(settings), "set one of them")
            symbolic = settings.symbolic
            of_repl = self._of_repl() if symbolic.environment == REPL else {}
            agreed = agreed_context(self._all, settings.model or "")
            return AskOptions(
                goal=self._goal,
                model=settings.model or "",
                provider=provider_of(models_of(settings)),
                # None outside of git and before the first commit.
                head=self._commit or (repository.head_commit() if repository.git_dir else None),
                max_iterations=settings.loop.max_iterations,
                max_minutes=settings.loop.max_minutes,
                limits=_fitting(settings, agreed),
                subcall_models=list(symbolic.subcall_models),
                environment=symbolic.environment,
                **agreed.terms(),
                **of_repl,
            ).to_dict()

        return self._record.shaped("terms", "start", {}, produce, lambda terms: AskOptions(**terms))

    def _of_repl(self) -> dict[str, Any]:
        """The options of the REPL; the run keeps to the sandbox that it begins with."""
        pool = self._sessions.pool()
        return {"sandbox": pool.name, "isolated": pool.isolated, **_REPL}

    # ── the question, and its end ──

    def _gateway(self, options: AskOptions) -> Gateway:
        others = options.subcall_models
        return self._gateway_to(options.model, options.provider, options.max_minutes, others=others)

    def _compute(self, options: AskOptions, context: Context) -> AskEnd:
        """Let a model answer by code."""
        self._all.progress.left = lambda: self._left(options.max_minutes, metered=True)
        self._sessions.keep_to(options.sandbox, self._run.id)
        limit, replay = options.max_iterations, self._all.replay
        return ComputedQuestion(
            ReplOptions(
                model=options.model,
                sub_model=options.model,
                max_tokens=options.max_completion_tokens,
                models=tuple(options.subcall_models),
                subcall_bytes=options.limits["subcall_input_bytes"],
                concurrency=options.limits["concurrency"],
                block_seconds=options.block_seconds,
                max_turns=ANY_TURNS if limit is None else int(limit),
                sandbox=options.sandbox,
                context_tokens=options.context_tokens,
            ),
            ComputeLimits(max_minutes=options.max_minutes, max_depth=options.max_depth),
            self._gateway(options),
            record=self._record,
            clock=self._clock,
            state=self._state,
            redactor=self._run.redactor,
            sessions=self._sessions,
            folder=self._run.path,
            original=os.path.dirname(replay) if replay else None,
            on_step=self._step,
        ).answer(options.goal, context)

    def _ask(self, options: AskOptions, context: Context) -> AskEnd:
        record, redact = self._record, self._run.redactor.text
        gateway = self._gateway(options)
        limit = options.max_iterations
        limits = PlanLimits(**options.limits, max_iterations=None if limit is None else int(limit))
        access = ModelAccess(
            complete=gateway.complete,
            fact=record.fact,
            write=self._write,
            redact=redact,
            limits=limits,
            model=gateway.model,
            max_tokens=options.max_completion_tokens,
            foresee=gateway.ledger.foresee,
            tell=self._step,
            models=tuple(name for name in options.subcall_models if name != gateway.model),
            context_tokens=options.context_tokens,
        )
        window = VisibleContext(context, redact, self._run.redactor.longest)
        subcalls = Subcalls(access, window, options.goal[:_QUESTION])
        planner = Planner(access, window.flaw, gateway.calls_left)
        metadata = ContextMetadata.of(context)

        def plan(iteration: int, steps: Sequence[Iteration]) -> AcceptedPlan:
            return planner.plan(iteration, options.goal, metadata, steps)

        self._all.progress.left = lambda: self._left(options.max_minutes, metered=True)
        return Question(
            plan,
            PlanExecutor(window, subcalls, access),
            max_iterations=options.max_iterations,
            max_minutes=options.max_minutes,
            fact=record.fact,
            clock=self._clock,
            state=self._state,
            shown=self._run.shown,
            on_step=self._step,
        ).run()

    def _write(self, path: str, data: bytes) -> None:
        files.write(self._run.path_of(*path.split("/")), data, 0o600)

    def _cited(self, options: AskOptions, context: Context, ended: AskEnd) -> CitedAnswer:
        """The answer with its citations checked, also against the files of the repository."""

        def compare() -> Mapping[str, Any]:
            comparison = FileComparison(context, self._all.repository, options.head)
            cite(ended.answer, context, ended.look or ended.seen, refute=comparison)
            return {"refuted": comparison.refuted}

        refuted: Mapping[str, str] = {}
        if self._kept.is_adopted:  # an object of our own has the right table of files
            refuted = self._record.fact(_STANDING, "answer", {}, compare)["refuted"]
        return cite(
            ended.answer,
            context,
            ended.look or ended.seen,
            refute=refuted_by(refuted),
            redact=self._run.redactor.text,
            counts=counted_in(self._state.entries) if "counts" in options.limits else None,
        )

    def _report(self, options: AskOptions, context: Context, ended: AskEnd) -> Report:
        cited = self._cited(options, context, ended) if ended.answer else None
        if cited is not None:
            self._write(f"rlm/{ANSWER}", printable_file(cited.text))
        return build(
            ended,
            cited,
            metrics=figures(options.model, context, self._state.entries, options.sandbox or None),
            subject=Subject(head=options.head, worktree=self._commit is None),
            usage=self._usage(),
            notes=context.notes,
        )


def _fitting(settings: Settings, agreed: AgreedContext) -> dict[str, int]:
    """The limits of the mode as they are set; what is not, also fits into what the model reads."""
    prompt = agreed.prompt_bytes(_ANY)
    text = int(prompt * _TEXT)
    rooms = {
        "prompt_bytes": int(prompt * _PLAN), "read_bytes": text, "snippet_bytes": text,
        "subcall_input_bytes": prompt - min(_FRAME, prompt // 5),
    }  # fmt: skip
    limits = {name: getattr(settings.symbolic, name) for name in _SETTINGS} | _FIXED
    for name, room in rooms.items():
        if settings.sources.get(f"symbolic.{name}", "default") == "default":
            limits[name] = min(limits[name], max(1, room))
    return limits | ({} if prompt < _SHORT else _MAPS)


def _require_our_agent(settings: Settings) -> None:
    agent = settings.loop.agent
    if agent not in (None, "openai"):
        raise ConfigError(
            f"a question needs a model, not the agent {agent[:80]!r}",
            where=settings.sources["loop.agent"],
            hint="remove --agent, or add --mode iterative",
        )
