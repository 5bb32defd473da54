"""The two sides of a change as folders of our own, for tools to read."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Lock

from rlm_ci.system import files
from rlm_ci.values import Closing
from rlm_ci.workspace.trees.tree import Tree, lay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.git.repository import Repository


class ReviewTrees(Closing):
    """A folder for each of ``commits``, by the name of its side; None is the work tree.

    They are filled when first asked for, and removed at the end.
    """

    def __init__(self, repository: Repository, commits: Mapping[str, str | None]) -> None:
        self.sides = tuple(commits)
        self._repository = repository
        self._commits = commits
        self._held = ExitStack()
        self._lock = Lock()
        self._roots: dict[str, str] = {}

    def root(self, side: str) -> str:
        """The folder of a side. Raises StorageError, ConfigError."""
        with self._lock:
            if side not in self._roots:
                (folder,) = self._held.enter_context(files.scratch_folders(side))
                lay(folder, Tree.at(self._repository, self._commits[side]))
                self._roots[side] = folder
            return self._roots[side]

    def close(self) -> None:
        self._held.close()
