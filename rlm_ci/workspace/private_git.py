"""The private git folder of a run: our configuration, our objects, the user's only to read.

There are two: ``objects`` is written and knows only itself; ``view`` is only read, and sees the
user's objects too, whose times git would change if it wrote. No configuration but ours is read, so
no hook, filter or monitor ever runs.
"""

from __future__ import annotations

import os

from rlm_ci.git.repository import Repository
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
