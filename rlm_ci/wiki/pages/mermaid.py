"""Diagrams from a fixed subset of Mermaid, all of it written here: boxes, groups and arrows.

No text of a repository is ever syntax: a label stands in quotes, and whatever is not a plain
letter, digit or one of a few signs is written as the number of its character.
"""

from __future__ import annotations

from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ./-_")
_LONGEST = 48
#: Arrows that one diagram has at most: Mermaid refuses more than 500.
MOST_ARROWS = 120


class DiagramBox(Value):
    """``key`` tells boxes apart and is never shown; ``group`` is the label of a frame, or ""."""

    key: str
    label: str
    group: str = ""


def label(text: str) -> str:
    """A text as the inside of a quoted label."""
    text = printable(text)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 1]}…"
    # Mermaid would take a label that begins with a number and a dot for a list.
    escaped = "".join(char if char in _PLAIN else f"#{ord(char)};" for char in text)
    return escaped.strip() or "#8203;"


def flowchart(boxes: Sequence[DiagramBox], arrows: Iterable[tuple[str, str]]) -> str:
    """The diagram as a fenced block of Markdown; arrows go from key to key."""
    numbers = {box.key: number for number, box in enumerate(boxes)}
    lines = ["```mermaid", "flowchart LR"]
    for number, (name, inner) in enumerate(_grouped(boxes).items()):
        indent = "  "
        if name:
            lines.append(f'  subgraph g{number}["{label(name)}"]')
            indent = "    "
        lines += [f'{indent}n{numbers[box.key]}["{label(box.label)}"]' for box in inner]
        if name:
            lines.append("  end")
    seen: dict[tuple[int, int], None] = {}
    for source, target in arrows:
        if source in numbers and target in numbers and source != target:
            seen[numbers[source], numbers[target]] = None
    drawn = list(seen)[:MOST_ARROWS]
    lines += [f"  n{source} --> n{target}" for source, target in drawn]
    return "\n".join([*lines, "```"])


def _grouped(boxes: Iterable[DiagramBox]) -> Mapping[str, list[DiagramBox]]:
    groups: dict[str, list[DiagramBox]] = {}
    for box in boxes:
        groups.setdefault(box.group, []).append(box)
    return groups
