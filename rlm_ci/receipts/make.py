"""Makes the receipt of a task from the runs that lie in the store."""

from __future__ import annotations

import hashlib
import os

from rlm_ci.errors import ConfigError
from rlm_ci.receipts import statement
from rlm_ci.receipts.receipt import LIMIT, Receipt, ReceiptRun, bare_trees, path_of
from rlm_ci.runs import is_task_id
from rlm_ci.runs.manifest import ENDED, NAME, is_time
from rlm_ci.runs.store import parse, recorder_of
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository
    from rlm_ci.runs.store import Accept, RunStore

_MANIFEST_LIMIT = 4 << 20


class Collected(Value):
    """The runs that count, and why others do not, by place."""

    runs: tuple[ReceiptRun, ...]
    left_out: tuple[tuple[str, str], ...]


def collect(store: RunStore, task_id: str, accept: Accept) -> Collected:
    """The ended runs of subagents of a task. ``accept`` is as for ``RunStore.subagent_runs``.

    Raises ConfigError where there is none, or the store cannot be read.
    """
    runs, left_out = [], []
    try:
        for subagent_run in store.subagent_runs(task_id, accept):
            run = subagent_run.reason or _read(store, subagent_run.path)
            if isinstance(run, str):
                left_out.append((subagent_run.path, run))
            else:
                runs.append(run)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(
            f"the runs cannot be read: {error.strerror}",
            where=store.shown,
            hint="make it a folder that you can read",
        ) from None
    if not runs:
        why = [f"{path}: {reason}" for path, reason in sorted(left_out)[:3]]
        raise ConfigError(
            f"{task_id} has no subagent run that has ended",
            where="; ".join(why) or store.shown,
            hint=f"run a subagent with MCP_RUNNER_TASK_ID={task_id}-<stream>, and wait for its end",
        )
    ordered = sorted(runs, key=lambda run: (run.task_id, run.run_id))
    return Collected(tuple(ordered), tuple(sorted(left_out)))


def _read(store: RunStore, manifest_path: str) -> ReceiptRun | str:
    """The run whose manifest the store shows as ``manifest_path``; why it is left out, if it is."""
    names = manifest_path.removeprefix(f"{store.shown}/").split("/")
    task_id, run_id = names[0], names[2]
    if not (is_task_id(task_id) and is_task_id(run_id)):
        return "the name of the run is not safe"
    try:
        data = files.read(os.path.join(store.root, task_id, "cli", run_id, NAME), _MANIFEST_LIMIT)
    except files.UnreadableError as error:
        return str(error)
    manifest = parse(data)
    status = manifest.get("status") if isinstance(manifest, dict) else None
    if not isinstance(status, str) or status not in ENDED:
        return "it has not ended"
    at = manifest.get("completed_at")
    sha256 = hashlib.sha256(data).hexdigest()
    ended = at if is_time(at) else None
    return ReceiptRun(task_id, run_id, status, ended, sha256, recorder_of(manifest))


def receipt_of(
    repository: Repository, task_id: str, commit: str, runs: tuple[ReceiptRun, ...]
) -> Receipt:
    """The receipt of ``runs`` on the tree of ``commit``. Raises ConfigError."""
    tree = bare_trees(repository, [commit]).get(commit)
    if tree is None:
        raise ConfigError(
            "the top level of the repository has too many files for a receipt",
            where=commit[:12],
            hint="move some into folders",
        )
    return Receipt(task_id, commit, tree, runs)


def write(repository: Repository, receipt: Receipt, signed: bytes = b"") -> tuple[str, ...]:
    """Put the receipt in its place, whole or not at all, and its signed statement beside it.

    Without one, a statement of an earlier receipt goes. The paths; raises StorageError.
    """
    data = receipt.to_bytes()
    if len(data) > LIMIT:
        raise ConfigError(
            f"the receipt of {count(len(receipt.runs), 'run')} is larger than {LIMIT:,} bytes",
            where=path_of(receipt.task_id),
            hint="remove old runs: rlm-ci list --prune --older-than 30d",
        )
    paths = (path_of(receipt.task_id), statement.path_of(receipt.task_id))
    full_paths = [os.path.join(repository.root, path) for path in paths]
    for full_path in full_paths:
        files.require_inside(repository.root, full_path)
    files.make_folder(os.path.dirname(full_paths[0]))
    files.write(full_paths[0], data)
    if signed:
        files.write(full_paths[1], signed)
        return paths
    try:
        os.unlink(full_paths[1])
    except FileNotFoundError:
        pass
    except OSError as error:
        raise files.storage_error(error, full_paths[1]) from None
    return paths[:1]
