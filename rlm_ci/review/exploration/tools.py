"""The tools of a reviewer: they read and run code, on each side of a change."""

from __future__ import annotations

import time
from contextlib import ExitStack
from difflib import unified_diff
from itertools import takewhile
from threading import Lock

from rlm_ci.environments.coding import code_queries, tools
from rlm_ci.environments.coding.tools import CodeTools, Services
from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted
from rlm_ci.environments.tool_calls import function
from rlm_ci.environments.turn_loop import Observation
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.review.proofs.launch import OUTPUT
from rlm_ci.system import files
from rlm_ci.system.command_line import SHELL, Command
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import clip, count, printable
from rlm_ci.text.steady import steady
from rlm_ci.trials.trees import BASE, HEAD
from rlm_ci.validators.validator import failure
from rlm_ci.values import Closing
from rlm_ci.workspace.trees.tree import Tree, lay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.review.proofs.runner import ProofRunner


_SIDE = {"enum": [HEAD, BASE], "description": "the tree: head by default"}
_READERS = ("read", "search", "list", "outline", "definition", "references")
_COMPARE = function(
    "compare",
    "Run a Python script at head and at base, and show what each prints.",
    {"script": {"type": "string"}},
    1,
)
#: Characters of a command.
_COMMAND = 8_000
#: Lines of each side that a comparison looks at from where they part, and the lines around it.
_COMPARED, _AROUND = 1_000, 3


class ReviewTools(Closing):
    """An environment that changes nothing; one for all conversations of a review.

    ``commit`` is what the history begins at, None for a repository without one. ``runner`` runs
    commands, for ``seconds`` in all; there are none without it, or where it is not available.
    """

    def __init__(
        self,
        trees: ReviewTrees,
        repository: Repository,
        commit: str | None,
        runner: ProofRunner | None = None,
        seconds: float = 0,
    ) -> None:
        self._trees = trees
        self._repository = repository
        self._commit = commit
        self._runner = None if runner is None or runner.available else runner
        self._seconds = seconds
        self._code: dict[str, CodeTools] = {}
        self._lock = Lock()

    @property
    def has_base(self) -> bool:
        return BASE in self._trees.sides

    @property
    def runs(self) -> bool:
        """Whether there are tools that run code."""
        return self._runner is not None

    def close(self) -> None:
        self._trees.close()

    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI describes functions."""
        readers = [tools.schema(name) for name in (*_READERS, *(["run"] * self.runs))]
        if self.has_base:
            for schema in readers:
                parameters = schema["function"]["parameters"]
                parameters["properties"] = {**parameters["properties"], "side": _SIDE}
        history = [tools.schema("history")] if self._commit else []
        return (*readers, *history, *([_COMPARE] * self.runs))

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carry out one call. Raises StorageError."""
        inputs = dict(arguments)
        side = inputs.pop("side", HEAD)
        if self._runner is None or name not in ("run", "compare"):
            return self._read(side, name, inputs)
        if self._seconds <= 0:
            return Observation("Refused: no time is left to run code")
        since = time.monotonic()
        try:
            if name == "compare":
                return Observation(_compared(*self._runner.compare(inputs["script"])))
            return Observation(_ran(self._runner, inputs["command"], side))
        except (UnavailableError, ConfigError) as error:
            return Observation(f"Nothing can be run: {printable(error.what)}")
        finally:
            self._seconds -= time.monotonic() - since

    def _read(self, side: str, name: str, arguments: Mapping[str, Any]) -> Observation:
        with self._lock:  # the index of a tree is for one thread at a time
            if side not in self._code:
                services = Services(history=self._history if self._commit else None)
                root = self._trees.root(side)
                self._code[side] = CodeTools(root, services, read_only=True)
            return self._code[side].act(name, arguments)

    def _history(self, path: str, lines: tuple[int, int]) -> str:
        return code_queries.history(self._repository, str(self._commit), path, lines)


def _ran(runner: ProofRunner, line: str, side: str) -> str:
    if not line.strip() or "\0" in line or len(line) > _COMMAND:
        return f"Refused: a command has 1 to {_COMMAND:,} characters, none of them NUL"
    ended = runner.shell(line, side)
    command = Command(line, (SHELL, "-c", line), (SHELL,), in_shell=True)
    lines = transcribe(ended.output, str).lines  # secrets go where it is recorded
    how = failure(ended, command) or "exit code 0"
    if ended.reason == "stopped":
        how = f"it printed more than {OUTPUT >> 20} MiB"
    head = f"The command ended: {how}"
    return quoted(head, clip(steady("\n".join(lines)), OUTPUT_LIMIT))


def _compared(head: str, base: str) -> str:
    """What one side prints and the other does not, with the lines around it."""
    if head == base:
        return quoted("The same at head and at base", clip(head, OUTPUT_LIMIT // 2))
    sides = [text.split("\n") for text in (base, head)]
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*sides, strict=False)))
    first = max(0, common - _AROUND)
    before, after = (lines[first : first + _COMPARED] for lines in sides)
    rows = [*unified_diff(before, after, n=_AROUND, lineterm="")][3:]  # without the heads
    rows = ["[…]" if row.startswith("@@") else row for row in rows]
    if first:
        rows.insert(0, f"[… {count(first, 'line')}, the same on both sides …]")
    unseen = max(map(len, sides)) - first - _COMPARED
    if unseen > 0:
        rows.append(f"[… {count(unseen, 'more line')}, not compared …]")
    title = "What differs, - is printed at base, + at head"
    return quoted(title, clip("\n".join(rows), OUTPUT_LIMIT))


class ReviewTrees(Closing):
    """A folder for each of ``commits``, by the name of its side; None is the work tree.

    They are filled when first asked for, and removed at the end.
    """

    def __init__(self, repository: Repository, commits: Mapping[str, str | None]) -> None:
        self.sides = tuple(commits)
        self._repository = repository
        self._commits = commits
        self._held = ExitStack()
        self._lock = Lock()
        self._roots: dict[str, str] = {}

    def root(self, side: str) -> str:
        """The folder of a side. Raises StorageError, ConfigError."""
        with self._lock:
            if side not in self._roots:
                (folder,) = self._held.enter_context(files.scratch_folders(side))
                lay(folder, Tree.at(self._repository, self._commits[side]))
                self._roots[side] = folder
            return self._roots[side]

    def close(self) -> None:
        self._held.close()
