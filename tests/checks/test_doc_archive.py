"""doc-archive, through the real command: all of a tree, paths of it, and hostile ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set
from rlm_ci.checks import doc_archive
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.runs.store import RunStore
from testing.archive_stage import CHECK, PATH, archive, check, findings, metrics
from testing.repositories.archives import (
    BRANCH,
    BROKEN,
    MARKER,
    MENTIONS,
    POLICY_PATH,
    archive_stubs,
    document,
    policy,
    stub,
)
from testing.repositories.git_repo import GitRepo
from testing.unprivileged_user import closed_copy, holds_for_nobody, needs_root

if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository
    from testing.program import Cli
    from testing.repositories.git_repo import Change, Name


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


@pytest.mark.full
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
        (["../x.md"], "is outside of the repository"),
        (["/etc/passwd"], "is outside of the repository"),
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
            doc_archive.run(change_set.from_local(here, "worktree"), options, RunStore("", ""))
        except ConfigError as error:
            return name in (error.where or "")
        return False

    with closed_copy(repo, name) as copy:
        assert holds_for_nobody(copy, is_refused)


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
