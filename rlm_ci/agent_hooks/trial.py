"""Whether the hooks of coding agents that a repository has can run on this machine."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from rlm_ci.agent_hooks import hook_files
from rlm_ci.agent_hooks import session as sessions
from rlm_ci.agent_hooks.dialects import Event
from rlm_ci.agent_hooks.hook_files import AGENTS
from rlm_ci.errors import RlmCiError
from rlm_ci.system import files, process, process_stream
from rlm_ci.text.printable import count, first_of
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository

_LIMIT = 1 << 20
_SECONDS = 60
#: A session of nobody's.
_SESSION = "rlm-ci-doctor"
_PLUGIN = "rlm-ci@"


class HookState(Value):
    """What holds for an agent's hooks, or for what they run; ``hint`` mends what does not work.

    ``works`` is None for what is good to know.
    """

    name: str
    detail: str
    works: bool | None = True
    hint: str = ""


def states(repository: Repository, environ: Mapping[str, str]) -> Iterator[HookState]:
    """The hooks that are installed, and whether they run; nothing without any."""
    agents = []
    for agent in AGENTS:
        for state in _of_file(agent, repository.root):
            agents.append(agent)
            yield state
    if _has_plugin(environ):
        agents.append("claude")
        yield HookState("claude plugin", "installed: it brings the same hooks")
    if "codex" in agents:
        yield from _of_codex(repository.root, environ)
    if agents:
        yield from _of_program(agents[0], repository, environ)


def _of_file(agent: str, root: str) -> Iterator[HookState]:
    path = AGENTS[agent].path
    again = f"rlm-ci init --agents {agent}"
    data = b""
    with suppress(files.UnreadableError):
        data = files.read_inside(root, path, _LIMIT)
    if b"rlm-ci agent-hook" not in data:
        return
    try:
        text = data.decode()
        events = hook_files.installed(agent, text)
        is_whole = text == hook_files.added(agent, text)
    except ValueError as error:
        hint = f"mend it, then: {again}"
        yield HookState(agent, f"{path} is not JSON: {error}", works=False, hint=hint)
        return
    if reason := hook_files.unread(agent, text):
        detail = f"{path} has {reason}: {agent} does not read it"
        yield HookState(agent, detail, works=False, hint="remove that by hand")
        return
    older = "" if is_whole else f"; not as this version writes them: {again}"
    yield HookState(agent, f"{path}: {', '.join(events)}{older}", works=is_whole or None)


def _has_plugin(environ: Mapping[str, str]) -> bool:
    """Whether the plugin is installed in Claude Code."""
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    path = os.path.join(folder, "plugins", "installed_plugins.json")
    with suppress(files.UnreadableError, ValueError, RecursionError):
        record = json.loads(files.read(path, _LIMIT))
        plugins = record.get("plugins") if isinstance(record, dict) else None
        return any(name.startswith(_PLUGIN) for name in plugins or ())
    return False


# ── the command of the hooks ──


def _of_program(
    agent: str, repository: Repository, environ: Mapping[str, str]
) -> Iterator[HookState]:
    this_program = os.path.join(os.path.dirname(sys.executable), "rlm-ci")
    try:
        program = process_stream.find("rlm-ci", environ.get("PATH", ""), repository.root)
    except RlmCiError:
        hint = f"put {os.path.dirname(this_program)} on PATH, for the agents too"
        yield HookState("rlm-ci", "not on PATH: no hook can run", works=False, hint=hint)
        return
    if os.path.exists(this_program) and os.path.samefile(this_program, program):
        yield HookState("rlm-ci", f"{program}, this one")
    else:
        ended = process.run([program, "--version"], env=environ, timeout=_SECONDS)
        version = ended.stdout.decode("utf-8", "replace").strip() or "without a version"
        yield HookState("rlm-ci", f"{program}, another one: {version}", works=None)
    why = _try_out(program, agent, repository, environ)
    if why:
        hint = "the agents' hooks judge nothing until this is mended"
        yield HookState("start", why, works=False, hint=hint)
    else:
        yield HookState("start", "a session that begins here is recorded")


def _try_out(program: str, agent: str, repository: Repository, environ: Mapping[str, str]) -> str:
    """Begin a session of nobody's, and forget it; why that failed, "" if it did not."""
    event = Event("session-start", agent, session_id=_SESSION)
    folder = sessions.folder_of(repository, event)
    argv = [program, "agent-hook", event.name, "--agent", agent]
    data = json.dumps({"session_id": _SESSION, "cwd": repository.root}).encode()
    try:
        files.clear(folder)
        ended = process.run(argv, env=environ, stdin=data, timeout=_SECONDS, cwd=repository.root)
        is_recorded = sessions.load(folder) is not None
    except (OSError, RlmCiError) as error:
        return str(error)
    finally:
        with suppress(OSError):
            files.clear(folder)
    output = ended.stdout.decode("utf-8", "replace").strip()
    with suppress(ValueError, AttributeError):
        output = json.loads(output).get("systemMessage") or output
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    if output or ended.returncode or not is_recorded:
        message = output or (lines[0] if lines else "it recorded nothing")
        return f"exit code {ended.returncode}: {message}" if ended.returncode else message
    return ""


