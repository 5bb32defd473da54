"""The records of a recursion as lines: put together from their parts, as ``records`` reads them.

There are several for each node, so none is a dict before it is a text. What is returned are the
two texts around the record's number, which it is given when it is written; the brace that opens
the record is in neither.
"""

from __future__ import annotations

from binascii import hexlify
from itertools import repeat
from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from struct import Struct
from zlib import crc32

from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.recursion.nodes import Traced
    from rlm_ci.recursion.split.tree import Part

    Halves = tuple[str, str]
    Named = tuple[str, str]
    Decided = tuple[str, str, float]  # kind, reason, confidence
    Error = tuple[int, str, bool]  # code, message, retryable

_STATUSES: Final = (COMPLETED, PARTIAL, FAILED)
#: Characters of an error's message.
_MESSAGE: Final = 500
_encode = JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=True
).encode


_BIG_ENDIAN: Final = Struct(">I").pack
_BRACE: Final = crc32(b"{")
#: What stands around the checksum of a line and the rest of its record; its last is the newline.
_LINE: Final = (b'{"crc":"', b"", b'",', b"", b"\n")


def written(halves: Sequence[Halves], seq: int) -> tuple[bytes, list[int]]:
    """The lines of records, the first of them number ``seq``, and the length of each.

    All lines take each step together, inside of C.
    """
    count = len(halves)
    texts = ["\n"] * (4 * count)
    texts[0::4], texts[2::4] = zip(*halves, strict=True)
    texts[1::4] = map(str, range(seq, seq + count))
    bodies = "".join(texts).encode("ascii").split(b"\n")
    bodies.pop()  # what is behind the last newline
    sums = b"".join(map(_BIG_ENDIAN, map(crc32, bodies, repeat(_BRACE))))
    pieces = [*_LINE] * count
    pieces[1::5] = hexlify(sums, b",", 4).split(b",")
    pieces[3::5] = bodies
    around = len(b"".join(_LINE)) + 8
    return b"".join(pieces), [len(body) + around for body in bodies]


def text_of(halves: Halves) -> str:
    """A record that waits, as JSON; its number is 0."""
    head, tail = halves
    return f"{{{head}0{tail}"


def body_of(line: bytes) -> bytes:
    """The record of a line that was checked, without ``crc``."""
    return b"{" + line[len(b'{"crc":"00000000",') : -1]


def named(run_id: str, objective: str) -> Named:
    """What the records of a run's nodes have in common."""
    return f'"objective":{quoted(objective)},', f'"run_id":{quoted(run_id)},'


def queued(identifier: str, parent: str | None, depth: int, part: Part, of: Named) -> Halves:
    kind, path, first, last, start, end, size = part
    above = "null" if parent is None else f'"{parent}"'
    lines = f'"line_end":{end},"line_start":{start}' if start else _WHOLE
    head = (
        f'"depth":{depth},"node_id":"{identifier}",{of[0]}"parent_id":{above},{of[1]}'
        f'"scope":{{"bytes":{size},"first":{first},"last":{last},{lines}}},'
        f'"scope_ref":{quoted(encodable(path))},"scope_type":"{kind}","seq":'
    )
    return head, ',"status":"queued"}'


_WHOLE: Final = '"line_end":null,"line_start":null'


def running(identifier: str, decision: Decided, children: Sequence[str], attempt: int) -> Halves:
    kind, reason, confidence = decision
    between = '","'
    below = f'["{between.join(children)}"]' if children else "[]"
    head = (
        f'"attempt":{attempt},"child_ids":{below},"confidence":{float(confidence)!r},'
        f'"decision":"{kind}","node_id":"{identifier}","reason":"{reason}","seq":'
    )
    return head, ',"status":"running"}'


def ended(identifier: str, status: str, errors: Sequence[Error] = ()) -> Halves:
    told = (
        _encode(
            [
                {"code": code, "message": encodable(message)[:_MESSAGE], "retryable": again}
                for code, message, again in errors
            ]
        )
        if errors
        else "[]"
    )
    return f'"errors":{told},"node_id":"{identifier}","seq":', f',"status":"{status}"}}'


def event(name: str, identifiers: Sequence[str], at: int) -> Halves:
    """``at`` is in milliseconds of the epoch."""
    between = '","'
    nodes = f'["{between.join(identifiers)}"]' if identifiers else "[]"
    return f'"at":{at},"event":"{name}","nodes":{nodes},"seq":', "}"


def is_plain(one: NodeResult) -> bool:
    """Whether JSON gives it back as it is, whoever made it: it says little, as most do."""
    return (
        type(one) is NodeResult
        and one.counts is _NOTHING
        and type(one.confidence) is float
        and type(one.summary) is str
        and one.summary.isascii()
        and (one.findings, one.evidence, one.notes, one.uncovered) == _NONE
        and one.metrics == one.data == {}
    )


_NOTHING: Final = NodeResult.counts
_NONE: Final[tuple[object, ...]] = ((), (), (), ())


def plain(one: NodeResult) -> Halves:
    """As ``result``, of one that is plain."""
    _require_sound(one)
    head = (
        f'"confidence":{one.confidence!r},"counts":{{"offered":0,"reanchored":0,"rejected":0,'
        '"verified":0},"data":{},"evidence":[],"findings":[],"metrics":{},'
        f'"node_id":"{one.node_id}","notes":[],"seq":'
    )
    return head, f',"status":"{one.status}","summary":{quoted(one.summary)},"uncovered":[]}}'


def _require_sound(one: NodeResult) -> None:
    if one.status not in _STATUSES or not 0 <= one.confidence <= 1:
        raise ValueError(f"a result that is {one.status}, with a confidence of {one.confidence}")


def result(
    one: NodeResult,
    children: Sequence[str] = (),
    places: Mapping[int, int] | None = None,
    gathered: Sequence[str] = (),
) -> Halves:
    """Raises TypeError or ValueError for what its schema does not allow, or is no JSON.

    Where ``places`` knows a finding, by its identity, that number stands for it: its place among
    the findings of the nodes ``children``. ``gathered`` names what ``one`` has of them besides.
    """
    _require_sound(one)
    if one.findings and not all(traced.finding.evidence for traced in one.findings):
        raise ValueError("a finding without evidence")
    counts = one.counts
    findings = (
        _encode(
            [_told(traced, places) for traced in one.findings]
            if places
            else [traced.to_dict() for traced in one.findings]
        )
        if one.findings
        else "[]"
    )
    above = f'"children":{_encode(list(children))},' if places or gathered else ""
    told = f'"gathered":{_encode(list(gathered))},' if gathered else ""
    evidence = _encode([place.to_dict() for place in one.evidence]) if one.evidence else "[]"
    head = (
        f'{above}"confidence":{float(one.confidence)!r},"counts":{{"offered":{counts.offered},'
        f'"reanchored":{counts.reanchored},"rejected":{counts.rejected},'
        f'"verified":{counts.verified}}},"data":{_encode(one.data) if one.data else "{}"},'
        f'"evidence":{evidence},"findings":{findings},{told}'
        f'"metrics":{_encode(one.metrics) if one.metrics else "{}"},"node_id":"{one.node_id}",'
        f'"notes":{_encode(one.notes) if one.notes else "[]"},"seq":'
    )
    uncovered = _encode(one.uncovered) if one.uncovered else "[]"
    tail = f',"status":"{one.status}","summary":{quoted(one.summary)},"uncovered":{uncovered}}}'
    return head, tail


def _told(traced: Traced, places: Mapping[int, int]) -> int | dict[str, Any]:
    place = places.get(id(traced))
    return traced.to_dict() if place is None else place
