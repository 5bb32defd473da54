"""A model that reviews a change: claims, reproductions, verdicts and repairs, all as scripted."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.loopback_model.server import Asked

#: How each kind of question begins.
_KINDS = {
    "Write the smallest reproduction": "reproduce",
    "A test was written to show a fault": "judge",
    "A program has a fault, and a test shows it": "mend",
    "Try to refute": "refute",
    "review of a whole repository": "architecture",
    "review source code": "find",
    "You review a change to source code": "find",  # without tools
    "Say what a change to source code does": "describe",
}

BASE = '''"""Prices."""


def average(prices):
    """The mean of prices; 0 without any."""
    if not prices:
        return 0
    return sum(prices) / len(prices)
'''
HEAD = BASE.replace("    if not prices:\n        return 0\n", "")
#: What the system's own Python runs.
TESTS = """import unittest

from shop import average


class Average(unittest.TestCase):
    def test_average(self):
        self.assertEqual(average([2, 4]), 3)
"""
CLAIM: dict[str, Any] = {
    "domain": "quality", "severity": "high", "confidence": 0.8, "rule": "division-by-zero",
    "message": "An empty list divides by zero.", "path": "shop.py", "line_start": 6,
    "line_end": 6, "quote": "    return sum(prices) / len(prices)", "suggested_fix": None,
}  # fmt: skip
SHOWS: dict[str, Any] = {
    "kind": "script", "path": "empty.py", "expects": "ZeroDivisionError",
    "content": "from shop import average\n\nassert average([]) == 0\n",
    "breaks": "`average([])` raises ZeroDivisionError; at the base it gave 0",
}  # fmt: skip
MENDS: dict[str, Any] = {
    "edits": [
        {
            "path": "shop.py",
            "old": "    return sum(prices) / len(prices)",
            "new": "    return sum(prices) / len(prices) if prices else 0",
        }
    ]
}


class ProvingModel:
    """Answers by the kind of question; ``asked`` counts the kinds.

    ``reproductions`` are given by the message of their claim, or SHOWS; of several, one for each
    question, and the last one again.
    """

    def __init__(
        self,
        reproductions: Mapping[str, dict[str, Any] | list[dict[str, Any]]] | None = None,
        *,
        claims: tuple[dict[str, Any], ...] = (CLAIM,),
        verdict: str = "fault",
        judgement: Mapping[str, Any] | None = None,
        refuted: str = "upheld",
        repair: dict[str, Any] = MENDS,
    ) -> None:
        self.asked: Counter[str] = Counter()
        self._reproductions = reproductions or {}
        self._answers = {
            "find": {"findings": list(claims)},
            "judge": {
                "verdict": verdict,
                "reason": "an empty list is documented",
                **(judgement or {}),
            },
            "refute": {"verdict": refuted, "reason": "nobody calls it so"},
            "architecture": {"claims": []},
            "describe": {"about": []},
            "mend": repair,
        }

    def __call__(self, asked: Asked) -> Answer:
        kind = kind_of(asked)
        self.asked[kind] += 1
        if kind == "reproduce":
            prompt = asked.messages[0]["content"]
            fitting = (one for words, one in self._reproductions.items() if words in prompt)
            found = next(fitting, SHOWS)
            if isinstance(found, list):
                found = found[min(len(asked.messages) // 2, len(found) - 1)]
            return Answer(json.dumps(found))
        return Answer(json.dumps(self._answers[kind]))


def kind_of(asked: Asked) -> str:
    prompt = str(asked.messages[0]["content"])
    return next(kind for words, kind in _KINDS.items() if words in " ".join(prompt.split()))
