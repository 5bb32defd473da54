"""A repair as a suggestion: the lines of the diff that it edits, and what they become."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.patches import Hunk

#: Lines that a suggestion may replace.
_MOST = 40


class _Edits:
    """What a patch does to the lines of a file: which go, and what comes behind which."""

    def __init__(self, hunks: tuple[Hunk, ...]) -> None:
        self.gone: dict[int, str] = {}
        self.added: dict[int, list[str]] = {}
        for hunk in hunks:
            at = hunk.old_start - (1 if hunk.old_count else 0)
            for line in hunk.lines:
                if line.kind == "+":
                    self.added.setdefault(at, []).append(line.text)
                    continue
                at += 1
                if line.kind == "-":
                    self.gone[at] = line.text

    def applied(self, first: int, texts: list[str]) -> str:
        """The lines ``texts``, of which the first is number ``first``, once they are edited."""
        lines = list(self.added.get(first - 1, ()))
        for number, text in enumerate(texts, first):
            lines += [] if number in self.gone else [text]
            lines += self.added.get(number, ())
        return "".join(f"{line}\n" for line in lines)


def replaced(
    patch: str, path: str, hunk: Hunk, span: tuple[int, int]
) -> tuple[int, int, str] | None:
    """The first and the last line to replace, and the text for them; None if it cannot be.

    The lines are those of ``span`` and all that ``patch`` edits; ``hunk``, of the diff of
    ``path``, must have all of them on its new side, as the patch knows them.
    """
    from rlm_ci.git import patches  # a report without a repair needs no parser

    try:
        edited = patches.hunks_by_path(patch)
    except ValueError:
        return None
    if list(edited) != [path]:
        return None
    edits = _Edits(edited[path])
    low, high = hunk.span("new")
    # What is added behind a line goes with it; at the top of a file, with the first one.
    touched = [*edits.gone, *(max(at, 1) for at in edits.added)]
    first, last = min((*touched, span[0])), max((*touched, span[1]))
    if not touched or not low <= first <= last <= high or last - first >= _MOST:
        return None
    texts = [line.removesuffix("\r") for line in hunk.texts("new", first, last)]
    if any(texts[at - first] != text.removesuffix("\r") for at, text in edits.gone.items()):
        return None
    return first, last, edits.applied(first, texts)
