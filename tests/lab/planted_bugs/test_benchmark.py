"""``rlm-ci bench review``: a review and a plain prompt on the same changes, with a model."""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.config.options import BUDGET, MODEL
from rlm_ci.config.settings import Settings
from rlm_ci.judge.options import models_of
from rlm_ci.lab.planted_bugs import benchmark, generate
from rlm_ci.lab.planted_bugs.recording import SHIPPED, Recording
from rlm_ci.models.gateway import Gateway
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import Record
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork")

_FILE = re.compile(r"^=== (\S+)")
_ROW = re.compile(r"^ *(\d+)\+ ?(.*)$")
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)")


def says(asked: Asked) -> Answer:
    """A finding on each line that is new."""
    text = str(asked.messages[-1]["content"])
    found = _of_diff(text) if text.startswith("Review this change.") else _of_hunks(text)
    return Answer(json.dumps({"findings": found}))


def _of_diff(text: str) -> list[dict[str, Any]]:
    found, path, number = [], "", 0
    for line in text.split("\n"):
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/")
        elif hunk := _HUNK.match(line):
            number = int(hunk[1]) - 1
        elif path and line[:1] in ("+", " "):
            number += 1
            if line[0] == "+":
                found.append({"path": path, "line_start": number, "line_end": number})
    return found


def _of_hunks(text: str) -> list[dict[str, Any]]:
    found, path = [], ""
    for line in text.split("\n"):
        if head := _FILE.match(line):
            path = head[1]
        elif path and (row := _ROW.match(line)) and row[2].strip():
            place = {"path": path, "line_start": int(row[1]), "line_end": int(row[1])}
            found.append({
                **place, "quote": row[2], "domain": "quality", "severity": "low", "confidence": 0.5,
                "rule": f"line-{row[1]}", "message": f"Line {row[1]} of {path} is new.",
            })  # fmt: skip
    return found


@pytest.mark.long
@pytest.mark.full
def test_a_review_is_measured_beside_a_plain_prompt(
    llm: ModelServer, cli: Cli, tmp_path: Path
) -> None:
    llm.script(says)
    reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    few = ("bench", "review", "--bugs", "2", "--honest", "1", "--folder", str(tmp_path / "b"))
    nobody = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}
    for more, hint in ((("--model", "m"), "--answers shipped"), ((), "name a model")):
        refused = cli(*few, *more, env=nobody)
        assert (refused.code, hint in refused.stderr) == (5, True), refused.stderr
    measured = (*few, "--model", "gpt-5-mini", "--quiet")
    poor = cli(*measured, "--budget-usd", "0.0001", env=reach)
    assert (poor.code, len(llm.completions)) == (3, 0), poor.stderr
    # What a budget left out is made up for.
    ended = cli(*measured, "--format", "json", env=reach)
    assert ended.code == 0, ended.stderr
    told = ended.json()
    asked = len(llm.completions)
    assert sum(told["kinds"].values()) == 2
    for arm in ("review", "plain prompt"):
        totals = told["arms"][arm]
        assert (totals["changes"], totals["bugs"], totals["failed"]) == (2, 2, 0), told
        assert (totals["recall"], totals["found"]) == (1.0, 2)
        assert totals["false_alarms"] == totals["findings"] - 2 > 2
        assert totals["calls"] >= 2
        assert totals["prompt_tokens"] > 0
        assert totals["cost_usd"] > 0
    assert sum(one["calls"] for one in told["arms"].values()) == asked
    # The tests that show the bugs are not in the repository; nothing is asked twice.
    assert len(list(tmp_path.glob("b/*/test_bug_*.py"))) == 2
    assert not list(tmp_path.glob("b/*/repository/test_bug_*.py"))
    kept = tmp_path / "answers.jsonl"
    again = cli(*measured, "--record", str(kept), env=reach)
    assert (again.code, len(llm.completions)) == (0, asked), again.stderr
    assert re.search(r"planted bugs found +100 % +100 %", again.stdout), again.stdout
    # What was recorded plays without a key, gives the same figures, and says that it is no model.
    words = ("bench", "review", "--answers", str(kept), "--quiet")
    played = cli(*words, "--format", "json", env=nobody)
    assert (played.code, len(llm.completions)) == (0, asked), played.stderr
    assert played.json()["cases"].keys() == told["cases"].keys()
    for arm, rows in played.json()["cases"].items():
        assert [{**one, "cost_usd": None} for one in rows] == [
            {**one, "cost_usd": None} for one in told["cases"][arm]
        ]
    assert played.json()["answers"]["recorded"] is True
    # An answer that is missing is an error, and no figure.
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:1]))
    lacking = cli(*words, env=nobody)
    assert (lacking.code, lacking.stdout) == (5, ""), lacking.stderr
    assert "no answer to this prompt" in lacking.stderr


@pytest.mark.full
def test_the_shipped_answers_fit_the_prompts_of_today(tmp_path: Path) -> None:
    """If this fails, prompts have changed: run ``python benchmarks/review_answers.py``."""
    shipped = Recording.load(SHIPPED)
    shipped.require_projects()
    environ = shipped.environ({"PATH": os.environ["PATH"]})
    options = models_of(Settings((*MODEL, *BUDGET), {}, environ))

    with Record.open(str(tmp_path / "calls.jsonl"), redact=str) as record:

        def gateway(_spent: float, _kept: str) -> Gateway:
            clock = RunClock(record.fact)
            return Gateway(options, record, clock, model=shipped.model, max_minutes=None)

        flags = ("--model", shipped.model, "--sandbox", "none")
        reviewer = benchmark.Reviewer(flags, environ, gateway, played=True)
        first = islice(generate.cases(shipped.seed, shipped.bugs, shipped.honest), 1)
        told = benchmark.carry_out(first, str(tmp_path), reviewer, lambda _line: None)
    for arm in told["arms"].values():
        assert (arm["bugs"], arm["found"], arm["failed"]) == (2, 2, 0)
