"""The steps of doc-archive.yml, run against a real remote and a GitHub on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.action_runner import ROOT, load_yaml
from testing.archived_shop import DONE, INDEX, REGISTRY, STOCK, Shop, index, registry, row
from testing.loopback_github.fixture import github
from testing.repositories.archives import BRANCH, REPO_URL, document, stub

if TYPE_CHECKING:
    from testing.loopback_github.server import GitHub
    from testing.program import Cli

__all__ = ["github"]

OURS, TASKS = "rlm-ci/archive", "docs/TASKS.md"
WORKFLOW = ROOT / ".github/workflows/doc-archive.yml"
STEPS = [
    one for one in load_yaml(WORKFLOW.read_bytes())["jobs"]["archive"]["steps"] if "env" in one
]


class Remote:
    """A shop whose remote is on ``github``, and fresh clones in which the steps run."""

    def __init__(self, folder: Path, github: GitHub) -> None:
        self.shop = Shop(folder, {
            TASKS: "# Tasks\n\n# Task List Snapshot - Stock (0001-stock) - x\n" + "- [x] a\n" * 500,
            "docs/tasks-archive-policy.json": f'{{"version": 1, "repo_url": "{REPO_URL}"}}',
        })  # fmt: skip
        github.repository("acme/shop", self.shop.bare, collaborators={"ada": "write"})
        github.token("t-bot")
        self.github, self.folder, self.runs = github, folder, 0

    def run(self, cli: Cli | None = None) -> list[str]:
        """What each step with a token says, in a fresh checkout; by ``cli`` without its shell."""
        self.runs += 1
        place = self.folder / f"run-{self.runs}"
        self.shop.repo.run("clone", "-q", f"file://{self.shop.bare.path}", str(place))
        (place / ".venv").symlink_to(Path(sys.prefix))
        env = {
            "GITHUB_TOKEN": "t-bot", "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_API_URL": self.github.url,
        }  # fmt: skip
        said = []
        for step in STEPS:
            assert step["env"] == {"GITHUB_TOKEN": "${{ github.token }}"}
            if cli:
                args = step["run"].removeprefix("exec .venv/bin/rlm-ci ").split()
                made = cli(*args, cwd=place, env=env)
                assert made.code == 0, made
                said.append(made.stdout)
                continue
            ended = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=place, capture_output=True, text=True, check=False, timeout=60,
                env={**os.environ, **env},
            )  # fmt: skip
            assert ended.returncode == 0, ended.stdout + ended.stderr
            said.append(ended.stdout)
        return said


@pytest.mark.full
def test_one_pull_request_is_opened_and_brought_up_to_date(
    tmp_path: Path, github: GitHub, cli: Cli
) -> None:
    remote = Remote(tmp_path, github)
    shop, bare = remote.shop, remote.shop.bare
    *_, said = remote.run()
    assert "pull request 1: opened" in said
    (pull,) = github.world.repositories["acme/shop"].pulls.values()
    assert (pull.head_ref, pull.base, pull.labels) == (OURS, "main", [])
    why, override = str(pull.body).split("\n\n")[1:]
    assert "Approve workflows to run" in why
    assert override.startswith("Diff budget override: stubs of archived documents; the full texts ")
    first = bare.sha(OURS)
    for path in STOCK:
        assert "docs-archive:stub" in bare.text("show", f"{OURS}:{path}")
    assert "tasks-archive-index" in bare.text("show", f"{OURS}:{TASKS}")
    assert ".venv" not in bare.text("ls-tree", "--name-only", OURS).split()
    # The next day nothing is new: neither the branch nor the pull request changes.
    assert "nothing to push" in (said := remote.run(cli)[-1])
    assert "pull request 1: unchanged" in said
    assert bare.sha(OURS) == first
    # Others edit the registry: their rows stay.
    rows = (row(STOCK[0]), row("README.md"), row("NEWS.md"))
    shop.repo.write(REGISTRY, registry(*rows)).commit()
    shop.push()
    assert "pull request 1: updated" in remote.run(cli)[-1]
    assert '"NEWS.md"' in bare.text("show", f"{OURS}:{REGISTRY}")
    assert '"archived"' in bare.text("show", f"{OURS}:{REGISTRY}")
    # Another document is done.
    shop.repo.write("docs/PRD-rates.md", document("Rates"))
    rates = {"id": "0002", "slug": "rates", "status": "done", "completed_at": "2026-01-06",
             "paths": {"prd": "docs/PRD-rates.md"}}  # fmt: skip
    shop.repo.write(INDEX, index({**DONE, "paths": {"prd": STOCK[0]}}, rates)).commit()
    shop.push()
    assert "pull request 1: updated" in remote.run(cli)[-1]
    assert bare.text("merge-base", first, OURS) == first
    assert "docs-archive:stub" in bare.text("show", f"{OURS}:docs/PRD-rates.md")
    assert len(github.sent("POST", "/pulls")) == 1
    # Merged: nothing is left to propose.
    shop.repo.run("fetch", "-q", "origin")
    shop.repo.run("merge", "-q", f"origin/{OURS}")
    shop.push()
    archived, _, proposed = remote.run(cli)
    assert archived.startswith("nothing to archive")
    assert proposed == "nothing to propose: the work tree has no new stubs\n"


@pytest.mark.full
def test_a_large_one_gets_the_label_of_its_override(
    tmp_path: Path, github: GitHub, cli: Cli
) -> None:
    remote = Remote(tmp_path, github)
    remote.shop.repo.write("rlm-ci.toml", "[diff_budget]\nmax_lines = 10\n").commit()
    remote.shop.push()
    remote.run(cli)
    (pull,) = github.world.repositories["acme/shop"].pulls.values()
    assert pull.labels == ["diff-budget-override"]


@pytest.mark.parametrize("kind", ["by hand", "not pushed"])
def test_no_stub_is_proposed_before_its_full_text(tmp_path: Path, cli: Cli, kind: str) -> None:
    shop = Shop(tmp_path)
    if kind == "not pushed":
        shop.repo.write("more.txt", "x\n").commit()
    shop.repo.write(STOCK[0], stub(STOCK[0]))
    ended = cli("archive", "--pr", cwd=shop.repo)
    assert ended.code == 5, ended
    said = {"by hand": f"the full text of this stub is not on the branch {BRANCH} ({STOCK[0]})",
            "not pushed": "HEAD is not a commit of the remote's default branch"}  # fmt: skip
    assert said[kind] in ended.stderr
    assert OURS not in shop.bare.text("branch", "--list")


def test_a_branch_that_people_have_edited_is_not_overwritten(tmp_path: Path, cli: Cli) -> None:
    shop = Shop(tmp_path)
    assert cli("archive", cwd=shop.repo).code == 0
    planned = cli("archive", "--pr", "--dry-run", cwd=shop.repo)
    assert (planned.code, planned.stdout) == (0, "3 stubs would be pushed to rlm-ci/archive\n")
    assert OURS not in shop.bare.text("branch", "--list")
    with shop.bare.bulk() as bulk:
        bulk.commit(OURS, {"x.md": "theirs\n"}, "Theirs", [shop.bare.sha("main")])
    before = shop.bare.sha(OURS)
    ended = cli("archive", "--pr", cwd=shop.repo)
    assert (ended.code, shop.bare.sha(OURS)) == (5, before)
    assert "people have committed to the branch rlm-ci/archive" in ended.stderr
