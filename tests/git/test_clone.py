"""Deliveries into real remotes on disk: by a fast-forward, and never over somebody's work."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.git import remote_access
from rlm_ci.git.clone import LEDGER, Delivery, cloned
from testing.git_http_server import serving
from testing.repositories.git_repo import GitRepo

OURS = "rlm-ci/wiki"
PAGES = {"docs/wiki/index.md": b"# Shop\n", "docs/wiki/modules/a.md": b"# a\n"}


class Upstream:
    """A bare remote with one commit, and somebody else's clone of it."""

    def __init__(self, folder: Path) -> None:
        self.bare = GitRepo(folder / "up.git", bare=True)
        self.theirs = GitRepo(folder / "theirs")
        self.theirs.write("a.py", "one\n").commit()
        self.theirs.remote(self.bare.path).run("push", "-q", "origin", "main")
        self.url = f"file://{self.bare.path}"

    def deliver(
        self, files: dict[str, bytes], name: str = OURS, base: str | None = "main"
    ) -> Delivery:
        with cloned(self.url, os.environ, token=None, own_folder="https://github.com") as clone:
            return clone.deliver(name, files, "Refresh", base=base)

    def pull(self, branch: str) -> None:
        self.theirs.run("fetch", "-q", "origin")
        self.theirs.run("merge", "-q", f"origin/{branch}")

    def push(self, branch: str = "main") -> None:
        self.theirs.run("push", "-q", "origin", f"HEAD:{branch}")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


def test_a_first_delivery_a_second_one_and_none(upstream: Upstream) -> None:
    first = upstream.deliver(PAGES)
    assert first.commit == upstream.bare.sha(OURS)
    assert upstream.bare.text("show", f"{OURS}:docs/wiki/index.md") == "# Shop"
    assert upstream.bare.text("show", f"{OURS}:a.py") == "one"
    again = upstream.deliver(PAGES)
    assert (again.commit, again.differs) == (None, True)
    assert "nothing to push" in again.summary()
    assert upstream.bare.sha(OURS) == first.commit
    changed = upstream.deliver({"docs/wiki/index.md": b"# Shop, again\n"})
    assert upstream.bare.text("rev-parse", f"{changed.commit}^") == first.commit
    names = upstream.bare.text("ls-tree", "-r", "--name-only", OURS).split()
    assert names == ["a.py", f"docs/wiki/{LEDGER}", "docs/wiki/index.md"]  # no page is left over


def test_what_was_merged_is_not_delivered_again(upstream: Upstream) -> None:
    upstream.deliver(PAGES)
    upstream.pull(OURS)
    upstream.push()
    done = upstream.deliver(PAGES)
    assert (done.commit, done.differs) == (None, False)


def test_our_branch_takes_up_its_base_after_a_squash(upstream: Upstream) -> None:
    upstream.deliver(PAGES)
    upstream.theirs.run("fetch", "-q", "origin")
    upstream.theirs.run("merge", "-q", "--squash", f"origin/{OURS}")
    upstream.theirs.write("b.py", "two\n").commit("Squashed")
    upstream.push()
    done = upstream.deliver({**PAGES, "docs/wiki/index.md": b"# New\n"})
    parents = upstream.bare.text("show", "-s", "--format=%P", str(done.commit)).split()
    assert len(parents) == 2  # the branch is not rewritten
    assert upstream.bare.text("diff", "--name-only", f"main...{OURS}").split() == [
        f"docs/wiki/{LEDGER}", "docs/wiki/index.md",
    ]  # fmt: skip


def test_a_page_that_somebody_edited_is_left_alone(upstream: Upstream) -> None:
    upstream.deliver(PAGES)
    upstream.pull(OURS)
    upstream.theirs.write("docs/wiki/index.md", "# By hand\n").commit("By hand")
    upstream.push()
    done = upstream.deliver({"docs/wiki/index.md": b"# x\n", "docs/wiki/modules/a.md": b"# b\n"})
    assert done.edited_files == ("docs/wiki/index.md",)
    assert upstream.bare.text("show", f"{OURS}:docs/wiki/index.md") == "# By hand"
    assert upstream.bare.text("show", f"{OURS}:docs/wiki/modules/a.md") == "# b"
    assert "1 page that people have edited" in done.summary()


@pytest.mark.parametrize(
    "name", ["a.py", "docs/wiki/../../a.py", "docs/wiki/x\0100644 1\ty.md", "docs/wiki/.x.md"]
)
def test_what_a_branch_says_of_us_leads_nowhere_else(upstream: Upstream, name: str) -> None:
    oid = upstream.theirs.text("rev-parse", "HEAD:a.py")
    record = json.dumps({"version": 1, "files": {name: oid}})
    upstream.theirs.write(f"docs/wiki/{LEDGER}", record).commit()
    upstream.push()
    with pytest.raises(DamagedError, match="does not say what was delivered last"):
        upstream.deliver(PAGES)


def test_somebodys_commit_on_our_branch_is_not_overwritten(upstream: Upstream) -> None:
    upstream.deliver(PAGES)
    upstream.pull(OURS)
    upstream.theirs.write("docs/wiki/index.md", "# By hand\n").commit("By hand")
    upstream.push(OURS)
    before = upstream.bare.sha(OURS)
    with pytest.raises(ConfigError, match="people have committed to the branch"):
        upstream.deliver({"docs/wiki/index.md": b"# x\n"})
    assert upstream.bare.sha(OURS) == before


