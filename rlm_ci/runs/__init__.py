"""The runs store: what every run leaves behind, and where systems meet."""

from __future__ import annotations

import os
import time

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    #: ``fact(kind, place, key, produce)``: what was recorded under them, or is produced now.
    Fact = Callable[
        [str, str, Mapping[str, Any], Callable[[], Mapping[str, Any]]], Mapping[str, Any]
    ]

#: The statuses of a run; the last three are ends.
QUEUED = "queued"
IN_PROGRESS = "in_progress"
SUCCEEDED = "succeeded"
FAILED = "failed"
CANCELLED = "cancelled"
_ID_LENGTH = 128
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
#: Windows opens a device for these, whatever their ending.
_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10)))
)
#: When it was made, to the second, and a random number.
_RUN_ID = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-[0-9a-f]{8}"


def is_run_id(text: str) -> bool:
    """Whether ``text`` is in the form of the id of a run; one of another program may not be."""
    import re  # a hook asks for none, and to compile it takes as long as the rest of this

    return re.fullmatch(_RUN_ID, text) is not None


def new_run_id(now: float) -> str:
    """The id of a run that begins ``now``, in seconds since the epoch."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(now))
    return f"{stamp}-{os.urandom(4).hex()}"


def is_task_id(text: str) -> bool:
    """Whether ``text`` can name a task: safe as a folder name on every platform."""
    return (
        0 < len(text) <= _ID_LENGTH
        and _ALLOWED.issuperset(text)
        and text[0] not in ".-"
        and text[-1] != "."
        and text.partition(".")[0].lower() not in _DEVICES
    )


def require_task_id(text: str, source: str) -> str:
    """``text`` itself; raises ConfigError when it cannot name a task."""
    if not is_task_id(text):
        raise ConfigError(
            f"{text[:80]!r} is not a task id",
            where=source,
            hint="use letters, digits, '-', '_' and '.', at most 128, beginning with a letter, "
            "a digit or '_'",
        )
    return text


def derived_task_id(repository: str) -> str:
    """The task of a run that names none: ``rlm-<repository>``, or ``rlm-adhoc``."""
    name = id_part(os.path.basename(repository), _ID_LENGTH - 4)
    return f"rlm-{name}" if name else "rlm-adhoc"


def id_part(text: str, longest: int) -> str:
    """``text`` as a part of a task id; "" for one without a usable character."""
    safe = "".join(char if char in _ALLOWED else "-" for char in text)
    return safe.lstrip(".-")[:longest].rstrip(".-")
