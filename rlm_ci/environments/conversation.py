"""The messages of a conversation, kept within a bound.

Beyond it, old exchanges become notes: what was done and what came back, each with its ends; prompts
stay. Between two folds requests begin alike, for an endpoint's prompt cache. What is folded follows
from the messages and the room for them alone.
"""

from __future__ import annotations

import json
import re

from rlm_ci.environments.quoting import quoted
from rlm_ci.models import text_of, thoughts
from rlm_ci.text.printable import clip, count, encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.tool_calls import ToolCall

    Group = list[dict[str, Any]]

#: Bytes of the exchanges that are whole; a fold leaves a third of them.
DEFAULT_LIMIT = 32_000
#: Where a model reads much, a third of that, up to so many bytes: each request has them again.
_SHARE, _LARGEST = 3, 96_000
#: The characters that are left of each end of a long text where there is less room than it has.
_ENDS = (2_000, 1_000, 500, 250, 120, 60)
#: The newest notes are full, others short. As parts of the limit: a full note, a short one, all.
_FULL_NOTES = 8
_NOTE, _SHORT, _NOTES = 32, 128, 3
_LEAST_NOTE, _LEAST_SHORT = 120, 40
#: What code sets, also code in JSON, and files by their quoted names.
_NAMES = re.compile(
    r"(?:^|\\n)[ \t]*([A-Za-z_]\w*)[ \t]*=(?!=)|[\"']([\w./-]+\.\w{1,8})\\?[\"']", re.MULTILINE
)
_NAMES_ROOM = 200
#: Bytes of the newest exchange, and the characters that are left of each end of its long texts.
_NEWEST, _END = 200_000, 2000
#: How a text begins that has its reasoning; else it was cut out when the answer came.
_THOUGHT = "<think>"
#: What stands for an answer without anything in it: endpoints refuse an empty text.
_EMPTY = "(an empty answer)"