def test_a_branch_of_its_own_needs_no_base(upstream: Upstream) -> None:
    first = upstream.deliver({"index.md": b"# Shop\n"}, "pages", None)
    assert upstream.bare.text("rev-list", "--count", "pages") == "1"
    assert upstream.deliver({"index.md": b"# Shop\n"}, "pages", None).commit is None
    upstream.deliver({"index.md": b"# Two\n"}, "pages", None)
    assert upstream.bare.text("rev-parse", "pages^") == first.commit
    with cloned(upstream.url, os.environ, token=None, own_folder="https://x") as clone:
        assert clone.read("pages", "")["index.md"] == b"# Two\n"
        assert clone.read("main", "docs/wiki") == {}


def test_who_is_quicker_wins_and_we_follow(upstream: Upstream) -> None:
    with cloned(upstream.url, os.environ, token=None, own_folder="https://x") as clone:
        upstream.deliver({"other.md": b"theirs\n"}, "pages", None)
        done = clone.deliver("pages", {"index.md": b"ours\n"}, "Refresh")
    assert upstream.bare.text("rev-list", "--count", "pages") == "2"
    assert done.commit == upstream.bare.sha("pages")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ext::sh -c id", "not an address to push to"),
        ("--upload-pack=id", "not an address to push to"),
        ("https://user:secret@github.com/a/b", "has credentials"),
        ("relative/path", "not an address to push to"),
    ],
)
def test_addresses_that_are_none(url: str, said: str) -> None:
    with (
        pytest.raises(ConfigError, match=said) as caught,
        cloned(url, os.environ, token=None, own_folder="https://github.com"),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_a_remote_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(RemoteError, match="the remote refuses"),
        cloned(
            f"file://{tmp_path}/none", os.environ, token="t0ken", own_folder="https://github.com"
        ),
    ):
        pass


def test_git_is_told_the_token_only_for_our_own_server(tmp_path: Path) -> None:
    env = remote_access.environment_of(str(tmp_path), "t0ken")
    for question, said in (("Username for 'https://x': ", "x-access-token"), ("Password", "t0ken")):
        ended = subprocess.run(
            [env["GIT_ASKPASS"], question], env=env, capture_output=True, text=True, check=True
        )
        assert ended.stdout == f"{said}\n"
    assert "t0ken" not in "".join(path.read_text() for path in tmp_path.iterdir())
    assert remote_access.is_at("https://github.com/a/b", "https://github.com")
    assert not remote_access.is_at("https://github.com.evil.example/a/b", "https://github.com")
    assert not remote_access.is_at("https://evil.example/a/b", "https://github.com/")


def test_the_token_is_in_no_argument_and_no_file(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A git in front of git writes down what it is called with, and with which variables."""
    log, real = tmp_path / "log", subprocess.check_output(["which", "git"], text=True).strip()
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with cloned(upstream.url, os.environ, token="t0ken", own_folder="file://") as clone:
        clone.deliver("pages", {"index.md": b"# Shop\n"}, "Refresh")
        config = clone._repo.git.config("--list")
    assert "push" in log.read_text()
    assert "t0ken" not in log.read_text() + str(config)


TOKEN = "ghs_0123456789abcdefghijABCDEFGHIJ012345"


@pytest.mark.full
def test_over_http_as_a_server_of_git_has_it(upstream: Upstream, tmp_path: Path) -> None:
    for key in ("http.receivepack", "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        upstream.bare.run("config", key, "true")
    with serving(tmp_path, TOKEN) as server:
        url = f"{server.url}/up.git"
        with cloned(url, os.environ, token=TOKEN, own_folder=server.url) as clone:
            told = Path(clone._repo.git_dir, "config").read_text()
            made = clone.deliver(OURS, PAGES, "Refresh", base="main")
            assert TOKEN not in told + Path(clone._repo.git_dir, "config").read_text()
        with cloned(url, os.environ, token=TOKEN, own_folder=server.url) as clone:
            assert clone.read(OURS, "docs/wiki")["index.md"] == b"# Shop\n"
        assert made.commit == upstream.bare.sha(OURS)
        assert ("POST", "/up.git/git-receive-pack", 200) in server.requests
        assert server.leaks == []
        # The right server, and the wrong word; then another server, which is told nothing.
        for token, ours in (("another", server.url), (TOKEN, "https://github.com")):
            with pytest.raises(RemoteError) as caught:
                cloned(url, os.environ, token=token, own_folder=ours).__enter__()
            assert TOKEN not in str(caught.value)
        assert server.requests[-1][2] == 401


@pytest.mark.full
def test_a_redirect_takes_no_token_along(tmp_path: Path) -> None:
    with serving(tmp_path, TOKEN) as theirs, serving(tmp_path, TOKEN) as server:
        server.redirect = theirs.url
        with pytest.raises(RemoteError):
            cloned(
                f"{server.url}/up.git", os.environ, token=TOKEN, own_folder=server.url
            ).__enter__()
        assert theirs.requests == []


def test_the_variables_of_a_hook_lead_nowhere(upstream: Upstream) -> None:
    """In a hook git would work on the user's own clone."""
    environ = {**os.environ, "GIT_DIR": str(upstream.theirs.path / ".git")}
    way = cloned(upstream.url, environ, token=None, own_folder="https://x")
    with pytest.raises(ConfigError, match="GIT_DIR leads git to another repository"), way:
        pass
