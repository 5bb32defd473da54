"""A model whose analyses and whose agent have lines of their own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from testing.repl_stage import repl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked

#: Settings by which each role gets an analysis.
FORCED = {"RLM_CI_LOOP_RLMS_ENABLED": "true", "RLM_CI_LOOP_RLMS_POLICY_FORCE_ON": "true"}
_ROLE = re.compile(r"Analyse the files of the context for the ([a-z]+)")


def answer(*findings: Mapping[str, object], summary: str = "It subtracts.") -> str:
    """A block with the answer of an analysis."""
    told = json.dumps({"summary": summary, "findings": findings})
    return repl(f"FINAL({told!r})")


def finding(path: str = "calc.py", line: object = 2, **more: object) -> dict[str, object]:
    place = {"path": path, "start_line": line, **more}
    return {"title": f"See {path}", "detail": "It is wrong.", "citations": [place]}


def analysed_role(asked: Asked) -> str:
    """The role whose analysis asks for code; "" for all other requests."""
    found = _ROLE.search(asked.messages[-1]["content"] if len(asked.messages) == 2 else "")
    if len(asked.messages) > 1 and not asked.body.get("tools"):
        found = found or _ROLE.search(str(asked.messages[1]["content"]))
    return found[1] if found else ""


def cast(
    turns: Mapping[str, Sequence[Reply]],
    agent: Callable[[Asked], Reply],
    others: Reply = "I do not know.",
) -> Callable[[Asked], Reply]:
    """The analysis of a role says its ``turns``, the last again and again.

    ``agent`` has the lines of roles, ``others`` is the answer to all sub-calls.
    """

    def play(asked: Asked) -> Reply:
        if asked.body.get("tools"):
            return agent(asked)
        role = analysed_role(asked)
        if not role:
            return others
        said = sum(one["role"] == "assistant" for one in asked.messages)
        lines = turns.get(role, turns.get("", ()))
        line: Reply = lines[min(said, len(lines) - 1)]
        return line

    return play
