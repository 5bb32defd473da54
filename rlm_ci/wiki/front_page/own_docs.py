"""The documents that a project has of its own, as links."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.wiki.pages.module_page import PageSources

#: Documents for whoever uses or changes the project, in this order; LICENSE and the like say
#: nothing of the program.
_KNOWN = ("readme", "contributing", "hacking", "development", "architecture", "design", "security",
          "changelog", "changes", "history")  # fmt: skip
_TEXTS = ("md", "markdown", "rst", "txt", "adoc")
#: Where longer documentation begins.
_BEGINS = re.compile(r"(?:docs?|documentation)/(?:source/|src/|content/)?(?:index|readme|intro\w*)")
_MOST = 12


def own_docs(world: PageSources) -> list[str]:
    """A link for each document, the README first."""
    found = []
    for path, one in world.files.items():
        stem, _, suffix = path.lower().rpartition(".")
        stem, suffix = (stem, suffix) if stem else (suffix, "txt")
        stem = stem.removeprefix(".github/").removeprefix("docs/")
        if suffix not in _TEXTS or not one.outline.lines:
            continue
        if stem in _KNOWN:
            found.append((_KNOWN.index(stem), path))
        elif _BEGINS.fullmatch(path.lower().rpartition(".")[0]):
            found.append((1, path))
    return [world.register.file(path) for _, path in sorted(found)[:_MOST]]
