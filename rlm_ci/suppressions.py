"""Findings that somebody accepted, with a reason: reported, marked, never failing.

Either ``[[suppressions]]`` in the config file, or ``rlm-ci: ignore[rule] reason`` on the
line that the finding points to.
"""

from __future__ import annotations

from rlm_ci import dates
from rlm_ci.errors import ConfigError
from rlm_ci.globs import matcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.findings import Finding, Part

_INLINE = "rlm-ci: ignore["


def apply(
    part: Part, entries: Sequence[dict[str, Any]], today: Callable[[], str] = dates.today
) -> Part:
    """``part`` with the accepted ones of its findings marked.

    ``entries`` are those of ``suppressions`` in the settings; one whose ``until`` has passed
    no longer holds. Raises ConfigError for a day or a pattern that cannot be read.
    """
    if not part.findings:
        return part
    rules = [_read(entry) for entry in entries]
    day = today() if rules else ""
    marked = []
    for finding in part.findings:
        reason = finding.suppression or _inline(finding)
        for rule, matches, until, why in rules:
            if reason is None and day <= until and _covers(rule, finding.rule):
                paths = [place.path for place in finding.evidence]
                if matches is None or any(matches(path) for path in paths):
                    reason = why
        marked.append(finding if reason is None else finding.replace(suppression=reason))
    return part.replace(findings=tuple(marked))


def _read(entry: dict[str, Any]) -> tuple[str, Callable[[str], bool] | None, str, str]:
    until = entry["until"] or "9999-12-31"
    if not dates.is_day(until):
        raise ConfigError(
            f"{until!r} is not a day YYYY-MM-DD",
            where="suppressions, until",
            hint="write it as 2027-01-31",
        )
    try:
        matches = matcher((entry["path"],)) if entry["path"] else None
    except ValueError as error:
        raise ConfigError(
            f"a pattern cannot be read: {error}",
            where="suppressions, path",
            hint="write it as in .gitignore",
        ) from None
    return entry["rule"], matches, until, entry["reason"]


def _covers(pattern: str, rule: str) -> bool:
    """Whether ``pattern``, a rule or the id of a check, means ``rule``."""
    return rule == pattern or rule.startswith(f"{pattern}/")


def _inline(finding: Finding) -> str | None:
    quote = finding.evidence[0].quote if finding.evidence else None
    if not quote or _INLINE not in quote:
        return None
    rule, bracket, reason = quote.partition(_INLINE)[2].partition("]")
    # What closes a comment of the file's own language is no reason.
    text = reason.strip().removesuffix("-->").removesuffix("*/").strip()
    return text if bracket and text and _covers(rule.strip(), finding.rule) else None
