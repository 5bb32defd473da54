"""Say what is not judged: uncommitted work, where the change is between commits."""

from __future__ import annotations

import os

from rlm_ci.change import change_set
from rlm_ci.console.messages import say
from rlm_ci.errors import RlmCiError
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository


def note(repository: Repository, commit: str | None, how: str) -> None:
    """Say how many files with uncommitted changes are not part of ``commit``, if that is HEAD.

    ``how`` is what looks at them.
    """
    # Without an index nothing is checked out.
    if not os.path.exists(repository.index_file) or commit != repository.head_commit():
        return
    pending = change_set.from_local(repository, "worktree")
    try:
        paths = {*pending.names(), *pending.untracked.paths, *pending.untracked.closed}
    except RlmCiError as error:
        say(f"note: uncommitted changes are not part of this, and could not be listed: {error}")
        return
    if paths:
        are = "is" if len(paths) == 1 else "are"
        files = count(len(paths), "file")
        say(f"note: {files} with uncommitted changes {are} not part of this; {how} checks them")
