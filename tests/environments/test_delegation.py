"""Children side by side: all of them run, in the bounds, whatever each of them does."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.delegation import ChildResult, ChildSlots, ChildTask, Delegation, reward
from rlm_ci.errors import LimitError, RemoteError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Tree:
    """Every node delegates as ``plan`` says; notes which ran, and how many at once."""

    def __init__(self, slots: int, plan: Callable[[Delegation], list[list[ChildTask]]]) -> None:
        self.slots = ChildSlots(slots)
        self.plan = plan
        self.ran: list[str] = []
        self.busy = self.most = 0
        self.lock = threading.Lock()
        self.results: dict[str, list[ChildResult]] = {}

    def node(self, task: ChildTask, here: Delegation) -> ChildResult:
        with self._at_work():
            self.ran.append(here.path)
        for tasks in self.plan(here):
            found = here.run(tasks)
            assert [one.answer for one in found if one.completed] == [
                task.task for task, one in zip(tasks, found, strict=True) if one.completed
            ]
            with self._at_work():
                self.results.setdefault(here.path, []).extend(found)
        return ChildResult(task.task, completed=True)

    def _at_work(self) -> Busy:
        return Busy(self)

    def run(self, **bounds: Any) -> ChildResult:
        root = Delegation(self.node, slots=self.slots, **bounds)
        return self.node(ChildTask("root"), root)


class Busy:
    """Work that needs a slot; it takes long enough for others to be there too."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __enter__(self) -> None:
        with self.tree.lock:
            self.tree.busy += 1
            self.tree.most = max(self.tree.most, self.tree.busy)
        threading.Event().wait(0.001)

    def __exit__(self, *_error: object) -> None:
        with self.tree.lock:
            self.tree.busy -= 1


def pair(here: Delegation, action: int = 0) -> list[ChildTask]:
    return [ChildTask(f"{here.path} does {action}.{number}") for number in range(2)]


def both_ways(here: Delegation) -> list[list[ChildTask]]:
    """Two at once, then two one after the other."""
    batch, first, second = pair(here), *([one] for one in pair(here, 1))
    return [batch, first, second] if here.depth < 2 else [batch]


@pytest.mark.parametrize(("slots", "parallelism"), [(1, 1), (2, 2), (2, 8), (7, 3)])
def test_every_child_runs_however_few_slots_there_are(slots: int, parallelism: int) -> None:
    tree = Tree(slots, lambda here: both_ways(here) if here.depth < 4 else [])
    assert tree.run(max_depth=4, parallelism=parallelism).completed
    number = 4 + 4 * 4 + 4 * 4 * (2 + 4)
    assert len(tree.ran) == len(set(tree.ran)) == 1 + number
    children = [one for results in tree.results.values() for one in results]
    assert len(children) == number
    assert all(one.completed for one in children)
    assert tree.most <= max(slots, 1)


def test_what_is_below_the_deepest_is_refused_and_no_more() -> None:
    tree = Tree(2, lambda here: [pair(here)])
    tree.run(max_depth=2)
    assert len(tree.ran) == 1 + 2 + 4
    refused = [one for results in tree.results.values() for one in results if one.skipped]
    assert len(refused) == 8
    assert {one.reward for one in refused} == {-0.3}
    assert all("do it yourself" in one.reason for one in refused)


def test_a_cycle_is_seen_by_the_lineage_alone() -> None:
    same = ChildTask("count  the\nlines", context="a.py")
    tree = Tree(2, lambda _here: [[same, same.replace(task="count the lines")]])
    root = Delegation(tree.node, slots=tree.slots, lineage=("x",), max_depth=9)
    found = root.run([same, same])
    assert [one.completed for one in found] == [True, True], "siblings alike are no cycle"
    below = [one for results in tree.results.values() for one in results]
    assert [one.reward for one in below] == [-0.25] * 4
    assert reward(below) == -0.25
    other = same.replace(context="b.py")
    assert root.child(same, 1).refusal(other) is None
    assert root.child(same, 1).child(other, 1).refusal(same) is not None


