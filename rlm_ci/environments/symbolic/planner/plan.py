"""Plans of the symbolic mode: a planner's answers, read strictly and kept within the limits.

Numbers that are too large are clamped, and each clamp recorded. A plan with a wrong form or a bad
pointer is refused with an error on which the planner can act.
"""

from __future__ import annotations

import json
import re
from itertools import starmap

from rlm_ci.context.pointers import in_full
from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic.map_reduce.reduce import CONCAT, OF_JSON
from rlm_ci.models import strict_json
from rlm_ci.resources import loader
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

SCHEMA: Final = "plan.schema.json"
#: The form of the schema of a map's answers.
ANSWER: Final = "answer.schema.json"
PARSE_ERROR: Final = "plan_parse_error"
VALIDATION_ERROR: Final = "plan_validation_error"

#: Pointers of one sub-call at most: fewer fill its input.
_POINTERS: Final = 1000
#: Characters of a reason in the state.
_REASON: Final = 1000
#: First hits of a count that are shown, unless the plan says how many.
_HITS: Final = 3
#: Paths and globs of a scope.
_FILES: Final = 100
#: Characters of the schema of a map's answers, and tokens of one.
_SCHEMA_TEXT: Final = 2000
_TOKENS: Final = 1 << 20
#: Errors of a plan that are reported, and characters of each.
_ERRORS: Final = 4
_MESSAGE: Final = 200
#: Members that are whole numbers, which some models write as texts.
_NUMBERS: Final = frozenset(
    (
        "schema_version",
        "top_k",
        "offset",
        "bytes",
        "start_byte",
        "end_byte",
        "max_input_bytes",
        "hits",
        "max_output_tokens",
    )
)
_WHOLE: Final = re.compile("[0-9]{1,16}")
#: Levels of a plan: an object of a list in an object of a list of the plan.
_LEVELS: Final = 5
_SPAN: Final = re.compile("ctx:.*#bytes:([0-9]{1,16})-([0-9]{1,16})", re.ASCII)


class PlanLimits(Value):
    """The numbers and bytes of one iteration's actions; ``max_iterations`` None is no limit."""

    searches: int = 4
    reads: int = 8
    subcalls: int = 4
    read_bytes: int = 8192
    snippets: int = 8
    snippet_bytes: int = 8192
    subcall_input_bytes: int = 120_000
    prompt_bytes: int = 32_768
    top_k: int = 20
    preview_bytes: int = 512
    concurrency: int = 4
    #: 0 in runs from before there were counts and maps: their prompts do not offer them.
    counts: int = 0
    maps: int = 0
    map_parts: int = 0
    max_iterations: int | None = None


class Search(Value):
    query: str
    top_k: int
    reason: str = ""


class Count(Value):
    """Count what ``pattern`` finds in the lines of ``scope``, by chunk, file or groups.

    ``top_k`` values with the most hits are shown, and the first ``hits``.
    """

    pattern: str
    scope: Scope
    by: str
    ignore_case: bool
    top_k: int
    hits: int
    reason: str = ""


class Read(Value):
    """``size`` bytes from ``offset`` of what ``pointer`` names, also as a sub-call's snippet."""

    pointer: str
    offset: int
    size: int
    reason: str = ""


class Subcall(Value):
    """A question to a model about the named texts; "" for what the plan left out."""

    purpose: str
    pointers: tuple[str, ...]
    snippets: tuple[Read, ...]
    max_input_bytes: int
    model: str = ""
    expected_output: str = ""
    #: Of a map: what to do, a JSON Schema, the cap on the answer; a part is asked for twice.
    task: str = ""
    schema: str = ""
    max_tokens: int = 0
    is_part: bool = False


class Map(Value):
    """``prompt`` for each part of ``scope``, and how to ``reduce`` the answers to one result.

    ``schema`` is a JSON Schema of the answers, as a text; ``field`` is the member to reduce.
    """

    purpose: str
    prompt: str
    scope: Scope
    reduce: str
    expected_output: str = ""
    schema: str = ""
    field: str = ""
    reduce_prompt: str = ""
    max_output_tokens: int = 0
    model: str = ""
    reason: str = ""

    @property
    def is_json(self) -> bool:
        wants = self.expected_output.strip().casefold().startswith("json")
        return bool(self.schema) or wants or self.reduce in OF_JSON


class Plan(Value):
    """``intent`` is continue, final, pause or fail.

    ``final`` and ``fail`` have no actions; those of ``pause`` wait for the run to be resumed.
    """

    intent: str
    searches: tuple[Search, ...] = ()
    reads: tuple[Read, ...] = ()
    subcalls: tuple[Subcall, ...] = ()
    counts: tuple[Count, ...] = ()
    maps: tuple[Map, ...] = ()
    final_answer: str = ""
    reason: str = ""


