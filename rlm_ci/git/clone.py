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

import git
import git.exc

from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import IO

#: A file beside the delivered ones, with the object id of each.
LEDGER = ".rlm-ci-delivered.json"
#: Names of delivered files.
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*\.(?:md|json)")
_AUTHOR = ("rlm-ci", "rlm-ci@noreply.invalid")
_TOKEN = "RLM_CI_DELIVERY_TOKEN"  # noqa: S105 - the name of a variable, not its value
#: git asks for a name, then for a password; GitHub takes any name with a token.
_ASKPASS = f"""\
#!/bin/sh
case "$1" in
  Username*) printf '%s\\n' x-access-token ;;
  *) printf '%s\\n' "${_TOKEN}" ;;
esac
"""
#: Variables that lead git to another repository.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
#: Seconds of one call of git over the network.
_TIMEOUT = 600
#: Attempts while others push at the same time.
_TRIES = 3


class Delivery(Value):
    """The result of a delivery: ``commit`` is None when there was nothing to push.

    ``kept`` are files that people have edited since, left as they are. ``differs``: the branch
    differs from its base.
    """

    branch: str
    commit: str | None
    kept: tuple[str, ...] = ()
    differs: bool = True


class Clone:
    """A bare clone of ``url`` in a folder that goes away with it; see ``cloned``."""

    def __init__(self, repo: git.Repo, url: str) -> None:
        self._repo = repo
        self._url = url

    def head(self) -> str | None:
        """The default branch of the remote; None where it has no commit."""
        try:
            name = self._repo.head.reference.name
        except TypeError:  # detached
            return None
        return name if self.branch(name) else None

    def branch(self, name: str) -> str | None:
        """The commit of a branch of the remote when it was last fetched."""
        try:
            return str(self._repo.commit(f"refs/heads/{name}").hexsha)
        except (git.exc.BadName, ValueError, git.exc.GitCommandError):
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
        blobs = [one for one in inner.traverse() if isinstance(one, git.Blob)]
        self._prefetch([str(one.hexsha) for one in blobs])
        start = len(str(inner.path)) + 1 if inner.path else 0
        return {str(one.path)[start:]: one.data_stream.read() for one in blobs}

    def _prefetch(self, oids: Sequence[str]) -> None:
        """Fetch these at once: a partial clone fetches each by itself."""
        if not self._repo.config_reader().has_option('remote "origin"', "promisor"):
            return
        listed = "".join(f"{oid}\n" for oid in oids)
        with _stream(listed.encode()) as stream, suppress(git.exc.GitCommandError):
            self._repo.git.fetch(
                "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin",
                "origin", istream=stream, kill_after_timeout=_TIMEOUT,
            )  # fmt: skip

    def deliver(
        self, name: str, files: Mapping[str, bytes], message: str, *, base: str | None = None
    ) -> Delivery:
        """Put ``files`` into the branch ``name``, and remove what we delivered before.

        With ``base``, the branch to merge into, ``name`` is a branch of our own, which takes up
        the commits of its base. Raises ConfigError where people have committed to such a branch,
        RemoteError where the remote refuses.
        """
        for left in reversed(range(_TRIES)):
            delivered = self._commit(name, files, message, base)
            if delivered.commit is None:
                return delivered
            try:
                self._push(delivered.commit, name)
            except RemoteError:
                before = self.branch(name)
                self._fetch()
                if not left or self.branch(name) == before:
                    raise
            else:
                return delivered
        raise AssertionError("the last try returns or raises")

    def _commit(
        self, name: str, files: Mapping[str, bytes], message: str, base: str | None
    ) -> Delivery:
        tip = self.branch(name)
        ground = self.branch(base) if base else tip
        if base and tip and ground:
            self._require_ours(name, tip, ground)
            if self._tree_of(tip) == self._tree_of(ground):  # merged
                tip = tip if ground not in self._heads(tip, ground) else None
        tree, kept = self._tree(ground, files)
        if (ground and tree == self._tree_of(ground)) or (tip and tree == self._tree_of(tip)):
            differs = bool(tip and ground and tip != ground and tree != self._tree_of(ground))
            return Delivery(name, None, kept, differs=differs)
        parents = self._heads(self.branch(name), ground)
        options = [word for one in parents for word in ("-p", one)]
        made = str(self._repo.git.commit_tree(tree, "-m", message, *options))
        return Delivery(name, made, kept)

    def _heads(self, *commits: str | None) -> list[str]:
        """Those of ``commits`` that no other one of them contains."""
        known = [one for one in dict.fromkeys(commits) if one]
        heads = str(self._repo.git.merge_base("--independent", *known)).split() if known else []
        return [one for one in known if one in heads]

    def _require_ours(self, name: str, tip: str, ground: str) -> None:
        """Raise ConfigError if people have committed to the branch since its base."""
        mails = str(self._repo.git.log("--format=%ae", f"{ground}..{tip}")).split("\n")
        others = [mail for mail in mails if mail and mail != _AUTHOR[1]]
        if others:
            raise ConfigError(
                f"people have committed to the branch {printable(name)}: it is not overwritten",
                where=printable(self._url),
                hint="merge or close its pull request and delete the branch, then try again",
            )

    def _tree(self, ground: str | None, files: Mapping[str, bytes]) -> tuple[str, tuple[str, ...]]:
        """The tree of ``ground`` with ``files`` in it, and those that people have edited."""
        folder = os.path.commonpath([os.path.dirname(path) for path in files]) if files else ""
        ledger = f"{folder}/{LEDGER}" if folder else LEDGER
        before = self._ledger(ground, ledger, folder)
        # By object ids, which need no fetch of contents.
        now = dict(zip(files, self._store(*files.values()), strict=True))
        there = self._blobs(ground, {**before, **now})
        kept, changes = [], []
        for path in sorted({*before, *now}):
            present, ours = there.get(path), before.get(path)
            if present is not None and present not in (ours, now.get(path)):
                kept.append(path)
            elif path not in files:
                changes.append(f"0 {'0' * 40}\t{path}\0")
            elif present != now[path]:
                changes.append(f"100644 {now[path]}\t{path}\0")
        # Of a file that people have edited, the ledger keeps what we wrote.
        told = {path: oid for path, oid in now.items() if path not in kept}
        told |= {path: before[path] for path in kept if path in before}
        text = json.dumps({"version": 1, "files": dict(sorted(told.items()))}, indent=1) + "\n"
        changes.append(f"100644 {self._store(text.encode())[0]}\t{ledger}\0")
        return self._written(ground, changes), tuple(kept)

    def _written(self, ground: str | None, changes: Sequence[str]) -> str:
        index = os.path.join(self._repo.git_dir, "delivery.index")
        with self._repo.git.custom_environment(GIT_INDEX_FILE=index):
            self._repo.git.read_tree(*([ground] if ground else ["--empty"]))
            with _stream("".join(changes).encode("utf-8", "surrogateescape")) as stream:
                self._repo.git.update_index("-z", "--index-info", istream=stream)
            tree = str(self._repo.git.write_tree())
        self._require_all(tree, [one[:-1].split("\t", 1) for one in changes])
        return tree

    def _require_all(self, tree: str, changes: Sequence[Sequence[str]]) -> None:
        """Raise ConfigError for a missing file: git leaves out dangerous names."""
        made = set(str(self._repo.git.ls_tree("-r", "-z", "--name-only", tree)).split("\0"))
        for told, path in changes:
            if not told.startswith("0 ") and path not in made:
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
                isinstance(one, str) for pair in files.items() for one in pair
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
        found = ((path, self._entry(ground, path)) for path in paths)
        return {path: str(entry.hexsha) for path, entry in found if entry is not None}

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

    def _store(self, *contents: bytes) -> list[str]:
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

    def _fetch(self) -> None:
        with _remote(self._url):
            self._repo.git.fetch(
                "--quiet", "origin", "+refs/heads/*:refs/heads/*", kill_after_timeout=_TIMEOUT
            )


