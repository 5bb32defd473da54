"""The text above a proof is cut from the claim: whole clauses of it, and no other words."""

from __future__ import annotations

import pytest

from rlm_ci.review.model.claim_context import part_of

CLAIM = (
    "`total()` divides by zero, so the cart is lost: nobody is told. "
    "If the list is empty, it loops, and 3 of 4 users see a.b fail!"
)


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        ("total() divides by zero", "`total()` divides by zero."),
        ("Nobody is told.", "Nobody is told."),
        ("`total()` divides by zero. Nobody is told", "`total()` divides by zero. Nobody is told."),
        ("If the list is empty, it loops.", "If the list is empty, it loops."),
        ("3 of 4 users see a.b fail", "3 of 4 users see a.b fail!"),
        ("It loops", ""),  # only if the list is empty
        ("Nobody is told. total() divides by zero", ""),
        ("total() does not divide by zero", ""),
        ("total() divides by 0", ""),
        ("total() divides by zero. The rest is safe.", ""),
        ("is told", ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_only_whole_clauses_of_the_claim_are_a_part_of_it(wanted: str, part: str) -> None:
    assert part_of(CLAIM, wanted) == part
