"""Native Git hooks of one clone: where Git looks for them, and what they run."""

from __future__ import annotations

import os
import sys
from shlex import quote

from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository

NAMES = ("pre-commit", "pre-push")
_SCOPES = ("--worktree", "--local", "--global", "--system")
_SEARCH = "for program in rlm-ci "


def folder(repository: Repository) -> tuple[str, bool]:
    """The folder that Git runs hooks from, and whether it belongs to this clone alone.

    Our own git never runs hooks, so that the setting is read scope by scope.
    """
    for scope in _SCOPES:
        key = ("config", scope, "--type=path", "--get", "-z", "core.hooksPath")
        found = repository.run(*key, ok=(0, 1, 128)).rstrip(b"\0")
        if found:
            path = os.path.normpath(os.path.join(repository.root, os.fsdecode(found)))
            root = os.path.join(os.path.realpath(repository.root), "")
            return path, os.path.realpath(path).startswith(root)
    return os.path.join(repository.common_dir, "hooks"), True


def script(folder: str, repository: Repository) -> str:
    """The text of each hook. If it cannot be committed, it also finds the rlm-ci that runs now."""
    text = loader.read_hook()
    own = os.path.join(os.path.dirname(sys.executable), "rlm-ci")
    is_private = folder == os.path.join(repository.common_dir, "hooks")
    if not is_private or not os.access(own, os.X_OK):
        return text
    return text.replace(_SEARCH, f"{_SEARCH}{quote(own)} ")
