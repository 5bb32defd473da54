"""The files that a change takes back to before a commit that it says it reverts."""

from __future__ import annotations

import re

from rlm_ci.errors import RlmCiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository

#: What ``git revert`` writes into the message.
_SAYS = re.compile(r"^This reverts commit ([0-9a-f]{40})", re.MULTILINE)
#: What a button of GitHub writes: the title of the pull request.
_TITLE = re.compile(r"^Revert \"(.{8,200})\"(?: \(#\d+\))?$", re.MULTILINE)
#: Commits whose messages are read, and bytes of them.
_COMMITS, _LIMIT = 50, 1 << 20


def taken_back(
    changes: ChangeSet, contents: Mapping[str, bytes | None], product: Collection[str], most: int
) -> frozenset[str]:
    """Those of the files with these new ``contents`` that are as before a reverted commit.

    None, unless one of the ``product`` files is. ``most``: bytes of a file that is read.
    """
    repository, head, base = changes.repository, changes.head, changes.merge_base
    if changes.worktree or head is None or base is None:
        return frozenset()
    found = set[str]()
    try:
        said = repository.run(
            "rev-list", "--no-commit-header", f"--max-count={_COMMITS}", "--format=%B", head,
            "--not", base, limit=_LIMIT,
        )  # fmt: skip
        text = said.decode("utf-8", "replace")
        for commit in [*_SAYS.findall(text), *_titled(repository, _TITLE.findall(text), base)]:
            if repository.resolve(f"{commit}^")[0] is not None:
                specs = [f"{commit}^:{path}" for path in contents]
                before = repository.read_small(specs, most)
                same = zip(contents.items(), before, strict=True)
                found |= {path for (path, content), old in same if content == old}
    except RlmCiError:  # as in a partial clone
        return frozenset()
    return frozenset(found) if not found.isdisjoint(product) else frozenset()


def _titled(repository: Repository, titles: Iterable[str], base: str) -> Iterator[str]:
    """The last commits with these titles."""
    for title in titles:
        options = ("--fixed-strings", f"--grep={title}", "--max-count=1")
        yield from repository.run("rev-list", *options, base, limit=_LIMIT).decode().split()
