"""What a test of Python claims when it runs, and what it only seems to claim."""

from __future__ import annotations

import ast

import pytest

from rlm_ci.guard.weakened_tests import python_claims
from rlm_ci.guard.weakened_tests.strength import NOTHING, strength


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
    ((_, claim),) = python_claims.claims(function(body))
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
    assert list(python_claims.claims(function(body))) == []


@pytest.mark.parametrize(
    "body",
    [
        "for x in xs:\n        assert x == 3", "if SLOW:\n        assert total() == 3",
        "def check():\n        assert total() == 3\n    run(check)",
        "assert total() == 3, 'why'", "assert not (total(), 3) == (1, 2)",
    ],
)  # fmt: skip
def test_what_may_run_is_a_claim(body: str) -> None:
    ((_, claim),) = python_claims.claims(function(body))
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
    found = [claim for _, claim in python_claims.claims(function(body))]
    assert found == (["raises(TypeError)"] if is_like else [])


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("monkeypatch.setattr(cart, 'total', lambda x: 90)\n    assert cart.total(x) == 90",
         ["cart.total"]),
        ("with patch('src.cart.total', return_value=90):\n        assert cart.total(x) == 90",
         ["cart.total"]),
        ("with patch.object(cart, 'total'):\n        got = cart.total(x)\n    assert got == 90",
         ["cart.total"]),
        ("cart.total = Mock(return_value=90)\n    self.assertEqual(cart.total(x), 90)",
         ["cart.total"]),
        ("monkeypatch.setattr(cart, 'rate', lambda: 2)\n    assert cart.total(x) == 90", []),
        ("with patch.object(cart, 'total', wraps=cart.total):\n        assert cart.total(x)", []),
        ("monkeypatch.setattr(bank, 'total', lambda: 2)\n    assert cart.total(x) == 90", []),
    ],
)  # fmt: skip
def test_what_is_called_and_replaced_is_known(body: str, names: list[str]) -> None:
    assert [name for _, name in python_claims.replaced(function(body))] == names
