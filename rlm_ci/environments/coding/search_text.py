"""Search in the lines of texts, literally or by a regular expression with a time limit."""

from __future__ import annotations

from rlm_ci.environments.coding import replace_text
from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted, visible
from rlm_ci.system.safe_tree import Refused
from rlm_ci.text.patterns import LinePattern, PatternError
from rlm_ci.text.printable import clip, count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Hits that are listed.
HITS = 100


def literal(text: str, *, fold: bool) -> Callable[[str], bool]:
    """Whether a text contains ``text``."""
    needle = text.casefold() if fold else text
    return lambda line: needle in (line.casefold() if fold else line)


def expression(text: str, *, fold: bool) -> Callable[[str], bool]:
    """Whether a line matches the regular expression ``text``. Raises Refused for a wrong one."""
    try:
        pattern = LinePattern(text, fold=fold)
    except PatternError as error:
        raise Refused(str(error)) from None

    def is_hit(line: str) -> bool:
        try:
            return pattern.is_in(line)
        except PatternError as error:
            raise Refused(str(error)) from None

    return is_hit


def search(
    texts: Iterable[tuple[str, str]], pattern: str, *, regex: bool, fold: bool, around: int
) -> str:
    """The lines of ``texts`` (by path) that contain ``pattern``, with ``around`` lines at each.

    Raises Refused for a text that no line can contain, and for a wrong or slow expression.
    """
    if not pattern or "\n" in pattern:
        raise Refused("text is one line or a part of one")
    matches = (expression if regex else literal)(pattern, fold=fold)
    shown: list[str] = []
    number = files = 0
    for path, text in texts:
        if not regex and not matches(text):
            continue
        lines = replace_text.lines(text)
        hits = [at for at, line in enumerate(lines) if matches(line)]
        files += bool(hits)
        shown += _shown(path, lines, hits[: max(0, HITS - number)], around)
        number += len(hits)
    head = f"{count(number, 'line')} in {count(files, 'file')}"
    if number > HITS:
        head += f"; the first {HITS}"
    return quoted(head, clip("\n".join(shown), OUTPUT_LIMIT))


def _shown(path: str, lines: Sequence[str], hits: Sequence[int], around: int) -> Iterator[str]:
    """The hits as ``path:number: line``, lines around them as ``path-number- line``."""
    numbers, last = frozenset(hits), -1
    for hit in hits:
        first = max(last + 1, hit - around)
        if around and 0 <= last < first - 1:
            yield "--"
        last = max(last, min(len(lines) - 1, hit + around))
        for at in range(first, last + 1):
            mark = ":" if at in numbers else "-"
            yield f"{path}{mark}{at + 1}{mark} {visible(lines[at])}"
