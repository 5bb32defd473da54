"""The repository on disk, read through ``git`` and hardened against a hostile one.

Names end with NUL, each ref is resolved to an object id before use, and whatever a repository's
configuration could execute is off. A change from outside is only read tree to tree, without its
attributes. Paths are ``str`` with surrogateescape, relative to the top level.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from rlm_ci.errors import DamagedError, UnavailableError
from rlm_ci.git.hardening import DIFF_OPTIONS, FIXED, HOOK_VARIABLES, INHERITED, NETWORK, OVERRIDES
from rlm_ci.git.objects import TreeEntry, parse_contents, parse_index, parse_refs, parse_tree
from rlm_ci.system import process
from rlm_ci.text.object_id import is_object_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Self


#: Files in and beside a git folder that git reads whole, whatever they are.
_READ_WHOLE = (
    "HEAD", "config", "config.worktree", "commondir", "index", "packed-refs", "shallow",
    "info/attributes", "info/exclude", "info/grafts", "objects/info/alternates",
    "../.gitattributes", "../.gitignore",
)  # fmt: skip


def discover(start: str) -> tuple[str, str | None]:
    """The top level that holds ``start`` and its git directory; (start, None) outside of one.

    Raises DamagedError for one whose files git would wait for, or read without end.
    """
    folder = os.path.abspath(start)
    while True:
        marker = os.path.join(folder, ".git")
        if os.path.lexists(os.path.join(marker, "HEAD")):
            _require_files(marker, _READ_WHOLE)
            with suppress(OSError), open(os.path.join(marker, "HEAD"), "rb") as stream:
                ref = os.fsdecode(stream.read(4096).strip()).removeprefix("ref: ")
                _require_files(marker, [ref] if ref.startswith("refs/") else [])
            return folder, marker
        if os.path.isfile(marker):
            return folder, follow(marker)
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.path.abspath(start), None
        folder = parent


def _require_files(git_dir: str, names: Sequence[str]) -> None:
    """Raise DamagedError for one that is neither a file nor a folder."""
    for name in names:
        path = os.path.join(git_dir, name)
        with suppress(OSError, ValueError):
            mode = os.stat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise DamagedError(
                    "git cannot read a pipe, a socket or a device",
                    where=os.path.normpath(path),
                    hint="remove it, or clone the repository again",
                )


def follow(git_dir: str) -> str:
    """The folder that ``git_dir`` is or, as a file, names (as of a submodule). Raises OSError."""
    if not os.path.isfile(git_dir):
        return git_dir
    with open(git_dir, "rb") as stream:
        target = os.fsdecode(stream.read(1 << 16).partition(b"gitdir:")[2].strip(b" \r\n"))
    return os.path.normpath(os.path.join(os.path.dirname(git_dir), target))


class RunningGit:
    """A running git; leaving the context kills it."""

    def __init__(
        self, child: process.Child, read: Callable[[process.ProcessResult], bytes]
    ) -> None:
        self._child, self._read = child, read
        self.warned = b""  # known once it has finished

    def __enter__(self) -> Self:
        self._child.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._child.__exit__(*error)

    def finish(self) -> bytes:
        """Its standard output. Raises what ``Repository.run`` raises."""
        ended = self._child.finish()
        self.warned = ended.stderr
        return self._read(ended)


class Repository:
    """A work tree and its object store."""

    def __init__(self, root: str, git_dir: str | None, environment: Mapping[str, str]) -> None:
        """Git gets only the variables of ``environment`` that ``hardening`` names."""
        self.root = root
        self.git_dir = git_dir
        hooks = {name: environment[name] for name in HOOK_VARIABLES if name in environment}
        # A hook's paths are relative to the folder where it runs.
        hooks = {name: os.path.abspath(path) for name, path in hooks.items()}
        if "GIT_DIR" in hooks:
            hooks["GIT_DIR"] = follow(hooks["GIT_DIR"])
        self._env = {name: environment[name] for name in INHERITED if name in environment}
        self._env.update(hooks, **FIXED)
        self._network = {name: environment[name] for name in NETWORK if name in environment}
        self._trusted = False
        self._hash: str | None = None
        #: The default branch by an event; a clone may not know it.
        self.told_default = ""
        #: Called once with a text where git took one of several refs of the same name.
        self.note: Callable[[str], None] = lambda _: None
        self._noted: set[bytes] = set()

    def run(self, *args: str | bytes, **options: Any) -> bytes:
        """The standard output of ``git args``, with the options of ``start``.

        Raises ConfigError when the repository cannot be used as it is, DamagedError when git fails
        otherwise, UnavailableError when there is no git.
        """
        with self.start(*args, **options) as pending:
            return pending.finish()

    def start(
        self,
        *args: str | bytes,
        stdin: bytes = b"",
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        network: bool = False,
        limit: int | None = None,
    ) -> RunningGit:
        """Run ``git args`` in ``folder`` (default: the top level), until ``finish`` is called.

        ``ok`` are the exit codes of success; ``network`` lets git reach remotes. After ``limit``
        bytes git is stopped, and these are its output.
        """
        if self.git_dir is None:
            from rlm_ci.git.errors import no_repository

            raise no_repository(self.root)
        argv: list[str | bytes] = ["git", "-C", folder or self.root]
        for override in OVERRIDES:
            if not (network and override.startswith("protocol.")):
                argv += ["-c", override]
        reach = self._network if network else {}
        child_env = {**self._env, **reach, **(env or {})}
        max_bytes = process.DEFAULT_LIMIT if limit is None else limit
        child = process.Child([*argv, *args], child_env, stdin, limit=max_bytes)

        def read(result: process.ProcessResult) -> bytes:
            is_cut = limit is not None and result.truncated
            if result.returncode not in ok and not is_cut:
                from rlm_ci.git.errors import understand

                raise understand(result, os.fsdecode(args[0]), self.root, network=network)
            # A git that found the repository by itself has also checked its owner.
            self._trusted = self._trusted or not env
            return result.stdout

        return RunningGit(child, read)

    def resolve(self, *refs: str) -> list[str | None]:
        """The commit that each ref names, or None for one that names none."""
        usable = [ref if ref and "\n" not in ref and "\0" not in ref else "-" for ref in refs]
        query = "".join(f"{ref}^{{commit}}\n" for ref in usable)
        try:
            answer = self._look_up("cat-file", "--batch-check", stdin=_encode(query))
        except DamagedError:
            # For some expressions (an upstream that is not set) git fails instead.
            if not any(sign in query.replace("^{commit}", "") for sign in ("@{", "^{", ":/")):
                raise
            return [None] if len(refs) == 1 else [self.resolve(ref)[0] for ref in refs]
        commits: list[str | None] = []
        for line in answer.split(b"\n")[: len(refs)]:
            words = line.split(b" ")
            is_commit = len(words) == 3 and words[1] == b"commit"
            commits.append(words[0].decode() if is_commit else None)
        return commits

    def _look_up(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> bytes:
        """``run`` for a question about refs, with git's warnings to ``note``."""
        with self.start(*args, stdin=stdin, ok=ok) as pending:
            answer = pending.finish()
        if b"' is ambiguous" in pending.warned and pending.warned not in self._noted:
            from rlm_ci.git.errors import ambiguous

            self._noted.add(pending.warned)
            self.note("; ".join(ambiguous(pending.warned, self.refs)))
        return answer

    def range(self, base: str, head: str) -> tuple[str, str, str] | None:
        """The commits of two plain refs and their merge base, by one git; None for all else."""
        plain = (base + head).replace("/", "").replace("-", "").replace("_", "").replace(".", "")
        if not plain.isalnum() or ".." in base + "/" + head:
            return None
        revisions = f"{base}^{{commit}}...{head}^{{commit}}"
        answer = self._look_up("rev-parse", "--end-of-options", revisions, ok=(0, 128))
        lines = [line for line in answer.decode().split("\n") if line and line[0] != "-"]
        if len(lines) < 3 or not lines[2].startswith("^"):
            return None
        return lines[1], lines[0], lines[2][1:]

    def merge_base(self, text: str, other: str) -> str | None:
        """The merge base of two commits (the first, as ``git diff A...B`` takes it)."""
        bases = self.run("merge-base", text, other, ok=(0, 1)).split()
        return bases[0].decode() if bases else None

    def parents(self, commit: str) -> list[str]:
        """The parents of a commit, first to last; in a shallow clone, those it still has."""
        return self.run("rev-parse", f"{commit}^@").decode().split()

    def empty_tree(self) -> str:
        """The object id of the empty tree, in the hash of this repository."""
        return self.run("hash-object", "-t", "tree", os.devnull).decode().strip()

    @property
    def common_dir(self) -> str:
        """Where the objects and refs of all work trees lie."""
        git_dir = self.git_dir or ""
        try:
            with open(os.path.join(git_dir, "commondir"), "rb") as stream:
                return os.path.normpath(os.path.join(git_dir, os.fsdecode(stream.read().strip())))
        except OSError:
            return git_dir

    @property
    def alternates(self) -> tuple[str, ...]:
        """Folders whose objects are seen as well, by the variable of a hook."""
        folders = self._env.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
        return tuple(filter(None, folders.split(os.pathsep)))

    @property
    def index_file(self) -> str:
        """Where the index lies; a commit of some files alone has one of its own."""
        git_dir = self._env.get("GIT_DIR") or self.git_dir or ""
        return self._env.get("GIT_INDEX_FILE") or os.path.join(git_dir, "index")

    def is_shallow(self) -> bool:
        return os.path.exists(os.path.join(self.common_dir, "shallow"))

    def head_commit(self) -> str | None:
        """The commit of HEAD; None before the first one.

        It reads the file of the branch if there is one, since git takes too long for a hook.
        """
        try:
            with open(os.path.join(self.git_dir or "", "HEAD"), "rb") as stream:
                ref = os.fsdecode(stream.read(4096).strip())
            if (
                ref.startswith("ref: refs/heads/")
                and ".." not in ref
                and "GIT_DIR" not in self._env
            ):
                with open(os.path.join(self.common_dir, ref[5:]), "rb") as stream:
                    commit = stream.read(4096).strip().decode()
                if is_object_id(commit):
                    return commit
        except (OSError, ValueError):
            pass
        return self.resolve("HEAD")[0]

    def head_ref(self) -> str | None:
        """The full name of the branch that HEAD is on; None when detached."""
        return self.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).decode().strip() or None

    def refs(self, *prefixes: str) -> dict[str, tuple[str, str]]:
        """Object id and symbolic target (or "") of each ref under ``prefixes``."""
        with self.start_refs(*prefixes) as listing:
            return parse_refs(listing.finish())

    def start_refs(self, *prefixes: str) -> RunningGit:
        """List refs beside us, for :func:`parse_refs`."""
        form = "--format=%(refname)%00%(objectname)%00%(symref)"
        return self.start("for-each-ref", form, *prefixes)

    def remote(self) -> str:
        """The remote that others publish to: ``origin``, or the only one, or ``origin``."""
        names = self.run("remote").decode("utf-8", "surrogateescape").split()
        return names[0] if len(names) == 1 else "origin"

    def default_branch(self, remote: str | None = None) -> tuple[str, str] | None:
        """Name and commit of the default branch, as far as the clone knows it."""
        remote = remote or self.remote()
        refs = self.refs(f"refs/remotes/{remote}", "refs/heads")
        prefix = f"refs/remotes/{remote}/"
        target = refs.get(f"{prefix}HEAD", ("", ""))[1]
        candidates = [prefix + self.told_default, target, f"{prefix}main", f"{prefix}master"]
        candidates += ["refs/heads/main", "refs/heads/master"]
        for name in candidates:
            if name in refs:
                short = name.removeprefix(prefix).removeprefix("refs/heads/")
                return short, refs[name][0]
        return None

    def config(self, key: str) -> str:
        """One value of the configuration, or ""."""
        value = self.run("config", "--get", "-z", key, ok=(0, 1))
        return _decode(value).rstrip("\0")

    def read(self, *specs: str) -> list[bytes | None]:
        """The contents of blobs, by ``<object id>`` or ``<commit>:<path>``; None for others."""
        with self.start_read(specs) as pending:
            return parse_contents(pending.finish(), len(specs))

    def start_read(self, specs: Sequence[str]) -> RunningGit:
        """Read blobs beside us, for :func:`parse_contents`."""
        return self.start("cat-file", "--batch", "--buffer", stdin=self._batch(specs))

    def start_search(
        self, texts: Sequence[bytes], commit: str, patterns: Sequence[str], *options: str
    ) -> RunningGit:
        """Name beside us the files like ``patterns`` with a text: ``<commit>:<path>``, NUL."""
        # Several threads would not help: searches already run side by side.
        how = ("-l", "-z", "-F", "--text", "--no-color", "--threads=1", "--no-recurse-submodules")
        patterned = {"GIT_LITERAL_PATHSPECS": "0"}
        text_args = [word for text in texts for word in ("-e", text)]
        return self.start(
            "grep", *how, *options, *text_args, commit, "--", *patterns, env=patterned, ok=(0, 1)
        )

    def sizes(self, specs: Sequence[str]) -> list[int]:
        """The size of each object in bytes, -1 for one that is missing, in one batch."""
        form = "--batch-check=%(objectsize)"
        lines = self.run("cat-file", "--buffer", form, stdin=self._batch(specs)).split(b"\n")
        return [int(line) if line.isdigit() else -1 for line in lines[: len(specs)]]

    def read_small(self, specs: Sequence[str], limit: int) -> list[bytes | None]:
        """Read blobs of at most ``limit`` bytes, None for each that is larger or missing.

        Mostly all of them together are small, and one git is enough.
        """
        batch = self._batch(specs)
        with self.start("cat-file", "--batch", "--buffer", stdin=batch, limit=limit) as pending:
            output = pending.finish()
        if len(output) < limit:
            return parse_contents(output, len(specs))
        sizes = self.sizes(specs)
        small = [spec for spec, size in zip(specs, sizes, strict=True) if 0 <= size <= limit]
        contents = dict(zip(small, self.read(*small) if small else (), strict=True))
        return [contents.get(spec) for spec in specs]

    def _batch(self, specs: Sequence[str]) -> bytes:
        """One spec a line; its object id instead of one with a line break."""
        batch = _encode("\n".join(specs)) + b"\n"
        if batch.count(b"\n") == len(specs) and b"\r" not in batch:
            return batch
        lines = []
        for spec in specs:
            line = _encode(spec)
            if b"\n" in line or line.endswith(b"\r"):  # git would cut it there
                answer = self.run("rev-parse", "--quiet", "--verify", line, ok=(0, 1, 128))
                line = answer.strip() or b"-"
            lines.append(line + b"\n")
        return b"".join(lines)

    def tree(self, commit: str, *, sizes: bool = False) -> dict[str, TreeEntry]:
        """All files of a tree, by path."""
        with self.start_tree(commit, sizes=sizes) as listing:
            return parse_tree(listing.finish())

    def start_tree(self, commit: str, *, sizes: bool = False) -> RunningGit:
        """List the files of a tree beside us, for :func:`parse_tree`."""
        long = ("-l",) if sizes else ()
        return self.start("ls-tree", "-r", "-z", *long, "--full-tree", commit)

    def staged(self) -> dict[str, TreeEntry]:
        """All files of the index, by path."""
        return parse_index(self.run("ls-files", "-z", "--full-name", "--stage"))

    def blob_id(self, data: bytes) -> str:
        """The object id that ``data`` has as a blob of this repository."""
        from hashlib import sha1, sha256

        if self._hash is None:
            self._hash = self.config("extensions.objectFormat") if self.git_dir else ""
        make = sha256 if self._hash == "sha256" else sha1
        return make(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def start_listing(self) -> RunningGit:
        """List what is in the index, or untracked and not ignored, parted by NUL."""
        every = ("--cached", "--others", "--exclude-standard")
        return self.start("ls-files", "-z", "--full-name", *every)

    def start_untracked(self) -> RunningGit:
        """List what is neither in the index nor ignored, NUL after each; folders end with ``/``."""
        return self.start("ls-files", "-z", "--full-name", "-o", "--exclude-standard")

    def diff_trees(self, old: str, new: str, *options: str) -> bytes:
        """``git diff`` of two trees, blind to the attributes of both."""
        with self.start_diff(old, new, *options) as pending:
            return pending.finish()

    def start_diff(
        self,
        *options: str,
        attributes: str | None = None,
        within: Sequence[str] = (),
        limit: int | None = None,
    ) -> RunningGit:
        """``git diff`` of two trees, ``within`` pathspecs, by the attribute files of a folder.

        After ``limit`` bytes git is stopped, and these are its output.
        """
        where = self._detached(attributes)
        where["env"]["GIT_LITERAL_PATHSPECS"] = "0"
        # Without the dashes, a file that is named like a commit would be taken for neither.
        return self.start("diff", *DIFF_OPTIONS, *options, "--", *within, **where, limit=limit)

    def with_objects(self, folder: str) -> Repository:
        """The same repository; what it writes goes to ``folder``, and is gone with it."""
        clone = Repository(self.root, self.git_dir, self._env)
        objects = self._env.get("GIT_OBJECT_DIRECTORY") or os.path.join(self.common_dir, "objects")
        folders = os.pathsep.join((objects, *self.alternates))
        clone._env |= {
            "GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": folders,
        }  # fmt: skip
        return clone

    def merge_trees(self, branch: str, other: str) -> tuple[str, list[str]]:
        """The tree of a merge of two commits, and its paths in conflict; no attribute has a say.

        Raises UnavailableError for a git before 2.38.
        """
        options = ("--write-tree", "-z", "--name-only", "--no-messages", branch, other)
        output = self.run("merge-tree", *options, ok=(0, 1, 129), **self._detached(None))
        tree, *paths = _decode(output).split("\0")
        if not is_object_id(tree):
            raise UnavailableError(
                "this git cannot merge without a work tree",
                where=self.root,
                hint="update git: 2.38 or newer",
            )
        return tree, list(dict.fromkeys(filter(None, paths)))

    def diff_worktree(self, *options: str, env: Mapping[str, str] | None = None) -> bytes:
        """``git diff`` of the index (``--cached``) or the work tree against a tree of ours."""
        if "--cached" in options:  # this form finds the repository by itself, or fails
            form = ["diff-index", "--ita-invisible-in-index"]
        else:
            form = ["diff"]
            self._require_trust()  # outside of a repository it would compare files
        return self.run(*form, *DIFF_OPTIONS, *options, "--", env=env)

    def attributes(
        self, names: Sequence[str], paths: Iterable[str], folder: str
    ) -> dict[str, set[str]]:
        """Which of the attributes ``names`` are set on which paths, by the files in ``folder``."""
        names_by_path: dict[str, set[str]] = {}
        for path, name, value in self.said_attributes(names, paths, **self._detached(folder)):
            if value in ("set", "true"):
                names_by_path.setdefault(path, set()).add(name)
        return names_by_path

    def said_attributes(
        self, names: Sequence[str], paths: Iterable[str], **where: Any
    ) -> list[tuple[str, str, str]]:
        """Path, name and value of each of the attributes, by the files of the work tree."""
        path_rows = _encode("".join(f"{path}\0" for path in paths))
        answer = self.run("check-attr", "-z", "--stdin", *names, stdin=path_rows, **where)
        fields = _decode(answer).split("\0")
        return list(zip(fields[:-1:3], fields[1::3], fields[2::3], strict=True))

    def _require_trust(self) -> None:
        """Let git check once that there is a repository, and its owner."""
        if not self._trusted:
            self.run("rev-parse", "--git-dir")

    def _detached(self, folder: str | None) -> dict[str, Any]:
        """Options of ``start`` for our objects with ``folder`` (or nothing) as the work tree.

        Naming the git directory skips git's check of the owner, so that comes first.
        """
        self._require_trust()
        git_dir = os.path.abspath(self._env.get("GIT_DIR") or self.git_dir or "")
        if folder is None:
            folder = git_dir  # it has no attribute files
        return {
            "folder": folder,
            "env": {
                "GIT_DIR": git_dir,
                "GIT_WORK_TREE": folder,
                # Attributes may also be read from the index, which is that of the checkout.
                "GIT_INDEX_FILE": os.path.join(git_dir, "rlm-ci-no-index"),
            },
        }


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
