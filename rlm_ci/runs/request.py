"""What a run was asked for, kept beside its manifest: whoever resumes it asks for the same."""

from __future__ import annotations

import json
import os

from rlm_ci.config.options import PROGRAM
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.resources import loader
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Settings of one command line alone: whoever carries out a run is told in other ways.
OF_A_COMMAND = frozenset((
    "repo", "task", "format", "output", "quiet", "verbose", "color", "interactive", "loop.goal",
    "parent_run",
))  # fmt: skip
VERSION = 1
NAME = "request.json"
_LIMIT = 4 << 20


class RunRequest(Value):
    """The pipeline, its goal, and the flags of the command line by the key of their setting.

    ``definition`` is the digest of the pipeline as it was defined: a resumed run must not do
    something else because a file has changed.
    """

    pipeline_id: str
    goal: str | None
    flags: dict[str, Any]
    definition: str

    def write(self, folder: str) -> None:
        """Keep it in the folder of the run. Raises StorageError."""
        record = {"version": VERSION, **{name: getattr(self, name) for name in self._fields}}
        text = json.dumps(record, indent=2)
        files.write(os.path.join(folder, NAME), f"{text}\n".encode(), 0o600)

    @classmethod
    def read(cls, folder: str, pipeline_id: str) -> RunRequest:
        """That of the run in ``folder``, whose manifest names ``pipeline_id``.

        Raises DamagedError, which says what is wrong.
        """
        path = os.path.join(folder, NAME)
        try:
            record = json.loads(files.read(path, _LIMIT).decode("utf-8"))
        except files.UnreadableError as error:
            raise _damaged(f"the request of the run cannot be read: {error}", path) from None
        except (ValueError, RecursionError) as error:
            what = printable(str(error))[:200]
            raise _damaged(f"the request of the run is not valid JSON: {what}", path) from None
        version = record.get("version") if isinstance(record, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise DamagedError(
                f"the request has version {str(version)[:20]}, this rlm-ci knows {VERSION}",
                where=path,
                hint="install a newer rlm-ci",
            )
        try:
            loader.validate(record, "request.schema.json", path)
        except ConfigError as error:
            raise _damaged(f"the request of the run is not valid: {error.what}", path) from None
        if record["pipeline_id"] != pipeline_id:
            named = printable(record["pipeline_id"])[:80]
            what = f"the request of the run names the pipeline {named!r}, its manifest does not"
            raise _damaged(what, path)
        for key in record["flags"]:
            if key not in _possible():
                what = f"the request of the run has the flag {printable(key)[:80]!r}, which none is"
                raise _damaged(what, path)
        return cls(**{name: record[name] for name in cls._fields})


def is_kept(folder: str) -> bool:
    """Whether the run in ``folder`` tells what it was asked for, and so can be resumed."""
    return os.path.lexists(os.path.join(folder, NAME))


def _possible() -> frozenset[str]:
    """The settings that a command line can give to a run: not where keys or results go."""
    return frozenset(row.key for row in PROGRAM if row.flag) - OF_A_COMMAND


def _damaged(what: str, path: str) -> DamagedError:
    return DamagedError(what, where=path, hint="start a new run; this one cannot go on")
