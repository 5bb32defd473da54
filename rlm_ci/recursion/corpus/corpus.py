"""The files that a recursion is about, in one order, and what was left out, each with its reason.

Three ways lead here: a commit, read from git's objects alone; the work tree as it is; a folder
outside of git. Whichever it is, a file is known by its path and the id that its content has as a
blob, and reading it later gives that content or an error.
"""

from __future__ import annotations

import os
import stat
from functools import partial
from hashlib import sha256

from rlm_ci.context.own_files import OwnFiles
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.git import tracked
from rlm_ci.git.objects import parse_closed, parse_tree
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
    Omitted = dict[str, str]

#: Bytes, and objects, that one git is asked for.
_BATCH_BYTES = 32 << 20
_BATCH_COUNT = 20_000


class CorpusFile(Row):
    """A file that is looked at: its path, the id of its content as a blob, its size in bytes."""

    path: str
    oid: str
    size: int


class Corpus:
    """``files`` in the order of ``order``; ``omitted`` are pairs of path and reason.

    A folder that is left out as a whole is one of them, and ends with a slash. ``commit`` is None
    for files that are not committed. ``digest`` is a hash over the paths and contents.
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
        self._digest = ""

    @property
    def digest(self) -> str:
        if not self._digest:
            self._digest = digest_of(self.files)
        return self._digest

    @property
    def closed(self) -> tuple[str, ...]:
        """What is left out because nobody could look at it."""
        words = (why.UNREADABLE,) if self.commit is None else (why.UNREADABLE, why.MISSING)
        return tuple(path for path, told in self.omitted if told.partition(":")[0] in words)

    def read(self, files: Sequence[CorpusFile]) -> list[bytes]:
        """Their contents. Raises ConfigError for a file that has changed, DamagedError."""
        return self._read(files)

    def limited(self, paths: Collection[str]) -> Corpus:
        """The same with ``paths`` alone, and with why any of them was left out."""
        wanted = frozenset(paths)
        above = {path[: at + 1] for path in wanted for at, sign in enumerate(path) if sign == "/"}
        return Corpus(
            self.commit,
            tuple(file for file in self.files if file.path in wanted),
            tuple(pair for pair in self.omitted if pair[0] in wanted or pair[0] in above),
            self._read,
        )


def order(path: str) -> bytes:
    """The key of the one order: the files of a folder before its folders, names by their bytes."""
    folder, found, name = path.encode("utf-8", "surrogateescape").rpartition(b"/")
    if not found:
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

    ``policy`` is the commit whose attributes say what is generated, where ``commit`` itself may be
    a change from outside. Raises ConfigError and what git raises.
    """
    with repository.start_tree(commit, sizes=True) as listing:
        tree = parse_tree(listing.finish())
    sieve = why.EligibilityFilter(rules, committed=True)
    found: list[CorpusFile] = []
    omitted: Omitted = {}
    for path, entry in tree.items():
        if not _is_under(path, under):
            continue
        _, kind, oid, size = entry
        reason = _unusual(kind, entry.mode, size) or sieve.reason(path, size)
        if reason is None:
            found.append(CorpusFile.of((path, oid, size)))
        else:
            omitted[path] = reason
    attributes = _attributes(repository, tree if policy is None else repository.tree(policy))
    found = _unmarked(repository, found, attributes, rules, omitted)
    binary, dense = _told_by_content(repository, found)
    omitted |= {file.path: why.binary() for file in found if file.oid in binary}
    found = [file for file in found if file.oid not in binary]
    found = _own(repository, found, attributes, rules, omitted, under=under, dense=dense)

    def read(files: Sequence[CorpusFile]) -> list[bytes]:
        contents: dict[str, bytes] = {}
        for oid, content in _blobs(repository, files):
            if content is None:
                raise DamagedError(
                    f"the repository lacks the content of {_named(files, oid)}",
                    where=repository.root,
                    hint="fetch it: git fetch --refetch, in a clone without a filter",
                )
            contents[oid] = content
        return [contents[file.oid] for file in files]

    return _corpus(commit, found, omitted, read)


