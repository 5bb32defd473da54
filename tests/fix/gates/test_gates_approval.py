"""An approval counts if a person wrote it after the run asked, for this very result."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.fix.gates.gate import FAILED, NOT_ASKED, PASSED, WAITING, GateResult, GateView
from rlm_ci.fix.gates.gates import APPROVAL_FILE, ApprovalGate
from rlm_ci.models.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

VIEW = GateView(1, "base", "tree", "fresh")
YES = {"status": "approved"}


class Place:
    """A work tree, and a run in it whose record is opened anew for each look."""

    def __init__(self, root: Path) -> None:
        self.root = root / "top"
        self.root.mkdir()
        self.run = root / "run"
        self.run.mkdir()

    @contextmanager
    def gate(self, *, replay: bool = False) -> Iterator[ApprovalGate]:
        def path_of(*parts: str) -> str:
            path = self.run.joinpath(*parts)
            path.parent.mkdir(exist_ok=True)
            return str(path)

        with Record.open(str(self.run / "calls.jsonl"), redact=str, replay_only=replay) as record:
            yield ApprovalGate("a/ok.json", str(self.root), record.fact, path_of)

    def look(self, view: GateView = VIEW, *, replay: bool = False) -> GateResult:
        with self.gate(replay=replay) as gate:
            return gate.check(view)

    def write(self, content: object, name: str = "a/ok.json") -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_waits_until_the_file_that_it_offers_is_put_there(place: Place) -> None:
    assert place.look().verdict == WAITING
    assert place.look(replay=True) == place.look()
    place.write((place.run / APPROVAL_FILE).read_text())
    assert place.look().verdict == PASSED
    place.write({"status": "rejected"})
    assert place.look().verdict == PASSED  # decided: a resumed run takes the same way
    assert place.look(replay=True).verdict == PASSED


def test_what_was_there_before_does_not_count_until_it_is_written_anew(place: Place) -> None:
    place.write(YES)
    found = place.look()
    assert (found.verdict, "before the run asked" in found.reason) == (WAITING, True)
    path = place.root / "a/ok.json"
    os.utime(path, ns=(1, path.stat().st_mtime_ns))  # read, not written
    assert place.look().verdict == WAITING
    place.write(YES)
    assert place.look().verdict == PASSED


def test_a_rejection_goes_to_the_agent_with_its_reason(place: Place) -> None:
    place.look()
    place.write({"status": "rejected", "reason": "the name\x1b is wrong" + "!" * 5_000})
    found = place.look()
    assert found.verdict == FAILED
    assert "the name\\x1b is wrong" in found.feedback
    assert len(found.feedback) < 2_100
    assert len(found.reason) <= 200
    # It speaks of that result alone, which is not offered again.
    with place.gate() as gate:
        assert gate.check(VIEW).verdict == FAILED
        assert gate.check(VIEW.replace(iteration=2)).verdict == FAILED
        assert gate.check(VIEW.replace(iteration=3, result="other")).verdict == WAITING


def test_nothing_is_to_be_approved_where_nothing_changed(place: Place) -> None:
    assert place.look(VIEW.replace(result="base")).verdict == PASSED


@pytest.mark.parametrize(
    "content",
    ["", "{", "[" * 100_000, "[]", "null", '"approved"', {"status": "pending"},
     {"status": ["approved"]}, {"status": "Approved"}, {**YES, "result": "other"},
     {**YES, "result": None}, "\0" * 70_000],
)  # fmt: skip
def test_anything_else_leaves_it_waiting(place: Place, content: object) -> None:
    place.look()
    place.write(content)
    assert place.look().verdict == WAITING


def test_no_link_leads_to_an_approval(place: Place) -> None:
    place.look()
    place.write(YES, "b/ok.json")
    (place.root / "a").symlink_to("b")
    assert place.look().verdict == WAITING
    (place.root / "a").unlink()
    (place.root / "a").mkdir()
    (place.root / "a/ok.json").symlink_to("../b/ok.json")
    assert place.look().verdict == WAITING


def test_nobody_is_asked_where_another_gate_fails(place: Place) -> None:
    failed = (GateResult("tests", FAILED, "no"),)
    assert place.look(VIEW.replace(earlier=failed)).verdict == NOT_ASKED
    assert not (place.run / APPROVAL_FILE).exists()
