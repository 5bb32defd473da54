"""The archives, run folders and events of the test material are what they say."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from testing.repositories import events
from testing.repositories.archives import (
    BRANCH,
    BROKEN,
    MARKER,
    MENTIONS,
    archive_stubs,
    policy,
    stub,
)
from testing.repositories.delegated_runs import (
    BAD_INDEXES,
    BAD_MANIFESTS,
    ODD_MANIFESTS,
    TASK,
    candidate_folders,
    guard_runs,
    odd_manifest,
    registered,
    sibling_runs,
    write_index,
    write_run,
)
from testing.repositories.git_repo import ZERO_SHA, GitRepo

if TYPE_CHECKING:
    from pathlib import Path

posix = pytest.mark.skipif(os.name != "posix", reason="modes and pipes of POSIX")


# -- archive ------------------------------------------------------------------------------------


def test_the_archive_lacks_exactly_the_dangling_payloads(repo: GitRepo) -> None:
    archive = archive_stubs(repo, odd_paths=True, open_items=3)
    here = set(repo.run("ls-tree", "-r", "-z", "--name-only", BRANCH).decode().split("\0"))
    assert {path for path in archive.stubs if path not in here} == archive.dangling
    assert (len(archive.stubs), len(archive.dangling)) == (3130, 227)
    marked = repo.run("grep", "-lz", "-e", f"^{MARKER}$", archive.head).decode().split("\0")
    in_fences = {"docs/mentions/fence.md", "docs/mentions/tilde_fence.md"}
    assert {name.partition(":")[2] for name in marked if name} == {*archive.stubs, *in_fences}
    unfinished = repo.run("grep", "-lz", "-F", "-e", "- [ ]", archive.base).decode().split("\0")
    assert {name.partition(":")[2] for name in unfinished if name} == archive.open_items
    assert not archive.open_items & archive.dangling


def test_broken_stubs_and_mentions_are_in_the_tree(repo: GitRepo) -> None:
    archive = archive_stubs(repo, 14, 2, broken=BROKEN, checkout=True)
    assert set(archive.broken.values()) == set(BROKEN)
    good = stub("docs/x.md")
    for path, kind in archive.broken.items():
        text = repo.read(path).decode()
        assert MARKER in text
        as_good = text.replace(path, "docs/x.md") == good
        assert as_good == kind.startswith("payload-"), kind
    payload = repo.text("ls-tree", "-r", "-t", BRANCH)
    assert payload.count("120000 blob") == payload.count("160000 commit") == 1
    assert "040000 tree" in payload.split("docs/PRD-broken-payload-folder.md\n", maxsplit=1)[0]
    assert repo.text("cat-file", "-s", f"{BRANCH}:docs/PRD-broken-payload-empty.md") == "0"
    assert MARKER in repo.text("cat-file", "-p", f"{BRANCH}:docs/PRD-broken-payload-is-stub.md")
    assert all(repo.read(name).decode() == text for name, text in MENTIONS.items())
    assert json.loads(policy())["archive_branch"] == BRANCH


# -- runs ---------------------------------------------------------------------------------------


def test_runs_lie_where_the_store_has_them(tmp_path: Path) -> None:
    made = guard_runs(tmp_path, TASK, 3)
    assert sorted(tmp_path.glob(f"{TASK}-*/cli/*/manifest.json")) == sorted(made)
    for path in made:
        manifest = json.loads(path.read_text())
        assert (manifest["task_id"], manifest["run_id"]) == (f"{TASK}-docs", path.parent.name)
    assert len(candidate_folders(tmp_path / "near")) == 4
    assert not list((tmp_path / "near").glob("*/cli/*/manifest.json"))
    assert sibling_runs(tmp_path / "kin") == (f"{TASK}-extra",)


@posix
@pytest.mark.parametrize("kind", ODD_MANIFESTS)
def test_odd_manifests_are_no_plain_readable_files(tmp_path: Path, kind: str) -> None:
    mode = odd_manifest(tmp_path, kind).lstat().st_mode
    assert not stat.S_ISREG(mode) or not stat.S_IMODE(mode)


@pytest.mark.full
def test_bad_json_is_bad(tmp_path: Path) -> None:
    def load(path: Path) -> Any:
        try:
            return json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return None

    for kind, content in BAD_MANIFESTS.items():
        manifest = load(write_run(tmp_path, f"{TASK}-docs", kind, content))
        task = manifest.get("task_id") if isinstance(manifest, dict) else None
        large = len(content) > 10_000_000
        assert large or task != f"{TASK}-docs", kind
    for kind, content in BAD_INDEXES.items():
        index = load(write_index(tmp_path, content))
        large = len(content) > 10_000_000
        assert large or not isinstance(index, dict) or not isinstance(index.get("items"), list), (
            kind
        )
    rows = json.loads(write_index(tmp_path, registered("0101-a", "0102-b")).read_text())["items"]
    assert [row["slug"] for row in rows] == ["0101-a", "b"]


# -- events -------------------------------------------------------------------------------------


def test_events_have_the_commits_where_github_has_them(tmp_path: Path) -> None:
    base, head = "a" * 40, "b" * 40
    every = events.every_event(base, head)
    for case, (name, payload) in every.items():
        path = events.write_event(tmp_path, payload)
        assert json.loads(path.read_text()) == payload, case
        if name.startswith("pull_request"):
            request = payload["pull_request"]
            assert (request["base"]["sha"], request["head"]["sha"]) == (base, head), case
    assert every["pull request, fork deleted"][1]["pull_request"]["head"]["repo"] is None
    assert every["pull request from a fork"][1]["pull_request"]["head"]["repo"]["fork"]
    assert every["push of a new branch"][1]["before"] == ZERO_SHA
    assert every["push that deletes"][1]["deleted"]
    assert "pull_request" not in every["comment on an issue"][1]["issue"]
    environment = events.actions_environment("push", tmp_path / "event.json", GITHUB_OUTPUT="out")
    assert environment["GITHUB_EVENT_PATH"] == str(tmp_path / "event.json")
    assert environment["GITHUB_OUTPUT"] == "out"
