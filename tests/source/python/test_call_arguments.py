"""Whether calls fit two versions of a definition: as Python's own binding says."""

from __future__ import annotations

import inspect

import pytest

from rlm_ci.source.python.call_arguments import pass_alike
from rlm_ci.source.python.interface import interface

HEADS = ["a", "a, b", "a, b=1", "b, a", "a, *, b", "a, *, b=1", "*args", "a, **kw", "a, /, b=1", ""]
CALLS = ["", "1", "1, 2", "a=1", "1, b=2", "b=1, a=2", "1, a=2", "1, 2, 3", "1, c=3"]


@pytest.mark.parametrize("old", HEADS)
@pytest.mark.parametrize("new", HEADS)
def test_a_call_that_python_binds_alike(old: str, new: str) -> None:
    versions = []
    functions = []
    for head in (old, new):
        read = interface("m.py", f"def f({head}): pass\n".encode())
        assert read
        versions.append(read.names["f"].parameters or ())
        space: dict[str, object] = {}
        exec(f"def f({head}): pass", space)
        functions.append(space["f"])
    for call in CALLS:
        values = [_bound(function, call) for function in functions]
        expected = None not in values and values[0] == values[1]
        assert pass_alike(f"x.f({call})\n".encode(), 1, "f", versions) is expected, call


def _bound(function: object, call: str) -> list[str] | None:
    """The parameters that get the positional arguments, by Python itself."""
    assert callable(function)
    try:
        bound = eval(f"signature.bind({call})", {"signature": inspect.signature(function)})
    except TypeError:
        return None
    count = len([part for part in call.split(",") if part and "=" not in part])
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [
        name for name in bound.signature.parameters
        if bound.signature.parameters[name].kind in kinds
    ]  # fmt: skip
    return names[:count]


@pytest.mark.parametrize("call", ["f(*x)", "f(**x)", "f", "g(1)"])
def test_what_cannot_be_told_does_not_fit(call: str) -> None:
    read = interface("m.py", b"def f(a=1): pass\n")
    assert read
    versions = [read.names["f"].parameters or ()] * 2
    assert pass_alike(call.encode(), 1, "f", versions) is False
    assert pass_alike(b"def (:\n", 1, "f", versions) is False
