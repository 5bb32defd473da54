"""Deliver files to a branch of a remote, through GitPython and a bare clone of our own.

The user's clone stays untouched. Files go from memory into objects, and from there into a branch
of the remote, by a fast-forward or not at all: no push of others is lost.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import contextmanager, suppress
from types import MappingProxyType

import git
import git.exc

from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.git.remote_access import (
    AUTHOR,
    environment_of,
    is_at,
    require_address,
    require_own_place,
)
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO

    #: Gets the object ids of files by path, and returns which of them make room: their new paths,
    #: "" for none.
    Displace = Callable[[Mapping[str, str]], Mapping[str, str]]

#: A file beside the delivered ones, with the object id of each.
LEDGER = ".rlm-ci-delivered.json"
#: Names of delivered files.
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*\.(?:md|json)")
#: Seconds of one call of git over the network.
_TIMEOUT = 600
#: Pages that a message names.
_NAMED = 5
#: Attempts while others push at the same time.
_TRIES = 5


class Delivery(Value):
    """The result of a delivery: ``commit`` is None when there was nothing to push.

    ``edited_files`` are files that people have edited since, left as they are. ``displaced`` are
    files of others that made room, by their paths, with their new paths ("" for removed).
    ``differs``: the branch differs from its base.
    """

    branch: str
    commit: str | None
    edited_files: tuple[str, ...] = ()
    displaced: Mapping[str, str] = MappingProxyType({})
    differs: bool = True

    def summary(self) -> str:
        """The result in words."""
        what = f"nothing to push: {self.branch} has these pages"
        if self.commit:
            what = f"pushed {self.commit[:12]} to {self.branch}"
        if self.edited_files:
            number, names = (
                count(len(self.edited_files), "page"),
                ", ".join(self.edited_files[:_NAMED]),
            )
            names += ", ..." if len(self.edited_files) > _NAMED else ""
            what += f"; {number} that people have edited left as they are ({names})"
        for path, new in self.displaced.items():
            what += f"; {path} was there: it is now {new}" if new else f"; {path} replaced"
        return printable(what)


class Clone:
    """A bare clone of ``url`` in a folder that goes away with it; see ``cloned``."""

    def __init__(self, repo: git.Repo, url: str) -> None:
        self._repo = repo
        self._url = url

    @property
    def folder(self) -> str:
        """The git folder of the clone."""
        return str(self._repo.git_dir)

    def borrow(self, objects: str) -> None:
        """Read objects from the folder ``objects`` of another repository, too."""
        escaped = objects.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        path = os.path.join(self.folder, "objects", "info", "alternates")
        with open(path, "a", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.write(f'"{escaped}"\n')

    def head(self) -> str | None:
        """The default branch of the remote; None where it has no commit."""
        try:
            name = self._repo.head.reference.name
        except TypeError:  # detached
            return None
        return name if self.branch(name) else None

    def branch(self, name: str) -> str | None:
        """The commit of a branch of the remote when it was last fetched."""
        revision = f"refs/heads/{name}^{{commit}}"
        try:  # of git itself, which knows the longer hash, too
            return str(self._repo.git.rev_parse("--verify", "--quiet", revision))
        except git.exc.GitCommandError:
            return None

    def read(self, name: str, folder: str) -> dict[str, bytes]:
        """The files below ``folder`` of a branch, by their path in it."""
        tip = self.branch(name) if name else None
        if tip is None:
            return {}
        tree = self._repo.commit(tip).tree
        try:
            inner = tree / folder.strip("/") if folder.strip("/") else tree
        except KeyError:
            return {}
        if not isinstance(inner, git.Tree):
            return {}
        blobs = [entry for entry in inner.traverse() if isinstance(entry, git.Blob)]
        self._prefetch([str(blob.hexsha) for blob in blobs])
        start = len(str(inner.path)) + 1 if inner.path else 0
        return {str(blob.path)[start:]: blob.data_stream.read() for blob in blobs}

    def _prefetch(self, oids: Sequence[str]) -> None:
        """Fetch these at once: a partial clone fetches each by itself."""
        is_partial = self._repo.config_reader().has_option('remote "origin"', "promisor")
        if not (oids and is_partial):
            return
        listed = "".join(f"{oid}\n" for oid in oids)
        with _stream(listed.encode()) as stream, suppress(git.exc.GitCommandError):
            self._repo.git.fetch(
                "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin",
                "origin", istream=stream, kill_after_timeout=_TIMEOUT,
            )  # fmt: skip

    def deliver(
        self,
        name: str,
        files: Mapping[str, bytes],
        message: str,
        *,
        base: str | None = None,
        displace: Displace | None = None,
    ) -> Delivery:
        """Put ``files`` into the branch ``name``, and remove what we delivered before.

        With ``base``, the branch to merge into, ``name`` is a branch of our own, which takes up
        the commits of its base. ``displace`` is asked about the files that we have never
        delivered. Raises ConfigError where people have committed to such a branch,
        RemoteError where the remote refuses.
        """
        return self._pushed(name, lambda: self._commit(name, files, message, base, displace))

    def add(
        self, name: str, choose: Callable[[Mapping[str, str]], Mapping[str, str]], message: str
    ) -> Delivery:
        """Put blobs into the branch ``name``, which is made, with nothing else, if it is missing.

        ``choose`` gets the object ids that it holds, by path, and returns those to put there.
        Raises ConfigError for the default branch, RemoteError where the remote refuses.
        """
        if name == self.head():
            raise ConfigError(
                f"{printable(name)} is the default branch, and no place for an archive",
                where=printable(self._url),
                hint="name another branch in the policy",
            )

        def commit() -> Delivery:
            tip, blobs = self.branch(name), choose(self.object_ids(name))
            return Delivery(name, self.commit(tip, blobs, message) if blobs else None)

        return self._pushed(name, commit)

    def propose(self, name: str, base: str, blobs: Mapping[str, str], message: str) -> Delivery:
        """Let the branch ``name``, which is ours, hold the tree of ``base`` with ``blobs`` in it.

        Raises as ``deliver`` does.
        """

        def commit() -> Delivery:
            tip = self.branch(name)
            if tip:
                self._require_ours(name, tip, base)
            tree = self._written(base, _rows(blobs))
            if tip and tree == self._tree_of(tip):
                return Delivery(name, None, differs=tree != self._tree_of(base))
            options = [word for head in self._heads(tip, base) for word in ("-p", head)]
            new_commit = str(self._repo.git.commit_tree(tree, "-m", message, *options))
            return Delivery(name, new_commit, differs=tree != self._tree_of(base))

        return self._pushed(name, commit)

    def has(self, name: str, commit: str) -> bool:
        """Whether the branch ``name`` contains ``commit``."""
        tip = self.branch(name)
        return tip is not None and self._heads(commit, tip) == [tip]

    def commit(self, parent: str | None, blobs: Mapping[str, str], message: str) -> str:
        """A commit on top of ``parent`` with ``blobs`` in it, object ids by path."""
        options = ["-p", parent] if parent else []
        tree = self._written(parent, _rows(blobs))
        return str(self._repo.git.commit_tree(tree, "-m", message, *options))

    def begin(self, name: str, commit: str) -> None:
        """Let the branch ``name`` begin at ``commit``, in this clone only."""
        self._repo.git.update_ref(f"refs/heads/{name}", commit, "")

    def object_ids(self, name: str) -> dict[str, str]:
        """The object ids of the files of a branch, by path; "" for what is no regular file."""
        files = self.entries(name).items()
        return {path: oid if mode.startswith("100") else "" for path, (mode, oid) in files}

    def entries(self, name: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of what a branch holds, by path."""
        tip = self.branch(name)
        return {} if tip is None else self._listed(tip)

    def _listed(self, commit: str) -> dict[str, tuple[str, str]]:
        listed = str(self._repo.git.ls_tree("-r", "-z", "--full-tree", commit))
        rows = (row.split("\t", 1) for row in listed.split("\0") if row)
        return {path: (head.split(" ")[0], head.split(" ")[2]) for head, path in rows}

    def contents(self, oids: Sequence[str]) -> list[bytes]:
        """The contents of blobs of the remote."""
        self._prefetch(oids)
        return [self._repo.odb.stream(bytes.fromhex(oid)).read() for oid in oids]

    def _pushed(self, name: str, commit: Callable[[], Delivery]) -> Delivery:
        """Push what ``commit`` makes; again, with a new one, while others push."""
        for left in reversed(range(_TRIES)):
            delivered = commit()
            if delivered.commit is None:
                return delivered
            try:
                self._push(delivered.commit, name)
            except RemoteError:
                before = self.branch(name)
                self.fetch()
                if not left or self.branch(name) == before:
                    raise
            else:
                return delivered
        raise AssertionError("the last try returns or raises")

    def _commit(
        self,
        name: str,
        files: Mapping[str, bytes],
        message: str,
        base: str | None,
        displace: Displace | None,
    ) -> Delivery:
        tip = self.branch(name)
        ground = self.branch(base) if base else tip
        if base and tip and ground:
            self._require_ours(name, tip, ground)
            if self._tree_of(tip) == self._tree_of(ground):  # merged
                tip = tip if ground not in self._heads(tip, ground) else None
        tree, edited, displaced = self._tree(ground, files, displace)
        if (ground and tree == self._tree_of(ground)) or (tip and tree == self._tree_of(tip)):
            differs = bool(tip and ground and tip != ground and tree != self._tree_of(ground))
            return Delivery(name, None, edited, differs=differs)
        parents = self._heads(self.branch(name), ground)
        options = [word for parent in parents for word in ("-p", parent)]
        commit = str(self._repo.git.commit_tree(tree, "-m", message, *options))
        return Delivery(name, commit, edited, displaced)

    def _heads(self, *commits: str | None) -> list[str]:
        """Those of ``commits`` that no other one of them contains."""
        tips = [tip for tip in dict.fromkeys(commits) if tip]
        heads = str(self._repo.git.merge_base("--independent", *tips)).split() if tips else []
        return [tip for tip in tips if tip in heads]

    def _require_ours(self, name: str, tip: str, ground: str) -> None:
        """Raise ConfigError if people have committed to the branch since its base."""
        mails = str(self._repo.git.log("--format=%ae", f"{ground}..{tip}")).split("\n")
        others = [mail for mail in mails if mail and mail != AUTHOR[1]]
        if others:
            raise ConfigError(
                f"people have committed to the branch {printable(name)}: it is not overwritten",
                where=printable(self._url),
                hint="merge or close its pull request and delete the branch, then try again",
            )

    def _tree(
        self,
        ground: str | None,
        files: Mapping[str, bytes],
        displace: Displace | None,
    ) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
        """The tree of ``ground`` with ``files`` in it, those that people have edited, and those
        that made room.
        """
        folder = os.path.commonpath([os.path.dirname(path) for path in files]) if files else ""
        ledger = f"{folder}/{LEDGER}" if folder else LEDGER
        before = self._ledger(ground, ledger, folder)
        # By object ids, which need no fetch of contents.
        now = dict(zip(files, self.store(*files.values()), strict=True))
        oids = self._blobs(ground, {**before, **now})
        edited, changes = [], []
        foreign: dict[str, str] = {}
        if displace is not None and ground:
            entries = self._listed(ground).items()
            foreign = {path: oid for path, (_, oid) in entries if path not in before}
        displaced = displace(foreign) if displace is not None else {}
        for path, new in displaced.items():
            oids.pop(path, None)
            changes.append(f"0 {'0' * 40}\t{path}\0")
            if new:
                changes.append(f"100644 {foreign[path]}\t{new}\0")
        for path in sorted({*before, *now}):
            present, written = oids.get(path), before.get(path)
            if present is not None and present not in (written, now.get(path)):
                edited.append(path)
            elif path not in files:
                changes.append(f"0 {'0' * 40}\t{path}\0")
            elif present != now[path]:
                changes.append(f"100644 {now[path]}\t{path}\0")
        # Of a file that people have edited, the ledger keeps what we wrote.
        records = {path: oid for path, oid in now.items() if path not in edited}
        records |= {path: before[path] for path in edited if path in before}
        text = json.dumps({"version": 1, "files": dict(sorted(records.items()))}, indent=1) + "\n"
        changes.append(f"100644 {self.store(text.encode())[0]}\t{ledger}\0")
        return self._written(ground, changes), tuple(edited), displaced

    def _written(self, ground: str | None, changes: Sequence[str]) -> str:
        index = os.path.join(self._repo.git_dir, "delivery.index")
        with self._repo.git.custom_environment(GIT_INDEX_FILE=index):
            self._repo.git.read_tree(*([ground] if ground else ["--empty"]))
            with _stream("".join(changes).encode("utf-8", "surrogateescape")) as stream:
                self._repo.git.update_index("-z", "--index-info", istream=stream)
            tree = str(self._repo.git.write_tree("--missing-ok"))  # else it fetches every blob
        self._require_all(tree, [change[:-1].split("\t", 1) for change in changes])
        return tree

    def _require_all(self, tree: str, changes: Sequence[Sequence[str]]) -> None:
        """Raise ConfigError for a missing file: git leaves out dangerous names."""
        accepted = set(str(self._repo.git.ls_tree("-r", "-z", "--name-only", tree)).split("\0"))
        for entry, path in changes:
            if not entry.startswith("0 ") and path not in accepted:
                raise ConfigError(
                    "git does not accept a file of that name",
                    where=printable(path),
                    hint="deliver to another folder",
                )

    def _ledger(self, ground: str | None, path: str, folder: str) -> dict[str, str]:
        """The last delivery; {} before the first.

        Everybody with access to the branch may write it: no name in it leads out of ``folder``.
        """
        entry = self._entry(ground, path)
        if entry is None:
            return {}
        try:
            record = json.loads(entry.data_stream.read())
            files = record["files"]
            if record["version"] != 1 or not all(
                isinstance(item, str) for pair in files.items() for item in pair
            ):
                raise ValueError("another version")
            start = f"{folder}/" if folder else ""
            for name in files:
                if not (name.startswith(start) and _NAME.fullmatch(name, len(start))):
                    raise ValueError("a name that rlm-ci does not use")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DamagedError(
                "it does not say what was delivered last",
                where=printable(path),
                hint="restore it, or remove it with the files beside it",
            ) from None
        return dict(files)

    def _blobs(self, ground: str | None, paths: Iterable[str]) -> dict[str, str]:
        entries = ((path, self._entry(ground, path)) for path in paths)
        return {path: str(entry.hexsha) for path, entry in entries if entry is not None}

    def _entry(self, ground: str | None, path: str) -> git.Blob | None:
        if ground is None:
            return None
        try:
            entry = self._repo.commit(ground).tree / path
        except KeyError:
            return None
        if not isinstance(entry, git.Blob):
            raise ConfigError(
                "there is a folder where a file is to be delivered",
                where=printable(path),
                hint="move it away, or deliver to another folder",
            )
        return entry

    def store(self, *contents: bytes) -> list[str]:
        """Make objects of ``contents``; their ids."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(number)) for number in range(len(contents))]
            for path, data in zip(paths, contents, strict=True):
                with open(path, "wb") as file:
                    file.write(data)
            with _stream(b"".join(os.fsencode(path) + b"\n" for path in paths)) as listed:
                options = ("-w", "--no-filters", "--stdin-paths")
                return str(self._repo.git.hash_object(*options, istream=listed)).split()

    def _tree_of(self, commit: str) -> str:
        return str(self._repo.commit(commit).tree.hexsha)

    def _push(self, commit: str, name: str) -> None:
        with _remote(self._url):
            self._repo.git.push(
                "--quiet", "origin", f"{commit}:refs/heads/{name}", kill_after_timeout=_TIMEOUT
            )

    def fetch(self) -> None:
        """Take up all branches of the remote as they are now."""
        with _remote(self._url):
            self._repo.git.fetch(
                "--quiet", "origin", "+refs/heads/*:refs/heads/*", kill_after_timeout=_TIMEOUT
            )


def _rows(blobs: Mapping[str, str]) -> list[str]:
    """Blobs by path as ``git update-index`` takes them."""
    return [f"100644 {oid}\t{path}\0" for path, oid in blobs.items()]


def _stream(data: bytes) -> IO[bytes]:
    """A standard input for GitPython, which takes real files only."""
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - callers close it
    stream.write(data)
    stream.seek(0)
    return stream


@contextmanager
def cloned(
    url: str, environ: Mapping[str, str], *, token: str | None, own_folder: str
) -> Iterator[Clone]:
    """A clone of ``url``; only the server ``own_folder`` gets ``token``, and never as an argument.

    Without a token git uses the user's own credential helpers. Raises ConfigError for an invalid
    address, RemoteError where the remote does not answer.
    """
    require_address(url)
    require_own_place(environ)
    with tempfile.TemporaryDirectory(prefix="rlm-ci-delivery-") as folder:
        env = environment_of(folder, token if is_at(url, own_folder) else None)
        with _remote(url):
            repo = git.Repo.clone_from(
                url,
                os.path.join(folder, "clone.git"),
                env=env,
                multi_options=["--bare", "--filter=blob:none", "--quiet"],
                kill_after_timeout=_TIMEOUT,
            )
        try:
            with repo.git.custom_environment(**env):
                yield Clone(repo, url)
        finally:
            repo.close()


@contextmanager
def _remote(url: str) -> Iterator[None]:
    """Raise RemoteError for a failure of git."""
    try:
        yield
    except git.exc.GitCommandNotFound:
        raise RemoteError("git was not found", where="git", hint="install it") from None
    except git.exc.GitCommandError as error:
        message = str(error.stderr or "").strip().removeprefix("stderr:").strip(" '\n")
        last = [line for line in message.splitlines() if line.strip()][-3:]
        raise RemoteError(
            f"the remote refuses: {printable('; '.join(last))[:400]}",
            where=printable(url),
            hint="check that it exists, and that the token may write contents",
        ) from None
    except git.exc.GitError as error:
        raise RemoteError(
            f"git cannot go on: {printable(str(error))[:400]}",
            where=printable(url),
            hint="check the address",
        ) from None
