"""The file ``.delegation/<task-id>.json``: its form, its bytes, and a strict, bounded reader.

``schemas/receipt.schema.json`` is the same for other programs.
"""

from __future__ import annotations

import hashlib
import json

from rlm_ci.runs import is_task_id
from rlm_ci.runs.manifest import ENDED, is_time
from rlm_ci.text import neutralise
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _Shape = dict[str, Callable[[Any], bool]]

VERSION = 1
FOLDER = ".delegation"
#: Bytes of a receipt; some 4,000 runs.
LIMIT = 1 << 20
_MOST_RUNS = 4000
_LONGEST = 500
#: Of a part of a token, or a commit.
_LONGEST_ENCODED = 16 << 10
#: A token is for this receipt alone: in the repository it opens nothing to its readers.
_AUDIENCE = "rlm-ci-receipt:"


class InvalidReceiptError(Exception):
    """What is wrong with a receipt, in words for a finding."""


class UnverifiedError(Exception):
    """Why a receipt is the author's evidence and no more, in words for a report."""


class ReceiptRun(Value):
    """A run that has ended, with the SHA-256 of its manifest.

    ``recorded_by`` is the agent's program that recorded it, if it is not a run of rlm-ci.
    """

    task_id: str
    run_id: str
    status: str
    completed_at: str | None
    manifest_sha256: str
    recorded_by: str = ""

    def to_record(self) -> dict[str, Any]:
        """The JSON object; only a recorded run has ``recorded_by``."""
        return {name: value for name, value in self.to_dict().items() if value != ""}


class WorkflowRun(Value):
    """The run of a workflow that made a receipt, as GitHub's variables name it.

    ``merge_commit`` is the commit ``sha`` in base64, where that is GitHub's own merge of a pull
    request: it names the head, and nobody can make another one with the same id.
    """

    repository: str
    run_id: str
    run_attempt: str
    workflow_ref: str
    sha: str
    ref: str
    merge_commit: str | None = None


class Receipt(Value):
    """``tree`` is that of ``commit`` without receipts; ``token`` is GitHub's for ``workflow``."""

    task_id: str
    commit: str
    tree: str
    runs: tuple[ReceiptRun, ...]
    workflow: WorkflowRun | None = None
    token: str | None = None

    def to_bytes(self) -> bytes:
        """The file: the same bytes for the same receipt."""
        return neutralise.record(self._record()).encode()

    def audience(self) -> str:
        """What a token must be for, so that it says something about this receipt."""
        record = self._record()
        del record["token"]
        content = json.dumps(record, sort_keys=True, separators=(",", ":"))
        return f"{_AUDIENCE}{hashlib.sha256(content.encode()).hexdigest()}"

    def _record(self) -> dict[str, Any]:
        return {
            "schema_version": VERSION,
            "task_id": self.task_id,
            "commit": self.commit,
            "tree": self.tree,
            "runs": [run.to_record() for run in self.runs],
            "workflow": self.workflow.to_dict() if self.workflow else None,
            # In one piece, a scanner for secrets would find it, though it opens nothing.
            "token": self.token.split(".") if self.token else None,
        }


def path_of(task_id: str) -> str:
    """Where the receipt of a task is, below the top level of the repository."""
    return f"{FOLDER}/{task_id}.json"


def parse(data: bytes) -> Receipt:
    """The receipt in a file of at most LIMIT bytes. Raises InvalidReceiptError."""
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InvalidReceiptError("it is not valid JSON") from None
    version = record.get("schema_version") if isinstance(record, dict) else None
    if type(version) is int and version > VERSION:
        raise InvalidReceiptError("a newer version of rlm-ci wrote it")
    fields = _checked(record, _RECEIPT, "it")
    del fields["schema_version"]
    fields["runs"] = tuple(
        ReceiptRun(**_checked(run, _RUN | _recorded(run), f"runs[{at}]"))
        for at, run in enumerate(fields["runs"])
    )
    if len({(run.task_id, run.run_id) for run in fields["runs"]}) < len(fields["runs"]):
        raise InvalidReceiptError("it names a run twice")
    if fields["workflow"] is not None:
        fields["workflow"] = WorkflowRun(**_checked(fields["workflow"], _WORKFLOW, "workflow"))
    if fields["token"] is not None:
        fields["token"] = ".".join(fields["token"])
    if (fields["workflow"] is None) != (fields["token"] is None):
        raise InvalidReceiptError("a workflow and a token belong together, and one is missing")
    return Receipt(**fields)


def _checked(record: object, shape: _Shape, what: str) -> dict[str, Any]:
    """``record``, which has exactly the keys of ``shape`` and values that it accepts."""
    if not isinstance(record, dict):
        raise InvalidReceiptError(f"{what} is not a JSON object")
    unknown = record.keys() - shape.keys()
    if unknown:
        raise InvalidReceiptError(f"{what} has the unknown key {printable(min(unknown))[:40]}")
    for name, accepts in shape.items():
        if name not in record or not accepts(record[name]):
            raise InvalidReceiptError(f"{what} has no valid {name}")
    return dict(record)


def _is_text(value: object, longest: int = _LONGEST) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        return False
    return value.isascii() and value.isprintable()


def _recorded(run: object) -> _Shape:
    """The shape of what only a run has that an agent's program recorded."""
    return {"recorded_by": _is_text} if isinstance(run, dict) and "recorded_by" in run else {}


def _is_encoded(value: object) -> bool:
    return _is_text(value, _LONGEST_ENCODED)


def _are_parts(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_encoded, value))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and is_task_id(value)


def _is_number(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdigit()


_RECEIPT: _Shape = {
    "schema_version": lambda value: type(value) is int and value == VERSION,
    "task_id": _is_name,
    "commit": is_object_id,
    "tree": is_object_id,
    "runs": lambda value: isinstance(value, list) and 0 < len(value) <= _MOST_RUNS,
    "workflow": lambda value: value is None or isinstance(value, dict),
    "token": lambda value: value is None or _are_parts(value),
}
_RUN: _Shape = {
    "task_id": _is_name,
    "run_id": _is_name,
    "status": lambda value: isinstance(value, str) and value in ENDED,
    "completed_at": lambda value: value is None or is_time(value),
    "manifest_sha256": lambda value: is_object_id(value) and len(value) == 64,
}
_WORKFLOW: _Shape = {
    "repository": _is_text,
    "run_id": _is_number,
    "run_attempt": _is_number,
    "workflow_ref": _is_text,
    "sha": is_object_id,
    "ref": _is_text,
    "merge_commit": lambda value: value is None or _is_encoded(value),
}
