"""The messages of a conversation, kept within a bound.

Beyond it, old exchanges become notes, a line for each call; prompts stay. Between two folds
requests begin alike, for an endpoint's prompt cache. What is folded follows from the messages
alone.
"""

from __future__ import annotations

import json

from rlm_ci.environments.quoting import quoted, visible
from rlm_ci.text.printable import count, encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.tool_calls import ToolCall

    Group = list[dict[str, Any]]

#: Bytes of the exchanges that are whole; a fold leaves a third of them.
DEFAULT_LIMIT = 32_000
#: Characters of a call, and of each end of its result, in a note; bytes of all notes.
_CALL, _RESULT, _NOTES = 160, 80, 6000
#: Bytes of the newest exchange, and the characters that are left of each end of its long texts.
_NEWEST, _END = 200_000, 2000
#: What stands for an answer without anything in it: endpoints refuse an empty text.
_EMPTY = "(an empty answer)"
#: The newest exchanges, which a limit of notes leaves whole.
_FRESH = 2


class Conversation:
    """The messages of a conversation, as exchanges between prompts.

    An exchange, an answer with its results, stays or goes whole: an endpoint wants each result.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        #: Prompts, and answers with their results. Messages never change: requests hold them.
        self._groups: list[Group] = []
        #: What was folded, by exchange a line for each call; how many of these are dropped; and
        #: the prompt that tells it.
        self._folded: list[str] = []
        self._dropped = 0
        self._told: Group = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    def prompt(self, text: str, role: str = "user") -> None:
        """Add a text that stays: a goal, a role."""
        self._groups.append([{"role": role, "content": text}])

    def answer(
        self, text: str, calls: Sequence[ToolCall] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        """Add an answer of the model, with what ``extra`` its endpoint wants back."""
        content = encodable(text) or (None if calls else _EMPTY)
        message: dict[str, Any] = {**(extra or {}), "role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {
                    **call.extra,
                    "id": call.id,
                    "type": "function",
                    "function": {"name": _name(call.name), "arguments": _sound(call.arguments)},
                }
                for call in calls
            ]
        self._groups.append([message])

    def result(self, call: ToolCall, text: str) -> None:
        """Add the result of a call of the last answer."""
        message = {"role": "tool", "tool_call_id": call.id, "content": text}
        self._groups[-1].append(message)

    def say_result(self, name: str, text: str) -> None:
        """Add a result for an endpoint without tools."""
        said = f"Result of {_name(name)}:\n{text}"
        self._groups[-1].append({"role": "user", "content": said})

    def correct(self, text: str) -> None:
        """Add what was wrong with the last answer."""
        self._groups[-1].append({"role": "user", "content": text})

    def fold(self) -> None:
        """Replace what followed the first prompt by notes, and the last words.

        For a next part of the work: what was read may have changed since.
        """
        roles = [group[0]["role"] for group in self._groups]
        first = roles.index("user") + 1 if "user" in roles else len(roles)
        self._fold(self._groups[first:])

    def fold_old(self, notes: int) -> None:
        """Replace all but the newest exchanges by the last ``notes``, once so many are old."""
        old = self._exchanges()[:-_FRESH]
        if len(old) >= notes:
            self._fold(old, notes)

    def messages(self) -> tuple[dict[str, Any], ...]:
        """All messages in OpenAI's format, within the bound unless prompts alone exceed it."""
        exchanges = self._exchanges()
        sizes = list(map(_size, exchanges))
        if sum(sizes) > self._limit:
            kept, room = len(exchanges) - 1, self._limit // 3 - sizes[-1]
            while kept and sizes[kept - 1] <= room:
                kept -= 1
                room -= sizes[kept]
            if kept:
                self._fold(exchanges[:kept])
            if sizes[-1] > _NEWEST:
                exchanges[-1][:] = map(_shorter, exchanges[-1])
        return tuple(message for group in self._groups for message in group)

    def _exchanges(self) -> list[Group]:
        return [group for group in self._groups if group[0]["role"] == "assistant"]

    def _fold(self, groups: Sequence[Group], notes: int | None = None) -> None:
        """Replace ``groups`` by notes at the place of the first of them."""
        if not groups:
            return
        self._folded += ["\n".join(lines) for lines in map(_digest, groups) if lines]
        room = _NOTES
        for number, note in enumerate(reversed(self._folded)):
            room -= len(note.encode())
            if number == notes or (room < 0 and number):
                self._dropped += len(self._folded) - number
                del self._folded[:-number]
                break
        gone = {id(group) for group in groups}
        place = next(at for at, group in enumerate(self._groups) if id(group) in gone)
        place -= any(group is self._told for group in self._groups[:place])
        gone.add(id(self._told))
        self._groups = [group for group in self._groups if id(group) not in gone]
        if self._folded:
            head = "What you did before, in short"
            if self._dropped:
                head += f", without the first {count(self._dropped, 'exchange')}"
            text = quoted(head, "\n".join(self._folded))
            self._told = [{"role": "user", "content": text}]
            self._groups.insert(place, self._told)


