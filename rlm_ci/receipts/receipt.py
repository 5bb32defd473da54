"""The file ``.delegation/<task-id>.json``: its form, its reader, the trees it may name.

``schemas/receipt.schema.json`` is the same for other programs.

A receipt cannot name the tree that holds it. Without ``.delegation/``, a commit that only adds a
receipt has the tree of the commit before, also after both were made one.
"""

from __future__ import annotations

import hashlib
import json

from rlm_ci.decoding import DecodeError, Kind, one_of, text
from rlm_ci.git.objects import batches
from rlm_ci.runs import is_task_id
from rlm_ci.runs.manifest import ENDED, Timestamp
from rlm_ci.text import neutralise
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.decoding import ObjectId, Sha256
    from rlm_ci.git.repository import Repository


VERSION = 1
FOLDER = ".delegation"
#: Bytes of a receipt; some 4,000 runs.
LIMIT = 1 << 20
_MOST_RUNS = 4000
_LONGEST = 500
_PRINTABLE = " -~"
#: Of a part of a token, or a commit.
_LONGEST_ENCODED = 16 << 10
#: A token is for this receipt alone: in the repository it opens nothing to its readers.
_AUDIENCE = "rlm-ci-receipt:"


if TYPE_CHECKING:
    ReceiptVersion = int
    EndStatus = str
    TaskId = str
    Number = str
    Line = str
    EncodedText = str
    Token = str
else:
    ReceiptVersion = one_of(VERSION)
    EndStatus = one_of(*ENDED)
    TaskId = Kind(
        lambda value: type(value) is str and is_task_id(value),
        "the id of a task or a run",
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 128,
            "pattern": r"^[A-Za-z0-9_][A-Za-z0-9._-]*$(?!\n)",
        },
    )
    Number = text(20, characters="0-9")
    Line = text(_LONGEST, characters=_PRINTABLE)
    EncodedText = text(_LONGEST_ENCODED, characters=_PRINTABLE)
    Token = Kind(
        lambda value: (
            type(value) is list and len(value) == 3 and all(map(EncodedText.accepts, value))
        ),
        "the three parts of a token",
        {"type": "array", "minItems": 3, "maxItems": 3, "items": EncodedText.schema},
        ".".join,
    )


class InvalidReceiptError(Exception):
    """What is wrong with a receipt, in words for a finding."""


class UnverifiedError(Exception):
    """Why a receipt is the author's evidence and no more, in words for a report."""


class ReceiptRun(Value):
    """A run that has ended, with the SHA-256 of its manifest.

    ``recorded_by`` is the agent's program that recorded it, if it is not a run of rlm-ci.
    """

    _optional = ("recorded_by",)

    #: The subagent's task: <task-id>-<stream>.
    task_id: TaskId
    run_id: TaskId
    status: EndStatus
    #: Its end, in UTC; null where the manifest does not say.
    completed_at: Timestamp | None
    manifest_sha256: Sha256
    #: The agent's program that recorded the run, if rlm-ci did not run it.
    recorded_by: Line = ""


class WorkflowRun(Value):
    """The run of a workflow that made a receipt, as GitHub's variables name it.

    ``merge_commit`` is the commit ``sha`` in base64, where that is GitHub's own merge of a pull
    request: it names the head, and nobody can make another one with the same id.
    """

    _optional = ()

    repository: Line
    run_id: Number
    run_attempt: Number
    workflow_ref: Line
    sha: ObjectId
    ref: Line
    #: The commit object ``sha`` in base64, where that is GitHub's merge of a pull request.
    merge_commit: EncodedText | None = None


