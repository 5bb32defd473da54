"""Read a journal: all of it, or what is new; and one record of it as one line, and back.

    {"crc":"21bbde8d","actor":"loop","event":"started",…,"seq":1,…}⏎

``crc`` is the CRC-32 of the rest of the record as canonical JSON: ASCII, sorted names, no spaces.
The rest of the line is that JSON.
"""

from __future__ import annotations

import os
from array import array
from binascii import hexlify
from itertools import accumulate, islice, repeat
from json import JSONDecoder, JSONEncoder
from operator import itemgetter, lt
from struct import Struct
from zlib import crc32

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn

    #: Gets records in order, some at a time.
    Take = Callable[[list[dict[str, Any]]], object]


#: The longest line that is written, in bytes.
LIMIT = 64 << 20
#: How deep a record nests at most; the parser's stack allows for more.
DEPTH = 100
_SIMPLE = frozenset((str, int, bool, type(None)))
#: Floats between these are written alike by everyone.
_SMALL, _LARGE = 1e-4, 1e15


class FlawError(Exception):
    """Why a line is no valid record."""


def to_line(record: dict[str, Any]) -> bytes:
    """``record`` as its line, which reads back as the same record.

    Raises TypeError for what JSON does not have, and for a name that is no text; ValueError for
    NaN and infinity, and for a record that is too deep or too long.
    """
    body = _quickly(record) or _by_json(record)
    if len(body) > LIMIT:
        raise ValueError(f"a record of {len(body):,} bytes, more than {LIMIT:,}")
    return b"".join((_OPENING, hexlify(_BIG_ENDIAN(crc32(body))), b'",', body[1:], b"\n"))


def _sums(bodies: Iterable[bytes]) -> bytes:
    """The checksums of records without their first brace."""
    return b"".join(map(_BIG_ENDIAN, map(crc32, bodies, repeat(_BRACE))))


_ENCODER = JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False)


def _by_json(record: dict[str, Any]) -> bytes:
    _require_names(record, 1)
    return _ENCODER.encode(record).encode("ascii")


def _require_names(value: object, depth: int) -> None:
    """Raise for names that JSON would turn into texts, and for deep nesting."""
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
    """``_by_json`` by orjson if installed, in half of the time; None where the two could differ.

    They differ in very small and large floats, in characters outside of ASCII, and in types beyond
    JSON.
    """
    try:
        from orjson import OPT_SORT_KEYS, dumps
    except ImportError:
        return lambda _record: None

    def by_orjson(record: dict[str, Any]) -> bytes | None:
        # Most values are texts and integers, here or one level below: no call for these.
        for value in record.values():
            kind = type(value)
            if kind is str or kind is int:
                continue
            if kind is dict:
                for inner in value.values():
                    if type(inner) not in _SIMPLE and not _is_simple(inner, 3):
                        return None
            elif kind not in _SIMPLE and not _is_simple(value, 2):
                return None
        try:
            body: bytes = dumps(record, None, OPT_SORT_KEYS)
        except TypeError:  # a name that is not a text, a long integer, a lone surrogate
            return None
        return body if body.isascii() and 0x7F not in body else None

    return by_orjson


def _is_simple(value: Any, depth: int) -> bool:
    """Whether it holds only texts, integers, usual floats, booleans and None, not too deep."""
    if type(value) is float:
        return not value or _SMALL <= abs(value) < _LARGE
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    for item in value:
        if type(item) is str or type(item) is int or type(item) in _SIMPLE:
            continue
        if depth >= DEPTH or not _is_simple(item, depth + 1):
            return False
    return True


_quickly = _quick()


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text} is too large")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name is there twice")
    return record


_DECODE = JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode
_DECODE_ONCE = JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once
).decode
_OPENING = b'{"crc":"'
#: The canonical record without its brace: what follows the opening, eight digits, a quote and a
#: comma.
_BODY = itemgetter(slice(10, None))
_BRACE = crc32(b"{")
_BIG_ENDIAN = Struct(">I").pack
_SEQ = itemgetter("seq")


def from_line(line: bytes) -> dict[str, Any]:
    """The record of a line in any layout, without newline and ``crc``. Raises FlawError."""
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
    number = record.get("seq")
    if type(number) is not int:
        raise FlawError(f"its number is {str(number)[:40]}")
    return record


