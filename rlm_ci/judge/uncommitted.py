"""Say what is not judged: uncommitted work, where the change is between commits."""

from __future__ import annotations

import os

from rlm_ci.change import change_set
from rlm_ci.console.messages import say
from rlm_ci.errors import RlmCiError
from rlm_ci.git.objects import parse_rows
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository

#: Of submodules only their commits: to look into one runs a git there.
_RAW = ("--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=dirty")


def note(repository: Repository, commit: str | None, how: str) -> None:
    """Say how many files with uncommitted changes are not part of ``commit``, if that is HEAD.

    ``how`` is what looks at them.
    """
    # Without an index nothing is checked out.
    if not os.path.exists(repository.index_file) or commit != repository.head_commit():
        return
    try:
        pending = change_set.from_local(repository, "worktree").untracked
        changed = repository.diff_worktree(
            *_RAW, commit or "HEAD", env=_without_filters(repository)
        )
        paths = {*parse_rows(changed), *pending.paths, *pending.closed}
    except RlmCiError as error:
        say(f"note: uncommitted changes are not part of this, and could not be listed: {error}")
        return
    if paths:
        are = "is" if len(paths) == 1 else "are"
        files = count(len(paths), "file")
        say(f"note: {files} with uncommitted changes {are} not part of this; {how} checks them")


def _without_filters(repository: Repository) -> dict[str, str]:
    """Variables by which git runs no filter on contents: a look at commits runs no program.

    A filtered file that only its time tells from the committed one then counts as changed.
    """
    names = repository.run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
    keys = [os.fsdecode(name) for name in names.split(b"\0") if name]
    variables = {"GIT_CONFIG_COUNT": str(len(keys))}
    for number, key in enumerate(keys):
        is_flag = key.endswith(".required")
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = "false" if is_flag else ""
    return variables
