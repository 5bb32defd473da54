"""The files of a context: those of a folder, a glob or a commit, in order of their names.

In a work tree these are the files that git tracks or does not ignore; elsewhere, or if there are
none, all. Links are not followed. What rlm-ci writes is left out: an answer would cite the last.
"""

from __future__ import annotations

import os
import stat
from itertools import groupby

from rlm_ci.context.own_files import OwnFiles, is_object
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.system.safe_tree import matches
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.git.objects import TreeEntry


#: Files of one source: more would not fit into an index.
MAX_FILES = 300_000
_WILD = "*?"


class SourceListing(Value):
    """``names`` of files below the folder ``top``, in order, NUL after each.

    ``prefix`` goes before each name in the index; ``omitted`` are the numbers of what is not
    listed, by reason.
    """

    names: bytes
    top: str
    prefix: str = ""
    omitted: tuple[tuple[str, int], ...] = ()
    #: Hex digits of an object id in the repository.
    blob_digits: int = 40

    def files(self) -> Iterator[tuple[str, str]]:
        """For each file its name in the index, and the path to open."""
        for name in map(os.fsdecode, _parted(self.names)):
            yield self.prefix + name, os.path.join(self.top, name)


def _parted(names: bytes) -> Iterator[bytes]:
    begin = 0
    while (end := names.find(b"\0", begin)) >= 0:
        yield names[begin:end]
        begin = end + 1


def name_of(path: str, root: str | None) -> str:
    """The name of a file or folder: relative to ``root`` if it is in it, else as given."""
    if root is not None:
        real, inside = os.path.realpath(path), os.path.join(os.path.realpath(root), "")
        if os.path.join(real, "").startswith(inside):
            path = real[len(inside) :]
    return path.replace(os.sep, "/")


def is_glob(source: str) -> bool:
    """Whether it is a pattern, and no file or folder has that very name."""
    return any(sign in source for sign in _WILD) and not os.path.lexists(source)


def list_glob(
    pattern: str, root: str | None, environ: Mapping[str, str], without: Sequence[str]
) -> SourceListing:
    """The files that match ``pattern``: ``*`` and ``?`` within a name, ``**`` across folders.

    A folder that exists under its very name is no pattern. Raises ConfigError if no file matches,
    and what git raises.
    """
    parts = pattern.split("/")
    fixed = next(at for at in range(len(parts)) if is_glob("/".join(parts[: at + 1])))
    folder = "/".join(parts[:fixed])
    subpattern = "/".join(("", *parts[fixed:]))
    # A name without a folder would match at any depth.
    top = (folder or "/") if fixed else "."
    listing = list_folder(
        top, root, environ, without, lambda path: matches(f"x{subpattern}", f"x/{path}")
    )
    if not listing.names:
        raise ConfigError(
            f"no file fits {printable(pattern[:200])}",
            where="source",
            hint="quote the pattern for the shell; ** goes through folders",
        )
    return listing


def list_folder(
    top: str,
    root: str | None,
    environ: Mapping[str, str],
    without: Sequence[str],
    is_wanted: Callable[[str], bool] = bool,
) -> SourceListing:
    """The files below a folder that ``is_wanted`` takes, but not those in the folders ``without``.

    Raises ConfigError, and what git raises.
    """
    repository = _repository(top, environ)
    files = OwnFiles(without)
    names, ignored = b"", 0
    if repository is not None:
        listed = (path for path in _listed(repository, top) if is_wanted(path))
        names = _sorted(path for path in listed if not files.holds(path, top))
        ignored = sum(is_wanted(path) for path in _ignored(repository, top, files)) if names else 0
    if not names:
        names = _sorted(path for path in _walk(top, files) if is_wanted(path))
    prefix = name_of(top, root)
    if prefix in ("", "."):
        prefix = ""
    elif not prefix.endswith("/"):
        prefix += "/"
    omitted = (("ignored", ignored), ("own", files.met))
    return SourceListing(names, top, prefix, omitted, _digits(repository))


def blob_digits(folder: str, environ: Mapping[str, str]) -> int:
    """Hex digits of an object id in the repository around ``folder``; 40 without one."""
    try:
        return _digits(_repository(folder, environ))
    except RlmCiError:  # a file can be read even if git refuses its repository
        return 40


def _repository(folder: str, environ: Mapping[str, str]) -> Repository | None:
    try:
        top, git_dir = discover(folder)
    except OSError as error:
        raise unreadable(error, folder) from None
    return None if git_dir is None else Repository(top, git_dir, without_hook(environ))


def _digits(repository: Repository | None) -> int:
    is_long = repository and repository.config("extensions.objectFormat") == "sha256"
    return 64 if is_long else 40


