"""The request of a run, kept beside its manifest for a resume."""

from __future__ import annotations

import json
import os

from rlm_ci.config.options import PROGRAM
from rlm_ci.decoding import DecodeError
from rlm_ci.errors import DamagedError
from rlm_ci.runs import manifest as manifests
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.decoding import Sha256, Text

#: Settings of one command line alone, which a run does not keep.
OF_A_COMMAND = frozenset((
    "repo", "task", "format", "output", "quiet", "verbose", "color", "interactive", "loop.goal",
    "parent_run", "run_id",
))  # fmt: skip
VERSION = 1
NAME = "request.json"
_HINT = "start a new run; this one cannot go on"


class RunRequest(Value):
    """The pipeline, its goal, and the flags of the command line by the key of their setting.

    ``definition`` is the digest of the pipeline's definition, which a resume must find again.
    """

    _optional = ()

    pipeline_id: Text
    goal: str | None
    #: Settings that the command line gave, by key.
    flags: Mapping[str, str | bool]
    #: SHA-256 of the pipeline, as it was defined then.
    definition: Sha256
    version: manifests.ManifestVersion = VERSION

    def write(self, folder: str) -> None:
        """Keep it in the folder of the run. Raises StorageError."""
        text = json.dumps({"version": self.version, **self.to_dict()}, indent=2)
        files.write(os.path.join(folder, NAME), f"{text}\n".encode(), 0o600)

    @classmethod
    def read(cls, folder: str, pipeline_id: str) -> RunRequest:
        """The request of the run in ``folder`` with ``pipeline_id``. Raises DamagedError."""
        path = os.path.join(folder, NAME)
        record = manifests.read_json(path, "the request of the run", _HINT)
        manifests.require_version(record, VERSION, "the request", path)
        try:
            request = cls.from_dict(record)
        except DecodeError as error:
            raise _damaged(f"is not valid: {error}", path) from None
        if request.pipeline_id != pipeline_id:
            shown_id = printable(request.pipeline_id)[:80]
            raise _damaged(f"names the pipeline {shown_id!r}, its manifest does not", path)
        for key in request.flags:
            if key not in _possible():
                raise _damaged(f"has the flag {printable(key)[:80]!r}, which none is", path)
        return request


def is_kept(folder: str) -> bool:
    """Whether the run in ``folder`` has a request."""
    return os.path.lexists(os.path.join(folder, NAME))


def _possible() -> frozenset[str]:
    """The settings that a command line can give to a run."""
    return frozenset(row.key for row in PROGRAM if row.flag) - OF_A_COMMAND


def _damaged(what: str, path: str) -> DamagedError:
    return DamagedError(f"the request of the run {what}", where=path, hint=_HINT)
