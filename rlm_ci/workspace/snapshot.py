"""The work tree as it is, taken as a commit outside any branch, in the private git folder of a run.

Uncommitted and untracked files are part of it, ignored ones are not. Files are read byte for byte,
without filters and attributes. Links are never followed.

There are two private folders: ``objects`` is written and knows only itself; ``view`` is only read,
and sees the user's objects too, whose times git would change if it wrote. No configuration but ours
is read, so no hook, filter or monitor ever runs.
"""

from __future__ import annotations

import os
import stat

from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value
from rlm_ci.workspace.dependencies.ignored import LITTER, OURS, is_dependency, sorted_out, unignored
from rlm_ci.workspace.lookalike_names import place_of_git
from rlm_ci.workspace.tree_diff import LINK, SUBMODULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.decoding import ObjectId


#: The file beside the git folders that holds the patterns of what the snapshot ignores.
RULES = "excludes"
#: And the one that names the tree of the result.
RESULT = "result"
#: Bytes go in and come out as they are; see ``lookalike_names`` for names that stay out.
_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotectHFS = true
\tprotectNTFS = true
\tautocrlf = false
\tsafecrlf = false
\tfsync = objects
\tfsyncMethod = batch
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
#: It overrides all other attribute files, so that git converts no bytes.
ATTRIBUTES = b"* -text !eol -crlf -ident !filter !working-tree-encoding !diff !merge\n"
#: The same tree on the same commit always gives the same snapshot.
_STAMP = "rlm-ci <rlm-ci@localhost> 0 +0000"


class PrivateGit:
    """A git folder below ``folder`` that reads, and never writes, the objects of others."""

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        """``environ`` is where ``PATH`` comes from; nothing else of it reaches git."""
        self.folder = os.path.abspath(folder)
        self._own = os.path.join(self.folder, "objects")
        self._view = os.path.join(self.folder, "view")
        self._env = {name: environ[name] for name in ("PATH", "SYSTEMROOT") if name in environ}
        self._env.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
        config = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
        #: Where git looks for the user's own patterns when no option names another file.
        self.default_excludes = os.path.join(config, "git", "ignore")
        #: Trees, blobs and differences: object to object, no work tree and no attribute.
        self.objects = self.repository(self._view, self._view, "no-index")

    def make(self, alternates: Iterable[str], *, sha256: bool = False) -> None:
        """Lay out both folders; ``alternates`` are further object folders to read from.

        Only objects and patterns are kept: git runs what a configuration says.
        """
        _keep(self.folder, lambda entry: _is_folder(entry, "objects") or _is_file(entry, RULES))
        _keep(self._own, lambda dir_entry: _is_folder(dir_entry, "objects"))
        store = os.path.join(self._own, "objects")
        _keep(store, lambda entry: _is_folder(entry, "pack") or _is_fan_out(entry))
        for name in os.listdir(store) if os.path.isdir(store) else ():
            _keep(os.path.join(store, name), _is_file)
        lay_out(self._own, sha256=sha256)
        lay_out(self._view, (os.path.join(self._own, "objects"), *alternates), sha256=sha256)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def repository(self, git_dir: str, tree: str, index: str) -> Repository:
        """Git on ``git_dir`` with the work tree and index given, and no configuration but its."""
        where = {"GIT_DIR": git_dir, "GIT_WORK_TREE": tree, "GIT_INDEX_FILE": self.path(index)}
        return Repository(tree, git_dir, {**self._env, **where})

    def at(self, tree: str) -> Repository:
        """All objects, to be read, as those of a repository whose work tree is ``tree``."""
        return self.repository(self._view, tree, "no-index")

    def write(
        self, tree: str, index: str, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)
    ) -> bytes:
        """Run a git command on the work tree ``tree`` that may add objects of our own."""
        return self.repository(self._own, tree, index).run(*args, stdin=stdin, ok=ok)

    def read(self, tree: str, index: str, *args: str, stdin: bytes = b"") -> bytes:
        """Run a git command on the work tree ``tree`` that needs to see all objects."""
        return self.repository(self._view, tree, index).run(*args, stdin=stdin)

    def write_tree(self, tree: str, index: str) -> str:
        """The tree that the index holds; blobs of the user's are known to be there."""
        return self.write(tree, index, "write-tree", "--missing-ok").decode().strip()

    def commit(self, tree: str, parent: str | None) -> str:
        """A commit of ``tree`` that no branch holds."""
        args = ("hash-object", "-t", "commit", "-w", "--stdin")
        text = commit_of(tree, parent)
        return self.write(self._own, "no-index", *args, stdin=text).decode().strip()