# ── what Codex trusts ──


def _of_codex(root: str, environ: Mapping[str, str]) -> Iterator[HookState]:
    try:
        program = process_stream.find("codex", environ.get("PATH", ""), root)
    except RlmCiError:
        return
    hint = "start codex here, trust the folder, and type /hooks"
    hooks = listed(program, root, environ)
    if hooks is None:
        yield HookState("codex trust", f"not known: see it by /hooks in {program}", works=None)
    elif not hooks:
        yield HookState("codex trust", f"it reads no hooks in this folder: {hint}", works=False)
    elif doubtful := [hook["eventName"] for hook in hooks if not _is_trusted(hook)]:
        skipped = f"it skips {count(len(doubtful), 'hook')}, {first_of(doubtful, 'event')}"
        yield HookState("codex trust", f"{skipped}: {hint}", works=False)
    else:
        yield HookState("codex trust", f"it runs {count(len(hooks), 'hook')}")


def _is_trusted(hook: Mapping[str, Any]) -> bool:
    return hook.get("trustStatus") in ("trusted", "managed") and hook.get("enabled") is True


def listed(program: str, root: str, environ: Mapping[str, str]) -> list[Mapping[str, Any]] | None:
    """Our hooks as Codex lists them, asked with a copy of its configuration; None for no answer."""
    home = environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    client = {"clientInfo": {"name": "rlm-ci", "version": ""}}
    requests = (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [os.path.realpath(root)]}},
    )
    output = bytearray()
    source, sink = os.pipe()
    ends = [sink]

    def take(chunk: bytes) -> None:
        output.extend(chunk)
        if ends and b'"id":2,' in output and output.endswith(b"\n"):
            os.close(ends.pop())  # it ends with its input

    try:
        os.write(sink, b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        with files.scratch("rlm-ci-codex-") as folder:
            config = files.read_or_none(os.path.join(home, "config.toml"), _LIMIT) or b""
            files.write(os.path.join(folder, "config.toml"), config, 0o600)
            process_stream.stream(
                ["/bin/sh", "-c", 'exec "$0" app-server <&3', program],
                env={**environ, "CODEX_HOME": folder},
                timeout=_SECONDS / 3,
                errors=process_stream.Clip(),
                on_output=take,
                descriptors=[source],
            )
        answers = (json.loads(line) for line in output.splitlines() if line.strip())
        listed = next(answer["result"]["data"] for answer in answers if answer.get("id") == 2)
        hooks = [hook for folder in listed for hook in folder["hooks"]]
        return [hook for hook in hooks if "rlm-ci agent-hook" in (hook.get("command") or "")]
    except (OSError, RlmCiError, ValueError, LookupError, TypeError, StopIteration):
        return None
    finally:
        for end in (source, *ends):
            os.close(end)
