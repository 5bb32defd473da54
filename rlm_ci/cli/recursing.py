"""How a review or a wiki stands: its tree, what it has spent, and where it is at work."""

from __future__ import annotations

import os

from rlm_ci.errors import RlmCiError
from rlm_ci.models.recorded import FILE, Record
from rlm_ci.publishing import neutral
from rlm_ci.runs import request
from rlm_ci.runs.request import Request
from rlm_ci.texts import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.recursion.progress import Progress, Watch
    from rlm_ci.runs.listing import Entry

_RUN = ("rlm", "run.json")
_BUDGETS = ("max_calls", "max_tokens", "budget_usd")
_WIDE = 100
#: Of the way to the node that is at work, so many steps are shown.
_STEPS = 6


class Look:
    """Looks at one run, again and again; each time only what is new is read."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._watch: Watch | None = None

    def progress(self) -> Progress | None:
        """None for a run without a tree, or whose journals cannot be read now."""
        if self._watch is None:
            if not os.path.lexists(os.path.join(self._entry.path, *_RUN)):
                return None
            from rlm_ci.recursion.progress import Watch

            self._watch = Watch(os.path.join(self._entry.path, _RUN[0]))
        try:
            return self._watch.look()
        except RlmCiError:
            self._watch = None
            return None

    def record(self) -> dict[str, Any] | None:
        """For programs."""
        found = self.progress()
        if found is None:
            return None
        return {**found.to_dict(), "spent": self._spent(), "budgets": self._budgets()}

    def lines(self) -> list[str]:
        """For a person, a fact a line."""
        found = self.progress()
        if found is None:
            return []
        share = f"{found.solved:,} of {count(found.total, 'node')} solved"
        share += f", {found.failed:,} of them failed" if found.failed else ""
        share += f", {found.active:,} active, depth {found.max_depth}"
        facts = [("objective", found.objective), ("tree", share)]
        spent = self._spent()
        if spent["calls"]:
            cost = "" if spent["cost_usd"] is None else f", ${spent['cost_usd']:.4f}"
            facts.append(
                ("spent", f"{count(spent['calls'], 'call')}, {spent['tokens']:,} tokens{cost}")
            )
        limits = self._budgets()
        if limits:
            told = ", ".join(f"{name} {value}" for name, value in limits.items())
            facts.append(("budgets", told))
        if found.branch and found.active:
            steps = found.branch[-_STEPS:]
            more = "… › " if len(found.branch) > len(steps) else ""
            facts.append(("at work on", more + " › ".join(steps)))
        for message, number in found.errors:
            facts.append(("error", f"{number:,} × {message}"))
        return [
            f"{name:<11}{neutral.clip(neutral.one_line(printable(text)), _WIDE)}"
            for name, text in facts
        ]

    def _spent(self) -> dict[str, Any]:
        path = os.path.join(self._entry.path, FILE)
        try:
            if not os.path.lexists(path):
                return {"calls": 0, "tokens": 0, "cost_usd": None}
            with Record.open(path, redact=str, replay_only=True) as record:
                usage = record.usage()
        except RlmCiError:  # it is being written, or damaged; whoever resumes is told
            return {"calls": 0, "tokens": 0, "cost_usd": None}
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        return {"calls": usage["calls"], "tokens": tokens, "cost_usd": usage["cost_usd"]}

    def _budgets(self) -> dict[str, Any]:
        """Those of the command line; what a config file limits is not kept in the run."""
        if not request.is_kept(self._entry.path):
            return {}
        try:
            asked = Request.read(self._entry.path, self._entry.run.pipeline_id)
        except RlmCiError:
            return {}
        keys = {**{name: name for name in _BUDGETS}, "max_minutes": "recursion.max_minutes"}
        return {name: asked.flags[key] for name, key in keys.items() if key in asked.flags}
