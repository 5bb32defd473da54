"""A failure is the one claimed, or another."""

from __future__ import annotations

import pytest

from rlm_ci.review.proofs.reproduction import ClaimFailure, is_expected, looks_at

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


@pytest.mark.parametrize(
    ("content", "claim", "looked"),
    [
        ("assert shop.total.__doc__ == 'x'\n", "total() is wrong", "__doc__"),
        ("getattr(shop.total, '__annotations__')\n", "total() is wrong", "__annotations__"),
        ("assert shop.total.__annotations__ == {}\n", "The annotations are lost", ""),
        ("from shop import total\nassert total([1]) == 1, __file__\n", "total() is wrong", ""),
        ("not python(", "total() is wrong", ""),
    ],
)
def test_what_looks_at_code_in_place_of_what_it_does(content: str, claim: str, looked: str) -> None:
    assert looks_at(content, claim) == looked
