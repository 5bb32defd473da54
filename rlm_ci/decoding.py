"""JSON read as a record by the annotations of its fields, and the path of what is wrong in it.

``Value.from_dict`` comes here. A reader is compiled from the text of an annotation when the first
record of its class is read: nothing is imported for it, so that a hook can read records, too. Known
are ``str``, ``int``, ``float``, ``bool``, ``None``, ``Any``, ``X | Y``, ``tuple``, ``frozenset``,
``Sequence``, ``Mapping`` and ``dict``, records, classes with a ``from_json``, and every
:class:`Kind`: those of this module by their names alone.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Reader = Callable[[Any], Any]

#: Larger numbers are no whole ones in every reader of JSON.
_LARGEST = 1 << 53
_TEXT = 1 << 16
#: Characters of a value, and of a name in a path, that an error shows.
_SHOWN = 60
#: Ends a pattern: some regular expression engines let $ match before a last line break.
_END = r"$(?!\n)"
_HEX = frozenset("0123456789abcdef")
_JSON_TYPES = {
    str: "a string", int: "an integer", float: "a number", bool: "true or false",
    type(None): "null", list: "a list", dict: "an object",
}  # fmt: skip


class DecodeError(ValueError):
    """JSON that is no such record: the path of the value that is wrong, and why it is.

    All of the text is printable ASCII, whatever the JSON has.
    """

    def __init__(self, what: str, *steps: str | int) -> None:
        super().__init__(what)
        self.what = what
        #: Names and indexes from the outside in; ``at`` adds one before them.
        self.steps = steps

    def at(self, step: str | int) -> DecodeError:
        """The same error, of a value that lies at ``step`` of the one outside."""
        self.steps = (step, *self.steps)
        return self

    @property
    def path(self) -> str:
        """Such as ``findings[3].line``; "" for the record itself."""
        return "".join(map(_shown_step, self.steps)).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.steps else self.what


def _shown_step(step: str | int) -> str:
    plain = isinstance(step, str) and step.isascii() and step.isidentifier()
    return f".{step[:_SHOWN]}" if plain and isinstance(step, str) else f"[{ascii(step)[:_SHOWN]}]"


def mismatch(expected: str, value: object) -> DecodeError:
    """The error of a value that is not what was expected; scalars are shown."""
    kind = _JSON_TYPES.get(type(value), type(value).__name__)
    is_scalar = type(value) in (str, int, float)
    got = f"{kind}: {ascii(value)[:_SHOWN]}" if is_scalar else kind
    return DecodeError(f"expected {expected}, got {got}")


class Kind:
    """A JSON value that ``accepts`` takes, in words, and as JSON Schema."""

    __slots__ = ("accepts", "expected", "make", "schema")

    def __init__(
        self,
        accepts: Callable[[Any], bool],
        expected: str,
        schema: Mapping[str, Any],
        make: Reader | None = None,
    ) -> None:
        self.accepts = accepts
        self.expected = expected
        self.schema = schema
        #: What the field has in place of the JSON value; None for that itself.
        self.make = make

    def from_json(self, value: Any) -> Any:
        """The value of a field. Raises DecodeError."""
        if self.accepts(value):
            return self.make(value) if self.make else value
        raise mismatch(self.expected, value)


def one_of(*choices: str | int) -> Kind:
    """One of these values."""
    types = frozenset(map(type, choices))  # True is no 1
    return Kind(
        lambda value: type(value) in types and value in choices,
        f"one of {', '.join(map(str, choices))}",
        {"enum": [*choices]} if len(choices) > 1 else {"const": choices[0]},
    )


def text(maximum: int, minimum: int = 1, characters: str = "") -> Kind:
    """A string of ``minimum`` to ``maximum`` characters; ``characters`` is a regular expression's
    class of them, of single ones and ASCII ranges, "" for any.
    """
    alphabet = _alphabet(characters)
    kind = f" of [{characters}]" if characters else ""
    return Kind(
        lambda value: (
            type(value) is str
            and minimum <= len(value) <= maximum
            and (not alphabet or alphabet.issuperset(value))
        ),
        f"a string of {minimum:,} to {maximum:,} characters{kind}",
        {
            "type": "string",
            **({"minLength": minimum} if minimum else {}),
            "maxLength": maximum,
            **({"pattern": f"^[{characters}]*{_END}"} if characters else {}),
        },
    )


def _alphabet(characters: str) -> frozenset[str]:
    alphabet: set[str] = set()
    while characters:
        is_range = characters[1:2] == "-" and len(characters) > 2
        last = characters[2] if is_range else characters[0]
        alphabet |= {chr(code) for code in range(ord(characters[0]), ord(last) + 1)}
        characters = characters[3 if is_range else 1 :]
    return frozenset(alphabet)


def number(minimum: int, maximum: int) -> Kind:
    """An integer in this range."""
    return Kind(
        lambda value: type(value) is int and minimum <= value <= maximum,
        f"an integer from {minimum:,} to {maximum:,}",
        {"type": "integer", "minimum": minimum, "maximum": maximum},
    )


def amount(limit: float = _LARGEST, minimum: float = 0) -> Kind:
    """A number from ``minimum`` on, below ``limit``."""
    return Kind(
        lambda value: type(value) in (int, float) and minimum <= value < limit,
        f"a number from {minimum:,} on, below {limit:,}",
        {"type": "number", "minimum": minimum, "exclusiveMaximum": limit},
    )


def hex_digits(*lengths: int) -> Kind:
    """Lower-case hexadecimal digits, in one of these numbers."""
    forms = "|".join(f"[0-9a-f]{{{length}}}" for length in lengths)
    return Kind(
        lambda value: type(value) is str and len(value) in lengths and _HEX.issuperset(value),
        f"{' or '.join(map(str, lengths))} hexadecimal digits",
        {"type": "string", "pattern": f"^({forms}){_END}"},
    )


if TYPE_CHECKING:
    Text = str
    Words = str
    Interned = str
    ObjectId = str
    Sha256 = str
    Count = int
    ExitCode = int

_KINDS: dict[str, Kind] = {
    "Text": text(_TEXT),
    "Words": text(_TEXT, 0),
    "Count": number(0, _LARGEST - 1),
    "ExitCode": number(-255, 255),
    "ObjectId": hex_digits(40, 64),
    "Sha256": hex_digits(64),
}


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    raise mismatch("a string", value)


def _interned(value: Any) -> str:
    """In memory once, however often it is read."""
    if type(value) is str:
        return sys.intern(value)
    raise mismatch("a string", value)


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON has one kind of number
        return int(value)
    raise mismatch("an integer", value)


def _float(value: Any) -> float:
    if type(value) is int or (type(value) is float and value - value == 0):  # no NaN, no infinity
        return value
    raise mismatch("a number", value)


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise mismatch("true or false", value)


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):  # facts are of a class of their own
        return value
    raise mismatch("an object", value)


def _array(value: Any) -> list[Any]:
    if type(value) is list:
        return value
    raise mismatch("a list", value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise mismatch("null", value)


def _as_it_is(value: Any) -> Any:
    return value


def _decimal(value: Any) -> Any:
    from decimal import Decimal, InvalidOperation

    try:
        amount = Decimal(_text(value))
        if 0 <= amount < _LARGEST:
            return amount
    except InvalidOperation:  # comparing NaN is one, too
        pass
    raise mismatch("an amount", value)


_SIMPLE: dict[str, Reader] = {
    "str": _text, "int": _integer, "float": _float, "bool": _boolean, "None": _nothing,
    "Any": _as_it_is, "object": _as_it_is, "dict": _object, "Mapping": _object,
    "Sequence": _array, "Interned": _interned, "Decimal": _decimal,
}  # fmt: skip


#: The types of JSON that a reader leaves as they are.
_PLAIN: dict[Reader, tuple[type, ...]] = {
    _text: (str,), _integer: (int,), _boolean: (bool,), _object: (dict,), _array: (list,),
}  # fmt: skip


def decoder(cls: Any) -> Reader:
    """The reader of a record of ``cls``, a subclass of ``Value`` or ``Row``.

    Its ``_fields`` are read from an object by name, or with ``_is_row`` from a list in order.
    ``_optional`` are the fields that JSON may lack and has not as null; None for all with a
    default. Older JSON lacks those that are ``_recent``, too. Other names are an error unless it
    ``_ignores`` them. ``_items`` has rows of a field, and the least and the most items of its list.
    ``_upgraded(record)`` makes the present form of an older one, and ``_require()`` of what was
    read raises ValueError for what does not fit.
    """
    if "_decoder" not in cls.__dict__:
        cls._decoder = staticmethod(_record_reader(cls))
    read: Reader = cls._decoder
    return read


def annotations_of(cls: Any) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The annotation of each field of ``cls``, and what the names in it stand for."""
    annotations: dict[str, tuple[str, Any]] = {}
    for base in reversed([base for base in cls.__mro__ if getattr(base, "_fields", ())]):
        names = {**vars(sys.modules[base.__module__]), **base._types()}  # noqa: SLF001 - of values
        texts = base.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect is slow
        annotations |= {name: (text, names) for name, text in texts.items()}
    for name in cls._optional or ():  # it is left out, and not null
        text, names = annotations[name]
        annotations[name] = text.removesuffix(" | None"), names
    return {name: annotations[name] for name in cls._fields}


