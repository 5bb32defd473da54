"""The records of a recursion as lines: put together from their parts, as ``records`` reads them.

There are several for each node, so none is a dict before it is a text. What is returned are the
two texts around the record's number, which it is given when it is written.
"""

from __future__ import annotations

from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from zlib import crc32

from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.texts import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from rlm_ci.recursion.tree import Part

    Halves = tuple[str, str]
    Decided = tuple[str, str, float]  # kind, reason, confidence
    Error = tuple[int, str, bool]  # code, message, retryable

_STATUSES: Final = (COMPLETED, PARTIAL, FAILED)
#: Characters of an error's message.
_MESSAGE: Final = 500
_encode = JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=True
).encode


def written(halves: Sequence[Halves], seq: int) -> list[bytes]:
    """The lines of records, the first of them number ``seq``."""
    found = []
    for head, tail in halves:
        body = f"{head}{seq}{tail}".encode("ascii")
        found.append(b'{"crc":"%08x",%b\n' % (crc32(body), body[1:]))
        seq += 1
    return found


def body_of(line: bytes) -> bytes:
    """The record of a line that was checked, without ``crc``."""
    return b"{" + line[len(b'{"crc":"00000000",') : -1]


def queued(identifier: str, parent: str | None, depth: int, part: Part) -> Halves:
    kind, path, first, last, start, end, size = part
    above = "null" if parent is None else f'"{parent}"'
    lines = f'"line_end":{end},"line_start":{start}' if start else _WHOLE
    head = (
        f'{{"depth":{depth},"node_id":"{identifier}","parent_id":{above},"scope":{{"bytes":{size},'
        f'"first":{first},"kind":"{kind}","last":{last},{lines},"path":{quoted(encodable(path))}}},'
        '"seq":'
    )
    return head, ',"status":"queued"}'


_WHOLE: Final = '"line_end":null,"line_start":null'


def running(identifier: str, decision: Decided, children: int, attempt: int) -> Halves:
    kind, reason, confidence = decision
    head = (
        f'{{"attempt":{attempt},"children":{children},"confidence":{float(confidence)!r},'
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
    return f'{{"errors":{told},"node_id":"{identifier}","seq":', f',"status":"{status}"}}'


def event(name: str, identifiers: Sequence[str], at: int) -> Halves:
    """``at`` is in milliseconds of the epoch."""
    between = '","'
    nodes = f'["{between.join(identifiers)}"]' if identifiers else "[]"
    return f'{{"at":{at},"event":"{name}","nodes":{nodes},"seq":', "}"


def result(one: NodeResult) -> Halves:
    """Raises TypeError or ValueError for what its schema does not allow, or is no JSON."""
    if one.status not in _STATUSES or not 0 <= one.confidence <= 1:
        raise ValueError(f"a result that is {one.status}, with a confidence of {one.confidence}")
    if one.findings and not all(traced.finding.evidence for traced in one.findings):
        raise ValueError("a finding without evidence")
    counts = one.counts
    findings = (
        _encode(
            [
                {"finding": traced.finding.to_dict(), "nodes": list(traced.nodes)}
                for traced in one.findings
            ]
        )
        if one.findings
        else "[]"
    )
    evidence = _encode([place.to_dict() for place in one.evidence]) if one.evidence else "[]"
    head = (
        f'{{"confidence":{float(one.confidence)!r},"counts":{{"offered":{counts.offered},'
        f'"reanchored":{counts.reanchored},"rejected":{counts.rejected},'
        f'"verified":{counts.verified}}},"data":{_encode(one.data) if one.data else "{}"},'
        f'"evidence":{evidence},"findings":{findings},'
        f'"metrics":{_encode(one.metrics) if one.metrics else "{}"},"node_id":"{one.node_id}",'
        f'"notes":{_encode(one.notes) if one.notes else "[]"},"seq":'
    )
    uncovered = _encode(one.uncovered) if one.uncovered else "[]"
    tail = f',"status":"{one.status}","summary":{quoted(one.summary)},"uncovered":{uncovered}}}'
    return head, tail
