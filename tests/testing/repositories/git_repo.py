"""Real git repositories for the tests, made by the real git, or as it makes them.

:class:`GitRepo` is a repository on disk with one short method for each thing that happens
to one; :class:`Bulk` feeds ``git fast-import`` where a history is too large for that. Both
bring their own environment, so that no identity, configuration or clock of the machine
reaches them: the same calls make the same object ids everywhere. A commit of plain files is
written without git (``histories_commits``), which takes a fraction of the time.

Ready-made histories stand in the modules beside this one: ``histories_changes`` (kinds of
change, names, messages), ``histories_shapes`` (merges, clones, sizes, attributes, traps),
``histories_archive`` (archive stubs), ``histories_runs`` (run folders, task index),
``histories_events`` (GitHub payloads) and ``histories_random`` (seeded random ones).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from testing.repositories import commit_writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

#: A path inside a repository, relative, ``/`` between parts. A str means its UTF-8 bytes.
Name = str | bytes
#: What a file holds; with fast-import also ``(mode, content)``, and None removes the file.
Content = str | bytes
Change = Content | tuple[str, Content] | None
if TYPE_CHECKING:
    # A Mapping's keys are invariant: all bytes, all str, or of both kinds.
    Changes = Mapping[bytes, Change] | Mapping[str, Change] | Mapping[Name, Change]

#: Git modes, as trees have them.
FILE, SCRIPT, SYMLINK, GITLINK = "100644", "100755", "120000", "160000"

ZERO_SHA = "0" * 40
#: The tree without an entry: known to every git without being stored.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#: The first commit is made at this second (2026-01-05 09:00 UTC), each next one a minute later.
FIRST_COMMIT_AT = 1_767_603_600

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Writer",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada Writer",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}


#: Nothing is tidied up behind a commit: to ask whether it should be is half of what one costs.
_QUIET = (b"-c", b"gc.auto=0", b"-c", b"maintenance.auto=false", b"-c", b"core.fsync=none")
#: A branch's name, and nothing that git could take for something else.
_PLAIN = re.compile(r"(?![0-9a-f]{4,64}\Z)[\w-]+(?:/[\w-]+)*")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def encode(text: Name) -> bytes:
    """The bytes of a name or content; bytes that were smuggled by surrogateescape come back."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def closed_environment() -> dict[str, str]:
    """The environment that the builders give to git: nothing of the machine but the path."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "XDG_", "LC_"))}
    return environment | _IDENTITY | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file",
        "LC_ALL": "C",
        "TZ": "UTC",
    }  # fmt: skip


class GitError(Exception):
    """A git command of a builder failed: the test material is wrong, not the product."""


#: What ``git init`` makes, bare or not: None is a folder.
_BLANK: dict[bool, dict[str, bytes | None]] = {}


class GitRepo:
    """A repository under ``path``, created there unless it exists; usable as a path.

    Methods that change something and have nothing to tell return the repository, so that
    calls can be chained. Every commit moves the repository's own clock by a minute.
    """

    def __init__(self, path: os.PathLike[str] | str, *, bare: bool = False) -> None:
        self.path = Path(path)
        self._commits = 0
        self._env = closed_environment()
        if not self.path.exists() or not any(self.path.iterdir()):
            self.path.mkdir(parents=True, exist_ok=True)
            self._init(bare=bare)

    def _init(self, *, bare: bool) -> None:
        """``git init``, once; from then on what it wrote is written again, without a process."""
        place = self.path if bare else self.path / ".git"
        blank = _BLANK.get(bare)
        if blank is None:
            self.run("init", "-q", "--template=", "-b", "main", *(["--bare"] if bare else []))
            found = sorted(place.rglob("*"))
            _BLANK[bare] = {
                str(one.relative_to(place)): None if one.is_dir() else one.read_bytes()
                for one in found
            }
            return
        place.mkdir(exist_ok=True)
        for name, content in blank.items():
            if content is None:
                (place / name).mkdir()
            else:
                (place / name).write_bytes(content)

    @classmethod
    def again(cls, path: Path, commits: int) -> Self:
        """A repository that is there, whose clock has been moved ``commits`` times."""
        found = cls(path)
        found._commits = commits
        return found

    @property
    def commits(self) -> int:
        """How often the clock was moved."""
        return self._commits

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"GitRepo({str(self.path)!r})"

    # -- git itself -------------------------------------------------------------------------

    def attempt(
        self,
        *args: Name,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """``git ARGS`` here, whatever its exit code. ``env`` is added to the closed one."""
        return subprocess.run(
            [b"git", *_QUIET, *map(encode, args)],
            cwd=self.path, env=self._env | dict(env or {}), input=stdin,
            capture_output=True, check=False, timeout=120,
        )  # fmt: skip

    def run(self, *args: Name, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """The output of ``git ARGS``. Raises GitError when git does not end with 0."""
        ended = self.attempt(*args, stdin=stdin, env=env)
        if ended.returncode:
            raise GitError(f"git {args!r} ended with {ended.returncode}: {ended.stderr!r}")
        return ended.stdout

    def text(self, *args: Name) -> str:
        """The output of ``git ARGS`` as text, without the white space around it."""
        return self.run(*args).decode("utf-8", "surrogateescape").strip()

    def sha(self, revision: str = "HEAD") -> str:
        """The object id that ``revision`` stands for. Raises GitError if there is none."""
        if revision == "HEAD" or _PLAIN.fullmatch(revision):
            read = self._read_ref(revision)
            if read:
                return read
        return self.text("rev-parse", "--verify", "--quiet", "--end-of-options", revision)

    def _read_ref(self, name: str) -> str:
        """What HEAD or a branch stands for, where that is in a file of its own; else nothing."""
        git = self.path / ".git"
        try:
            if name == "HEAD":
                told = (git / "HEAD").read_text("ascii").rstrip("\n")
                if told.startswith("ref: "):
                    told = (git / told.removeprefix("ref: ")).read_text("ascii").rstrip("\n")
            elif any(os.path.lexists(git / place / name) for place in ("", "refs", "refs/tags")):
                return ""  # git would take that one
            elif (git / "packed-refs").exists():
                return ""  # a tag may be among them
            else:
                told = (git / "refs" / "heads" / name).read_text("ascii").rstrip("\n")
        except (OSError, ValueError):  # a linked work tree, a bare repository, no such branch
            return ""
        return told if _OBJECT_ID.fullmatch(told) else ""

    # -- the work tree ----------------------------------------------------------------------

    def place(self, name: Name) -> bytes:
        """Where ``name`` lies on the disk."""
        return os.path.join(os.fsencode(self.path), encode(name))

    def _clear(self, name: Name) -> bytes:
        place = self.place(name)
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        elif os.path.lexists(place):
            os.unlink(place)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place

    def write(self, name: Name, content: Content = b"", mode: int = 0o644) -> GitRepo:
        """Put a file there, in place of whatever was there."""
        place = self._clear(name)
        with open(place, "wb") as file:
            file.write(encode(content))
        os.chmod(place, mode)
        return self

    def write_all(self, files: Mapping[str, Content]) -> GitRepo:
        for name, content in files.items():
            self.write(name, content)
        return self

    def append(self, name: Name, content: Content) -> GitRepo:
        with open(self.place(name), "ab") as file:
            file.write(encode(content))
        return self

    def read(self, name: Name) -> bytes:
        with open(self.place(name), "rb") as file:
            return file.read()

    def chmod(self, name: Name, mode: int) -> GitRepo:
        os.chmod(self.place(name), mode)
        return self

    def symlink(self, name: Name, target: Name) -> GitRepo:
        os.symlink(encode(target), self._clear(name))
        return self

    def submodule(self, name: Name, commit: str) -> GitRepo:
        """A bare gitlink to ``commit``, which nobody needs to have."""
        # The empty folder keeps a later `git add -A` from taking the entry for deleted.
        os.makedirs(self._clear(name))
        entry = b",".join((GITLINK.encode(), encode(commit), encode(name)))
        self.run("update-index", "--add", "--cacheinfo", entry)
        return self

    def remove(self, *names: Name) -> GitRepo:
        for name in names:
            place = self.place(name)
            if os.path.isdir(place) and not os.path.islink(place):
                shutil.rmtree(place)
            else:
                os.unlink(place)
        return self

    def move(self, old: Name, new: Name) -> GitRepo:
        os.makedirs(os.path.dirname(self.place(new)), exist_ok=True)
        os.rename(self.place(old), self.place(new))
        return self

    def copy(self, old: Name, new: Name) -> GitRepo:
        os.makedirs(os.path.dirname(self.place(new)), exist_ok=True)
        shutil.copy2(self.place(old), self.place(new), follow_symlinks=False)
        return self

    # -- commits and refs -------------------------------------------------------------------

    def stage(self, *names: Name) -> GitRepo:
        """Put the named files, or everything, into the index."""
        self.run("add", "-A", "-f", "--", *names) if names else self.run("add", "-A")
        return self

    def clock(self) -> dict[str, str]:
        """The dates of the next commit; asking for them moves the clock."""
        date = f"{FIRST_COMMIT_AT + 60 * self._commits} +0000"
        self._commits += 1
        return {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}

    def commit(self, message: Content = "Change", *, stage: bool = True) -> str:
        """Commit everything (or, without ``stage``, the index), even if nothing changed.

        The message is taken as it is, hooks are not run. Returns the commit's id.
        """
        clock = self.clock()
        if stage:
            made = self._commit_plainly(encode(message), clock)
            if made:
                return made
            self.stage()
        self.run(
            "commit", "-q", "--no-verify", "--allow-empty", "--allow-empty-message",
            "--cleanup=verbatim", "-F", "-", stdin=encode(message), env=clock,
        )  # fmt: skip
        return self.sha()

    def _commit_plainly(self, message: bytes, clock: Mapping[str, str]) -> str | None:
        """Commit everything without a process, where git would do nothing else."""
        if False not in _BLANK:
            return None
        blank = _BLANK[False]["config"] or b""
        return commit_writer.commit(os.fsencode(self.path), message, self._env | dict(clock), blank)

    def branch(self, name: str, at: str = "HEAD") -> GitRepo:
        """Let branch ``name`` point to ``at``, whether it is there or not."""
        self.run("update-ref", "--end-of-options", f"refs/heads/{name}", at + "^{commit}")
        return self

    def checkout(self, revision: str, *, new: bool = False, detach: bool = False) -> GitRepo:
        """Go to a branch, made at HEAD when ``new``; or, ``detach``, to a bare commit."""
        options = ["-B"] if new else ["--detach"] if detach else []
        self.run("checkout", "-q", "-f", *options, revision, *([] if new else ["--"]))
        return self

    def orphan(self, name: str) -> GitRepo:
        """Go to a new branch without a parent, with an empty index and work tree."""
        self.run("checkout", "-q", "--orphan", name)
        self.run("rm", "-rfq", "--ignore-unmatch", ".")
        return self

    def merge(self, *revisions: str, message: Content = "Merge", strategy: str = "") -> str:
        """A merge commit, never a fast-forward. Raises GitError on a conflict."""
        options = ["-s", strategy] if strategy else []
        self.run(
            "merge", "-q", "--no-ff", "--no-edit", "--no-verify", "--allow-unrelated-histories",
            *options, "-m", message, *revisions, env=self.clock(),
        )  # fmt: skip
        return self.sha()

    def commit_tree(self, tree: str, parents: Iterable[str] = (), message: Content = "Tree") -> str:
        """A commit of any tree with any parents; no ref, index or file is touched."""
        options = [option for parent in parents for option in ("-p", parent)]
        made = self.run("commit-tree", tree, *options, stdin=encode(message), env=self.clock())
        return made.decode().strip()

    def tag(self, name: str, at: str = "HEAD", message: str = "") -> GitRepo:
        options = ["-a", "-m", message] if message else []
        self.run("tag", *options, "--", name, at, env=self.clock() if message else None)
        return self

    def config(self, key: str, value: str) -> GitRepo:
        section, _, name = key.rpartition(".")
        if not self._configure(section, {name: value}):
            self.run("config", key, value)
        return self

    def _configure(self, section: str, values: Mapping[str, str]) -> bool:
        """Add a section to the configuration without a process, where none of it is there."""
        head, _, rest = section.partition(".")
        file = self.path / ".git" / "config"
        plain = re.fullmatch(r"[a-z]+", head) and re.fullmatch(r"[\w./-]*", rest)
        named = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name) for name in values)
        if not plain or not named or not "".join(values.values()).isprintable():
            return False
        if not file.is_file() or f"[{head}" in file.read_text("utf-8", "replace").lower():
            return False
        lines = [f'[{head} "{rest}"]' if rest else f"[{head}]"]
        for name, value in values.items():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'\t{name} = "{escaped}"')
        with file.open("a", encoding="utf-8") as stream:
            stream.write("\n".join([*lines, ""]))
        return True

    # -- more than one repository -----------------------------------------------------------

    def remote(self, url: os.PathLike[str] | str, name: str = "origin") -> GitRepo:
        where = {"url": os.fspath(url), "fetch": f"+refs/heads/*:refs/remotes/{name}/*"}
        if not self._configure(f"remote.{name}", where):
            self.run("remote", "add", name, os.fspath(url))
        return self

    def fetch(self, *args: str) -> GitRepo:
        self.run("fetch", "-q", *args)
        return self

    def push(self, *args: str) -> GitRepo:
        self.run("push", "-q", *args)
        return self

    def clone(
        self, path: os.PathLike[str] | str, *args: str, depth: int = 0, bare: bool = False
    ) -> GitRepo:
        """A clone of this repository under ``path``, shallow when ``depth`` is given."""
        options = [f"--depth={depth}", "--no-single-branch"] if depth else []
        options += ["--bare"] if bare else []
        # A plain path would be hard-linked, and --depth ignored.
        self.run("clone", "-q", "--template=", *options, *args, self.path.as_uri(), os.fspath(path))
        clone = GitRepo(path)
        clone._commits = self._commits
        return clone

    def worktree(
        self, path: os.PathLike[str] | str, revision: str = "HEAD", *, branch: str = ""
    ) -> GitRepo:
        """A linked work tree of this repository, on a new ``branch`` or detached."""
        options = ["-b", branch] if branch else ["--detach"]
        self.run("worktree", "add", "-q", *options, os.fspath(path), revision)
        tree = GitRepo(path)
        tree._commits = self._commits
        return tree

    def bulk(self) -> Bulk:
        return Bulk(self)


def _quoted(name: bytes) -> bytes:
    """``name`` as fast-import takes any name: C-style, whatever looks odd in octal."""
    safe = b"".join(
        b"%c" % c if 0x20 < c < 0x7F and c not in b'"\\' else b"\\%03o" % c for c in name
    )
    return b'"' + safe + b'"'


class Bulk:
    """Commits by the thousand files through one ``git fast-import``, run when the block ends.

    ``commit`` answers a number; after the block ``bulk[number]`` is the commit's id. The
    work tree is left alone: ``repo.checkout(...)`` brings it, where a test needs one.
    """

    def __init__(self, repo: GitRepo) -> None:
        self._repo = repo
        self._stream: list[bytes] = []
        self._count = 0
        self._shas: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __getitem__(self, number: int) -> str:
        return self._shas[number]

    def commit(
        self,
        branch: str,
        changes: Changes,
        message: Content = "Change",
        parents: Iterable[int | str] | None = None,
    ) -> int:
        """A commit on ``branch``. ``parents``: numbers or ids; None for the branch's last one
        in this block, if there is one; ``()`` for a root commit.
        """
        self._count += 1
        when = self._repo.clock()["GIT_COMMITTER_DATE"].encode()
        text = encode(message)
        if parents == ():
            self._stream.append(b"reset refs/heads/%s\n\n" % branch.encode())
        self._stream.append(
            b"commit refs/heads/%s\nmark :%d\ncommitter Ada Writer <ada@example.com> %s\n"
            b"data %d\n%s\n" % (branch.encode(), self._count, when, len(text), text)
        )
        for index, parent in enumerate(parents or ()):
            word = b"merge" if index else b"from"
            at = b":%d" % parent if isinstance(parent, int) else parent.encode()
            self._stream.append(b"%s %s\n" % (word, at))
        for name, change in changes.items():
            self._stream.append(self._entry(encode(name), change))
        self._stream.append(b"\n")
        return self._count

    @staticmethod
    def _entry(name: bytes, change: Change) -> bytes:
        if change is None:
            return b"D %s\n" % _quoted(name)
        mode, content = change if isinstance(change, tuple) else (FILE, change)
        data = encode(content)
        if mode == GITLINK:
            return b"M %s %s %s\n" % (mode.encode(), data, _quoted(name))
        return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), _quoted(name), len(data), data)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        marks = Path(self._repo.text("rev-parse", "--absolute-git-dir")) / "bulk-marks"
        self._repo.run(
            "fast-import", "--quiet", "--force", "--date-format=raw", f"--export-marks={marks}",
            stdin=b"".join(self._stream),
        )  # fmt: skip
        for line in marks.read_text().splitlines():
            mark, sha = line.split()
            self._shas[int(mark.removeprefix(":"))] = sha
        marks.unlink()


@dataclass(frozen=True)
class History:
    """A repository that stands on ``head``, and the range ``base``..``head`` to be judged.

    ``commits`` holds the ids of further commits by a name that the builder tells.
    """

    repo: GitRepo
    base: str
    head: str
    commits: Mapping[str, str] = field(default_factory=dict)
