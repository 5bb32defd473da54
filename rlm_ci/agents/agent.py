"""The contract of an agent: it gets an assignment, changes files, and reports the outcome.

``openai`` is ``builtin``; ``codex``, ``claude``, ``gemini``, ``aider`` and any command are
``external``; ``autofix`` is ``autofix``.
"""

from __future__ import annotations

from time import monotonic

from rlm_ci.errors import ConfigError
from rlm_ci.system.command_line import Command
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from rlm_ci.system.process import StreamResult
    from rlm_ci.workspace.sandboxed_commands import Launch
else:
    Protocol = object

#: Characters of an output.
OUTPUT_LIMIT = 40_000

#: The built-in one; external programs; the fixes of linters.
AGENTS = ("openai", "codex", "claude", "gemini", "aider", "autofix")


class AgentWorkspace(Protocol):
    """The private copy that an agent works in."""

    @property
    def root(self) -> str:
        """Its folder, as this process sees it."""

    def run(self, launch: Launch) -> StreamResult:
        """Run a command in the sandbox. Raises UnavailableError when it cannot be started."""

    def tree(self) -> str:
        """The id of the files as they are now."""

    def restore(self, tree: str) -> None:
        """Make the files those of ``tree`` again."""

    def status(self, before: str, after: str) -> str:
        """What changed between two trees: a line for each file."""


class Assignment(Value):
    """A task for an agent.

    ``deadline`` is a time of ``time.monotonic``, None for none. With ``read_only`` the agent
    changes nothing; with ``may_run``, it may yet run commands, and what these change is taken back.
    ``files`` are those outside of the tree that it may read: their names in the prompt, and paths.
    It keeps in ``conversation`` what the next assignment needs.
    """

    role: str
    iteration: int
    prompt: str
    workspace: AgentWorkspace
    conversation: list[Any]
    deadline: float | None = None
    read_only: bool = False
    may_run: bool = False
    files: Mapping[str, str] = {}
    on_progress: Callable[[str], None] = lambda _line: None

    def seconds_left(self, limit: float) -> float:
        """The seconds until the deadline, at most ``limit``; 0 or less when there is no time."""
        return limit if self.deadline is None else min(limit, self.deadline - monotonic())


class AgentOutcome(Value):
    """The outcome of an assignment; ``reason`` says why ``exit_code`` is not 0.

    ``summary`` is for people, ``output`` is all that the agent printed: both bounded, neither
    trusted. ``blocked``: no edit can reach the goal, for the reason in the summary. ``usage`` has
    what a program says that it used: ``prompt_tokens``, ``completion_tokens``, ``cost_usd``.
    """

    exit_code: int
    summary: str
    output: str
    reason: str = ""
    blocked: bool = False
    usage: Mapping[str, float] = {}


class Agent(Protocol):
    """What changes the code. ``metered``: whether its calls go through our ledger."""

    @property
    def name(self) -> str: ...
    @property
    def metered(self) -> bool: ...
    def act(self, task: Assignment, /) -> AgentOutcome:
        """Carry it out. Raises LimitError when a budget ends, UnavailableError, StorageError."""


def command_of(text: str, where: str = "--agent") -> Command | None:
    """The command of an agent; None if ``text`` is the name of a known agent.

    A command has a space or a path in it. Raises ConfigError, UsageError for ``where``.
    """
    if text in AGENTS:
        return None
    if " " in text.strip() or "/" in text:
        return Command.parse(text, where=where)
    raise ConfigError(
        f"there is no agent '{printable(text[:200])}'",
        where=where,
        hint=f"known: {', '.join(AGENTS)}; or a command, with a path or an argument",
    )


def require_metered(agent: Agent, budgets: Mapping[str, object]) -> None:
    """Raise ConfigError for ``budgets`` of calls, tokens or money that we do not see."""
    names = [name for name, value in budgets.items() if value is not None]
    if names and not agent.metered:
        raise ConfigError(
            f"{', '.join(names)} cannot be enforced: the calls of {agent.name} do not pass through "
            "rlm-ci",
            where=f"agent {agent.name}",
            hint="limit its time instead (--max-minutes, --max-iterations), or use --agent openai",
        )
