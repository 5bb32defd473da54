"""Tools of the MCP server, called in this process."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rlm_ci.config.settings import environment
from rlm_ci.delegation import catalogue
from rlm_ci.delegation.tool import FULL, Call, CheckedTool, ServerContext

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Ask = Callable[[str, dict[str, Any]], dict[str, Any] | None]


def nobody(_message: str, _schema: dict[str, Any]) -> None:
    """The person behind a client that cannot ask."""


def served(*roots: Path, mode: str = FULL) -> ServerContext:
    return ServerContext([str(root) for root in roots], mode, environment())


def called(server: ServerContext, tool: str, ask: Ask = nobody, /, **arguments: Any) -> Any:
    """What a tool answers to a client, ``{"error": ...}`` where it refuses."""
    found = next(one for one in catalogue.TOOLS if one.name == tool)
    answer = CheckedTool(found).answer(Call(server, threading.Event(), ask), arguments)
    assert answer.is_error == (list(answer.record) == ["error"])
    return answer.record


def refused(server: ServerContext, tool: str, ask: Ask = nobody, /, **arguments: Any) -> str:
    """The code of the error that a tool answers."""
    code: str = called(server, tool, ask, **arguments)["error"]["code"]
    return code


def ended(server: ServerContext, run_id: str) -> Any:
    """The status of a run at its end."""
    for _ in range(1200):
        found = called(server, "delegate.status", run_id=run_id)
        if found["gone"] or found["status"] not in ("queued", "in_progress"):
            return found
        time.sleep(0.05)
    raise AssertionError(run_id)
