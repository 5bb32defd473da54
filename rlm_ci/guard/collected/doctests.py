"""Examples in the comments of Rust, which run as tests."""

from __future__ import annotations

import re

from rlm_ci.guard.weakening import Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlm_ci.guard.weakening import TextChange

LEFT_OUT = "test-skipped"

_FENCE = re.compile(r"^[ \t]*//[/!][ \t]*```+[ \t]*([^\n`]*)$", re.MULTILINE)
_RUNS = re.compile(r"(?:rust|should_panic|edition\d+|[\s,])*")
_STOPPED = re.compile(r"\b(?:ignore(?!-)\S*|no_run|text|compile_fail)\b")


def left_out(changes: Iterable[TextChange]) -> Iterator[Weakening]:
    """The examples that no longer run: of a file that has fewer which do."""
    for change in changes:
        (ran, stopped_before), (runs, stopped) = (
            _examples(text or "") for text in (change.before, change.after)
        )
        if len(runs) < len(ran) and len(stopped) > len(stopped_before):
            line, word = stopped[len(stopped_before)]
            yield Weakening(
                LEFT_OUT, f"an example no longer runs: ```{word[:60]}", change.path, line
            )


def _examples(text: str) -> tuple[list[int], list[tuple[int, str]]]:
    """The lines of the examples that run, and of those that do not, with what says so."""
    runs, stopped = list[int](), list[tuple[int, str]]()
    if "```" not in text:
        return runs, stopped
    for match in list(_FENCE.finditer(text))[::2]:
        line = text.count("\n", 0, match.start()) + 1
        if _RUNS.fullmatch(match[1]):
            runs.append(line)
        elif _STOPPED.search(match[1]):
            stopped.append((line, match[1].strip()))
    return runs, stopped
