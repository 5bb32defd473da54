"""Results without secrets, as everything is that a run writes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.recursion.nodes import NodeResult, Traced
    from rlm_ci.redaction.redactor import Redactor


def without_secrets(result: NodeResult, redactor: Redactor) -> NodeResult:
    """The same result; paths, which are identities, stay as they are."""
    return result.replace(
        summary=redactor.text(result.summary),
        findings=tuple(_traced(one, redactor) for one in result.findings),
        evidence=tuple(map(redactor.place, result.evidence)),
        notes=tuple(map(redactor.text, result.notes)),
        uncovered=tuple((path, redactor.text(reason)) for path, reason in result.uncovered),
        data=_told(result.data, redactor),
    )


def _traced(one: Traced, redactor: Redactor) -> Traced:
    """The same one where there is nothing to hide: it may be known elsewhere."""
    finding = redactor.finding(one.finding)
    return one if finding is one.finding else one.replace(finding=finding)


def _told(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, dict):
        return {name: _told(inner, redactor) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_told(inner, redactor) for inner in value]
    return value
