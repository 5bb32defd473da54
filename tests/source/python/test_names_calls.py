"""What is called, and whether a handler catches a failed assertion."""

from __future__ import annotations

import ast

import pytest

from rlm_ci.source.python.names import callee, catches


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "name"),
    [("f()", "f"), ("a.b.f(1)", "f"), ("f()()", ""), ("f[0]()", ""), ("f", "")],
)
def test_the_last_part_of_a_called_name(text: str, name: str) -> None:
    assert callee(expression(text)) == name


@pytest.mark.parametrize(
    ("kind", "caught"),
    [
        ("AssertionError", True),
        ("self.failureException", True),
        ("(OSError, Exception)", True),
        ("(OSError, ValueError)", False),
        ("KeyError", False),
    ],
)
def test_what_catches_a_failed_assertion(kind: str, caught: bool) -> None:
    assert catches(expression(kind)) is caught


def test_a_bare_handler_catches_all() -> None:
    assert callee(None) == ""
    assert catches(None)
