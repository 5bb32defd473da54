"""A run that came with the repository is nobody's: not listed, not found, not pruned."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import StorageError, UsageError
from rlm_ci.runs import find
from rlm_ci.runs.store import RunStore, tracked
from testing.run_store import Place

if TYPE_CHECKING:
    from rlm_ci.runs.run import Run
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


@pytest.fixture
def made(repo: GitRepo) -> Place:
    return Place(repo.path)


def store(place: Place) -> RunStore:
    return RunStore.at(str(place.root), ".runs", os.environ)


def listed(place: Place) -> list[str]:
    return [entry.run_id for entry in find.entries(store(place))]


def bring(repo: GitRepo, *names: str) -> None:
    repo.stage(*names).commit(stage=False)


def two(place: Place) -> tuple[Run, Run]:
    """Our own, and a newer one, which is said to come with the repository."""
    ours = place.finished()
    place.seconds += 60
    return ours, place.finished()


def test_a_run_that_git_tracks_is_neither_listed_nor_found(repo: GitRepo, made: Place) -> None:
    ours, theirs = two(made)
    bring(repo, f".runs/t1/cli/{theirs.id}/manifest.json")
    assert listed(made) == [ours.id]
    assert find.brought(store(made)) == 1
    assert find.find(store(made), "latest").run_id == ours.id
    shown = f"{theirs.manifest.artifact_root}/manifest.json"
    for word in (theirs.id, theirs.id[:-1], theirs.path, shown, f"{theirs.path}/manifest.json"):
        with pytest.raises(UsageError, match="there is no run"):
            find.find(store(made), word)
    assert [one.run_id for one in find.prune(store(made), 0, made.seconds + 9)] == [ours.id]
    assert os.path.exists(theirs.path)
    repo.run("rm", "-r", "-q", "--cached", ".runs")
    assert listed(made) == [theirs.id]
    assert find.brought(store(made)) == 0


def test_any_file_of_it_is_enough_and_others_beside_it_are_not(repo: GitRepo, made: Place) -> None:
    ours, theirs = two(made)
    bring(repo, f".runs/t1/cli/{theirs.id}/events.jsonl", ".runs/t1/metrics.json")
    assert listed(made) == [ours.id]


def test_the_case_of_letters_hides_none(repo: GitRepo, made: Place) -> None:
    """On some file systems, what git knows as ``.Runs/T1`` lies in ``.runs/t1``."""
    ours, theirs = two(made)
    oid = repo.text("hash-object", "-w", f"{theirs.path}/manifest.json")
    name = f".Runs/T1/CLI/{theirs.id.upper()}/manifest.json"
    repo.run("update-index", "--add", "--cacheinfo", f"100644,{oid},{name}")
    assert listed(made) == [ours.id]


@pytest.mark.parametrize("depth", range(4))
def test_a_submodule_brings_runs_too(repo: GitRepo, made: Place, depth: int) -> None:
    run = made.finished()
    place = "/".join([".runs", "t1", "cli", run.id][: depth + 1])
    repo.run("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{place}")
    assert listed(made) == []
    with pytest.raises(UsageError):
        find.find(store(made), run.id)


def test_a_link_brings_none(repo: GitRepo, made: Place, tmp_path: Path) -> None:
    run = made.finished()
    shutil.move(os.path.dirname(run.path), repo.path / "evil")
    os.symlink("../../evil", repo.path / ".runs" / "t1" / "cli")
    assert listed(made) == []
    with pytest.raises((UsageError, StorageError)):
        find.find(store(made), f"{repo.path}/.runs/t1/cli/{run.id}")
    shutil.move(repo.path / ".runs", tmp_path / "elsewhere")
    (repo.path / "other" / "t1" / "cli" / run.id).mkdir(parents=True)
    os.symlink("other", repo.path / ".runs")
    with pytest.raises(StorageError, match="the folder of the runs is a link"):
        find.entries(store(made))


def test_a_run_named_by_its_path_is_asked_of_its_own_repository(
    repo: GitRepo, tmp_path: Path
) -> None:
    place = Place(repo.path)
    run = place.finished()
    elsewhere = RunStore.at(str(tmp_path / "here"), ".runs", {**os.environ, "GIT_DIR": "/nowhere"})
    assert find.find(elsewhere, run.path).run_id == run.id
    bring(repo, f".runs/t1/cli/{run.id}/manifest.json")
    with pytest.raises(UsageError, match="there is no run at"):
        find.find(elsewhere, run.path)


def test_outside_of_git_nothing_is_tracked(tmp_path: Path) -> None:
    place = Place(tmp_path / "plain")
    run = place.finished()
    assert tracked(str(tmp_path), os.environ) == frozenset()
    assert listed(place) == [run.id]
