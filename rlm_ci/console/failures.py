"""The error for an exception: a library that is not installed, or a bug and its traceback."""

from __future__ import annotations

import os
import sys

from rlm_ci import __version__
from rlm_ci.config.settings import environment
from rlm_ci.errors import RlmCiError, UnavailableError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def failure(
    error: Exception,
    folder: str | None = None,
    redact: Callable[[str], str] | None = None,
    *,
    words: Sequence[str] | None = None,
) -> RlmCiError:
    """The error to report for an exception.

    The traceback of a bug goes into ``folder``, that of a run, else into the user's state folder.
    """
    if isinstance(error, RlmCiError):
        return error
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name not in ("", "rlm_ci"):
        from rlm_ci.system import installation

        return UnavailableError(
            f"the library {name} is not installed",
            hint=f"install what rlm-ci needs: {installation.command()}",
        )
    from rlm_ci.redaction.redactor import Redactor

    clean = redact or Redactor(environment()).text
    return _internal(error, folder, clean, sys.argv[1:] if words is None else words)


def _internal(
    error: Exception, folder: str | None, redact: Callable[[str], str], words: Sequence[str]
) -> RlmCiError:
    """The error for a bug, with the place of its traceback."""
    import time
    import traceback

    from rlm_ci.system import files

    if folder is None:
        environ = environment()
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
        folder = os.path.join(environ.get("XDG_STATE_HOME") or home, "rlm-ci")
    path = os.path.join(folder, time.strftime("error-%Y%m%dT%H%M%SZ.log", time.gmtime()))
    text = "".join(traceback.format_exception(error))
    report = redact(f"rlm-ci {__version__}, Python {sys.version}\ncommand: {[*words]!r}\n\n{text}")
    try:
        files.make_folder(folder, 0o700)
        files.write(path, report.encode("utf-8", "backslashreplace"), 0o600)
        where = f"the traceback is in {path}"
    except RlmCiError:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"at {os.path.basename(frame.filename)}:{frame.lineno}"
    return RlmCiError(
        f"internal error: {type(error).__name__}: {printable(redact(str(error)))[:200]}",
        where=where,
        hint="this is a bug in rlm-ci: please report it with the traceback",
    )
