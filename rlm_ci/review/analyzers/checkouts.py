"""A tree as files, for a tool that looks at it as a whole.

Files that configure tools are the base's: a change must not relax its judge.
"""

from __future__ import annotations

from rlm_ci.review.analyzers.scratch_folder import configures
from rlm_ci.workspace.trees import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from rlm_ci.workspace.trees.tree import Tree

#: They define what is built, so they must fit the code.
_BUILDS = frozenset(("Cargo.toml", "build.rs", "package-lock.json"))


def lay(
    judged: Tree,
    policy: Tree,
    folder: str,
    left_out: Collection[str] = (),
    instead: Tree | None = None,
) -> None:
    """Write ``judged`` below ``folder``, with the files of ``policy`` that configure tools.

    Of those ``left_out`` it has what ``instead`` holds. ``folder`` is a real path.
    """
    layers = [policy.only(is_setting)]
    if instead is not None:
        layers.append(instead.only(lambda path: path in left_out and not is_setting(path)))
    layers.append(judged.only(lambda path: path not in left_out and not is_setting(path)))
    tree.lay(folder, *layers)


def is_setting(path: str) -> bool:
    """Whether the base's version of the file counts."""
    return configures(path) and path.rpartition("/")[2] not in _BUILDS