class Memory:
    """What a model is shown of a conversation.

    This is one that is made anew for each request: it keeps nothing. Others have the whole, or
    notes of what is old.
    """

    def messages(self, room: int | None = None) -> tuple[dict[str, Any], ...]:
        """All messages in OpenAI's format; with ``room``, in so many bytes as JSON."""
        raise NotImplementedError

    def answer(
        self, text: str, calls: Sequence[ToolCall] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        """Add an answer of the model, with what ``extra`` its endpoint wants back."""

    def result(self, call: ToolCall, text: str) -> None:
        """Add the result of a call of the last answer."""

    def say_result(self, name: str, text: str) -> None:
        """Add a result for an endpoint without tools."""

    def correct(self, text: str) -> None:
        """Add what was wrong with the last answer."""


class Conversation(Memory):
    """The messages of a conversation, as exchanges between prompts.

    An exchange, an answer with its results, stays or goes whole: an endpoint wants each result.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        #: Prompts, and answers with their results. Messages never change: requests hold them.
        self._groups: list[Group] = []
        #: A full and a short note for each exchange that was folded; how many are dropped; and
        #: their prompt.
        self._notes: list[tuple[str, str]] = []
        self._dropped = 0
        self._summary: Group = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    def prompt(self, text: str, role: str = "user") -> None:
        """Add a text that stays: a goal, a role."""
        self._groups.append([{"role": role, "content": text}])

    def answer(
        self, text: str, calls: Sequence[ToolCall] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        content = encodable(text) or (None if calls else _EMPTY)
        message: dict[str, Any] = {"role": "assistant", "content": content}
        message = {**message, **(extra or {}), "role": "assistant"}
        if calls:
            message["tool_calls"] = [
                with_members(
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": _name(call.name), "arguments": _sound(call.arguments)},
                    },
                    call.extra,
                )
                for call in calls
            ]
        self._groups.append([message])

    def result(self, call: ToolCall, text: str) -> None:
        message = {"role": "tool", "tool_call_id": call.id, "content": text}
        self._groups[-1].append(message)

    def say_result(self, name: str, text: str) -> None:
        content = f"Result of {_name(name)}:\n{text}"
        self._groups[-1].append({"role": "user", "content": content})

    def correct(self, text: str) -> None:
        self._groups[-1].append({"role": "user", "content": text})

    def fold(self) -> None:
        """Replace what followed the first prompt by notes, and the last words.

        For a next part of the work: what was read may have changed since.
        """
        roles = [group[0]["role"] for group in self._groups]
        first = roles.index("user") + 1 if "user" in roles else len(roles)
        self._fold(self._groups[first:])

    def messages(self, room: int | None = None) -> tuple[dict[str, Any], ...]:
        """All messages in OpenAI's format, within the bound unless prompts alone exceed it.

        With ``room``, the bytes that they may have as JSON, the bound follows from it, and long
        texts lose their middle where that is not enough.
        """
        measure = _size if room is None else size_of
        if room is not None:
            prompts = sum(measure(group) for group in self._groups if not _is_exchange(group))
            largest = max(DEFAULT_LIMIT, min(room // _SHARE, _LARGEST))
            self._limit = max(1, min(largest, room - prompts))
        exchanges = self._exchanges()
        sizes = list(map(measure, exchanges))
        if sum(sizes) > self._limit:
            folded, left = len(exchanges) - 1, self._limit // 3 - sizes[-1]
            while folded and sizes[folded - 1] <= left:
                folded -= 1
                left -= sizes[folded]
            if folded:
                self._fold(exchanges[:folded])
            if sizes[-1] > _NEWEST:
                exchanges[-1][:] = map(_shorter, exchanges[-1])
        messages = tuple(message for group in self._groups for message in group)
        return messages if room is None else shortened(messages, room)

    def _exchanges(self) -> list[Group]:
        return list(filter(_is_exchange, self._groups))

    def _fold(self, groups: Sequence[Group]) -> None:
        """Replace ``groups`` by notes at the position of the first of them."""
        if not groups:
            return
        sizes = max(self._limit // _NOTE, _LEAST_NOTE), max(self._limit // _SHORT, _LEAST_SHORT)
        for group in groups:
            if _is_exchange(group):
                full, short = (_note(group, size) for size in sizes)
                self._notes.append((full, short))
        room = self._limit // _NOTES
        shown: list[str] = []
        for number, (full, short) in reversed([*enumerate(self._notes)]):
            shown.append(full if len(shown) < _FULL_NOTES else short)
            room -= len(shown[-1].encode())
            if room < 0 and len(shown) > _FULL_NOTES:
                self._dropped += number + 1
                del self._notes[: number + 1], shown[-1]
                break
        removed = {id(group) for group in groups}
        position = next(at for at, group in enumerate(self._groups) if id(group) in removed)
        position -= any(group is self._summary for group in self._groups[:position])
        removed.add(id(self._summary))
        self._groups = [group for group in self._groups if id(group) not in removed]
        if shown:
            head = "What you did before, in short"
            if self._dropped:
                head += f", without the first {count(self._dropped, 'exchange')}"
            text = quoted(head, "\n".join(reversed(shown)))
            self._summary = [{"role": "user", "content": text}]
            self._groups.insert(position, self._summary)


def shortened(messages: Sequence[dict[str, Any]], room: int) -> tuple[dict[str, Any], ...]:
    """``messages``, long texts without their middle where all have more than ``room`` bytes.

    The first prompt loses its own last, the rules of the system none.
    """
    fitting = tuple(messages)
    first = next((at for at, message in enumerate(fitting) if message["role"] == "user"), -1)
    for end in _ENDS:
        for spared in (first, -1):
            if size_of(fitting) <= room:
                return fitting
            fitting = tuple(
                message if message["role"] == "system" or at == spared else _shorter(message, end)
                for at, message in enumerate(fitting)
            )
    return fitting


def size_of(messages: Sequence[dict[str, Any]]) -> int:
    """The bytes of messages as JSON, which a request has."""
    return len(json.dumps(messages, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def with_members(call: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """A call in OpenAI's format, with the ``extra`` members that its endpoint wants back."""
    function = {**extra.get("function", {}), **call["function"]}
    return {**extra, **call, "function": function}


def _is_exchange(group: Group) -> bool:
    return bool(group[0]["role"] == "assistant")


def _note(group: Group, room: int) -> str:
    """What was done in an exchange and what came back, in about ``room`` bytes."""
    answer, *results = group
    calls = answer.get("tool_calls", ())
    text = _answer_text(answer["content"])
    room //= bool(text) + len(calls) + len(results)
    lines = [f"you said: {_shortened(text, room)}"] if text else []
    texts = {item.get("tool_call_id"): item["content"] for item in results}
    for call in calls:
        result = _shortened(texts.get(call["id"], ""), room)
        arguments = _noted_arguments(call["function"]["arguments"], room)
        lines.append(f"{call['function']['name']} {arguments}: {result}")
    lines += [_shortened(item["content"], room) for item in results if "tool_call_id" not in item]
    return "\n".join(lines)


def _answer_text(content: object) -> str:
    """The text of an answer, without what its endpoint wanted back of its reasoning."""
    text = text_of(content)
    return thoughts.split(text)[1] if text.lstrip().startswith(_THOUGHT) else text


def _noted_arguments(text: str, room: int) -> str:
    """The arguments of a call: as they are, or each with its name and its ends."""
    if len(text) <= room:
        return _visible(text)
    try:
        values = json.loads(text)
        values = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in values.items()
        }
        each = room // max(1, len(values))
        texts = [f"{name}: {_shortened(value, each)}" for name, value in values.items()]
    except RecursionError:
        texts = [_shortened(text, room)]
    return clip("\n".join(texts), room + 2 * _NAMES_ROOM)


