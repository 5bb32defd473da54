"""Agents of others: a program that gets a prompt and changes the files where it is started.

It runs in the sandbox, with network, and with the variables that the user named for it and no
others. Its calls are not ours to count. What it prints is data.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from time import monotonic

from rlm_ci.errors import UnavailableError
from rlm_ci.loop.agent import OUTPUT_LIMIT, SUMMARY_LIMIT, Launch, Said
from rlm_ci.loop.transcript import transcribe
from rlm_ci.texts import clip, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.loop.agent import Assignment
    from rlm_ci.loop.command import Command

#: What stands in a command for the path of a file that holds the prompt.
PROMPT_FILE = "{prompt_file}"
#: Seconds, when the loop has no deadline of its own.
DEFAULT_TIMEOUT = 3600.0


class Program(Value):
    """How to call a program without anybody at the keyboard.

    ``look`` is for roles that change nothing. The prompt is on stdin, unless a word holds
    PROMPT_FILE.
    """

    edit: tuple[str, ...]
    look: tuple[str, ...]
    install: str = ""
    #: What the names of its own files in the tree begin with, if it leaves any there.
    leaves: str = ""


_AIDER = (
    "aider", "--message-file", PROMPT_FILE, "--yes-always", "--no-auto-commits",
    "--no-dirty-commits", "--no-gitignore", "--no-pretty", "--no-stream", "--no-check-update",
    "--no-analytics", "--no-show-release-notes", "--no-suggest-shell-commands", "--no-detect-urls",
    "--input-history-file", os.devnull, "--chat-history-file", os.devnull,
)  # fmt: skip

#: As their documentation has it: docs/agents.md names versions. No mode that takes away their
#: own approval of commands is among them.
PROGRAMS: Mapping[str, Program] = {
    "codex": Program(
        ("codex", "exec", "--sandbox", "workspace-write", "--ephemeral", "--skip-git-repo-check",
         "--color", "never", "-"),
        ("codex", "exec", "--sandbox", "read-only", "--ephemeral", "--skip-git-repo-check",
         "--color", "never", "-"),
        "npm install -g @openai/codex",
    ),
    "claude": Program(
        ("claude", "--bare", "--print", "--permission-mode", "acceptEdits"),
        ("claude", "--bare", "--print", "--permission-mode", "plan"),
        "npm install -g @anthropic-ai/claude-code",
    ),
    "gemini": Program(
        ("gemini", "--approval-mode", "auto_edit", "--output-format", "text"),
        ("gemini", "--approval-mode", "plan", "--output-format", "text"),
        "npm install -g @google/gemini-cli",
    ),
    "aider": Program(_AIDER, (*_AIDER, "--chat-mode", "ask"), "pipx install aider-chat", ".aider"),
}  # fmt: skip


class External:
    """One of PROGRAMS, or any command, as an agent.

    ``env`` is what the user lets it have; ``find`` tells where the sandbox finds a program, or
    None; ``redact`` takes secrets out of what it prints.
    """

    metered = False

    def __init__(
        self,
        name: str,
        *,
        env: Mapping[str, str],
        find: Callable[[str], str | None],
        redact: Callable[[str], str],
        command: Command | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``name`` is one of PROGRAMS, or what to call ``command``."""
        if command is None:
            self._program = PROGRAMS[name]
            self._wanted = self._program.edit[:1]
        else:
            self._program = Program(command.argv, command.argv)
            self._wanted = command.programs
        self.name = name
        self._env = env
        self._find = find
        self._redact = redact
        self._clock = clock

    def act(self, task: Assignment) -> Said:
        """Start it, wait, and tell how it ended. Raises UnavailableError when it is not there."""
        words = self._program.look if task.read_only else self._program.edit
        self._require_installed()
        timeout = DEFAULT_TIMEOUT
        if task.deadline is not None:
            timeout = min(timeout, task.deadline - self._clock())
            if timeout <= 0:
                return Said(1, "", "", f"no time was left to start {self.name}")
        prompt = task.prompt.encode("utf-8", "surrogateescape")
        task.on_progress(f"{self.name} at work")
        if any(PROMPT_FILE in word for word in words):
            with tempfile.TemporaryDirectory(prefix="rlm-ci-") as folder:
                path = os.path.join(folder, "prompt.md")
                with open(path, "wb") as stream:
                    stream.write(prompt)
                argv = tuple(word.replace(PROMPT_FILE, path) for word in words)
                return self._run(task, Launch(argv, timeout, files=(path,)))
        return self._run(task, Launch(words, timeout, stdin=prompt))

    def _run(self, task: Assignment, launch: Launch) -> Said:
        there = set(os.listdir(task.workspace.root))
        ended = task.workspace.run(
            launch.replace(env=dict(self._env), network=True, read_only=task.read_only)
        )
        self._sweep(task.workspace.root, there)
        said = "\n".join(transcribe(ended.output, self._redact).lines)
        reason = ""
        if ended.reason:
            reason = f"{self.name} was stopped: {ended.reason} after {ended.seconds:.0f} s"
        elif ended.returncode:
            last = said.strip().rpartition("\n")[2].strip()[:300] or "it said nothing"
            reason = f"{self.name} ended with {ended.returncode}: {last}"
        code = ended.returncode or (1 if reason else 0)
        return Said(code, summary(said), clip(said, OUTPUT_LIMIT), reason)

    def _sweep(self, root: str, there: set[str]) -> None:
        """Remove the program's own new files, which are no part of a fix."""
        for name in set(os.listdir(root)) - there:
            if self._program.leaves and name.startswith(self._program.leaves):
                place = os.path.join(root, name)
                if os.path.isdir(place) and not os.path.islink(place):
                    shutil.rmtree(place, ignore_errors=True)
                else:
                    os.unlink(place)

    def _require_installed(self) -> None:
        for program in self._wanted:
            if self._find(program) is None:
                install = self._program.install or "install it, or put its folder on PATH"
                raise UnavailableError(
                    f"{printable(program)} could not be found",
                    where=f"agent {self.name}",
                    hint=install,
                )


def summary(output: str) -> str:
    """What an agent says of its work: from its last line ``Summary:`` on, or its last words."""
    lines = output.rstrip().split("\n")
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip("*# ").startswith("Summary:"):
            told = "\n".join(lines[at:]).lstrip("*# ").removeprefix("Summary:").lstrip("* ")
            if told.strip():
                return clip(told.strip(), SUMMARY_LIMIT)
    return output.strip()[-SUMMARY_LIMIT:]
