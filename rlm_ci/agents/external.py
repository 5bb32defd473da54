"""External agents: programs that get a prompt and change the files where they start.

They have the network and the variables that the user named. They do not see files of the tree
that would configure them, and could send the key elsewhere. Their output is data.

``rlm-ci doctor`` starts each program once with ``--version`` in the sandbox, as a fix loop would
find it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from fnmatch import fnmatchcase

from rlm_ci.agents import program_events
from rlm_ci.agents.agent import OUTPUT_LIMIT, AgentOutcome, command_of
from rlm_ci.agents.program_events import EventReader
from rlm_ci.environments.quoting import SUMMARY_LIMIT
from rlm_ci.errors import ConfigError, RlmCiError, StorageError, UnavailableError
from rlm_ci.sandbox import JobLimits, Mount, SandboxJob, toolchain_mounts, toolchain_variables
from rlm_ci.sandbox.toolchains import withheld
from rlm_ci.system import files
from rlm_ci.system.process import Clipped
from rlm_ci.system.safe_tree import FILE_LIMIT
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import clip, printable
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.agents.agent import Assignment
    from rlm_ci.agents.program_events import Dialect
    from rlm_ci.sandbox.job import Sandbox


#: In a command, replaced by the path of a file with the prompt.
PROMPT_FILE = "{prompt_file}"
VALUE = "{value}"


class AgentProgram(Value):
    """How to call a program that asks nothing.

    ``look`` is for roles that change nothing. The prompt is on stdin, unless a word holds
    PROMPT_FILE. ``options`` are words for variables that it does not read itself, before all
    others, with VALUE in the place of the value; ``env`` is what it always needs. ``events`` reads
    its standard output, which is the answer itself where that is None. ``keys`` are patterns of
    variables of which one, at least, says who pays. All take ``--model`` of ours.
    """

    edit: tuple[str, ...]
    look: tuple[str, ...]
    install: str = ""
    keys: tuple[str, ...] = ()
    #: The beginning of the names of files that it leaves in the tree.
    leaves: str = ""
    #: Its configuration in the tree, which could name commands and addresses for the key.
    hidden: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = {}
    env: Mapping[str, str] = {}
    #: Words to replace in our sandbox, which holds what it runs, and in which it makes none.
    confined: Mapping[str, tuple[str, ...]] = {}
    events: Dialect | None = None
    #: Reads the lines of its answer, for a failure that it ends with 0 after, and for its usage.
    lines: Callable[[Sequence[str]], Mapping[str, Any]] | None = None


_AIDER = (
    "aider", "--message-file", PROMPT_FILE, "--yes-always", "--no-auto-commits",
    "--no-dirty-commits", "--no-gitignore", "--no-pretty", "--no-stream", "--no-check-update",
    "--no-analytics", "--no-show-release-notes", "--no-suggest-shell-commands", "--no-detect-urls",
    "--input-history-file", os.devnull, "--chat-history-file", os.devnull,
)  # fmt: skip

#: The commands that it runs do not get its keys.
_CODEX = (
    "codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never",
    "-c", 'shell_environment_policy.exclude=["*KEY*", "*TOKEN*", "*SECRET*"]',
)  # fmt: skip
_CLAUDE = ("claude", "--bare", "--print", "--output-format", "stream-json", "--verbose")
_GEMINI = ("gemini", "--skip-trust", "--output-format", "stream-json")
#: Without a name and an address, which our HOME does not have, aider writes some into .git.
_AUTHOR = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "aider",
    "GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "aider@localhost",
}  # fmt: skip

#: docs/agents.md names versions. Outside of our sandbox each keeps its own approval of commands.
PROGRAMS: Mapping[str, AgentProgram] = {
    "codex": AgentProgram(
        (*_CODEX, "--sandbox", "workspace-write", "-"),
        (*_CODEX, "--sandbox", "read-only", "-"),
        "npm install -g @openai/codex",
        # An endpoint of one's own may need none.
        keys=("CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        hidden=(".codex",),
        confined=dict.fromkeys(("workspace-write", "read-only"), ("danger-full-access",)),
        options={"OPENAI_BASE_URL": ("-c", f"openai_base_url={VALUE}")},
        events=program_events.codex,
    ),
    "claude": AgentProgram(
        (*_CLAUDE, "--permission-mode", "acceptEdits"),
        (*_CLAUDE, "--permission-mode", "plan"),
        "npm install -g @anthropic-ai/claude-code",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_*"),
        hidden=(".claude", ".mcp.json"),
        confined={"acceptEdits": ("acceptEdits", "--allowedTools", "Bash")},
        events=program_events.claude,
    ),
    "gemini": AgentProgram(
        # It refuses folders that it does not trust; its configuration there is hidden.
        (*_GEMINI, "--approval-mode", "auto_edit"),
        (*_GEMINI, "--approval-mode", "plan"),
        "npm install -g @google/gemini-cli",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
              "GOOGLE_GENAI_USE_VERTEXAI"),
        hidden=(".gemini", ".env"),
        confined={"auto_edit": ("yolo",)},
        events=program_events.gemini,
    ),
    "aider": AgentProgram(
        _AIDER,
        (*_AIDER, "--chat-mode", "ask"),
        "pipx install aider-chat",
        keys=("*_API_KEY", "*_API_BASE", "AWS_*", "VERTEXAI_*", "GITHUB_TOKEN"),
        leaves=".aider",
        hidden=(".env", ".aider.conf.yml", ".aider.model.settings.yml",
                ".aider.model.metadata.json"),
        env=_AUTHOR,
        lines=program_events.aider,
    ),
}  # fmt: skip


def granted(
    agent: str, environ: Mapping[str, str], names: Sequence[str], where: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables of ``names`` that an agent gets, and the names of those that are not set.

    Raises ConfigError where an agent that we know lacks its key, and for one that is not set and
    that an agent which we do not know may need.
    """
    env = {name: environ[name] for name in names if name in environ}
    unset = tuple(name for name in names if name not in environ)
    keys = PROGRAMS[agent].keys if agent in PROGRAMS else ()
    if keys and not any(fnmatchcase(name, key) for name in env for key in keys):
        unpassed = [key for key in keys if any(fnmatchcase(name, key) for name in unset)]
        raise ConfigError(
            f"{agent} has no key: {(unpassed or keys)[0]} is not {'set' if unpassed else 'named'}",
            where=where,
            hint="set it"
            if unpassed
            else f'set it, and name it in loop.agent_env = ["{keys[0]}"]; '
            "the login of a subscription does not enter the sandbox",
        )
    if unset and not keys:
        raise ConfigError(
            f"{unset[0]} is in loop.agent_env, but is not set",
            where=where,
            hint="set it, or remove it from loop.agent_env",
        )
    return env, unset


