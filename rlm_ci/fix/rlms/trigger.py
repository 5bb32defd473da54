"""The decision whether an analysis runs before a role's turn."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.fix.rlms.options import RlmsOptions

#: The roles of each mode in the order of their turns, and the switch that each has.
SWITCHES: Mapping[str, Mapping[str, str]] = {
    "single": {"single": "implementer"},
    "triad": {"planner": "planner", "reviser": "implementer", "critic": "reviewer"},
    "superloop": {name: name for name in ("planner", "implementer", "tester", "reviewer")},
}


class ContextFigures(Value):
    """The size of a role's context, measured in full."""

    lines: int
    bytes: int
    files: int

    @property
    def estimated_tokens(self) -> int:
        return -(-self.bytes // 4)


class Decision(Value):
    """Whether an analysis runs, why, and the figures that it rests on."""

    run: bool
    reason: str
    figures: ContextFigures


def decide(
    options: RlmsOptions, switch: str, figures: ContextFigures, *, requested: bool
) -> Decision:
    """The decision for a role with this ``switch``."""
    run, reason = _decide(options, switch, figures, requested=requested)
    return Decision(run, reason, figures)


def _decide(
    options: RlmsOptions, switch: str, figures: ContextFigures, *, requested: bool
) -> tuple[bool, str]:
    if not options.enabled:
        return False, "disabled"
    if switch not in options.roles:
        return False, "role_disabled"
    if options.force_off:
        return False, "force_off"
    if options.force_on:
        return True, "force_on"
    is_large = (
        figures.lines > options.max_lines
        or figures.estimated_tokens > options.max_estimated_tokens
        or figures.files > options.max_files
    )
    if options.mode == "auto":
        return is_large, "auto_threshold" if is_large else "auto_not_met"
    if options.mode != "hybrid":
        return requested, "requested_keyword" if requested else "request_not_found"
    if requested:
        return True, "hybrid_requested"
    return is_large, "hybrid_auto" if is_large else "hybrid_not_met"
