"""The runs on disk: ``<runs>/<task-id>/cli/<run-id>/manifest.json``."""

from __future__ import annotations

import os
import time

from rlm_ci.errors import StorageError
from rlm_ci.runs import tracked_by_git
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

_MANIFEST_LIMIT = 4 << 20


class ManifestCandidate(Value):
    """A place where a manifest was looked for: ``reason`` is why it does not count, or None."""

    path: str
    reason: str | None = None


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
        """``environ`` lets git be asked which runs came with the repository; without it, none.

        A store inside of ``repository`` must lie there for good: see ``require_plain``.
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
        """Whether a run came with the repository: whoever wrote it, it was not rlm-ci here.

        Raises what asking git raises, and StorageError where the store is a link.
        """
        if self._environ is None:
            return False
        if self._tracked is None:
            self._tracked = tracked_by_git.tracked(self.root, self._environ)
        return tracked_by_git.is_tracked(task_id, run_id, self._tracked)

    def is_brought_at(self, path: str) -> bool:
        """As ``is_brought``, of a run in any folder: that of another repository too."""
        if self._environ is None:
            return False
        return bool(tracked_by_git.tracked(path, self._environ))

    def new_run(self, task_id: str, now: Callable[[], float] = time.time) -> tuple[str, str]:
        """Make the folder of a new run, for the owner alone; its id and its path."""
        stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(now()))
        run_id = f"{stamp}-{os.urandom(4).hex()}"
        self.require_plain(task_id, "cli")
        if not os.path.isdir(self.root):
            files.make_folder(self.root, 0o700)
            # Whoever has not run `rlm-ci init` must not commit runs by accident.
            files.write(os.path.join(self.root, ".gitignore"), b"*\n")
        path = self.root
        for name in (task_id, "cli", run_id):
            path = os.path.join(path, name)
            files.make_folder(path, 0o700)
        return run_id, path

    def subagent_runs(
        self, task_id: str, accept: Callable[[str, dict[str, Any] | None], str | None]
    ) -> Iterator[ManifestCandidate]:
        """Every place of ``<task_id>-*`` where a manifest is, or should be, in disk order.

        ``accept(folder name, manifest)`` says why it does not count, or None; it is asked
        first without a manifest, about the folder alone. Raises OSError when the store
        itself cannot be listed.
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

    def _runs(
        self, name: str, shown: str, accept: Callable[[str, dict[str, Any] | None], str | None]
    ) -> Iterator[ManifestCandidate]:
        try:
            runs = os.scandir(os.path.join(self.root, name, "cli"))
        except FileNotFoundError:
            yield ManifestCandidate(shown, "missing cli directory")
            return
        except OSError as error:
            yield ManifestCandidate(shown, f"cli directory: {error.strerror}")
            return
        found = False
        with runs:
            for run in runs:
                try:
                    is_run = run.is_dir()
                except OSError:  # a link that leads in a circle
                    is_run = False
                if is_run:
                    found = True
                    place = f"{shown}/cli/{run.name}/manifest.json"
                    yield ManifestCandidate(place, self._judge(name, run.path, accept))
        if not found:
            yield ManifestCandidate(f"{shown}/cli", "no run directories")

    @staticmethod
    def _judge(
        name: str, run: str, accept: Callable[[str, dict[str, Any] | None], str | None]
    ) -> str | None:
        try:
            data = files.read(os.path.join(run, "manifest.json"), _MANIFEST_LIMIT)
        except files.UnreadableError as error:
            return "manifest.json missing" if error.missing else f"manifest.json: {error}"
        manifest = parse(data)
        if not isinstance(manifest, dict):
            return "manifest.json is not a JSON object"
        return accept(name, manifest)


def parse(data: bytes) -> Any:
    """The JSON value in ``data``; None when it is none, or nested too deeply."""
    import json

    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
