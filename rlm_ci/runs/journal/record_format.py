"""One record of a journal as one line, and back: what ``journal`` writes and believes.

    {"crc":"21bbde8d","actor":"loop","event":"started",…,"seq":1,…}⏎

``crc`` is the CRC-32 of the record without it as canonical JSON: ASCII, names sorted, no spaces.
We write it first, so that what follows it is that JSON already.
"""

from __future__ import annotations

import re
from binascii import hexlify
from itertools import repeat
from json import JSONDecoder, JSONEncoder
from operator import itemgetter
from struct import Struct
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    #: A record as JSON without its first brace, parted where its number stands.
    Halves = tuple[str, str]

#: The longest line that is written, in bytes.
LIMIT = 64 << 20
#: How deep a record nests at most: far from where reading it again would exhaust the stack.
DEPTH = 100
_SIMPLE = frozenset((str, int, bool, type(None)))


class FlawError(Exception):
    """Why a line is not the record that should stand there."""


# -- writing ------------------------------------------------------------------------------------


def to_line(record: dict[str, Any]) -> bytes:
    """``record`` as its line. What would not be read as it was written is refused.

    TypeError: it holds something that JSON does not know, or a name that is not a text.
    ValueError: a number that is none, or it is too deep or too long.
    """
    body = _quickly(record) or _by_json(record)
    if len(body) > LIMIT:
        raise ValueError(f"a record of {len(body):,} bytes, more than {LIMIT:,}")
    return b"".join((_OPENING, hexlify(_BIG_ENDIAN(crc32(body))), b'",', body[1:], b"\n"))


def to_lines(halves: Sequence[Halves], first: int) -> tuple[bytes, list[int]]:
    """The lines of records, the first of them number ``first``, and the length of each.

    For those who write so many that none is a dict before it is a text: each is JSON already,
    its names sorted. All lines take each step together, inside of C.
    """
    count = len(halves)
    texts = ["\n"] * (4 * count)
    texts[0::4], texts[2::4] = zip(*halves, strict=True)
    texts[1::4] = map(str, range(first, first + count))
    bodies = "".join(texts).encode("ascii").split(b"\n")
    bodies.pop()  # what is behind the last newline
    pieces = [*_LINE] * count
    pieces[1::5] = hexlify(_sums(bodies), b",", 4).split(b",")
    pieces[3::5] = bodies
    around = len(b"".join(_LINE)) + 8
    return b"".join(pieces), [len(body) + around for body in bodies]


def _sums(bodies: Iterable[bytes]) -> bytes:
    """The checksums of records without their first brace."""
    return b"".join(map(_BIG_ENDIAN, map(crc32, bodies, repeat(_BRACE))))


#: What stands around the checksum of a line and the rest of its record; its last is the newline.
_LINE = (b'{"crc":"', b"", b'",', b"", b"\n")
_ENCODER = JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False)


def _by_json(record: dict[str, Any]) -> bytes:
    _require_names(record, 1)
    return _ENCODER.encode(record).encode("ascii")