def in_worktree(
    repository: Repository, rules: EligibilityRules, under: str = "", own: Sequence[str] = ()
) -> Corpus:
    """What git knows of the work tree, or does not ignore, as it lies there now.

    ``own`` are folders in which rlm-ci writes. Raises ConfigError and what git raises.
    """
    top = repository.root
    with repository.start_listing() as listing:
        listed = dict.fromkeys(listing.finish().split(b"\0"))
    passed = OwnFiles(own)
    omitted: Omitted = {}
    for path in parse_closed(listing.warned):
        if _is_under(path, under) and not passed.holds(path, top):
            omitted[path] = f"{why.UNREADABLE}: the folder cannot be opened"
    names = []
    for raw in listed:
        path = os.fsdecode(raw).replace(os.sep, "/")
        if not path or not _is_under(path, under):
            continue
        if passed.holds(path, top):
            omitted[path] = f"{why.OWN}: written by rlm-ci"
        else:
            names.append(path)
    for path in _ignored(repository):
        is_own = passed.holds(path, top) or passed.has(os.path.join(top, path).rstrip("/"))
        if _is_under(path, under) and not is_own:
            omitted[path] = f"{why.IGNORED}: by .gitignore"
    places = [os.fsdecode(name) for name in listed if name.endswith(b".gitattributes")]
    attributes = why.heeded(
        (path, _content(partial(tracked.read, repository), path, rules.max_file_bytes))
        for path in places
        if why.is_attributes(path)
    )
    found = [CorpusFile.of((path, "", size)) for path, size in _sized(top, names, rules, omitted)]
    found = _unmarked(repository, found, attributes, rules, omitted)
    return _on_disk(repository, found, omitted, rules, attributes=attributes, under=under)


def in_folder(root: str, rules: EligibilityRules, own: Sequence[str] = ()) -> Corpus:
    """All files below a folder that need not be git's. Raises ConfigError."""
    omitted: Omitted = {}
    names = list(_walk(root, OwnFiles(own), omitted))
    found = [CorpusFile.of((path, "", size)) for path, size in _sized(root, names, rules, omitted)]
    return _on_disk(Repository(root, None, {}), found, omitted, rules, attributes={}, under="")


def _corpus(
    commit: str | None, found: Iterable[CorpusFile], omitted: Omitted, read: Read
) -> Corpus:
    return Corpus(
        commit,
        tuple(sorted(found, key=lambda file: order(file.path))),
        tuple(sorted(omitted.items(), key=lambda pair: order(pair[0]))),
        read,
    )


def _is_under(path: str, under: str) -> bool:
    return not under or path == under or path.startswith(f"{under}/")


def _unmarked(
    repository: Repository,
    found: list[CorpusFile],
    attributes: Mapping[str, bytes],
    rules: EligibilityRules,
    omitted: Omitted,
) -> list[CorpusFile]:
    """Those that no attribute marks; the others are told in ``omitted``."""
    marks = why.marked(
        repository,
        attributes,
        [file.path for file in found],
        include_generated=rules.include_generated,
    )
    omitted |= marks
    return [file for file in found if file.path not in marks] if marks else found


def _own(
    repository: Repository,
    found: list[CorpusFile],
    attributes: Mapping[str, bytes],
    rules: EligibilityRules,
    omitted: Omitted,
    *,
    under: str,
    dense: Collection[str],
) -> list[CorpusFile]:
    """Those that are the project's own as far as names and lines tell, below ``under``.

    ``dense`` are the contents with the lines of a bundle.
    """
    if not rules.guess:
        return found
    guesses = {
        file.path: told
        for file in found
        if file.path != under
        and (told := why.guess(file.path[len(under) :], dense=file.oid in dense))
    }
    guesses = why.confirmed(repository, attributes, guesses)
    omitted |= guesses
    return [file for file in found if file.path not in guesses] if guesses else found


# ── a commit ──


def _attributes(repository: Repository, tree: Mapping[str, TreeEntry]) -> dict[str, bytes]:
    places = [path for path, entry in tree.items() if why.is_attributes(path) and entry.is_file]
    if not places:
        return {}
    contents = repository.read(*(tree[path].oid for path in places))
    return why.heeded(zip(places, contents, strict=True))


def _unusual(kind: str, mode: str, size: int) -> str | None:
    """Why an entry of a tree is no file to look at."""
    if kind == "commit":
        return f"{why.SUBMODULE}: another repository"
    if mode == "120000":
        return f"{why.LINK}: a symbolic link"
    return f"{why.MISSING}: this clone does not have it" if size < 0 else None


