"""A check overridden with a reason: by a variable, or by label and line of a pull request."""

from __future__ import annotations

from rlm_ci.text import dates
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.change.change_set import PullRequest
    from rlm_ci.report.findings import Finding


class OverrideWords(Value):
    """How a check is overridden: the variable, the label, and the line's beginning."""

    variable: str
    label: str
    line: str


class StatedOverride(Value):
    """The ``reason`` of one that holds, or its ``flaw`` and how to mend it; neither for none."""

    reason: str = ""
    flaw: str = ""
    hint: str = ""


def stated(
    words: OverrideWords, from_environment: str | None, pull_request: PullRequest | None, today: str
) -> StatedOverride:
    """What the environment or the pull request says; ``today`` is an ISO date."""
    flaw = ""
    reason = from_environment or ""
    hint = f"give a reason in {words.variable} with an end date in the future, or without one"
    if not from_environment:
        if pull_request is None:
            return StatedOverride()
        for check, accepted in pull_request.overrides:
            if words.label == f"{check}-override":
                return StatedOverride(accepted)
        from rlm_ci.checks._shown_markdown import shown_lines

        begin = f"{words.line.lower()}:"
        lines = (line.strip() for _, line in shown_lines(pull_request.body))
        raw_reasons = [line[len(begin) :] for line in lines if line.lower().startswith(begin)]
        # A template may have the line without a reason, or with a `<reason>` to fill in.
        texts = (line.strip() for line in raw_reasons)
        reason = next(
            (text for text in texts if text and not (text[0] == "<" and text[-1] == ">")), ""
        )
        labelled = words.label in pull_request.labels
        if not labelled and not raw_reasons:
            return StatedOverride()
        hint = (
            f"an override needs both the label {words.label} and a line '{words.line}: "
            "<reason>' in the pull request's body, with an end date in the future, if it has one"
        )
        if not labelled:
            flaw = f"the label {words.label} is missing"
        elif not reason:
            flaw = "the pull request's body gives no reason"
    flaw = flaw or dates.flaw_of_end(reason, today) or ""
    return StatedOverride(flaw=flaw, hint=hint) if flaw else StatedOverride(reason)


def accept(
    findings: Sequence[Finding], override: StatedOverride, incomplete: Finding
) -> tuple[list[Finding], str]:
    """``findings`` under an override, and what a summary says of it.

    They are suppressed by one that holds; ``incomplete`` is added for one that is not valid.
    """
    if override.flaw:
        message = f"the override is not valid: {override.flaw}"
        return [*findings, incomplete.replace(message=message, hint=override.hint)], ""
    if not override.reason:
        return list(findings), ""
    accepted = [finding.replace(suppression=override.reason) for finding in findings]
    return accepted, f"; overridden: {printable(override.reason)}"
