"""``queries.jsonl``: the questions of one block of code, with their answers, as they come in."""

from __future__ import annotations

import json
import os
import threading
from hashlib import sha256

from rlm_ci.environments.repl.host.run_files import LIMIT, write_all
from rlm_ci.system import files
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

    from rlm_ci.environments.repl.host.run_files import RunFiles

#: Its name in the folder of a block.
NAME: Final = "queries.jsonl"
_encode = json.JSONEncoder(ensure_ascii=False).encode


class QueryLog(Closing):
    """Adds questions from any thread to the file in ``folder``, made with the first of them.

    A file for each question would take longer than all else that is done with its answer.
    """

    def __init__(self, run: RunFiles, folder: str) -> None:
        self._run = run
        self._path = f"{folder}/{NAME}"
        self._hash = sha256()
        self._descriptor = -1
        self._is_closed = False
        self._lock = threading.Lock()

    def add(self, question: Mapping[str, Any]) -> None:
        """Write a question, unless its block has ended. Raises StorageError."""
        line = f"{_encode(question)}\n".encode()
        with self._lock:
            if self._is_closed:
                return
            if self._descriptor < 0:
                self._descriptor = self._run.open(self._path)
            write_all(self._descriptor, line, self._path)
            self._hash.update(line)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0 and not self._is_closed:
                os.close(self._descriptor)
                self._run.note(self._path, self._hash.hexdigest())
            self._is_closed = True


def is_log(path: str) -> bool:
    return path.rpartition("/")[2] == NAME


def place_of(path: str, question: Mapping[str, Any]) -> str:
    """The place in the record of a question in the file at ``path``."""
    return f"{path.rpartition('/')[0]}/{question['id']}"


def questions(data: bytes) -> Iterator[dict[str, Any]]:
    """The questions in a file. Raises ValueError, RecursionError for one that no block wrote."""
    for line in data.splitlines():
        question = json.loads(line)
        if not isinstance(question, dict):
            raise ValueError("a question is not an object")
        yield question


def read(folder: str, path: str) -> bytes:
    """The content of a file of the run in ``folder``. Raises UnreadableError."""
    return files.read_inside(folder, path, LIMIT)
