"""doc-archive, through the real command: stubs, payloads, policy, what a change touches."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from histories import SYMLINK, GitRepo
from histories_archive import (
    BRANCH,
    BROKEN,
    MARKER,
    MENTIONS,
    POLICY_PATH,
    REPO_URL,
    archive_stubs,
    document,
    policy,
    stub,
)
from histories_events import actions_environment, pull_request, push, write_event
from strangers import closed_copy, holds_for_nobody, needs_root

from rlm_ci import changes
from rlm_ci.checks import doc_archive
from rlm_ci.errors import ConfigError
from rlm_ci.runs.store import Store
from rlm_ci.settings import Settings
from rlm_ci.table import CORE

if TYPE_CHECKING:
    from conftest import Cli, Ended
    from histories import Change, Name

    from rlm_ci.git import Repository

CHECK = ("check", "doc-archive")
PATH = "docs/PRD-1.md"


def archive(
    repo: GitRepo,
    stubs: dict[str, str],
    payloads: dict[Name, Change] | None = None,
    *,
    policy_text: str | None = None,
) -> GitRepo:
    """``stubs`` committed on main over a policy, ``payloads`` (default: all) on the archive."""
    full: dict[Name, Change] = {path: document(path) for path in stubs}
    with repo.bulk() as bulk:
        bulk.commit("main", {POLICY_PATH: policy_text or policy()}, "Policy", ())
        bulk.commit(BRANCH, full if payloads is None else payloads, "Payloads", ())
        bulk.commit("main", {**full}, "Documents")
        bulk.commit("main", {**stubs}, "Stubs")
    repo.run("reset", "-q", "--hard")
    return repo


def findings(ended: Ended) -> dict[str, str]:
    """Path to rule of the findings that count, of a run with ``--format json``."""
    return {
        one["evidence"][0]["path"]: one["rule"].removeprefix("doc-archive/")
        for one in ended.json()["findings"]
        if one["severity"] != "info"
    }


def metrics(ended: Ended) -> dict[str, Any]:
    return next(p["metrics"] for p in ended.json()["parts"] if p["id"] == "doc-archive")


def check(cli: Cli, repo: GitRepo, *args: str, **env: str) -> Ended:
    return cli(*CHECK, "--format", "json", *args, cwd=repo, env=env)


# -- all of a tree ------------------------------------------------------------------------------


@pytest.mark.full
def test_exactly_the_dangling_ones_of_thousands_are_named(cli: Cli, repo: GitRepo) -> None:
    made = archive_stubs(repo, 3127, 227, checkout=True)
    ended = check(cli, repo)
    assert ended.code == 1
    assert findings(ended) == dict.fromkeys(made.dangling, "dangling")
    assert metrics(ended) == {"stubs": 3127, "valid": 2900, "dangling": 227, "malformed": 0}
    text = cli(*CHECK, cwd=repo)
    named = {line.split("  ")[0].rpartition(":")[0] for line in text.stdout.splitlines()
             if "doc-archive/dangling" in line}  # fmt: skip
    assert (text.code, frozenset(named)) == (1, made.dangling)
    assert "3,127 stubs, 227 broken" in text.stdout
    # The same at a commit, where the change made all of them.
    committed = check(cli, repo, "--base", made.base)
    assert findings(committed) == dict.fromkeys(made.dangling, "dangling")


def test_every_way_to_be_broken_is_told(cli: Cli, repo: GitRepo) -> None:
    made = archive_stubs(repo, 12, 0, broken=BROKEN, odd_paths=True, checkout=True)
    ended = check(cli, repo)
    found = findings(ended)
    assert set(found) == set(made.broken)
    for path, kind in made.broken.items():
        assert f"doc-archive/{found[path]}" == BROKEN[kind].rules[0] or (
            f"doc-archive/{found[path]}" in BROKEN[kind].rules
        ), kind
    for finding in ended.json()["findings"]:
        (place,) = finding["evidence"]
        line = repo.read(place["path"]).decode().split("\n")[place["line_start"] - 1]
        assert place["quote"] == line
        assert place["blob"] == repo.sha(f"HEAD:{place['path']}")
        assert finding["hint"]


def test_documents_that_mention_the_marker_are_none(cli: Cli, repo: GitRepo) -> None:
    repo.write_all(MENTIONS).commit()
    ended = check(cli, repo)
    assert (ended.code, metrics(ended)["stubs"]) == (0, 0)


def test_a_tree_without_stubs_is_clean_whatever_the_archive(cli: Cli, repo: GitRepo) -> None:
    repo.write("README.md", "# Shop\n").commit()
    ended = cli(*CHECK, cwd=repo)
    assert (ended.code, "no stubs" in ended.stdout, ended.stderr) == (0, True, "")


def test_other_files_with_the_marker_are_not_looked_at(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH), "notes.txt": f"# x\n{MARKER}\n", "x.MD": stub("x.MD")})
    assert metrics(check(cli, repo))["stubs"] == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize("others", [0, 3, 8, 40])
@pytest.mark.parametrize("folder", ["a", "z"])
def test_stubs_among_other_documents_are_judged_alike(
    cli: Cli, repo: GitRepo, others: int, folder: str
) -> None:
    # Which texts of the archive are read depends on how many stubs are read before its list.
    kinds = {
        "missing": "dangling",
        "own-stub": "payload-is-stub",
        "good": None,
        "torn": "malformed",
    }
    paths = {f"{folder}/{kind}.md": rule for kind, rule in kinds.items()}
    stubs = {path: stub(path) for path in paths}
    stubs[f"{folder}/torn.md"] += "And more.\n"
    plain = {f"m/{n}.md": f"# Document {n}\n" for n in range(others)}
    payloads: dict[Name, Change] = {f"{folder}/good.md": document("Good"), **dict(plain.items())}
    payloads[f"{folder}/own-stub.md"] = stub(f"{folder}/own-stub.md")
    archive(repo, stubs, payloads)
    repo.write_all(plain).commit()
    expected = {path: rule for path, rule in paths.items() if rule}
    for args in ((), ("--commit", "HEAD", "--all")):
        ended = check(cli, repo, *args)
        assert metrics(ended) == {"stubs": 4, "valid": 1, "dangling": 1, "malformed": 1}
        assert findings(ended) == expected


def test_links_are_no_stubs_and_filling_hides_none(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)})
    repo.symlink("docs/link.md", "PRD-1.md")
    repo.write("docs/filled.md", stub("docs/filled.md") + " " * 200_000)
    repo.write("docs/huge.md", f"# x\n{MARKER}\n" + "x" * 2_000_000)
    repo.commit()
    for args in ((), ("--commit", "HEAD")):
        ended = check(cli, repo, *args)
        assert metrics(ended)["stubs"] == 2
        assert findings(ended) == {"docs/filled.md": "dangling"}


def test_what_a_reader_takes_for_a_stub_is_one(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)})
    repo.write("docs/returns.md", stub("docs/returns.md").replace("\n", "\r"))
    repo.write("docs/text.md", stub("docs/text.md").replace(MARKER, f"{MARKER} see below"))
    repo.write("docs/comment.md", "# A\n<!--\n```\n-->\n" + stub("docs/comment.md"))
    repo.commit()
    assert findings(check(cli, repo)) == {
        "docs/returns.md": "malformed",
        "docs/text.md": "malformed",
        "docs/comment.md": "dangling",
    }


# -- the archive --------------------------------------------------------------------------------


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
    assert errors == [f"error: the archive branch '{BRANCH}' is not in this clone ({POLICY_PATH})"]
    if how == "--fetch":
        assert check(cli, clone, "--fetch").code == 0
    else:
        hint = ended.stderr.partition("hint: ")[2].partition(" (or")[0]
        subprocess.run(shlex.split(hint), cwd=clone, check=True, capture_output=True)
    assert check(cli, clone).code == 0


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


# -- the policy ---------------------------------------------------------------------------------


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
    (_, right, _) = shown.partition("let it lead to ")[2].split("`", 2)
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


# -- what a change touches ----------------------------------------------------------------------


def test_only_touched_stubs_fail(cli: Cli, repo: GitRepo) -> None:
    old, new = "docs/old.md", "docs/new.md"
    archive(repo, {old: stub(old), PATH: stub(PATH)}, {PATH: "# Full\n"})
    base = repo.sha()
    clean = repo.write("src.py", "x\n").commit()
    ended = check(cli, repo, "--base", base)
    assert (ended.code, findings(ended)) == (0, {})
    assert metrics(ended) == {"stubs": 2, "valid": 1, "dangling": 1, "malformed": 0}
    (info,) = ended.json()["findings"]
    assert (info["severity"], info["evidence"][0]["path"]) == ("info", old)
    assert (
        "2 stubs, 0 touched, 0 of them broken; 1 older stub broken"
        in (ended.json()["parts"][0]["summary"])
    )
    assert findings(check(cli, repo, "--base", base, "--all")) == {old: "dangling"}
    repo.write(new, stub(new)).append(PATH, "\n").commit()
    ended = check(cli, repo, "--base", clean)
    assert (ended.code, findings(ended)) == (1, {new: "dangling"})
    assert findings(check(cli, repo, "--commit", "HEAD")) == {new: "dangling"}


def test_without_the_archive_untouched_stubs_do_not_stop_a_change(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)}).run("branch", "-q", "-D", BRANCH)
    base = repo.sha()
    repo.write("src.py", "x\n").commit()
    ended = check(cli, repo, "--base", base)
    assert (ended.code, ended.json()["verdict"]) == (0, "clean")
    assert metrics(ended)["valid"] == 0
    assert "the others were not judged" in ended.json()["parts"][0]["summary"]


@pytest.mark.parametrize("act", ["rename", "chmod", "delete", "type"])
def test_a_stub_that_is_moved_or_changed_in_kind_is_touched(
    cli: Cli, repo: GitRepo, act: str
) -> None:
    archive(repo, {PATH: stub(PATH)}, {"x.md": "x\n"})
    base, moved = repo.sha(), "docs/moved.md"
    if act == "rename":
        repo.move(PATH, moved)
    elif act == "chmod":
        repo.chmod(PATH, 0o755)
    elif act == "delete":
        repo.remove(PATH)
    else:
        repo.symlink(PATH, "elsewhere")
    repo.commit()
    found = {"rename": {moved: "path-mismatch"}, "chmod": {PATH: "dangling"}}.get(act, {})
    assert findings(check(cli, repo, "--base", base)) == found


def test_open_items_of_the_last_full_text_are_told_and_do_not_fail(cli: Cli, repo: GitRepo) -> None:
    made = archive_stubs(repo, 10, 0, open_items=2)
    ended = check(cli, repo, "--base", made.base)
    assert (ended.code, findings(ended)) == (0, dict.fromkeys(made.open_items, "open-items"))
    for finding in ended.json()["findings"]:
        (place,) = finding["evidence"]
        assert (finding["severity"], place["side"]) == ("medium", "old")
        assert place["quote"] == "- [ ] Tell the warehouse"
        assert place["blob"] == repo.sha(f"{made.base}:{place['path']}")
    assert check(cli, repo, "--base", made.base, "--fail-level", "medium").code == 1
    assert findings(check(cli, repo, "--commit", "HEAD")) == findings(ended)


def test_a_stub_that_was_one_before_has_no_open_items(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH, heading="# Do this:\n- [ ] this")})
    base = repo.sha()
    repo.write(PATH, stub(PATH)).commit()
    assert check(cli, repo, "--base", base).json()["findings"] == []


def test_what_is_staged_is_judged_as_it_is_staged(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: document("x")}, {"docs/other.md": "# x\n"})
    repo.write(PATH, stub(PATH)).stage()
    repo.write(PATH, "# Full again\n").write("docs/later.md", stub("docs/later.md"))
    for args in (("--staged",), ("--hook", "pre-commit")):
        ended = check(cli, repo, *args)
        assert (ended.code, findings(ended)) == (1, {PATH: "dangling"})
    # The work tree has another stub, which git does not know yet.
    assert findings(check(cli, repo)) == {"docs/later.md": "dangling"}


def test_before_the_first_commit(cli: Cli, repo: GitRepo) -> None:
    repo.write(PATH, stub(PATH)).stage()
    for args in ((), ("--staged",)):
        assert check(cli, repo, *args).code == 5  # there is no archive
    repo.write(PATH, "# x\n").stage()
    assert check(cli, repo, "--staged").code == 0


# -- paths --------------------------------------------------------------------------------------


def test_paths_limit_what_is_judged(cli: Cli, repo: GitRepo) -> None:
    names = ("docs/a.md", "docs/sub/b.md", "docs2/c.md")
    archive(repo, {name: stub(name) for name in names}, {"x.md": "x\n"})
    base = repo.sha()

    def found(*paths: str, cwd: str = ".", change: tuple[str, ...] = ()) -> set[str]:
        args = (*CHECK, "--format", "json", *change, "--", *paths)
        return set(findings(cli(*args, cwd=repo.path / cwd)))

    assert found("docs/a.md") == {"docs/a.md"}
    assert found("docs") == found("docs/") == found("./docs") == {"docs/a.md", "docs/sub/b.md"}
    assert found("a.md", "sub/b.md", cwd="docs") == {"docs/a.md", "docs/sub/b.md"}
    assert found("../docs2/c.md", cwd="docs") == {"docs2/c.md"}
    assert found(str(repo.path / "docs2"), cwd="docs") == {"docs2/c.md"}
    assert found(".", cwd="docs/sub") == {"docs/sub/b.md"}
    assert found("..", cwd="docs") == set(names)
    assert found("docs2", change=("--staged", "--all")) == {"docs2/c.md"}
    assert found("docs2", change=("--commit", base, "--all")) == {"docs2/c.md"}
    # As git does it: from the folder that -C names.
    ended = cli("-C", str(repo.path / "docs"), *CHECK, "--format", "json", "--", "a.md")
    assert set(findings(ended)) == {"docs/a.md"}


def test_a_path_that_is_not_there_is_not_clean(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)})
    for paths, said in (
        (["docs/nope.md"], "there is no file 'docs/nope.md'"),
        (["../x.md"], "lies outside of the repository"),
        (["/etc/passwd"], "lies outside of the repository"),
        (["a\x1b\n.md"], r"there is no file 'a\x1b\n.md'"),
    ):
        ended = check(cli, repo, "--", *paths)
        assert (ended.code, said in ended.stderr) == (5, True), ended.stderr
    os.unlink(repo.path / PATH)
    assert check(cli, repo, "--", PATH).code == 0  # deleted, as a hook may name it


def test_an_untracked_file_that_is_named_is_judged(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)})
    repo.write("docs/new.md", stub("docs/new.md"))
    for paths in ((), ("--", "docs"), ("--", "docs/new.md")):
        assert findings(check(cli, repo, *paths)) == {"docs/new.md": "dangling"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_document_that_nobody_may_read_is_not_clean(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)}).chmod(PATH, 0)
    assert check(cli, repo).code == 5


@needs_root
@pytest.mark.parametrize("name", ["docs", "new"])
def test_a_folder_that_cannot_be_opened_is_not_clean(repo: GitRepo, name: str) -> None:
    """Be it one that git has documents in, or one that it does not know."""
    archive(repo, {PATH: stub(PATH)}).write("new/a.md", stub("new/a.md"))
    options = Settings((*CORE, *doc_archive.OPTIONS), {}, {})

    def is_refused(here: Repository) -> bool:
        try:
            doc_archive.run(changes.from_local(here, "worktree"), options, Store("", ""))
        except ConfigError as error:
            return name in (error.where or "")
        return False

    with closed_copy(repo, name) as copy:
        assert holds_for_nobody(copy, is_refused)


# -- the archive branch itself ------------------------------------------------------------------


@pytest.fixture
def orphaning(repo: GitRepo, tmp_path: Path) -> tuple[GitRepo, str, str]:
    """A clone in which the archive branch lost a.md, overwrote b.md and rewrote c.md."""
    names = ("docs/a.md", "docs/b.md", "docs/c.md", "docs/d.md")
    archive(repo, {**{name: stub(name) for name in names}, "docs/c.md": stub("docs/c.md")[2:]})
    repo.branch("main")
    clone = repo.clone(tmp_path / "clone")
    base = clone.checkout(BRANCH).sha()
    clone.remove("docs/a.md").write("docs/b.md", stub("docs/b.md")).write("docs/c.md", "# New\n")
    return clone, base, clone.commit("Tidy up")


@pytest.mark.parametrize("kind", ["pull_request", "push"])
def test_a_change_of_the_archive_that_orphans_stubs(
    cli: Cli, orphaning: tuple[GitRepo, str, str], tmp_path: Path, kind: str
) -> None:
    clone, base, head = orphaning
    payload = (
        push(base, head, ref=f"refs/heads/{BRANCH}")
        if kind == "push"
        else pull_request(base, head, base_ref=BRANCH)
    )
    env = actions_environment(kind, write_event(tmp_path, payload))
    ended = check(cli, clone, **env)
    # That c.md is malformed on main is not this change's doing.
    assert findings(ended) == {"docs/a.md": "dangling", "docs/b.md": "payload-is-stub"}
    assert ended.code == 1
    assert (
        "the change of doc-archives leaves 2 stubs without a text"
        in (ended.json()["parts"][0]["summary"])
    )
    report = tmp_path / "report.json"
    report.write_text(ended.stdout)
    verified = cli("verify", str(report), cwd=clone)
    assert verified.code == 0, verified.stdout


def test_a_harmless_change_of_the_archive(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    archive(repo, {PATH: stub(PATH)})
    clone = repo.clone(tmp_path / "clone")
    base = clone.checkout(BRANCH).sha()
    head = clone.write("docs/more.md", "# More\n").append(PATH, "more\n").commit()
    env = actions_environment("push", write_event(
        tmp_path, push(base, head, ref=f"refs/heads/{BRANCH}")
    ))  # fmt: skip
    assert check(cli, clone, **env).code == 0


# -- hostile names and texts --------------------------------------------------------------------


def test_hostile_names_and_texts_are_shown_and_forge_nothing(cli: Cli, repo: GitRepo) -> None:
    names: list[bytes] = [
        b"docs/a\nb.md", b"docs/\xff.md", b"docs/::error::x.md", b"docs/##[error]x.md",
        b"docs/\x1b[31m.md", "docs/\u202e.md".encode(), b"-x.md", b'docs/"q" `$(id)`.md',
    ]  # fmt: skip
    texts = ("::error::pwn\r##[error]x", "\x1b]0;x\x07", "<script>@everyone", "\udcff")
    stubs: dict[Name, Change] = {
        name: stub("x", heading="# " + texts[n % 4], branch="::x##[error]\x1b")
        for n, name in enumerate(names)
    }
    with repo.bulk() as bulk:
        bulk.commit("main", {POLICY_PATH: policy()}, "Policy", ())
        bulk.commit("main", stubs, "Stubs")
        bulk.commit(BRANCH, {"x.md": "x"}, "Archive", ())
    repo.run("reset", "-q", "--hard")
    ended = check(cli, repo, "--commit", "HEAD")
    assert ended.code == 1
    assert len(ended.json()["findings"]) == len(names)
    for form in ("text", "github", "markdown", "sarif", "json", "html"):
        ended = cli(*CHECK, "--format", form, cwd=repo)
        assert ended.code == 1, form
        ended.stdout.encode("utf-8")
        assert "\x1b" not in ended.stdout
        if form not in ("markdown", "html"):  # they are not made for a log
            assert "##[" not in ended.stdout
        if form == "text":
            assert all(line.isprintable() for line in ended.stdout.splitlines())
            assert not any(line.lstrip().startswith("::") for line in ended.stdout.splitlines())
        if form == "github":
            assert all(line.startswith(("::error file=", "::error title=", "::notice title="))
                       for line in ended.stdout.splitlines())  # fmt: skip


def test_a_line_of_a_stub_may_suppress_its_finding(cli: Cli, repo: GitRepo) -> None:
    text = stub(PATH).replace(
        f"{PATH}\n\n", f"{PATH} <!-- rlm-ci: ignore[doc-archive/dangling] lost in 2024 -->\n\n"
    )
    archive(repo, {PATH: text}, {"x.md": "x\n"})
    ended = check(cli, repo)
    (finding,) = ended.json()["findings"]
    assert (ended.code, finding["rule"], finding["suppression"]) == (
        0, "doc-archive/dangling", "lost in 2024",
    )  # fmt: skip


def test_outside_of_a_repository_nothing_is_clean(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text(stub("x.md"))
    for args in ((), ("--", "x.md")):
        ended = cli(*CHECK, *args)
        assert ended.code == 5
        assert "not a git repository" in ended.stderr


# -- what a change does -------------------------------------------------------------------------


def test_a_commit_on_the_archive_branch_is_judged_by_what_it_orphans(
    cli: Cli, repo: GitRepo
) -> None:
    archive(repo, {PATH: stub(PATH)})
    repo.checkout(BRANCH).remove(PATH).commit()
    for args in (
        ("--commit", "HEAD"),
        ("--base", "HEAD~1"),
        ("--base", "HEAD~1", "--head", BRANCH),
    ):
        assert findings(check(cli, repo, *args)) == {PATH: "dangling"}, args


def test_a_commit_on_the_local_archive_branch_is_one_before_it_is_pushed(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    archive(repo, {PATH: stub(PATH)})
    clone = repo.clone(tmp_path / "clone").checkout(BRANCH).remove(PATH)
    clone.commit()
    for args in (("--commit", "HEAD"), ("--base", f"origin/{BRANCH}")):
        assert findings(check(cli, clone, *args)) == {PATH: "dangling"}, args


def test_open_items_are_those_of_the_last_full_text(cli: Cli, repo: GitRepo) -> None:
    texts: dict[Any, Any] = {"docs/o.md": "# O\n\nNothing.\n", "docs/p.md": "# P\n\n- [ ] open\n"}
    archive(repo, {}, texts)
    base = repo.write_all(texts).commit()
    repo.checkout("topic", new=True)
    repo.write("docs/o.md", "# O\n\n- [ ] added\n").write(
        "docs/p.md", "# P\n\n- [x] done\n"
    ).commit()
    repo.write("docs/o.md", stub("docs/o.md")).write("docs/p.md", stub("docs/p.md")).commit()
    found = findings(check(cli, repo, "--base", base))
    assert found == {"docs/o.md": "open-items"}
