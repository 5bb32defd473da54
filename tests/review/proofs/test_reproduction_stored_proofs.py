"""What was run for a finding is kept beside it, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_ci.errors import DamagedError
from rlm_ci.review.proofs import reproduction
from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction, RunOutcome, StoredProof

KEPT = StoredProof(
    Reproduction("tests/test_a.py", "def test_a():\n    assert f() == 1\n", "test", "f() == 1"),
    ProofOutcome(
        "proven", "fails at head, passes at the base",
        RunOutcome("failed", "AssertionError", "assert 2 == 1\n"), RunOutcome("passed"), "pytest",
    ),
    "--- a/a.py\n",
)  # fmt: skip


def test_a_proof_is_written_and_read(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    assert not list(reproduction.read(str(tmp_path / "proofs")))
    KEPT.write("a1", write)
    folder = tmp_path / "proofs" / "a1"
    assert {one.name for one in folder.iterdir()} == {
        "base.txt", "head.txt", "proof.json", "repair.patch", "reproduction.py",
    }  # fmt: skip
    assert (folder / "head.txt").read_text() == "failed: AssertionError\nassert 2 == 1\n"
    assert (folder / "base.txt").read_text() == "passed\n"
    assert (folder / "reproduction.py").read_text() == KEPT.reproduction.content
    assert list(reproduction.read(str(tmp_path / "proofs"))) == [("a1", KEPT)]
    told = KEPT.proof("a1")
    assert (told.level, told.head, told.repair) == ("proven", "assert 2 == 1\n", "--- a/a.py\n")
    assert told.path == "rlm/artifacts/review/proofs/a1"


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"reproduction": {"path": 1}}'])
def test_a_damaged_proof_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a1").mkdir()
    (tmp_path / "a1" / "proof.json").write_text(text)
    with pytest.raises(DamagedError):
        list(reproduction.read(str(tmp_path)))
