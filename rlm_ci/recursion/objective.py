"""The contract of an objective: what a recursion over a repository produces.

A leaf takes two steps. ``analyse`` computes JSON from the texts of its scope, without state, in
any process on any machine. ``judge`` follows in the process that keeps the journals, and is the
only step that may ask a model. Both are deterministic given the model's answers, and so is
``aggregate``: two runs over the same tree give the same bytes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node, NodeResult
else:
    Protocol = object


class Objective(Protocol):
    """``options`` is JSON: all that the results depend on besides the texts and the model."""

    @property
    def name(self) -> str: ...

    @property
    def domain(self) -> str | None: ...

    @property
    def options(self) -> Mapping[str, Any]: ...

    @property
    def analyse(self) -> Callable[[LeafTask], Mapping[str, Any]]:
        """A function at the top level of a module, which another process can import."""

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        """The result of a leaf; without ``ask`` there is no model.

        Every finding and every claim has evidence from the texts of ``task``. When ``ask`` raises
        LimitError, keep what was found and report the rest as uncovered. Any other error fails
        the attempt, which may be repeated.
        """

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        """The result of a split node from its children's, in the order of their scopes.

        A failed child has the status FAILED. Claim only what the evidence of a child, or the
        node's own, supports.
        """