def needed_of(cls: Any) -> frozenset[str]:
    """The fields that JSON of any age must have."""
    fields = frozenset(cls._fields)
    needed = cls._required if cls._optional is None else fields.difference(cls._optional)
    return frozenset(needed).difference(cls._recent)


def readers_of(cls: Any) -> dict[str, Reader]:
    """The readers of the fields of ``cls`` by name."""
    readers = {name: reader(*row) for name, row in annotations_of(cls).items()}
    return readers | {name: _counted(readers[name], *limits) for name, *limits in cls._items}


def _counted(read: Reader, minimum: int, maximum: int) -> Reader:
    def counted(value: Any) -> Any:
        if type(value) in (list, dict) and not minimum <= len(value) <= maximum:
            raise DecodeError(f"expected {minimum:,} to {maximum:,} items, got {len(value):,}")
        return read(value)

    return counted


def _record_reader(cls: Any) -> Reader:
    readers = readers_of(cls)
    needed = needed_of(cls)
    required = [name for name in readers if name in needed]
    if cls._is_row:
        read = _row_reader(readers, len(required), cls._of_fields)
    else:
        read = object_reader(readers, required, cls._of_fields, ignores=cls._ignores)
    if hasattr(cls, "_require"):
        read = _requiring(read, cls._require)
    return _upgrading(read, cls._upgraded) if cls._upgraded else read


