"""The records of a recursion, written and skimmed as text: there are several for each node.

A record is returned as the two texts around its number, which it gets when it is written; neither
has the opening brace.

To resume, a million records are read. Their checksums hold, so the skimming functions take what
is needed by its place. They return None for lines that have another layout: read these as JSON.
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
    """A record as JSON, with the number 0."""
    head, tail = halves
    return f"{{{head}0{tail}"


def named(run_id: str, objective: str) -> Named:
    """The fields that the records of a run's nodes share."""
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
    head = (
        f'"attempt":{attempt},"child_ids":{_ids(children)},"confidence":{float(confidence)!r},'
        f'"decision":"{kind}","node_id":"{identifier}","reason":"{reason}","seq":'
    )
    return head, ',"status":"running"}'


def ended(identifier: str, status: str, errors: Sequence[Error] = ()) -> Halves:
    some = [
        {"code": code, "message": encodable(message)[:_MESSAGE], "retryable": again}
        for code, message, again in errors
    ]
    return f'"errors":{_list(some)},"node_id":"{identifier}","seq":', f',"status":"{status}"}}'


def event(name: str, identifiers: Sequence[str], at: int) -> Halves:
    """``at`` is in milliseconds of the epoch."""
    return f'"at":{at},"event":"{name}","nodes":{_ids(identifiers)},"seq":', "}"


def _ids(identifiers: Sequence[str]) -> str:
    between = '","'
    return f'["{between.join(identifiers)}"]' if identifiers else "[]"


def _list(values: Sequence[Any]) -> str:
    return _encode(values) if values else "[]"


def is_plain(one: NodeResult) -> bool:
    """Whether it has a summary alone, as most have, and JSON gives it back unchanged."""
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
    """As ``result`` for a plain result, which most nodes have; 4 microseconds less."""
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

    ``places`` maps the identity of a finding to its number among the findings of the nodes
    ``children``, which is written instead. ``gathered`` names what else ``one`` inherits of them.
    """
    _require_sound(one)
    if one.findings and not all(traced.finding.evidence for traced in one.findings):
        raise ValueError("a finding without evidence")
    counts = one.counts
    known = places or {}
    findings = [
        known[id(traced)] if id(traced) in known else traced.to_dict() for traced in one.findings
    ]
    above = f'"children":{_encode(list(children))},' if places or gathered else ""
    inherited = f'"gathered":{_encode(list(gathered))},' if gathered else ""
    evidence = [place.to_dict() for place in one.evidence]
    head = (
        f'{above}"confidence":{float(one.confidence)!r},"counts":{{"offered":{counts.offered},'
        f'"reanchored":{counts.reanchored},"rejected":{counts.rejected},'
        f'"verified":{counts.verified}}},"data":{_encode(one.data) if one.data else "{}"},'
        f'"evidence":{_list(evidence)},"findings":{_list(findings)},{inherited}'
        f'"metrics":{_encode(one.metrics) if one.metrics else "{}"},"node_id":"{one.node_id}",'
        f'"notes":{_list(one.notes)},"seq":'
    )
    summary, uncovered = quoted(one.summary), _list(one.uncovered)
    return head, f',"status":"{one.status}","summary":{summary},"uncovered":{uncovered}}}'


# ── skimmed ──

#: The bytes that show the kind of a node's record.
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
    """The numbers of the results that are complete."""
    return list(map(int, _NUMBER.findall(lines)))


def skim_nodes(lines: bytes, bodies: list[bytes]) -> tuple[list[str], list[bytes]] | None:
    """The nodes of lines of ``nodes.jsonl``, and the kind of each."""
    identifiers = skim_results(lines, bodies)
    heads = list(map(_HEAD, bodies))
    is_plain = lines.count(b'"status":"completed"}') == heads.count(ENDED)
    return (identifiers, heads) if identifiers is not None and is_plain else None


def skim_results(lines: bytes, bodies: list[bytes]) -> list[str] | None:
    """The node of each line."""
    # Quotes within texts have a backslash before them.
    found = [piece[:16] for piece in str(lines, "ascii").split(_NODE)[1:]]
    return found if len(found) == len(bodies) else None


def skim_decision(body: bytes) -> tuple[str, str, float] | None:
    """The decision of a record: kind, reason, confidence."""
    found = _DECIDED.search(body)
    if found is None:
        return None
    confidence, kind, reason = map(bytes.decode, found.groups())
    return kind, reason, float(confidence)