def _require_names(value: object, depth: int) -> None:
    """Raise for names that JSON would silently turn into texts, and for what nests too deep."""
    if depth > DEPTH:
        raise ValueError(f"a record that nests more than {DEPTH} deep")
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError(f"names are texts, not {type(name).__name__}")
            if type(inner) not in _SIMPLE:
                _require_names(inner, depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if type(inner) not in _SIMPLE:
                _require_names(inner, depth + 1)


def _quick() -> Callable[[dict[str, Any]], bytes | None]:
    """The same bytes by way of orjson where it is installed, at about half of the time, or None.

    It is asked only where both agree: they write floats differently, and orjson knows things
    that JSON does not, and characters outside of ASCII.
    """
    try:
        import orjson
    except ImportError:
        return lambda _record: None
    dumps = orjson.dumps
    options = orjson.OPT_SORT_KEYS
    simple = _SIMPLE

    def by_orjson(record: dict[str, Any]) -> bytes | None:
        # Most are texts and integers, and most of the rest hold nothing else: a call takes longer.
        for value in record.values():
            kind = type(value)
            if kind is str or kind is int:
                continue
            if kind is dict:
                for inner in value.values():
                    if type(inner) not in simple and not _is_simple(inner, 3):
                        return None
            elif kind not in simple and not _is_simple(value, 2):
                return None
        try:
            body: bytes = dumps(record, None, options)
        except TypeError:  # a name that is not a text, a long integer, a lone surrogate
            return None
        return body if body.isascii() and 0x7F not in body else None

    return by_orjson


def _is_simple(value: Any, depth: int) -> bool:
    """Whether it holds texts, integers, booleans and None alone, at whatever depth we allow."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    for one in value:
        if type(one) is str or type(one) is int or type(one) in _SIMPLE:
            continue
        if depth >= DEPTH or not _is_simple(one, depth + 1):
            return False
    return True


_quickly = _quick()


# -- reading ------------------------------------------------------------------------------------


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text} is too large")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


_DECODE = JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode
_DECODE_ONCE = JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once
).decode
_OPENING = b'{"crc":"'
#: What follows the opening of a line and eight digits, a quote and a comma: the canonical record
#: without its brace, for which ``_BRACE`` stands.
_BODY = itemgetter(slice(10, None))
_BRACE = crc32(b"{")
_SUM = itemgetter(slice(10))
_BIG_ENDIAN = Struct(">I").pack
_SEQ = itemgetter("seq")
_NUMBER = re.compile(rb'"seq":(\d+)')


def from_line(line: bytes) -> dict[str, Any]:
    """The record of a line, without newline and ``crc``; raises FlawError.

    Whatever the layout of the line, its record has to have the checksum of its canonical form.
    """
    try:
        record = _DECODE_ONCE(str(line, "ascii"))
        if type(record) is not dict:
            raise FlawError("it is not a JSON object")
        crc = record.pop("crc", None)
        fits = crc == f"{crc32(_by_json(record)):08x}"
    except (ValueError, RecursionError):
        raise FlawError("it is not JSON as we write it") from None
    if not fits:
        raise FlawError("its checksum does not fit")
    found = record.get("seq")
    if type(found) is not int:
        raise FlawError(f"its number is {str(found)[:40]}")
    return record


def numbers(lines: bytes) -> list[int]:
    """The numbers of records, of which each has one name ``seq``; nothing is parsed."""
    return list(map(int, _NUMBER.findall(lines)))


def bodies(lines: bytes) -> list[bytes] | None:
    """Whole lines without what all of them open with, nothing parsed.

    None where one is not laid out as we write it, or its sum does not fit.
    """
    found = (b"\n" + lines[:-1]).split(b"\n" + _OPENING)
    if found[0] or not lines.isascii():
        return None
    del found[0]
    digits = hexlify(_sums(map(_BODY, found)), b",", 4).replace(b",", b'",') + b'",'
    return found if b"".join(map(_SUM, found)) == digits else None


def from_lines(lines: bytes) -> tuple[list[dict[str, Any]], list[int]] | None:
    """The records of whole lines, and their numbers; None when ``from_line`` has to look.

    For lines that are laid out as we write them, all is well in almost all cases; so all lines
    take each step together, inside of C.
    """
    count = lines.count(b"\n")
    # A quote in a text has a backslash before it: these are names, once a record and at its top.
    if lines.count(b'"crc":') != count or lines.count(b'"seq":') != count:
        return None
    bodies = (b"\n" + lines[:-1]).split(b"\n" + _OPENING)[1:]
    try:
        text = str(lines[:-1], "ascii").replace("\n", ",")
        records: list[dict[str, Any]] = _DECODE(f"[{text}]")
        found = "".join(map(dict.pop, records, repeat("crc")))
        numbers = list(map(_SEQ, records))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    fits = (
        len(records) == len(bodies) == count
        and found == _sums(map(_BODY, bodies)).hex()
        and set(map(type, numbers)) == {int}
    )
    return (records, numbers) if fits else None
