"""Workspaces of a small project, and what lies in them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from rlm_ci.git.repository import Repository, discover
from rlm_ci.workspace.workspace import Workspace
from testing.repositories.git_repo import GitRepo


def opened(root: Path) -> Repository:
    top, git_dir = discover(str(root))
    return Repository(top, git_dir, dict(os.environ))


def workspace(root: GitRepo | Path, place: Path, **options: Any) -> Workspace:
    where = root.path if isinstance(root, GitRepo) else root
    return Workspace(str(place), opened(where), dict(os.environ), **options)


def patch(space: Workspace, tree: str | None = None) -> bytes:
    """The patch from the snapshot to ``tree``, by default to what the copy holds now."""
    return space.diff(space.snapshot.tree, tree or space.tree())


def everything(root: Path) -> dict[bytes, tuple[int, bytes, int]]:
    """Mode, content and time of all files below a folder."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            is_link = stat.S_ISLNK(status.st_mode)
            content = os.readlink(path) if is_link else Path(os.fsdecode(path)).read_bytes()
            found[path] = (status.st_mode, content, status.st_mtime_ns)
    return found


def held(copy: str) -> set[str]:
    """The files of a copy, without what only stands there for the sandbox."""
    found = set()
    for folder, _, names in os.walk(copy):
        found |= {os.path.relpath(os.path.join(folder, name), copy) for name in names}
    return found


def shape(root: str | Path, *without: bytes) -> dict[bytes, tuple[str, bytes]]:
    """Kind and content of all files below but for git's own, the runs and ``without``."""
    found = {}
    top = os.fsencode(root)
    for folder, names, files in os.walk(top):
        if folder == top:
            names[:] = [name for name in names if name not in (b".git", b".runs", *without)]
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        for name in files + links:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                kind, content = "link", os.readlink(path)
            else:
                kind = "script" if os.access(path, os.X_OK) else "file"
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, top)] = (kind, content)
    return found
