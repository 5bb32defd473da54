"""The files in which coding agents look for hooks, and which of these hooks are ours."""

from __future__ import annotations

import json
import re

from rlm_ci.agent_hooks import json_edit
from rlm_ci.agent_hooks.dialects import EVENTS
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

SESSION_START, PROMPT, STOP, AFTER_EDIT, SUBAGENT_START, SUBAGENT_STOP = EVENTS
#: Seconds after which the program ends a hook. Ours ends before: ``agent_hooks.timeout``.
_SECONDS, _SECONDS_OF_STOP = 60, 600
#: A program that is missing ends with 127, an older one of ours with 2: each holds some agents.
_OR_WARN = " || exit 1"
#: Copilot shows the errors of a hook that ends with 2, and no others; VS Code is held by that.
_OR_SHOW = ' || { [ "$COPILOT_CLI" ] && exit 2; exit 1; }'
_OUR_COMMAND = re.compile(r"(?:^|[\s/\\\"'])rlm-ci(?:\.exe)?[\"']? agent-hook\b")
#: Where a hook has its command.
_COMMANDS = ("command", "bash", "powershell")


class HookFile(Value):
    """The file of a program; ``events`` are its names, each with ours.

    ``is_flat``: the list of an event has hooks, not groups of them. ``edit_tools`` matches the
    tools that edit. ``second`` is what a time-out counts. A new file begins with ``needs``.
    ``takes_mark``, ``takes_comments``: the program reads a file with a byte order mark, comments.
    """

    path: str
    events: Mapping[str, str]
    is_flat: bool = False
    edit_tools: str = ""
    timeout: str = "timeout"
    second: int = 1
    commands: tuple[str, ...] = ("command",)
    needs: Mapping[str, Any] = {}
    takes_mark: bool = False
    takes_comments: bool = False


_EVENTS = {
    "SessionStart": SESSION_START,
    "UserPromptSubmit": PROMPT,
    "Stop": STOP,
    "SubagentStart": SUBAGENT_START,
    "SubagentStop": SUBAGENT_STOP,
    "PostToolUse": AFTER_EDIT,
}
AGENTS: Mapping[str, HookFile] = {
    "claude": HookFile(
        ".claude/settings.json",
        # A subagent that an error ends has no other event.
        {**_EVENTS, "StopFailure": SUBAGENT_STOP},
        edit_tools="Edit|MultiEdit|Write|NotebookEdit",
        takes_mark=True,
    ),
    "codex": HookFile(".codex/hooks.json", _EVENTS, edit_tools="apply_patch"),
    "gemini": HookFile(
        ".gemini/settings.json",
        {"SessionStart": SESSION_START, "AfterAgent": STOP, "AfterTool": AFTER_EDIT},
        edit_tools="write_file|replace",
        second=1000,
        takes_comments=True,
    ),
    "cursor": HookFile(
        ".cursor/hooks.json",
        {
            "sessionStart": SESSION_START,
            "beforeSubmitPrompt": PROMPT,
            "stop": STOP,
            "subagentStart": SUBAGENT_START,
            "subagentStop": SUBAGENT_STOP,
            "afterFileEdit": AFTER_EDIT,
        },
        is_flat=True,
        needs={"version": 1},
    ),
    "copilot": HookFile(
        ".github/hooks/rlm-ci.json",
        {
            "sessionStart": SESSION_START,
            "userPromptSubmitted": PROMPT,
            "agentStop": STOP,
            "subagentStart": SUBAGENT_START,
            "subagentStop": SUBAGENT_STOP,
            "postToolUse": AFTER_EDIT,
        },
        is_flat=True,
        timeout="timeoutSec",
        commands=("bash", "powershell"),
        needs={"version": 1},
    ),
}


