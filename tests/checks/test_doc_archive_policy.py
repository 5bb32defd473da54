"""doc-archive: where the archive is, what it must hold, and what the policy says of both."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.archive_stage import CHECK, PATH, archive, check, findings, metrics
from testing.repositories.archives import (
    BRANCH,
    MARKER,
    POLICY_PATH,
    REPO_URL,
    archive_stubs,
    policy,
    stub,
)
from testing.repositories.git_repo import SYMLINK, GitRepo

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import Change, Name


def test_the_remote_branch_wins_over_the_local_one(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    archive(repo, {PATH: stub(PATH)})
    clone = repo.clone(tmp_path / "clone")
    assert check(cli, clone).code == 0  # refs/remotes only
    clone.branch(BRANCH, "main")  # here the path holds the stub itself
    assert check(cli, clone).code == 0
    repo.checkout(BRANCH).remove(PATH).commit()
    clone.branch(BRANCH, f"origin/{BRANCH}").fetch()
    assert findings(check(cli, clone)) == {PATH: "dangling"}
    clone.run("update-ref", "-d", f"refs/remotes/origin/{BRANCH}")
    assert check(cli, clone).code == 0  # the local branch is all there is


@pytest.mark.parametrize("how", ["the printed command", "--fetch"])
def test_an_archive_that_is_not_there_is_not_clean(
    cli: Cli, repo: GitRepo, tmp_path: Path, how: str
) -> None:
    archive(repo, {PATH: stub(PATH), "docs/b.md": stub("docs/b.md")})
    clone = repo.clone(tmp_path / "clone", "--single-branch", depth=1)
    clone.run("config", "remote.origin.fetch", "+refs/heads/main:refs/remotes/origin/main")
    clone.run("update-ref", "-d", f"refs/remotes/origin/{BRANCH}")
    ended = check(cli, clone)
    assert (ended.code, ended.json()["verdict"], findings(ended)) == (5, "not_run", {})
    assert metrics(ended) == {"stubs": 2, "valid": 0, "dangling": 0, "malformed": 0}
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    where = f"the default; {POLICY_PATH} can name another"
    assert errors == [f"error: the archive branch '{BRANCH}' is not in this clone ({where})"]
    if how == "--fetch":
        assert check(cli, clone, "--fetch").code == 0
    else:
        hint = ended.stderr.partition("hint: ")[2].partition(" (or")[0]
        subprocess.run(shlex.split(hint), cwd=clone, check=True, capture_output=True)
    assert check(cli, clone).code == 0


def test_a_first_stub_is_not_told_to_fetch_what_nobody_has(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    repo.write(PATH, stub(PATH)).commit()
    assert "\nhint: rlm-ci archive makes it\n" in check(cli, repo).stderr
    repo.clone(tmp_path / "origin.git", "--bare")
    repo.run("remote", "add", "origin", str(tmp_path / "origin.git"))
    hint = "check that origin can be reached; if it has no such branch, rlm-ci archive makes it"
    assert hint in check(cli, repo, "--fetch").stderr


def test_what_shows_without_the_archive_is_told(cli: Cli, repo: GitRepo) -> None:
    made = archive_stubs(repo, 3, 0, broken=["other-branch"], with_archive=False, checkout=True)
    ended = check(cli, repo)
    assert (ended.code, findings(ended)) == (1, dict.fromkeys(made.broken, "wrong-target"))
    assert "is not in this clone" in ended.stderr


def test_a_fetch_that_fails_says_so(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    archive(repo, {PATH: stub(PATH)}).run("branch", "-q", "-D", BRANCH)
    repo.remote(tmp_path / "nowhere")
    ended = check(cli, repo, "--fetch")
    assert (ended.code, ended.json()["verdict"]) == (8, "not_run")
    assert "cannot be fetched" in ended.stderr


def test_a_hostile_branch_name_cannot_be_pasted_into_a_shell(cli: Cli, repo: GitRepo) -> None:
    branch = "a;touch${IFS}canary;$(touch${IFS}canary)"
    archive(repo, {PATH: stub(PATH, branch=branch)}, policy_text=policy(branch=branch))
    repo.config("remote.origin.url", "/nowhere")
    ended = check(cli, repo)
    assert ended.code == 5
    hint = ended.stderr.partition("hint: ")[2].partition(" (or")[0]
    assert shlex.split(hint) == ["git", "fetch", "origin", f"{branch}:refs/remotes/origin/{branch}"]


def test_contents_that_the_clone_does_not_hold_are_not_clean(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    archive(repo, {PATH: stub(PATH)})
    repo.config("uploadpack.allowFilter", "true")
    clone = repo.clone(tmp_path / "clone", "--filter=blob:none", "--no-checkout")
    clone.run("read-tree", "HEAD")
    ended = check(cli, clone, "--commit", "HEAD")
    assert (ended.code, ended.json()["verdict"]) == (5, "not_run")
    # With the stubs there and the payloads not, none of them is dangling.
    clone.run("checkout", "-q", "-f", "main")
    ended = check(cli, clone)
    assert (ended.code, findings(ended)) == (5, {})
    assert "git fetch --refetch" in ended.stderr


@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        (None, "dangling"),
        ("", "dangling"),
        ((SYMLINK, "README.md"), "dangling"),
        (stub(PATH), "payload-is-stub"),
        (f"# x\n{MARKER}\nbroken stub\n", "payload-is-stub"),
        (f"# About `{MARKER}`\n", None),
        ("\n", None),
        (("100755", "# Full\n"), None),
        ("x" * 40_000, None),
    ],
)
def test_what_a_payload_must_be(cli: Cli, repo: GitRepo, payload: Change, rule: str | None) -> None:
    others: dict[Name, Change] = {"other.md": "# other\n"}
    archive(repo, {PATH: stub(PATH)}, others if payload is None else {PATH: payload, **others})
    ended = check(cli, repo)
    assert findings(ended) == ({PATH: rule} if rule else {})
    assert ended.code == (1 if rule else 0)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "null", "", "3", "\xff", '{"a":' * 100_000, '{"archive_branch": 3}',
        '{"archive_branch": null}', '{"archive_branch": ""}', '{"archive_branch": "-x"}',
        '{"archive_branch": "a..b"}', '{"archive_branch": "a b"}', '{"archive_branch": "a/"}',
        '{"archive_branch": "x.lock"}', '{"archive_branch": ".x"}',
        '{"archive_branch": "a\\u0000"}',
        '{"archive_branch": "a:b"}', '{"archive_branch": "a\\nb"}', '{"repo_url": 3}',
        '{"repo_url": ""}', '{"repo_url": "github.com/acme/shop"}', '{"repo_url": "/srv/git"}',
    ],
)  # fmt: skip
def test_an_invalid_policy_is_told(cli: Cli, repo: GitRepo, text: str) -> None:
    repo.write(POLICY_PATH, text).commit()
    for args in ((), ("--commit", "HEAD"), ("--base", "HEAD", "--head", "HEAD")):
        ended = check(cli, repo, *args)
        assert (ended.code, ended.json()["verdict"]) == (5, "not_run"), args
        assert POLICY_PATH in ended.stderr
        assert all(len(line) < 400 for line in ended.stderr.splitlines())


def test_a_policy_that_is_no_file_is_told(cli: Cli, repo: GitRepo) -> None:
    repo.write("x.json", policy()).symlink(POLICY_PATH, "../x.json")
    ended = check(cli, repo)
    assert ended.code == 5
    assert "the archive policy cannot be read: it is a link" in ended.stderr


@pytest.mark.parametrize(
    ("remote", "url", "code"),
    [
        (f"{REPO_URL}.git", REPO_URL, 0),
        ("git@github.com:acme/shop.git", REPO_URL, 0),
        (f"{REPO_URL}.git", "https://github.com/mallory/shop", 1),
        (f"{REPO_URL}.git", "https://evil.example/acme/shop", 1),
        ("/srv/git/shop", "https://git.example/any/body", 0),
        (None, "https://git.example/any/body", 0),
    ],
)
def test_without_a_policy_the_remote_tells(
    cli: Cli, repo: GitRepo, remote: str | None, url: str, code: int
) -> None:
    archive(repo, {PATH: stub(PATH, repo_url=url)})
    repo.remove(POLICY_PATH).commit()
    if remote:
        repo.remote(remote)
    ended = check(cli, repo)
    assert ended.code == code
    assert findings(ended) == ({PATH: "wrong-target"} if code else {})


def test_what_to_write_instead_can_be_copied_from_the_comment(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)}, {PATH: "# Full\n"})
    wrong = stub(PATH, repo_url="https://git.example/any/body")
    repo.write(PATH, wrong).commit()
    shown = cli(*CHECK, "--format", "markdown", cwd=repo).stdout
    (_, right, _) = shown.partition("link to ")[2].split("`", 2)
    (link,) = [word for word in wrong.split() if word.startswith("https://")]
    repo.write(PATH, wrong.replace(link, right)).commit()
    assert check(cli, repo).code == 0


def test_the_policy_may_name_another_branch(cli: Cli, repo: GitRepo) -> None:
    branch = "attic/docs"
    archive(repo, {PATH: stub(PATH, branch=branch)}, policy_text=policy(branch=branch))
    repo.branch(branch, BRANCH)
    assert check(cli, repo).code == 0
    assert findings(check(cli, repo, "--commit", "HEAD")) == {}


def test_a_pull_request_is_judged_by_the_policy_of_its_base(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)})
    base = repo.sha()
    evil = "https://evil.example/acme/shop"
    repo.write(POLICY_PATH, policy(repo_url=evil))
    repo.write("docs/b.md", stub("docs/b.md", repo_url=evil)).commit()
    ended = check(cli, repo, "--base", base)
    assert (ended.code, findings(ended)) == (1, {"docs/b.md": "wrong-target"})
    said = {one["rule"]: one["evidence"][0]["path"] for one in ended.json()["findings"]}
    assert said["policy/edited"] == POLICY_PATH
    local = check(cli, repo)  # in the work tree its own policy holds
    assert findings(local) == {PATH: "wrong-target", "docs/b.md": "dangling"}
