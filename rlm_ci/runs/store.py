"""The runs on disk: ``<runs>/<task-id>/cli/<run-id>/manifest.json``."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.runs import is_task_id, new_run_id
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    #: Says why a folder, or a manifest in it, does not count; None if it does.
    Accept = Callable[[str, dict[str, Any] | None], str | None]
    #: Names of folders, and at the end perhaps that of a file, each inside of the one before.
    Parts = tuple[str, ...]

_MANIFEST_LIMIT = 4 << 20
#: Characters of the name of a program and its version.
_RECORDER = 60
#: Characters of a status.
_STATUS = 20
#: Folders in a run with trees of a repository, which may hold anything.
_TREES = ("git", "work", "verdict")
#: Task, ``cli``, run.
_DEPTH = 3
#: Literal paths in any case of letters, since some file systems ignore the case.
_PLAIN = {
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_NOGLOB_PATHSPECS": "1",
    "GIT_ICASE_PATHSPECS": "1",
}


class ManifestCandidate(Value):
    """A possible manifest: ``reason`` is why it does not count, or None.

    ``recorded_by`` is the agent's program that recorded the run, if it is not of rlm-ci, and
    ``status`` the status that it has then.
    """

    path: str
    reason: str | None = None
    recorded_by: str = ""
    status: str = ""


class RunStore:
    """The folder that holds all runs. ``shown`` is how messages name it."""

    def __init__(
        self,
        root: str,
        shown: str,
        environ: Mapping[str, str] | None = None,
        *,
        repository: str | None = None,
    ) -> None:
        """``environ`` is for git, which knows the runs that came with the repository.

        Without it none did. For ``repository`` see ``require_plain``.
        """
        self.root = root
        self.shown = shown
        self._repository = repository
        self._environ = environ
        self._tracked: frozenset[tuple[str, ...]] | None = None

    @classmethod
    def at(
        cls, repository: str, runs_dir: str, environ: Mapping[str, str] | None = None
    ) -> RunStore:
        """The store at ``runs_dir``, relative to the repository where it is relative."""
        shown = runs_dir.rstrip("/") or "/"
        return cls(os.path.join(repository, runs_dir), shown, environ, repository=repository)

    def require_plain(self, *parts: str) -> None:
        """Raise StorageError where the store, or a folder ``parts`` in it, is a link.

        A repository may bring one, to be read, written or removed through.
        """
        path = self.root.rstrip(os.sep)
        for name in ("", *parts):
            path = os.path.join(path, name).rstrip(os.sep)
            if os.path.islink(path):
                raise StorageError(
                    "the folder of the runs is a link",
                    where=path,
                    hint="remove it; to keep runs elsewhere, set CODEX_ORCHESTRATOR_RUNS_DIR",
                )
        if self._repository is not None:
            files.require_inside(self._repository, path)

    def is_brought(self, task_id: str, run_id: str) -> bool:
        """Whether a run came with the repository: git tracks it, or what is in its place.

        A submodule, or a link, is one path to git, and holds anything. Raises as ``tracked``.
        """
        if self._environ is None:
            return False
        if self._tracked is None:
            self._tracked = tracked(self.root, self._environ)
        way = (task_id.lower(), "cli", run_id.lower())
        return any(way[:length] in self._tracked for length in range(_DEPTH + 1))

    def is_brought_at(self, path: str) -> bool:
        """As ``is_brought``, of a run in any folder, also of another repository."""
        return self._environ is not None and bool(tracked(path, self._environ))

    def new_run(
        self, task_id: str, now: Callable[[], float] = time.time, run_id: str | None = None
    ) -> tuple[str, str]:
        """Make the folder of a new run, for the owner alone; its id and its path.

        Raises StorageError, also for a ``run_id`` that a run has.
        """
        run_id = run_id or new_run_id(now())
        path = os.path.join(self.make(task_id, "cli"), run_id)
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            raise files.storage_error(error, path) from None
        return run_id, path

    def make(self, *parts: str) -> str:
        """Make the folder ``parts`` of the store, for the owner alone. Raises StorageError."""
        self.require_plain(*parts)
        if not os.path.isdir(self.root):
            files.make_folder(self.root, 0o700)
            # Without `rlm-ci init` the runs could be committed by accident.
            files.write(os.path.join(self.root, ".gitignore"), b"*\n")
        path = self.root
        for name in parts:
            path = os.path.join(path, name)
            files.make_folder(path, 0o700)
        return path

    def subagent_runs(self, task_id: str, accept: Accept) -> Iterator[ManifestCandidate]:
        """Every place of ``<task_id>-*`` where a manifest is, or should be, in disk order.

        ``accept`` is first asked without a manifest, about the folder. Raises OSError when the
        store cannot be listed.
        """
        prefix = f"{task_id}-"
        with os.scandir(self.root) as folders:
            for folder in folders:
                if not folder.name.startswith(prefix):
                    continue
                shown = f"{self.shown}/{folder.name}"
                reason = accept(folder.name, None)
                if reason is not None:
                    yield ManifestCandidate(shown, reason)
                else:
                    yield from self._runs(folder.name, shown, accept)

    def _runs(self, name: str, shown: str, accept: Accept) -> Iterator[ManifestCandidate]:
        try:
            runs = os.scandir(os.path.join(self.root, name, "cli"))
        except FileNotFoundError:
            yield ManifestCandidate(shown, "missing cli directory")
            return
        except OSError as error:
            yield ManifestCandidate(shown, f"cli directory: {error.strerror}")
            return
        has_run = False
        with runs:
            for run in runs:
                try:
                    is_run = run.is_dir()
                except OSError:  # a link that leads in a circle
                    is_run = False
                if is_run:
                    has_run = True
                    manifest_path = f"{shown}/cli/{run.name}/manifest.json"
                    yield self._judge(name, run.path, manifest_path, accept)
        if not has_run:
            yield ManifestCandidate(f"{shown}/cli", "no run directories")

    @staticmethod
    def _judge(name: str, run: str, shown_path: str, accept: Accept) -> ManifestCandidate:
        try:
            data = files.read(os.path.join(run, "manifest.json"), _MANIFEST_LIMIT)
        except files.UnreadableError as error:
            reason = "manifest.json missing" if error.missing else f"manifest.json: {error}"
            return ManifestCandidate(shown_path, reason)
        manifest = parse(data)
        if not isinstance(manifest, dict):
            return ManifestCandidate(shown_path, "manifest.json is not a JSON object")
        recorder = recorder_of(manifest)
        status = manifest.get("status")
        shown = status[:_STATUS] if recorder and isinstance(status, str) else ""
        return ManifestCandidate(shown_path, accept(name, manifest), recorder, shown)


def recorder_of(manifest: Mapping[str, Any]) -> str:
    """The agent's program, and its version, that recorded a run; "" for a run of rlm-ci."""
    recorder = manifest.get("recorded_by")
    names = map(recorder.get, ("program", "version")) if isinstance(recorder, dict) else ()
    text = " ".join(name for name in names if isinstance(name, str))
    return "".join(char for char in text if char.isascii() and char.isprintable())[:_RECORDER]