def commit_of(tree: str, parent: str | None) -> bytes:
    """What a commit of ``tree`` says; the same always gives the same commit."""
    lines = [f"tree {tree}", *([f"parent {parent}"] if parent else [])]
    lines += [f"author {_STAMP}", f"committer {_STAMP}", "", "The work tree as it was", ""]
    return "\n".join(lines).encode()


def configuration(*, sha256: bool) -> str:
    """What a git folder of ours has as its configuration."""
    return _CONFIG.format(version=1 if sha256 else 0) + (_SHA256 if sha256 else "")


def _keep(folder: str, is_kept: Callable[[os.DirEntry[str]], bool]) -> None:
    """Remove from ``folder`` what is not to be kept; the folder itself if it is a link."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        files.clear(folder)
        return
    with os.scandir(folder) as entries:
        doomed = [entry.path for entry in entries if not is_kept(entry)]
    for path in doomed:
        files.clear(path)


def _is_folder(entry: os.DirEntry[str], name: str) -> bool:
    return entry.name == name and entry.is_dir(follow_symlinks=False)


def _is_file(entry: os.DirEntry[str], name: str = "") -> bool:
    return entry.name == (name or entry.name) and entry.is_file(follow_symlinks=False)


def _is_fan_out(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder of loose objects."""
    digits = len(entry.name) == 2 and set(entry.name) <= set("0123456789abcdef")
    return digits and entry.is_dir(follow_symlinks=False)


def lay_out(folder: str, alternates: Iterable[str] = (), *, sha256: bool = False) -> None:
    """Make ``folder`` an empty git folder without template, hook or remote."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        files.make_folder(os.path.join(folder, name), 0o700)
    lines = "".join(f"{_quoted(path)}\n" for path in alternates)
    for name, data in (
        ("config", configuration(sha256=sha256).encode()),
        ("info/attributes", ATTRIBUTES),
        ("objects/info/alternates", lines.encode("utf-8", "surrogateescape")),
        ("HEAD", b"ref: refs/heads/none\n"),
    ):
        files.write(os.path.join(folder, name), data, 0o600)


def _quoted(path: str) -> str:
    """A path as a line of the list of alternates, quoted where it would be misread."""
    if "\n" not in path and not path.startswith(('"', "#")):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def object_folders(repository: Repository) -> tuple[str, ...]:
    """Where the objects of ``repository`` lie, its alternates at the end."""
    if repository.git_dir is None:
        return ()
    objects = os.path.join(os.path.abspath(repository.common_dir), "objects")
    return (objects, *repository.alternates)


def is_sha256(commit_or_empty: str) -> bool:
    """Whether an object id is one of git's longer hash."""
    return is_object_id(commit_or_empty) and len(commit_or_empty) == 64


FILE, SCRIPT = "100644", "100755"
_WHOLE = "a submodule with a git folder of its own in it"
_RULES_LIMIT = 8 << 20
_TAKEN = "snapshot.index"


class SnapshotLimits(Value):
    """How much a snapshot may hold: number of files, bytes of one file, bytes of all."""

    count: int = 200_000
    largest: int = 512 << 20
    total: int = 4 << 30


