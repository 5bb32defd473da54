"""The work tree as a commit, fast: an index of our own knows what has not changed.

``workspace.snapshot`` reads each file, for a fix loop; a hook has no time for that. Git writes to
objects and an index of ours alone, and reads those of the user. It gets a git folder that is made
anew each time, so that no configuration and no attribute of a tree runs a program.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress

from rlm_ci.errors import ConfigError
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LIMIT = 512 << 20
#: What the user's configuration says of ignored files, and of files that git converts.
_CONFIG_KEYS = r"^(core\.(excludesfile|autocrlf|attributesfile)|extensions\.objectformat)$"
_CONVERTING = ("core.autocrlf", "core.attributesfile")
_NOT_CONVERTING = {("core.autocrlf", "false"), ("core.attributesfile", os.devnull)}
#: Nanoseconds; before any file.
_LONG_AGO = (10**9, 10**9)
#: Bytes of a file, and of all changed ones, that git reads within the time of a hook.
LARGEST, _TOTAL = 16 << 20, 512 << 20
#: Files in which git looks for patterns, wherever they are, and waits if one is a pipe.
_READ_BY_GIT = frozenset((".gitignore", ".gitattributes"))
#: Seconds that git has before somebody looks whether it waits, and between two looks.
_PATIENCE, _PAUSE = 2.0, 0.01
#: Git then looks whether files that a sparse checkout leaves out are there after all.
_SPARSE = ("-c", "core.sparseCheckout=true")
#: A work tree is added in any state.
_ADD = (*_SPARSE, "-c", "core.fsync=none", "add", "-A", "--ignore-errors")
#: What is not as our index has it, and what it does not have.
_CHANGED = (*_SPARSE, "ls-files", "-z", "--modified")
_OTHERS = ("--others", "--exclude-standard")
#: Where paths lie that git ignores, by our patterns and those of the tree.
_PATTERNS = "excludes"


class TakenTree(Value):
    """The work tree as a ``commit`` and its ``tree``, without the ``large`` files."""

    commit: str
    tree: str
    large: tuple[str, ...] = ()


class SessionTree(Value):
    """The work tree of ``repository``; our objects, index and ignore rules are in ``folder``."""

    repository: Repository
    folder: str
    environ: Mapping[str, str]

    @property
    def objects(self) -> str:
        """Where our objects lie."""
        return os.path.join(self.folder, "objects")

    def begin(self) -> TakenTree:
        """The work tree as it is, with nothing known of it. Raises RlmCiError."""
        files.make_folder(os.path.join(self.objects, "info"), 0o700)
        args = ("config", "-z", "--get-regexp", _CONFIG_KEYS)
        output = os.fsdecode(self.repository.run(*args, ok=(0, 1)))
        pairs = [pair.partition("\n")[::2] for pair in output.split("\0")[:-1]]
        values = dict(pairs)
        self._write(_PATTERNS, self._ignored(values.get("core.excludesfile", "")))
        head = self.repository.head_commit() or ""
        sha256 = len(head) == 64 or values.get("extensions.objectformat") == "sha256"
        index = self.repository.index_file
        data = files.read_or_none(index, _LIMIT) or b""
        is_split = _is_split(index)
        self._write("index", b"" if is_split else data)
        with self._git(sha256=sha256) as git:
            is_converting = False
            if is_split:
                staged = self.repository.run("ls-files", "-z", "--stage")
                git.run("update-index", "-z", "--index-info", stdin=staged)
            elif data:  # git reads a file again that is not older than the index
                status = os.stat(index)
                times = (status.st_atime_ns, status.st_mtime_ns)
                is_converting = self._is_converting(pairs, data)
                if is_converting:
                    times = _LONG_AGO
                os.utime(os.path.join(self.folder, "index"), ns=times)
                self._look_at_all(git)
            # To ask which ones are changed would read those whose times say nothing.
            taken = self._take(git, "--cached" if is_converting else "--modified")
            return taken.replace(commit=self._commit(git, taken.tree, head))

    def now(self, parent: str, parent_tree: str) -> TakenTree:
        """The work tree as it is, with the commit ``parent`` if it has that ``parent_tree``.

        Raises RlmCiError.
        """
        self._require(parent)
        with self._git(sha256=len(parent_tree) == 64) as git:
            if tracked := self._ignored_but_tracked():
                git.run("update-index", "-z", "--add", "--remove", "--stdin", stdin=tracked)
            taken = self._take(git, "--modified")
            is_same = taken.tree == parent_tree
            commit = parent if is_same else self._commit(git, taken.tree, parent)
            return taken.replace(commit=commit)

    def is_as_taken(self, parent: str, parent_tree: str, started: float) -> bool:
        """Whether nothing changed since a tree was taken last. Raises RlmCiError.

        By names and times, as our index has them: what the user's index and configuration say
        may hide a change, and run a filter. Large files that lay there before the session
        ``started`` are in no index of ours.
        """
        self._require(parent)
        with self._git(sha256=len(parent_tree) == 64) as git:
            listed = git.run(*_CHANGED, *_OTHERS, "-t").split(b"\0")[:-1]
        for entry in listed:
            status = self._status(entry[2:]) if entry[:1] == b"?" else None
            if status is None or status.st_size <= LARGEST or status.st_ctime >= started:
                return False
        return True

    def reader(self) -> Repository:
        """The user's repository, which sees our objects as well."""
        seen = {**without_hook(self.environ), "GIT_ALTERNATE_OBJECT_DIRECTORIES": self.objects}
        return Repository(self.repository.root, self.repository.git_dir, seen)

    @contextmanager
    def _git(self, *, sha256: bool) -> Iterator[Repository]:
        from rlm_ci.workspace.snapshot import ATTRIBUTES, configuration, object_folders

        git_dir = os.path.join(self.folder, f"git-{os.getpid()}")
        files.clear(git_dir)
        try:
            for name in ("info", "refs"):
                os.makedirs(os.path.join(git_dir, name))
            excludes = files.read_or_none(os.path.join(self.folder, _PATTERNS), _LIMIT) or b""
            for name, data in (
                ("HEAD", b"ref: refs/heads/none\n"),
                ("config", configuration(sha256=sha256).encode()),
                ("info/attributes", ATTRIBUTES),
                ("info/exclude", excludes),
            ):
                with open(os.path.join(git_dir, name), "wb") as stream:
                    stream.write(data)
            environ = {
                **without_hook(self.environ),
                "GIT_DIR": git_dir,
                "GIT_WORK_TREE": self.repository.root,
                "GIT_INDEX_FILE": os.path.join(self.folder, "index"),
                "GIT_OBJECT_DIRECTORY": self.objects,
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": object_folders(self.repository)[0],
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
            }
            with _feeding_pipes(self.repository.root):
                yield Repository(self.repository.root, git_dir, environ)
        except Exception:
            raise
        except BaseException:  # the time is up; git has been killed, and left its lock
            self._write("index.lock", b"")
            raise
        finally:
            files.clear(git_dir)

    def _require(self, parent: str) -> None:
        if not os.path.exists(os.path.join(self.objects, parent[:2], parent[2:])):
            raise ConfigError(
                "the tree of the session's start is gone",
                where=self.folder,
                hint="remove this folder; the session is then judged from its next stop on",
            )

    def _take(self, git: Repository, which: str) -> TakenTree:
        """The tree of all files but the large ones of those that are ``--cached`` or changed."""
        listed = git.run(*_SPARSE, "ls-files", "-z", which, *_OTHERS).split(b"\0")[:-1]
        sizes = {name: status.st_size for name in listed if (status := self._status(name))}
        large = [name for name, size in sizes.items() if size > LARGEST]
        left = sum(size for size in sizes.values() if size <= LARGEST)
        if which == "--modified" and left > _TOTAL:
            name = printable(os.fsdecode(max(sizes.keys() - set(large), key=sizes.__getitem__)))
            number = count(len(sizes) - len(large), "changed file")
            raise ConfigError(
                f"{number} of {left:,} bytes together are more than the {_TOTAL:,} of a hook",
                where=f"{name[:200]}, the largest",
                hint="add what is no source to .gitignore",
            )
        names = b"".join(name + b"\0" for name in large)
        chosen = b".\0" + b"".join(b":(exclude,literal)" + name + b"\0" for name in large)
        args = (*_ADD, "--pathspec-from-file=-", "--pathspec-file-nul")
        with git.start("--no-literal-pathspecs", *args, stdin=chosen, ok=(0, 1)) as adding:
            adding.finish()
        if adding.warned:  # what cannot be read, or is a pipe, is a file that is gone
            names += git.run(*_CHANGED)
        if names:
            git.run("update-index", "-z", "--force-remove", "--stdin", stdin=names)
        tree = git.run("write-tree", "--missing-ok").decode().strip()
        if not is_object_id(tree):
            raise ConfigError("git wrote no tree", where=self.folder)
        return TakenTree("", tree, tuple(sorted(map(os.fsdecode, large))))

    def _status(self, name: bytes) -> os.stat_result | None:
        """The status of a regular file; None for what is none."""
        with suppress(OSError):
            status = os.lstat(os.path.join(os.fsencode(self.repository.root), name))
            return status if stat.S_ISREG(status.st_mode) else None
        return None

    def _look_at_all(self, git: Repository) -> None:
        """Have git look at files of which the user's index says that they never change."""
        listed = git.run("ls-files", "-v", "-z").split(b"\0")
        names = b"".join(entry[2:] + b"\0" for entry in listed if entry[:1].islower())
        if names:
            git.run("update-index", "-z", "--no-assume-unchanged", "--stdin", stdin=names)

    def _ignored_but_tracked(self) -> bytes:
        """What somebody added to the user's index although patterns ignore it."""
        patterns = os.path.join(self.folder, _PATTERNS)
        options = [f"--exclude-from={patterns}"] if os.path.exists(patterns) else []
        args = ("ls-files", "-z", "--cached", "--ignored", "--exclude-per-directory=.gitignore")
        return self.repository.run(*args, *options)

    def _commit(self, git: Repository, tree: str, parent: str) -> str:
        from rlm_ci.workspace.snapshot import commit_of

        text = commit_of(tree, parent or None)
        return git.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=text).decode().strip()

    def _write(self, name: str, data: bytes) -> None:
        path = os.path.join(self.folder, name)
        with suppress(FileNotFoundError):
            os.unlink(path)
        if data:
            files.append(path, data)

    def _ignored(self, excludes_file: str) -> bytes:
        """The user's own patterns, and what tools leave behind."""
        from rlm_ci.workspace.dependencies.ignored import LITTER, OURS

        path = excludes_file or os.path.join(self._config_home(), "ignore")
        if path.startswith("~/"):
            path = os.path.join(self.environ.get("HOME", ""), path[2:])
        paths = (path, os.path.join(self.repository.common_dir, "info", "exclude"))
        parts = [files.read_or_none(path, _LIMIT) or b"" for path in paths]
        patterns = (*LITTER, *(f"/{folder}/" for folder in OURS))
        return b"\n".join((*parts, *(pattern.encode() for pattern in patterns), b""))

    def _is_converting(self, pairs: Sequence[tuple[str, str]], index: bytes) -> bool:
        """Whether git may keep a file in other bytes than it has; its index then says nothing."""
        paths = (
            os.path.join(self.repository.common_dir, "info", "attributes"),
            os.path.join(self.repository.root, ".gitattributes"),
            os.path.join(self._config_home(), "attributes"),
        )
        # The second value is our own, by which git reads no attributes of the user.
        converting = {pair for pair in pairs if pair[0] in _CONVERTING} - _NOT_CONVERTING
        return bool(converting) or b".gitattributes" in index or any(map(os.path.exists, paths))

    def _config_home(self) -> str:
        home = os.path.join(self.environ.get("HOME", ""), ".config")
        return os.path.join(self.environ.get("XDG_CONFIG_HOME") or home, "git")


def _is_split(index: str) -> bool:
    """Whether the index may have a part of it in another file."""
    return any(name.startswith("sharedindex.") for name in os.listdir(os.path.dirname(index)))


@contextmanager
def _feeding_pipes(root: str) -> Iterator[None]:
    """Let git go on that waits for a pipe of the work tree as for a file of patterns."""
    from threading import Event, Thread

    done = Event()

    def feed() -> None:
        if done.wait(_PATIENCE):
            return
        paths = (
            os.path.join(folder, name)
            for folder, _, names in os.walk(root)
            for name in _READ_BY_GIT.intersection(names)
        )
        pipes = [path for path in paths if _is_pipe(path)]
        while pipes and not done.wait(_PAUSE):
            for path in pipes:
                with suppress(OSError):  # nobody waits for it now
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))

    Thread(target=feed, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _is_pipe(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    return False