def parse(data: bytes) -> Any:
    """The JSON value in ``data``; None for invalid JSON."""
    import json

    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def tracked(folder: str, environ: Mapping[str, str]) -> frozenset[Parts]:
    """The first parts of the paths that git tracks at and below ``folder``, in lower case.

    They reach down to a run at most; none outside of a repository. Raises StorageError where a
    link leads to the folder, and as ``Repository.run``.
    """
    root, git_dir = discover(folder)
    if git_dir is None:
        return frozenset()
    files.require_inside(root, folder)
    inside = os.path.relpath(os.path.abspath(folder), root)
    repository = Repository(root, git_dir, without_hook(environ))
    listed = repository.run("ls-files", "-z", "--", f"./{inside}", env=_PLAIN)
    above = 0 if inside == os.curdir else inside.count(os.sep) + 1
    names = os.fsdecode(listed).lower().split("\0")
    return frozenset(tuple(name.split("/"))[above : above + _DEPTH] for name in names if name)


def require_plain_run(path: str) -> None:
    """Raise DamagedError for anything in a run's folder but files and folders.

    No link may lead our reads and writes elsewhere. The trees in it are never looked through.
    """
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                entries = list(listing)
        except OSError as error:
            raise files.storage_error(error, path) from None
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _TREES:
                    waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                what = "is a link" if entry.is_symlink() else "is neither a file nor a folder"
                raise DamagedError(
                    f"something in the folder of the run {what}",
                    where=entry.path,
                    hint="rlm-ci makes none there: remove the run, or start a new one",
                )


def remove_unfinished(path: str) -> None:
    """Remove the temporary files that a kill left in a run's folder; others may write theirs."""
    from rlm_ci.runs.delegated import FILES  # imported here to keep hooks fast

    others = tuple(f".{name}." for name in FILES)
    for folder, inner, names in os.walk(path):
        inner[:] = [name for name in inner if name not in _TREES]
        for name in names:
            if name.startswith(".") and name.endswith(".tmp") and not name.startswith(others):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def sibling(path: str, run_id: str) -> str | None:
    """The folder of the run ``run_id`` beside the one at ``path``; None without one, or a link."""
    folder = os.path.join(os.path.dirname(path), run_id)
    is_there = is_task_id(run_id) and os.path.isdir(folder) and not os.path.islink(folder)
    return folder if is_there else None
