"""The one form that every kind of run is shown in: a tree of steps, and what came of it.

A reader of one kind of run makes it; the page shows it, and knows no kind of run.
"""

from __future__ import annotations

from types import MappingProxyType

from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    #: By path, first and last line of a quote: the lines before, and those behind.
    Around = Mapping[tuple[str, int, int], tuple[Sequence[str], Sequence[str]]]

#: How a step ended.
DONE = "done"
FAILED = "failed"
PARTIAL = "partial"
RUNNING = "running"


class ViewedText(Row):
    """A text of a step. ``form`` is ``text``, ``json`` or ``diff``."""

    label: str
    text: str
    form: str = "text"


class ViewedStep:
    """One step. ``start`` is in seconds since the run began; what is not known is None.

    ``order`` is the number of its record: calls were paid for in this order.
    """

    __slots__ = (
        "calls",
        "children",
        "completion_tokens",
        "cost",
        "facts",
        "kind",
        "model",
        "new_findings",
        "order",
        "prompt_tokens",
        "seconds",
        "start",
        "status",
        "texts",
        "title",
    )  # fmt: skip

    def __init__(self, kind: str, title: str, status: str = "") -> None:
        self.kind = kind
        self.title = title
        self.status = status
        self.start: float | None = None
        self.seconds: float | None = None
        self.model = ""
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cost: float | None = None
        self.order = 0
        self.facts: list[tuple[str, str]] = []
        self.texts: list[ViewedText] = []
        #: The findings that it reported first.
        self.new_findings: list[Mapping[str, Any]] = []
        self.children: list[ViewedStep] = []

    def add(self, child: ViewedStep) -> ViewedStep:
        self.children.append(child)
        return child

    def tell(self, name: str, value: object) -> None:
        """Add a fact, unless there is nothing to tell."""
        if value not in (None, "", [], {}):
            self.facts.append((name, str(value)))

    def show(self, label: str, text: str, form: str = "text") -> None:
        """Add a text, unless it is empty."""
        if text.strip():
            self.texts.append(ViewedText(label, text, form))

    def took(self, start: float | None, end: float | None) -> None:
        """Keep when it was, as far as that is known."""
        self.start = start
        if start is not None and end is not None and end >= start:
            self.seconds = end - start

    def walk(self) -> Iterator[tuple[int, ViewedStep]]:
        """Each step below, the first before its children, with its depth."""
        waiting = [(0, self)]
        while waiting:
            depth, step = waiting.pop()
            yield depth, step
            waiting += [(depth + 1, child) for child in reversed(step.children)]


class ViewedRun(Value):
    """A run. ``began`` is in seconds of the epoch; ``problems`` are what could not be read.

    ``budgets`` are the limits of calls, tokens and USD that are known; ``findings`` and
    ``documents`` are as report.json has them, ``diffs`` pairs of a title and a patch. ``events``
    are pairs of seconds and a line; ``around`` are the lines around the quotes of findings.
    """

    run_id: str
    pipeline: str
    title: str
    status: str
    has_ended: bool
    summary: str
    began: float
    root: ViewedStep
    facts: tuple[tuple[str, str], ...] = ()
    budgets: Mapping[str, float] = {}
    findings: tuple[Mapping[str, Any], ...] = ()
    documents: tuple[Mapping[str, Any], ...] = ()
    diffs: tuple[tuple[str, str], ...] = ()
    events: tuple[tuple[float, str], ...] = ()
    problems: tuple[str, ...] = ()
    around: Around = MappingProxyType({})
