"""What came of a reproduction is stored, and read back as it was."""

from __future__ import annotations

import json

from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction, RunOutcome


def test_an_outcome_survives_its_file() -> None:
    head, base = RunOutcome("failed", "AssertionError", "E 1 == 2\n"), RunOutcome("passed")
    for one in (
        ProofOutcome("proven", "fails at head", head, base, "python -m pytest t.py"),
        ProofOutcome("argued", "passes at head", base),
    ):
        assert ProofOutcome.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_every_field_is_part_of_the_digest() -> None:
    fields = ("tests/test_a.py", "assert f() == 1 # \ud800", "test", "AssertionError")
    digests = {Reproduction(*fields).digest}
    for at in range(len(fields)):
        digests.add(
            Reproduction(*(f"{one}x" if n == at else one for n, one in enumerate(fields))).digest
        )
    assert len(digests) == len(fields) + 1
