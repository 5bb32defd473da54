"""What test-guard reads beside a change: files left alone, and what a change takes back.

What seems to be lost may stand in a file that the change leaves alone. A change may also take files
back to before a commit that it says it reverts.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache

from rlm_ci.errors import RlmCiError
from rlm_ci.guard.weakening import RestOfTree
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository


#: What ``git revert`` writes into the message.
_SAYS = re.compile(r"^This reverts commit ([0-9a-f]{40})", re.MULTILINE)
#: What a button of GitHub writes: the title of the pull request.
_TITLE = re.compile(r"^Revert \"(.{8,200})\"(?: \(#\d+\))?$", re.MULTILINE)
#: How messages of people begin, and the commits and tags that they name.
_BY_HAND = re.compile(r"^(?:\w+(?:\(.{1,40}\))?!?: )?revert(?:s|ed|ing)?\b", re.IGNORECASE)
_NAMED = re.compile(
    r"\b([0-9a-f]{7,40})\b|\brevert\w*(?: back)? to (\w[\w./-]{0,80})", re.IGNORECASE
)
#: Commits whose messages are read, bytes of them, and commits that are named there.
_COMMITS, _LIMIT, _MOST_NAMED = 50, 1 << 20, 8


class TakenBack(Value):
    """The files that are as they were, and those of which most that changed is taken back."""

    restored: frozenset[str] = frozenset()
    mostly: frozenset[str] = frozenset()


def taken_back(
    changes: ChangeSet,
    contents: Mapping[str, tuple[bytes | None, bytes | None]],
    product: Collection[str],
    lost: Collection[str],
    limit: int,
) -> TakenBack:
    """Those of the files with these old and new ``contents`` that a change reverts.

    None, unless one of the ``product`` files is; of ``mostly`` also, if a commit is taken back with
    all of its files. Where people name no commit, it may be one of the last that changed a file in
    ``lost``. ``limit``: bytes of a file that is read.
    """
    repository, head, base = changes.repository, changes.head, changes.merge_base
    if changes.worktree or head is None or base is None:
        return TakenBack()
    fully, mostly = set[str](), set[str]()
    others = {*changes.names()} - contents.keys()
    try:
        log = repository.run(
            "rev-list", "--no-commit-header", f"--max-count={_COMMITS}", "--format=%B%x00", head,
            "--not", base, limit=_LIMIT,
        )  # fmt: skip
        text = log.decode("utf-8", "replace")
        certain = [*_SAYS.findall(text), *_titled(repository, _TITLE.findall(text), base)]
        commits = list[str]()
        if by_hand := [message for message in text.split("\0") if _BY_HAND.match(message.lstrip())]:
            pairs = _NAMED.findall("\n".join(by_hand))[:_MOST_NAMED]
            commits = [sha or other for sha, other in pairs]
            last = ("rev-list", f"--max-count={_MOST_NAMED}", base, "--", *lost)
            commits += repository.run(*last, limit=_LIMIT).decode().split()
        for commit in dict.fromkeys([*certain, *commits]):
            ends = repository.resolve(f"{commit}^", commit)
            after = ends[1]
            if None in ends or after is None or not _is_in(repository, after, base):
                continue
            undone = set[str]()
            both = [
                repository.read_small([f"{end}:{path}" for path in contents], limit) for end in ends
            ]
            for (path, (old, new)), *then in zip(contents.items(), *both, strict=True):
                if new == then[0] and commit in certain:
                    fully.add(path)
                states = then[:1] if commit in certain else then  # what it goes back to
                if new in states or _undoes(old, new, *then):
                    undone.add(path)
            is_whole = not undone.isdisjoint(product)
            if is_whole or (undone and _files(repository, commit) <= undone | others):
                mostly |= undone
    except RlmCiError:  # as in a partial clone
        return TakenBack()
    return TakenBack(frozenset(() if fully.isdisjoint(product) else fully), frozenset(mostly))


def _is_in(repository: Repository, commit: str, base: str) -> bool:
    """Whether a commit is part of what a change begins with."""
    return not repository.run("rev-list", "--max-count=1", commit, "--not", base, limit=_LIMIT)


def _files(repository: Repository, commit: str) -> set[str]:
    """The paths that a commit changed."""
    options = ("-r", "-z", "--no-commit-id", "--name-only", commit)
    names = repository.run("diff-tree", *options, limit=_LIMIT).split(b"\0")
    return set(map(os.fsdecode, filter(None, names)))


def _undoes(old: bytes | None, new: bytes | None, *then: bytes | None) -> bool:
    """Whether most of the lines that differ are those of a change, the other way round."""
    was, now, before, after = (Counter((text or b"").split(b"\n")) for text in (old, new, *then))
    undone = (was - now) & (after - before), (now - was) & (before - after)
    return 2 * sum(map(Counter.total, undone)) > ((was - now) + (now - was)).total()


def _titled(repository: Repository, titles: Iterable[str], base: str) -> Iterator[str]:
    """The last commits with these titles."""
    for title in titles:
        options = ("--fixed-strings", f"--grep={title}", "--max-count=1")
        yield from repository.run("rev-list", *options, base, limit=_LIMIT).decode().split()


#: Tests that are looked for, letters of the name of one, and files that are read.
_NAMES, _LONGEST, _FILES = 50, 200, 20


class UnchangedFiles(RestOfTree):
    """Read from the old side; what git cannot read, as in a partial clone, is not there.

    ``limit``: bytes of a file that is read.
    """

    def __init__(self, changes: ChangeSet, limit: int) -> None:
        self._changes = changes
        self._limit = limit

    def with_names(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """See :class:`RestOfTree`: files that are tests by their own names."""
        searched = [name for name in sorted(names) if 0 < len(name) <= _LONGEST][:_NAMES]
        commit = self._changes.merge_base
        if not searched or commit is None:
            return
        try:
            paths = self._files_named(searched, commit)
            specs = [f"{commit}:{path}" for path in paths]
            contents = self._changes.repository.read_small(specs, self._limit) if specs else []
        except RlmCiError:
            return
        for path, content in zip(paths, contents, strict=True):
            if text := text_of(content):
                yield path, text

    def read(self, paths: Iterable[str]) -> Mapping[str, str]:
        """See :class:`RestOfTree`."""
        texts = {}
        for path in paths:
            try:
                content = None if ".." in path else self._changes.read(path, self._limit)
            except RlmCiError:
                content = None
            if text := text_of(content):
                texts[path] = text
        return texts

    @cache  # noqa: B019 - one for each run of the check
    def paths(self) -> frozenset[str]:
        """See :class:`RestOfTree`."""
        commit = self._changes.merge_base
        try:
            entries = self._changes.repository.tree(commit) if commit else {}
        except RlmCiError:
            return frozenset()
        kinds = self._changes.kinds
        return frozenset(
            path for path, entry in entries.items() if entry.is_file and path not in kinds
        )

    def _files_named(self, names: Collection[str], commit: str) -> list[str]:
        from rlm_ci.guard.weakened_tests.cases import READ_BY_STATEMENTS
        from rlm_ci.validators import test_file_names

        texts = [name.encode("utf-8", "surrogateescape") for name in names]
        patterns = [f"*{ending}" for ending in (".py", *READ_BY_STATEMENTS)]
        search = self._changes.repository.start_search(texts, commit, patterns, "-w")
        with search:
            rows = search.finish().decode("utf-8", "surrogateescape").split("\0")
        paths = [row.removeprefix(f"{commit}:") for row in rows if row]
        kinds = self._changes.kinds
        return [path for path in paths if path not in kinds and test_file_names.is_file(path)][
            :_FILES
        ]


def text_of(content: bytes | None) -> str | None:
    """A file as text, whatever ends its lines."""
    if content is None:
        return None
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
