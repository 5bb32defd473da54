"""The planner's prompt and its layout. It never has more bytes than its limit.

The role, the protocol and the head of the goal are always in it; of earlier iterations as much as
there is room for, see :mod:`rlm_ci.environments.symbolic.planner.progress_notes`.

A template never has such a text, so no text can pass for a mark or a fence, and the sections of a
prompt are known to the byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from hashlib import sha256

from rlm_ci.environments.symbolic.iteration import merged
from rlm_ci.environments.symbolic.planner import progress_notes
from rlm_ci.environments.symbolic.planner.file_map import FileMap
from rlm_ci.environments.symbolic.planner.progress_notes import LINE, PLACES, fence, listed, quote
from rlm_ci.errors import ConfigError
from rlm_ci.resources import loader
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.context.context import Context
    from rlm_ci.environments.symbolic.iteration import Iteration
    from rlm_ci.environments.symbolic.planner.file_map import FileMapRow
    from rlm_ci.environments.symbolic.planner.plan import PlanLimits
    from rlm_ci.environments.symbolic.planner.progress_notes import Action, Item


_MARK: Final = re.compile("\0([0-9]+)\0")


class Prompt(Value):
    """The messages of a question; ``data`` are their contents, one after the other.

    ``sections`` tile ``data``: {"kind", "start", "end"}, with "start_byte" and "end_byte" for text
    of the source (search, read, and a goal that is the context), or "pointer" for a sub-call's
    and a count's, which may have "spans" of the source.
    ``truncation`` counts what was left out. ``complete_spans`` are the searches and reads that are
    shown whole: the iteration, and the number in it.
    """

    messages: tuple[dict[str, Any], ...]
    data: bytes
    sections: tuple[dict[str, Any], ...]
    truncation: dict[str, int]
    complete_spans: frozenset[tuple[int, int]] = frozenset()

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
                    f": {', '.join(note_excerpt.replacement for note_excerpt in gone)}"
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


#: Bytes that the first frame leaves free: for the error of a bad answer, which may have ``_WRONG``
#: bytes, the words around it, and the longer numbers of later iterations.
_ROOM: Final = 1536
_WRONG: Final = 1000
_ROUNDED: Final = 100
#: Bytes of the list of folders and large files, at most this part of the limit; the folders' part
#: of these bytes; characters of each name.
_FILES: Final = 1500
_FILES_PART: Final = 20
_FOLDERS_PART: Final = 0.6
_NAME: Final = 120
#: Bytes that the example of a plan reads.
_EXAMPLE: Final = 4096
#: A prompt names the calls that are left if they are no more than these.
FEW_CALLS: Final = 32
SETTING: Final = "RLM_MAX_PLANNER_PROMPT_BYTES"


class ContextMetadata(Value):
    """What a prompt says about the context; ``atlas`` has its files."""

    object_id: str
    byte_length: int
    chunk_count: int
    target_bytes: int
    overlap_bytes: int
    atlas: FileMap = FileMap()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: Context) -> ContextMetadata:
        return cls(
            context.object_id,
            context.byte_length,
            context.chunk_count,
            context.target_bytes,
            context.overlap_bytes,
            FileMap.of(context),
            context.notes,
        )


class _Question(Value):
    iteration: int
    goal: str
    context: ContextMetadata
    wrong: str
    calls: int | None
    room: int = 0


def protocol(
    limits: PlanLimits, context: Context | ContextMetadata, models: Sequence[str] = ()
) -> dict[str, Any]:
    """The variables of the template with the role and the protocol."""
    return {
        "limits": limits,
        "models": ", ".join(map(quote, models)),
        "object_id": printable(context.object_id),
        "example_bytes": min(_EXAMPLE, context.byte_length, limits.read_bytes),
        "has_chunks": context.chunk_count > 0,
    }


class PromptWriter:
    """Writes the prompts of one run, which depend on its steps alone."""

    def __init__(
        self, limits: PlanLimits, redact: Callable[[str], str], models: Sequence[str] = ()
    ) -> None:
        self._limits = limits
        self._models = models
        self._redact = redact
        self._frame = loader.load_template("prompts/symbolic.md.j2")
        self._state = loader.load_template("prompts/symbolic-state.md.j2")
        self._repair = loader.load_template("prompts/symbolic-repair.md.j2")

    def prompt(
        self,
        iteration: int,
        goal: str,
        context: ContextMetadata,
        steps: Sequence[Iteration],
        wrong: str = "",
        *,
        calls: int | None = None,
    ) -> Prompt:
        """The prompt for ``iteration``; its contents have at most ``limits.prompt_bytes``.

        ``wrong`` is the error of the last answer; ``calls`` are the calls of models that the
        budgets allow, with this one, None for many. Raises ConfigError if the limit has no room
        for what is always in a prompt.
        """
        limit = self._limits.prompt_bytes
        done = progress_notes.actions(steps, self._redact, context.atlas)
        order = progress_notes.drop_order(done)
        question = _Question(
            iteration,
            self._redact(encodable(goal)),
            context,
            _bounded(self._redact(wrong)),
            None if calls is None or calls > FEW_CALLS else calls,
        )
        question = question.replace(room=self._room(question))

        def laid_out(number: int) -> Prompt:
            return self._laid_out(question, PromptLayout(done, order[:number]), limit)

        def room(number: int) -> int:
            return limit - len(laid_out(number).data)

        # The order of dropping is fixed: find how many items to drop.
        tried = range(_surely_dropped(done, order, limit), len(order) + 1)
        return laid_out(tried[bisect_left(tried, 0, key=room)])

    def _laid_out(self, question: _Question, layout: PromptLayout, limit: int) -> Prompt:
        context = question.context
        system = self._frame(protocol(self._limits, context, self._models))
        goal = question.goal.encode()
        is_source = context.object_id == f"sha256:{sha256(goal).hexdigest()}"
        state = self._state(
            {
                "goal": layout.goal(goal, limit // 4, is_source=is_source),
                "context": {**_measures(context), **self._files(context.atlas, limit)},
                "steps": layout.steps(),
                "history_dropped": layout.lines_dropped(),
                "iteration": question.iteration,
                "left": self._left(question),
                "calls": count(question.calls, "call") if question.calls is not None else "",
                "room": count(question.room // _ROUNDED * _ROUNDED, "byte"),
            }
        )
        repair = self._repair({"wrong": question.wrong}) if question.wrong else ""
        return layout.prompt(system, state + repair)

    def _room(self, question: _Question) -> int:
        """The bytes for earlier iterations, the same in all prompts of the run.

        Raises ConfigError if what is always in a prompt may not fit.
        """
        first = question.replace(iteration=0, wrong="", calls=FEW_CALLS)

        def needed(limit: int) -> int:
            return len(self._laid_out(first, PromptLayout((), ()), limit).data) + _ROOM

        limit = self._limits.prompt_bytes
        minimum = max(limit, _ROOM)
        # This ends: the head of the goal grows by a quarter of the limit only.
        while (more := needed(minimum)) > minimum:
            minimum = more
        if minimum > limit:
            raise ConfigError(
                f"a planner's prompt of {count(limit, 'byte')} cannot hold what it must",
                where=SETTING,
                hint=f"set it to {minimum} or more",
            )
        return limit - needed(limit) + _ROOM

    def _left(self, question: _Question) -> int | None:
        limit = self._limits.max_iterations
        ends = [] if limit is None else [limit - question.iteration - 1]
        ends += [] if question.calls is None else [question.calls - 1]
        return max(0, min(ends)) if ends else None

    def _files(self, atlas: FileMap, limit: int) -> Mapping[str, str]:
        """The folders and the largest files of the context, as many as there is room for."""

        def lines(rows: Sequence[FileMapRow]) -> list[str]:
            return [f"{quote(self._redact(row.path), _NAME)}, {row.size}" for row in rows]

        room = min(_FILES, limit // _FILES_PART)
        folders = atlas.folders if len(atlas.folders) > 1 else ()
        shown = listed(lines(folders), int(room * _FOLDERS_PART))
        largest = listed(lines(atlas.largest), room - len(shown.encode()))
        return {"folders": shown, "largest": largest}


def _measures(context: ContextMetadata) -> Mapping[str, Any]:
    number = context.atlas.count
    return {
        "object_id": printable(context.object_id),
        "size": count(context.byte_length, "byte"),
        "chunks": count(context.chunk_count, "chunk"),
        "target": count(context.target_bytes, "byte"),
        "overlap": count(context.overlap_bytes, "byte"),
        "files": count(number, "file") if number else "",
        "notes": context.notes,
    }


def _bounded(wrong: str) -> str:
    """The error, cut to fit in a repair, and unable to close its fence."""
    text = printable(wrong).replace("`", "'").encode()
    return text[:_WRONG].decode("utf-8", "ignore")


def _surely_dropped(done: Sequence[Action], order: Sequence[Item], limit: int) -> int:
    """The number of items for which even their bare texts leave no room."""
    sizes = [_minimum_size(done[at], number) for at, number in order]
    excess, number = sum(sizes) - limit, 0
    while excess > 0:
        excess -= sizes[number]
        number += 1
    return number


def _minimum_size(action: Action, number: int) -> int:
    """The minimum size of an item in bytes."""
    if number == PLACES:  # they replace larger items
        return 0
    return len((action.line if number == LINE else action.excerpts[number].text).encode())
