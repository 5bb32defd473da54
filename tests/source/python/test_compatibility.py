"""Two versions of a definition: what differs for those who use it."""

from __future__ import annotations

import pytest

from rlm_ci.source.python.compatibility import differences, is_retyped
from rlm_ci.source.python.interface import interface


def told(old: str, new: str, name: str = "f") -> list[tuple[str, bool]]:
    sides = [interface("a.py", source.encode()) for source in (old, new)]
    assert sides[0] is not None
    assert sides[1] is not None
    found = differences(sides[0].names[name], sides[1].names[name])
    return [(one.text, one.breaks) for one in found]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a, b=1", "a", [("lost `b`", True)]),
        ("a, b=1", "a, *args, **kwargs", [
            ("lost `b`", False), ("takes `*args`", False), ("takes `**kwargs`", False)]),
        ("a, *, b=1", "a, **kw", [("lost `b`", False), ("takes `**kw`", False)]),
        ("a", "a, b", [("requires `b`", True)]),
        ("a", "a, b=2", [("takes `b`", False)]),
        ("a, b=1", "a, b", [("requires `b`", True)]),
        ("a, b", "a, b=1", [("`b` is optional", False)]),
        ("a, b=1", "a, b=2", [("default of `b` is `2`, was `1`", False)]),
        ("a, b", "b, a", [("position of `a`, `b`", True)]),
        ("a, b=1", "a, x=0, b=1", [("position of `b`", True), ("takes `x`", False)]),
        ("a, b=1", "a, *, b=1", [("`b` is keyword only", True)]),
        ("a, /", "a", [("`a` is positional or keyword", False)]),
        ("a", "a, /", [("`a` is positional only", True)]),
        ("a, b", "a, c", [("`b` is called `c`", True)]),
        ("a, /", "b, /", [("`a` is called `b`", False)]),
        ("__a", "a", [("`__a` is called `a`", False)]),
        ("a=1", "b=1", [("lost `a`", True), ("takes `b`", False)]),
        ("**attrs", "**kwargs", []),
        ("a: int", "a: 'str'", []),
        ("a=(1,2)", "a = ( 1, 2 )", []),
    ],
)  # fmt: skip
def test_parameters(old: str, new: str, expected: list[tuple[str, bool]]) -> None:
    assert told(f"def f({old}): ...", f"def f({new}): ...") == expected


@pytest.mark.parametrize(
    ("old", "new", "name", "expected"),
    [
        ("def f(): ...", "class f: ...", "f", [("was a function, is a class", True)]),
        ("def f(): ...", "async def f(): ...", "f", []),
        ("class A(B, C): ...", "class A(C): ...", "A", [("no longer derives from `B`", True)]),
        ("class A(x.B[int]): ...", "class A(B): ...", "A", []),
        ("class A:\n def m(self): ...", "class A:\n @property\n def m(self): ...", "A.m",
         [("was a method, is a property", True)]),
        ("class A:\n x = 1", "class A:\n @property\n def x(self): ...", "A.x", []),
        ("class A:\n def m(self, a): ...", "class A:\n @staticmethod\n def m(a): ...", "A.m", []),
        ("class A:\n def m(self, a): ...", "class A:\n def m(this, a): ...", "A.m", []),
    ],
)  # fmt: skip
def test_kinds_bases_and_methods(
    old: str, new: str, name: str, expected: list[tuple[str, bool]]
) -> None:
    assert told(old, new, name) == expected


def test_annotations_are_a_difference_of_their_own() -> None:
    sides = [interface("a.py", one) for one in (b"def f(a): ...", b"def f(a: int) -> None: ...")]
    assert sides[0] is not None
    assert sides[1] is not None
    assert is_retyped(sides[0].names["f"], sides[1].names["f"])
    assert not is_retyped(sides[0].names["f"], sides[0].names["f"])


def test_a_definition_with_a_thousand_differences_tells_some() -> None:
    many = ", ".join(f"a{number}=1" for number in range(1000))
    assert len(told(f"def f({many}): ...", "def f(): ...")) == 20