def object_reader(
    readers: dict[str, Reader], required: list[str], make: Reader, *, ignores: bool
) -> Reader:
    plain = {name: _PLAIN.get(read, ()) for name, read in readers.items()}
    size = len(readers)

    def read(record: Any) -> Any:
        values = {}
        name = None
        try:
            for name, value in _object(record).items():
                if type(value) in plain.get(name, ()):  # most are, and a call costs more
                    values[name] = value
                elif name in readers:
                    values[name] = readers[name](value)
                elif not ignores:
                    raise DecodeError("no such member is known")
            if len(values) < size:
                for name in required:
                    if name not in values:
                        raise DecodeError("it is missing")
        except DecodeError as error:
            raise (error if name is None else error.at(name)) from None
        return make(values)

    return read


def _row_reader(readers: dict[str, Reader], needed: int, make: Reader) -> Reader:
    plain = [(name, read, _PLAIN.get(read, ())) for name, read in readers.items()]

    def read_row(row: Any) -> Any:
        if not needed <= len(_array(row)) <= len(plain):
            raise mismatch(f"a list of {len(plain)} values", row)
        values = {}
        name = ""
        try:
            for (name, read, types), value in zip(plain, row):  # noqa: B905 - defaults are the rest
                values[name] = value if type(value) in types else read(value)
        except DecodeError as error:
            raise error.at(name) from None
        return make(values)

    return read_row


def _requiring(read: Reader, require: Callable[[Any], None]) -> Reader:
    def requiring(value: Any) -> Any:
        decoded = read(value)
        try:
            require(decoded)
        except DecodeError:
            raise
        except ValueError as error:
            raise DecodeError(str(error)) from None
        return decoded

    return requiring


def _upgrading(read: Reader, upgrade: Reader) -> Reader:
    hooked = _hooked(upgrade)
    return lambda value: read(hooked(value))


