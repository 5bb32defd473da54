"""Tokens of delegated runs: the secret is in the child's folder, its digest in the parent's.

A child shows by its token that it is the run that the parent delegated to. No tool takes or tells
a token: processes read it from the folder of their own run.
"""

from __future__ import annotations

import hmac
import json
import os
import time
from hashlib import sha256

from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.delegated import LOCK, TOKEN, TOKENS
from rlm_ci.system import files
from rlm_ci.system.lock import PATIENCE, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIMIT = 64 << 20
_BYTES = 32


def issue(child: str, child_id: str, parent: str | None, parent_id: str | None) -> None:
    """Give the run in the folder ``child`` a token, and its digest to the one in ``parent``.

    Both are on the disk when this returns. Raises StorageError, also where something is in the
    token's place; LockedError.
    """
    token = os.urandom(_BYTES).hex()
    at = manifests.timestamp(time.time())
    ids = {"parent_run_id": parent_id, "child_run_id": child_id, "created_at": at}
    if parent is not None:
        with Lock.wait(os.path.join(parent, LOCK), PATIENCE):
            identity = {"token_id": f"dlt-{os.urandom(8).hex()}", "token_hash": _digest(token)}
            records = [*_children(parent), {**identity, **ids, "expires_at": None}]
            path = os.path.join(parent, TOKENS)
            files.write(path, f"{json.dumps(records, indent=2)}\n".encode(), 0o600)
    _write_new(os.path.join(child, TOKEN), json.dumps({"token": token, **ids}).encode() + b"\n")


def token_of(path: str) -> str | None:
    """The token of the run in the folder ``path``."""
    try:
        record = json.loads(files.read(os.path.join(path, TOKEN), _LIMIT))
    except (files.UnreadableError, ValueError, RecursionError):
        return None
    token = record.get("token") if isinstance(record, dict) else None
    return token if isinstance(token, str) else None


def is_child(parent: str, child_id: str, token: str) -> bool:
    """Whether the run in the folder ``parent`` gave ``token`` to its child ``child_id``."""
    digest = _digest(token)
    return any(
        record.get("child_run_id") == child_id
        and hmac.compare_digest(str(record.get("token_hash")).encode(), digest.encode())
        for record in _children(parent)
    )


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _children(parent: str) -> list[dict[str, Any]]:
    """What is known of the children of a run; its file may hold anything."""
    data = files.read_or_none(os.path.join(parent, TOKENS), _LIMIT)
    try:
        record = json.loads(data) if data else []
    except (ValueError, RecursionError):
        record = []
    return [row for row in record if isinstance(row, dict)] if isinstance(record, list) else []


def _write_new(path: str, data: bytes) -> None:
    """Write a file that is not there yet, by no link, for the owner alone."""
    try:
        descriptor = files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        files.sync_folder(os.path.dirname(path))
    except OSError as error:
        raise files.storage_error(error, path) from None
