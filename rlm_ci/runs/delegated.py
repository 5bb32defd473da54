"""Files that other processes than its holder leave in the folder of a run, for delegation.

They may change after the end of the run, so its list of files does not hold them.
"""

from __future__ import annotations

import json
import os

from rlm_ci.errors import Paused
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The secret by which a delegated run is known to its parent, which has the digests of all.
TOKEN = "delegation_token.json"  # noqa: S105 - the name of a file
TOKENS = "delegation_tokens.json"
CONTROL = "control.json"
#: Events of others, also the questions of delegated runs: see ``inbox``.
INBOX = "inbox.jsonl"
#: The lock for those who write these files.
LOCK = ".delegation.lock"
FILES = frozenset((TOKEN, TOKENS, CONTROL, INBOX, LOCK))
PAUSE, RESUME = "pause", "resume"
_LIMIT = 1 << 20


def is_delegated(path: str) -> bool:
    """Whether the run in the folder ``path`` was delegated: it lives on without its parent."""
    return os.path.lexists(os.path.join(path, TOKEN))


class Control:
    """What others ask of the run in the folder ``path``, while this process holds it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = 0

    def begin(self, *, anew: bool) -> None:
        """Heed what is asked from now on; for a run that begins ``anew`` also what was asked."""
        self._seen = 0 if anew else last_action(self._path)[0]

    def heed(self) -> None:
        """Raise Paused where a pause is asked for."""
        seq, action = last_action(self._path)
        if seq > self._seen:
            self._seen = seq
            if action == PAUSE:
                raise Paused


def last_action(path: str) -> tuple[int, str]:
    """Number and name of the last action that is asked of a run; 0 and "" for none."""
    record = read(path)
    return record["control_seq"], record["latest_action"].get("action", "")


def read(path: str) -> dict[str, Any]:
    """The control file of the run in the folder ``path``; one without an action if it has none.

    What is there may be anything: a broken file asks for nothing.
    """
    data = files.read_or_none(os.path.join(path, CONTROL), _LIMIT)
    try:
        record = json.loads(data) if data else None
    except (ValueError, RecursionError):
        record = None
    none: dict[str, Any] = {"control_seq": 0, "latest_action": {}, "requests": []}
    if isinstance(record, dict) and all(type(record.get(key)) is type(none[key]) for key in none):
        return record
    return none