def reader(annotation: str, names: Mapping[str, Any]) -> Reader:
    """The reader for ``annotation``, in which ``names`` stand for classes and kinds."""
    parts = [*_split(annotation, "|")]
    if len(parts) > 1:
        readers = [reader(part, names) for part in parts if part != "None"]
        return _either(readers, may_be_null="None" in parts)
    name, bracket, inner = annotation.partition("[")
    if bracket:
        return _container(name, [*_split(inner[:-1], ",")], names)
    if name in _SIMPLE:
        return _SIMPLE[name]
    kind: Any = kind_of(name, names)
    if isinstance(kind, Kind):
        return kind.from_json
    if hasattr(kind, "from_json"):
        return _hooked(kind.from_json)
    if hasattr(kind, "_fields"):
        is_special = kind.from_dict.__qualname__ != "_Json.from_dict"
        read: Reader = kind.from_dict if is_special else decoder(kind)
        return read
    raise TypeError(f"no JSON is known to be a {annotation}")


def kind_of(name: str, names: Mapping[str, Any]) -> Any:
    """The class or the kind that an annotation names, maybe as one of a module; None for none."""
    module, _, member = name.partition(".")
    return getattr(names.get(module), member, None) if member else names.get(name, _KINDS.get(name))


def _hooked(read: Reader) -> Reader:
    def hooked(value: Any) -> Any:
        try:
            return read(value)
        except DecodeError:
            raise
        except ValueError as error:
            raise DecodeError(ascii(str(error))[1:-1][: 2 * _SHOWN]) from None
        except (KeyError, TypeError, AttributeError):
            raise mismatch("another value", value) from None

    return hooked


def _either(readers: list[Reader], *, may_be_null: bool) -> Reader:
    if len(readers) == 1:
        first = readers[0]

        def optional(value: Any) -> Any:
            return None if value is None else first(value)

        _PLAIN[optional] = (*_PLAIN.get(first, ()), type(None))
        return optional

    def read(value: Any) -> Any:
        if value is None and may_be_null:
            return None
        errors = []
        for read_one in readers:
            try:
                return read_one(value)
            except DecodeError as error:
                errors.append(error)
        raise max(errors, key=lambda error: len(error.steps))

    return read


def _container(name: str, inner: list[str], names: Mapping[str, Any]) -> Reader:
    readers = [reader(part, names) for part in inner if part != "..."]
    if name in ("dict", "Mapping"):
        return _object if readers[1] is _as_it_is else _mapping(readers[1])
    if name == "Sequence" and readers[0] is _as_it_is:
        return _array
    if name == "tuple" and inner[-1] != "...":
        return _fixed(readers)
    if name not in ("tuple", "frozenset", "Sequence"):
        raise TypeError(f"no JSON is known to be a {name}")
    return _listed(readers[0], frozenset if name == "frozenset" else tuple)


def _listed(read: Reader, make: Callable[[list[Any]], Any]) -> Reader:
    nothing = make([])

    def listed(value: Any) -> Any:
        if value == []:
            return nothing
        items: list[Any] = []
        try:
            for item in _array(value):
                items.append(read(item))  # noqa: PERF401 - its length is the index of an error
        except DecodeError as error:
            raise (error.at(len(items)) if type(value) is list else error) from None
        return make(items)

    return listed


def _fixed(readers: list[Reader]) -> Reader:
    def fixed(value: Any) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise mismatch(f"a list of {len(readers)} values", value)
        items: list[Any] = []
        try:
            for read, item in zip(readers, value, strict=True):
                items.append(read(item))
        except DecodeError as error:
            raise error.at(len(items)) from None
        return tuple(items)

    return fixed


def _mapping(read: Reader) -> Reader:
    def mapping(value: Any) -> Any:
        items = {}
        name = ""
        try:
            for name, item in _object(value).items():
                items[name] = read(item)
        except DecodeError as error:
            raise (error.at(name) if isinstance(value, dict) else error) from None
        return items

    return mapping


def _split(annotation: str, mark: str) -> Iterator[str]:
    """The parts between marks that no bracket holds."""
    depth = start = 0
    for index, character in enumerate(annotation):
        depth += (character == "[") - (character == "]")
        if character == mark and not depth:
            yield annotation[start:index].strip()
            start = index + 1
    yield annotation[start:].strip()
