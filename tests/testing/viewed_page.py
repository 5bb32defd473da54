"""The page of a run as its script gets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testing.program import Ended

FIELDS = ("above", "kind", "title", "status", "start", "seconds", "calls", "prompt_tokens",
          "completion_tokens", "cost", "order", "model", "facts", "texts")  # fmt: skip


class ViewedPage:
    """A page and its steps."""

    @classmethod
    def of(cls, ended: Ended) -> ViewedPage:
        """What ``rlm-ci view RUN -o -`` has printed."""
        assert ended.code == 0, ended
        return cls(ended.stdout)

    def __init__(self, html: str) -> None:
        self.record = data_of(html)
        self.steps = [dict(zip(FIELDS, row, strict=True)) for row in self.record["steps"]]

    def outline(self) -> list[str]:
        """The titles, each behind those of the steps that it is in."""
        made: list[str] = []
        for step in self.steps:
            above = f"{made[step['above']]} > " if step["above"] >= 0 else ""
            made.append(f"{above}{step['title']}")
        return made

    def step(self, title: str, above: str = "") -> dict[str, Any]:
        """The only step with the title; ``above`` is that of the step that it is in."""
        [found] = [
            step
            for step in self.steps
            if step["title"] == title and above in ("", self.steps[step["above"]]["title"])
        ]
        return found

    def text(self, title: str, label: str, above: str = "") -> str:
        texts = {name: text for name, text, _ in self.step(title, above)["texts"]}
        return str(texts.get(label, ""))

    def total(self, name: str) -> float:
        return sum(step[name] or 0 for step in self.steps)


def data_of(html: str) -> dict[str, Any]:
    """The run in a page."""
    _, _, rest = html.partition('<script type="application/json" id="run">')
    record: dict[str, Any] = json.loads(rest.partition("</script>")[0])
    return record
