"""Lines of our journals, read for the little that a run which goes on has to know of them.

Who resumes waits for a million of them. They are laid out as ``lines`` writes them, and their
sums say that nothing was changed since: so that little is found by its place, and no record is
taken apart. Whatever is not laid out so is none of our business: None, and JSON is read.
"""

from __future__ import annotations

import re
from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: What a record of a node begins with, so many bytes of it as tell what it is.
_HEAD: Final = itemgetter(slice(10, 22))
ENDED: Final = b'"errors":[],'
RUNNING: Final = b'"attempt":'
QUEUED: Final = b'"depth":'
_NODE: Final = '"node_id":"'
_DECIDED: Final = re.compile(
    rb'"confidence":([0-9.e-]+),"decision":"(\w+)","node_id":"\w+","reason":"(\w+)"'
)
_SEQ: Final = re.compile(rb'"seq":(\d+)')
_WHOLE: Final = re.compile(rb'"seq":(\d+),"status":"completed","summary":"')


def numbers(lines: bytes) -> list[int]:
    """The numbers of records, of which each has one name ``seq``."""
    return list(map(int, _SEQ.findall(lines)))


def whole(lines: bytes) -> list[int]:
    """The numbers of those results that are whole."""
    return list(map(int, _WHOLE.findall(lines)))


def nodes(lines: bytes, bodies: list[bytes]) -> tuple[list[str], list[bytes]] | None:
    """Of lines of ``nodes.jsonl`` the nodes, and what each begins with."""
    identifiers = results(lines, bodies)
    heads = list(map(_HEAD, bodies))
    is_plain = lines.count(b'"status":"completed"}') == heads.count(ENDED)
    return (identifiers, heads) if identifiers is not None and is_plain else None


def results(lines: bytes, bodies: list[bytes]) -> list[str] | None:
    """The node of each line."""
    # In what an objective or a reader says, a quote has a backslash before it.
    found = [piece[:16] for piece in str(lines, "ascii").split(_NODE)[1:]]
    return found if len(found) == len(bodies) else None


def decided(body: bytes) -> tuple[str, str, float] | None:
    """What a record says that was decided of its node: kind, reason, confidence."""
    found = _DECIDED.search(body)
    if found is None:
        return None
    confidence, kind, reason = map(bytes.decode, found.groups())
    return kind, reason, float(confidence)
