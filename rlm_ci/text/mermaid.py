"""Diagrams in a fixed subset of Mermaid, in which no text from outside is ever syntax."""

from __future__ import annotations

from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ./-_")
_LONGEST = 48


class DiagramBox(Value):
    """``key`` identifies the box and is never shown; ``group`` is the label of a frame, or ""."""

    key: str
    label: str
    group: str = ""


class Message(Value):
    """A call between two participants, by their names; the source "" is who calls from outside.

    ``is_sure`` draws a whole line, else a dotted one; ``note`` stands beside the target.
    """

    source: str
    target: str
    text: str
    is_sure: bool = True
    note: str = ""


def label(text: str) -> str:
    text = clip(printable(text), _LONGEST)
    # Mermaid would take a label that begins with a number and a dot for a list.
    escaped = "".join(char if char in _PLAIN else f"#{ord(char)};" for char in text)
    return escaped.strip() or "#8203;"


def flowchart(boxes: Sequence[DiagramBox], arrows: Iterable[tuple[str, str]]) -> str:
    """The diagram as a fenced block of Markdown; arrows go from key to key."""
    numbers = {box.key: number for number, box in enumerate(boxes)}
    groups: dict[str, list[DiagramBox]] = {}
    for box in boxes:
        groups.setdefault(box.group, []).append(box)
    lines = ["```mermaid", "flowchart TD"]
    for number, (name, inner) in enumerate(groups.items()):
        indent = "    " if name else "  "
        rows = [f'{indent}n{numbers[box.key]}["{label(box.label)}"]' for box in inner]
        lines += [f'  subgraph g{number}["{label(name)}"]', *rows, "  end"] if name else rows
    lines += [f"  n{numbers[source]} --> n{numbers[target]}" for source, target in arrows]
    return "\n".join([*lines, "```"])


def sequence(messages: Sequence[Message]) -> str:
    """The messages in order, numbered, as a fenced block of Markdown."""
    names = dict.fromkeys(name for one in messages for name in (one.source, one.target))
    numbers = {name: number for number, name in enumerate(names)}
    lines = ["```mermaid", "sequenceDiagram", "  autonumber"]
    lines += [f"  participant p{numbers[name]} as {label(name or 'caller')}" for name in names]
    for one in messages:
        arrow = "->>" if one.is_sure else "-->>"
        source, target = numbers[one.source], numbers[one.target]
        lines.append(f"  p{source}{arrow}p{target}: {label(one.text)}")
        if one.note:
            lines.append(f"  Note over p{target}: {label(one.note)}")
    return "\n".join([*lines, "```"])