def _shortened(text: str, room: int) -> str:
    """The ends of a text in about ``room`` bytes, with the names that are in its middle."""
    text = text.strip()
    half = room * len(text) // (2 * len(encodable(text).encode()) or 1)
    middle = text[half : len(text) - half]
    if 2 * half >= len(text):
        return _visible(text)
    names = dict.fromkeys(name or path for name, path in _NAMES.findall(middle))
    listed = f", with {', '.join(names)}"[: min(_NAMES_ROOM, room // 2)] if names else ""
    gap = f"\n[… {count(len(middle), 'character')} left out{listed} …]\n"
    gap = gap if room > len(gap) else "…"
    return gap.join((_visible(text[:half]), _visible(text[len(text) - half :])))


def _visible(text: str) -> str:
    lines = (map(printable, line.split("\t")) for line in text.split("\n"))
    return "\n".join(map("\t".join, lines))


def _shorter(message: dict[str, Any], end: int = _END) -> dict[str, Any]:
    """Without the middle of its long texts, those in its calls too."""
    content = message.get("content")
    if message["role"] == "assistant" and _middle_out(content, end) is not content:
        content = (
            _answer_text(content) or None
        )  # what an endpoint wants back goes whole, or not at all
    shorter = {**message, "content": content if content is None else _middle_out(content, end)}
    if "tool_calls" in message:
        shorter["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _shorter_arguments(call, end)}}
            for call in message["tool_calls"]
        ]
    return shorter


def _shorter_arguments(call: dict[str, Any], end: int) -> str:
    text: str = call["function"]["arguments"]
    try:
        arguments = json.loads(text)
        return json.dumps({name: _middle_out(value, end) for name, value in arguments.items()})
    except (AttributeError, RecursionError, ValueError):
        # It was read by fewer functions than are at work now, or a framework wrote it.
        return json.dumps({"arguments": _middle_out(text, end)})


def _middle_out(value: Any, end: int) -> Any:
    """``value`` without its middle, if it is long: of what is no text, as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    left_out = len(text) - 2 * end
    if left_out <= end:
        return value
    return f"{text[:end]}\n[… {left_out:,} characters left out …]\n{text[-end:]}"


def _size(group: Group) -> int:
    return sum(map(_bytes, group))


def _bytes(message: dict[str, Any]) -> int:
    functions = (call["function"] for call in message.get("tool_calls", ()))
    called = (function["name"] + function["arguments"] for function in functions)
    content = message["content"] or ""
    texts: Iterable[str] = (content if isinstance(content, str) else json.dumps(content), *called)
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
