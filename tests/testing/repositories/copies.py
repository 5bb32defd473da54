"""Repositories that are built once in a process and then cast again, file by file.

What many tests start from takes a dozen git processes to build, and one to cast.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from testing.repositories.commit_writer import refresh
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MADE: dict[str, Mould] = {}


class Mould:
    """The repositories below ``folder``, kept in memory; the first is the one that is worked in.

    Their own path may stand in their configuration: a clone's says where it came from.
    """

    def __init__(self, folder: Path, made: Sequence[GitRepo]) -> None:
        self._folder = os.fsencode(folder)
        self._repos = [(repo.path.relative_to(folder), repo.commits) for repo in made]
        self._files: list[tuple[str, int, bytes]] = []
        for path in sorted(folder.rglob("*")):
            mode = path.lstat().st_mode
            content = b""
            if stat.S_ISLNK(mode):
                content = os.readlink(os.fsencode(path))
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            self._files.append((str(path.relative_to(folder)), mode, content))

    def cast(self, folder: Path) -> list[GitRepo]:
        folder.mkdir(parents=True, exist_ok=True)
        for name, mode, content in self._files:
            path = folder / name
            if stat.S_ISDIR(mode):
                path.mkdir()
            elif stat.S_ISLNK(mode):
                os.symlink(content, os.fsencode(path))
            else:
                own = path.name == "config"
                path.write_bytes(
                    content.replace(self._folder, os.fsencode(folder)) if own else content
                )
                path.chmod(stat.S_IMODE(mode))
        return [GitRepo.again(folder / name, commits) for name, commits in self._repos]


def cast(folder: Path, build: Callable[[Path], Sequence[GitRepo]]) -> Sequence[GitRepo]:
    """What ``build(folder)`` makes in a folder of its own, built no more than once."""
    name = f"{build.__module__}.{build.__qualname__}"
    if name not in _MADE:
        made = build(folder)
        _MADE[name] = Mould(folder, made)
        return made
    made = _MADE[name].cast(folder)
    for repo in made:
        # git knows a file by its inode too: the index of another one's would all be in doubt.
        if not (repo.path / "HEAD").exists() and not refresh(os.fsencode(repo.path)):
            repo.run("update-index", "-q", "--refresh")
    return made
