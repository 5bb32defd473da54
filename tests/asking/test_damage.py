"""A record whose sums are right and that no run wrote is damage, and told as that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from asking.stage import LOG, QUESTION, Asking, Script, chunk, final, going_on, subcall
from rlm_ci.runs.journal import Journal, replay

if TYPE_CHECKING:
    from fixing.stage import Outcome

pytestmark = pytest.mark.full

KINDS = ("mode", "context", "terms", "clock", "structured", "subcall", "completion")


@pytest.fixture
def ended(stage: Asking) -> Outcome:
    stage.llm.script(Script(going_on(subcalls=[subcall(chunk(3))]), final()))
    return stage.fixed("--context", LOG, goal=QUESTION)[1]


def test_a_fact_of_another_shape_ends_in_six(stage: Asking, ended: Outcome) -> None:
    """Exit 6 and the file by name, whichever fact was emptied; never an internal error."""
    journal = ended.folder / "calls.jsonl"
    whole = list(replay(str(journal)))
    assert set(KINDS) <= {row.get("kind") for row in whole}
    for kind in KINDS:
        os.unlink(journal)
        with Journal.open(str(journal)) as writer:
            for row in whole:
                told = {name: one for name, one in row.items() if name not in ("seq", "crc")}
                if (row["type"], row["kind"]) == ("fact", kind):
                    told["value"] = {}
                writer.append(told)
        child = stage.spawn("replay", ended.id)
        assert child.wait(60) == 6, (kind, child.stderr)
        assert "calls.jsonl" in child.stderr
