"""Stubs on branches within the diff budget of the base; the work tree is left alone."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.archive import report
from rlm_ci.archive.batches import FOLDER
from rlm_ci.text import dates
from testing.archived_shop import REGISTRY, Shop, registry, row
from testing.repositories.archives import stub

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlm_ci.archive.batches import Batch
    from rlm_ci.archive.plan import ArchivePlan
    from testing.program import Cli

LONG = "# Long\n" + "x\n" * 301
LONGEST = "# Longest\n" + "x\n" * 2000
PATHS = [f"docs/PRD-{number}.md" for number in range(5)]
#: Two documents a branch, and their rows.
CONFIG = "[diff_budget]\nmax_files = 3\n"


def branches(shop: Shop) -> list[str]:
    listed = shop.repo.text("for-each-ref", "--format=%(refname:short)", f"refs/heads/{FOLDER}")
    return listed.split()


def reasons(plan: ArchivePlan) -> dict[str, str]:
    return {one.path: one.reason for one in plan.skipped if one.reason != "not_eligible"}


def made_of(made: Sequence[Batch]) -> list[str]:
    return [path for one in made for path in one.paths]


@pytest.mark.full
def test_a_branch_for_each_batch_and_none_again(tmp_path: Path, cli: Cli) -> None:
    more = dict.fromkeys(PATHS, LONG) | {"docs/PRD-9.md": LONGEST, "rlm-ci.toml": CONFIG}
    more["docs/PRD-stub.md"] = stub("docs/PRD-stub.md")
    rows = registry(*(row(path) for path in [*PATHS, "docs/PRD-9.md", "docs/PRD-stub.md"]))
    shop = Shop(tmp_path, {**more, REGISTRY: rows, "tasks/index.json": '{"items": []}'})
    # The budget is the base's, not that of the work tree; what is not committed stays.
    shop.repo.write("rlm-ci.toml", "").append(PATHS[0], "not committed\n")
    before = shop.repo.text("status", "--branch", "-vv")
    outcome = shop.archive(split=True)
    made = outcome.batches
    assert shop.repo.text("status", "--branch", "-vv") == before
    assert [one.paths for one in made] == [
        (PATHS[0], PATHS[1]), (PATHS[2], PATHS[3]), (PATHS[4],), ("docs/PRD-9.md",),
    ]  # fmt: skip
    assert [one.over for one in made[:3]] == ["", "", ""]
    assert "(limit 1,200)" in made[3].over
    names = [f"{FOLDER}{dates.today()}-{number}" for number in range(1, 5)]
    assert branches(shop) == [one.branch for one in made] == names
    assert shop.archived().keys() == {*PATHS, "docs/PRD-9.md"}
    # The command that is printed pushes them.
    told = report.text(outcome, dry_run=False, verbose=False, remote="origin").split("\n")
    (push,) = (line.removeprefix("next: ") for line in told if line.startswith("next: "))
    subprocess.run(push, shell=True, cwd=shop.repo, check=True, capture_output=True)
    assert shop.bare.sha(names[3]) == made[3].commit
    change = ("--base", "main", "--head", names[1])
    assert cli("check", "diff-budget", "doc-archive", *change, cwd=shop.repo).code == 0
    for one in made:
        assert shop.repo.text("rev-parse", f"{one.branch}^") == shop.repo.sha()
        named = shop.repo.text("diff", "--name-only", "main", one.branch).split()
        assert named == [*one.paths, REGISTRY]
    again = shop.archive(split=True)
    there = dict.fromkeys(made_of(made), "already_on_branch")
    assert reasons(again.plan) == {**there, "docs/PRD-stub.md": "already_stubbed"}
    assert branches(shop) == names
    # Once merged, in any order, nothing is left to do.
    shop.repo.checkout("main")
    for name in reversed(names):
        shop.repo.merge(name)
    after = shop.plan()
    stubs = (*made_of(made), "docs/PRD-stub.md")
    assert reasons(after) == dict.fromkeys(stubs, "already_stubbed")
    assert after.documents == ()
