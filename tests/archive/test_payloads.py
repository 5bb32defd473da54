"""Full texts beside what the archive branch holds: older ones give way, all others stay."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.archive.payloads import versions
from rlm_ci.errors import ConfigError, RemoteError
from testing.archived_shop import REGISTRY, STOCK, Shop
from testing.repositories.archives import BRANCH, document
from testing.repositories.git_repo import SYMLINK

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import Change, Name

#: Somebody else pushes to the archive while we do: so often, and what.
RIVAL = """\
#!/bin/sh
left=$(cat {left}) && test "$left" -gt 0 || exit 0
echo $((left - 1)) > {left}
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
tip=$(git rev-parse -q --verify refs/heads/{branch})
tree=$(git rev-parse refs/heads/rival^{{tree}})
commit=$(git commit-tree ${{tip:+-p}} $tip -m "$left" "$tree")
git update-ref refs/heads/{branch} $commit
"""


def archived(shop: Shop, files: dict[Name, Change], branch: str = BRANCH) -> Shop:
    """The shop with ``files`` alone on a branch of its remote."""
    with shop.repo.bulk() as bulk:
        bulk.commit(branch, files, "Archive", ())
    shop.repo.run("push", "-q", "origin", branch)
    return shop


def reasons(shop: Shop) -> dict[str, str]:
    return {one.path: one.reason for one in shop.archive().plan.skipped}


def test_what_the_branch_holds_stays_or_is_an_older_version(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    older, other, folder = STOCK
    link = "docs/PRD-link.md"
    new = document(older, words="Counted again.")
    before = shop.repo.sha(f"HEAD:{older}")
    shop.repo.write(older, new).write(link, "../README.md\n" * 301).commit()
    shop.push()
    held: dict[Name, Change] = {
        older: document(older), other: "# By hand\n", f"{folder}/x.md": "# x\n", "y.md": "# y\n",
        link: (SYMLINK, "../README.md\n" * 301),
    }  # fmt: skip
    archived(shop, held)
    refused = dict.fromkeys((link, other, folder), "archived_content_differs")
    assert reasons(shop) == refused
    now = shop.archived()
    assert now.keys() == held.keys()
    assert now[older] == shop.repo.sha(f"HEAD:{older}")
    assert shop.bare.text("rev-parse", f"{BRANCH}^:{older}") == before  # found in its history
    assert shop.bare.text("show", f"{BRANCH}:{other}") == "# By hand"
    assert shop.repo.text("diff", "--name-only").split() == [older, REGISTRY]


def test_the_default_branch_of_the_remote_is_no_archive(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.repo.run("push", "-q", "origin", f"main:{BRANCH}")
    shop.bare.run("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
    with pytest.raises(ConfigError, match="no place for an archive"):
        shop.archive()


def test_a_local_archive_is_pushed_first(tmp_path: Path) -> None:
    shop = archived(Shop(tmp_path), {"y.md": "# y\n"})
    with shop.repo.bulk() as bulk:
        bulk.commit(BRANCH, {"z.md": "# z\n"}, "Not pushed", [shop.repo.sha(BRANCH)])
    with pytest.raises(ConfigError, match="has commits that are not on the remote"):
        shop.archive()
    assert shop.archived().keys() == {"y.md"}
    shop.repo.run("push", "-q", "origin", BRANCH)
    shop.archive()
    assert shop.archived().keys() == {"y.md", "z.md", *STOCK}


def rival(shop: Shop, times: int) -> None:
    left = shop.bare.path / "left"
    left.write_text(f"{times}\n")
    hook = shop.bare.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(RIVAL.format(left=left, branch=BRANCH))
    hook.chmod(0o755)


def test_another_archiver_pushes_first(tmp_path: Path) -> None:
    shop = archived(Shop(tmp_path), {STOCK[0]: document(STOCK[0]), "y.md": "# y\n"}, "rival")
    rival(shop, 1)
    shop.archive()
    assert shop.archived().keys() == {*STOCK, "y.md"}
    assert shop.bare.text("rev-list", "--count", BRANCH) == "2"


@pytest.mark.full
def test_another_archiver_always_pushes_first(tmp_path: Path) -> None:
    shop = archived(Shop(tmp_path), {"y.md": "# y\n"}, "rival")
    rival(shop, 99)
    with pytest.raises(RemoteError, match="the remote refuses"):
        shop.archive()
    assert shop.repo.text("status", "--porcelain") == ""


def test_versions_come_from_both_sides_of_a_merge(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    repo, path = shop.repo, STOCK[0]
    repo.checkout("side", new=True).write(path, "# Side\n").commit()
    side = repo.sha(f"HEAD:{path}")
    repo.checkout("main").write(path, "# Main\n").commit()
    repo.merge("side", strategy="ours")
    found = versions(shop.repository(), repo.sha(), [path])[path]
    assert {side, repo.sha(f"HEAD:{path}"), repo.sha(f"HEAD~2:{path}")} <= found


@pytest.mark.full
def test_two_archivers_at_once(tmp_path: Path) -> None:
    """Real ones, of the same documents and of others: both end, and nothing is lost."""
    shop = Shop(tmp_path / "one")
    other = tmp_path / "two"
    other.mkdir()
    shop.repo.run("clone", "-q", str(shop.bare.path), str(other / "shop"))
    (other / "up.git").symlink_to(shop.bare.path)
    second = Shop.again(other)
    second.repo.write("docs/PRD-second.md", "# Second\n" + "x\n" * 301).commit()
    children = []
    for one in (shop, second):
        child = os.fork()
        if not child:
            code = 1
            try:
                one.archive()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert shop.archived().keys() == {*STOCK, "docs/PRD-second.md"}
    for one in (shop, second):
        assert one.plan().documents == ()


@pytest.mark.full
def test_a_repository_with_the_longer_hash(tmp_path: Path) -> None:
    for name in ("up.git", "shop"):
        bare = ("--bare",) if name == "up.git" else ()
        words = ("git", "init", "-q", "--object-format=sha256", "-b", "main", *bare)
        subprocess.run([*words, str(tmp_path / name)], check=True)
    shop = Shop(tmp_path)
    shop.archive(split=True)
    assert shop.archive().marked == 1
    assert shop.archived().keys() == set(STOCK)
