"""A failure is the one claimed, or another."""

from __future__ import annotations

import pytest

from rlm_ci.review.proofs.levels import ClaimFailure, is_expected

FOUND = ClaimFailure(
    ("InvalidURL", "shop.errors.InvalidURL", "ValueError", "builtins.ValueError"),
    "no host\n  in  'http://'",
    "assert url.host == 'h'",
)


@pytest.mark.parametrize(
    ("expects", "holds"),
    [
        ("InvalidURL", True),
        ("`ValueError`", True),
        ("shop.InvalidURL", True),
        ("shop.errors.InvalidURL: no host in", True),
        ("ValueError: another text", False),
        ("assert url.host == 'h'", True),
        ("KeyError", False),
        ("Exception", False),
        ("BaseException: no host", False),
        ("", False),
        (" : ", False),
        ("the host is wrong", False),
    ],
)
def test_what_is_claimed_is_named(expects: str, holds: bool) -> None:
    assert is_expected(expects, FOUND) is holds


def test_a_name_that_is_not_there() -> None:
    assert ClaimFailure(("ModuleNotFoundError", "ImportError"), "").says_missing
    assert ClaimFailure(("TypeError",), "an unexpected keyword", is_own=True).says_missing
    assert not ClaimFailure(("TypeError",), "from deep inside").says_missing
    assert not FOUND.says_missing
