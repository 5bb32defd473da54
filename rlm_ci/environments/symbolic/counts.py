"""Counts of a plan: what a regular expression finds in the lines of a part of the context.

A count is a fact of the run: numbers and offsets, without text. The texts that a prompt shows of
it are read from the context.
"""

from __future__ import annotations

from bisect import bisect_right

from rlm_ci.context.pointers import PointerError, chunk_id
from rlm_ci.context.scope import Scope
from rlm_ci.context.search import pattern_counts
from rlm_ci.context.search.pattern_counts import CHUNK, FILE, CountRow, PatternCount
from rlm_ci.environments.symbolic.planner.plan import Count
from rlm_ci.environments.symbolic.planner.progress_notes import quote
from rlm_ci.text.patterns import PatternError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.context.context import Context

#: The kind of the fact.
COUNT = "count"


def counted(count: Count, context: Context) -> dict[str, Any]:
    """The fact: a PatternCount as JSON, or ``error``, why there is none, for the planner.

    Raises DamagedError, StorageError.
    """
    try:
        pattern_count = pattern_counts.count(
            context, count.pattern, count.scope.spans(context), fold=count.ignore_case, by=count.by,
            rows=count.top_k, first=count.hits,
        )  # fmt: skip
    except (PatternError, PointerError) as error:
        return {"error": str(error)}
    rows = [
        {"hits": row.hits, "spans": [[*span] for span in row.spans]} for row in pattern_count.rows
    ]
    first = [[*span] for span in pattern_count.first]
    return {"error": None, **pattern_count.to_dict(), "rows": rows, "first": first}


def from_fact(fact: Mapping[str, Any]) -> PatternCount | None:
    """The count in a fact; None if it has an error."""
    if fact["error"] is not None:
        return None
    rows = (CountRow(tuple(map(tuple, row["spans"])), row["hits"]) for row in fact["rows"])
    numbers = {name: fact[name] for name in ("by", "hits", "lines", "chunks", "values")}
    return PatternCount(**numbers, rows=tuple(rows), first=tuple(map(tuple, fact["first"])))


def from_state(entry: Mapping[str, Any]) -> Count:
    """What was asked, from an entry of the state."""
    values = {name: entry[name] for name in ("pattern", "by", "ignore_case", "top_k", "hits")}
    scope = Scope(entry["scope"]["chunks"], tuple(entry["scope"]["files"]))
    return Count(**values, scope=scope)


def table(
    count: PatternCount,
    context: Context,
    text: Callable[[int, int], str],
    redact: Callable[[str], str] = str,
) -> str:
    """The rows, a line each; ``text`` gives that of a range of bytes."""

    def quoted(name: str) -> str:
        return quote(name, len(name))

    def label(row: CountRow) -> str:
        if count.by == CHUNK:
            [(start, _)] = row.spans
            return f"chunk:{chunk_id(start // context.layout.step)}"
        places = ", ".join(f"{start}-{end}" for start, end in row.spans)
        if count.by != FILE:
            values = ", ".join(quoted(text(start, end)) for start, end in row.spans)
            return f"{values}, first at bytes {places}"
        if not row.spans:
            return "outside of all files"
        file = context.files[bisect_right(context.files.ends, row.spans[0][0])]
        return f"{quoted(redact(file.path))}, bytes {places}"

    return "\n".join(f"{row.hits:,}: {label(row)}" for row in count.rows)
