"""The proofs of a stored review are run again, and one that ends otherwise is a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import UsageError
from rlm_ci.review.proofs import runner
from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction, RunOutcome, StoredProof
from rlm_ci.sandbox.none import Unsandboxed

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.trials.trees import ProofPlace

FAILS = "failed at head"
TRUE = "from shop import password\nassert password('a:b:c') == 'b:c'\n"


def stored(folder: Path, name: str, text: str) -> None:
    def write(path: str, content: str) -> None:
        place = folder / "rlm" / "artifacts" / "review" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)

    head, base = RunOutcome("failed", "AssertionError"), RunOutcome("passed")
    outcome = ProofOutcome("proven", reason="it fails", head=head, base=base)
    StoredProof(Reproduction("s.py", text, "script", "AssertionError"), outcome).write(name, write)


@pytest.mark.full
def test_proofs_are_run_again(shop: ProofPlace, tmp_path: Path) -> None:
    told: list[str] = []
    assert runner.run(str(tmp_path), shop, told.append) == runner.ProofsAgain()
    stored(tmp_path, "aa", TRUE)
    stored(tmp_path, "bb", "assert False\n")
    assert runner.run(str(tmp_path), shop, told.append, "aa") == runner.ProofsAgain(1)
    assert told == ["running the proof of aa"]
    told.clear()
    results = runner.run(str(tmp_path), shop, told.append)
    assert told == ["running the proof of aa", "running the proof of bb"]
    assert results.ran == 2
    (problem,) = results.problems
    assert problem.startswith(
        f"proof of bb: now {FAILS}, failed at the base; it was {FAILS}, passed"
    )


def test_what_cannot_be_run_is_a_problem(shop: ProofPlace, tmp_path: Path) -> None:
    stored(tmp_path, "aa", TRUE)
    (problem,) = runner.run(str(tmp_path), shop.replace(sandbox=Unsandboxed), print).problems
    assert problem.startswith("proofs: none can be run here: there is no sandbox")
    assert runner.ProofsAgain(0, (problem,)).summary == "no proof was run again"
    assert runner.ProofsAgain().summary == "the run has no proofs"
    with pytest.raises(UsageError, match="the run has no proof bb") as error:
        runner.run(str(tmp_path), shop, print, "bb")
    assert error.value.hint == "its proofs: aa"
    stored(tmp_path / "review" / "t" / "cli" / "r", "ab", TRUE)
    (tmp_path / "review" / "t" / "cli" / "r" / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="a is the beginning of several") as error:
        runner.run(str(tmp_path), shop, print, "a")
    assert error.value.hint == "its proofs: aa, ab"
    bare = shop.replace(sandbox=Unsandboxed)
    assert (
        runner.run(str(tmp_path), bare, print, "ab").problems
        == runner.run(str(tmp_path), bare, print).problems
    )
    damaged = tmp_path / "rlm" / "artifacts" / "review" / "proofs" / "aa" / "proof.json"
    damaged.write_text("{}")
    (problem,) = runner.run(str(tmp_path), shop, print).problems
    assert "a proof cannot be read" in problem