def added(agent: str, text: str, *, after_edit: bool = False) -> str:
    """The text of a hook file with our hooks, each once; "" is a file that is not there yet.

    Hooks of ours with these commands stay as they are. Raises ValueError.
    """
    if not text:
        entries = _entries(agent, after_edit=after_edit)
        return f"{json.dumps({**AGENTS[agent].needs, 'hooks': entries}, indent=2)}\n"
    entries = _entries(agent, after_edit=after_edit or AFTER_EDIT in installed(agent, text))
    if _all_commands(json.dumps({"hooks": entries})) == _all_commands(text):
        return text
    text = without(text)
    for event, (entry,) in entries.items():
        text = json_edit.add(text, ("hooks", event), entry)
    return text


def without(text: str) -> str:
    """The text of a hook file without our hooks. Raises ValueError."""
    while keys := next((keys for _, _, keys in _our_hooks(text)), ()):
        text = json_edit.remove(text, keys)
    return text


def unread(agent: str, text: str) -> str:
    """What keeps the program from reading a file that we read; "" for nothing."""
    file = AGENTS[agent]
    if text.startswith("\ufeff") and not file.takes_mark:
        return "a byte order mark"
    try:
        json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        return "" if file.takes_comments else "comments or trailing commas"
    return ""


def is_empty(agent: str, text: str) -> bool:
    """Whether a hook file has nothing but what a new one begins with. Raises ValueError."""
    return json_edit.parse(text).value in ({}, AGENTS[agent].needs)


def installed(agent: str, text: str) -> list[str]:
    """Our events that have a hook of ours. Raises ValueError."""
    events = AGENTS[agent].events
    return list(dict.fromkeys(events[event] for event, _, _ in _our_hooks(text) if event in events))


def plugin() -> str:
    """The hooks of Claude Code's plugin: as in its settings."""
    return f"{json.dumps({'hooks': _entries('claude')}, indent=2)}\n"


def command(agent: str, event: str) -> str:
    """What a hook runs, for a shell."""
    otherwise = _OR_SHOW if agent == "copilot" else _OR_WARN
    return f"rlm-ci agent-hook {event} --agent {agent}{otherwise}"


def _entries(agent: str, *, after_edit: bool = False) -> dict[str, list[dict[str, Any]]]:
    """What our hooks are in the file, by the program's event."""
    file = AGENTS[agent]
    entries = {}
    for name, event in file.events.items():
        if event == AFTER_EDIT and not after_edit:
            continue
        hook: dict[str, Any] = {"type": "command"}
        line = command(agent, event)
        for key in file.commands:  # PowerShell 5 has no ||
            hook[key] = line.partition(" ||")[0] if key == "powershell" else line
        hook[file.timeout] = (_SECONDS_OF_STOP if event == STOP else _SECONDS) * file.second
        matcher = {"matcher": file.edit_tools} if event == AFTER_EDIT and file.edit_tools else {}
        entries[name] = [{**matcher, **(hook if file.is_flat else {"hooks": [hook]})}]
    return entries


def _all_commands(text: str) -> list[tuple[str, str]]:
    return sorted(
        (event, command) for event, hook, _ in _our_hooks(text) for command in _commands(hook)
    )


def _our_hooks(text: str) -> Iterator[tuple[str, dict[str, Any], tuple[int | str, ...]]]:
    """Our hooks in a file, each with its event and the keys that lead to it."""
    settings = json_edit.parse(text).value
    events = settings.get("hooks") if isinstance(settings, dict) else None
    for event, entries in events.items() if isinstance(events, dict) else ():
        for at, entry in enumerate(entries) if isinstance(entries, list) else ():
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            if _is_ours(entry):
                yield event, entry, ("hooks", event, at)
            for number, hook in enumerate(inner) if isinstance(inner, list) else ():
                if _is_ours(hook):
                    yield event, hook, ("hooks", event, at, "hooks", number)


def _commands(hook: Mapping[str, Any]) -> list[str]:
    return [hook[key] for key in _COMMANDS if isinstance(hook.get(key), str)]


def _is_ours(hook: object) -> bool:
    return isinstance(hook, dict) and any(_OUR_COMMAND.search(text) for text in _commands(hook))
