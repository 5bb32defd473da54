"""The progress of a review or a wiki: its tree, what it has spent, and its active nodes."""

from __future__ import annotations

import os
from itertools import groupby

from rlm_ci.errors import RlmCiError
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.runs import request
from rlm_ci.runs.request import RunRequest
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.recursion.journal.run_json import ProgressWatch, TreeProgress

_RUN = ("rlm", "run.json")
#: The pipelines that have a tree.
_OBJECTIVES = ("review", "wiki")
_BUDGETS = ("max_calls", "max_tokens", "budget_usd")
_WIDE = 100
_NOTHING = {"calls": 0, "tokens": 0, "cost_usd": None}
#: The last steps that are shown of the path to the active node.
_STEPS = 6


class TreeWatcher:
    """Follows the run in ``folder``; each look reads only what is new."""

    def __init__(self, folder: str, pipeline_id: str) -> None:
        self._folder = folder
        self._pipeline_id = pipeline_id
        self._watch: ProgressWatch | None = None
        self._size = -1
        self._usage: dict[str, Any] = dict(_NOTHING)

    def progress(self) -> TreeProgress | None:
        """The progress; None without a tree, or if the journals cannot be read now."""
        if self._watch is None:
            if not os.path.lexists(os.path.join(self._folder, *_RUN)):
                return None
            from rlm_ci.recursion.journal.run_json import ProgressWatch

            self._watch = ProgressWatch(os.path.join(self._folder, _RUN[0]))
        try:
            return self._watch.look()
        except RlmCiError:
            self._watch = None
            return None

    def record(self, status: str) -> dict[str, Any] | None:
        """The counters as JSON; zeros where there is no tree, as in a refresh without changes."""
        progress = self.progress()
        if progress is None:
            has_tree = os.path.lexists(os.path.join(self._folder, *_RUN))
            if has_tree or self._pipeline_id not in _OBJECTIVES:
                return None
            from rlm_ci.recursion.journal.run_json import TreeProgress

            run_id = os.path.basename(self._folder)
            progress = TreeProgress(run_id, self._pipeline_id, None, status, 0, 0, 0, 0, 0)
        return {**progress.to_dict(), "spent": self._spent(), "budgets": self._budgets()}

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for people."""
        progress = self.progress()
        if progress is None:
            return []
        share = f"{progress.solved:,} of {count(progress.total, 'node')} solved"
        share += f", {progress.failed:,} of them failed" if progress.failed else ""
        share += f", {progress.active:,} active, depth {progress.max_depth}"
        facts = [("objective", progress.objective), ("tree", share)]
        spent = self._spent()
        if spent["calls"]:
            cost = "" if spent["cost_usd"] is None else f", ${spent['cost_usd']:.4f}"
            cached = f" ({spent['cached_tokens']:,} cached)" if spent.get("cached_tokens") else ""
            tokens = f"{spent['tokens']:,} tokens{cached}"
            facts.append(("spent", f"{count(spent['calls'], 'call')}, {tokens}{cost}"))
        limits = self._budgets()
        if limits:
            budgets = ", ".join(f"{name} {value}" for name, value in limits.items())
            facts.append(("budgets", budgets))
        if progress.branch and progress.active:
            branch = [step for step, _ in groupby(progress.branch)]
            steps = branch[-_STEPS:]
            more = "… › " if len(branch) > len(steps) else ""
            facts.append(("at work on", more + " › ".join(steps)))
        for message, number in progress.errors:
            facts.append(("error", f"{number:,} × {message}"))
        return [
            (name, neutralise.clip(neutralise.one_line(printable(text)), _WIDE))
            for name, text in facts
        ]

    def _spent(self) -> dict[str, Any]:
        path = os.path.join(self._folder, FILE)
        try:
            size = os.stat(path).st_size
        except OSError:  # no fact is written yet
            return self._usage
        if size == self._size:
            return self._usage
        try:
            with Record.open(path, redact=str, replay_only=True) as record:
                usage = record.usage()
        except RlmCiError:  # it is being written, or damaged; resume reports that
            return self._usage
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        self._size = size
        self._usage = {"calls": usage["calls"], "tokens": tokens, "cost_usd": usage["cost_usd"]}
        if cached := usage.get("cached_tokens"):
            self._usage["cached_tokens"] = cached
        return self._usage

    def _budgets(self) -> dict[str, Any]:
        """The budgets of the command line; the run does not keep those of a config file."""
        if not request.is_kept(self._folder):
            return {}
        try:
            run_request = RunRequest.read(self._folder, self._pipeline_id)
        except RlmCiError:
            return {}
        keys = {**{name: name for name in _BUDGETS}, "max_minutes": "recursion.max_minutes"}
        return {
            name: run_request.flags[key] for name, key in keys.items() if key in run_request.flags
        }
