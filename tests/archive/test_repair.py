"""Dangling stubs repaired from the history: what is restored, what is not, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.archive.repair import RepairPlan, repair
from rlm_ci.git.remote_clone import RemoteUser
from rlm_ci.git.repository import Repository, discover
from testing.archived_shop import Shop
from testing.repositories.archives import BRANCH, document, stub
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli

GOOD, LOST, MOVED, NEVER = "docs/good.md", "docs/lost.md", "docs/old/moved.md", "docs/never.md"


def _repair(repo: GitRepo, *, dry_run: bool = False) -> RepairPlan:
    root, git_dir = discover(str(repo.path))
    user = RemoteUser(None, "https://github.com", os.environ, "test")
    return repair(Repository(root, git_dir, os.environ), user, dry_run=dry_run)


def _said(plan: RepairPlan) -> dict[str, tuple[str, str]]:
    return {one.path: (one.problem, one.why) for one in plan.repairs}


def _text(repo: GitRepo, plan: RepairPlan, path: str) -> str:
    (one,) = [one for one in plan.repairs if one.path == path]
    return repo.text("cat-file", "blob", one.oid) if one.oid else ""


def _shop(folder: Path) -> Shop:
    """One good stub, one whose text is lost, one that was moved as it became a stub, one new."""
    shop = Shop(folder, {GOOD: document("Good"), LOST: document("First"),
                         "docs/moved.md": document("Moved")})  # fmt: skip
    shop.repo.write(LOST, document("Last")).commit()
    shop.repo.remove("docs/moved.md")
    shop.repo.write_all({
        GOOD: stub(GOOD), LOST: stub(LOST), NEVER: stub(NEVER),
        MOVED: stub(MOVED, heading="# Moved"),
    }).commit()  # fmt: skip
    shop.push()
    with shop.bare.bulk() as bulk:
        bulk.commit(BRANCH, {GOOD: "# Another good text\n", "other.md": "x\n"}, "Payloads", ())
    return shop


@pytest.mark.full
def test_the_last_full_text_is_restored_and_a_good_one_stays(tmp_path: Path, cli: Cli) -> None:
    shop = _shop(tmp_path)
    planned = _repair(shop.repo, dry_run=True)
    before = shop.archived()
    assert before.keys() == {GOOD, "other.md"}
    made = _repair(shop.repo)
    assert (made.repairs, made.stubs) == (planned.repairs, 4)
    assert _said(made) == {
        LOST: ("does not exist", "its last version before the stub"),
        MOVED: ("does not exist", "docs/moved.md, before it was moved"),
        NEVER: ("does not exist", "no full text of it is in the history"),
    }
    assert _text(shop.repo, made, LOST) == document("Last").strip()
    assert _text(shop.repo, made, MOVED) == document("Moved").strip()
    after = shop.archived()
    assert after == before | made.archived_ids
    # Again: only what cannot be repaired is left, and the branch stays.
    again = _repair(shop.repo)
    assert (again.pushed, [one.path for one in again.repairs]) == (None, [NEVER])
    ended = cli("check", "doc-archive", cwd=shop.repo)
    assert ended.code == 1
    assert "4 stubs, 1 broken" in ended.stdout
    ended = cli("archive", "--repair", cwd=shop.repo)
    assert ended.code == 1
    assert f"  {NEVER}: does not exist; no full text of it is in the history\n" in ended.stdout


@pytest.mark.parametrize(
    ("payload", "problem"), [("", "is empty"), (stub(LOST), "is itself a stub")]
)
def test_what_is_no_full_text_gives_way(tmp_path: Path, payload: str, problem: str) -> None:
    shop = _shop(tmp_path)
    with shop.bare.bulk() as bulk:
        bulk.commit(BRANCH, {LOST: payload}, "Broken", [shop.bare.sha(BRANCH)])
    made = _repair(shop.repo)
    assert _said(made)[LOST][0] == problem
    assert shop.archived()[LOST] == shop.repo.sha(f"HEAD~1:{LOST}")


def test_a_text_of_another_branch_is_found(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    with shop.repo.bulk() as bulk:
        bulk.commit("draft", {NEVER: "# Draft\n"}, "Draft", ())
    made = _repair(shop.repo)
    assert (made.lost, _text(shop.repo, made, NEVER)) == ([], "# Draft")


def test_wrong_stubs_and_names_in_the_way_are_listed(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    shop.repo.write("docs/torn.md", stub("docs/torn.md") + "more\n")
    shop.repo.write("docs/else.md", stub(GOOD)).commit()
    with shop.bare.bulk() as bulk:
        bulk.commit(BRANCH, {f"{LOST}/inner": "x\n"}, "In the way", [shop.bare.sha(BRANCH)])
    said = _said(_repair(shop.repo))
    assert said["docs/torn.md"][0] == "malformed"
    assert said["docs/else.md"][0] == "path-mismatch"
    assert said[LOST][1] == "a folder and a file have the same name on the archive branch"
    assert LOST not in shop.archived()


def test_a_shallow_clone_says_that_it_is_one(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    clone = tmp_path / "shallow"
    shop.repo.run("clone", "-q", "--depth=1", f"file://{shop.bare.path}", str(clone))
    said = _said(_repair(GitRepo(clone), dry_run=True))
    assert said[LOST][1].endswith("that this clone has: git fetch --unshallow")


@pytest.mark.full
def test_the_mass_of_an_upstream_repository(tmp_path: Path, cli: Cli) -> None:
    """One commit by hand made 227 stubs whose texts never came to the branch."""
    paths = [f"docs/PRD-{number:04}.md" for number in range(240)]
    shop = Shop(tmp_path, {path: document(path) for path in paths})
    shop.repo.write_all({path: stub(path) for path in paths}).commit()
    shop.push()
    with shop.bare.bulk() as bulk:
        bulk.commit(BRANCH, {path: document(path) for path in paths[227:]}, "Payloads", ())
    ended = cli("archive", "--repair", "--format", "json", cwd=shop.repo)
    assert (ended.code, ended.stderr) == (0, "")
    assert len(ended.json()["repaired"]) == 227
    oids = {path: shop.repo.sha(f"HEAD~1:{path}") for path in (paths[0], paths[226], paths[-1])}
    held = shop.archived()
    assert held.keys() == set(paths)
    assert oids.items() <= held.items()
    assert cli("check", "doc-archive", cwd=shop.repo).code == 0