class ParsedPlan(Value):
    """``clamped``: each number that was larger than allowed, as {"what", "asked", "given"}."""

    plan: Plan
    clamped: tuple[dict[str, Any], ...] = ()


class PlanError(ValueError):
    """An answer that is no plan; ``kind`` is PARSE_ERROR or VALIDATION_ERROR."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class PlanReader:
    """Reads one plan.

    A member that is null is left out, and a whole number may be a text. ``flaw`` says why a
    pointer cannot be read, None if it can; ``object_id`` and ``byte_length`` are those of the
    context, which short pointers refer to.
    """

    def __init__(
        self,
        limits: PlanLimits,
        flaw: Callable[[str], str | None],
        object_id: str,
        byte_length: int,
    ) -> None:
        self._limits = limits
        self._flaw = flaw
        self._object_id = object_id
        self._prefix = f"ctx:{object_id}#"
        self._byte_length = byte_length
        self._clamped: list[dict[str, Any]] = []
        self._wrong: list[str] = []

    def read(self, text: str) -> ParsedPlan:
        """The plan in ``text``: one JSON object, or one in a single fence. Raises PlanError."""
        try:
            raw = strict_json.read_object(text, lambda value: loader.misfit(value, SCHEMA))
        except ValueError as error:
            raise PlanError(PARSE_ERROR, str(error)) from None
        # Cut first: the schema then checks only what we take.
        raw = _plain(self._cut(raw), _LEVELS)
        wrong = loader.misfit(raw, SCHEMA)
        if wrong:
            raise PlanError(VALIDATION_ERROR, wrong)
        plan = Plan(
            intent=raw["intent"],
            searches=tuple(starmap(self._search, enumerate(raw.get("searches", ())))),
            reads=self._reads(raw, "reads", self._limits.read_bytes),
            subcalls=tuple(starmap(self._subcall, enumerate(raw.get("subcalls", ())))),
            counts=tuple(starmap(self._count, enumerate(raw.get("counts", ())))),
            maps=tuple(starmap(self._map, enumerate(raw.get("maps", ())))),
            final_answer=raw.get("final_answer") or "",
            reason=_note(raw),
        )
        if plan.intent == "final" and not plan.final_answer.strip():
            self._wrong.append("$: intent is final, and final_answer is missing or empty")
        if self._wrong:
            more = ["and more"] if len(self._wrong) > _ERRORS else []
            raise PlanError(VALIDATION_ERROR, "; ".join(self._wrong[:_ERRORS] + more))
        return ParsedPlan(plan, tuple(self._clamped))

    def _cut(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The plan with its lists cut to the limits."""
        limits = self._limits
        names = ("searches", "counts", "reads", "subcalls", "maps")
        ceilings = {name: getattr(limits, name) for name in names}
        if raw.get("intent") in ("final", "fail"):  # nothing is carried out any more
            ceilings = dict.fromkeys(ceilings, 0)
        cut = {**raw}
        for name, number in ceilings.items():
            self._shorten(cut, name, number, name)
        subcalls = cut.get("subcalls")
        if isinstance(subcalls, list):
            cut["subcalls"] = [
                self._cut_subcall(subcall, f"subcalls[{index}]")
                if isinstance(subcall, dict)
                else subcall
                for index, subcall in enumerate(subcalls)
            ]
        return cut

    def _cut_subcall(self, raw: dict[str, Any], what: str) -> dict[str, Any]:
        cut = {**raw}
        self._shorten(cut, "pointers", _POINTERS, f"{what}.pointers")
        left = self._limits.snippets
        for name in ("snippets", "spans"):  # under one cap
            self._shorten(cut, name, left, f"{what}.{name}")
            taken = cut.get(name)
            left -= len(taken) if isinstance(taken, list) else 0
        return cut

    def _shorten(self, raw: dict[str, Any], name: str, limit: int, what: str) -> None:
        entries = raw.get(name)
        if isinstance(entries, list) and len(entries) > limit:
            self._clamped.append({"what": what, "asked": len(entries), "given": limit})
            raw[name] = entries[:limit]

    def _clamp(self, number: float, limit: int, what: str) -> int:
        """``number``, which JSON may write as 1e12, but at most ``limit``."""
        if number <= limit:
            return int(number)
        self._clamped.append({"what": what, "asked": int(number), "given": limit})
        return limit

    def _search(self, index: int, raw: dict[str, Any]) -> Search:
        limit = self._limits.top_k
        top_k = self._clamp(raw.get("top_k", limit), limit, f"searches[{index}].top_k")
        return Search(raw["query"], top_k, _note(raw))

    def _count(self, index: int, raw: dict[str, Any]) -> Count:
        limit, what = self._limits.top_k, f"counts[{index}]"
        return Count(
            raw["pattern"],
            _scope(raw),
            raw.get("by", ""),
            raw.get("ignore_case", False),
            self._clamp(raw.get("top_k", limit), limit, f"{what}.top_k"),
            self._clamp(raw.get("hits", min(_HITS, limit)), limit, f"{what}.hits"),
            _note(raw),
        )

    def _reads(
        self, raw: dict[str, Any], name: str, limit: int, where: str = ""
    ) -> tuple[Read, ...]:
        """The reads in the list ``name``, each of at most ``limit`` bytes."""
        reads = []
        for index, entry in enumerate(raw.get(name, ())):
            what = f"{where}{name}[{index}]"
            pointer = self._pointer(entry["pointer"], f"{what}.pointer")
            size = self._clamp(entry["bytes"], limit, f"{what}.bytes")
            reads.append(Read(pointer, int(entry.get("offset", 0)), size, _note(entry)))
        return tuple(reads)

    def _subcall(self, index: int, raw: dict[str, Any]) -> Subcall:
        what = f"subcalls[{index}]"
        pointers = tuple(
            self._pointer(pointer, f"{what}.pointers[{number}]")
            for number, pointer in enumerate(raw.get("pointers", ()))
        )
        snippets = self._reads(raw, "snippets", self._limits.snippet_bytes, f"{what}.")
        spans = tuple(
            self._span(span, f"{what}.spans[{number}]")
            for number, span in enumerate(raw.get("spans", ()))
        )
        if not (pointers or snippets or spans):
            self._wrong.append(f"$.{what}: it needs pointers, snippets or spans: name some text")
        limit = self._limits.subcall_input_bytes
        return Subcall(
            raw["purpose"],
            pointers,
            snippets + spans,
            self._clamp(raw["max_input_bytes"], limit, f"{what}.max_input_bytes"),
            raw.get("model") or "",
            raw.get("expected_output") or "",
        )

    def _map(self, index: int, raw: dict[str, Any]) -> Map:
        schema = raw.get("schema")
        written = "" if schema is None else json.dumps(schema, separators=(",", ":"))
        wrong = loader.misfit(schema, ANSWER) if written else ""
        if len(written) > _SCHEMA_TEXT:
            wrong = f"it has more than {_SCHEMA_TEXT:,} characters"
        if wrong:
            self._wrong.append(f"$.maps[{index}].schema: {wrong[:_MESSAGE]}")
        return Map(
            raw["purpose"],
            raw["prompt"],
            _scope(raw),
            raw.get("reduce", CONCAT),
            raw.get("expected_output", ""),
            written,
            raw.get("field", ""),
            raw.get("reduce_prompt", ""),
            int(min(raw.get("max_output_tokens", 0), _TOKENS)),
            raw.get("model", ""),
            _note(raw),
        )

    def _span(self, raw: dict[str, Any], what: str) -> Read:
        start, end = int(raw["start_byte"]), int(raw["end_byte"])
        if start >= end:
            self._wrong.append(f"$.{what}: start_byte {start} is not before end_byte {end}")
            return Read("", 0, 0)
        size = self._clamp(end - start, self._limits.snippet_bytes, what)
        if start < self._byte_length:
            size = self._clamp(size, self._byte_length - start, what)
        pointer = f"{self._prefix}bytes:{start}-{start + size}"
        return Read(self._pointer(pointer, what), 0, size)

    def _pointer(self, pointer: str, what: str) -> str:
        """``pointer`` in full, clamped to the end of the context."""
        pointer = in_full(pointer, self._object_id)
        span = _SPAN.fullmatch(pointer)
        if span and pointer.startswith(self._prefix):
            start, end = int(span[1]), int(span[2])
            if start < self._byte_length < end:
                end = self._clamp(end, self._byte_length, what)
                pointer = f"{self._prefix}bytes:{start}-{end}"
        flaw = self._flaw(pointer) if len(self._wrong) <= _ERRORS else None
        if flaw:
            self._wrong.append(f"$.{what}: {printable(flaw)[:_MESSAGE]}")
        return pointer


def _scope(raw: dict[str, Any]) -> Scope:
    return Scope(raw.get("chunks", ""), tuple(raw.get("files", ())[:_FILES]))


def _plain(value: Any, levels: int) -> Any:
    """``value`` without null members, and with numbers instead of texts."""
    if not levels:
        return value
    if isinstance(value, list):
        return [_plain(item, levels - 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _number(inner) if name in _NUMBERS else _plain(inner, levels - 1)
        for name, inner in value.items()
        if inner is not None
    }


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


def _note(raw: dict[str, Any]) -> str:
    reason: str = raw.get("reason") or ""
    left_out = len(reason) - _REASON
    return (
        f"{reason[:_REASON]} [… {count(left_out, 'character')} left out]"
        if left_out > 0
        else reason
    )
