"""The contract of an objective: what a recursion over a repository is asked to produce.

A leaf is done in two steps. ``analyse`` is plain computing over the texts of its scope: it holds
nothing, so that it runs in any process and on any machine, and gives JSON. ``judge`` follows in
the process that keeps the journals, and is the only step that may ask a model. Both are
deterministic given what the model answers, and so is ``aggregate``: two runs over the same tree
give the same bytes, whoever computed what.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node, NodeProbe, NodeResult
else:
    Protocol = object


class Objective(Protocol):
    """One thing to ask of a repository: its name, and how its nodes are solved.

    ``options`` is JSON: all that the results depend on besides the texts and the model.
    """

    @property
    def name(self) -> str: ...

    @property
    def domain(self) -> str | None: ...

    @property
    def options(self) -> Mapping[str, Any]: ...

    @property
    def analyse(self) -> Callable[[LeafTask], Mapping[str, Any]]:
        """A function at the top level of a module, for another process to import."""

    def settled(self, probe: NodeProbe) -> str | None:
        """Why nothing would be gained by splitting this node, for an early leaf; None: go on."""

    def risk(self, probe: NodeProbe) -> float:
        """How soon a node should have its turn where the order goes by risk; higher is sooner."""

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        """The result of a leaf. Without ``ask`` there is no model, and nobody misses it.

        Every finding and every claim has evidence that was opened in the texts of ``task``. When
        ``ask`` raises LimitError, what was found is kept and the rest told as uncovered. Any
        other error fails the attempt, which may be repeated.
        """

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        """The result of a split node from those of its children, in the order of their scopes.

        A child that failed is there with the status FAILED. Nothing may be claimed that neither
        a child's evidence nor the node's own supports.
        """
