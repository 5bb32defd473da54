"""The hooks that ``rlm-ci init --agents`` adds to the settings of coding agents, and takes out."""

from __future__ import annotations

import os
from shutil import which

from rlm_ci.agent_hooks import hook_files
from rlm_ci.agent_hooks.hook_files import AGENTS
from rlm_ci.cli.written_files import LIMIT
from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.cli.written_files import WrittenFiles
    from rlm_ci.git.repository import Repository


class HookEdit(Value):
    """The text of a hook file ``before``, without our hooks, and with them.

    ``doubt``: why the program may not read it. It may be left out.
    """

    path: str
    before: str = ""
    text: str = ""
    doubt: str = ""
    is_left_out: bool = False


def planned(repository: Repository, agents: Iterable[str], *, after_edit: bool) -> list[HookEdit]:
    """What the hooks make of each file. Raises ConfigError for one that cannot take them."""
    edits = []
    for agent in agents:
        path = AGENTS[agent].path
        hint = f"mend it by hand, or leave {agent} out of --agents"
        full = _full(repository, path)
        if not full:
            raise ConfigError("it is a link, or its folder is one", where=path, hint=hint)
        if tracked.left_out(repository, (path,)):
            edits.append(HookEdit(path, is_left_out=True))
            continue
        try:
            text = _read(full)
            before = hook_files.without(text) if text else ""
            text = hook_files.added(agent, text, after_edit=after_edit)
            reason = hook_files.unread(agent, text)
            doubt = f"; {agent} reads no file with {reason}" if reason else ""
            edits.append(HookEdit(path, before, text, doubt))
        except (files.UnreadableError, ValueError) as error:
            what = str(error) if isinstance(error, files.UnreadableError) else _complaint(error)
            raise ConfigError(what, where=path, hint=hint) from None
    return edits


def write(edits: Iterable[HookEdit], written: WrittenFiles) -> Iterator[str]:
    """Write the files; what became of each."""
    for edit in edits:
        if edit.is_left_out:
            yield f"kept       {edit.path} (your sparse checkout leaves it out)"
        else:
            yield written.edit(edit.path, edit.before, edit.text, "hooks") + edit.doubt


def remove(repository: Repository, written: WrittenFiles) -> Iterator[str]:
    """Take our hooks out of each file; a file that has nothing else goes."""
    for agent, file in AGENTS.items():
        path = _full(repository, file.path)
        try:
            text = _read(path) if path else ""
            if text and hook_files.installed(agent, text):
                before = hook_files.without(text)
                is_empty = hook_files.is_empty(agent, before)
                yield written.take_back(path, before, is_empty=is_empty)
        except (files.UnreadableError, ValueError):
            if b"rlm-ci agent-hook" in (files.read_or_none(path, LIMIT) or b""):
                yield f"kept       {file.path} (it is no JSON; take rlm-ci's hooks out by hand)"


def next_steps(agents: Sequence[str]) -> Iterator[str]:
    """What people do so that the hooks run."""
    if not agents:
        return
    if which("rlm-ci") is None:
        yield "rlm-ci is not on PATH: the agents' hooks fail until it is"
    if "codex" in agents:
        yield "Codex skips hooks until you trust them: start codex here, and type /hooks"
    if others := [agent for agent in agents if agent != "codex"]:
        yield f"if asked, trust this folder: {', '.join(others)}"
    yield "see whether the agents' hooks run: rlm-ci doctor"


def _full(repository: Repository, path: str) -> str:
    """A path of the repository as it is on disk; "" if a part of it is a link."""
    full = os.path.join(os.path.realpath(repository.root), *path.split("/"))
    return full if os.path.realpath(full) == full else ""


def _read(path: str) -> str:
    """The text of a hook file; "" without one. Raises UnreadableError, ValueError."""
    try:
        return files.read(path, LIMIT).decode()
    except files.UnreadableError as error:
        if error.missing:
            return ""
        raise


def _complaint(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error) if " is not a" in str(error) else f"it is not JSON: {error}"
