"""Stands for what functions of the project return while a touched test runs.

It is written into a copy of the tree, and imports nothing of rlm_ci. Each function of the project
asks ``hollow`` first: called by a touched test it does nothing, and returns a value that is equal
only to one of the same call, and that fails the test wherever else it is looked at. The file
``REPORT`` says of which tests that was so, and which of them compared such a value with itself.
"""  # noqa: INP001 - it is no module of this package

from __future__ import annotations

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

#: The lines of touched tests by absolute path: first, last, and its number in the order.
TESTS: dict[str, list[tuple[int, int, int]]] = {}
REPORT = ""
CALLED, SAME = "called", "same"
_told: set[tuple[int, str]] = set()
_open, _write, _close = os.open, os.write, os.close
_PLAIN = (str, int, float, complex, bytes, bool, type(None))
#: How deep an argument is looked into.
_DEEP = 4


class HollowError(BaseException):
    """A value of the project decides."""


def hollow() -> Callable[[str, dict[str, Any]], Any] | None:
    """What a function returns with its name and arguments; None where it works as ever."""
    test = _test()
    if test is None:
        return None
    _tell(test, CALLED)

    def returned(name: str, values: dict[str, Any]) -> Any:
        return HollowValue(test, (name, *_keys(values)))

    return returned


def hollow_object() -> Callable[[str, dict[str, Any]], None] | None:
    """The same for ``__init__``, which leaves an object whose attributes are such values."""
    test = _test()
    if test is None:
        return None
    _tell(test, CALLED)

    def begun(name: str, values: dict[str, Any]) -> None:
        owner = next(iter(values.values()))
        key = (name, *_keys(values)[1:])
        kind = type(owner)
        with suppress(Exception):
            attributes = {
                "__getattr__": lambda _self, name: _attribute(test, key, name),
                "_rlm_key": key,
            }
            owner.__class__ = type(kind)(  # type: ignore[misc]
                kind.__name__, (kind,), attributes
            )

    return begun


def _test() -> int | None:
    """The touched test that this is called by; None while a module is imported."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - there is no other way
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>":
            return None
        for first, last, number in TESTS.get(code.co_filename, ()):
            if first <= code.co_firstlineno <= last:
                return number
        frame = frame.f_back
    return None


def _is_of_project() -> bool:
    """Whether the project compares, as when it looks for a key, and no claim of a test."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - there is no other way
    while frame is not None:
        if frame.f_code.co_filename in TESTS:
            break
        if f"_{__name__}" in frame.f_globals:  # by this name each file of the project imports it
            return True
        frame = frame.f_back
    return False


def _tell(test: int, what: str) -> None:
    if (test, what) not in _told:
        _told.add((test, what))
        place = _open(REPORT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _write(place, f"{test} {what}\n".encode())
        finally:
            _close(place)


def _keys(values: dict[str, Any]) -> list[Any]:
    """The same for all arguments of a call."""
    return [_key(value) for name, value in values.items() if name != "_rlm"]


def _key(value: Any, depth: int = 0) -> Any:
    """What two arguments have in common that are the same."""
    if isinstance(value, HollowValue):
        return value.rlm_key
    if "_rlm_key" in type(value).__dict__:
        return type(value).__dict__["_rlm_key"]
    if type(value) in _PLAIN:
        return (type(value).__name__, value)
    if type(value) in (list, tuple, set, dict) and depth < _DEEP:
        parts = value.items() if type(value) is dict else value
        return (type(value).__name__, *(_key(part, depth + 1) for part in parts))
    return id(value)


def _attribute(test: int, key: Any, name: str) -> HollowValue:
    if name.startswith(("__", "_pytest")):
        raise AttributeError(name)
    return HollowValue(test, (key, name))


class HollowValue:
    """What a call of the project gives."""

    def __init__(self, test: int, key: Any) -> None:
        self.rlm_test, self.rlm_key = test, key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HollowValue):
            raise HollowError("it is compared with something else")
        is_same = bool(self.rlm_key == other.rlm_key)
        if is_same and not _is_of_project():
            _tell(self.rlm_test, SAME)
        return is_same

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "<a value of the project>"

    def __getattr__(self, name: str) -> HollowValue:
        return _attribute(self.rlm_test, self.rlm_key, name)

    def __call__(self, *args: Any, **named: Any) -> HollowValue:
        return HollowValue(self.rlm_test, (self.rlm_key, "()", _key(args), _key(named)))

    def __getitem__(self, at: Any) -> HollowValue:
        return HollowValue(self.rlm_test, (self.rlm_key, "[]", _key(at)))

    def __iter__(self) -> Iterator[HollowValue]:
        return iter([HollowValue(self.rlm_test, (self.rlm_key, "each"))])

    def __await__(self) -> Any:
        yield from ()
        return self

    def __enter__(self) -> HollowValue:  # noqa: PYI034 - it is another one
        return HollowValue(self.rlm_test, (self.rlm_key, "with"))

    def __exit__(self, *_error: object) -> None:
        pass

    async def __aenter__(self) -> HollowValue:  # noqa: PYI034 - see above
        return self.__enter__()

    async def __aexit__(self, *_error: object) -> None:
        pass


def _used(*_args: object, **_named: object) -> Any:
    raise HollowError("a value of the project decides")


def _combined(name: str) -> Callable[..., HollowValue]:
    def combine(self: HollowValue, *others: Any) -> HollowValue:
        return HollowValue(self.rlm_test, (self.rlm_key, name, _key(others)))

    return combine


_USED = "bool len next contains str format int float index lt le gt ge reversed"
_COMBINED = "add radd sub rsub mul rmul truediv floordiv mod neg or and xor abs round"
for _name in _USED.split():
    setattr(HollowValue, f"__{_name}__", _used)
for _name in _COMBINED.split():
    setattr(HollowValue, f"__{_name}__", _combined(_name))
