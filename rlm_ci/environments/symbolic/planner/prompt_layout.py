"""The layout of a prompt: a template with marks, which texts from outside replace afterwards.

A template never has such a text, so no text can pass for a mark or a fence, and the sections of a
prompt are known to the byte.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

from rlm_ci.environments.symbolic.iteration import merged
from rlm_ci.environments.symbolic.planner import progress_notes
from rlm_ci.environments.symbolic.planner.progress_notes import LINE, PLACES, fence
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.environments.symbolic.planner.progress_notes import Action, Item

_MARK: Final = re.compile("\0([0-9]+)\0")


class Prompt(Value):
    """The messages of a question; ``data`` are their contents, one after the other.

    ``sections`` tile ``data``: {"kind", "start", "end"}, with "start_byte" and "end_byte" for text
    of the source (search, read, and a goal that is the context), or "pointer" for a sub-call's
    and a count's, which may have "spans" of the source.
    ``truncation`` counts what was left out. ``whole`` are the searches and reads that are shown
    whole: the iteration, and the number in it.
    """

    messages: tuple[dict[str, Any], ...]
    data: bytes
    sections: tuple[dict[str, Any], ...]
    truncation: dict[str, int]
    whole: frozenset[tuple[int, int]] = frozenset()

    @property
    def seen(self) -> tuple[tuple[int, int], ...]:
        """The ranges of the source's bytes that are shown."""
        return tuple(merged(span for section in self.sections for span in spans_of(section)))


def spans_of(section: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The ranges of the source's bytes that a section of a prompt shows."""
    if "start_byte" in section and section["kind"] != "subcall":
        yield section["start_byte"], section["end_byte"]
    yield from ((start, end) for start, end in section.get("spans", ()))


class PromptLayout:
    """The texts of one prompt, and a mark for each."""

    def __init__(self, done: Sequence[Action], dropped: Sequence[Item]) -> None:
        self._done = done
        self._dropped = frozenset(dropped)
        self._truncation = progress_notes.dropped(done, dropped)
        self._texts: list[tuple[bytes, Mapping[str, Any]]] = []

    def goal(self, goal: bytes, limit: int, *, is_source: bool = False) -> Mapping[str, str]:
        """The beginning of the goal, at most ``limit`` bytes with its fences.

        ``is_source``: the goal is the context as well.
        """

        def cost(length: int) -> int:
            head = goal[:length].decode("utf-8", "ignore")
            return len(head.encode()) + 2 * len(fence(head))

        ends = range(min(len(goal), limit) + 1)
        head = goal[: max(0, bisect_right(ends, limit, key=cost) - 1)].decode("utf-8", "ignore")
        size = len(head.encode())
        left_out = len(goal) - size
        section: dict[str, Any] = {"kind": "goal"}
        if is_source:
            section |= {"start_byte": 0, "end_byte": size}
        self._truncation["goal_bytes_dropped"] = left_out
        return {
            "fence": fence(head),
            "text": self._mark(head, section),
            "left_out": count(left_out, "byte") if left_out else "",
        }

    def lines_dropped(self) -> str:
        number = self._truncation["history_dropped"]
        return count(number, "earlier action") if number else ""

    def steps(self) -> list[dict[str, Any]]:
        """The actions by iteration, as far as there is room for them."""
        steps: list[dict[str, Any]] = []
        for at, action in enumerate(self._done):
            if (at, LINE) in self._dropped:
                continue
            if not steps or steps[-1]["iteration"] != action.iteration:
                steps.append({"iteration": action.iteration, "actions": []})
            numbered = [
                ((at, number), note_excerpt) for number, note_excerpt in enumerate(action.excerpts)
            ]
            note_excerpts = [
                note_excerpt for item, note_excerpt in numbered if item not in self._dropped
            ]
            gone = [note_excerpt for item, note_excerpt in numbered if item in self._dropped]
            line = action.line
            if gone:
                total = count(len(action.excerpts), "excerpt")
                has_places = action.has_places and (at, PLACES) not in self._dropped
                places = (
                    f": {', '.join(note_excerpt.place for note_excerpt in gone)}"
                    if has_places
                    else ""
                )
                line += f" [{len(gone)} of {total} left out for room{places}]"
            excerpts = [
                {
                    "head": excerpt.head,
                    "fence": fence(excerpt.text),
                    "text": self._mark(excerpt.text, excerpt.section),
                }
                for excerpt in note_excerpts
            ]
            steps[-1]["actions"].append({"line": line, "excerpts": excerpts})
        return steps

    def _full_ranges(self) -> frozenset[tuple[int, int]]:
        seen: Counter[int] = Counter()
        complete = set[tuple[int, int]]()
        touched = {at for at, _number in self._dropped}
        for at, action in enumerate(self._done):
            if at not in touched and not action.is_subcall:
                complete.add((action.iteration, seen[action.iteration]))
            seen[action.iteration] += 1
        return frozenset(complete)

    def prompt(self, *contents: str) -> Prompt:
        """The messages of a system and a user with these contents, marks replaced."""
        data = bytearray()
        sections: list[dict[str, Any]] = []
        messages: list[dict[str, Any]] = []

        def add(text: bytes, section: Mapping[str, Any]) -> None:
            if text:
                start = len(data)
                data.extend(text)
                sections.append({**section, "start": start, "end": len(data)})

        for role, content in zip(("system", "user"), contents, strict=True):
            start = len(data)
            for number, part in enumerate(_MARK.split(content)):
                if number % 2:
                    add(*self._texts[int(part)])
                else:
                    add(part.encode(), {"kind": "frame"})
            messages.append({"role": role, "content": data[start:].decode()})
        parts = (tuple(messages), bytes(data), tuple(sections), self._truncation)
        return Prompt(*parts, self._full_ranges())

    def _mark(self, text: str, section: Mapping[str, Any]) -> str:
        self._texts.append((text.encode(), section))
        return f"\0{len(self._texts) - 1}\0"
