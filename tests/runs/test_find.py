"""Runs are listed whatever lies beside them, and found by what a person calls them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlm_ci.errors import DamagedError, StorageError, UsageError
from rlm_ci.runs import find
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.store import RunStore
from testing.repositories.delegated_runs import BAD_MANIFESTS
from testing.run_store import Place

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


def test_an_empty_store_has_no_runs(place: Place) -> None:
    assert find.entries(place.store) == []
    with pytest.raises(UsageError, match="no runs yet") as caught:
        find.find(place.store, "latest")
    assert caught.value.code == 2


def test_the_newest_comes_first_and_tasks_can_be_parted(place: Place) -> None:
    made = []
    for task in ("a", "b", "a"):
        made.append(place.finished(task=task).id)
        place.seconds += 0.25  # within one second, the ids alone do not tell
    assert [entry.run_id for entry in find.entries(place.store)] == made[::-1]
    assert [entry.run_id for entry in find.entries(place.store, "b")] == [made[1]]
    assert find.find(place.store, "latest").run_id == made[2]
    assert find.find(place.store, "latest", "b").run_id == made[1]


@pytest.mark.parametrize("content", BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_a_broken_neighbour_is_shown_and_hides_nobody(place: Place, content: str | bytes) -> None:
    good = place.finished()
    place.seconds += 60
    bad = place.finished()
    data = content.encode() if isinstance(content, str) else content
    Path(bad.path, "manifest.json").write_bytes(data)
    found = find.entries(place.store)
    assert [entry.status_at(place.seconds) for entry in found] == ["damaged", "succeeded"]
    assert find.find(place.store, "latest").run_id == good.id
    with pytest.raises(DamagedError):
        find.find(place.store, bad.id)


def test_links_and_strangers_are_no_runs(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    shutil.copytree(run.path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", os.path.join(os.path.dirname(run.path), "linked"))
    os.symlink(tmp_path, os.path.join(place.store.root, "linked-task"))
    Path(place.store.root, "file").write_text("x")
    Path(place.store.root, "t1", "cli", ".hidden").mkdir()
    assert [entry.run_id for entry in find.entries(place.store)] == [run.id]
    linked = os.path.join(os.path.dirname(run.path), "linked")
    for word in (linked, f"{linked}/manifest.json", ".runs/t1/cli/linked/manifest.json"):
        with pytest.raises(UsageError, match="there is no run at"):
            find.find(place.store, word)


def test_a_moved_run_is_damaged(place: Place) -> None:
    run = place.finished()
    moved = os.path.join(os.path.dirname(run.path), "another")
    os.rename(run.path, moved)
    with pytest.raises(DamagedError, match=run.id):
        find.find(place.store, "another")


def test_a_store_that_cannot_be_listed_is_an_error(place: Place) -> None:
    place.root.mkdir()
    (place.root / ".runs").write_text("no folder")
    with pytest.raises(StorageError, match="cannot be listed"):
        find.entries(place.store)


# -- finding one ---------------------------------------------------------------------------------


def test_every_way_to_name_a_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place.finished()
    place.seconds += 60
    place.finished()
    shown = f"{run.manifest.artifact_root}/manifest.json"
    for word in (run.id, run.id[:-2], shown, os.path.join(run.path, "manifest.json"), run.path):
        assert find.find(place.store, word).run_id == run.id, word
    monkeypatch.chdir(run.path)
    assert find.find(place.store, "manifest.json").run_id == run.id


def test_an_ambiguous_prefix_lists_what_it_may_mean(place: Place) -> None:
    ids = [place.finished().id for _ in range(7)]
    with pytest.raises(UsageError, match="7 runs begin with '2027'") as caught:
        find.find(place.store, "2027")
    assert sum(one in caught.value.hint for one in ids) == 5
    assert caught.value.hint.endswith("and 2 more")


@pytest.mark.parametrize(
    "word",
    ["", "..", "../../etc", "x\0y", "/etc/passwd", "a b", "-x", "\ud800", "nope", "a/../b",
     ".runs/t1/cli", "manifest.json"],
)  # fmt: skip
def test_what_means_no_run_is_wrong_use(place: Place, word: str) -> None:
    place.finished()
    with pytest.raises(UsageError) as caught:
        find.find(place.store, word)
    assert str(caught.value).isprintable()
    assert caught.value.hint


def test_a_near_match_is_offered(place: Place) -> None:
    run = place.finished()
    with pytest.raises(UsageError) as caught:
        find.find(place.store, run.id[:-1] + ("0" if run.id[-1] != "0" else "1"))
    assert run.id in caught.value.hint
    with pytest.raises(UsageError) as caught:
        find.find(place.store, "lastest")
    assert "latest" in caught.value.hint


def test_latest_is_no_run_that_another_one_started(place: Place) -> None:
    with place.create() as outer:
        outer.begin()
        place.seconds += 5
        inner = place.finished(parent_run_id=outer.id)
        outer.add_child(inner.manifest)
        assert find.find(place.store, "latest").run_id == outer.id


def test_a_run_of_another_store_is_found_and_not_taken_for_ours(
    place: Place, tmp_path: Path
) -> None:
    other = Place(tmp_path / "other repo")
    (other.root / ".git").mkdir(parents=True)
    (other.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    run = other.finished()
    found = find.find(place.store, f"{run.path}/manifest.json")
    assert found.run_id == run.id
    with pytest.raises(UsageError, match="belongs to another repository") as caught:
        find.require_in(place.store, found)
    assert caught.value.hint == f"add -C '{other.root}'"
    find.require_in(other.store, found)
    # By a link of ours, it is still theirs.
    (place.root / ".runs").mkdir(parents=True)
    (place.root / ".runs" / "t1").symlink_to(Path(run.path).parent.parent)
    through = find.find(place.store, str(place.root / ".runs/t1/cli" / run.id))
    with pytest.raises(UsageError, match="belongs to another repository"):
        find.require_in(place.store, through)


def test_only_what_tells_what_it_was_asked_for_can_be_resumed(place: Place) -> None:
    with place.create() as run:
        run.begin()
    entry = find.find(place.store, run.id)
    assert (entry.run.is_resumable, entry.is_resumable) == (True, False)
    Path(run.path, "request.json").write_text("{}")
    assert entry.is_resumable


# -- runs whose process is gone ------------------------------------------------------------------


def test_a_held_run_is_never_gone(place: Place) -> None:
    with place.create() as run:
        run.begin()
        entry = find.find(place.store, run.id)
        assert not entry.is_gone(place.seconds + 1e6)
        assert entry.status_at(place.seconds + 1e6) == "in_progress"


def test_a_run_that_nobody_holds_is_gone_after_a_while(place: Place) -> None:
    with place.create() as run:
        pass
    entry = find.find(place.store, run.id)
    assert entry.status_at(place.seconds + 29) == "queued"
    assert entry.status_at(place.seconds + 31) == "gone"
    assert not find.find(place.store, place.finished().id).is_gone(place.seconds + 1e6)


# -- pruning -------------------------------------------------------------------------------------

DAY = 86_400.0


def test_only_what_is_old_and_held_by_nobody_is_removed(place: Place) -> None:
    old = place.finished()
    abandoned = place.create()
    abandoned.begin()
    abandoned.close()
    held = place.create()
    held.begin()
    broken = place.finished()
    Path(broken.path, "manifest.json").write_text("{")
    os.utime(broken.path, (place.seconds, place.seconds))
    place.seconds += 31 * DAY
    young = place.finished()
    removed = find.prune(place.store, 30 * DAY, place.seconds)
    assert {entry.run_id for entry in removed} == {old.id, abandoned.id, broken.id}
    left = {entry.run_id for entry in find.entries(place.store)}
    assert left == {young.id, held.id}
    assert set(os.listdir(os.path.dirname(young.path))) == left
    held.close()


def test_pruning_follows_no_link(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    Path(run.path, "link").symlink_to(outside)
    find.prune(place.store, 0, place.seconds + 1)
    assert not os.path.exists(run.path)
    assert (outside / "precious").read_text() == "x"


@pytest.mark.parametrize("name", [".runs", ".runs/zz", ".runs/zz/cli"])
def test_no_store_is_pruned_through_a_link(place: Place, tmp_path: Path, name: str) -> None:
    """A repository brings the link; the folders that it leads to are somebody's."""
    outside = tmp_path / "outside"
    below = {".runs": "zz/cli/photos", ".runs/zz": "cli/photos", ".runs/zz/cli": "photos"}
    precious = outside / below[name]
    precious.mkdir(parents=True)
    os.utime(precious, (0, 0))
    link = place.root / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    for task in (None, "zz"):
        if name == ".runs":
            with pytest.raises(StorageError, match="is a link"):
                find.prune(place.store, 0, place.seconds, task)
        else:
            assert find.prune(place.store, 0, place.seconds, task) == []
    assert precious.is_dir()


