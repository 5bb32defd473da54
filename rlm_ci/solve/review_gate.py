"""The gate ``review``: a model looks for what is wrong with a result before it is green.

What it says and a run shows sends the result back; what it only argues is told. All that it asks
and runs are facts of the record.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.fix.gates.gate import FAILED, NOT_ASKED, PASSED, Gate, GateResult
from rlm_ci.models.context_length import prompt_bytes
from rlm_ci.models.gateway import GatewayAsk
from rlm_ci.review import fix_review
from rlm_ci.system.command_line import Command
from rlm_ci.text.printable import clip, count, printable
from rlm_ci.trials.trees import ProofPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.fix.gates.gate import GateView
    from rlm_ci.fix.options import FixContext
    from rlm_ci.models import Completion, Message
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.fix_review import FixReview

#: Bytes of a prompt at most: no setting of today, so that a resumed run sends the same.
_PROMPT = 120_000
#: Objections that an agent is told of; characters of a reproduction and of what it printed.
_TOLD, _CODE, _OUTPUT = 5, 4_000, 1_500
_SAID = 200


class ReviewGate(Gate):
    """Asks by ``gateway``; ``environ`` is ours."""

    name = "review"
    line = "review: the change must mend the cause, and not special-case the tests"

    def __init__(self, environ: Mapping[str, str], context: FixContext, gateway: Gateway) -> None:
        self._context = context
        self._gateway = gateway
        self._environ = environ
        #: The same result is not asked about twice.
        self._known: dict[str, GateResult] = {}

    def check(self, view: GateView) -> GateResult:
        if any(gate_result.verdict != PASSED for gate_result in view.earlier):
            return GateResult(self.name, NOT_ASKED, "another gate does not pass")
        if view.result == view.base:
            return GateResult(self.name, PASSED, "there is no change to review")
        if view.result in self._known:
            return self._known[view.result]
        label = f"gate-review-{view.iteration}"
        fact = self._context.fact

        def prefixed(
            kind: str, step: str, key: Mapping[str, Any], produce: Callable[[], Mapping[str, Any]]
        ) -> Mapping[str, Any]:
            return fact(kind, f"{label}/{step}", key, produce)

        ask = _GateModel(self._context, self._gateway, label)
        review = fix_review.review(self._proof_place(view), ask, prefixed)
        if review.lacking and not review.objections:
            reason = f"the result was not reviewed: {printable(review.lacking)}"
            return GateResult(self.name, FAILED, reason)
        result = self._known[view.result] = self._result(review)
        return result

    def _proof_place(self, view: GateView) -> ProofPlace:
        commands, options = self._context.commands, self._context.options
        return ProofPlace(
            commands.workspace.trees(),
            view.base,
            view.result,
            lambda: commands.sandbox,
            self._environ,
            options.setup_command(),
            (Command.parse(options.validator),) if options.validator else (),
        )

    def _result(self, review: FixReview) -> GateResult:
        describe = partial(_finding_words, self._context.redactor.text)
        if shown := review.objections:
            reason = f"{count(len(shown), 'objection')} shown by a run: {describe(shown[0])}"
            feedback = "\n\n".join(
                ["A review of your change ran these, and they fail. Mend the cause.",
                 *(self._shown(finding) for finding in shown[:_TOLD])]
            )  # fmt: skip
            return GateResult(self.name, FAILED, reason, shown, feedback)
        some = count(len(review.remarks), "remark")
        notes = [
            f"{some} that no run shows: {describe(remark)} ({self._why_argued(remark)})"
            for remark in review.remarks[:1]
        ]
        notes += [f"{count(review.refuted, 'claim')} refuted"] if review.refuted else []
        return GateResult(self.name, PASSED, "; ".join(notes) or "no objection", review.remarks)

    def _why_argued(self, finding: Finding) -> str:
        clean = self._context.redactor.text
        return printable(clean(finding.proof.reason if finding.proof else "it was not run"))[:_SAID]

    def _shown(self, finding: Finding) -> str:
        proof = finding.proof
        if proof is None:
            raise AssertionError("only what was shown is an objection")
        clean = self._context.redactor.text
        rows = (
            f"{_finding_words(clean, finding)}: {printable(clean(proof.reason))}",
            f"This must pass, and so must all like it:\n{clip(clean(proof.reproduction), _CODE)}",
            f"It ends with:\n{clean(proof.head)[-_OUTPUT:]}",
        )
        return "\n\n".join(rows)


def _finding_words(clean: Callable[[str], str], finding: Finding) -> str:
    location = finding.evidence[0]
    message = printable(clean(finding.message)).partition("\n")[0][:_SAID]
    return f"{printable(location.path)}:{location.line_start}: {message}"


class _GateModel(GatewayAsk):
    """The way to the model for one look at a result; its calls are recorded below ``label``."""

    def __init__(self, context: FixContext, gateway: Gateway, label: str) -> None:
        max_tokens, tokens = context.options.max_completion_tokens, context.options.context_tokens
        super().__init__(
            gateway,
            label,
            prompt_bytes=_PROMPT if tokens is None else prompt_bytes(tokens, max_tokens, _PROMPT),
            max_tokens=max_tokens,
            context_tokens=tokens,
            largest=_PROMPT,
            has_forms=context.options.forms,
        )
        self._redact = context.redactor.without_known

    def __call__(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        clean = [
            {**message, "content": self._redact(message["content"])}
            if isinstance(
                message["content"], str
            )  # an endpoint's own parts were redacted as recorded
            else message
            for message in messages
        ]
        return super().__call__(step, clean, response_format=response_format, tools=tools)
