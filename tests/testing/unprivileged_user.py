"""What somebody who is not root sees: folders that are closed to him, in a copy that is his."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rlm_ci.git.repository import Repository, discover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testing.repositories.git_repo import GitRepo

NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="needs to be somebody else"
)


@contextmanager
def closed_copy(repo: GitRepo, *closed: str) -> Iterator[str]:
    """A copy of the repository that belongs to nobody, and that cannot open some of its folders."""
    with tempfile.TemporaryDirectory() as place:  # that of the tests is closed to others
        copy = os.path.join(place, "copy")
        shutil.copytree(repo.path, copy)
        for folder, _, names in os.walk(place):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(path, NOBODY, NOBODY)
        for name in closed:
            os.chmod(os.path.join(copy, name), 0)
        yield copy


def holds_for_nobody(copy: str, claim: Callable[[Repository], bool]) -> bool:
    """Whether ``claim`` is true of the repository for a process that is nobody's."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            os.seteuid(NOBODY)
            home = {"HOME": copy, "XDG_CONFIG_HOME": copy, "GIT_CONFIG_GLOBAL": os.devnull}
            code = 0 if claim(Repository(*discover(copy), {**os.environ, **home})) else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
