"""What a wiki says of a file besides its names: texts with their lines, invariants and risks."""

from __future__ import annotations

from collections import Counter

from rlm_ci.text.neutralise import clip
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Kinds of a note about what always holds, with their headings, in the order of a page.
INVARIANTS: Mapping[str, str] = {
    "raises": "Refused arguments and states",
    "asserts": "Asserted when it is loaded",
    "frozen": "Immutable",
    "choices": "One of a fixed set",
    "final": "Set once",
    "abstract": "Left to subclasses",
}
#: Kinds of a note about what may go wrong in operation, the most severe first.
RISKS: Mapping[str, str] = {
    "shell": "Asks a shell",
    "code": "Evaluates code",
    "objects": "Loads objects from bytes",
    "deletes": "Deletes files",
    "program": "Starts other programs",
    "network": "Speaks to a network",
    "threads": "Starts threads or processes",
    "memory": "Works outside of memory safety",
    "environment": "Depends on environment variables",
    "ends": "Ends the process",
    "swallows": "Swallows errors",
    "marker": "Marked as to do",
}
#: The kind of a note about an error that is raised; ``detail`` is its name.
THROWS = "throws"
#: Kinds of notes about how code fails: see ``surface``.
MESSAGE, EXIT, CAUGHT, CODE_OF = "message", "exit", "caught", "code of"
#: Kinds of notes about what sets the program: see ``surface.settings``.
OPTION, SETTINGS, CONFIG_FILE = "option", "settings", "configuration file"
CONFIG_KEYS = "configuration keys"
#: The kind of a note about a list that is added to: see ``surface.registries``.
REGISTRY = "registry"
#: The kind of a note about where tests are taken from: see ``surface.tested_paths``.
TESTS = "tests"
#: Kinds of which no page has a list of its own that counts as something to say.
UNCOUNTED = frozenset((THROWS, MESSAGE, EXIT, CAUGHT, CODE_OF, OPTION, SETTINGS, CONFIG_FILE,
                       CONFIG_KEYS, REGISTRY, TESTS))  # fmt: skip
#: Notes of one kind that are kept of one file.
MOST = 200
#: Lines of a note's place.
LONGEST = 12


class Statement(Row):
    """A text of the repository, and its lines."""

    text: str
    line_start: int
    line_end: int


class Chapter(Row):
    """A heading of a guide, its lines, and the ``paths`` that its text names, one a line."""

    text: str
    line_start: int
    line_end: int
    paths: str = ""


class CodeNote(Row):
    """A note about code: its lines, the definition around them, and texts from the code."""

    kind: str
    line_start: int
    line_end: int
    within: str
    text: str
    detail: str = ""


def folded(text: str, limit: int = 160) -> str:
    """A piece of code on one line, within a limit."""
    return clip(" ".join(text.split()), limit)


def bounded(notes: list[CodeNote]) -> list[CodeNote]:
    """The notes in order of their places, ``MOST`` of each kind."""
    counts: Counter[str] = Counter()
    code_notes = []
    for note in sorted(notes, key=lambda note: (note.line_start, note.kind, note.text)):
        counts[note.kind] += 1
        if counts[note.kind] <= MOST:
            code_notes.append(note)
    return code_notes
