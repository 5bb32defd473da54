"""The messages of a conversation, kept within a bound.

The middle of old results is cut first, then long texts in old calls, then whole old exchanges;
prompts stay. A cut halves it: between two cuts, requests begin alike, for an endpoint's prompt
cache. What is cut follows from the messages alone.
"""

from __future__ import annotations

import json

from rlm_ci.environments.quoting import quoted, visible
from rlm_ci.text.printable import count, encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.environments.tool_calls import ToolCall

#: Bytes of all messages; some 50,000 tokens.
DEFAULT_LIMIT = 200_000
#: Characters that are left of each end of a text.
_END = 300
#: Characters of a call, or of its result, in a line of what is folded.
_LINE = 300
#: The newest exchanges, which are cut last.
_FRESH = 2


class Conversation:
    """The messages of a conversation, as exchanges between prompts.

    An exchange, an answer with its results, stays or goes whole: an endpoint wants each result.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        #: Prompts, and answers with their results. Messages never change: requests hold them.
        self._groups: list[list[dict[str, Any]]] = []
        self._dropped = 0
        #: What was folded, by exchange a line for each call; and the prompt that tells it.
        self._folded: list[str] = []
        self._told: list[dict[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    def prompt(self, text: str, role: str = "user") -> None:
        """Add a text that stays: a goal, a role."""
        self._groups.append([{"role": role, "content": text}])

    def answer(self, text: str, calls: Sequence[ToolCall] = ()) -> None:
        """Add an answer of the model."""
        content = encodable(text) or (None if calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {
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
        """Replace what followed the first prompt by one line for each call, and the last words.

        For a next part of the work: what was read may have changed since.
        """
        roles = [group[0]["role"] for group in self._groups]
        first = roles.index("user") + 1 if "user" in roles else len(roles)
        self._fold(self._groups[first:])
        del self._groups[first:]
        self._tell_folded(first)

    def fold_old(self, notes: int) -> None:
        """Replace all but the newest exchanges by the last ``notes``, once so many are old."""
        old = [group for group in self._groups if group[0]["role"] == "assistant"][:-_FRESH]
        if len(old) < notes:
            return
        self._fold(old)
        del self._folded[:-notes]
        gone = {id(group) for group in (*old, self._told)}
        place = next(at for at, group in enumerate(self._groups) if group is old[0])
        place -= any(group is self._told for group in self._groups[:place])
        self._groups = [group for group in self._groups if id(group) not in gone]
        self._tell_folded(place)

    def _fold(self, groups: list[list[dict[str, Any]]]) -> None:
        self._folded += ["\n".join(lines) for lines in map(_digest, groups) if lines]

    def _tell_folded(self, place: int) -> None:
        if self._folded:
            text = quoted("What you did before, in short", "\n".join(self._folded))
            self._told = [{"role": "user", "content": text}]
            self._groups.insert(place, self._told)

    def messages(self) -> tuple[dict[str, Any], ...]:
        """All messages in OpenAI's format, within the bound unless prompts alone exceed it."""
        if self._size() > self._limit:
            self._cut(self._limit // 2)
        said = [message for group in self._groups for message in group]
        if self._dropped:
            place = next(
                (at for at, message in enumerate(said) if message["role"] == "assistant"), len(said)
            )
            note = f"[{count(self._dropped, 'earlier exchange')} left out here]"
            said.insert(place, {"role": "user", "content": note})
        return tuple(said)

    def _size(self) -> int:
        return sum(map(_size, self._groups))

    def _cut(self, goal: int) -> None:
        """Cut down to ``goal`` bytes, the oldest and least needed first."""
        old = [group for group in self._groups if group[0]["role"] == "assistant"]
        fresh = old[-_FRESH:]
        excess = self._size() - goal
        for groups in (old[:-_FRESH], fresh):
            for shorter in (_shorter_results, _shorter_answer):
                for group in groups:
                    if excess <= 0:
                        return
                    excess -= _size(group)
                    group[:] = shorter(group)
                    excess += _size(group)
            if groups is fresh:
                return
            for group in groups:
                if excess <= 0:
                    return
                excess -= _size(group)
                self._groups.remove(group)
                self._dropped += 1


def _digest(group: list[dict[str, Any]]) -> list[str]:
    """An exchange as a line a call: what was called, and the first line of what came of it."""
    answer, *results = group
    if answer["role"] != "assistant":
        return []
    lines = [f"you said: {_one_line(answer['content'])}"] if answer["content"] else []
    known = {one.get("tool_call_id", ""): one["content"] for one in results}
    for call in answer.get("tool_calls", ()):
        function = call["function"]
        result = _one_line(known.get(call["id"], ""))
        lines.append(f"{function['name']} {_one_line(function['arguments'])}: {result}")
    return lines


def _one_line(text: str) -> str:
    line = visible(text.partition("\n")[0])
    return line if len(line) <= _LINE else f"{line[:_LINE]}…"


def _shorter_results(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    cut = ({**message, "content": _middle_out(message["content"])} for message in group[1:])
    return [group[0], *cut]


def _shorter_answer(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With less of the answer's text, and of its long arguments."""
    answer = {**group[0]}
    if answer["content"]:
        answer["content"] = _middle_out(answer["content"])
    if "tool_calls" in answer:
        answer["tool_calls"] = [_shorter(call) for call in answer["tool_calls"]]
    return [answer, *group[1:]]


def _shorter(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    if len(function["arguments"]) <= 3 * _END:
        return call
    arguments = {
        name: _middle_out(value) if isinstance(value, str) else value
        for name, value in json.loads(function["arguments"]).items()
    }
    return {**call, "function": {**function, "arguments": json.dumps(arguments)}}


def _size(group: list[dict[str, Any]]) -> int:
    total = 0
    for message in group:
        calls = message.get("tool_calls", ())
        said = [call["function"]["name"] + call["function"]["arguments"] for call in calls]
        texts = (message["content"] or "", *said)
        total += sum(len(text.encode("utf-8", "replace")) for text in texts)
    return total


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


def _middle_out(text: str) -> str:
    left_out = len(text) - 2 * _END
    if left_out <= _END:  # the note would hardly be shorter
        return text
    return f"{text[:_END]}\n[… {left_out:,} characters left out …]\n{text[-_END:]}"
