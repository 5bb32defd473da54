"""Two runs at once on one pull request: one summary, no finding twice, the newest head's words."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from rlm_ci.github.posting import review_threads
from rlm_ci.github.posting.outcome import PostingOptions, Publication
from testing.loopback_github.scene import BOT, NAME, NUMBER
from testing.loopback_github.server import Request
from testing.posting_stage import Stage, once

pytestmark = pytest.mark.full

OTHER = "t-bot-2"
Run = Callable[[], Publication]


class Race:
    """Two runs: of the old head and, once that is pushed, of the new one; or of one head."""

    def __init__(self, stage: Stage, *, same: bool, known: bool, wishes: PostingOptions) -> None:
        self.stage = stage
        stage.github.token(OTHER)
        if known:
            stage.publish(stage.report(58), "before", wishes=wishes)
        old = stage.report(10, 58)
        if not same:
            stage.git.run("commit", "--allow-empty", "-qm", "newer")
        new = stage.report(40, 58)
        self.head = new.subject.head
        self.same = same
        self.old = stage.publisher(old, "old", token=BOT, wishes=wishes)
        self.new = stage.publisher(new, "new", token=OTHER, wishes=wishes)

    def push(self) -> None:
        if not self.same:
            self.stage.github.push(NAME, NUMBER, "feature")

    def judge(self) -> None:
        stage = self.stage
        last = stage.last  # there is only one
        assert last.head == self.head
        assert last.run == "new" or self.same
        assert f"problem {40 if last.run == 'new' else 10}" in stage.summary
        marks = Counter(review_threads.read_marker(one.body) for one in stage.state.review_comments)
        assert max(marks.values(), default=0) <= 1, marks


STICKY = PostingOptions(comment="sticky")
#: Nobody has a copy of the words but the comment's own history.
ALONE = STICKY.replace(check_run=False)


@pytest.mark.parametrize("known", [False, True], ids=["first", "later"])
@pytest.mark.parametrize(
    ("when", "inner"), [*itertools.product(["before", "after"], ["new", "old", "same"])]
)
@pytest.mark.parametrize("boundary", range(7))
def test_a_whole_run_in_the_middle_of_another(
    stage: Stage, boundary: int, when: str, inner: str, *, known: bool
) -> None:
    wishes = (STICKY, ALONE)[(boundary + known) % 2]
    race = Race(stage, same=inner == "same", known=known, wishes=wishes)
    results: list[Publication] = []
    if inner == "old":
        race.push()

    def meanwhile() -> None:
        if inner != "old":
            race.push()
        results.append((race.old if inner == "old" else race.new).publish())

    hook = once(meanwhile)
    fault = stage.github.fault(
        "*", "*", skip=boundary, before=hook if when == "before" else None,
        after=hook if when == "after" else None,
    )  # fmt: skip
    results.append((race.new if inner == "old" else race.old).publish())
    if not fault.hits:  # it has fewer requests: then one after the other
        meanwhile()
    assert all(one.ok for one in results), results
    race.judge()


class Turns:
    """Lets the requests of two runs through one at a time, in an order that is drawn."""

    def __init__(self, draw: random.Random, first: Callable[[], None]) -> None:
        self._draw = draw
        self._first = first
        self._moved = threading.Condition()
        self._waiting: set[str] = set()
        self._running = {BOT, OTHER}
        self._turn: str | None = None
        self.order: list[str] = []

    def before(self, request: Request) -> None:
        who = request.headers["authorization"].split()[1]
        with self._moved:
            self._waiting.add(who)
            self._next()
            assert self._moved.wait_for(lambda: self._turn == who, timeout=20)
            if who == OTHER and OTHER not in self.order:
                self._first()
            self.order.append(who)

    def after(self, _request: Request) -> None:
        with self._moved:
            if self._turn:
                self._waiting.discard(self._turn)
            self._turn = None
            self._next()

    def ended(self, who: str) -> None:
        with self._moved:
            self._running.discard(who)
            self._next()

    def _next(self) -> None:
        """Draw once everybody who still runs stands at a request."""
        if self._turn is None and self._waiting and self._waiting >= self._running:
            self._turn = self._draw.choice(sorted(self._waiting))
            self._moved.notify_all()


def interleaved(stage: Stage, race: Race, seed: int) -> Iterator[Publication]:
    turns = Turns(random.Random(seed), race.push)
    stage.github.fault("*", "*", times=None, before=turns.before, after=turns.after)
    results: list[Publication] = []

    def run(token: str, publish: Run) -> None:
        try:
            results.append(publish())
        finally:
            turns.ended(token)

    threads = [
        threading.Thread(target=run, args=(BOT, race.old.publish)),
        threading.Thread(target=run, args=(OTHER, race.new.publish)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), turns.order
    assert len(results) == 2
    yield from results


def _race(stage: Stage, seeds: Sequence[int], *, same: bool, wishes: PostingOptions) -> None:
    for seed in seeds:
        stage.github.faults.clear()
        for rows in (stage.state.comments, stage.state.review_comments, stage.home.checks):
            rows.clear()
        stage.state.resolved.clear()
        stage.github.push(NAME, NUMBER, "feature")
        race = Race(stage, same=same, known=seed % 2 == 0, wishes=wishes)
        log = stage.github.log = []
        try:
            assert all(one.ok for one in interleaved(stage, race, seed))
            race.judge()
        except AssertionError as error:
            told = [f"{one.headers['authorization'][6:]} {one.method} {one.path}" for one in log]
            raise AssertionError("\n".join([f"seed {seed}", *told])) from error


@pytest.mark.parametrize("wishes", [STICKY, ALONE], ids=["check run", "alone"])
@pytest.mark.parametrize("same", [False, True], ids=["two heads", "one head"])
def test_requests_in_any_order(stage: Stage, same: bool, wishes: PostingOptions) -> None:
    _race(stage, range(12), same=same, wishes=wishes)


@pytest.mark.parametrize("same", [False, True], ids=["two heads", "one head"])
def test_review_comments_in_any_order(stage: Stage, same: bool) -> None:
    _race(stage, range(8), same=same, wishes=PostingOptions())


@pytest.mark.parametrize(
    "wishes",
    [STICKY, PostingOptions(), ALONE, PostingOptions(check_run=False)],
    ids=["summary", "review", "summary alone", "review alone"],
)
@pytest.mark.parametrize("same", [False, True], ids=["two heads", "one head"])
def test_requests_in_many_orders(stage: Stage, same: bool, wishes: PostingOptions) -> None:
    _race(stage, range(100, 107), same=same, wishes=wishes)


def late(stage: Stage, wishes: PostingOptions, act: Callable[[], object] = bool) -> Race:
    """An older run wrote over all that a newer one had said; ``act`` comes between the two."""
    race = Race(stage, same=False, known=True, wishes=wishes)

    def meanwhile() -> None:
        race.push()
        assert race.new.publish().ok
        act()

    # Between looking for the summary and writing it.
    stage.github.fault("PATCH", "*/comments/*", before=once(meanwhile))
    return race


@pytest.mark.parametrize("app", ["github-actions", "mallory-ci"])
def test_without_a_history_the_newer_words_are_taken_from_our_check_run_alone(
    stage: Stage, app: str
) -> None:
    def theirs() -> None:
        stage.github.fault("POST", "/graphql", status=403, times=None)
        for one in stage.home.checks:
            one.app = app

    race = late(stage, STICKY, theirs)
    assert race.old.publish().ok
    if app == "github-actions":
        race.judge()
    else:
        assert "problem 10" in stage.summary
        assert "moved on" in stage.summary
        assert stage.last.head != race.head


@pytest.mark.parametrize("wishes", [STICKY, ALONE], ids=["check run", "alone"])
def test_the_newer_words_are_put_back_from_the_comments_own_history(
    stage: Stage, wishes: PostingOptions
) -> None:
    race = late(stage, wishes)
    assert race.old.publish().ok
    race.judge()
    assert stage.summary.count("problem 40") == 1
    assert len(stage.summaries) == 1


def test_no_words_are_put_back_that_somebody_else_wrote(stage: Stage) -> None:
    """A person has edited our comment in between, as whoever may write can."""

    def forge() -> None:
        (comment,) = stage.state.comments
        theirs = comment.body.replace("problem 40", "merge me")
        now = stage.github.world.now()
        comment.edits[:] = [replace(one, editor="eve") for one in comment.edits]
        comment.edit(theirs, "eve", now)

    race = late(stage, ALONE, forge)
    assert race.old.publish().ok
    assert "merge me" not in stage.summary
    assert "moved on" in stage.summary
    assert stage.last.head != race.head


def test_a_summary_of_the_changes_is_no_text_to_put_back(stage: Stage) -> None:
    def summarised() -> None:
        (comment,) = stage.state.comments
        comment.edits[:] = [
            replace(one, text=f"@@ -1 +1 @@\n-old\n+{one.text}") for one in comment.edits
        ]

    race = late(stage, ALONE, summarised)
    assert race.old.publish().ok
    assert "moved on" in stage.summary
    assert "@@ -1" not in stage.summary


def test_while_it_puts_them_back_the_next_push_is_judged(stage: Stage) -> None:
    """Two newer heads, one after the other, each while the late run writes."""
    race = late(stage, ALONE)
    heads: list[str] = []

    def again() -> None:
        if heads:
            return
        stage.git.run("commit", "--allow-empty", "-qm", "newest")
        stage.github.push(NAME, NUMBER, "feature")
        report = stage.report(30, 58)
        heads.append(report.subject.head or "")
        assert stage.publisher(report, "newest", token=OTHER, wishes=ALONE).publish().ok

    # The second time that the late run writes: the first is the one that it makes good.
    def second(request: Request) -> None:
        if race.stage.git.sha("feature") == race.head and "problem 40" in str(request.body):
            again()

    stage.github.fault("PATCH", "*/comments/*", times=None, before=second)
    assert race.old.publish().ok
    assert heads
    assert stage.last.head == heads[0]
    assert "problem 30" in stage.summary


@pytest.mark.parametrize("known", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("denied", [False, True], ids=["switched off", "not allowed"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("path", [f"*/pulls/{NUMBER}", "/graphql", f"*/issues/{NUMBER}/comments"])
def test_without_a_check_run_a_late_run_looks_before_it_writes(
    stage: Stage, path: str, when: str, denied: bool, known: bool
) -> None:
    """Nobody has a copy of what it would write over."""
    race = Race(stage, same=False, known=known, wishes=STICKY.replace(check_run=denied))
    results: list[Publication] = []

    def meanwhile() -> None:
        race.push()
        results.append(race.new.publish())

    hook = once(meanwhile)
    if denied:
        stage.github.fault("*", "*/check-runs", times=None, status=403)
    stage.github.fault(
        "*", path, before=hook if when == "before" else None,
        after=hook if when == "after" else None,
    )  # fmt: skip
    results.append(race.old.publish())
    assert [one.summary for one in results] == ["updated" if known else "posted", "skipped"]
    race.judge()
