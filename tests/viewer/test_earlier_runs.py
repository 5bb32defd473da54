"""Runs of versions that wrote no spans: their calls stand by their places."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rlm_ci.git.repository import Repository, discover
from rlm_ci.runs.find import FoundRun
from rlm_ci.viewer import earlier_runs, page, read
from rlm_ci.viewer.folder import RecordedCall
from testing.folders import unpack
from testing.viewed_page import ViewedPage

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def call(place: str) -> RecordedCall:
    return RecordedCall(1, "completion", place, "done", {}, {}, {}, False, None, None)


def test_a_place_is_a_path_below_what_is_known() -> None:
    spans, calls = earlier_runs.spans_of(
        [call("plan/0/1"), call("plan/1/1"), call("n01/find/2"), call("alone")], {"n01"}
    )
    assert {one.id: (one.parent, one.title) for one in spans.values()} == {
        "plan": ("", "plan"), "plan/0": ("plan", "0"), "plan/1": ("plan", "1"),
        "n01/find": ("n01", "find"),
    }  # fmt: skip
    assert [one.span for one in calls] == ["plan/0", "plan/1", "n01/find", ""]


@pytest.mark.skipif(sys.platform == "win32", reason="flock")
def test_the_calls_of_an_older_run_are_shown_with_their_times(tmp_path: Path) -> None:
    unpack(GOLDEN / "0.2.0.tar.xz", tmp_path)
    run = json.loads((GOLDEN / "0.2.0.json").read_text())["fix"]
    [folder] = (tmp_path / "repo").glob(f".runs/*/cli/{run}")
    entry = FoundRun(folder.parents[1].name, run, str(folder), str(folder)).read()
    here = Repository(*discover(str(tmp_path / "repo")), os.environ)
    seen = ViewedPage(page.render(read.read(entry, here, {}), str))
    calls = [step for step in seen.steps if step["calls"]]
    report = json.loads((folder / "report.json").read_text())
    assert len(calls) == report["usage"]["calls"]
    assert all(step["seconds"] is not None for step in calls)
    assert "rlm > Iteration 1 > Single > Turn 1" in seen.outline()
    assert seen.step("validator-0")["status"] == "failed"
    assert "write " in str([step["texts"] for step in calls])
    assert "older version" in seen.record["problems"][0]
