"""Two runs that end at once in one work tree: one result is in it, whole, and the other is told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.system import lock
from rlm_ci.workspace.apply import STAGING
from testing.workspaces import opened, shape, workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.workspace.workspace import Workspace
    from testing.repositories.git_repo import GitRepo

#: Puts a result into a work tree. It says "waits" whenever it cannot have the lock, and stops at
#: its ``when``-th step until it is let go on.
_LANDER = """
import os, sys
from testing.workspaces import opened
from rlm_ci.workspace.workspace import Workspace
root, place, tree, when = sys.argv[1:]
left, locks = int(when), 0
STEPS = ("os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "fcntl.flock",
         "subprocess.Popen")
def tick(event, args):
    global left, locks
    if event == "fcntl.flock":
        locks += 1
        if locks > 1:
            os.write(1, b"waits\\n")
    if event in STEPS:
        left -= 1
        if left == -1:
            os.write(1, b"pauses\\n")
            os.read(0, 1)
from pathlib import Path
repository = opened(Path(root))
space = Workspace(place, repository, dict(os.environ))
sys.addaudithook(tick)
landed = space.apply_to(repository, tree)
os.write(1, (landed.reason or "done").encode() + b"\\n")
"""
_CHANGED = "the work tree has changed meanwhile: "


class Lander:
    """A process that lands the result of ``space``."""

    def __init__(self, repo: GitRepo, place: Path, space: Workspace, when: int = -1) -> None:
        words = [str(repo.path), str(place), space.tree(), str(when)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LANDER, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )
        self._stop = False

    def says(self) -> str:
        """Its next line; "" once it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def go_on(self) -> None:
        """Let it go on, if it is there to hear it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(b".")
            self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> str:
        """The last thing that it says; "" if it was killed before."""
        said = ""
        while line := self.says():
            said = line
        code = self._process.wait(60)
        assert code in (0, -signal.SIGKILL)
        return said if code == 0 else ""

    def clean(self) -> None:
        self._process.kill()
        self._process.communicate()


class Scene:
    """A repository, and two runs in it whose results touch the same files, and others."""

    def __init__(self, repo: GitRepo, folder: Path) -> None:
        self.repo = repo
        repo.write(".gitignore", "*.log\n").write("app.py", "x = 1\n").write("old/gone.py", "1\n")
        repo.write("shared.py", "1\n").commit()
        self.places = (folder / "one", folder / "two")
        self.spaces = tuple(workspace(repo, place) for place in self.places)
        self.before = shape(repo.path)
        for number, space in enumerate(self.spaces):
            copy = Path(space.path)
            (copy / "app.py").write_text(f"x = 'run {number}'\n")
            (copy / "new").mkdir()
            (copy / "new" / f"{number}.py").write_text(f"{number}\n")
            (copy / "new" / "both.py").write_text(f"by {number}\n")
        (Path(self.spaces[0].path) / "old" / "gone.py").unlink()
        (Path(self.spaces[1].path) / "shared.py").unlink()
        self.after = [shape(space.path) for space in self.spaces]
        self._landers: list[Lander] = []

    def lander(self, number: int, when: int = -1) -> Lander:
        lander = Lander(self.repo, self.places[number], self.spaces[number], when)
        self._landers.append(lander)
        return lander

    def clean(self) -> None:
        for one in self._landers:
            one.clean()

    def require_one(self, said: list[str]) -> int:
        """One result is there, all of it, and the other run knows; which one."""
        now = shape(self.repo.path)
        assert now in self.after, said
        which = self.after.index(now)
        assert said[which] == "done"
        assert said[1 - which].startswith(_CHANGED)
        assert not (self.repo.path / STAGING).exists()
        return which


@pytest.fixture
def scene(repo: GitRepo, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(repo, tmp_path)
    yield made
    made.clean()


def interleave(scene: Scene, when: int, kill: bool) -> list[str]:
    """The first stops at ``when``; the other one begins, and ends or waits; the first goes on."""
    first = scene.lander(0, when)
    has_paused = first.says() == "pauses"
    second = scene.lander(1)
    said = second.says()
    if kill:
        first.signal(signal.SIGKILL)
    elif has_paused:
        first.go_on()
    return [first.end() if has_paused else "done", second.end() or said]


#: Steps of the landing of the first at which it can wait.
STEPS = 29


@pytest.mark.full
@pytest.mark.parametrize("when", range(0, STEPS + 1, 2))
def test_a_landing_that_waits_at_any_step(when: int, scene: Scene) -> None:
    scene.require_one(interleave(scene, when, kill=False))


def check_killed(scene: Scene, when: int) -> None:
    said = interleave(scene, when, kill=True)
    now = shape(scene.repo.path)
    if said[1] == "done":  # what the killed one had done was undone before
        assert now == scene.after[1]
    else:  # it had done all of it
        assert said[1].startswith(_CHANGED)
        assert now == scene.after[0]
    again = scene.spaces[0].apply_to(opened(scene.repo.path), scene.spaces[0].tree())
    assert again.done == (said[1] != "done"), again
    assert shape(scene.repo.path) == now
    assert not (scene.repo.path / STAGING).exists()


@pytest.mark.full
@pytest.mark.parametrize("when", range(1, STEPS + 1, 2))
def test_a_landing_that_is_killed_at_any_step_while_another_waits(when: int, scene: Scene) -> None:
    check_killed(scene, when)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(24))
def test_two_landings_that_both_wait_and_may_be_killed(seed: int, scene: Scene) -> None:
    rand = random.Random(seed)
    landers = [scene.lander(number, rand.randrange(45)) for number in (0, 1)]
    said = ["", ""]
    for number in rand.sample((0, 1), 2):
        said[number] = landers[number].says()
        if said[number] == "pauses" and rand.random() < 0.4:
            landers[number].signal(signal.SIGKILL)
    for number in rand.sample((0, 1), 2):
        landers[number].go_on()
    ended = [one.end() for one in landers]
    repository = opened(scene.repo.path)
    for number in rand.sample((0, 1), 2):  # the killed are resumed
        if not ended[number] and said[number] in ("pauses", "waits"):
            space = scene.spaces[number]
            ended[number] = space.apply_to(repository, space.tree()).reason or "done"
    scene.require_one([ended[number] or said[number] for number in (0, 1)])


def test_a_landing_does_not_wait_for_ever(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    repository, space = opened(scene.repo.path), scene.spaces[0]
    with lock.exclusive(str(scene.repo.path / STAGING)):
        landed = space.apply_to(repository, space.tree())
        assert landed.reason == f"process {os.getpid()} is putting a result into the work tree"
        assert shape(scene.repo.path, b".rlm-ci-landing.tmp") == scene.before
    assert space.apply_to(repository, space.tree()).done
    scene.require_one(["done", _CHANGED])
