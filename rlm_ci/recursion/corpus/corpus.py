"""The files of a recursion, in one order, and what was left out, each with its reason.

They come from a commit, read from git's objects alone; from the work tree; or from a folder
outside of git. A file is identified by its path and the blob id of its content; reading it later
gives that content or an error.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property, partial
from hashlib import sha256

from rlm_ci.context.own_files import OwnFiles
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.git import tracked
from rlm_ci.git.objects import batches, parse_closed, parse_tree
from rlm_ci.git.repository import Repository
from rlm_ci.recursion.corpus import eligibility as why
from rlm_ci.system import files as opened
from rlm_ci.system.safe_tree import LITTER
from rlm_ci.text.printable import printable
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.recursion.corpus.eligibility import EligibilityRules

    Read = Callable[[Sequence["CorpusFile"]], list[bytes]]

#: Bytes, and objects, per call of git.
_BATCH_BYTES = 32 << 20
_BATCH_COUNT = 20_000


class CorpusFile(Row):
    """A file: its path, the blob id of its content, its size in bytes."""

    path: str
    oid: str
    size: int


class Corpus:
    """``files`` in the order of ``order``; ``omitted`` are pairs of path and reason.

    A folder that is left out as a whole ends with a slash. ``commit`` is None for files that are
    not committed. ``digest`` is a hash over the paths and contents.
    """

    def __init__(
        self,
        commit: str | None,
        files: tuple[CorpusFile, ...],
        omitted: tuple[tuple[str, str], ...],
        read: Read,
    ) -> None:
        self.commit = commit
        self.files = files
        self.omitted = omitted
        self._read = read

    @cached_property
    def digest(self) -> str:
        return digest_of(self.files)

    @property
    def closed(self) -> tuple[str, ...]:
        """The omitted paths that could not be read."""
        words = (why.UNREADABLE,) if self.commit is None else (why.UNREADABLE, why.MISSING)
        return tuple(path for path, reason in self.omitted if reason.partition(":")[0] in words)

    def read(self, files: Sequence[CorpusFile]) -> list[bytes]:
        """The contents. Raises ConfigError for a file that has changed, DamagedError."""
        return self._read(files)

    def limited(self, paths: Collection[str]) -> Corpus:
        """The corpus with ``paths`` alone, and the reasons for those left out."""
        chosen = frozenset(paths)
        above = {path[: at + 1] for path in chosen for at, sign in enumerate(path) if sign == "/"}
        return Corpus(
            self.commit,
            tuple(file for file in self.files if file.path in chosen),
            tuple(pair for pair in self.omitted if pair[0] in chosen or pair[0] in above),
            self._read,
        )


def order(path: str) -> bytes:
    """A sort key: the files of a folder before its folders, names by their bytes."""
    folder, separator, name = path.encode("utf-8", "surrogateescape").rpartition(b"/")
    if not separator:
        return b"\0" + name
    return b"\1%b\0\0%b" % (folder.replace(b"/", b"\0\1"), name)


def digest_of(files: Iterable[CorpusFile]) -> str:
    text = "".join([f"{path}\0{oid}\0" for path, oid, _ in files])
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def at_commit(
    repository: Repository,
    commit: str,
    rules: EligibilityRules,
    under: str = "",
    policy: str | None = None,
) -> Corpus:
    """The files of a commit, below the folder ``under``.

    ``policy`` is the commit whose attributes say what is generated, if ``commit`` is a change from
    outside. Raises ConfigError and what git raises.
    """
    with repository.start_tree(commit, sizes=True) as listing:
        tree = parse_tree(listing.finish())
    selection = _Selection(repository, rules, under, committed=True)
    corpus_files: list[CorpusFile] = []
    for path, entry in tree.items():
        if not selection.is_under(path):
            continue
        _, kind, oid, size = entry
        reason = _unusual(kind, entry.mode, size) or selection.reason(path, size)
        if reason is None:
            corpus_files.append(CorpusFile.of((path, oid, size)))
        else:
            selection.omitted[path] = reason
    selection.attributes = _attributes(
        repository, tree if policy is None else repository.tree(policy)
    )
    corpus_files = selection.unmarked(corpus_files)
    binary, dense = _judged_by_content(repository, corpus_files)
    corpus_files = selection.without(
        corpus_files, {file.path: why.ZERO for file in corpus_files if file.oid in binary}
    )
    corpus_files = selection.own_files(corpus_files, dense)

    def read(files: Sequence[CorpusFile]) -> list[bytes]:
        contents: dict[str, bytes] = {}
        for oid, content in _blobs(repository, files):
            if content is None:
                path = next(file.path for file in files if file.oid == oid)
                raise DamagedError(
                    f"the repository lacks the content of {printable(path)}",
                    where=repository.root,
                    hint="fetch it: git fetch --refetch, in a clone without a filter",
                )
            contents[oid] = content
        return [contents[file.oid] for file in files]

    return selection.corpus(commit, corpus_files, read)


def in_worktree(
    repository: Repository,
    rules: EligibilityRules,
    under: str = "",
    own_folders: Sequence[str] = (),
) -> Corpus:
    """The files in the work tree that git tracks, or does not ignore.

    ``own_folders`` are folders in which rlm-ci writes. Raises ConfigError and what git raises.
    """
    top = repository.root
    with repository.start_listing() as listing:
        listed = dict.fromkeys(listing.finish().split(b"\0"))
    passed = OwnFiles(own_folders)
    selection = _Selection(repository, rules, under)
    omitted = selection.omitted
    for path in parse_closed(listing.warned):
        if selection.is_under(path) and not passed.holds(path, top):
            omitted[path] = f"{why.UNREADABLE}: the folder cannot be opened"
    names = []
    for raw in listed:
        path = os.fsdecode(raw).replace(os.sep, "/")
        if not path or not selection.is_under(path):
            continue
        if passed.holds(path, top):
            omitted[path] = f"{why.OWN}: written by rlm-ci"
        else:
            names.append(path)
    for path in _ignored(repository):
        is_own = passed.holds(path, top) or passed.has(os.path.join(top, path).rstrip("/"))
        if selection.is_under(path) and not is_own:
            omitted[path] = f"{why.IGNORED}: by .gitignore"
    places = [os.fsdecode(name) for name in listed if name.endswith(b".gitattributes")]
    selection.attributes = why.heeded(
        (path, _content(partial(tracked.read, repository), path, rules.max_file_bytes))
        for path in places
        if why.is_attributes(path)
    )
    return _on_disk(selection, selection.unmarked(selection.regular(top, names)))


def in_folder(root: str, rules: EligibilityRules, own_folders: Sequence[str] = ()) -> Corpus:
    """All files below a folder, which may be outside of git. Raises ConfigError."""
    selection = _Selection(Repository(root, None, {}), rules)
    names = list(_walk(root, OwnFiles(own_folders), selection.omitted))
    return _on_disk(selection, selection.regular(root, names))


class _Selection:
    """The files below ``under`` that the rules keep; ``omitted`` are the others, with reasons.

    ``attributes`` are the contents of the attribute files that count.
    """

    def __init__(
        self,
        repository: Repository,
        rules: EligibilityRules,
        under: str = "",
        *,
        committed: bool = False,
    ) -> None:
        self.repository = repository
        self.rules = rules
        self.omitted: dict[str, str] = {}
        self.attributes: Mapping[str, bytes] = {}
        self.reason = why.filter_by(rules, committed=committed)
        self._under = under

    def is_under(self, path: str) -> bool:
        under = self._under
        return not under or path == under or path.startswith(f"{under}/")

    def without(self, files: list[CorpusFile], reasons: Mapping[str, str]) -> list[CorpusFile]:
        self.omitted |= reasons
        return [file for file in files if file.path not in reasons] if reasons else files

    def unmarked(self, files: list[CorpusFile]) -> list[CorpusFile]:
        """Without the files that an attribute marks."""
        names = [file.path for file in files]
        is_all = self.rules.include_generated
        marks = why.marked(self.repository, self.attributes, names, include_generated=is_all)
        return self.without(files, marks)

    def own_files(self, files: list[CorpusFile], dense: Collection[str]) -> list[CorpusFile]:
        """Without generated and vendored files, by names and lines; ``dense`` contents have the
        lines of a bundle.
        """
        if not self.rules.guess:
            return files
        under = self._under
        guesses = {
            file.path: reason
            for file in files
            if file.path != under
            and (reason := why.guess(file.path[len(under) :], dense=file.oid in dense))
        }
        return self.without(files, why.confirmed(self.repository, self.attributes, guesses))

    def regular(self, top: str, names: Iterable[str]) -> list[CorpusFile]:
        """The regular files that the rules keep, without their ids yet."""
        files = []
        for path in names:
            reason: str | None
            size = 0
            try:
                status = os.lstat(os.path.join(top, path))
            except FileNotFoundError:  # removed, or left out of a sparse checkout
                reason = f"{why.MISSING}: git knows it, and it is not in the work tree"
            except (OSError, ValueError):
                reason = f"{why.UNREADABLE}: it cannot be looked at"
            else:
                size = status.st_size
                reason = _not_regular(status.st_mode) or self.reason(path, size)
            if reason is None:
                files.append(CorpusFile.of((path, "", size)))
            else:
                self.omitted[path] = reason
        return files

    def corpus(self, commit: str | None, files: Iterable[CorpusFile], read: Read) -> Corpus:
        return Corpus(
            commit,
            tuple(sorted(files, key=lambda file: order(file.path))),
            tuple(sorted(self.omitted.items(), key=lambda pair: order(pair[0]))),
            read,
        )


# ── a commit ──


def _attributes(repository: Repository, tree: Mapping[str, TreeEntry]) -> dict[str, bytes]:
    places = [path for path, entry in tree.items() if why.is_attributes(path) and entry.is_file]
    if not places:
        return {}
    contents = repository.read(*(tree[path].oid for path in places))
    return why.heeded(zip(places, contents, strict=True))


def _unusual(kind: str, mode: str, size: int) -> str | None:
    if kind == "commit":
        return f"{why.SUBMODULE}: another repository"
    if mode == "120000":
        return f"{why.LINK}: a symbolic link"
    return f"{why.MISSING}: this clone does not have it" if size < 0 else None


def _blobs(
    repository: Repository, files: Iterable[CorpusFile]
) -> Iterator[tuple[str, bytes | None]]:
    """Each content once, with its id, in batches that fit in memory."""
    sizes = {file.oid: file.size for file in files}
    for oids in batches(sizes.items(), _BATCH_BYTES, _BATCH_COUNT):
        yield from zip(oids, repository.read(*oids), strict=True)


def _judged_by_content(
    repository: Repository, files: Iterable[CorpusFile]
) -> tuple[set[str], set[str]]:
    """The ids of binary contents, and of those with the lines of a bundle.

    A content that cannot be read is an error when it is read for a leaf.
    """
    binary, dense = set(), set()
    for oid, content in _blobs(repository, files):
        if content and why.is_binary(content):
            binary.add(oid)
        elif content and why.is_dense(content):
            dense.add(oid)
    return binary, dense


# ── the disk ──


def _on_disk(selection: _Selection, files: Iterable[CorpusFile]) -> Corpus:
    """The files that can be read, each with the id that git would give its content."""
    repository = selection.repository
    root, max_bytes = repository.root, selection.rules.max_file_bytes
    corpus_files = []
    dense = set()
    for path, _, _ in files:
        try:
            content = opened.read_inside(root, path, max_bytes)
        except opened.UnreadableError as error:
            selection.omitted[path] = f"{why.UNREADABLE}: {error}"
            continue
        if why.is_binary(content):
            selection.omitted[path] = why.ZERO
        else:
            corpus_files.append(CorpusFile.of((path, repository.blob_id(content), len(content))))
            if why.is_dense(content):
                dense.add(corpus_files[-1].oid)
    corpus_files = selection.own_files(corpus_files, dense)

    def read(files: Sequence[CorpusFile]) -> list[bytes]:
        contents = []
        for file in files:
            content = _content(partial(opened.read_inside, root), file.path, max_bytes)
            if content is None or repository.blob_id(content) != file.oid:
                raise ConfigError(
                    "a file changed during the run",
                    where=printable(file.path),
                    hint="start again when nothing writes to it, or name a commit",
                )
            contents.append(content)
        return contents

    return selection.corpus(None, corpus_files, read)


def _content(read: Callable[[str, int], bytes], path: str, limit: int) -> bytes | None:
    try:
        return read(path, limit)
    except opened.UnreadableError:
        return None


def _ignored(repository: Repository) -> Iterator[str]:
    """The paths that git ignores; a folder without tracked files is one path, ending in a slash."""
    listed = repository.run(
        "ls-files", "-z", "--full-name", "--others", "--ignored", "--exclude-standard",
        "--directory",
    )  # fmt: skip
    return (os.fsdecode(name) for name in listed.split(b"\0") if name)


def _not_regular(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISLNK(mode):
        return f"{why.LINK}: a symbolic link"
    if stat.S_ISDIR(mode):
        return f"{why.SUBMODULE}: another repository"
    return f"{why.SPECIAL}: neither a file nor a folder"


def _walk(top: str, files: OwnFiles, omitted: dict[str, str]) -> Iterator[str]:
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            with os.scandir(os.path.join(top, inner)) as entries:
                for entry in entries:
                    path = f"{inner}{entry.name}"
                    if not entry.is_dir(follow_symlinks=False):
                        yield path
                    elif entry.name in LITTER:
                        omitted[f"{path}/"] = f"{why.LITTER}: left behind by builds and tests"
                    elif files.is_ours(os.path.join(top, path)):
                        continue  # only later runs find it: no run may report it
                    elif files.has(os.path.join(top, path)):
                        omitted[f"{path}/"] = f"{why.OWN}: written by git or rlm-ci"
                    else:
                        folders.append(f"{path}/")
        except OSError as error:
            if not inner:
                raise ConfigError(
                    f"the folder cannot be read: {error.strerror}",
                    where=printable(top),
                    hint="name a folder that is there, and open to you",
                ) from None
            omitted[inner] = f"{why.UNREADABLE}: {error.strerror}"
