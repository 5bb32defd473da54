"""Answers of a model in a file: kept as they come, and played again without a model.

Each line is an object with ``prompt``, a hash over all that the model read, and ``answer``. Other
lines, such as a head that says whose answers these are, are not ours to read.
"""

from __future__ import annotations

import json
from hashlib import sha256

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.models import Completion
from rlm_ci.system import files
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from rlm_ci.models import ModelRequest

#: The provider of recorded answers, and what stands before their file in ``OPENAI_BASE_URL``.
RECORDED: Final = "recorded"
SCHEME: Final = f"{RECORDED}:"
_LARGEST: Final = 256 << 20


class RecordedModel(Closing):
    """Answers a prompt as the file at ``path`` has it, whatever the model is called.

    A prompt that is not there raises ConfigError: nothing stands for an answer. Raises
    DamagedError, StorageError.
    """

    name = RECORDED

    def __init__(self, path: str) -> None:
        self._path = path
        self._answers: dict[str, Completion] = {}
        for row in rows(path):
            if "prompt" in row:
                try:
                    self._answers.setdefault(
                        str(row["prompt"]), Completion.from_dict(row["answer"])
                    )
                except (KeyError, TypeError, ValueError, ArithmeticError):
                    raise _damaged(path) from None

    def complete(self, request: ModelRequest) -> Completion:
        completion = self._answers.get(digest(request))
        if completion is None:
            raise ConfigError(
                "the recording has no answer to this prompt",
                where=self._path,
                hint="its answers are to the prompts of one version and one change: play it with "
                "the version and the settings that it was made with, or ask a model",
            )
        return completion

    def context_tokens(self, model: str) -> int | None:  # noqa: ARG002 - as it is called
        """Not known: the prompts stay as they were recorded."""
        return None

    def close(self) -> None:
        """Nothing is open."""


def digest(request: ModelRequest) -> str:
    """A hash over what the model reads: no name of a model, no limit of an answer."""
    read = json.dumps([list(request.messages), list(request.tools)], sort_keys=True)
    return sha256(read.encode("ascii")).hexdigest()


def keep(path: str, request: ModelRequest, answer: Completion) -> None:
    """Add an answer, without secrets, to the file at ``path``. Raises StorageError."""
    row = {"prompt": digest(request), "answer": {**answer.to_dict(), "cost": None}}
    files.append(path, line(row))


def line(row: dict[str, Any]) -> bytes:
    """A line of a recording."""
    return json.dumps(row, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"


def rows(path: str) -> list[dict[str, Any]]:
    """The lines of a recording. Raises ConfigError if there is none, DamagedError."""
    try:
        data = files.read(path, _LARGEST)
    except files.UnreadableError as error:
        raise ConfigError(
            f"the recording cannot be read: {error}", where=path, hint="name the file of one"
        ) from None
    try:
        records = [json.loads(line) for line in data.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not all(isinstance(record, dict) for record in records):
        raise _damaged(path)
    return records


def _damaged(path: str) -> DamagedError:
    return DamagedError(
        "the file is no recording of answers", where=path, hint="restore it, or make a new one"
    )
