"""An agent wants to stop: what it changed is judged, and holds it while it is red.

Held at most a number of times in a row; then the person is told what stayed red.
"""

from __future__ import annotations

from rlm_ci.agent_hooks import dialects
from rlm_ci.agent_hooks import session as sessions
from rlm_ci.text import dates
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.agent_hooks.changed_work import Problem, WorkSite
    from rlm_ci.agent_hooks.dialects import Event
    from rlm_ci.agent_hooks.session import AgentSession

#: Where a person says why an agent may stop on findings.
_OVERRIDE = "RLM_CI_AGENT_OVERRIDE"
#: Messages of a session that are remembered.
_REMEMBERED = 50


class Outcome(Value):
    """``hold`` is the reason that keeps an agent at work, ``message`` is for the person."""

    hold: str = ""
    message: str = ""


def stop(event: Event, session: AgentSession, site: WorkSite) -> Outcome:
    """What becomes of the stop; the record is written before anybody is told.

    Raises RlmCiError where nothing could be judged.
    """
    if event.subagent_id or event.outcome in dialects.CUT_SHORT:
        return Outcome()  # Copilot says so of its subagents, too
    mark = sessions.mark_of(site.repository)
    before = session
    problems: list[Problem] = []
    if session.policy:
        notes = [f"nothing is judged in this session: {session.policy}"]
    else:
        session, problems, notes = site.look(session)
    later, outcome = decide(event, session, problems)
    # Most programs show a person nothing of a stop that is held; it is told at its end.
    news = [note for note in notes if note not in session.messages and not outcome.hold]
    messages = (*session.messages, *news)[-_REMEMBERED:]
    unchanged = "" if problems else mark + sessions.mark_of_taken(site.folder)
    later = later.replace(messages=messages, unchanged=unchanged)
    if later != before:
        sessions.save(site.folder, later)
    lines = [outcome.message, *(f"rlm-ci: {note}" for note in news)]
    return outcome.replace(message="\n".join(filter(None, lines)))


def decide(
    event: Event, session: AgentSession, problems: Sequence[Problem]
) -> tuple[AgentSession, Outcome]:
    """The record after this stop, and what becomes of it."""
    if not problems:
        return session.replace(blocks=0, released=()), Outcome()
    reason = session.environment.get(_OVERRIDE, "").strip()
    flaw = dates.flaw_of_end(reason, dates.today())
    if reason and not flaw:
        head = f"rlm-ci: {_OVERRIDE} lets {event.agent} stop ({printable(reason)[:200]}) with "
        return session, Outcome(message=_listed(head, problems))
    limit = session.configuration["max_blocks"]
    blocks = max(session.blocks, event.loop_count or 0)
    keys = tuple(problem.key for problem in problems)
    is_new = not set(keys) <= set(session.released)
    if is_new and blocks < limit:
        later = session.replace(blocks=blocks + 1, released=())
        return later, Outcome(hold=_reason(problems, flaw))
    head = f"rlm-ci lets {event.agent} stop"
    head += f" after {count(blocks, 'reminder')}, with " if blocks else ", with "
    return session.replace(blocks=0, released=keys), Outcome(message=_listed(head, problems))


def _reason(problems: Sequence[Problem], flaw: str | None) -> str:
    """What an agent is to mend, in the length that its program takes."""
    head = (
        f"rlm-ci found {count(len(problems), 'problem')} in what this session changed. Mend "
        f"{'it' if len(problems) == 1 else 'them'}, then stop again.\n"
    )
    tail = (
        "\nIf a problem must stay, do not work around it: ask the person. Only they can let it "
        f'pass, by starting the session with {_OVERRIDE}="reason". Comments, settings and '
        "commits of this session do not count.\n"
    )
    if flaw:
        tail += f"The override that is set does not hold: {flaw}.\n"
    return head + _within(problems, dialects.LONGEST - len(head) - len(tail)) + tail


def _listed(head: str, problems: Sequence[Problem]) -> str:
    head += f"{count(len(problems), 'problem')} in what it changed:\n"
    return (head + _within(problems, dialects.LONGEST // 3)).rstrip("\n")


def _within(problems: Sequence[Problem], limit: int) -> str:
    """As many problems as fit into ``limit`` bytes, and the number of the others."""
    text = ""
    for number, problem in enumerate(problems, 1):
        entry = f"{number}. {problem.text}\n"
        if len((text + entry).encode("utf-8", "replace")) > limit - 60 and number > 1:
            left = len(problems) - number + 1
            return f"{text}… and {left:,} more; see them with rlm-ci check\n"
        text += entry
    return text
