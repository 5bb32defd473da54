"""What a Python file offers: definitions, attributes that methods set, imports."""

from __future__ import annotations

import pytest

from rlm_ci.source.python.interface import interface

SOURCE = b"""\
from ._core import Client, _hidden
from ._core import Request as Request
from . import _core
import os

if t.TYPE_CHECKING:
    from .types import Hint

LIMIT = (1, 2)
_private = 3

if True:
    def flat(a, *, b=None): ...

class Shop:
    open = True

    def __init__(self, name):
        self.name = name
        if name:
            self._key = 1

    @locked_property
    def size(self): ...
    @size.setter
    def size(self, value): ...

    class Door:
        def knock(self): ...

    def _inner(self): ...

class _Hidden:
    def shown(self): ...
"""


def test_names_with_their_kinds_and_who_sees_them() -> None:
    found = interface("shop/a.py", SOURCE)
    assert found is not None
    assert {name: one.kind for name, one in found.names.items() if one.is_public} == {
        "LIMIT": "variable", "flat": "function", "Shop": "class", "Shop.open": "attribute",
        "Shop.__init__": "method", "Shop.name": "attribute", "Shop.size": "property",
        "Shop.Door": "class", "Shop.Door.knock": "method",
    }  # fmt: skip
    assert [one for one in found.names if not found.names[one].is_public] == [
        "_private", "Shop._key", "Shop._inner", "_Hidden", "_Hidden.shown",
    ]  # fmt: skip
    assert not found.listed


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        ("shop/a.py", b"", ["Request"]),
        ("shop/__init__.py", b"", ["Client", "Request"]),
        ("shop/__init__.py", b"__all__ = ['Client', '_core']\n", ["Client", "_core"]),
    ],
)
def test_imports_that_are_meant_for_users(path: str, more: bytes, expected: list[str]) -> None:
    found = interface(path, SOURCE + more)
    assert found is not None
    assert [name for name, one in found.bindings.items() if one.is_public] == expected
    assert found.listed == bool(more)


@pytest.mark.parametrize(
    "source", [b"def (", b"\0", b"x = " + b"-" * 100_000 + b"1", b"f(" * 5000 + b")" * 5000]
)
def test_what_is_no_python_has_no_interface(source: bytes) -> None:
    assert interface("a.py", source) is None
