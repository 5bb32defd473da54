"""The MCP server, as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.cli.commands.mcp import ROWS, mode_of
from rlm_ci.config.core_options import CORE
from rlm_ci.config.options import DELEGATE_MODES, PIPELINES
from rlm_ci.config.settings import Settings
from rlm_ci.delegation.catalogue import TOOLS
from rlm_ci.delegation.server import LINE_LIMIT
from rlm_ci.delegation.tool import FULL
from testing.mcp_client import McpClient
from testing.run_store import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.repositories.git_repo import GitRepo

SCRIPTED = Path(__file__).parents[1] / "testing" / "scripted_tools.py"
PARSE, INVALID, PARAMS = -32700, -32600, -32602
CALL = b'{"jsonrpc":"2.0","id":70,"method":"tools/call","params":'
STATUS = CALL + b'{"name":"delegate.status","arguments":'
#: Lines of a client, the ids of the answers to them, and their error codes; 0 for a result.
HOSTILE: dict[str, tuple[bytes, object, int]] = {
    "not JSON": (b"Content-Length: 20", None, PARSE),
    "not UTF-8": (b'{"a":"\xff\xfe"}', None, PARSE),
    "half of a surrogate": (STATUS + b'{"run_id":"\\ud800"}}}', 70, INVALID),
    "half of one as an id": (
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}',
        None,
        INVALID,
    ),
    "half of one as a method": (
        b'{"jsonrpc":"2.0","id":"\xc3\xbc","method":"\\uDFFF"}',
        "ü",
        INVALID,
    ),
    "half of one as a name": (
        b'{"jsonrpc":"2.0","id":75,"\\udead":1,"method":"ping"}',
        75,
        INVALID,
    ),
    "half of one as a progress token": (
        b'{"jsonrpc":"2.0","id":76,"method":"ping","params":{"_meta":{"progressToken":"\\ud8ff"}}}',
        76,
        INVALID,
    ),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, INVALID),
    "deep lists": (b"[" * 100_000, None, PARSE),
    "deep arguments": (STATUS + b'{"run_id":' + b"[" * 100 + b"]" * 100 + b"}}}", 70, 0),
    "deeper arguments": (STATUS + b'{"a":' * 200_000 + b"1" + b"}" * 200_002, None, PARSE),
    "a very long line": (b'"' + b"x" * (100 << 20) + b'"', None, INVALID),
    "a line above the limit": (b" " * (LINE_LIMIT + 1), None, INVALID),
    "another version": (b'{"jsonrpc":"1.0","id":71,"method":"ping"}', 71, INVALID),
    "no method": (b'{"jsonrpc":"2.0","id":"a"}', "a", INVALID),
    "a list of parameters": (b'{"jsonrpc":"2.0","id":72,"method":"ping","params":[]}', 72, INVALID),
    "no id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, INVALID),
    "a fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, INVALID),
    "a truth": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, INVALID),
    "an unknown method": (b'{"jsonrpc":"2.0","id":73,"method":"nope"}', 73, -32601),
    "a resource": (b'{"jsonrpc":"2.0","id":74,"method":"resources/list"}', 74, -32601),
    "no tool": (CALL + b"{}}", 70, PARAMS),
    "an unknown tool": (CALL + b'{"name":"nope"}}', 70, PARAMS),
    "a list of arguments": (STATUS + b"[]}}", 70, PARAMS),
    "a number of a tool": (CALL + b'{"name":7}}', 70, PARAMS),
    "no number": (STATUS + b'{"run_id":NaN}}}', 70, 0),
}
#: Lines that get no answer.
SILENT = (
    b"",
    b"   \r",
    b'{"jsonrpc":"2.0","id":99,"result":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/nope"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}',
)


@pytest.mark.full
def test_a_client_lists_calls_and_closes(repo: GitRepo) -> None:
    Place(repo.path).finished(task="t1")
    with McpClient(repo.path, stderr=subprocess.PIPE) as client:
        assert client.hello()["serverInfo"]["name"] == "rlm-ci"
        offered = [tool for tool in TOOLS if tool.mode != FULL]
        assert client.tools() == [tool.name.replace(".", "_") for tool in offered]
        found = client.call("delegate.status", run_id="latest")
        assert found["events"][-1]["event"] == "run_completed"
        assert client.call("delegate_status", manifest_path=found["manifest_path"]) == found
        refused = client.call("repo_rlm_start", objective="wiki")
        assert refused["error"]["code"] == "delegate_mode_forbidden"
        for name, (line, number, code) in HOSTILE.items():
            client.write(line + b"\n")
            answer = client.read()
            assert answer["id"] == number, name
            assert answer.get("error", {}).get("code", 0) == code, name
            assert "result" not in answer or answer["result"]["isError"], name
        client.write(b'{"jsonrpc":"2.0","id":"\\ud83d\\ude00","method":"ping"}\n')
        assert client.read()["id"] == "😀"
        client.write(b"".join(line + b"\n" for line in SILENT))
        assert client.ask("ping")["result"] == {}
        peak = Path(f"/proc/{client.process.pid}/status").read_text("utf-8")
        assert int(peak.partition("VmHWM:")[2].split()[0]) < 200 << 10  # of 100 MB none is kept
        # What was asked for before the end of the input is answered.
        client.write(b'{"jsonrpc":"2.0","id":90,"method":"tools/list"}')
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert client.read()["id"] == 90
        assert client.process.wait(60) == 0
        assert client.process.stderr is not None
        assert b"Traceback" not in client.process.stderr.read()


@pytest.fixture
def scripted(repo: GitRepo, tmp_path: Path) -> Iterator[McpClient]:
    with McpClient(
        repo.path, str(repo.path), str(tmp_path), program=(str(SCRIPTED),), stderr=subprocess.PIPE
    ) as client:
        yield client


def eventually(path: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(path)


def wait(client: McpClient, name: str) -> int:
    return client.send("tools/call", {"name": "wait", "arguments": {"name": name}})


@pytest.mark.full
def test_slow_calls_block_none_and_a_person_is_asked(scripted: McpClient, tmp_path: Path) -> None:
    client = scripted
    client.hello("Claude Code", elicitation={})
    assert "delegate_status" in client.tools()
    first = wait(client, "first")
    slow = {wait(client, f"slow{number}") for number in range(100)}
    assert client.call("delegate.status", run_id="none")["error"]["code"] == "manifest_not_found"
    # The id of a call that goes on is not taken twice.
    client.write(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % first)
    refused = client.read()
    assert (refused["id"], refused["error"]["code"]) == (first, INVALID)
    client.notify("notifications/cancelled", {"requestId": first})
    eventually(tmp_path / "first-True")
    (tmp_path / "go").touch()
    while slow:
        answer = client.read()
        assert answer["result"]["isError"] is False
        slow.remove(answer["id"])
    assert client.call("shout") == {}
    for action, content in (("accept", {"sure": True}), ("decline", None), ("perhaps", None)):
        asked = client.send("tools/call", {"name": "ask", "arguments": {"message": "Really?"}})
        question = client.read()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Really?"
        result = {"action": action, **({"content": content} if content else {})}
        answered = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        client.write(json.dumps(answered).encode() + b"\n")
        answer = client.read()
        assert answer["id"] == asked
        told = answer["result"]["structuredContent"]["told"]
        assert told == ({"action": action, "content": content} if action != "perhaps" else None)
    (tmp_path / "go").unlink()
    wait(client, "last")
    client.send("tools/call", {"name": "ask", "arguments": {"message": "And now?"}})
    assert client.read()["method"] == "elicitation/create"
    assert client.close() == 0
    assert (tmp_path / "closed").exists()
    assert client.process.stderr is not None
    assert client.process.stderr.read() == b"not for the client\n"


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_ends_it(repo: GitRepo, number: signal.Signals, code: int) -> None:
    with McpClient(repo.path, stderr=subprocess.PIPE) as client:
        client.hello()
        client.process.send_signal(number)
        assert client.process.wait(60) == code


@pytest.mark.full
def test_a_client_that_never_reads_costs_little_memory(repo: GitRepo) -> None:
    with McpClient(repo.path, stderr=subprocess.PIPE) as client:
        client.hello()
        assert client.process.stdin is not None
        pipe = client.process.stdin.fileno()
        os.set_blocking(pipe, False)
        blocked = 0
        for number in range(1000, 10**6):
            try:
                os.write(pipe, b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % number)
                blocked = 0
            except BlockingIOError:
                blocked += 1
                time.sleep(0.1)
            if blocked == 20:
                break
        assert blocked == 20  # it reads no more
        status = Path(f"/proc/{client.process.pid}/status").read_text("utf-8")
        assert int(status.partition("VmHWM:")[2].split()[0]) < 200 << 10
        client.process.terminate()
        assert client.process.wait(60) == 143


#: Starts a server with its own standard input, and ends when that has answered.
PARENT = """
import subprocess, sys
command = [sys.executable, "-I", "-m", "rlm_ci", "mcp"]
server = subprocess.Popen(command, stdout=subprocess.PIPE)
server.stdout.readline()
print(server.pid)
"""


@pytest.mark.full
def test_it_ends_with_the_process_that_started_it(repo: GitRepo) -> None:
    """Though another one holds the pipe open."""
    source, target = os.pipe()
    try:
        os.write(target, b"hello\n")
        started = subprocess.run(
            [sys.executable, "-c", PARENT],
            stdin=source,
            stdout=subprocess.PIPE,
            cwd=repo.path,
            check=True,
            timeout=60,
        )
        place = Path(f"/proc/{int(started.stdout)}")
        for _ in range(600):
            if not place.exists():
                break
            time.sleep(0.1)
        assert not place.exists()
    finally:
        os.close(source)
        os.close(target)


@pytest.mark.full
def test_a_client_without_a_channel_for_questions_calls_again(
    repo: GitRepo, tmp_path: Path
) -> None:
    """As the protocol of 2026-07-28 has it; the SDK's client speaks it where it can."""
    from mcp import Client, StdioServerParameters
    from mcp.types import ElicitResult

    asked: list[str] = []

    async def answer(_context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"sure": True})

    async def run() -> list[Any]:
        arguments = [str(SCRIPTED), str(repo.path), str(tmp_path)]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        callback: Any = answer
        async with Client(server, elicitation_callback=callback) as client:
            assert client.protocol_version == "2026-07-28"
            known = await client.call_tool("ask", {"message": "Really?"})
        async with Client(server) as client:
            return [known, await client.call_tool("ask", {"message": "Really?"})]

    told = [one.structured_content["told"] for one in asyncio.run(run())]
    assert told == [{"action": "accept", "content": {"sure": True}}, None]
    assert asked == ["Really?"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "dot"),
    [
        ("codex-orchestrator", "."),
        ("mcp", "_"),
        ("Claude Code", "_"),
        ("codex-mcp-client", "_"),
        ("Claude", "_"),
    ],
)
def test_names_are_plain_unless_a_client_wants_dots(repo: GitRepo, name: str, dot: str) -> None:
    with McpClient(repo.path, stderr=subprocess.PIPE) as client:
        client.hello(name)
        tools = client.ask("tools/list")["result"]["tools"]
        for spelt in ("delegate.status", "delegate_status"):
            assert client.call(spelt, run_id="latest")["error"]["code"] == "manifest_not_found"
    hints = {tool["name"]: tool["annotations"] for tool in tools}
    assert hints[f"delegate{dot}status"] == {
        "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True,
        "openWorldHint": False,
    }  # fmt: skip
    assert not any("." in one for one in hints) or dot == "."