def _listed(repository: Repository, top: str) -> Iterator[str]:
    """What git lists below a folder, relative to it; a file in conflict more than once."""
    listed = repository.run(
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=os.path.abspath(top)
    )
    # Another repository in the work tree ends with a slash.
    return (os.fsdecode(name) for name in _parted(listed) if not name.endswith(b"/"))


def _ignored(repository: Repository, top: str, files: OwnFiles) -> Iterator[str]:
    """The files that git ignores below a folder, and the folders, each as one."""
    listed = repository.run(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory",
        folder=os.path.abspath(top),
    )  # fmt: skip
    for path in map(os.fsdecode, _parted(listed)):
        folder = os.path.join(top, path.rstrip("/"))
        if not (files.is_ours(folder) or is_object(folder)) and not files.holds(path, top):
            yield path


def _walk(top: str, files: OwnFiles) -> Iterator[str]:
    """All files below a folder, relative to it, without those in own folders."""
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            with os.scandir(os.path.join(top, inner)) as entries:
                for entry in entries:
                    path = f"{inner}{entry.name}"
                    if not entry.is_dir(follow_symlinks=False):
                        yield path
                    elif not files.has(os.path.join(top, path)):
                        folders.append(f"{path}/")
        except OSError as error:
            if not inner:
                raise unreadable(error, top) from None
            yield inner  # counted as unreadable


def _sorted(paths: Iterable[str]) -> bytes:
    """Each of the paths once, in order of their bytes, NUL after each. Raises ConfigError."""
    encoded_paths = []
    for path in paths:
        encoded_paths.append(os.fsencode(path))
        if len(encoded_paths) > MAX_FILES:
            raise ConfigError(
                f"the source has more than {MAX_FILES:,} files",
                where="source",
                hint="name a folder or a pattern with fewer of them",
            )
    encoded_paths.sort()
    names = bytearray()
    for name, _ in groupby(encoded_paths):
        names += name + b"\0"
    return bytes(names)


# ── opening ──


def unreadable(error: OSError, path: str) -> ConfigError:
    """The error for a named source that cannot be read."""
    return ConfigError(
        f"the source cannot be read: {error.strerror}",
        where=printable(path),
        hint="name a file, a folder, a pattern, - for standard input, or a context object",
    )


def open_listed(path: str) -> int | str:
    """A descriptor of a regular file of a listing, or in a word why it is left out."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return "link"
        if stat.S_ISDIR(status.st_mode):
            # A submodule from git, or a folder that a walk could not enter.
            return "unreadable" if path.endswith("/") else "submodule"
        if not stat.S_ISREG(status.st_mode):
            return "special"
        return os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "unreadable"


#: Bytes of a file that is read, of all of them, and of those that one git reads at once.
_FILE = 4 << 20
_ALL = 512 << 20
_AT_ONCE = 8 << 20


class CommitFiles(Value):
    """The files of ``commit``, an object id, in the ``repository``."""

    repository: Repository
    commit: str

    @property
    def blob_digits(self) -> int:
        """Hex digits of an object id in the repository."""
        return len(self.commit)

    def files(self) -> Iterator[tuple[str, bytes | str]]:
        """For each file its path, and what it holds, or in a word why it is left out.

        Raises ConfigError if there are too many, or too much in them, and what git raises.
        """
        tree = sorted(self.repository.tree(self.commit, sizes=True).items())
        size = sum(entry.size for _, entry in tree if _is_read(entry))
        if len(tree) > MAX_FILES or size > _ALL:
            raise ConfigError(
                f"the commit has {count(len(tree), 'file')} of {count(size, 'byte')}, more than "
                f"{MAX_FILES:,} or {_ALL:,}",
                where=self.commit[:12],
                hint="ask on your machine, with --context and a folder of it",
            )
        batch: list[tuple[str, TreeEntry]] = []
        batch_size = 0
        for path, entry in tree:
            if not _is_read(entry):
                yield path, _reason(entry)
                continue
            batch.append((path, entry))
            batch_size += entry.size
            if batch_size >= _AT_ONCE:
                yield from self._read(batch)
                batch, batch_size = [], 0
        yield from self._read(batch)

    def _read(self, batch: Sequence[tuple[str, TreeEntry]]) -> Iterator[tuple[str, bytes | str]]:
        if not batch:
            return
        contents = self.repository.read(*(entry.oid for _, entry in batch))
        for (path, _), data in zip(batch, contents, strict=True):
            yield path, "missing" if data is None else data


def _is_read(entry: TreeEntry) -> bool:
    return entry.is_file and entry.size <= _FILE


def _reason(entry: TreeEntry) -> str:
    if entry.is_file:
        return "large"
    return "link" if entry.mode == "120000" else "submodule"
