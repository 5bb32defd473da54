"""doc-archive reads what lies on the disk, whatever git thinks of it, and what git has archived."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from testing.repositories.archives import BRANCH, MARKER, POLICY_PATH, document, policy, stub
from testing.repositories.git_repo import GITLINK, SYMLINK, GitRepo

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import Change, Name

PATH = "docs/a.md"


def made(repo: GitRepo, stubs: dict[Name, Change], payloads: dict[Name, Change]) -> GitRepo:
    """``stubs`` checked out on main, ``payloads`` on the archive."""
    with repo.bulk() as bulk:
        bulk.commit("main", {POLICY_PATH: policy(), **stubs}, "Stubs", ())
        bulk.commit(BRANCH, payloads, "Payloads", ())
    repo.run("reset", "-q", "--hard")
    return repo


def good(*paths: str) -> tuple[dict[Name, Change], dict[Name, Change]]:
    return {path: stub(path) for path in paths}, {path: document(path) for path in paths}


def check(cli: Cli, repo: GitRepo, *args: str) -> Ended:
    return cli("check", "doc-archive", "--format", "json", *args, cwd=repo)


def found(ended: Ended) -> dict[str, str]:
    """Path to rule."""
    return {
        one["evidence"][0]["path"]: one["rule"].removeprefix("doc-archive/")
        for one in ended.json()["findings"]
    }


def stubs_of(ended: Ended) -> int:
    count: int = ended.json()["parts"][0]["metrics"]["stubs"]
    return count


# -- the work tree ------------------------------------------------------------------------------


def swapped(repo: GitRepo, path: str) -> None:
    """A broken stub of the same length in the place of a good one, with all times put back."""
    place = repo.place(path)
    before = os.stat(place)
    text = repo.read(path)
    changed = text.replace(b"acme", b"evil")
    assert len(changed) == len(text)
    with open(place, "r+b") as file:
        file.write(changed)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.sample(2)
@pytest.mark.parametrize("flag", ["none", "assume-unchanged", "skip-worktree"])
def test_an_edit_that_git_does_not_see_is_judged(cli: Cli, repo: GitRepo, flag: str) -> None:
    made(repo, *good(PATH, "docs/b.md"))
    assert (check(cli, repo).code, stubs_of(check(cli, repo))) == (0, 2)
    if flag != "none":
        repo.run("update-index", f"--{flag}", PATH)
    # At once, so within the second in which the index was written.
    swapped(repo, PATH)
    assert found(check(cli, repo)) == {PATH: "wrong-target"}
    assert found(check(cli, repo, "--staged", "--all")) == {}
    repo.run("update-index", "--no-assume-unchanged", "--no-skip-worktree", PATH)
    repo.write(PATH, stub(PATH)).write("docs/b.md", "# Full again\n")
    ended = check(cli, repo)
    assert (ended.code, stubs_of(ended)) == (0, 1)


def test_line_ends_that_git_has_changed(cli: Cli, repo: GitRepo) -> None:
    stubs, payloads = good(PATH, "docs/b.md")
    made(repo, stubs, {PATH: payloads[PATH]})
    repo.run("config", "core.autocrlf", "true")
    repo.remove(PATH, "docs/b.md").run("checkout", "-q", "--", ".")
    assert b"\r\n" in repo.read(PATH)
    for setting in ("true", "false"):  # git takes both files for clean with either
        repo.run("config", "core.autocrlf", setting)
        ended = check(cli, repo)
        assert found(ended) == {"docs/b.md": "dangling"}
        # The finding quotes what lies there, so its object id is that of what lies there.
        (place,) = ended.json()["findings"][0]["evidence"]
        assert place["blob"] == repo.text("hash-object", "--no-filters", "docs/b.md")


def test_a_filter_is_not_run_and_what_it_has_made_counts(cli: Cli, repo: GitRepo) -> None:
    made(repo, *good(PATH, "docs/b.md"))
    canary = repo.path / "canary"
    repo.write(".gitattributes", "a.md filter=swap\n")
    repo.run("config", "filter.swap.smudge", f"touch {canary}; sed s,acme/shop,evil/shop,")
    repo.run("config", "filter.swap.clean", f"touch {canary}; sed s,evil/shop,acme/shop,")
    repo.remove(PATH).run("checkout", "-q", "--", PATH)
    assert b"evil/shop" in repo.read(PATH)
    canary.unlink()
    assert found(check(cli, repo)) == {PATH: "wrong-target"}
    assert not canary.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_only_regular_files_are_read(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    names = ("pipe", "link", "folder", "gone", "inner/b", "large", "empty")
    paths = [f"docs/{name}.md" for name in names]
    made(repo, *good(PATH, *paths))
    repo.submodule("docs/module.md", "1" * 40)
    for path in paths:
        repo.remove(path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.md").write_text(stub("docs/other.md"))
    os.mkfifo(repo.place("docs/pipe.md"))
    repo.symlink("docs/link.md", "a.md").write("docs/folder.md/x.txt", "x\n")
    os.rmdir(repo.place("docs/inner"))
    repo.symlink("docs/inner", str(tmp_path / "elsewhere"))  # as ever: links of folders are ways
    repo.write("docs/large.md", stub("docs/large.md") + " " * 50_000).write("docs/empty.md")
    ended = check(cli, repo)
    assert found(ended) == {"docs/inner/b.md": "path-mismatch"}
    assert stubs_of(ended) == 3


# -- the archive --------------------------------------------------------------------------------


def many(more: dict[Name, Change], *, count: int = 70) -> tuple[list[str], dict[Name, Change]]:
    """Paths of stubs, and an archive with a small text for each and ``more``."""
    paths = [f"docs/{number:03}.md" for number in range(count)]
    return paths, {path: document(path) for path in paths} | more


ODD: dict[str, tuple[Change, str | None]] = {
    "docs/000.md": (stub("docs/000.md"), "payload-is-stub"),
    "docs/001.md": ("", "dangling"),
    "docs/002.md": ((SYMLINK, "000.md"), "dangling"),
    "docs/003.md": ((GITLINK, "1" * 40), "dangling"),
    "docs/004.md": (None, "dangling"),
    "docs/005.md": (b"# \xff\0\n" + stub("x").encode(), "payload-is-stub"),
    "docs/006.md": (f"# About `{MARKER}`\n", None),
    "docs/007.md": (stub("docs/007.md") + " " * 5_000, None),
    "docs/008.md": (stub("docs/008.md").replace("\n", "\r"), "payload-is-stub"),
    "docs/009.md": (f"# No end of the line\n{MARKER}", "payload-is-stub"),
    "docs/010.md": (("100755", stub("docs/010.md")), "payload-is-stub"),
    "docs/CAPITALS.MD": (stub("docs/CAPITALS.MD"), "payload-is-stub"),
    "docs/a:b c.mdx": (stub("x"), "payload-is-stub"),
    "docs/*.markdown": (stub("x"), "payload-is-stub"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "beside",
    [{}, {"large.md": "x" * 400_000}, {f"{n}.txt": "x\n" for n in range(200)}],
    ids=["searched", "not searched: large", "not searched: few of all"],
)
def test_full_texts_are_told_from_stubs_however_they_are_found(
    cli: Cli, repo: GitRepo, beside: dict[Name, Change]
) -> None:
    paths, payloads = many({**{path: change for path, (change, _) in ODD.items()}, **beside})
    payloads = {path: change for path, change in payloads.items() if change is not None}
    made(repo, {path: stub(path) for path in {*paths, *ODD}}, payloads)
    expected = {path: rule for path, (_, rule) in ODD.items() if rule}
    assert found(check(cli, repo)) == expected
    assert found(check(cli, repo, "--commit", "HEAD")) == expected


@pytest.mark.parametrize("how", ["corrupt", "missing"])
def test_an_archive_that_cannot_be_read_is_not_clean(cli: Cli, repo: GitRepo, how: str) -> None:
    paths, payloads = many({})
    made(repo, {path: stub(path) for path in paths}, payloads)
    assert check(cli, repo).code == 0
    oid = repo.sha(f"{BRANCH}:{paths[9]}")
    # As the loose objects that they are in a young repository.
    pack = next((repo.path / ".git/objects/pack").glob("*.pack"))
    data = pack.read_bytes()
    for part in (repo.path / ".git/objects/pack").iterdir():
        part.unlink()
    repo.run("unpack-objects", "-q", stdin=data)
    place = repo.path / ".git/objects" / oid[:2] / oid[2:]
    whole = place.read_bytes()
    place.unlink()
    if how == "corrupt":
        place.write_bytes(whole[:-12])
    ended = check(cli, repo)
    assert ended.code not in (0, 1)
    assert ended.json()["verdict"] == "not_run"
    assert found(ended) == {}


def test_colours_that_are_always_on_change_nothing(cli: Cli, repo: GitRepo) -> None:
    """Git colours names by ``color.ui``, also where nobody looks on."""
    path = "docs/000.md"
    paths, payloads = many({path: stub(path)})
    made(repo, {one: stub(one) for one in paths}, payloads)
    repo.run("config", "color.ui", "always")
    repo.run("config", "color.grep", "always")
    assert found(check(cli, repo)) == {path: "payload-is-stub"}
