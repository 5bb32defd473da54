"""Lines of our journals, read for the little that a run which goes on has to know of them.

Who resumes waits for a million of them. They are laid out as ``lines`` writes them, and their
sums say that nothing was changed since: so that little is found by its place, and no record is
taken apart. Whatever is not laid out so is none of our business: None, and JSON is read.
"""

from __future__ import annotations

import re

from rlm_ci.recursion.nodes import COMPLETED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: confidence, decision, id, reason | depth, id | id, status: what was found of a line.
    Found = tuple[str, str, str, str, str, str, str, str]

_SUM = r'^\{"crc":"[0-9a-f]{8}",'
_NODE = re.compile(
    _SUM + r'(?:"attempt":\d+,"children":\d+,"confidence":([0-9.e-]+),"decision":"(\w+)",'
    r'"node_id":"(\w+)","reason":"(\w+)","seq":\d+,"status":"running"'
    r'|"depth":(\d+),"node_id":"(\w+)","parent_id":[^,]+,'
    r'"scope":\{[^{}\n]*\},"seq":\d+,"status":"queued"'
    r'|"errors":\[\],"node_id":"(\w+)","seq":\d+,"status":"(\w+)")\}$',
    re.MULTILINE,
)
_RESULT = re.compile(r'"node_id":"([0-9a-f]{16})","notes":')
_STATUS = re.compile(r',"seq":\d+,"status":"(\w+)","summary":"')
_SEQ = re.compile(rb'"seq":(\d+)')


def numbers(lines: bytes) -> list[int]:
    """The numbers of records, of which each has one name ``seq``."""
    return list(map(int, _SEQ.findall(lines)))


def nodes(lines: bytes) -> list[Found] | None:
    """What lines of ``nodes.jsonl`` say, in order."""
    found: list[Found] = _NODE.findall(str(lines, "ascii"))
    return found if len(found) == lines.count(b"\n") else None


def results(lines: bytes) -> tuple[list[str], list[bool]] | None:
    """Of lines of ``results.jsonl`` the nodes, and whether each is whole."""
    text = str(lines, "ascii")
    identifiers: list[Any] = _RESULT.findall(text)
    statuses = _STATUS.findall(text)
    count = lines.count(b"\n")
    # In what an objective or a reader says, a quote has a backslash before it.
    is_plain = text.count('"node_id":"') == count == len(identifiers) == len(statuses)
    return (identifiers, [status == COMPLETED for status in statuses]) if is_plain else None
