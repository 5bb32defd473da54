"""``RLM.solve``: solve a node as a leaf, or split it, solve its parts and aggregate their results.

A review and a wiki are objectives of it.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import nullcontext
from itertools import islice

from rlm_ci import errors
from rlm_ci.recursion import coverage, process_pool, tree_split
from rlm_ci.recursion.journal import node_records, run_json
from rlm_ci.recursion.node_work import NodeWork, as_recorded, is_fatal, raise_fatal, require_time
from rlm_ci.recursion.nodes import COMPLETED, FAILED, LEAF, SPLIT, LeafTask, LeafText
from rlm_ci.recursion.scheduler import DFS, Frontier, Slots
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import encodable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from typing import Any, Final

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile
    from rlm_ci.recursion.journal.journal import Journals
    from rlm_ci.recursion.journal.run_json import RunOverview
    from rlm_ci.recursion.nodes import Node, NodeResult
    from rlm_ci.recursion.objective import Objective
    from rlm_ci.recursion.scheduler import Budget, Constraints
    from rlm_ci.recursion.tree_split import Part, PromptPart

    Call = Callable[[Ask | None], NodeResult]
    Done = Callable[[NodeWork, NodeResult], None]


#: Bytes of texts, and leaves, that are read ahead at most.
_AHEAD_BYTES: Final = 8 << 20
_AHEAD: Final = 256
#: Calls that an executor has for each of its workers, so that none is idle.
_QUEUED: Final = 2
_LATE: Final = (LEAF, tree_split.DEADLINE_EXCEEDED, 1.0)
_SMALL: Final = (LEAF, tree_split.SMALL_ENOUGH, 1.0)
_WITH_PROMPTS: Final = (SPLIT, tree_split.HAS_PROMPTS, 1.0)
#: Why a part was not covered.
_FAILED: Final = "failed"


class SolveRun:
    """The run over one root."""

    def __init__(
        self,
        objective: Objective,
        budget: Budget,
        constraints: Constraints,
        *,
        corpus: Corpus,
        store: Journals,
        executor: Executor | None,
        ask: Callable[[Node], Ask] | None,
        overview: RunOverview,
        prompts: Sequence[PromptPart] = (),
    ) -> None:
        self._corpus = corpus
        self._store = store
        self._objective = objective
        self._budget = budget
        self._constraints = constraints
        self._ask = ask
        self._overview = overview
        self._tree = tree_split.SplitTree(corpus, constraints.shape, prompts)
        self._frontier = Frontier(constraints.order, lambda node: node.part[6])
        self._slots = Slots(constraints.concurrency, is_fatal)
        self._executor = executor
        self._room = constraints.concurrency
        if executor is not None:
            count = getattr(executor, "count", constraints.concurrency)
            self._room = max(constraints.concurrency, _QUEUED * count)
        #: Leaves wait for threads here, so that no thread waits for this one.
        self._ahead = self._room + (0 if ask is None else constraints.concurrency)
        self._ready: deque[NodeWork] = deque()
        self._deadline = None if budget.minutes is None else time.monotonic() + 60 * budget.minutes
        self._root: NodeResult | None = None

    def run(self, node: Node) -> NodeResult:
        kind, path, first, last, start, end = node.scope
        size = self._tree.size(first, last)
        work = NodeWork(
            node.id, None, 0, node.depth, (kind, path, first, last, start or 0, end or 0, size)
        )
        try:
            if ended := self._enter((work,), node.parent):
                self._overview.ended(is_failed=False)
                self._root = ended[work]
            else:
                self._frontier.add((work,))
            while self._root is None:
                self._step()
        finally:
            self._slots.close()
        self._store.flush()
        self._overview.end(self._root)
        return self._root

    def _step(self) -> None:
        """Begin what there is room for, and take in what has ended."""
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
        self._overview.look()
        if self._root is None and self._slots.busy:
            while not self._slots.wait(self._store.idle() or None):
                pass

    def _limit(self) -> int:
        """The number of leaves that may run, or wait for a thread."""
        left = self._budget.calls_left
        if self._ready or left is None or left() is None:
            return self._ahead
        return self._room  # decide late: it depends on the calls that are left

    # ── order ──

    def _read_ahead(self) -> None:
        """Split nodes until there are leaves, and read their texts."""
        leaves: list[NodeWork] = []
        size = 0
        frontier = self._frontier
        while self._root is None and frontier and len(leaves) < _AHEAD and size < _AHEAD_BYTES:
            branch = frontier.pop()
            if self._is_split(branch):
                if leaves and self._constraints.order == DFS:
                    break
            elif branch.earlier_result is not None:
                self._keep(branch, branch.earlier_result)
            elif branch.decision == _LATE:
                self._miss(branch)
            else:
                leaves.append(branch)
                size += branch.part[6]
        if leaves:
            self._store.event(node_records.DEQUEUED, [leaf.id for leaf in leaves])
        files: list[CorpusFile] = []
        for leaf in leaves:
            files += self._tree.readable(leaf.part)
        pairs = zip(files, self._corpus.read(files) if files else (), strict=True)
        for leaf in leaves:
            leaf.texts = _texts(leaf.part, islice(pairs, len(self._tree.readable(leaf.part))))
        self._ready.extend(leaves)

    # ── leaf or split ──

    def _is_split(self, branch: NodeWork) -> bool:
        """Decide about a node; if it is split, queue its children."""
        recorded = self._store.decided(branch.id) if self._store.resumed else None
        if recorded and recorded[0] == LEAF and self._is_over():
            recorded = None
        branch.decision, parts = (recorded, ()) if recorded else self._decide(branch)
        if branch.decision[0] == LEAF:
            return False
        parts = parts or self._tree.parts(branch.part)
        branch.split(parts)
        depth = branch.depth + 1
        files = self._corpus.files
        children = [
            NodeWork(tree_split.identity(branch.id, part, files), branch, number, depth, part)
            for number, part in enumerate(parts)
        ]
        if not recorded:
            below = [work.id for work in children]
            self._store.running(branch.id, branch.decision, below, 1, self._budgets(branch))
            self._store.event(node_records.SPLIT_UP, (branch.id,))
        ended = self._enter(children, branch.id)
        self._frontier.add([work for work in children if work not in ended] if ended else children)
        for child, result in ended.items():
            self._overview.ended(is_failed=False)
            self._close(child, result)
        return True

    def _enter(self, some: Sequence[NodeWork], parent: str | None) -> Mapping[NodeWork, NodeResult]:
        """Record that siblings wait, if that is new; returns those that have ended before."""
        store = self._store
        fresh = some
        ended: dict[NodeWork, NodeResult] = {}
        if store.resumed:
            for work in some:
                work.earlier_result = store.finished_result(work.id)
                if work.earlier_result is not None and store.is_completed(work.id):
                    ended[work] = work.earlier_result
            fresh = [node_work for node_work in some if not store.is_known(node_work.id)]
        if fresh:
            depth = fresh[0].depth
            for work in fresh:
                store.queued(work.id, parent, depth, work.part)
            self._overview.entered(len(fresh), depth)
            if fresh[0].parent is not None:
                store.event(node_records.ENQUEUED, [node_work.id for node_work in fresh])
        return ended

    def _decide(self, branch: NodeWork) -> tuple[tuple[str, str, float], Sequence[Part]]:
        """The decision (kind, reason, confidence), and the parts of a split."""
        part, budget = branch.part, self._budget
        if self._deadline is not None and self._is_over():
            return _LATE, ()
        if self._tree.has_prompts(part):
            return _WITH_PROMPTS, ()
        if self._tree.is_small(part):
            return _SMALL, ()
        if branch.depth >= budget.max_depth:
            return (LEAF, tree_split.MAX_DEPTH_REACHED, 1.0), ()
        left = budget.calls_left() if budget.calls_left is not None else None
        if left is not None and left < budget.reserve:
            return (LEAF, tree_split.BUDGET_BELOW_RESERVE, 1.0), ()
        confidence = self._tree.confidence(part)
        if confidence < max(self._constraints.min_confidence, 1e-9):
            return (LEAF, tree_split.SPLIT_CONFIDENCE_LOW, confidence), ()
        parts = self._tree.parts(part)
        is_large = part[6] > self._constraints.shape.leaf_bytes
        reason = tree_split.TOO_LARGE if is_large else tree_split.TOO_MANY_FILES
        return (SPLIT, reason, confidence), parts

    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _budgets(self, branch: NodeWork) -> Mapping[str, float | None]:
        """What is left for a node; None is no limit."""
        budget, deadline = self._budget, self._deadline
        return {
            "depth": budget.max_depth - branch.depth,
            "calls": None if budget.calls_left is None else budget.calls_left(),
            "seconds": None if deadline is None else round(deadline - time.monotonic(), 3),
        }

    def _miss(self, branch: NodeWork) -> None:
        self._store.running(branch.id, _LATE, (), 1, self._budgets(branch))
        self._fail(branch, coverage.DEADLINE, "")

    # ── leaves ──

    def _begin(self, leaf: NodeWork) -> None:
        decision = leaf.decision or (LEAF, "", 0.0)
        self._store.running(leaf.id, decision, (), leaf.attempt, self._budgets(leaf))
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
        ask = None if self._ask is None else self._ask(node)
        self._conclude(leaf, lambda way: judge(node, task, analysis, way), self._judged, ask)

    def _conclude(self, node: NodeWork, call: Call, done: Done, ask: Ask | None) -> None:
        """Call the objective, on a thread where it may ask a model; ``done`` takes the result."""
        if ask is None:
            try:
                done(node, call(None))
            except Exception as error:  # noqa: BLE001 - an attempt that failed
                self._repeat(node, error)
            return

        def concluded(result: Any, error: BaseException | None) -> None:
            is_over = node.attempt >= self._constraints.attempts
            if error is None:
                done(node, result)
            elif not is_fatal(error) and (isinstance(error, errors.LimitError) or is_over):
                self._conclude_alone(node, error, call, done)
            else:
                self._repeat(node, error)

        full_node = node.node()

        def turn() -> NodeResult:
            if not node.is_split:
                require_time(self._deadline)
            step = spans.node(full_node.id, full_node.parent, f"node {full_node.scope.title}")
            with step, ask if isinstance(ask, Closing) else nullcontext():
                return call(ask)

        self._slots.ask(turn, concluded, first=node.is_split or node.attempt > 1)

    def _conclude_alone(self, node: NodeWork, error: BaseException, call: Call, done: Done) -> None:
        """Take the result without the model, which failed for the last time."""
        word = _FAILED
        if isinstance(error, errors.LimitError):
            word = coverage.BUDGET
        elif isinstance(error, errors.RemoteError):
            word = coverage.REMOTE
        node.errors = (*node.errors, as_recorded(error))
        paths = (
            [encodable(node.part[1]) or "."]
            if node.is_split
            else [file.path for file in self._tree.files(node.part)]
        )
        try:
            result = coverage.without_model(call(None), paths, word, str(error))
        except Exception as other:  # noqa: BLE001 - then it failed
            raise_fatal(other)
            node.errors = (*node.errors, as_recorded(other))
            self._fail(node, word, str(error))
        else:
            done(node, result)

    def _judged(self, leaf: NodeWork, result: NodeResult) -> None:
        if result.uncovered or result.node_id != leaf.id:
            result = coverage.of_leaf(leaf.id, result, self._tree.files(leaf.part))
        self._end(leaf, result, node_records.DONE)

    def _repeat(self, branch: NodeWork, error: BaseException) -> None:
        """Try a node again, or fail it after its last attempt."""
        raise_fatal(error)
        branch.errors = (*branch.errors, as_recorded(error))
        if branch.attempt >= self._constraints.attempts:
            self._fail(branch, _FAILED, str(error) or type(error).__name__)
            return
        branch.attempt += 1
        self._store.event(node_records.REQUEUED, (branch.id,))
        if branch.is_split:
            self._aggregate(branch)
        else:
            self._ready.appendleft(branch)

    def _fail(self, branch: NodeWork, word: str, what: str) -> None:
        if not branch.errors:
            branch.errors = ((errors.LIMIT, what or word, True),)
        files = self._tree.files(branch.part)
        self._end(branch, coverage.failed(branch.id, files, word, what), node_records.FAILURE)

    # ── split nodes ──

    def _aggregate(self, branch: NodeWork) -> None:
        children = branch.results
        node, aggregate = branch.node(), self._objective.aggregate
        has_failed = all(child.status == FAILED for child in children)
        ask = None if self._ask is None or has_failed else self._ask(node)

        def aggregated(_branch: NodeWork, result: NodeResult) -> None:
            result = coverage.of_split(branch.id, result, children, branch.sizes)
            self._end(branch, result, node_records.AGGREGATED)

        self._conclude(branch, lambda way: aggregate(node, children, way), aggregated, ask)

    def _keep(self, leaf: NodeWork, result: NodeResult) -> None:
        """End a leaf whose result an earlier session wrote, and not its end."""
        if not self._store.decided(leaf.id):
            decision = leaf.decision or (LEAF, "", 0.0)
            self._store.running(leaf.id, decision, (), 1, self._budgets(leaf))
        self._finish(leaf, result, node_records.DONE)

    def _end(self, branch: NodeWork, result: NodeResult, event: str) -> None:
        try:
            result = self._store.result(result, branch.results if branch.is_split else None)
        except (TypeError, ValueError) as error:  # the objective's data are not JSON
            if event == node_records.FAILURE:
                raise
            self._repeat(branch, error)
            return
        self._finish(branch, result, event)

    def _finish(self, branch: NodeWork, result: NodeResult, event: str) -> None:
        is_failed = result.status == FAILED
        if not self._store.is_completed(branch.id):
            self._store.ended(result, FAILED if is_failed else COMPLETED, branch.errors)
            self._store.event(node_records.FAILURE if is_failed else event, (branch.id,))
        self._overview.ended(is_failed=is_failed)
        self._close(branch, result)

    def _close(self, branch: NodeWork, result: NodeResult) -> None:
        branch.texts = ()
        branch.results = []
        above = branch.parent
        if above is None:
            self._root = result
            return
        above.results[branch.position] = result
        above.waiting -= 1
        if not above.waiting:
            self._aggregate(above)


def _texts(part: Part, pairs: Iterator[tuple[CorpusFile, bytes]]) -> tuple[LeafText, ...]:
    """The texts of a leaf from its files and their contents."""
    start, end = part[4], part[5]
    texts = []
    for (path, oid, _), content in pairs:
        full_content = content if start == 1 else None
        some = tree_split.cut(content, start, end) if start else content
        texts.append(LeafText.of((path, oid, some, start or 1, full_content)))
    return tuple(texts)


#: Bytes of a corpus for which worker processes pay off.
_LARGE: Final = 4 << 20


class RLM:
    """The solver over one corpus, its journals in ``store``.

    ``ask`` gives each node its access to a model; without it no model is asked. ``executor``
    analyses the leaves; without it, processes of this machine do, or this process if the corpus
    is small. ``name`` is the run's id in its files. ``prompts`` are leaves beside the files.
    """

    def __init__(
        self,
        corpus: Corpus,
        store: Journals,
        *,
        executor: Executor | None = None,
        ask: Callable[[Node], Ask] | None = None,
        name: str = "",
        prompts: Sequence[PromptPart] = (),
    ) -> None:
        self.corpus = corpus
        self.store = store
        self._executor = executor
        self._ask = ask
        self._name = name
        self._prompts = prompts

    @property
    def root(self) -> Node:
        """The node of the whole corpus."""
        root_part = tree_split.SplitTree(self.corpus, tree_split.TreeShape()).root_part()
        root_id = tree_split.identity("", root_part, self.corpus.files)
        return tree_split.node_of(root_id, None, 0, root_part)

    def solve(
        self, node: Node, objective: Objective, budget: Budget, constraints: Constraints
    ) -> NodeResult:
        """The result of ``node``; its status says whether the coverage is complete.

        An interrupted run continues: what is in the journals is not done again. Raises
        ConfigError if the journals are another run's, StorageError, DamagedError, and what a
        signal raises.
        """
        head = run_json.head(self.corpus, node, objective, budget, constraints)
        overview = run_json.RunOverview.begin(self.store, head, self._name)
        self.store.of(self._name, objective.name, objective.domain)
        executor, pool = self._executor, None
        cores = process_pool.cores()
        is_large = sum(file.size for file in self.corpus.files) >= _LARGE
        if executor is None and cores > 1 and is_large:
            executor = pool = process_pool.ProcessPool(cores)
        try:
            return SolveRun(
                objective,
                budget,
                constraints,
                corpus=self.corpus,
                store=self.store,
                executor=executor,
                ask=self._ask,
                overview=overview,
                prompts=self._prompts,
            ).run(node)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
