"""The records of a recursion: put together from their parts, and read for the little that matters.

There are several for each node, so none is a dict before it is a text. What is returned are the
two texts around the record's number, which it is given when it is written; the brace that opens
the record is in neither.

Who resumes waits for a million of them. Their sums say that nothing was changed since: so what
must be known is found by its place, and no record is taken apart. Whatever is not laid out as we
write it is none of our business: None, and JSON is read.
"""

from __future__ import annotations

import re
from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from operator import itemgetter

from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.recursion.nodes import TracedFinding
    from rlm_ci.recursion.split.tree import Part
    from rlm_ci.runs.journal.record_format import Halves

    Named = tuple[str, str]
    Decided = tuple[str, str, float]  # kind, reason, confidence
    Error = tuple[int, str, bool]  # code, message, retryable

_STATUSES: Final = (COMPLETED, PARTIAL, FAILED)
#: Characters of an error's message.
_MESSAGE: Final = 500
_encode = JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=True
).encode


def text_of(halves: Halves) -> str:
    """A record that waits, as JSON; its number is 0."""
    head, tail = halves
    return f"{{{head}0{tail}"


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


def _told(traced: TracedFinding, places: Mapping[int, int]) -> int | dict[str, Any]:
    place = places.get(id(traced))
    return traced.to_dict() if place is None else place


# ── read quickly ──

#: What a record of a node begins with, so many bytes of it as tell what it is.
_HEAD: Final = itemgetter(slice(10, 22))
ENDED: Final = b'"errors":[],'
RUNNING: Final = b'"attempt":'
QUEUED: Final = b'"depth":'
_NODE: Final = '"node_id":"'
_DECIDED: Final = re.compile(
    rb'"confidence":([0-9.e-]+),"decision":"(\w+)","node_id":"\w+","reason":"(\w+)"'
)
_NUMBER: Final = re.compile(rb'"seq":(\d+),"status":"completed","summary":"')


def whole_numbers(lines: bytes) -> list[int]:
    """The numbers of those results that are whole."""
    return list(map(int, _NUMBER.findall(lines)))


def skim_nodes(lines: bytes, bodies: list[bytes]) -> tuple[list[str], list[bytes]] | None:
    """Of lines of ``nodes.jsonl`` the nodes, and what each begins with."""
    identifiers = skim_results(lines, bodies)
    heads = list(map(_HEAD, bodies))
    is_plain = lines.count(b'"status":"completed"}') == heads.count(ENDED)
    return (identifiers, heads) if identifiers is not None and is_plain else None


def skim_results(lines: bytes, bodies: list[bytes]) -> list[str] | None:
    """The node of each line."""
    # In what an objective or a reader says, a quote has a backslash before it.
    found = [piece[:16] for piece in str(lines, "ascii").split(_NODE)[1:]]
    return found if len(found) == len(bodies) else None


def skim_decision(body: bytes) -> tuple[str, str, float] | None:
    """What a record says that was decided of its node: kind, reason, confidence."""
    found = _DECIDED.search(body)
    if found is None:
        return None
    confidence, kind, reason = map(bytes.decode, found.groups())
    return kind, reason, float(confidence)