def from_lines(lines: bytes) -> tuple[list[dict[str, Any]], list[int]] | None:
    """The records of whole lines in our layout, and their numbers; None for any other line."""
    count = lines.count(b"\n")
    # A quote in a text has a backslash before it: these are names, once a record and at its top.
    if lines.count(b'"crc":') != count or lines.count(b'"seq":') != count:
        return None
    bodies = (b"\n" + lines[:-1]).split(b"\n" + _OPENING)[1:]
    try:
        text = str(lines[:-1], "ascii").replace("\n", ",")
        records: list[dict[str, Any]] = _DECODE(f"[{text}]")
        checksums = "".join(map(dict.pop, records, repeat("crc")))
        numbers = list(map(_SEQ, records))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    fits = (
        len(records) == len(bodies) == count
        and checksums == _sums(map(_BODY, bodies)).hex()
        and set(map(type, numbers)) == {int}
    )
    return (records, numbers) if fits else None


_BLOCK = 64 << 10


class JournalReader:
    """Reads one journal to its present end, and later on from there.

    ``last`` is the number of the last record and ``offset`` its end; ``tail`` the bytes behind it.
    With ``places``, ``starts`` lists where records begin. With ``rising`` numbers may be left out:
    the journals of a recursion shared a sequence once.
    """

    def __init__(self, path: str, *, rising: bool = False, places: bool = False) -> None:
        self.path = path
        self.last = 0
        self.offset = 0
        self.tail = b""
        self.starts = array("q") if places else None
        self._rising = rising

    def read(self, take: Take | None = None, *, is_needed: bool = False) -> None:
        """Hand all new records to ``take``. Raises as ``some``."""
        for records in self.some(is_needed=is_needed):
            if take is not None:
                take(records)

    def some(self, *, is_needed: bool = False) -> Iterator[list[dict[str, Any]]]:
        """The records, some at a time. Raises DamagedError, StorageError.

        A missing journal has none, unless it ``is_needed``.
        """
        for lines in self._whole_lines(is_needed=is_needed):
            records, some = from_lines(lines) or ([], [])
            if records and self._follow(some):
                self._pass(lines, some)
                yield records
            else:
                yield from self._one_by_one(lines)

    def _whole_lines(self, *, is_needed: bool) -> Iterator[bytes]:
        try:
            descriptor = files.open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            if not is_needed:
                return
            raise DamagedError(
                "the journal is missing",
                where=self.path,
                hint="restore it from a copy, or start a new run",
            ) from None
        except OSError as error:
            raise _unread(error, self.path) from None
        pieces: list[bytes] = []
        size = 0
        try:
            os.lseek(descriptor, self.offset, os.SEEK_SET)
            while block := self._block(descriptor):
                end = block.rfind(b"\n") + 1
                if end:
                    yield b"".join((*pieces, block[:end]))
                    pieces, size = [], 0
                pieces.append(block[end:])
                size += len(pieces[-1])
                if size > LIMIT + _BLOCK:
                    self._refuse(f"it has no end within {LIMIT:,} bytes")
            self.tail = b"".join(pieces)
        finally:
            os.close(descriptor)

    def _block(self, descriptor: int) -> bytes:
        try:
            return os.read(descriptor, _BLOCK)
        except OSError as error:
            raise _unread(error, self.path) from None

    def _follow(self, some: list[int]) -> bool:
        if not self._rising:
            return some == list(range(self.last + 1, self.last + 1 + len(some)))
        return some[0] > self.last and all(map(lt, some, islice(some, 1, None)))

    def _pass(self, lines: bytes, some: list[int]) -> None:
        if self.starts is not None:
            sizes = (len(line) + 1 for line in islice(lines.split(b"\n"), len(some) - 1))
            self.starts.extend(accumulate(sizes, initial=self.offset))
        self.last = some[-1]
        self.offset += len(lines)

    def _one_by_one(self, lines: bytes) -> Iterator[list[dict[str, Any]]]:
        """The same records one by one, to report the damaged one."""
        for line in lines.split(b"\n")[:-1]:
            try:
                record = from_line(line)
            except FlawError as flaw:
                self._refuse(str(flaw))
            seq = record["seq"]
            if not self._follow([seq]):
                self._refuse(f"its number is {seq}, behind {self.last}")
            self._pass(line + b"\n", [seq])
            yield [record]

    def _refuse(self, reason: str) -> NoReturn:
        from shlex import quote

        hint = (
            "restore it from a copy; or keep one, cut it there by "
            f"`truncate -s {self.offset} {quote(self.path)}`, and resume"
        )
        raise DamagedError(
            f"the journal is damaged at record {self.last + 1}, byte {self.offset}: {reason}",
            where=self.path,
            hint=hint,
        )


def _unread(error: OSError, path: str) -> StorageError:
    return StorageError(
        f"cannot be read: {error.strerror}", where=path, hint="check that it is a file of ours"
    )
