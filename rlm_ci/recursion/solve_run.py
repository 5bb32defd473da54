"""One run of the solver: probe, decide, analyse or split, aggregate, until the root is done.

All that is decided is decided on one thread, which also keeps the journals. Others only compute,
or wait for a model.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from itertools import islice

from rlm_ci import errors
from rlm_ci.recursion import coverage
from rlm_ci.recursion.corpus.corpus import digest_of
from rlm_ci.recursion.journal import journal
from rlm_ci.recursion.node_work import NodeWork, is_fatal, raise_fatal, require_time, told
from rlm_ci.recursion.nodes import (
    COMPLETED,
    FAILED,
    LEAF,
    SPLIT,
    LeafTask,
    LeafText,
    NodeProbe,
    NodeResult,
)
from rlm_ci.recursion.scheduler import DFS, Frontier, Slots
from rlm_ci.recursion.split import file_slices, tree
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.recursion.corpus.corpus import CorpusFile
    from rlm_ci.recursion.journal.run_json import RunOverview
    from rlm_ci.recursion.limits import Budget, Constraints
    from rlm_ci.recursion.node_work import SolveContext
    from rlm_ci.recursion.nodes import Node
    from rlm_ci.recursion.objective import Objective
    from rlm_ci.recursion.split.tree import Part

#: Bytes of texts that are read ahead, and for how many leaves.
_AHEAD_BYTES: Final = 8 << 20
_AHEAD: Final = 256
#: Calls that wait in an executor for each of our slots, so that its workers never do.
_QUEUED: Final = 2
_LATE: Final = (LEAF, tree.DEADLINE_EXCEEDED, 1.0)
_SMALL: Final = (LEAF, tree.SMALL_ENOUGH, 1.0)
#: Why a part was not looked at.
_FAILED: Final = "failed"


class SolveRun:
    """The run over one root."""

    def __init__(
        self,
        means: SolveContext,
        objective: Objective,
        budget: Budget,
        constraints: Constraints,
        told: RunOverview,
    ) -> None:
        self._corpus = corpus = means.corpus
        self._store = means.store
        executor = means.executor
        self._objective = objective
        self._budget = budget
        self._constraints = constraints
        self._ask = means.ask
        self._told = told
        self._tree = tree.SplitTree(corpus, constraints.shape)
        self._frontier = Frontier(constraints.order, self._risk)
        self._slots = Slots(constraints.concurrency, is_fatal)
        self._executor = executor
        self._room = constraints.concurrency
        if executor is not None:
            count = getattr(executor, "count", constraints.concurrency)
            self._room = max(constraints.concurrency, _QUEUED * count)
        #: Ready ones wait for a thread, not the threads for this one, which has more to do.
        self._ahead = self._room + (0 if means.ask is None else constraints.concurrency)
        self._ready: deque[NodeWork] = deque()
        self._deadline = None if budget.minutes is None else time.monotonic() + 60 * budget.minutes
        self._root: int | None = None

    def run(self, node: Node) -> NodeResult:
        kind, path, first, last, start, end = node.scope
        size = self._tree.size(first, last)
        whole = NodeWork(
            node.id, None, 0, node.depth, (kind, path, first, last, start or 0, end or 0, size)
        )
        try:
            if self._enter((whole,), node.parent):
                self._root = whole.kept
            else:
                self._frontier.add((whole,))
            while self._root is None:
                self._step()
        finally:
            self._slots.close()
        self._store.flush()
        result = self._store.results((self._root,))[0]
        self._told.end(result, self._store.seq)
        return result

    def _step(self) -> None:
        """Begin what there is room for, and hear of what has ended."""
        store, slots, ready = self._store, self._slots, self._ready
        for _ in range(_AHEAD):
            if self._root is not None or slots.busy >= self._limit():
                break
            if not ready:
                self._read_ahead()
                if not ready:
                    break
            leaf = ready.popleft()
            if self._deadline is not None and self._is_over():
                leaf.decision = _LATE
                self._miss(leaf)
            else:
                self._begin(leaf)
            store.beat()
        self._told.look(self._store.seq)
        if self._root is None and self._slots.busy:
            while not self._slots.wait(self._store.idle() or None):
                pass

    def _limit(self) -> int:
        """How much may be under way, or wait for a thread."""
        left = self._budget.calls_left
        if self._ready or left is None or left() is None:
            return self._ahead
        return self._room  # what is decided by the calls that are left is decided late

    # ── whose turn it is ──

    def _read_ahead(self) -> None:
        """Make leaves ready, with their texts; on the way to them, nodes are split."""
        leaves: list[NodeWork] = []
        size = 0
        frontier = self._frontier
        while self._root is None and frontier and len(leaves) < _AHEAD and size < _AHEAD_BYTES:
            branch = frontier.pop()
            if self._is_split(branch):
                if leaves and self._constraints.order == DFS:
                    break
            elif branch.kept is not None:
                self._keep(branch)
            elif branch.decision == _LATE:
                self._miss(branch)
            else:
                leaves.append(branch)
                size += branch.part[6]
        if leaves:
            self._store.event(journal.DEQUEUED, [leaf.id for leaf in leaves])
        files: list[CorpusFile] = []
        for leaf in leaves:
            files += self._tree.files(leaf.part)
        pairs = zip(files, self._corpus.read(files) if files else (), strict=True)
        for leaf in leaves:
            leaf.texts = _texts(leaf.part, pairs)
        self._ready.extend(leaves)

    def _risk(self, branch: NodeWork) -> float:
        return self._objective.risk(self._probe(branch, ()))

    def _probe(self, branch: NodeWork, parts: Sequence[Part]) -> NodeProbe:
        size = branch.part[6]
        files = self._tree.files(branch.part)
        largest = max((part[6] for part in parts), default=size)
        share = largest / size if size and parts else 1.0
        return NodeProbe.of(
            (branch.node(), len(files), size, len(parts), share, partial(digest_of, files))
        )

    # ── leaf or split ──

    def _is_split(self, branch: NodeWork) -> bool:
        """Decide of a node; one that is split has its children queued."""
        known = self._store.decided(branch.id) if self._store.resumed else None
        if known and known[0] == LEAF and self._is_over():
            known = None
        branch.decision, parts = (known, ()) if known else self._decide(branch)
        if branch.decision[0] == LEAF:
            return False
        parts = parts or self._tree.parts(branch.part)
        branch.split(parts)
        depth = branch.depth + 1
        files = self._corpus.files
        children = [
            NodeWork(tree.identity(branch.id, part, files), branch, place, depth, part)
            for place, part in enumerate(parts)
        ]
        if not known:
            self._store.running(branch.id, branch.decision, [one.id for one in children])
            self._store.event(journal.SPLIT, (branch.id,))
        ended = self._enter(children, branch.id)
        self._frontier.add([one for one in children if one not in ended] if ended else children)
        for child in ended:
            self._close(child, child.kept or 0)
        return True

    def _enter(self, some: Sequence[NodeWork], parent: str | None) -> Collection[NodeWork]:
        """Write down that siblings wait, unless that is known; those that have come to an end."""
        store = self._store
        fresh = some
        ended: Collection[NodeWork] = ()
        if store.resumed:
            for one in some:
                one.kept = store.found(one.id)
            fresh = [one for one in some if not store.is_known(one.id)]
            kept = [one for one in some if one.kept is not None and store.is_ended(one.id)]
            ended = dict.fromkeys(kept)  # asked for each of them, in order
        if fresh:
            depth = fresh[0].depth
            for one in fresh:
                store.queued(one.id, parent, depth, one.part)
            self._told.entered(len(fresh), depth)
            if fresh[0].parent is not None:
                store.event(journal.ENQUEUED, [one.id for one in fresh])
        return ended

    def _decide(self, branch: NodeWork) -> tuple[tuple[str, str, float], Sequence[Part]]:
        """Leaf or split, the reason, how sure we are; and the parts of a split."""
        part, budget = branch.part, self._budget
        if self._deadline is not None and self._is_over():
            return _LATE, ()
        if self._tree.is_small(part):
            return _SMALL, ()
        if branch.depth >= budget.max_depth:
            return (LEAF, tree.MAX_DEPTH_REACHED, 1.0), ()
        left = budget.calls_left() if budget.calls_left is not None else None
        if left is not None and left < budget.reserve:
            return (LEAF, tree.BUDGET_BELOW_RESERVE, 1.0), ()
        confidence = self._tree.confidence(part)
        if confidence < max(self._constraints.min_confidence, 1e-9):
            return (LEAF, tree.SPLIT_CONFIDENCE_LOW, confidence), ()
        parts = self._tree.parts(part)
        if self._objective.settled(self._probe(branch, parts)) is not None:
            return (LEAF, tree.SETTLED, confidence), ()
        is_large = part[6] > self._constraints.shape.leaf_bytes
        return (SPLIT, tree.TOO_LARGE if is_large else tree.TOO_MANY_FILES, confidence), parts

    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _miss(self, branch: NodeWork) -> None:
        """It is too late for a leaf."""
        self._store.running(branch.id, _LATE)
        self._fail(branch, journal.DEADLINE, "")

    # ── leaves ──

    def _begin(self, leaf: NodeWork) -> None:
        self._store.running(leaf.id, leaf.decision or (LEAF, "", 0.0), (), leaf.attempt)
        objective = self._objective
        task = LeafTask(leaf.node(), leaf.texts, objective.options)

        if self._executor is None:
            try:
                analysis = objective.analyse(task)
            except Exception as error:  # noqa: BLE001 - an attempt that failed
                self._repeat(leaf, error)
            else:
                self._judge(leaf, task, analysis)
            return

        def analysed(analysis: Any, error: BaseException | None) -> None:
            if error is None:
                self._judge(leaf, task, analysis)
            else:
                self._repeat(leaf, error)

        self._slots.compute(self._executor, objective.analyse, task, analysed)

    def _judge(self, leaf: NodeWork, task: LeafTask, analysis: Mapping[str, Any]) -> None:
        node, judge = task.node, self._objective.judge
        if self._ask is None:
            try:
                self._judged(leaf, judge(node, task, analysis, None))
            except Exception as error:  # noqa: BLE001 - an attempt that failed
                self._repeat(leaf, error)
            return
        ask = self._ask(node)

        def judged(result: Any, error: BaseException | None) -> None:
            if error is None:
                self._judged(leaf, result)
            elif self._is_last(leaf, error):
                self._alone(leaf, error, lambda: judge(node, task, analysis, None))
            else:
                self._repeat(leaf, error)

        def turn() -> NodeResult:
            require_time(self._deadline)
            return judge(node, task, analysis, ask)

        self._slots.ask(turn, judged, first=leaf.attempt > 1)

    def _is_last(self, branch: NodeWork, error: BaseException) -> bool:
        """Whether no further attempt is made with a model, and one without it is."""
        is_over = branch.attempt >= self._constraints.attempts
        return not is_fatal(error) and (isinstance(error, errors.LimitError) or is_over)

    def _alone(self, node: NodeWork, error: BaseException, call: Callable[[], NodeResult]) -> None:
        """What can be had without the model that failed: that is not lost with it."""
        word = _FAILED
        if isinstance(error, errors.LimitError):
            word = journal.BUDGET
        elif isinstance(error, errors.RemoteError):
            word = journal.REMOTE
        node.errors = (*node.errors, told(error))
        is_split = node.decision is not None and node.decision[0] == SPLIT
        paths = (
            [encodable(node.part[1]) or "."]
            if is_split
            else [file.path for file in self._tree.files(node.part)]
        )
        try:
            result = coverage.without_model(call(), paths, word, str(error))
        except Exception as other:  # noqa: BLE001 - then it failed
            raise_fatal(other)
            node.errors = (*node.errors, told(other))
            self._fail(node, word, str(error))
            return
        if is_split:
            self._aggregated(node, result, self._store.results(node.ends))
        else:
            self._judged(node, result)

    def _judged(self, leaf: NodeWork, result: NodeResult) -> None:
        if result.uncovered or result.node_id != leaf.id:
            result = coverage.of_leaf(leaf.id, result, self._tree.files(leaf.part))
        self._end(leaf, result, journal.DONE)

    def _repeat(self, branch: NodeWork, error: BaseException) -> None:
        """Another attempt, or the end of a node that has had all of them."""
        raise_fatal(error)
        branch.errors = (*branch.errors, told(error))
        if branch.attempt >= self._constraints.attempts:
            self._fail(branch, _FAILED, str(error) or type(error).__name__)
            return
        branch.attempt += 1
        self._store.event(journal.REQUEUED, (branch.id,))
        if branch.decision is not None and branch.decision[0] == SPLIT:
            self._aggregate(branch)
        else:
            self._ready.appendleft(branch)

    def _fail(self, branch: NodeWork, word: str, what: str) -> None:
        if not branch.errors:
            branch.errors = ((errors.LIMIT, what or word, True),)
        files = self._tree.files(branch.part)
        self._end(branch, coverage.failed(branch.id, files, word, what), journal.FAILURE)

    # ── what is above ──

    def _aggregate(self, branch: NodeWork) -> None:
        if branch.kept is not None:
            self._keep(branch)
            return
        children = self._store.results(branch.ends)
        node, aggregate = branch.node(), self._objective.aggregate
        if self._ask is None or all(child.status == FAILED for child in children):
            try:
                self._aggregated(branch, aggregate(node, children, None), children)
            except Exception as error:  # noqa: BLE001 - an attempt that failed
                self._repeat(branch, error)
            return
        ask = self._ask(node)

        def aggregated(result: Any, error: BaseException | None) -> None:
            if error is None:
                self._aggregated(branch, result, children)
            elif self._is_last(branch, error):
                self._alone(branch, error, lambda: aggregate(node, children, None))
            else:
                self._repeat(branch, error)

        self._slots.ask(lambda: aggregate(node, children, ask), aggregated, first=True)

    def _aggregated(
        self, branch: NodeWork, result: NodeResult, children: Sequence[NodeResult]
    ) -> None:
        result = coverage.of_split(branch.id, result, children, branch.sizes)
        self._end(branch, result, journal.AGGREGATED)

    def _keep(self, branch: NodeWork) -> None:
        """A result that was written, of a node of which no more was."""
        number = branch.kept or 0
        status = self._store.status(number)
        decision = branch.decision or (LEAF, "", 0.0)
        if decision[0] == LEAF and not self._store.decided(branch.id):
            self._store.running(branch.id, decision)
        self._finish(branch, number, status, journal.DONE)

    def _end(self, branch: NodeWork, result: NodeResult, event: str) -> None:
        try:
            number = self._store.result(result, branch.children)
        except (TypeError, ValueError) as error:  # the objective's own data are no JSON
            if event == journal.FAILURE:
                raise
            self._repeat(branch, error)
            return
        self._finish(branch, number, result.status, event)

    def _finish(self, branch: NodeWork, number: int, status: str, event: str) -> None:
        is_failed = status == FAILED
        self._store.ended(branch.id, FAILED if is_failed else COMPLETED, branch.errors)
        self._store.event(journal.FAILURE if is_failed else event, (branch.id,))
        self._told.ended(is_failed=is_failed)
        self._close(branch, number)

    def _close(self, branch: NodeWork, number: int) -> None:
        branch.texts = ()
        above = branch.parent
        if above is None:
            self._root = number
            return
        above.ends[branch.place] = number
        above.waiting -= 1
        if not above.waiting:
            self._aggregate(above)


def _texts(part: Part, pairs: Iterator[tuple[CorpusFile, bytes]]) -> tuple[LeafText, ...]:
    """The texts of a leaf, which are next among ``pairs``."""
    some = islice(pairs, part[3] - part[2])
    start, end = part[4], part[5]
    if start:
        return tuple(
            [
                LeafText.of(
                    (
                        path,
                        oid,
                        file_slices.cut(content, start, end),
                        start,
                        content if start == 1 else None,
                    )
                )
                for (path, oid, _), content in some
            ]
        )
    return tuple([LeafText.of((path, oid, content, 1, None)) for (path, oid, _), content in some])