class Receipt(Value):
    """``tree`` is that of ``commit`` without receipts; ``token`` is GitHub's for ``workflow``.

    ``public_key`` verifies the in-toto statement beside it, if there is one.
    """

    _optional = ("public_key",)
    _items = (("runs", 1, _MOST_RUNS),)

    task_id: TaskId
    #: The commit that the runs belong to.
    commit: ObjectId
    #: Its tree without the folder .delegation.
    tree: ObjectId
    runs: tuple[ReceiptRun, ...]
    workflow: WorkflowRun | None = None
    #: The three parts of GitHub's OpenID Connect token, whose audience is ``rlm-ci-receipt:`` and
    #: the SHA-256 of all the rest.
    token: Token | None = None
    #: The key of the in-toto statement beside it: DER in base64, on the curve P-256.
    public_key: Line = ""
    schema_version: ReceiptVersion = VERSION

    def _require(self) -> None:
        if len({(run.task_id, run.run_id) for run in self.runs}) < len(self.runs):
            raise ValueError("it names a run twice")
        if (self.workflow is None) != (self.token is None):
            raise ValueError("a workflow and a token belong together, and one is missing")
        if self.public_key and self.token is None:
            raise ValueError("it has a public key, and no token that speaks for it")

    def to_bytes(self) -> bytes:
        """The file: the same bytes for the same receipt."""
        return neutralise.record(self.to_dict()).encode()

    def audience(self) -> str:
        """What a token must be for, so that it says something about this receipt."""
        record = self.to_dict()
        del record["token"]
        content = json.dumps(record, sort_keys=True, separators=(",", ":"))
        return f"{_AUDIENCE}{hashlib.sha256(content.encode()).hexdigest()}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of the file."""
        # In one piece, a scanner for secrets would find it, though it opens nothing.
        token = self.token.split(".") if self.token else None
        return {"schema_version": VERSION, **super().to_dict(), "token": token}


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
    try:
        return Receipt.from_dict(record)
    except DecodeError as error:
        raise InvalidReceiptError(f"it is not valid: {error}") from None


#: Of a longer change, the newest commits.
MOST_COMMITS = 1000
#: Bytes of one top level, and of those that are read at once.
_LARGEST = 1 << 20
_AT_ONCE = 32 << 20


def own_commits(changes: ChangeSet) -> list[str]:
    """The commits that the change brings, the newest first."""
    if changes.head is None:
        return []
    bases = [f"^{oid}" for oid in dict.fromkeys((changes.base, changes.merge_base)) if oid]
    limit = f"--max-count={MOST_COMMITS}"
    return changes.repository.run("rev-list", limit, changes.head, *bases).decode().split()


def bare_trees(repository: Repository, commits: Sequence[str]) -> dict[str, str]:
    """The tree of each commit, without receipts; none for a top level of too many files."""
    specs = [f"{commit}^{{tree}}" for commit in commits]
    sizes = repository.sizes(specs)
    sized = [
        ((commit, spec), size)
        for commit, spec, size in zip(commits, specs, sizes, strict=True)
        if 0 <= size <= _LARGEST
    ]
    trees = {}
    for batch in batches(sized, _AT_ONCE):
        queries = "".join(f"{spec}\n" for _, spec in batch).encode()
        output = repository.run("cat-file", "--batch", "--buffer", stdin=queries)
        position = 0
        for commit, _ in batch:
            end = output.index(b"\n", position)
            size = int(output[position:end].rsplit(b" ", 1)[1])
            content = output[end + 1 : end + 1 + size]
            position = end + size + 2
            trees[commit] = _without_receipts(content, len(commit))
    return trees


def _without_receipts(content: bytes, digits: int) -> str:
    """The object id of a tree without its entry ``.delegation``."""
    entries = b"".join(
        entry
        for entry in _entries(content, digits // 2)
        if not entry.partition(b" ")[2].startswith(f"{FOLDER}\0".encode())
    )
    return object_id("tree", entries, digits)


def object_id(kind: str, content: bytes, digits: int) -> str:
    """The id that git gives to an object, in the hash with as many ``digits``."""
    make = hashlib.sha256 if digits == 64 else hashlib.sha1
    head = f"{kind} {len(content)}\0".encode()
    return make(head + content, usedforsecurity=False).hexdigest()


def _entries(content: bytes, length: int) -> Iterator[bytes]:
    """The entries of a tree object: mode, space, name, NUL and ``length`` bytes of an id."""
    start = 0
    while start < len(content):
        end = content.index(b"\0", start) + 1 + length
        yield content[start:end]
        start = end
