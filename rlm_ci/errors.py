"""The error tree and the exit codes of CONTRACT: every failure is one of these.

RlmCiError
├── UsageError        2   arguments
├── LimitError        3   a budget ended the run before it was done
├── UnavailableError  4   a program or an extra that we need is not there
├── ConfigError       5   invalid configuration or input, a missing base
├── DamagedError      6   state on disk is damaged or newer than we are
├── LockedError       7   another process holds this run
├── RemoteError       8   GitHub or the model service refused or stayed away
└── StorageError      9   disk full, read-only, I/O error
    └── ClosedPipe  141   the program that reads the result ended first
"""

from __future__ import annotations

OK = 0
FINDINGS = 1
USAGE = 2
LIMIT = 3
UNAVAILABLE = 4
CONFIG = 5
DAMAGED = 6
LOCKED = 7
REMOTE = 8
STORAGE = 9
INTERNAL = 10
INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143

#: code, name, meaning: the table of the README and of ``docs/reference.md``.
EXIT_CODES: tuple[tuple[int, str, str], ...] = (
    (OK, "ok", "clean, or a fix loop reached its goal or used its budget without a validator"),
    (FINDINGS, "findings", "at least one unsuppressed finding at or above the fail level"),
    (USAGE, "usage", "wrong use of the command line"),
    (
        LIMIT,
        "limit",
        "a budget ended the run early, or the run made no progress or no change",
    ),
    (
        UNAVAILABLE,
        "unavailable",
        "a required program, or an extra of rlm-ci, is not installed",
    ),
    (
        CONFIG,
        "config",
        "invalid configuration or input, or a missing base; the message names the source",
    ),
    (DAMAGED, "damaged", "state on disk is damaged, or a newer version wrote it"),
    (LOCKED, "locked", "another process holds this run"),
    (REMOTE, "remote", "a remote service refused or did not answer"),
    (STORAGE, "io", "disk full, read-only, or another I/O error"),
    (INTERNAL, "internal", "a bug; the message names the file with the traceback"),
    (INTERRUPTED, "interrupted", "SIGINT"),
    (CLOSED_PIPE, "closed pipe", "the program that reads the result ended first"),
    (TERMINATED, "terminated", "SIGTERM, or SIGHUP"),
)
#: What they mean where a report decides.
REPORT_EXITS = {
    OK: "no finding at or above the fail level, and everything was looked at",
    FINDINGS: "a finding at or above the fail level",
    LIMIT: "a part of the report is `incomplete`",
    CONFIG: "a part of the report did not run; if one error is the only cause, its own code",
}


class RlmCiError(Exception):
    """One failure: what is wrong, where it came from and what to do next.

    ``str(error)`` is ``what (where)``; ``code`` is the exit code of the process.
    """

    code = INTERNAL
    #: Whether ``str(error)`` ends with the hint, for a Python program, which shows nothing else.
    has_hint_in_text = False

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.what} ({self.where})" if self.where else self.what
        return f"{text}: {self.hint}" if self.has_hint_in_text and self.hint else text


class Paused(BaseException):
    """The run is to stop at a safe point, to be resumed; no error, so that none takes it for one.

    Its exit code is LIMIT.
    """


class UsageError(RlmCiError):
    code = USAGE


class LimitError(RlmCiError):
    """``budget`` is the setting that ended it: ``max_calls``, ``max_tokens`` and so on."""

    code = LIMIT

    def __init__(self, what: str, *, budget: str, where: str = "", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.budget = budget


class UnavailableError(RlmCiError):
    code = UNAVAILABLE


class ConfigError(RlmCiError):
    code = CONFIG


class DamagedError(RlmCiError):
    code = DAMAGED


class LockedError(RlmCiError):
    code = LOCKED


class RemoteError(RlmCiError):
    code = REMOTE


class StorageError(RlmCiError):
    code = STORAGE


class ClosedPipe(StorageError):  # noqa: N818 - it is no failure, and nothing is said of it
    """The program that reads the result ended first."""

    code = CLOSED_PIPE
