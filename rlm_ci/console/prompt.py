"""Questions to the person at the terminal."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.console.progress import Progress


def asker(progress: Progress) -> Callable[[str], str] | None:
    """Puts a question to the person at the terminal; None where there is nobody."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None

    has_left = False

    def ask(question: str) -> str:
        nonlocal has_left
        if has_left:
            return ""
        with progress.paused():
            sys.stderr.write(question)
            sys.stderr.flush()
            try:
                answer = sys.stdin.readline()
            except BaseException:  # Ctrl-C leaves the cursor behind the question
                sys.stderr.write("\n")
                raise
            if not answer:
                has_left = True
                sys.stderr.write("\n")
        return answer

    return ask
