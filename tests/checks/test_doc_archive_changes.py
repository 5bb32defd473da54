"""doc-archive of a change: what it touches, stages, and orphans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testing.archive_stage import PATH, archive, check, findings, metrics
from testing.repositories.archives import BRANCH, archive_stubs, document, stub
from testing.repositories.events import actions_environment, pull_request, push, write_event
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from testing.program import Cli


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
    assert "the others were not checked" in ended.json()["parts"][0]["summary"]


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


def test_a_document_in_conflict_is_not_judged(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)}, {PATH: "# Full\n"})
    repo.checkout("other", new=True).write(PATH, "# Theirs\n").commit()
    repo.checkout("main").write(PATH, "# Ours\n").commit()
    repo.attempt("merge", "--no-ff", "other")
    ended = check(cli, repo, "--staged")
    assert (ended.code, ended.json()["verdict"]) == (5, "not_run")
    assert f"a document has an unresolved conflict ({PATH})" in ended.stderr
