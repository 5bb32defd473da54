"""An MCP server of a few lines, also a hostile one: a program of its own, without any library."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE = r"""
import json, os, sys, time
MODE = sys.argv[1] if len(sys.argv) > 1 else ""
TEXT = {"type": "string"}
TOOLS = {
    "echo": {"text": TEXT},
    "act": {"action": {**TEXT, "pattern": "(a+)+$"}},
    "environment": {},
    "fail": {}, "die": {}, "sleep": {}, "flood": {}, "garbage": {}, "image": {},
}

def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()

def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}

def call(name, given):
    with open(os.path.join(os.path.dirname(sys.argv[0]), "calls.txt"), "a") as log:
        log.write(name + "\n")
    if name == "die":
        sys.exit("killed by\x1b[31m itself")
    if name == "sleep":
        time.sleep(60)
    if name == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if name == "garbage":
        for line in ("", "{", "[]", "null", '{"jsonrpc": "2.0"}', '{"jsonrpc": "2.0", "id": 99}'):
            sys.stdout.write(line + "\n")
        return text("\x1b[2Jafter garbage ``` ")
    if name == "environment":
        return text(json.dumps({"env": dict(os.environ), "cwd": os.listdir(".")}))
    if name == "image":
        return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    if name == "fail":
        return text("it is wrong", isError=True)
    return text(json.dumps(given))

if MODE == "dead":
    sys.exit("no database")
for line in sys.stdin:
    asked = json.loads(line)
    method, ident = asked.get("method"), asked.get("id")
    if ident is None:
        continue
    if method == "initialize":
        version = asked["params"]["protocolVersion"]
        info = {"name": "small", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [
            {"name": name, "description": f"The tool {name}.",
             "inputSchema": {"type": "object", "properties": given}}
            for name, given in TOOLS.items()
        ]}
    elif method == "tools/call":
        result = call(asked["params"]["name"], asked["params"].get("arguments") or {})
    else:
        say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "no"}})
        continue
    say({"jsonrpc": "2.0", "id": ident, "result": result})
"""


def write(folder: Path, mode: str = "", **env: str) -> Path:
    """The file for ``--mcp-config`` in ``folder``, with one server ``small``."""
    folder.mkdir(exist_ok=True)
    (folder / "server.py").write_text(_SOURCE)
    args = [str(folder / "server.py"), *([mode] if mode else [])]
    server = {"command": sys.executable, "args": args, "env": env}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"small": server}}))
    return path


def calls(folder: Path) -> list[str]:
    """The tools that were called, in order."""
    path = folder / "calls.txt"
    return path.read_text().split() if path.exists() else []
