"""Where a long file may be cut."""

from __future__ import annotations

import pytest

from rlm_ci.source.cut_points import borders


def test_python_is_cut_before_what_belongs_together() -> None:
    content = b'''"""Doc."""
import os

# said of f
# in two lines
@a
@b(
)
def f():
    """
def g(): no
"""


class C:
    def m(self): ...

x = 1
'''
    assert borders("a.py", content) == (1, 2, 4, 15, 18)


def test_a_long_class_may_be_cut_before_its_members() -> None:
    body = "".join(f"    # {i}\n    def m{i}(self):\n        return {i}\n\n" for i in range(100))
    found = borders("a.py", b"class C:\n" + body.encode() + b"\ndef f(): ...\n")
    assert found[:4] == (1, 2, 6, 10)
    assert found[-1] == 403


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("a.go", b"package a\n\n// F runs.\n// Well.\nfunc F() {\n}\n\nvar x = 1\n", (1, 3, 8)),
        ("a.rs", b"/// Doc.\n#[inline]\nfn f() {\n}\nstruct S;\n", (1, 5)),
        ("a.c", b"#include <a.h>\nint f(void)\n{\n}\n/* g */\nint g;\n", (1, 2, 5)),
        ("a.js", b"'x';\n/**\n * F.\n */\nfunction f() {\n}\n", (1, 2)),
        ("a.rb", b"class A\n  def f\n  end\nend\ndef g\nend\n", (1, 5)),
        ("a.py", b"def broken(:\n  x\n\ndef g():\n  pass\n", (1, 4)),
        ("a.md", b"# A\n\n# B\n", ()),
        ("a.go", b"", ()),
        ("a.py", b"", ()),
        ("a.py", b"x = 1\0\n", ()),
    ],
)
def test_other_languages_are_cut_where_their_grammar_says(
    path: str, content: bytes, expected: tuple[int, ...]
) -> None:
    assert borders(path, content) == expected