def test_a_mode_is_only_narrowed(repo: GitRepo) -> None:
    """By whoever says it: the command line, the environment, the repository."""
    for flag, variable, configured, expected in (
        (None, None, None, "question_only"),
        ("full", None, None, "full"),
        (None, None, "full", "question_only"),
        ("full", None, "status_only", "status_only"),
        ("full", "question_only", None, "question_only"),
        ("status_only", "full", "full", "status_only"),
        (None, "full", None, "full"),
    ):
        repo.write("rlm-ci.toml", f'[delegate]\nmode = "{configured}"\n' if configured else "")
        flags = {"repo": str(repo.path), **({"delegate.mode": flag} if flag else {})}
        environ = {"RLM_CI_DELEGATE_MODE": variable} if variable else {}
        assert mode_of(Settings((*CORE, *PIPELINES, *ROWS), flags, environ)) == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", DELEGATE_MODES)
def test_a_client_is_told_of_no_tool_that_its_mode_lacks(repo: GitRepo, mode: str) -> None:
    with McpClient(repo.path, "--mode", mode, stderr=subprocess.PIPE) as client:
        told = client.hello()["instructions"]
        tools = client.tools()
    assert any("spawn" in name for name in tools) == ("No tool here starts" not in told)
    assert any("enqueue" in name for name in tools) == ("ask the person" in told or mode == FULL)
