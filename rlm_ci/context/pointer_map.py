"""``pointers.md``: for a person, what the pointers of an object are and which files stand where."""

from __future__ import annotations

from rlm_ci.context.index import NAME
from rlm_ci.context.pointers import Pointers, chunk_id
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.context.builder.file_table import SourceFile
    from rlm_ci.context.index import IndexHeader
    from rlm_ci.context.pointers import ChunkLayout

#: Files that are listed.
_LISTED = 2000


def pointer_map(known: IndexHeader) -> str:
    """The page, as Markdown."""
    layout = known.layout
    pointers = Pointers(known.object_id, layout)
    cut = f"{count(layout.count, 'chunk')} of {count(layout.target, 'byte')}"
    lines = [
        "# Context",
        "",
        f"Object `{known.object_id}`: {count(layout.size, 'byte')}, in {cut}.",
        f"A chunk repeats the last {count(layout.overlap, 'byte')} of the one before.",
        "",
    ]
    if layout.count:
        lines += [
            f"- the first chunk: `{pointers.to_chunk(0)}`",
            f"- the last chunk: `{pointers.to_chunk(layout.count - 1)}`",
            f"- bytes of one's own choice: `{pointers.to_bytes(0, min(layout.size, 100))}`",
            "",
        ]
    if known.files:
        lines += ["| file | bytes | chunks |", "|---|---|---|"]
        lines += [_row(piece, layout) for piece in known.files[:_LISTED]]
        if len(known.files) > _LISTED:
            lines += ["", f"{count(len(known.files) - _LISTED, 'more file')}: see {NAME}."]
        lines.append("")
    return "\n".join(lines)


def _row(piece: SourceFile, layout: ChunkLayout) -> str:
    name = printable(piece.path).replace("`", "'").replace("|", "\\|")
    span = f"{piece.start}-{piece.end}"
    if piece.start == piece.end:
        return f"| `{name}` | {span} | |"
    numbers = layout.at(piece.start), layout.at(piece.end - 1)
    first, last = (chunk_id(number) for number in numbers)
    return f"| `{name}` | {span} | {first if first == last else f'{first} to {last}'} |"
