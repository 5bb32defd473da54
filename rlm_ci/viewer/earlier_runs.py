"""The spans of a run that wrote none, from the places of its facts: older versions had only these.

They have the calls and commands with their times, below groups with the names of their places.
"""

from __future__ import annotations

from rlm_ci.runs.journal.spans import DONE, SpanRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rlm_ci.viewer.folder import RecordedCall


def spans_of(
    calls: Sequence[RecordedCall], nodes: Container[str]
) -> tuple[dict[str, SpanRecord], list[RecordedCall]]:
    """A span for each folder of places that is no node; and the facts, each with its span."""
    spans: dict[str, SpanRecord] = {}
    placed = []
    for call in calls:
        parts = call.position.split("/")[:-1]
        for depth, part in enumerate(parts, 1):
            path, parent = "/".join(parts[:depth]), "/".join(parts[: depth - 1])
            if path not in spans and path not in nodes:
                spans[path] = SpanRecord(path, parent, "group", part.replace("-", " "))
                spans[path].outcome = DONE
        placed.append(call.replace(span="/".join(parts)))
    return spans, placed
