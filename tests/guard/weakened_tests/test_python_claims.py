"""What a test of Python calls for its claims, and replaces itself."""

from __future__ import annotations

import ast

import pytest

from rlm_ci.guard.weakened_tests import python_claims


def function(body: str) -> ast.FunctionDef:
    (found,) = ast.parse(f"def test_a():\n    {body}\n").body
    assert isinstance(found, ast.FunctionDef)
    return found


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