def _digest(group: Group) -> list[str]:
    """An exchange as a line a call: what was called, and the ends of what came of it."""
    answer, *results = group
    if answer["role"] != "assistant":
        return []
    said = visible((answer["content"] or "").partition("\n")[0])
    lines = [f"you said: {_line(said)}"] if said else []
    known = {one.get("tool_call_id", ""): one["content"] for one in results}
    for call in answer.get("tool_calls", ()):
        function = call["function"]
        result = _ends(known.get(call["id"], ""))
        lines.append(f"{function['name']} {_line(visible(function['arguments']))}: {result}")
    return lines


def _line(text: str) -> str:
    return text if len(text) <= _CALL else f"{text[:_CALL]}…"


def _ends(text: str) -> str:
    """The first and the last line of a result; the last one before a fence that ends it."""
    lines = [visible(line) for line in text.strip("\n").split("\n")]
    if len(lines) > 3 and lines[-1].startswith("```"):
        del lines[-1]
    ends = lines if len(lines) < 3 else [lines[0], lines[-1]]
    return " … ".join(line.strip()[:_RESULT] for line in ends)


def _shorter(message: dict[str, Any]) -> dict[str, Any]:
    """Without the middle of its long texts, those in its calls too."""
    shorter = {**message, "content": _middle_out(message["content"])}
    if "tool_calls" in message:
        shorter["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _shorter_arguments(call)}}
            for call in message["tool_calls"]
        ]
    return shorter


def _shorter_arguments(call: dict[str, Any]) -> str:
    text: str = call["function"]["arguments"]
    try:
        arguments = json.loads(text)
        return json.dumps({name: _middle_out(value) for name, value in arguments.items()})
    except RecursionError:  # it was read by fewer functions than are at work now
        return json.dumps({"arguments": _middle_out(text)})


def _middle_out(value: Any) -> Any:
    """``value`` without its middle, if it is long: of what is no text, as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    left_out = len(text) - 2 * _END
    if left_out <= _END:
        return value
    return f"{text[:_END]}\n[… {left_out:,} characters left out …]\n{text[-_END:]}"


def _size(group: Group) -> int:
    return sum(map(_bytes, group))


def _bytes(message: dict[str, Any]) -> int:
    functions = (call["function"] for call in message.get("tool_calls", ()))
    called = (function["name"] + function["arguments"] for function in functions)
    texts: Iterable[str] = (message["content"] or "", *called)
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def _name(name: str) -> str:
    """A name that an endpoint accepts."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain and len(name) <= 64 else "unknown"


def _sound(arguments: str) -> str:
    """Arguments that an endpoint accepts: a JSON object."""
    try:
        sound = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        sound = False
    return encodable(arguments) if sound else "{}"
