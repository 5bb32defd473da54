"""The records of a recursion: what is written of a result is what is read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.nodes import COMPLETED, FAILED, NodeResult
from rlm_ci.redaction.redactor import Redactor

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


@pytest.mark.parametrize("result", PLAIN)
def test_a_plain_result_is_what_json_gives_back(result: NodeResult) -> None:
    assert node_records.is_plain(result)
    line = json.dumps(node_records.result(result))
    assert NodeResult.from_dict(json.loads(line)) == result


@pytest.mark.parametrize("result", OTHERS)
def test_what_json_would_change_is_not_plain(result: NodeResult) -> None:
    assert not node_records.is_plain(result)


@pytest.mark.parametrize("fields", [("done", 1.0), (COMPLETED, 1.5), (COMPLETED, float("nan"))])
def test_a_result_that_makes_no_sense_is_refused(fields: tuple[str, float]) -> None:
    result = NodeResult(ID, fields[0], "", fields[1])
    with pytest.raises(ValueError, match="a result that is"):
        node_records.result(result)


def test_results_are_given_back_as_they_stand_on_the_disk(tmp_path: Path) -> None:
    secret = NodeResult(ID, COMPLETED, "token-0123456789", 1.0)
    with Journals.open(str(tmp_path), redactor=Redactor({"A_TOKEN": "token-0123456789"})) as store:
        given = [store.result(one) for one in (*PLAIN, *OTHERS, secret, *PLAIN)]
    stand = (tmp_path / node_records.RESULTS).read_text("ascii").splitlines()
    assert [NodeResult.from_dict(json.loads(line)) for line in stand] == given
    assert not any("0123456789" in one.summary for one in given)