def test_a_child_that_fails_leaves_its_siblings_alone() -> None:
    errors: dict[str, Exception] = {
        "remote": RemoteError("no answer", where="model", hint="try again"),
        "spent": LimitError("the money is spent", budget="budget_usd"),
        "broken": ZeroDivisionError("a bug of an\x1b[31m engine"),
    }

    def child(task: ChildTask, _here: Delegation) -> ChildResult:
        if task.task in errors:
            raise errors[task.task]
        return ChildResult("done", completed=True, reward=0.5)

    root = Delegation(child, slots=ChildSlots(2))
    found = root.run([ChildTask(name) for name in (*errors, "fine")])
    assert [one.completed for one in found] == [False, False, False, True]
    assert ["no answer" in found[0].reason, "spent" in found[1].reason] == [True, True]
    assert found[2].reason == "ZeroDivisionError: a bug of an\\x1b[31m engine"
    assert reward(found) == pytest.approx(0.2 + 0.5 / 4 - 0.35 * 3 / 4)
    assert reward([]) == -0.3


def test_what_ends_the_run_is_raised_once_all_have_ended() -> None:
    ended = []

    def child(task: ChildTask, _here: Delegation) -> ChildResult:
        if task.task == "0":
            raise StorageError("the disk is full", where="run", hint="make room")
        ended.append(task.task)
        return ChildResult("", completed=True)

    slots = ChildSlots(2)
    root = Delegation(child, slots=slots)
    with pytest.raises(StorageError, match="disk is full"):
        root.run([ChildTask(str(number)) for number in range(8)])
    assert len(ended) < 7, "no more begin"
    assert all(one.completed for one in root.run([ChildTask("a"), ChildTask("b")]))


def test_the_time_is_shared() -> None:
    begun = []

    def child(task: ChildTask, here: Delegation) -> ChildResult:
        begun.append(task.task)
        here.deadline = monotonic()
        root.deadline = here.deadline
        return ChildResult("", completed=True)

    root = Delegation(child, slots=ChildSlots(1), deadline=monotonic() + 600)
    found = root.run([ChildTask("a"), ChildTask("b"), ChildTask("c")])
    assert begun == ["a"]
    assert [one.completed for one in found] == [True, False, False]
    assert "the time was over" in found[1].reason
    assert not found[1].skipped


def test_paths_name_each_child_alike_in_each_run() -> None:
    paths = []
    for _ in range(2):
        tree = Tree(3, lambda here: both_ways(here) if here.depth < 2 else [])
        tree.run()
        paths.append(sorted(tree.ran))
    assert paths[0] == paths[1]
    assert {"root", "root/1.1", "root/1.2", "root/2.1", "root/3.1/1.2"} <= set(paths[0])


NO_THREADS = """
import resource, sys, threading
from rlm_ci.environments.delegation import ChildResult, ChildSlots, ChildTask, Delegation
from rlm_ci.errors import UnavailableError

def child(task, here):
    if here.depth == 1 and task.task == "a":
        threading.stack_size(1 << 30)  # more than there is
    if here.depth < 3:
        here.run([ChildTask("b"), ChildTask("c")])
    return ChildResult("", completed=True)

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
try:
    Delegation(child, slots=ChildSlots(2), max_depth=9).run([ChildTask("a"), ChildTask("d")])
except UnavailableError as error:
    print(error, error.hint)
"""


@pytest.mark.full
def test_where_the_system_has_no_thread_left_it_says_so() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", NO_THREADS], capture_output=True, text=True, timeout=60, check=False
    )
    assert "a child could not be started: can't start new thread" in ended.stdout, ended.stderr
    assert "lower --parallelism" in ended.stdout


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
def test_any_tree_gets_done(seed: int) -> None:
    """Nodes delegate as often and to as many as their path says, and some fail."""

    def plan(here: Delegation) -> list[list[ChildTask]]:
        chance = random.Random(f"{seed}{here.path}")
        return [
            [ChildTask(f"{here.path} {action}.{at}") for at in range(chance.randint(1, 4))]
            for action in range(chance.randint(0, 3))
        ]

    def node(task: ChildTask, here: Delegation) -> ChildResult:
        tree.node(task, here)
        if random.Random(f"{seed}{task.task}").random() < 0.2:
            raise RemoteError("no answer", where="model", hint="")
        return ChildResult(task.task, completed=True)

    slots, wide = 1 + seed % 4, 1 + seed % 3
    tree = Tree(slots, lambda here: plan(here) if here.depth < 4 else [])
    root = Delegation(node, slots=tree.slots, max_depth=4, parallelism=wide)
    wanted = 0
    for tasks in [[ChildTask("one"), ChildTask("two"), ChildTask("three")], [ChildTask("four")]]:
        assert len(root.run(tasks)) == len(tasks)
        wanted += len(tasks)
    wanted += sum(map(len, tree.results.values()))
    assert len(tree.ran) == len(set(tree.ran)) == wanted
    assert tree.most <= slots
