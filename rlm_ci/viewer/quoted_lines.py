"""The lines around the quotes of findings, from the files that were judged."""

from __future__ import annotations

from rlm_ci.change import evidence
from rlm_ci.errors import RlmCiError
from rlm_ci.report.findings import Location, Subject
from rlm_ci.viewer.folder import mapping_in, mappings_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.viewer.steps import Around

#: Lines on each side, and findings whose first place is opened.
_LINES = 3
_PLACES = 2_000


def read(report: Mapping[str, Any], repository: Repository) -> Around:
    """The lines around the first place of each finding, where the file still has the quote."""
    try:
        subject = Subject.from_dict(mapping_in(report, "subject"))
        firsts = [
            mappings_in(finding, "evidence")[:1] for finding in mappings_in(report, "findings")
        ]
        places = [Location.from_dict(evidence) for some in firsts[:_PLACES] for evidence in some]
        places = [
            location
            for location in places
            if location.line_start and location.line_end and location.quote
        ]
        opened = evidence.contents(subject, places, repository)
    except (RlmCiError, KeyError, TypeError, ValueError, AttributeError):
        return {}
    around: dict[tuple[str, int, int], tuple[Sequence[str], Sequence[str]]] = {}
    for location, content in zip(places, opened, strict=True):
        start, end = location.line_start or 0, location.line_end or 0
        if content is None or evidence.flaw(location.replace(blob=None), content, None) is not None:
            continue
        lines = content.removesuffix(b"\n").decode("utf-8", "replace").split("\n")
        before, behind = lines[max(0, start - 1 - _LINES) : start - 1], lines[end : end + _LINES]
        around[location.path, start, end] = before, behind
    return around
