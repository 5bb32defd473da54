"""What the agent asks of the code itself: definitions, references, outlines, the history."""

from __future__ import annotations

from rlm_ci.environments.coding import replace_text
from rlm_ci.environments.quoting import OUTPUT_LIMIT, numbered, quoted, visible
from rlm_ci.errors import DamagedError
from rlm_ci.git.history import of_lines
from rlm_ci.source import UNPARSED
from rlm_ci.source.outline import outline
from rlm_ci.text.printable import clip, count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.git.repository import Repository
    from rlm_ci.source.uses.references import ReferenceIndex

#: Definitions whose lines are shown, lines of each, and rows of any answer.
_SHOWN, _LINES, _ROWS = 3, 120, 100
#: Bytes of a history.
_HISTORY = 64 << 10


def definition(index: ReferenceIndex, text_of: Callable[[str], str], name: str) -> str:
    """The definitions of ``name``: the first with their lines, the others by place and head."""
    definitions = index.definitions(name)
    if not definitions:
        return f"No file that can be parsed defines {printable(name)}: search for it."
    shown = []
    for definition in definitions[:_SHOWN]:
        first, last = definition.symbol.line_start, definition.symbol.line_end
        lines = replace_text.lines(text_of(definition.path))
        room = OUTPUT_LIMIT // _SHOWN
        shown.append(numbered(definition.path, lines, first, min(last - first + 1, _LINES), room))
    others = [
        f"{definition.path}:{definition.symbol.line_start}: {visible(definition.symbol.signature)}"
        for definition in definitions[_SHOWN:_ROWS]
    ]
    if others:
        shown.append(
            quoted(f"{count(len(definitions) - _SHOWN, 'more definition')}", "\n".join(others))
        )
    return "\n".join(shown)


def references(index: ReferenceIndex, name: str) -> str:
    """The uses of ``name``; first those in files that define it or import a definition."""
    all_uses = index.references(name)
    head = f"{count(len(all_uses), 'use')} of {printable(name)}"
    groups = [
        ("", [reference for reference in all_uses if reference.connected]),
        (
            "elsewhere, perhaps another of this name:",
            [reference for reference in all_uses if not reference.connected],
        ),
    ]
    rows = []
    for title, uses in groups:
        if title and uses:
            rows.append(title)
        for use in uses:
            within = f" in {use.within}" if use.within else ""
            rows.append(f"{use.path}:{use.line}: {use.kind}{within}: {visible(use.text)}")
    if len(rows) > _ROWS:
        head += f"; the first {_ROWS}"
    return quoted(head, clip("\n".join(rows[:_ROWS]), OUTPUT_LIMIT))


def outlined(path: str, content: bytes) -> str:
    """The definitions of a file by their lines, indented as they are nested."""
    file_outline = outline(path, content)
    if file_outline.state == UNPARSED:
        return f"{path} cannot be parsed ({file_outline.language}): read it."
    rows = [
        f"{symbol.line_start}-{symbol.line_end}\t{'  ' * symbol.name.count('.')}{symbol.kind} "
        f"{visible(symbol.signature or symbol.name)}"
        for symbol in file_outline.symbols
    ]
    head = f"{path}, {file_outline.language}, {count(file_outline.lines, 'line')}"
    return quoted(head, clip("\n".join(rows), OUTPUT_LIMIT)) if rows else f"{head}: no definitions."


def history(repository: Repository, commit: str, path: str, lines: tuple[int, int]) -> str:
    """The commits that changed lines of a file, numbered as at ``commit``."""
    first, last = lines
    try:
        data = of_lines(repository, commit, path, first, last)
    except DamagedError as error:
        return f"No history: {printable(str(error))}"
    rows = data[:_HISTORY].decode("utf-8", "replace").split("\n")
    return quoted(
        f"Commits that changed {path}, lines {first}-{last}", "\n".join(map(visible, rows))
    )
