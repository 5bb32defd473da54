"""``rlm-ci mcp`` as a client has it: a process, and lines of JSON-RPC."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

VERSION = "2025-11-25"
PATIENCE = 60.0


class McpClient:
    """A client that says hello, and calls one tool after the other; ``send`` does not wait."""

    def __init__(
        self,
        cwd: Path,
        *args: str,
        program: Sequence[str] = ("-I", "-m", "rlm_ci", "mcp"),
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self._ids = itertools.count(1)
        self.process = subprocess.Popen(
            [sys.executable, *program, *args],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **more,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next message; {} at the end."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline() or b"{}")
        return found

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request without waiting for its answer; its id."""
        number = next(self._ids)
        self.write(_line({"id": number, "method": method, "params": params or {}}))
        return number

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.write(_line({"method": method, "params": params or {}}))

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request; it must be the next message."""
        number = self.send(method, params)
        answer = self.read()
        assert answer.get("id") == number, answer
        return answer

    def hello(self, name: str = "a client", **capabilities: Any) -> dict[str, Any]:
        client = {"name": name, "version": "1"}
        answer = self.ask(
            "initialize",
            {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": client},
        )
        self.notify("notifications/initialized")
        found: dict[str, Any] = answer["result"]
        return found

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["result"]["tools"]]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, ``{"error": ...}`` where it refuses."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        found: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == found
        assert result["isError"] == (list(found) == ["error"])
        return found

    def close(self) -> int:
        """Close the server's input; the code that it ends with."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **record}).encode() + b"\n"
