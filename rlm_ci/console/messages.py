"""The result of a run on standard output, messages on standard error."""

from __future__ import annotations

import os
import sys

from rlm_ci.config.settings import environment
from rlm_ci.errors import RlmCiError, StorageError
from rlm_ci.text.printable import printable

#: Whether the program that reads standard output ended first.
_unread = [False]


def is_unread() -> bool:
    """Whether nobody reads standard output any more; a run goes on to its end."""
    return _unread[0]


def write(text: str) -> None:
    """The result, on standard output, as UTF-8 whatever the locale. Raises StorageError.

    Where its reader has ended (``rlm-ci list | head``), the text is lost without a word.
    """
    if sys.stdout is None:
        raise StorageError(
            "the result cannot be written: it is closed",
            where="standard output",
            hint="use --output FILE",
        )
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        # The interpreter must not flush the buffer again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            _unread[0] = True
            return
        raise StorageError(
            f"the result cannot be written: {error.strerror}",
            where="standard output",
            hint="make room, or use --output FILE",
        ) from None


def say(text: str) -> None:
    """A message on standard error; never a command for the runner's log."""
    from rlm_ci.redaction.redactor import Redactor

    line = printable(Redactor(environment()).text(text)).replace("##[", "##\\x5b")
    _to_stderr(line.replace("::", ":\\x3a") if line.lstrip().startswith("::") else line)


def _to_stderr(line: str) -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.buffer.write(f"{line}\n".encode("utf-8", "backslashreplace"))
        sys.stderr.buffer.flush()
    except OSError:
        pass  # closed; the exit code remains


def complain(error: RlmCiError) -> None:
    """The two lines of a failure: what is wrong, and what to do."""
    say(f"error: {error}")
    if error.hint:
        say(f"hint: {error.hint}")


def warn(doubt: RlmCiError) -> None:
    """The two lines of a warning, and in Actions an annotation."""
    say(f"warning: {doubt}")
    if doubt.hint:
        say(f"hint: {doubt.hint}")
    annotate("warning", doubt)


def annotate(level: str, error: RlmCiError) -> None:
    if environment().get("GITHUB_ACTIONS") == "true":
        from rlm_ci.redaction.redactor import Redactor
        from rlm_ci.text import neutralise

        clean = Redactor(environment()).text
        told = [clean(text) for text in (str(error), error.hint) if text]
        _to_stderr(neutralise.command(level, {"title": "rlm-ci"}, *told))
