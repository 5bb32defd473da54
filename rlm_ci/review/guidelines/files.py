"""Files of a repository that say what its maintainers wish for, and for which paths.

Known are ``AGENTS.md``, ``CLAUDE.md`` and ``CONTRIBUTING.md`` of each folder, the files of GitHub
Copilot below ``.github`` and the rules of Cursor.
"""

from __future__ import annotations

import re

from rlm_ci.text.globs import matcher
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Ranks: what is about few files comes before what is about all.
SETTINGS, BY_PATTERN, BY_FOLDER, GENERAL = range(4)
_OF_FOLDER = ("AGENTS.md", "CLAUDE.md")
_GENERAL = "CONTRIBUTING.md"
_COPILOT = ".github/copilot-instructions.md"
_INSTRUCTIONS = ".github/instructions/"
_CURSOR = ".cursor/rules/"
_EVERYTHING = ("*", "**", "**/*")
#: Patterns of one file, braces written out.
_PATTERNS = 100
_BRACES = re.compile(r"\{([^{}]*)\}")
_FIELD = re.compile(r"([A-Za-z]+)[ \t]*:(.*)")


class GuidelineScope(Value):
    """The paths that a file is about: all below ``folder`` that ``patterns`` match, if any."""

    _is_row = True

    rank: int
    folder: str = ""
    patterns: tuple[str, ...] = ()

    def test(self) -> Callable[[str], bool]:
        """Raises ValueError for a pattern that cannot be read."""
        folder = self.folder
        matches = matcher(self.patterns) if self.patterns else None

        def is_about(path: str) -> bool:
            is_below = path.startswith(folder)
            return is_below and (matches is None or matches(path[len(folder) :]))

        return is_about


def candidate(path: str) -> bool:
    """Whether a file with this path may be a guideline."""
    name = path.rpartition("/")[2]
    is_rule = _CURSOR in path and name.endswith((".mdc", ".md"))
    is_instruction = path.startswith(_INSTRUCTIONS) and name.endswith(".instructions.md")
    return name in (*_OF_FOLDER, _GENERAL) or path == _COPILOT or is_instruction or is_rule


def folder_of(path: str) -> str:
    """The folder, with a slash, below which a candidate may be about files; "" for all."""
    if path.startswith(".github/"):
        return ""
    before, rules, _ = path.rpartition(_CURSOR)
    if rules and (not before or before.endswith("/")):
        return before
    folder = path[: path.rfind("/") + 1]
    return "" if folder == "docs/" and path.endswith(_GENERAL) else folder


def scope_of(path: str, head: Mapping[str, Sequence[str]]) -> GuidelineScope | None:
    """The scope of the candidate ``path`` whose front matter is ``head``; None for no file.

    A file of Copilot or Cursor that does not say what it is about is for requests by name.
    """
    name = path.rpartition("/")[2]
    folder = folder_of(path)
    if name in _OF_FOLDER or path == _COPILOT:
        return GuidelineScope(BY_FOLDER, folder)
    if name == _GENERAL:
        return GuidelineScope(GENERAL, folder)
    if path.startswith(_INSTRUCTIONS):
        if "code-review" in head.get("excludeAgent", ()):
            return None
        patterns = head.get("applyTo", ())
    elif [word.casefold() for word in head.get("alwaysApply", ())] == ["true"]:
        return GuidelineScope(BY_FOLDER, folder)
    else:
        patterns = head.get("globs", ())
    written = [glob for pattern in patterns for glob in _without_braces(pattern)][:_PATTERNS]
    if not written:
        return None
    if any(glob in _EVERYTHING for glob in written):
        return GuidelineScope(BY_FOLDER, folder)
    return GuidelineScope(BY_PATTERN, folder, tuple(written))


def front_matter(text: str) -> tuple[dict[str, tuple[str, ...]], int]:
    """The fields of a file's front matter, each as a list, and the number of its lines.

    It is read as Copilot and Cursor write it, which is not always YAML: ``globs: *.ts,*.tsx``.
    """
    lines = text.split("\n")
    if lines[0].strip() != "---":
        return {}, 0
    fields: dict[str, list[str]] = {}
    field: list[str] = []
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return {name: tuple(words) for name, words in fields.items()}, number
        match = _FIELD.match(line)
        if match:
            field = fields.setdefault(match[1], [])
            field += _words(match[2])
        elif line.strip().startswith("- "):
            field += _words(line.strip()[2:])
    return {}, 0


def _words(value: str) -> list[str]:
    """The words of a list in brackets, in quotes, or with commas between them."""
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        value = value[1:-1]
    words, word, depth = [], "", 0
    for char in value:
        depth += (char == "{") - (char == "}")
        if char == "," and depth <= 0:
            words.append(word)
            word = ""
        else:
            word += char
    bare = (raw.strip().strip("\"'").strip() for raw in (*words, word))
    return [entry for entry in bare if entry]


def _without_braces(pattern: str) -> list[str]:
    """``*.{ts,tsx}`` as two patterns; a pattern for too many is dropped."""
    done: list[str] = []
    left = [pattern]
    while left:
        glob = left.pop(0)
        match = _BRACES.search(glob)
        if not match:
            done.append(glob)
            continue
        left += [glob[: match.start()] + word + glob[match.end() :] for word in match[1].split(",")]
        if len(left) + len(done) > _PATTERNS:
            return []
    return done
