"""Diagrams in a fixed subset of Mermaid, in which no text from outside is ever syntax."""

from __future__ import annotations

from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ./-_")
_LONGEST = 48


class DiagramBox(Value):
    """``key`` identifies the box and is never shown; ``group`` is the label of a frame, or ""."""

    key: str
    label: str
    group: str = ""


class DiagramFrame(Value):
    """Around messages: ``alt``, ``opt`` or ``loop``. Frames with one ``key`` exclude each other."""

    kind: str
    key: str
    text: str


class Message(Value):
    """A call between two participants, by their names; the source "" is who calls from outside.

    ``note`` stands beside the target; ``frames`` are around it, the outermost first.
    """

    source: str
    target: str
    text: str
    note: str = ""
    frames: tuple[DiagramFrame, ...] = ()


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
    names = dict.fromkeys(name for message in messages for name in (message.source, message.target))
    numbers = {name: number for number, name in enumerate(names)}
    lines = ["```mermaid", "sequenceDiagram", "  autonumber"]
    lines += [f"  participant p{numbers[name]} as {label(name or 'caller')}" for name in names]
    arms: dict[str, set[str]] = {}
    for frame in (frame for message in messages for frame in message.frames):
        arms.setdefault(frame.key, set()).add(frame.text)
    before: tuple[DiagramFrame, ...] = ()
    for message in messages:
        lines += _frames(before, message.frames, arms)
        before = message.frames
        source, target = numbers[message.source], numbers[message.target]
        indent = "  " * (len(message.frames) + 1)
        lines.append(f"{indent}p{source}->>p{target}: {label(message.text)}")
        if message.note:
            lines.append(f"{indent}Note over p{target}: {label(message.note)}")
    return "\n".join([*lines, *_frames(before, (), arms), "```"])


def _frames(
    before: Sequence[DiagramFrame],
    after: Sequence[DiagramFrame],
    arms: Mapping[str, Collection[str]],
) -> Iterator[str]:
    """The lines that end the frames of one message, and begin those of the next.

    One of ``arms`` that stands alone is drawn as what may be skipped.
    """
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    is_other_arm = (
        same < min(len(before), len(after))
        and before[same].key == after[same].key
        and after[same].kind == "alt"
    )
    yield from (
        "  " * (at + 1) + "end" for at in range(len(before) - 1, same - 1 + is_other_arm, -1)
    )
    for at in range(same, len(after)):
        frame, indent = after[at], "  " * (at + 1)
        word = "opt" if frame.kind == "alt" and len(arms[frame.key]) == 1 else frame.kind
        word = "else" if is_other_arm and at == same else word
        yield f"{indent}{word} {label(frame.text)}"