def _stream(data: bytes) -> IO[bytes]:
    """A standard input for GitPython, which takes real files only."""
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - callers close it
    stream.write(data)
    stream.seek(0)
    return stream


@contextmanager
def cloned(
    url: str, environ: Mapping[str, str], *, token: str | None, ours: str
) -> Iterator[Clone]:
    """A clone of ``url``; only the server ``ours`` gets ``token``, and never as an argument.

    Without a token git uses the user's own credential helpers. Raises ConfigError for an invalid
    address, RemoteError where the remote does not answer.
    """
    _require_address(url)
    _require_own_place(environ)
    with tempfile.TemporaryDirectory(prefix="rlm-ci-delivery-") as folder:
        env = _environment(folder, token if _is_at(url, ours) else None)
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


def _require_address(url: str) -> None:
    """Raise ConfigError for anything but a server or a folder."""
    scheme, separator, rest = url.partition("://")
    known = separator and scheme in ("https", "http", "ssh", "file")
    is_scp = not separator and "@" in url.partition(":")[0] and "::" not in url
    if not (known or is_scp or os.path.isabs(url)) or url.startswith("-"):
        raise ConfigError(
            f"{printable(url)[:200]!r} is not an address to push to",
            where="the remote's url",
            hint="https://, ssh://, or user@host:path",
        )
    if scheme in ("https", "http") and "@" in rest.partition("/")[0]:
        raise ConfigError(
            "the remote's URL has credentials",
            where="the remote's url",
            hint="remove them, and give the token in GITHUB_TOKEN",
        )


def _is_at(url: str, server: str) -> bool:
    return url.startswith(f"{server.rstrip('/')}/")


def _require_own_place(environ: Mapping[str, str]) -> None:
    """Raise ConfigError where the environment leads git to the user's clone, as in a hook."""
    for name in _ELSEWHERE:
        if name in environ:
            raise ConfigError(
                f"{name} leads git to another repository than the clone of a delivery",
                where=name,
                hint="push outside of a git hook, or unset it first",
            )


def _environment(folder: str, token: str | None) -> dict[str, str]:
    """For git: our name, no prompt, no hooks, and no redirect, which could get the token."""
    settings = [("core.hooksPath", os.devnull), ("http.followRedirects", "false"), ("gc.auto", "0")]
    env = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": _AUTHOR[0], f"GIT_{role}_EMAIL": _AUTHOR[1]}
    if token:
        path = os.path.join(folder, "askpass.sh")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(_ASKPASS)
        os.chmod(path, 0o700)
        env |= {"GIT_ASKPASS": path, _TOKEN: token}
        settings.append(("credential.helper", ""))  # none stores it
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


@contextmanager
def _remote(url: str) -> Iterator[None]:
    """Raise RemoteError for a failure of git."""
    try:
        yield
    except git.exc.GitCommandNotFound:
        raise RemoteError("git was not found", where="git", hint="install it") from None
    except git.exc.GitCommandError as error:
        said = str(error.stderr or "").strip().removeprefix("stderr:").strip(" '\n")
        last = [line for line in said.splitlines() if line.strip()][-3:]
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


def told(delivered: Delivery) -> str:
    """The result of a delivery in words."""
    what = (
        f"pushed {delivered.commit[:12]} to {delivered.branch}"
        if delivered.commit
        else f"nothing to push: {delivered.branch} has these pages"
    )
    if delivered.kept:
        number = count(len(delivered.kept), "page")
        what += f"; {number} that people have edited left as they are"
    return printable(what)
