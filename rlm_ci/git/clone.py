"""A repository that we write to, through GitPython: our own clone, made for one delivery.

Nothing of the user's clone is touched. The clone is bare and has no work tree: what is
delivered goes from memory into objects, and from them into a branch of the remote. It goes
there by a fast-forward or not at all, so that what others have pushed is never lost.
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
    from collections.abc import Iterator, Mapping, Sequence

#: Beside what is delivered: the object id of each file as we left it.
LEDGER = ".rlm-ci-delivered.json"
#: What a page, or a file beside it, may be called.
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
#: What tells git where to work, whatever folder it is started in.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
#: Seconds for everything that one call of git does over the network.
_TIMEOUT = 600
#: How often it is tried when somebody else pushes at the same time.
_TRIES = 3


class Delivery(Value):
    """What became of a delivery: ``commit`` is None where there was nothing to push.

    ``kept`` are files that people have edited since we wrote them: theirs stand. ``differs``
    tells whether the branch has by now anything that its base has not.
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
        """The branch that the remote calls its own; None where it has no commit."""
        try:
            name = self._repo.head.reference.name
        except TypeError:  # detached
            return None
        return name if self.branch(name) else None

    def branch(self, name: str) -> str | None:
        """The commit that a branch of the remote had when it was last fetched."""
        try:
            return str(self._repo.commit(f"refs/heads/{name}").hexsha)
        except (git.exc.BadName, ValueError, git.exc.GitCommandError):
            return None

    def read(self, name: str, folder: str) -> dict[str, bytes]:
        """The files below ``folder`` of a branch, by their path in it; {} where there is none."""
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
        """Have the remote send these at once: a partial clone fetches each by itself."""
        if not self._repo.config_reader().has_option('remote "origin"', "promisor"):
            return
        with tempfile.TemporaryFile() as stream, suppress(git.exc.GitCommandError):
            stream.write("".join(f"{oid}\n" for oid in oids).encode())
            stream.seek(0)
            self._repo.git.fetch(
                "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin",
                "origin", istream=stream, kill_after_timeout=_TIMEOUT,
            )  # fmt: skip

    def deliver(
        self, name: str, files: Mapping[str, bytes], message: str, *, base: str | None = None
    ) -> Delivery:
        """Put ``files`` into the branch ``name``, and nothing where they are there already.

        What we delivered before and is not among them is removed. With ``base``, a branch, it
        is what the result is to be merged into: then ``name`` is a branch of our own, which
        takes up what happened on its base. Raises ConfigError where people have committed to
        such a branch, RemoteError where the remote does not take it.
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
                continue
            return delivered
        raise AssertionError("the last try ends in one way or the other")

    def _commit(
        self, name: str, files: Mapping[str, bytes], message: str, base: str | None
    ) -> Delivery:
        tip = self.branch(name)
        ground = self.branch(base) if base else tip
        if base and tip and ground:
            self._require_ours(name, tip, ground)
            if not self._paths(tip, ground):  # merged: nothing of it stands out any more
                tip = tip if self._is_ancestor(ground, tip) else None
        tree, kept = self._tree(ground, files)
        # The tree of our branch says what it would say to add nothing.
        if (ground and tree == self._tree_of(ground)) or (tip and tree == self._tree_of(tip)):
            differs = bool(tip and ground and tip != ground and tree != self._tree_of(ground))
            return Delivery(name, None, kept, differs=differs)
        known = self.branch(name)
        parents = [one for one in dict.fromkeys((known, ground)) if one]
        if len(parents) == 2 and self._is_ancestor(parents[1], parents[0]):
            parents = parents[:1]
        elif len(parents) == 2 and self._is_ancestor(parents[0], parents[1]):
            parents = parents[1:]
        author = git.Actor(*_AUTHOR)
        made = git.Commit.create_from_tree(
            self._repo,
            self._repo.tree(tree),
            message,
            parent_commits=[self._repo.commit(one) for one in parents],
            head=False,
            author=author,
            committer=author,
        )
        return Delivery(name, str(made.hexsha), kept)

    def _require_ours(self, name: str, tip: str, ground: str) -> None:
        """Raise ConfigError if anybody but us has committed to the branch since its base."""
        mails = str(self._repo.git.log("--format=%ae", f"{ground}..{tip}")).split("\n")
        others = [mail for mail in mails if mail and mail != _AUTHOR[1]]
        if others:
            raise ConfigError(
                f"people have committed to the branch {printable(name)}: it is not overwritten",
                where=printable(self._url),
                hint="merge or close its pull request and delete the branch, then try again",
            )

    def _tree(self, ground: str | None, files: Mapping[str, bytes]) -> tuple[str, tuple[str, ...]]:
        """The tree of ``ground`` with ``files`` in it, and those left as people have made them."""
        folder = os.path.commonpath([os.path.dirname(path) for path in files]) if files else ""
        ledger = f"{folder}/{LEDGER}" if folder else LEDGER
        before = self._ledger(ground, ledger, folder)
        # By object ids: to compare, nothing of a partial clone has to be fetched.
        now = dict(zip(files, self._store(*files.values()), strict=True))
        standing = self._blobs(ground, [*before, *(path for path in now if path not in before)])
        kept, changes = [], []
        for path in sorted({*before, *now}):
            stands, ours = standing.get(path), before.get(path)
            if stands is not None and stands not in (ours, now.get(path)):
                kept.append(path)
            elif path not in files:
                changes.append(f"0 {'0' * 40}\t{path}\0")
            elif stands != now[path]:
                changes.append(f"100644 {now[path]}\t{path}\0")
        # A file that we leave to people stays theirs: what we know of it is what we wrote.
        told = {path: now[path] for path in sorted(now) if path not in kept}
        told |= {path: before[path] for path in kept if path in before}
        text = json.dumps({"version": 1, "files": dict(sorted(told.items()))}, indent=1) + "\n"
        changes.append(f"100644 {self._store(text.encode())[0]}\t{ledger}\0")
        return self._written(ground, changes), tuple(kept)

    def _written(self, ground: str | None, changes: Sequence[str]) -> str:
        index = os.path.join(self._repo.git_dir, "delivery.index")
        with self._repo.git.custom_environment(GIT_INDEX_FILE=index):
            self._repo.git.read_tree(*([ground] if ground else ["--empty"]))
            listed = "".join(changes).encode("utf-8", "surrogateescape")
            with tempfile.TemporaryFile() as stream:
                stream.write(listed)
                stream.seek(0)
                self._repo.git.update_index("-z", "--index-info", istream=stream)
            tree = str(self._repo.git.write_tree())
        self._require_all(tree, [one[:-1].split("\t", 1) for one in changes])
        return tree

    def _require_all(self, tree: str, changes: Sequence[Sequence[str]]) -> None:
        """Raise ConfigError unless all is there: git leaves out names that it finds dangerous."""
        made = set(str(self._repo.git.ls_tree("-r", "-z", "--name-only", tree)).split("\0"))
        for told, path in changes:
            if not told.startswith("0 ") and path not in made:
                raise ConfigError(
                    "git does not accept a file of that name",
                    where=printable(path),
                    hint="deliver to another folder",
                )

    def _ledger(self, ground: str | None, path: str, folder: str) -> dict[str, str]:
        """What we left behind the last time; {} where we never were.

        Whoever may write to the branch may write this: no name in it leads out of ``folder``.
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

    def _blobs(self, ground: str | None, paths: Sequence[str]) -> dict[str, str]:
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
        """The object ids of ``contents``, which are objects from now on."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as listed:
            for number, data in enumerate(contents):
                path = os.path.join(folder, str(number))
                with open(path, "wb") as file:
                    file.write(data)
                listed.write(os.fsencode(path) + b"\n")
            listed.seek(0)
            found = self._repo.git.hash_object(
                "-w", "--no-filters", "--stdin-paths", istream=listed
            )
        return str(found).split()

    def _tree_of(self, commit: str) -> str:
        return str(self._repo.commit(commit).tree.hexsha)

    def _paths(self, one: str, other: str) -> bool:
        return self._tree_of(one) != self._tree_of(other)

    def _is_ancestor(self, one: str, other: str) -> bool:
        return self._repo.is_ancestor(self._repo.commit(one), self._repo.commit(other))

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


@contextmanager
def cloned(
    url: str, environ: Mapping[str, str], *, token: str | None, ours: str
) -> Iterator[Clone]:
    """A clone of ``url``; ``token`` is told to the server ``ours`` alone, and by no argument.

    Without a token git asks whomever the user's own configuration names. Raises ConfigError
    for an address that cannot be cloned from, RemoteError where it stays away.
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
    """Raise ConfigError for anything that is neither a server nor a folder."""
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
    """Raise ConfigError where git is told to work elsewhere, as in a hook: on the user's clone."""
    for name in _ELSEWHERE:
        if name in environ:
            raise ConfigError(
                f"{name} leads git to another repository than the clone of a delivery",
                where=name,
                hint="push outside of a git hook, or unset it first",
            )


def _environment(folder: str, token: str | None) -> dict[str, str]:
    """For git alone: no prompt, no hooks, no redirect that would carry the token away."""
    settings = [("core.hooksPath", os.devnull), ("http.followRedirects", "false"), ("gc.auto", "0")]
    env = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if token:
        path = os.path.join(folder, "askpass.sh")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(_ASKPASS)
        os.chmod(path, 0o700)
        env |= {"GIT_ASKPASS": path, _TOKEN: token}
        settings.append(("credential.helper", ""))  # nobody keeps it
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


@contextmanager
def _remote(url: str) -> Iterator[None]:
    """What git says of the network, as an error of ours."""
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
    """What became of a delivery, in words."""
    what = (
        f"pushed {delivered.commit[:12]} to {delivered.branch}"
        if delivered.commit
        else f"nothing to push: {delivered.branch} has these pages"
    )
    if delivered.kept:
        number = count(len(delivered.kept), "page")
        what += f"; {number} that people have edited left as they are"
    return printable(what)
