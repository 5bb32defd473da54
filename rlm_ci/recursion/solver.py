"""``RLM.solve``: solve a node as a leaf, or split it, solve its parts and aggregate their results.

A review and a wiki are objectives of it.
"""

from __future__ import annotations

from rlm_ci.recursion import process_pool
from rlm_ci.recursion.journal import run_json
from rlm_ci.recursion.solve_run import SolveRun
from rlm_ci.recursion.split import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from typing import Final

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.journal.journal import Journals
    from rlm_ci.recursion.limits import Budget, Constraints
    from rlm_ci.recursion.nodes import Node, NodeResult
    from rlm_ci.recursion.objective import Objective
    from rlm_ci.recursion.split.tree import PromptPart

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
        root_part = tree.SplitTree(self.corpus, tree.TreeShape()).whole()
        return tree.node_of(tree.identity("", root_part, self.corpus.files), None, 0, root_part)

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
