"""The lines of a recursion's journals: written together, read back, skimmed as they are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.recursion.journal import previous_sessions, record_lines, recovery
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.nodes import COMPLETED, FAILED, NodeResult
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs.journal import record_format
from testing.solver_cases import shop, solve

if TYPE_CHECKING:
    from pathlib import Path

ID = "0123456789abcdef"
PLAIN = (
    NodeResult(ID, COMPLETED, "", 1.0),
    NodeResult(ID, FAILED, 'it "said"\n\x7f', 0.25),
    NodeResult(ID, COMPLETED, "", 1e-16, (), (), (), (), NodeResult.counts, {}, {}),
)
OTHERS = (
    NodeResult(ID, COMPLETED, "é", 1.0),
    NodeResult(ID, COMPLETED, "", 1),
    NodeResult(ID, COMPLETED, "", 1.0, data={"a": (1, 2)}),
    NodeResult(ID, COMPLETED, "", 1.0, notes=("n",)),
    NodeResult(ID, COMPLETED, "", 1.0, uncovered=(("a.py", "budget"),)),
    NodeResult(ID, COMPLETED, "", 1.0, [], metrics={"m": 1.5}),  # type: ignore[arg-type]  # as an objective may err
)


def test_lines_are_what_their_records_say() -> None:
    halves = [
        record_lines.ended(ID, COMPLETED),
        record_lines.running(ID, ("leaf", "small", 0.5), (), 1),
    ]
    data, lengths = record_format.to_lines(halves * 3, 98)
    assert [len(line) for line in data.splitlines(keepends=True)] == lengths
    found = [record_format.from_line(line) for line in data.splitlines()]
    assert [one["seq"] for one in found] == [98, 99, 100, 101, 102, 103]
    assert found[0] == {"errors": [], "node_id": ID, "seq": 98, "status": COMPLETED}


@pytest.mark.parametrize("result", PLAIN)
def test_a_plain_result_is_what_json_gives_back(result: NodeResult) -> None:
    assert record_lines.is_plain(result)
    assert record_lines.plain(result) == record_lines.result(result)
    line = record_lines.text_of(record_lines.result(result))
    assert NodeResult.from_dict(json.loads(line)) == result


@pytest.mark.parametrize("result", OTHERS)
def test_what_json_would_change_is_not_plain(result: NodeResult) -> None:
    assert not record_lines.is_plain(result)


@pytest.mark.parametrize("fields", [("done", 1.0), (COMPLETED, 1.5), (COMPLETED, float("nan"))])
def test_a_result_that_makes_no_sense_is_refused(fields: tuple[str, float]) -> None:
    result = NodeResult(ID, fields[0], "", fields[1])
    with pytest.raises(ValueError, match="a result that is"):
        record_lines.result(result)


def test_results_are_given_back_as_they_stand_on_the_disk(tmp_path: Path) -> None:
    secret = NodeResult(ID, COMPLETED, "token-0123456789", 1.0)
    with Journals.open(str(tmp_path), redactor=Redactor({"A_TOKEN": "token-0123456789"})) as store:
        numbers = [store.result(one) for one in (*PLAIN, *OTHERS, secret, *PLAIN)]
        before = store.results(numbers)
        store.flush()
        numbers.append(store.result(PLAIN[0]))
        assert store.results(numbers) == [*before, PLAIN[0]]
    stand = (tmp_path / recovery.RESULTS).read_text("ascii").splitlines()
    assert [NodeResult.from_dict(json.loads(line)) for line in stand] == [*before, PLAIN[0]]
    assert not any("0123456789" in one.summary for one in before)


# -- skimmed ------------------------------------------------------------------------------------


def states(one: previous_sessions.PreviousSessions) -> dict[str, tuple[int, Any]]:
    return {
        node: (
            state % previous_sessions.DECIDED,
            ("", *one.decisions)[state // previous_sessions.DECIDED],
        )
        for node, state in one.states.items()
    }


def told(folder: Path, *, skim: bool) -> tuple[Any, ...]:
    one = previous_sessions.PreviousSessions()
    results, nodes, _ = recovery.readers(str(folder), places=True)
    results.read(one.results, one.skim_results if skim else None)
    nodes.read(one.nodes, one.skim_nodes if skim else None)
    places = [(read.numbers, read.starts, read.offset) for read in (results, nodes)]
    return states(one), one.handles, one.deepest, places


def test_lines_that_are_skimmed_say_what_their_records_do(tmp_path: Path) -> None:
    files = shop() | {
        "shop/till/b.py": b"RAISE\n" * 9,
        'od"d/{x}\n.py': b"",
        'od"d/"node_id":"0.py': b"x",
        "é/\udcff": b"x" * 500,
    }
    solve(tmp_path, files)
    assert told(tmp_path, skim=True) == told(tmp_path, skim=False)


def test_a_run_that_was_cut_anywhere_is_skimmed_as_it_is_read(tmp_path: Path) -> None:
    """Then there are nodes at work, of which it matters what was decided."""
    solve(tmp_path, shop())
    path = tmp_path / recovery.NODES
    whole = path.read_bytes().splitlines(keepends=True)
    assert record_format.bodies(b"".join(whole)) is not None
    for cut in range(1, len(whole), 3):
        path.write_bytes(b"".join(whole[:cut]))
        assert told(tmp_path, skim=True) == told(tmp_path, skim=False)
    path.write_bytes(b"".join((*whole, *again(whole))))
    assert told(tmp_path, skim=True) == told(tmp_path, skim=False)


def again(whole: list[bytes]) -> list[bytes]:
    """What another attempt at the first leaf that ended would add: it is at work once more."""
    found = [json.loads(line) for line in whole]
    ended = next(one for one in found if one["status"] == COMPLETED)
    halves = record_lines.running(ended["node_id"], ("leaf", "max_depth_reached", 0.5), (), 1)
    return [record_format.to_lines([halves], found[-1]["seq"] + 1)[0]]


def test_a_changed_byte_is_never_skimmed(tmp_path: Path) -> None:
    solve(tmp_path, shop())
    content = (tmp_path / recovery.NODES).read_bytes()[:600]
    content = content[: content.rindex(b"\n") + 1]
    assert record_format.bodies(content) is not None
    for at in range(len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1
        assert record_format.bodies(bytes(changed)) is None, at
