"""The messages of errors of a module, word for word: who has seen one finds its place."""

from __future__ import annotations

from rlm_ci.text.neutralise import code, prose
from rlm_ci.wiki.facts.note import MESSAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.citations import CitationRegister

#: Messages of a page.
_MOST = 100


def messages(
    files: Sequence[FileFacts], register: CitationRegister, shown: Collection[tuple[str, int]]
) -> tuple[list[dict[str, str]], int]:
    """A row for each message, and how many are left out.

    Those that end in one of ``shown``, paths with lines, stand elsewhere on the page.
    """
    placed_notes = [
        (file, note)
        for file in files
        for note in file.notes
        if note.kind == MESSAGE and (file.path, note.line_end) not in shown
    ]
    rows = [
        {
            "text": prose(note.detail),
            "error": code(note.text),
            "within": code(note.within) if note.within else "",
            "link": register.link(facts.path, note.line_start, note.line_end),
        }
        for facts, note in placed_notes[:_MOST]
    ]
    return rows, len(placed_notes) - len(rows)