class Snapshot(Value):
    """``commit`` and its ``tree``; ``head`` is HEAD's commit, None before the first one.

    ``submodules`` holds pairs of path and commit; ``omitted`` pairs of path and reason;
    ``dependencies`` are there, used where they are, and not part of it; ``ignored`` is left out.
    """

    _optional = ()
    _recent = ("ignored",)

    commit: ObjectId
    tree: ObjectId
    head: ObjectId | None = None
    submodules: tuple[tuple[str, ObjectId], ...] = ()
    omitted: tuple[tuple[str, str], ...] = ()
    dependencies: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def _require(self) -> None:
        _require_all(is_inside, (path for path, _ in self.submodules))
        _require_all(_is_ours_to_show, self.dependencies)


def _require_all(judge: Callable[[object], bool], values: Iterable[object]) -> None:
    for value in values:
        if not judge(value):
            raise ValueError(printable(repr(value))[:200])


def is_inside(path: object) -> bool:
    """Whether ``path`` names something below a folder, as git writes it, and no ``.git``."""
    return (
        isinstance(path, str)
        and "\0" not in path
        and {"", ".", ".."}.isdisjoint(path.split("/"))
        and place_of_git(path) is None
    )


def _is_ours_to_show(path: object) -> bool:
    return isinstance(path, str) and is_inside(path) and is_dependency(path)


class WorktreeListing(Value):
    """The files of a work tree by path with their mode, and what lies beside them."""

    modes: dict[str, str]
    submodules: dict[str, str]
    omitted: tuple[tuple[str, str], ...]
    dependencies: tuple[str, ...]
    ignored: tuple[str, ...]
    patterns: tuple[str, ...]


def take(
    private: PrivateGit, repository: Repository, bounds: SnapshotLimits, skipped: Iterable[str] = ()
) -> Snapshot:
    """The snapshot of ``repository``, which may be outside git, without what is ``skipped``.

    Raises ConfigError for a file that cannot be read and for a tree beyond ``bounds``.
    """
    head = repository.head_commit() if repository.git_dir else None
    sha256 = is_sha256(head or "")
    if repository.git_dir and not head:
        sha256 = repository.config("extensions.objectFormat") == "sha256"
    private.make(object_folders(repository), sha256=sha256)
    listing = look(private, repository, bounds, skipped)
    tree = store(private, repository.root, listing)
    rules = _rules(private, repository, tree, listing)
    files.write(private.path(RULES), rules, 0o600)
    return Snapshot(
        private.commit(tree, head),
        tree,
        head,
        tuple(sorted(listing.submodules.items())),
        listing.omitted,
        listing.dependencies,
        listing.ignored,
    )


def look(
    private: PrivateGit, repository: Repository, bounds: SnapshotLimits, skipped: Iterable[str] = ()
) -> WorktreeListing:
    """What a snapshot of ``repository`` would hold. Raises as ``take`` does."""
    root = repository.root
    staged = repository.staged() if repository.git_dir else {}
    submodules = {path: entry.oid for path, entry in staged.items() if entry.mode == SUBMODULE}
    folders = {folder for path in staged for folder in parents(path)}
    ours = [name for folder in skipped if (name := files.below(root, folder))]
    names = tuple(sign.removesuffix("/") for sign in LITTER)  # links as well
    found = (*_untracked(private, repository, names, "--ignored", "--directory"), *unignored(root))
    there = (path for path in found if not f"{path}/".startswith(tuple(f"{one}/" for one in ours)))
    dependencies, ignored = sorted_out(root, there, folders | staged.keys())
    fixed = [anchored(name).removesuffix("/") for name in (*dependencies, *ours)]
    patterns = (*LITTER, *(f"/{name}/" for name in OURS), *fixed)
    omitted = [(path, _WHOLE) for path in submodules if is_whole_repository(root, path)]
    modes: dict[str, str] = {}
    places = PathInspector(root)
    total = 0
    hidden = tuple(f"{name}/" for name in (".runs", *ours))
    tracked = (path for path in staged if path not in submodules)
    for path in (*tracked, *_untracked(private, repository, patterns)):
        reason = _reason(path)
        if f"{path}/".startswith(hidden):
            continue
        if reason:
            omitted.append((path, reason))
            continue
        status = places.look(path)
        if status is None or stat.S_ISDIR(status.st_mode):
            continue  # deleted, or replaced by a folder whose files are listed themselves
        modes[path] = _mode(root, path, status, bounds)
        total += status.st_size
    if len(modes) > bounds.count or total > bounds.total:
        raise ConfigError(
            f"the work tree has {len(modes):,} files of {total:,} bytes together, more than the"
            f" {bounds.count:,} files or {bounds.total:,} bytes that the fix loop takes",
            where=root,
            hint="add what is not source to .gitignore",
        )
    return WorktreeListing(modes, submodules, tuple(omitted), dependencies, ignored, patterns)