def test_a_store_behind_a_link_of_the_repository_is_no_store(place: Place, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    place.root.mkdir()
    (place.root / "kept").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="leads elsewhere"):
        find.entries(RunStore.at(str(place.root), "kept/runs"))


def test_what_was_never_a_run_is_not_pruned(place: Place) -> None:
    run = place.finished()
    folder = Path(run.path).with_name("photos")
    folder.mkdir()
    os.utime(folder, (0, 0))
    assert [one.run_id for one in find.prune(place.store, 0, place.seconds + 9)] == [run.id]
    assert folder.is_dir()


def test_the_manifest_of_a_pruned_run_stays_in_the_metrics(place: Place) -> None:
    run = place.finished()
    find.prune(place.store, 0, place.seconds + 1)
    place.finished()
    text = Path(place.store.root, "t1", "metrics.json").read_text()
    assert run.id in text
    assert manifests.NAME in text


HOLD = """
import sys, time
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
root = sys.argv[1]
store = RunStore.at(root, ".runs")
run = Run.create(store, "t1", pipeline_id="ci", redactor=Redactor({}), out=root + "/out")
run.begin()
print(run.id, flush=True)
time.sleep(70)
"""


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are looked up in /proc")
def test_a_run_of_a_dead_process_that_nobody_reaps_is_gone_at_once(place: Place) -> None:
    argv = [sys.executable, "-c", HOLD, str(place.root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        entry = find.find(place.store, child.stdout.readline().strip())
        assert entry.status_at(time.time()) == "in_progress"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still there
        assert entry.status_at(time.time()) == "gone"


@pytest.mark.full
def test_a_run_is_pruned_whatever_an_agent_has_left_in_it(place: Place) -> None:
    """A copy that could not be removed stays with its run: deep, and closed."""
    run = place.finished()
    here = os.open(run.path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.fchmod(here, 0)
    os.close(here)
    assert [one.run_id for one in find.prune(place.store, 0, place.seconds + 9)] == [run.id]
    assert os.listdir(os.path.dirname(run.path)) == []