#: Characters of an error that are told.
_ERROR = 300
_ERROR_WORD = re.compile(r"(?i)error\b(?! occurred:\[object)")
#: Seconds to look for a file in the sandbox.
_LOOK = 20


class ExternalAgent:
    """One of PROGRAMS, or any command, as an agent.

    ``env`` is what the user lets it have; ``find`` says where the sandbox finds a program, or None;
    ``confined``: our sandbox holds it, it needs none of its own.
    """

    metered = False

    def __init__(
        self,
        name: str,
        *,
        env: Mapping[str, str],
        find: Callable[[str], str | None],
        redact: Callable[[str], str],
        confined: bool = False,
        model: str = "",
        seconds: float = 3600.0,
    ) -> None:
        """``name`` is one of PROGRAMS, or a command. A turn takes ``seconds`` at most."""
        command = command_of(name)
        if command is None:
            self._program = PROGRAMS[name]
            self._wanted = self._program.edit[:1]
        else:
            self._program = AgentProgram(command.argv, command.argv)
            self._wanted = command.programs
        self.name = name
        self._env = env
        self._find = find
        self._redact = redact
        self._confined = confined
        self._model = model
        self._seconds = seconds

    def act(self, task: Assignment) -> AgentOutcome:
        """Run it. Raises UnavailableError if it is not installed."""
        closed = task.read_only and not task.may_run
        words = self._words(read_only=closed)
        self.require_installed()
        timeout = task.seconds_left(self._seconds)
        if timeout <= 0:
            return AgentOutcome(1, "", "", f"no time was left to start {self.name}")
        prompt = task.prompt.encode("utf-8", "surrogateescape")
        launch = Launch(
            words,
            timeout,
            stdin=prompt,
            env={**self._program.env, **self._env},
            network=True,
            read_only=closed,
            hidden=self._program.hidden,
        )
        task.on_progress(f"{self.name} at work")
        by_file = any(PROMPT_FILE in word for word in words)
        if not (by_file or task.files):
            return self._run(task, launch)
        with files.scratch("rlm-ci-") as folder:
            paths = []
            for number, (name, source) in enumerate(task.files.items(), 1):
                paths.append(os.path.join(folder, f"{number}-{os.path.basename(name)}"))
                files.write(paths[-1], _handed(source))
                prompt = prompt.replace(name.encode(), paths[-1].encode())
            if by_file:
                paths.append(os.path.join(folder, "prompt.md"))
                files.write(paths[-1], prompt)
                words = tuple(word.replace(PROMPT_FILE, paths[-1]) for word in words)
                prompt = b""
            return self._run(task, launch.replace(argv=words, stdin=prompt, files=tuple(paths)))

    def _words(self, *, read_only: bool) -> tuple[str, ...]:
        first, *others = self._program.look if read_only else self._program.edit
        options = (
            word.replace(VALUE, self._env[name])
            for name, words in self._program.options.items()
            if self._env.get(name)
            for word in words
        )
        instead = self._program.confined if self._confined else {}
        model = ("--model", self._model) if self._model else ()
        words = (new for word in others for new in instead.get(word, (word,)))
        return (first, *options, *model, *words)

    def _run(self, task: Assignment, launch: Launch) -> AgentOutcome:
        names_before = set(os.listdir(task.workspace.root))
        events = EventReader(self._program.events, task.on_progress)
        ended = task.workspace.run(launch.replace(on_output=events.take))
        events.close()
        # Its own new files are no part of a fix.
        for name in set(os.listdir(task.workspace.root)) - names_before:
            if self._program.leaves and name.startswith(self._program.leaves):
                with suppress(OSError):
                    files.clear(os.path.join(task.workspace.root, name))
        lines = transcribe(ended.output, self._redact).lines
        errors = transcribe(ended.errors, self._redact).lines
        message = events.message
        if not events.is_used:  # what it repeats of the prompt is no answer
            message = "\n".join(lines).replace(task.prompt.strip(), "")
        lines = transcribe(Clipped(message.encode()), self._redact).lines
        error = self._redact(printable(" ".join(events.error.split())))
        read = self._program.lines(lines) if self._program.lines else {}
        error = error or read.get("error", "")
        reason = ""
        if ended.reason:
            why = f"; its last error: {error[:_ERROR]}" if error else ""
            reason = f"{self.name} was stopped: {ended.reason} after {ended.seconds:.0f} s{why}"
        elif ended.returncode or read.get("error"):
            last = error or last_error(errors) or last_error(lines) or "it said nothing"
            hidden = self._hidden_file(task)
            reason = f"{self.name} ended with {ended.returncode}: {last[:_ERROR]}{hidden}"
        code = ended.returncode or (1 if reason else 0)
        output = "\n".join(lines)
        if reason and errors:
            output = "\n".join([*lines, "", "Its standard error:", *errors])
        usage = events.usage or read.get("usage", {})
        answer = summary("\n".join(lines))
        return AgentOutcome(code, answer, clip(output, OUTPUT_LIMIT), reason, usage=usage)

    def _hidden_file(self, task: Assignment) -> str:
        """Which file of the command the sandbox does not show, in words; "" if it shows all."""
        paths = [word for word in self._program.edit[1:] if self._confined and os.path.isabs(word)]
        for path in filter(os.path.exists, paths):
            if task.workspace.run(Launch(("test", "-e", path), _LOOK)).returncode == 1:
                return f" (the sandbox does not show {printable(path)}: keep it in the repository)"
        return ""

    def require_installed(self) -> None:
        """Raise UnavailableError if the sandbox does not find its program."""
        for program in self._wanted:
            if self._find(program) is None:
                install = self._program.install or "install it, or put its folder on PATH"
                raise UnavailableError(
                    f"{printable(program)} could not be found",
                    where=f"agent {self.name}",
                    hint=install,
                )


