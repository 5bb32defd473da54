"""What is worth telling of a piece of code besides its names: what it demands, what it dares."""

from __future__ import annotations

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Kinds of a note about what always holds, in the order of a page.
RAISES = "raises"
ASSERTS = "asserts"
FROZEN = "frozen"
CHOICES = "choices"
FINAL = "final"
ABSTRACT = "abstract"

#: How a page calls them.
INVARIANTS: Mapping[str, str] = {
    RAISES: "Refused arguments and states",
    ASSERTS: "Asserted when it is loaded",
    FROZEN: "Immutable",
    CHOICES: "One of a fixed set",
    FINAL: "Set once",
    ABSTRACT: "Left to subclasses",
}

#: Kinds of a note about what may go wrong in operation, the most severe first.
SHELL = "shell"
CODE = "code"
OBJECTS = "objects"
DELETES = "deletes"
PROGRAM = "program"
NETWORK = "network"
THREADS = "threads"
MEMORY = "memory"
ENVIRONMENT = "environment"
ENDS = "ends"
SWALLOWS = "swallows"
MARKER = "marker"

RISKS: Mapping[str, str] = {
    SHELL: "Asks a shell",
    CODE: "Evaluates code",
    OBJECTS: "Loads objects from bytes",
    DELETES: "Deletes files",
    PROGRAM: "Starts other programs",
    NETWORK: "Speaks to a network",
    THREADS: "Starts threads or processes",
    MEMORY: "Works outside of memory safety",
    ENVIRONMENT: "Depends on environment variables",
    ENDS: "Ends the process",
    SWALLOWS: "Swallows errors",
    MARKER: "Marked as to do",
}

#: Notes of one kind that are kept of one file.
MOST = 200
#: Lines that the place of a note has at most.
LONGEST = 12


class CodeNote(Row):
    """One of them: where, in what definition (``""``: none), and the words for it.

    ``text`` is from the code as it stands, and is data. ``detail`` is too: a message, a name.
    """

    kind: str
    line_start: int
    line_end: int
    within: str
    text: str
    detail: str = ""


def folded(text: str, limit: int = 160) -> str:
    """A piece of code on one line, within a limit."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def bounded(notes: list[CodeNote]) -> list[CodeNote]:
    """In order of their places, of each kind as many as are kept."""
    counts: dict[str, int] = {}
    kept = []
    for note in sorted(notes, key=lambda note: (note.line_start, note.kind, note.text)):
        counts[note.kind] = counts.get(note.kind, 0) + 1
        if counts[note.kind] <= MOST:
            kept.append(note)
    return kept
