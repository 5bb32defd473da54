"""The documents that a project has of its own, as links."""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import prose
from rlm_ci.wiki.facts.commands import TEXTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.wiki.pages.module_page import PageSources

#: Documents for whoever uses or changes the project, in this order; LICENSE and the like say
#: nothing of the program.
_KNOWN = ("readme", "contributing", "hacking", "development", "architecture", "design", "security",
          "changelog", "changes", "history")  # fmt: skip
#: Where longer documentation begins.
_BEGINS = re.compile(r"(?:docs?|documentation)/(?:source/|src/|content/)?(?:index|readme|intro\w*)")
_MOST, _CHAPTERS = 6, 5
_ADDS = re.compile(r"(?i)\b(?:add|new|creat|writ|implement|extend)")
#: Headings of chapters on how to do something.
_TEACHES = re.compile(
    r"(?i)\b(?:add|adding|new|creat|writ|implement|extend|support|tests?|testing|set ?up"
    r"|setting|build|building|develop|debug|release|releasing|architecture|structure|layout|organi[sz])"
)


def own_docs(world: PageSources) -> list[str]:
    """A link for each document, the README first."""
    documents = []
    for path, file in world.files.items():
        stem, _, suffix = path.lower().rpartition(".")
        stem, suffix = (stem, suffix) if stem else (suffix, "txt")
        stem = stem.removeprefix(".github/").removeprefix("docs/")
        if suffix not in TEXTS or not file.outline.lines:
            continue
        if stem in _KNOWN:
            documents.append((_KNOWN.index(stem), path))
        elif _BEGINS.fullmatch(path.lower().rpartition(".")[0]):
            documents.append((1, path))
    return [_linked(path, world) for _, path in sorted(documents)[:_MOST]]


def _linked(path: str, world: PageSources) -> str:
    """A document, and the chapters of a guide that say how something is added or run."""
    link = world.register.file(path)
    chapters = [chapter for chapter in world.files[path].chapters if _TEACHES.search(chapter.text)]
    chapters.sort(key=lambda statement: not _ADDS.search(statement.text))
    shown = [
        world.register.linked_name(prose(chapter.text), path, chapter.line_start, chapter.line_end)
        for chapter in chapters[:_CHAPTERS]
    ]
    return f"{link}: {', '.join(shown)}" if shown else link
