"""After an edit: one line of advice when most of the diff budget is used."""

from __future__ import annotations

from rlm_ci.agent_hooks import session as sessions
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.agent_hooks.changed_work import WorkSite
    from rlm_ci.agent_hooks.session import AgentSession

_CHECK = "diff-budget"
#: The part of the budget from which on an agent is advised.
_SHARE = 0.8


def after_edit(session: AgentSession, site: WorkSite) -> str:
    """The advice, once in a session; "" for none. Raises RlmCiError."""
    off = not session.configuration["after_edit"] or session.policy
    if off or _CHECK in session.messages:
        return ""
    change, _ = site.change(session)
    if change is None:
        return ""
    for part in site.report(session, change, [_CHECK]).parts:
        for unit in ("files", "lines"):
            used, limit = (part.metrics.get(name, 0) for name in (unit, f"max_{unit}"))
            if part.id == _CHECK and used and used >= _SHARE * limit:
                later = session.replace(messages=(*session.messages, _CHECK))
                sessions.save(site.folder, later)
                noun = count(used, unit.removesuffix("s"))
                return (
                    f"rlm-ci: this session has changed {noun} of the {limit:,} that one change may "
                    "have. Split here: finish what is begun, and leave the rest for another change."
                )
    return ""
