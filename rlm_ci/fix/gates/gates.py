"""The gates of a run, in the order in which they are asked, and what they make of a result."""

from __future__ import annotations

from functools import partial

from rlm_ci.fix.gates.approval import FILE as APPROVAL
from rlm_ci.fix.gates.approval import ApprovalGate
from rlm_ci.fix.gates.checklists import ChecklistGate
from rlm_ci.fix.gates.commands import CommandGate
from rlm_ci.fix.gates.evidence import FILE as EVIDENCE
from rlm_ci.fix.gates.evidence import EvidenceGate
from rlm_ci.fix.gates.gate import PASSED, GateResult, summary
from rlm_ci.fix.gates.promise import PromiseGate
from rlm_ci.runs.journal import spans
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlm_ci.fix.gates.gate import Gate, GateView
    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.verdict import ResultJudge
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.workspace.workspace import Workspace

    MakeGate = Callable[[FixContext, Gateway], Gate]

SUMMARY = "rlm/gate-summary.txt"
#: Characters of a reason.
_REASON = 1_000


class GateSequence:
    """All of ``gates`` are asked, each with what those before it have said."""

    def __init__(self, gates: Sequence[Gate], path_of: Callable[..., str]) -> None:
        self._gates = tuple(gates)
        self._path_of = path_of

    @property
    def lines(self) -> tuple[str, ...]:
        """What each asks of the agent."""
        return tuple(gate.line for gate in self._gates if gate.line)

    def begin(self) -> None:
        for gate in self._gates:
            gate.begin()

    def clear(self) -> None:
        """Remove what was said of an earlier iteration."""
        for name in (SUMMARY, EVIDENCE, APPROVAL) if self._gates else ():
            files.clear(self._path_of(*name.split("/")))

    def check(self, view: GateView) -> tuple[GateResult, ...]:
        results: list[GateResult] = []
        for gate in self._gates:
            title = f"gate {gate.name}"
            with spans.span("gate", title, words=f"iteration {view.iteration}: {title}") as step:
                result = gate.check(view.replace(earlier=tuple(results)))
                results.append(result.replace(reason=result.reason[:_REASON]))
                step.outcome = spans.DONE if result.verdict == PASSED else spans.FAILED
                step.details |= {"verdict": result.verdict, "reason": result.reason[:_REASON]}
        if results:
            text = f"iteration={view.iteration} {summary(results)}\n"
            files.write(self._path_of(*SUMMARY.split("/")), text.encode(), 0o600)
        return tuple(results)


def gates_of(
    context: FixContext,
    judge: ResultJudge,
    find: Callable[[str], str | None],
    gateway: Gateway | None,
    review: MakeGate | None,
) -> Iterator[Gate]:
    """Those that the options ask for; the last one asks a person, if all others pass.

    ``review`` makes the gate that asks a model, by ``gateway``.

    Raises UnavailableError for a program that is not there.
    """
    options, copy = context.options.gates, context.commands.workspace
    redactor = context.redactor
    if options.promise:
        yield PromiseGate(options.promise)
    if options.checklists:
        yield ChecklistGate(options.checklists, partial(_read, copy), redactor.text)
    if options.tests:
        yield CommandGate("tests", (options.tests,), context, judge, find, counted=True)
    if options.validation:
        yield CommandGate("validation", options.validation, context, judge, find)
    if options.review and gateway is not None and review is not None:
        yield review(context, gateway)
    if options.evidence:
        yield EvidenceGate(copy, context.path_of, redactor.without_known)
    if options.approval:
        yield ApprovalGate(
            options.approval, context.commands.visible_root, context.fact, context.path_of
        )


def _read(copy: Workspace, tree: str, path: str) -> bytes | None:
    """A regular file of a tree."""
    entry = copy.entries(tree).get(path)
    return copy.contents([entry.oid])[0] if entry and entry.is_file else None
