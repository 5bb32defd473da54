"""What a test of Python claims when it runs, and what it only seems to claim."""

from __future__ import annotations

import ast

import pytest

from rlm_ci.guard.weakened_tests.strength import NOTHING, strength
from rlm_ci.source.python.claims import BLOCK, GUARD, claims, claims_of, escapes


def function(body: str) -> ast.FunctionDef:
    (found,) = ast.parse(f"def test_a():\n    {body}\n").body
    assert isinstance(found, ast.FunctionDef)
    return found


@pytest.mark.parametrize(
    "body",
    [
        "assert (total() == 3, 'why')", "assert [total() == 3]", "assert total() == 3 or 'why'",
        "assert lambda: total() == 3", "assert f'the total {total()}'",
        "self.assertTrue((total() == 3, 'why'))",
    ],
)  # fmt: skip
def test_what_holds_whatever_is_tested_claims_nothing(body: str) -> None:
    ((_, claim),) = claims(function(body))
    assert strength(claim) == NOTHING


@pytest.mark.parametrize(
    "body",
    [
        "for x in []:\n        assert x == 3",
        "for x in range(0):\n        assert x == 3",
        "if False:\n        assert total() == 3",
        "while 0:\n        assert total() == 3",
        "if True:\n        pass\n    else:\n        assert total() == 3",
        "for x in xs:\n        continue\n        assert x == 3",
        "def check():\n        assert total() == 3",
    ],
)
def test_what_never_runs_is_no_claim(body: str) -> None:
    assert list(claims(function(body))) == []


@pytest.mark.parametrize(
    "body",
    [
        "for x in xs:\n        assert x == 3", "if SLOW:\n        assert total() == 3",
        "def check():\n        assert total() == 3\n    run(check)",
        "assert total() == 3, 'why'", "assert not (total(), 3) == (1, 2)",
    ],
)  # fmt: skip
def test_what_may_run_is_a_claim(body: str) -> None:
    ((_, claim),) = claims(function(body))
    assert strength(claim) > NOTHING


@pytest.mark.parametrize(
    ("end", "is_like"),
    [
        ("\n    else:\n        raise AssertionError('no error')", True),
        ("\n    else:\n        pytest.fail('no error')", True),
        ("\n    else:\n        assert False", True),
        ("\n    else:\n        check()", False),
        ("", False),
    ],
)
def test_a_handler_with_a_failing_else_is_like_raises(end: str, *, is_like: bool) -> None:
    body = f"try:\n        total(['x'])\n    except TypeError as error:\n        pass{end}"
    found = [claim for _, claim in claims(function(body))]
    assert found == (["raises(TypeError)"] if is_like else [])


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("with pytest.raises(KeyError):\n        total()", [BLOCK]),
        ("if total() != 3:\n        raise AssertionError", [GUARD]),
        ("if total() != 3:\n        self.fail('why')", [GUARD]),
        ("if total() != 3:\n        raise ValueError", []),
        ("if total() != 3:\n        log()\n        self.fail('why')", []),
    ],
)
def test_a_block_that_must_raise_and_a_guard_are_claims(body: str, kinds: list[str]) -> None:
    assert [claim.kind for claim in claims_of(function(body)).all] == kinds


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("match total():\n        case 3:\n            return\n    assert total() == 3", [4]),
        ("if total() == 3:\n        return\n    assert total()", [3]),
        ("assert total()\n    return", []),
    ],
)
def test_a_way_out_of_a_test_is_an_escape(body: str, lines: list[int]) -> None:
    assert [line for line, _ in escapes(function(body))] == lines
