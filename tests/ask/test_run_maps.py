"""A question that counts and maps: what the user is told, and what verify finds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from testing.ask_stage import LOG, Asking, Script, final, going_on
from testing.loopback_model.replies import refusal

if TYPE_CHECKING:
    from testing.loopback_model.replies import Reply

SCHEMA = {"type": "array", "items": {"type": "string"}}
PLANS = (
    going_on(
        counts=[{"pattern": "(worker-[0-9]) ERROR"}, {"pattern": "x{9999}{9999}"}],
        maps=[{"purpose": "extract", "prompt": "Who failed?", "schema": SCHEMA, "reduce": "union"}],
    ),
    final("Two errors of one worker [count:0:1], none of [count:7:7]."),
)


def _workers(prompt: str) -> Reply:
    if "order 3000" in prompt:
        return refusal(400, "no")
    return json.dumps(sorted(set(re.findall("(worker-[0-9]) ERROR", prompt))))


def test_what_was_counted_and_what_was_not_read_is_told_and_verified(stage: Asking) -> None:
    stage.llm.script(Script(*PLANS, subcall=_workers))
    ended, run = stage.ask("--context", LOG)
    assert ended.code == 0, ended
    assert "a map over 3 parts to extract, union: 3 calls, about " in ended.stderr
    assert re.search(r"at most [\d,]+ tokens \(\$0\.\d\d\)", ended.stderr)
    assert "3 of 3 parts, 1 failed" in ended.stderr
    answer = (run.folder / "rlm/answer.md").read_text()
    [turn, _] = run.state["symbolic_iterations"]
    [mapped] = turn["maps"]
    unread = mapped["parts"][2]["pointers"][0].rpartition(":")[2]
    assert answer == (
        'Two errors of one worker [2 hits of "(worker-[0-9]) ERROR", 1 different value], none of'
        " [[unverified: count:7:7]].\n\n"
        f"Not all of the text was read: 1 of 3 parts were not read whole (bytes {unread}).\n"
    )
    shown = (run.folder / mapped["output_path"].partition(run.id)[2].lstrip("/")).read_text()
    assert json.loads(shown) == {"count": 1, "values": ["worker-7"]}
    assert run.report["parts"][0]["metrics"]["map_parts_read"] == 2
    assert "2 of 3 parts of the text read by maps" in ended.stdout
    assert "multiple repeat" in stage.prompts()[1]
    verified = stage.cli("verify", run.id)
    assert verified.code == 0, verified
    assert "1 count counted again, 1 map reduced again" in verified.stdout