def store(private: PrivateGit, root: str, listing: WorktreeListing) -> str:
    """Keep the contents of ``listing`` in our objects; the id of their tree."""
    index = private.path(_TAKEN)
    remove_index(index)
    lines = {path: f"{SUBMODULE} {oid}" for path, oid in listing.submodules.items()}
    # What the user's objects hold already is named, not written once more.
    plain = [p for p, mode in listing.modes.items() if mode != LINK and _is_plain(p)]
    paths = encode("".join(f"{path}\n" for path in plain))
    args = ("hash-object", "--no-filters", "--stdin-paths")
    oids = private.write(root, index, *args, stdin=paths).decode().split() if plain else []
    sizes = private.objects.sizes(oids) if oids else []
    for path, oid, size in zip(plain, oids, sizes, strict=True):
        if size >= 0:
            lines[path] = f"{listing.modes[path]} {oid}"
    entries = encode("".join(f"{head}\t{path}\0" for path, head in lines.items()))
    private.write(root, index, "update-index", "-z", "--index-info", stdin=entries)
    others = encode("".join(f"{path}\0" for path in listing.modes if path not in lines))
    if others:
        private.write(root, index, "update-index", "--add", "-z", "--stdin", stdin=others)
    return private.write_tree(root, index)


def _rules(
    private: PrivateGit, repository: Repository, tree: str, listing: WorktreeListing
) -> bytes:
    """What the snapshot ignores: the user's own patterns, the tree's, and ours on top."""
    sources: list[tuple[str, bytes]] = []
    if repository.git_dir:
        option = ("config", "--get", "-z", "--path", "core.excludesFile")
        excludes = os.fsdecode(repository.run(*option, ok=(0, 1)).rstrip(b"\0"))
        excludes = excludes or private.default_excludes
        exclude = os.path.join(repository.common_dir, "info", "exclude")
        for path in (excludes, exclude):
            try:
                sources.append(("", files.read(path, _RULES_LIMIT) if path else b""))
            except files.UnreadableError:
                continue
    entries = private.objects.tree(tree)
    paths = [p for p, e in entries.items() if e.is_file and p.rpartition("/")[2] == ".gitignore"]
    paths.sort(key=lambda path: (path.count("/"), path))
    contents = private.objects.read(*(entries[path].oid for path in paths)) if paths else []
    for path, content in zip(paths, contents, strict=True):
        sources.append((path.rpartition("/")[0], content or b""))
    sources.append(("", encode("".join(f"{pattern}\n" for pattern in listing.patterns))))
    return _gathered(sources)


def _gathered(sources: Iterable[tuple[str, bytes]]) -> bytes:
    """The patterns of ``sources``, pairs of folder ("" for the top) and content, weakest first."""
    lines: list[bytes] = []
    for folder, content in sources:
        prefix = _literal(folder)
        for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            pattern = _anchored(line.removesuffix(b"\r"), prefix)
            if pattern:
                lines.append(pattern)
    return b"".join(line + b"\n" for line in lines)


def anchored(folder: str) -> str:
    """The pattern of exactly one folder."""
    return _literal(folder).decode("utf-8", "surrogateescape")


def _literal(folder: str) -> bytes:
    name = folder.encode("utf-8", "surrogateescape")
    for sign in (b"\\", b"*", b"?", b"["):
        name = name.replace(sign, b"\\" + sign)
    # A line cannot hold a line break: any one character matches it.
    name = name.replace(b"\n", b"?")
    return b"/" + name + b"/" if name else b""


