"""Bugs of many kinds, and rewrites that change nothing."""

from __future__ import annotations

import pytest

from rlm_ci.lab.planted_bugs.edits import HARMLESS, apply, bugs, overlap, rewrites

BUGS = {
    "if n < 3: n = 1": ("boundary", "if n <= 3: n = 1"),
    "x = a == b": ("comparison", "x = a != b"),
    "x = a and b": ("boolean-operator", "x = a or b"),
    "x = not a": ("lost-not", "x = (a)"),
    "x = a - b": ("arithmetic", "x = a + b"),
    "x = n + 1": ("off-by-one", "x = n + 2"),
    "x = a[1:]": ("wrong-slice", "x = a[1 + 1:]"),
    "x = a[0]": ("wrong-index", "x = a[1]"),
    "x = a.strip('x')": ("wrong-method", "x = a.lstrip('x')"),
    "x = a.casefold()": ("lost-normalisation", "x = a"),
    "f(a, b)": ("swapped-arguments", "f(b, a)"),
    "x = d.get(k, 1)": ("lost-default", "x = d.get(k)"),
    "if a: f()": ("wrong-branch", "if not (a): f()"),
    "if a: return 1": ("lost-guard", "if a: pass"),
    "for i in a: continue": ("early-end", "for i in a: break"),
    "for i in a: break": ("late-end", "for i in a: continue"),
    "n += a": ("lost-accumulation", "n = a"),
    "x = (1, 2, 3)": ("lost-element", "x = (1, 2)"),
}
REWRITES = {
    "x = a < 3": "x = 3 > a",
    "x = a if b else c": "x = c if not (b) else a",
    "n += 1": "n = n + 1",
    "return f(x)": "outcome = f(x)\n    return outcome",
    "x = 'é'; y = 'a'": "x = 'é'; y = \"a\"",
}
NOTHING = ("x = f() < g()", "x = 'it\\'s'", "n += f()", "x = f'{a}'", "x = '''a'''", "return x")


def _inside(statement: str) -> bytes:
    return f"def f(a, b):\n    {statement}\n".encode()


@pytest.mark.parametrize(
    ("statement", "made"), BUGS.items(), ids=[kind for kind, _ in BUGS.values()]
)
def test_a_bug_is_one_edit_of_its_kind(statement: str, made: tuple[str, str]) -> None:
    source = _inside(statement)
    kind, text = made
    found = [one for one in bugs(source) if one.kind == kind]
    assert _inside(text) in [apply(source, [one]) for one in found]
    assert {one.line for one in found} == {2}


@pytest.mark.parametrize(("statement", "text"), REWRITES.items())
def test_a_rewrite_says_the_same(statement: str, text: str) -> None:
    source = _inside(statement)
    (found,) = rewrites(source)
    assert (found.kind, apply(source, [found])) == (HARMLESS, _inside(text))


@pytest.mark.parametrize("statement", NOTHING)
def test_what_might_do_something_else_is_left_alone(statement: str) -> None:
    assert rewrites(_inside(statement)) == []


def test_edits_outside_of_functions_are_none_and_some_fit_together() -> None:
    assert bugs(b"x = 1 < 2\n") == rewrites(b"x += 1\n") == []
    source = b"def f(a):\n    if a < 1: return a + 1\n    return 'x' if a else 'y'\n"
    first, *others = bugs(source)
    apart = [one for one in others if not overlap(one, first)]
    assert apart
    compile(apply(source, [first, apart[-1]]), "f", "exec")