def last_error(lines: Sequence[str]) -> str:
    """The last of ``lines`` that names an error, else the last one."""
    rows = [line.strip() for line in lines if line.strip()]
    errors = [line for line in rows if _ERROR_WORD.search(line)]
    return (errors or rows or [""])[-1]


def _handed(path: str) -> bytes:
    """The content of a file for the agent. Raises StorageError."""
    try:
        return files.read(path, FILE_LIMIT)
    except files.UnreadableError as error:
        hint = "resume the run, which makes it again"
        raise StorageError(f"a file for the agent: {error}", where=path, hint=hint) from None


def summary(output: str) -> str:
    """The text after the last line ``Summary:`` of an output, or the end of the output."""
    lines = output.rstrip().split("\n")
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip("*# ").startswith("Summary:"):
            text = "\n".join(lines[at:]).lstrip("*# ").removeprefix("Summary:").lstrip("* ")
            if text.strip():
                return clip(text.strip(), SUMMARY_LIMIT)
    return output.strip()[-SUMMARY_LIMIT:]


#: Seconds for an answer.
_SECONDS = 30.0


def try_out(
    name: str, path: str, sandbox: Sandbox, environ: Mapping[str, str], root: str | None
) -> tuple[str, str]:
    """What the program at ``path`` says its version is, and why it does not start.

    One of the two is "". ``root`` is the repository, if there is one.
    """
    if folder := withheld(path, environ):
        return "", f"{path} is not shown in the sandbox: {folder} may hold keys"
    job = SandboxJob(
        (name, "--version"),
        env=toolchain_variables(environ),
        mounts=(
            *toolchain_mounts(environ, root or os.devnull),
            *((Mount(root, root),) if root else ()),
        ),
        limits=JobLimits(wall=_SECONDS),
    )
    try:
        ended = sandbox.run(job)
    except RlmCiError as error:
        return "", error.what
    lines = transcribe(ended.output, str).lines
    if ended.reason or ended.returncode:
        how = f"{ended.reason} after {_SECONDS:.0f} s" if ended.reason else f"{ended.returncode}"
        return "", f"it ends with {how}: {last_error(lines) or 'it said nothing'}"
    return next((line.strip() for line in lines if any(map(str.isdigit, line))), "it starts"), ""