def _anchored(line: bytes, prefix: bytes) -> bytes:
    if not prefix or not line.strip() or line.startswith(b"#"):
        return line
    sign, body = (b"!", line[1:]) if line.startswith(b"!") else (b"", line)
    if not body.strip(b"/ "):
        return b""
    inner = body.rstrip(b" ").removesuffix(b"/")
    return sign + prefix + (body.lstrip(b"/") if b"/" in inner else b"**/" + body)


def _untracked(
    private: PrivateGit, repository: Repository, patterns: tuple[str, ...], *options: str
) -> Iterator[str]:
    args = [
        "ls-files",
        "-z",
        "--others",
        *options,
        *(f"--exclude={pattern}" for pattern in patterns),
    ]
    if repository.git_dir:
        listing = repository.run(*args, "--full-name", "--exclude-standard")
    else:
        remove_index(private.path(_TAKEN))
        args.append("--exclude-per-directory=.gitignore")
        listing = private.write(repository.root, _TAKEN, *args)
    return (os.fsdecode(name) for name in listing.split(b"\0") if name)


def is_whole_repository(root: str, path: str) -> bool:
    """Whether ``path`` has a git folder of its own, perhaps with remotes and credentials."""
    return os.path.isdir(os.path.join(root, path, ".git"))


def _reason(path: str) -> str:
    """Why git cannot keep this path, or nothing."""
    if path.endswith("/"):
        return "a repository of its own"
    if place_of_git(path) is not None:
        return "git keeps no file of this name"
    return ""


def _mode(root: str, path: str, status: os.stat_result, bounds: SnapshotLimits) -> str:
    if stat.S_ISLNK(status.st_mode):
        return LINK
    reason = ""
    if not stat.S_ISREG(status.st_mode):
        reason = "is not a regular file"
    elif status.st_size > bounds.largest:
        reason = f"has {status.st_size:,} bytes, more than {bounds.largest:,}"
    elif not os.access(os.path.join(root, path), os.R_OK):
        reason = "cannot be read"
    if reason:
        raise ConfigError(
            f"a file of the work tree {reason}",
            where=printable(os.path.join(root, path)),
            hint="fix it, remove it, or add it to .gitignore",
        )
    return SCRIPT if status.st_mode & stat.S_IXUSR else FILE


class PathInspector:
    """Looks at paths below ``root`` as they are, with no link on the way followed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real: dict[str, bool] = {"": True}

    def look(self, path: str) -> os.stat_result | None:
        """Its status; None if ``path`` is missing or behind a link. Raises PermissionError."""
        if not self._is_real(path.rpartition("/")[0]):
            return None
        try:
            return os.lstat(f"{self._root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_real(self, folder: str) -> bool:
        is_real = self._real.get(folder)
        if is_real is None:
            is_real = self._is_real(folder.rpartition("/")[0])
            if is_real:
                try:
                    mode = os.lstat(os.path.join(self._root, folder)).st_mode
                    is_real = stat.S_ISDIR(mode)
                except (FileNotFoundError, NotADirectoryError):
                    is_real = False
            self._real[folder] = is_real
        return is_real


def parents(path: str) -> Iterator[str]:
    """The folders that hold ``path``, the nearest first, without the top."""
    while folder := path.rpartition("/")[0]:
        yield folder
        path = folder


def folders(paths: Iterable[str]) -> set[str]:
    """All folders that hold any of ``paths``, at whatever distance, without the top."""
    folders = {path.rpartition("/")[0] for path in paths}
    return {outer for folder in folders for outer in (folder, *parents(folder)) if outer}


def _is_plain(path: str) -> bool:
    """Whether git reads a name from a line as it is: no quote, no line break."""
    return not path.startswith('"') and "\n" not in path and not path.endswith("\r")


def remove_index(path: str) -> None:
    """Forget an index, and the lock that a killed git may have left beside it."""
    for name in (path, f"{path}.lock"):
        if os.path.lexists(name):
            os.unlink(name)


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
