"""Immutable value classes, without ``dataclasses``, whose import takes 10 ms of a Git hook.

A subclass of :class:`Value` is written as a frozen dataclass, and type checkers see it as one. A
:class:`Row` is the same, for thousands of them. Both read and write themselves as JSON, by the
annotations of their fields. A :class:`Closing` has a ``close`` for ``with``.
"""

from __future__ import annotations

import sys
from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_options: object):  # type: ignore[no-untyped-def]
        return lambda cls: cls


_SCALARS = frozenset((str, int, float, bool, type(None)))


class _Json:
    """How a record is read from JSON, and written as JSON; ``rlm_ci/decoding`` says by what."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    #: Fields that JSON may lack, the last ones of a list; it lacks them where they say nothing.
    #: None: it may lack all that have a default, and has them all.
    _optional: tuple[str, ...] | None = None
    #: Whether other members are passed over; else they are an error.
    _ignores = False
    #: Others that older JSON lacks.
    _recent: tuple[str, ...] = ()
    #: Fields that are lists, each with its least and its most items.
    _items: tuple[tuple[str, int, int], ...] = ()
    #: Whether it is a list in the order of the fields.
    _is_row = False
    #: From an older form of the JSON to the present one.
    _upgraded: Callable[[Any], Any] | None = None

    def _values(self) -> tuple[Any, ...]:
        """The values of the fields, in order."""
        raise NotImplementedError

    @classmethod
    def _of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """One with these fields, unchecked."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        """The one that ``record`` is as JSON. Raises DecodeError, a ValueError."""
        read = cls.__dict__.get("_decoder")
        if read is None:
            from rlm_ci.decoding import decoder

            read = decoder(cls)
        decoded: Self = read(record)
        return decoded

    @classmethod
    def _types(cls) -> Mapping[str, Any]:
        """Classes that annotations name and the module imports for types only."""
        return {}

    def to_json(self) -> Any:
        """As JSON: a list in the order of the fields, or ``to_dict``."""
        if not self._is_row:
            return self.to_dict()
        row = [*map(_plain, self._values())]
        while row and not row[-1] and self._fields[len(row) - 1] in (self._optional or ()):
            row.pop()
        return row

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in order, as JSON has them; mappings are as they are."""
        record = {name: _plain(getattr(self, name)) for name in self._fields}
        for name in self._optional or ():
            if not record[name]:
                del record[name]
        return record


def _plain(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, _Json):
        return value.to_json()
    if isinstance(value, tuple):
        return [*map(_plain, value)]
    decimal = sys.modules.get("decimal")  # slow to import, and where it is not there is none
    return str(value) if decimal and isinstance(value, decimal.Decimal) else value


@dataclass_transform(frozen_default=True)
class Value(_Json):
    """An immutable record; equal when type and fields are equal."""

    _known: frozenset[str] = frozenset()
    _required: frozenset[str] = frozenset()
    #: So many fields in order are enough.
    _enough: int = 0

    def __init_subclass__(cls) -> None:
        own = [name for name in cls.__annotations__ if name not in cls._fields]
        cls._fields = fields = (*cls._fields, *own)
        required = [name for name in fields if not hasattr(cls, name)]
        cls._known, cls._required = frozenset(fields), frozenset(required)
        cls._enough = fields.index(required[-1]) + 1 if required else 0

    def __init__(self, *args: Any, **fields: Any) -> None:
        names = self._fields
        values = self.__dict__
        if not fields and self._enough <= len(args) <= len(names):  # thousands are made like this
            values.update(zip(names, args))  # noqa: B905 - defaults stand for the rest
            return
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} fields, not {len(args)}")
        values.update(zip(names, args))  # noqa: B905 - fewer args than names is the usual case
        values.update(fields)
        if len(values) < len(args) + len(fields) or not self._known.issuperset(fields):
            wrong = [name for name in fields if name not in names[len(args) :]]
            raise TypeError(f"{type(self).__name__}: unexpected or repeated field {wrong[0]!r}")
        if not self._required <= values.keys():
            missing = ", ".join(sorted(self._required - values.keys()))
            raise TypeError(f"{type(self).__name__}: missing {missing}")

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set: the value is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inner})"

    def replace(self, **changes: Any) -> Self:
        """A copy with ``changes`` in place of the fields that they name."""
        return type(self)(**{**dict(zip(self._fields, self._values(), strict=True)), **changes})

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    @classmethod
    def _of_fields(cls, fields: Mapping[str, Any]) -> Self:
        record = cls.__new__(cls)
        record.__dict__.update(fields)
        return record


class Closing:
    """What ``with`` closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


if TYPE_CHECKING:

    class Row(Value):
        """A value that is a tuple underneath, and so made in a fraction of the time."""

        @classmethod
        def of(cls, values: Iterable[Any]) -> Self:
            """One from all its fields in order, unchecked."""

        def __iter__(self) -> Iterator[Any]:
            """Its fields in order."""

else:

    class Row(_Json, tuple):
        """A value that is a tuple underneath, and so made in a fraction of the time."""

        __slots__ = ()
        _defaults: Mapping[str, Any] = {}
        _required: frozenset[str] = frozenset()
        of = classmethod(tuple.__new__)

        def __init_subclass__(cls):
            own = tuple(name for name in cls.__annotations__ if name not in cls._fields)
            given = {name: vars(cls)[name] for name in own if name in vars(cls)}
            cls._fields += own
            cls._defaults = {**cls._defaults, **given}
            cls._required = frozenset(cls._fields).difference(cls._defaults)
            for index, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(index)))

        def __new__(cls, *args, **fields):
            values = dict(zip(cls._fields, args))  # noqa: B905 - defaults stand for the rest
            if len(args) > len(cls._fields) or values.keys() & fields.keys():
                raise TypeError(f"{cls.__name__}: too many or repeated fields")
            values = {**cls._defaults, **values, **fields}
            if len(values) > len(cls._fields) or not values.keys() >= set(cls._fields):
                raise TypeError(f"{cls.__name__} takes the fields {', '.join(cls._fields)}")
            return tuple.__new__(cls, map(values.__getitem__, cls._fields))

        def __getnewargs__(self):
            return tuple(self)  # for pickle, and copy

        def _values(self):
            return self

        @classmethod
        def _of_fields(cls, fields):
            is_whole = len(fields) == len(cls._fields)
            every = fields if is_whole else {**cls._defaults, **fields}
            return tuple.__new__(cls, map(every.__getitem__, cls._fields))

        def __repr__(self):
            inner = ", ".join(
                f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)
            )
            return f"{type(self).__name__}({inner})"

        def replace(self, **changes):
            return type(self)(**{**dict(zip(self._fields, self, strict=True)), **changes})
