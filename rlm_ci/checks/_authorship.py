"""Whether a bot or a coding agent wrote a change: what makes some checks strict."""

from __future__ import annotations

import os

from rlm_ci.report.wording import by_agents, join
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet

#: Bytes of the records of Agent Trace.
_LIMIT = 32 << 20


class Authorship(Value):
    """Whether a bot or a coding agent wrote a change; ``reason`` says why, or that nobody knows."""

    is_by_agent: bool = False
    reason: str = ""


def authorship_of(
    changes: ChangeSet, environ: Mapping[str, str], logins: Sequence[str] = ()
) -> Authorship:
    """Who wrote the change, by what they say; ``logins`` open pull requests of agents."""
    pull = changes.pull_request
    if pull and (
        pull.by_bot or pull.author.lower() in [login.lower() for login in logins if login]
    ):
        return _by_agent(f"{printable(pull.author) or 'a bot'} opened the pull request")
    from rlm_ci.change import agent_authors

    wrote = changes.authors
    if wrote.agents:
        return _by_agent(by_agents(len(wrote.commits), wrote.counted()))
    if wrote.bots and wrote.bots == wrote.commits:
        return _by_agent("all commits by bots")
    if pull and (names := _signed(pull.body)):
        return _by_agent(f"the pull request says that {join(sorted(names))} wrote it")
    if names := _traced(changes):
        return _by_agent(f"Agent Trace names {join(sorted(names))}")
    if pull is None and (name := agent_authors.running(environ)):
        return _by_agent(f"{name} runs this")
    return Authorship(reason="who wrote it is not known: shallow clone" if wrote.is_cut else "")


def _by_agent(why: str) -> Authorship:
    return Authorship(is_by_agent=True, reason=f"strict: {why}")


def _signed(body: str) -> set[str]:
    """The agents that a pull request says wrote it, but for those that its template explains."""
    from rlm_ci.change.agent_authors import signed
    from rlm_ci.checks._shown_markdown import shown_lines

    return signed("\n".join(line for _, line in shown_lines(body)))


def _traced(changes: ChangeSet) -> set[str]:
    """The agents that records of Agent Trace name for changed files.

    Those count that the change adds to a tracked file, and in one of the work tree those of its
    commits and of where it begins.
    """
    from rlm_ci.change.agent_authors import TRACES, traced

    paths = changes.all_names()
    if TRACES in changes.names():
        old, new = (_lines(changes.read(TRACES, _LIMIT, old=old)) for old in (True, False))
        old_lines = set(old)
        return traced((line for line in new if line not in old_lines), paths, None)
    if changes.pull_request is not None:
        return set()
    try:
        data = files.read(os.path.join(changes.repository.root, TRACES), _LIMIT)
    except files.UnreadableError:
        return set()
    starts = {changes.merge_base or "", changes.head or "", *changes.authors.commits}
    return traced(_lines(data), paths, starts)


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").split("\n")