def _blobs(
    repository: Repository, files: Iterable[CorpusFile]
) -> Iterator[tuple[str, bytes | None]]:
    """Each content once, with its id, as much at a time as memory should hold."""
    wanted: list[str] = []
    size = 0
    for oid, length in {file.oid: file.size for file in files}.items():
        if wanted and (size + length > _BATCH_BYTES or len(wanted) == _BATCH_COUNT):
            yield from zip(wanted, repository.read(*wanted), strict=True)
            wanted, size = [], 0
        wanted.append(oid)
        size += length
    if wanted:
        yield from zip(wanted, repository.read(*wanted), strict=True)


def _told_by_content(
    repository: Repository, files: Iterable[CorpusFile]
) -> tuple[set[str], set[str]]:
    """The contents that are no text, and those with the lines of a bundle.

    One that cannot be read is an error later, when it is.
    """
    binary, dense = set(), set()
    for oid, content in _blobs(repository, files):
        if content and why.is_binary(content):
            binary.add(oid)
        elif content and why.is_dense(content):
            dense.add(oid)
    return binary, dense


def _named(files: Sequence[CorpusFile], oid: str) -> str:
    return printable(next(file.path for file in files if file.oid == oid))


# ── the disk ──


def _on_disk(
    repository: Repository,
    files: Iterable[CorpusFile],
    omitted: Omitted,
    rules: EligibilityRules,
    *,
    attributes: Mapping[str, bytes],
    under: str,
) -> Corpus:
    """What lies there and can be read, each with the id that git would give it."""
    root, most = repository.root, rules.max_file_bytes
    found = []
    dense = set()
    for path, _, _ in files:
        try:
            content = opened.read_inside(root, path, most)
        except opened.UnreadableError as error:
            omitted[path] = f"{why.UNREADABLE}: {error}"
            continue
        if why.is_binary(content):
            omitted[path] = why.binary()
        else:
            found.append(CorpusFile.of((path, repository.blob_id(content), len(content))))
            if why.is_dense(content):
                dense.add(found[-1].oid)
    found = _own(repository, found, attributes, rules, omitted, under=under, dense=dense)

    def read(files: Sequence[CorpusFile]) -> list[bytes]:
        contents = []
        for file in files:
            content = _content(partial(opened.read_inside, root), file.path, most)
            if content is None or repository.blob_id(content) != file.oid:
                raise ConfigError(
                    "a file changed during the run",
                    where=printable(file.path),
                    hint="start again when nothing writes to it, or name a commit",
                )
            contents.append(content)
        return contents

    return _corpus(None, found, omitted, read)


def _content(read: Callable[[str, int], bytes], path: str, most: int) -> bytes | None:
    try:
        return read(path, most)
    except opened.UnreadableError:
        return None


def _ignored(repository: Repository) -> Iterator[str]:
    """What git ignores, a folder of which nothing is known as one, with a slash behind it."""
    listed = repository.run(
        "ls-files", "-z", "--full-name", "--others", "--ignored", "--exclude-standard",
        "--directory",
    )  # fmt: skip
    return (os.fsdecode(name) for name in listed.split(b"\0") if name)


def _sized(
    top: str, names: Iterable[str], rules: EligibilityRules, omitted: Omitted
) -> Iterator[tuple[str, int]]:
    """The regular files among ``names`` that the rules let through, with their sizes."""
    sieve = why.EligibilityFilter(rules, committed=False)
    for path in names:
        try:
            status = os.lstat(os.path.join(top, path))
        except FileNotFoundError:  # removed, or left out of a sparse checkout
            omitted[path] = f"{why.MISSING}: git knows it, and it is not in the work tree"
            continue
        except (OSError, ValueError):
            omitted[path] = f"{why.UNREADABLE}: it cannot be looked at"
            continue
        reason = _not_regular(status.st_mode) or sieve.reason(path, status.st_size)
        if reason is None:
            yield path, status.st_size
        else:
            omitted[path] = reason


def _not_regular(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISLNK(mode):
        return f"{why.LINK}: a symbolic link"
    if stat.S_ISDIR(mode):
        return f"{why.SUBMODULE}: another repository"
    return f"{why.SPECIAL}: neither a file nor a folder"


def _walk(top: str, own: OwnFiles, omitted: Omitted) -> Iterator[str]:
    """Everything below a folder that is none itself, relative to it."""
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
                    elif own.is_ours(os.path.join(top, path)):
                        continue  # the first run makes it: it is told of in no other either
                    elif own.has(os.path.join(top, path)):
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
