"""A question to a model that may look around with tools before it answers.

The tools read and run code, on each side of a change. Each request of a conversation begins with
the messages of the one before it. Each answer and each result of a tool is a fact of the run, so a
resumed run asks and looks for nothing twice.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from difflib import unified_diff
from itertools import takewhile
from threading import Lock

from rlm_ci.environments.coding import code_queries, tools
from rlm_ci.environments.coding.tools import CodeTools, Services
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.object_question import ObjectAnswer, ask_object, completing
from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted
from rlm_ci.environments.tool_calls import function
from rlm_ci.environments.turn_loop import (
    CALLS_LIMIT,
    Limits,
    LoopEnd,
    Observation,
    TurnLimits,
    TurnLoop,
)
from rlm_ci.errors import ConfigError, RemoteError, UnavailableError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.resources import loader
from rlm_ci.review.proofs.launch import OUTPUT
from rlm_ci.system import files
from rlm_ci.system.command_line import SHELL, Command
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import clip, count, printable
from rlm_ci.text.steady import steady
from rlm_ci.trials.trees import BASE, HEAD
from rlm_ci.validators.validator import failure
from rlm_ci.values import Closing, Value
from rlm_ci.workspace.tree import Tree, lay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.tool_calls import ToolCall
    from rlm_ci.git.repository import Repository
    from rlm_ci.models import Message
    from rlm_ci.models.json_question import Ask
    from rlm_ci.models.strict_json import Misfit
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.review.proofs.runner import ProofRunner
    from rlm_ci.runs import Fact


#: Depths of a review; a quick one is without tools.
QUICK, NORMAL, DEEP = "quick", "normal", "deep"
_TEMPLATE = "prompts/review-explore.md.j2"
#: Bytes of a prompt that is not short any more, and of all requests of a short one.
_SMALL, _LEAST_SENT = 20_000, 300_000
#: Bytes of one result: at most, while there is room, and the shortest that is of use.
_RESULT, _USUAL, _SHORTEST = 8_000, 2_000, 300
#: Calls of one answer that are carried out.
_CALLS = 8
#: Answers in a row without one sound call, after which a conversation ends.
_MISTAKES = 3
#: Calls of a model that a look takes: one that asks for it, and one that answers.
_LOOK = 2
NO_TOOLS = "the model read without looking around: its endpoint takes no tools"
NO_END = "the model gave no answer while it could look around, and was asked again without tools"
NO_CALL = (
    "three answers in a row had no call that can be carried out, and the model was asked without"
    " tools"
)
NO_ROOM = "the model read without looking around: the change has too many parts for that"
NO_CALLS = "the model read without looking around: the budget has room for one call"


class ExplorationLimits(Value):
    """How far a conversation goes: its answers; the share of its prompt in its bytes; and by the
    bytes of its prompt what tools may add (to a short one at least ``minimum``), and all requests.
    Code may run for ``seconds`` in a review. ``all_turns`` and ``all_sent`` are those of all
    conversations about a change of 500 lines; None is no limit.
    """

    turns: int
    prompt: float
    room: float
    minimum: int
    sent: float
    seconds: float
    all_turns: int | None = None
    all_sent: int | None = None

    def most_sent(self, size: int) -> int:
        """The bytes of all requests that begin with a prompt of ``size`` bytes."""
        limit = max(_LEAST_SENT, int(self.sent * size))
        return limit if self.all_sent is None else min(limit, self.all_sent)

    def shared(self, conversations: int, times: int) -> ExplorationLimits:
        """The limits of one of several conversations of a change of ``times`` 500 lines."""
        if self.all_turns is None or self.all_sent is None:
            return self
        turns, sent = (total * times // conversations for total in (self.all_turns, self.all_sent))
        return self.replace(turns=min(self.turns, turns), all_turns=turns, all_sent=sent)

    def has_room(self, size: int) -> bool:
        """Whether a conversation that begins with ``size`` bytes can look at anything."""
        return self.turns > _LOOK and self.most_sent(size) >= _LOOK * size


LIMITS = {
    NORMAL: ExplorationLimits(12, 2 / 3, 0.4, 16_000, 8, 300, 30, 600_000),
    DEEP: ExplorationLimits(40, 1 / 2, 2, 64_000, 40, 1200),
}


class Explorer(Closing):
    """What all conversations of a review share."""

    def __init__(
        self, fact: Fact, tools: ReviewTools, limits: ExplorationLimits, corpus: Corpus
    ) -> None:
        """``corpus`` is what there is at the head."""
        self.fact = fact
        self.tools = tools
        self._corpus = corpus
        self._known = {file.path: file for file in corpus.files}
        self.limits = limits
        self.instructions = loader.load_template(_TEMPLATE)(
            {"has_base": tools.has_base, "runs": tools.runs, "calls": _CALLS}
        )
        self.fixed = _bytes(self.instructions) + _bytes(tools.tools())

    def close(self) -> None:
        self.tools.close()

    def text(self, path: str) -> LeafText | None:
        """A file at the head; None for one that no review reads."""
        file = self._known.get(path)
        if file is None:
            return None
        return LeafText(path, file.oid, self._corpus.read([file])[0])


class NodeQuestions:
    """Puts the questions of one node as ``ask_object`` does, with tools if there is an explorer.

    ``node`` is its id. ``metrics`` count answers and calls of tools; ``notes`` are for the report.
    """

    def __init__(self, explorer: Explorer | None = None, node: str = "") -> None:
        self._explorer = explorer
        self._node = node
        self.metrics: Counter[str] = Counter()
        self.notes: list[str] = []

    def prompt_bytes(self, limit: int) -> int:
        """The bytes of a prompt where a conversation may have ``limit``."""
        return limit if self._explorer is None else int(limit * self._explorer.limits.prompt)

    def text(self, path: str) -> LeafText | None:
        """A file at the head that the model may have read; None if it cannot have."""
        if self._explorer is None or not self.metrics["looks"]:
            return None
        return self._explorer.text(path)

    def __call__(
        self, ask: Ask, step: str, prompt: str, misfit: Misfit, form: Message | None = None
    ) -> tuple[dict[str, Any] | None, str]:
        """The object that the model answers, or why there is none; see ``ask_object``.

        Raises what asking does.
        """
        if self._explorer is None:
            return ask_object(ask, step, prompt, misfit, form)
        talk = _Conversation(self._explorer, ask, step, prompt, self._node)
        answer, why = self._talked(self._explorer.fact, talk, misfit)
        if answer is not None:
            return answer, ""
        if why not in self.notes:
            self.notes.append(why)
        return ask_object(ask, step, prompt, misfit, form)

    def _talked(
        self, fact: Fact, talk: _Conversation, misfit: Misfit
    ) -> tuple[dict[str, Any] | None, str]:
        """The answer in a conversation, or why there is none."""
        if not talk.has_room():
            return None, NO_ROOM
        if talk.is_last_call(0):
            return None, NO_CALLS
        loop = talk.loop(misfit)
        if not loop.takes_tools(fact, "review", talk.history, talk.position):
            return None, NO_TOOLS
        try:
            end = loop.run(talk.history, talk.position)
        except RemoteError as error:
            # What tools have shown was too much: the prompt itself was not.
            if loop.turn == 1 or not is_too_long(error):
                raise
            end = LoopEnd("", NO_END, loop.turn)
        self.metrics.update({"turns": end.turns, "looks": talk.looks})
        return end.value, NO_CALL if end.strayed else NO_END


class _Conversation(Limits):
    """One question, until it is answered, or not: its limits, and the environment of its tools."""

    def __init__(self, explorer: Explorer, ask: Ask, step: str, prompt: str, node: str) -> None:
        limits = explorer.limits
        super().__init__(TurnLimits(turns=limits.turns, mistakes=_MISTAKES - 1, repairs=1))
        self.looks = 0
        #: Has the model read that nothing is left?
        self._is_told = False
        self._ask = ask
        self.position = step
        self._node = node
        self._explorer = explorer
        self.history = Conversation(sys.maxsize)  # nothing is folded: requests begin alike
        self.history.prompt(f"{explorer.instructions}\n{prompt}")
        #: Bytes of the messages in the last request.
        self._sent = size = self._size()
        self._last = limits.turns - 1  # one may be needed without tools
        room = int(limits.room * size) - explorer.fixed
        if size < _SMALL:
            room = max(room, limits.minimum)
        self._most = min(size + room, ask.max_bytes)
        self._to_send = limits.most_sent(size)

    def has_room(self) -> bool:
        """Whether it can look at anything."""
        return self._explorer.limits.has_room(self._size())

    def loop(self, misfit: Misfit) -> TurnLoop:
        """The loop of it."""
        return TurnLoop(
            completing(self._ask),
            self,
            model=self._ask.model,
            bounds=self,
            answers=ObjectAnswer(misfit, self._ask.repair, native=True),
        )

    # ── the limits ──

    def before(self) -> None:
        self._sent = self._size()
        self._to_send -= self._sent

    def answered(self) -> None:
        # The text of a call takes nothing from what it may show, unless it is long.
        added = min(self._size() - self._sent, _USUAL)
        self._most = min(self._most + added, self._ask.max_bytes)

    def end(self, calls: Sequence[ToolCall]) -> str:
        """Also for too many calls, or too long ones, to go on with."""
        is_too_much = len(calls) > CALLS_LIMIT or self._left() < -_RESULT
        return NO_END if self._is_told or is_too_much else ""

    def refusal(self, call: ToolCall) -> str:
        if self._is_over():
            return "Not carried out."
        if call.index >= _CALLS:
            return f"Not carried out: an answer may have {_CALLS} calls."
        self.looks += 1
        return ""

    def footer(self, turn: int) -> str:
        self._is_told = turn + 1 >= self._last or self._is_over() or self.is_last_call(turn)
        if self._is_told:
            return "nothing is left to look with: answer now, with the JSON object"
        answers = count(self._last - 1 - turn, "more answer")
        return f"left to look with: {answers}, {self._left():,} bytes"

    def is_last_call(self, turn: int) -> bool:
        """Whether the budgets have room for one call: a fact, as other leaves call, too."""
        fact_id = f"{self._node}/{self.position}/left-{turn}"
        left = self._explorer.fact("left", fact_id, {}, lambda: {"calls": self._ask.calls_left()})
        return left["calls"] is not None and left["calls"] < _LOOK

    def _is_over(self) -> bool:
        return self._left() < _SHORTEST or self._to_send < self._size()

    def _left(self) -> int:
        return self._most - self._size()

    def _size(self) -> int:
        """Bytes of the messages so far."""
        return _bytes(self.history.messages())

    # ── the tools ──

    def tools(self) -> tuple[dict[str, Any], ...]:
        return self._explorer.tools.tools()

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """What a tool says: a fact, as what it takes from the machine may change."""
        left = self._left()
        limit = min(_RESULT, max(_USUAL, left // 2), left)

        def produce() -> Mapping[str, Any]:
            return {"text": _within(self._explorer.tools.act(name, arguments).text, limit)}

        fact_id = f"{self._node}/{self.position}/look-{self.looks}"
        key = {"name": name, "arguments": dict(arguments)}
        return Observation(self._explorer.fact("look", fact_id, key, produce)["text"])


def _bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _within(text: str, limit: int) -> str:
    """``text``, cut in its middle to about ``limit`` bytes."""
    size = _bytes(text)
    return text if size <= limit else clip(text, limit * len(text) // size)


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
