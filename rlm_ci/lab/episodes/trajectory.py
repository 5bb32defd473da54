"""``rlm/trajectory.jsonl``: the steps of an episode and its end, one JSON object a line.

It follows from the run's record: a resumed run writes it again from its beginning.
"""

from __future__ import annotations

import json
import os

from rlm_ci.system import files
from rlm_ci.text.printable import encodable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

NAME = "trajectory.jsonl"
#: Bytes of a trajectory that are read.
_LIMIT = 256 << 20


class Trajectory(Closing):
    """Writes one file. ``head`` are keys of every line, behind its type."""

    def __init__(self, path: str, head: Mapping[str, Any], redact: Callable[[str], str]) -> None:
        """Begin the file anew. Raises StorageError."""
        self.path = path
        self._head = head
        self._redact = redact
        try:
            self._file = files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            raise files.storage_error(error, path) from None

    def add(self, kind: str, **fields: Any) -> None:
        """Append a line. Raises StorageError."""
        line = {"type": kind, **self._head, **fields}
        data = f"{self._redact(encodable(json.dumps(line)))}\n".encode()
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise files.storage_error(error, self.path) from None

    def close(self) -> None:
        os.close(self._file)


def read(path: str) -> Iterator[dict[str, Any]]:
    """The lines of a trajectory, of this program or of another; what is no object is left out."""
    for line in (files.read_or_none(path, _LIMIT) or b"").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record
