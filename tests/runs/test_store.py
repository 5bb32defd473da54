"""Task ids and the runs on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.errors import ConfigError, StorageError
from rlm_ci.runs import derived_task_id, is_task_id, require_task_id
from rlm_ci.runs.store import ManifestCandidate, RunStore
from testing.repositories.delegated_runs import (
    BAD_MANIFESTS,
    HOSTILE_TASKS,
    ODD_MANIFESTS,
    TASK,
    guard_runs,
    odd_manifest,
    run_id,
    write_run,
)


def _any(_folder: str, _manifest: dict[str, Any] | None) -> str | None:
    return None


def _candidates(root: Path, task: str = TASK) -> list[ManifestCandidate]:
    return list(RunStore(str(root), ".runs").subagent_runs(task, _any))


# -- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TASK, "a", "_x", "0101", "A.b-c_d", "a" * 128, "console", "com0"])
def test_a_task_id(text: str) -> None:
    assert is_task_id(text)
    assert require_task_id(text, "here") == text


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE_TASKS, "", "a" * 129, ".hidden", "dot.", "con", "NUL", "Aux.txt", "com1", "LPT9.x",
        "a\0b", "a\n", "\ud800", "a:b", "a\u0301",
    ],
)  # fmt: skip
def test_no_task_id(text: str) -> None:
    assert not is_task_id(text)
    with pytest.raises(ConfigError, match=r"is not a task id \(here\)") as caught:
        require_task_id(text, "here")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("repository", "task"),
    [
        ("/x/shop", "rlm-shop"),
        ("/x/my shop!", "rlm-my-shop"),
        ("/x/...", "rlm-adhoc"),
        ("/", "rlm-adhoc"),
        ("/x/con", "rlm-con"),
        ("/x/" + "a" * 123 + "..b", "rlm-" + "a" * 123),
        ("/x/" + "é" * 300, "rlm-adhoc"),
        ("/x/.dotted.", "rlm-dotted"),
    ],
)
def test_the_derived_id_is_one(repository: str, task: str) -> None:
    assert derived_task_id(repository) == task
    assert is_task_id(task)


# -- new runs -----------------------------------------------------------------------------------


def test_a_new_run_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = RunStore.at(str(tmp_path), ".runs")
    run, path = store.new_run("rlm-x", lambda: 0)
    assert run.startswith("1970-01-01T00-00-00Z-")
    assert is_task_id(run)
    assert path == str(tmp_path / ".runs" / "rlm-x" / "cli" / run)
    for folder in (tmp_path / ".runs", tmp_path / ".runs" / "rlm-x", Path(path)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (tmp_path / ".runs" / ".gitignore").read_text() == "*\n"
    assert store.new_run("rlm-x", lambda: 0)[0] != run


def test_what_stands_in_the_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".runs").mkdir(mode=0o755)
    (tmp_path / ".runs" / ".gitignore").write_text("mine\n")
    RunStore.at(str(tmp_path), ".runs").new_run("rlm-x")
    assert (tmp_path / ".runs" / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize("link", [".runs", ".runs/rlm-x", ".runs/rlm-x/cli"])
def test_no_run_is_written_through_a_link(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "repo" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    with pytest.raises(StorageError, match="is a link") as caught:
        RunStore.at(str(tmp_path / "repo"), ".runs").new_run("rlm-x")
    assert "CODEX_ORCHESTRATOR_RUNS_DIR" in caught.value.hint
    assert list(outside.iterdir()) == []


def test_a_store_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / ".runs").write_text("a file")
    with pytest.raises(StorageError, match="cannot be written"):
        RunStore.at(str(tmp_path), ".runs").new_run("rlm-x")


@pytest.mark.parametrize(
    ("runs_dir", "root", "shown"),
    [
        (".runs", "/repo/.runs", ".runs"),
        ("out/runs/", "/repo/out/runs/", "out/runs"),
        ("/var/runs", "/var/runs", "/var/runs"),
        ("/", "/", "/"),
    ],
)
def test_where_the_store_is(runs_dir: str, root: str, shown: str) -> None:
    store = RunStore.at("/repo", runs_dir)
    assert (store.root, store.shown) == (root, shown)


# -- subagent runs ------------------------------------------------------------------------------


def test_good_runs_have_no_reason(tmp_path: Path) -> None:
    guard_runs(tmp_path, count=3)
    found = _candidates(tmp_path)
    assert sorted(found, key=lambda one: one.path) == [
        ManifestCandidate(f".runs/{TASK}-docs/cli/{run_id(n)}/manifest.json") for n in range(3)
    ]


def test_only_folders_of_the_task_are_looked_into(tmp_path: Path) -> None:
    for task in (TASK, f"{TASK}2-docs", "0101", f"x-{TASK}-docs"):
        write_run(tmp_path, task, run_id(0))
    assert _candidates(tmp_path) == []


def test_the_folder_is_asked_about_before_it_is_opened(tmp_path: Path) -> None:
    guard_runs(tmp_path)
    asked: list[tuple[str, bool]] = []

    def accept(folder: str, manifest: dict[str, Any] | None) -> str | None:
        asked.append((folder, manifest is None))
        return "not mine"

    found = list(RunStore(str(tmp_path), ".runs").subagent_runs(TASK, accept))
    assert found == [ManifestCandidate(f".runs/{TASK}-docs", "not mine")]
    assert asked == [(f"{TASK}-docs", True)]


@pytest.mark.parametrize("kind", [kind for kind in BAD_MANIFESTS if "task id" not in kind])
def test_a_file_that_is_no_manifest_does_not_count(tmp_path: Path, kind: str) -> None:
    write_run(tmp_path, f"{TASK}-docs", run_id(0), BAD_MANIFESTS[kind])
    (found,) = _candidates(tmp_path)
    if kind in ("not a number", "lone surrogate"):  # JSON as Python reads it
        assert found.reason is None
    else:
        assert found.reason is not None
        assert found.reason.startswith("manifest.json")


@pytest.mark.parametrize("kind", list(ODD_MANIFESTS))
def test_what_is_no_regular_file_does_not_count(tmp_path: Path, kind: str) -> None:
    if kind == "unreadable" and os.geteuid() == 0:
        pytest.skip("root may read anything")
    odd_manifest(tmp_path, kind)
    (found,) = _candidates(tmp_path)
    assert found.reason is not None
    assert found.reason.startswith("manifest.json")


def test_links_to_run_folders_are_followed_and_circles_are_not(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write_run(elsewhere, "x", run_id(0), "{}")
    root = tmp_path / ".runs"
    cli = root / f"{TASK}-docs" / "cli"
    cli.mkdir(parents=True)
    (cli / "circle").symlink_to("circle")
    (cli / "nowhere").symlink_to("nothing")
    assert [one.reason for one in _candidates(root)] == ["no run directories"]
    (cli / "linked").symlink_to(elsewhere / "x" / "cli" / run_id(0))
    assert [one.reason for one in _candidates(root)] == [None]


def test_a_folder_that_is_a_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / f"{TASK}-notes").write_text("a file")
    guard_runs(tmp_path)
    reasons = {one.path: one.reason for one in _candidates(tmp_path)}
    assert reasons.pop(f".runs/{TASK}-notes") == "cli directory: Not a directory"
    assert list(reasons.values()) == [None]


def test_a_store_that_cannot_be_listed_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _candidates(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        _candidates(tmp_path / "file")
