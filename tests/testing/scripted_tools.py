"""The MCP server with tools that wait and ask: ``scripted_tools.py REPOSITORY FOLDER``.

They leave files in FOLDER, and wait for some there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rlm_ci.config.settings import environment
from rlm_ci.delegation import catalogue
from rlm_ci.delegation.server import serve
from rlm_ci.delegation.tool import STATUS_ONLY, Call, ServerContext, Tool

ANYTHING = {"type": "object"}
QUESTION = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


class ScriptedTool(Tool):
    """A tool that takes and answers anything."""

    def schema(self, part: str) -> dict[str, Any]:  # noqa: ARG002
        return ANYTHING


def main(repository: str, folder: Path) -> None:
    def wait(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
        while not call.cancelled.is_set() and not (folder / "go").exists():
            time.sleep(0.01)
        (folder / f"{arguments['name']}-{call.cancelled.is_set()}").touch()
        return {}

    def ask(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"told": call.ask_person(arguments["message"], QUESTION)}

    def shout(_call: Call, _arguments: dict[str, Any]) -> dict[str, Any]:
        print("not for the client", flush=True)
        return {}

    catalogue.TOOLS = (
        *catalogue.TOOLS,
        ScriptedTool("wait", "", STATUS_ONLY, wait, blocking=True),
        ScriptedTool("ask", "", STATUS_ONLY, ask, blocking=True),
        ScriptedTool("shout", "", STATUS_ONLY, shout),
    )
    context = ServerContext([repository], STATUS_ONLY, environment())
    context.on_close.append((folder / "closed").touch)
    serve(context)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
