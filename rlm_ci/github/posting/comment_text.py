"""The texts of review comments, with a marker by which we recognise our own."""

from __future__ import annotations

import re

from rlm_ci.report import wording
from rlm_ci.report.details import claim_mark, suggestions
from rlm_ci.report.details.fixes_and_proofs import ProofLimits, fix_of, proof_of
from rlm_ci.report.formats.markdown import ROOM
from rlm_ci.report.links import Links
from rlm_ci.report.markdown_report import MarkdownSurface
from rlm_ci.report.render import RenderOptions
from rlm_ci.report.view import SEVERITY_ICONS
from rlm_ci.resources import loader
from rlm_ci.text import neutralise
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.github.posting.placement import PlacedFinding
    from rlm_ci.report.findings import Location, Subject

_TEMPLATE = "review.md.j2"
_OPENS, _CLOSES = "<!-- rlm-ci:finding ", " -->"
_MARKER = re.compile(
    rf"{_OPENS}(?P<fingerprint>[0-9a-f]{{32}})"
    r"(?: (?P<check>[a-z][a-z0-9-]*) (?P<base>[0-9a-f]{16})"
    rf"(?: @(?P<claim>{claim_mark.PATTERN}))?(?: (?P<name>[^<>\n]+))?)?"
    rf"{_CLOSES}\r?(?:\n|$)"
)
#: The rule in the text of a comment.
_RULE = re.compile(r"`([a-z][a-z0-9-]*)/[\w-]+`")
#: Further places of a finding that a comment names.
_PLACES = 5

#: Lines of an output.
_OUTPUT_LINES = 20
#: Characters that each text may take before it is made harmless, which can make it longer.
_LENGTHS = (4000, 1000, 100)

_CUT = "This finding is too long for a comment: `report.json` and `report.html` have it."


class CommentOrigin(Value):
    """The check that a finding is of, the base that it is about, the name of the run, what the
    claim of a model is about; "" for an unknown one.
    """

    check: str = ""
    base: str = ""
    name: str = ""
    claim: str = ""


#: Of a comment that says nothing of itself.
NOWHERE = CommentOrigin()


def marker(fingerprint: str, origin: CommentOrigin = NOWHERE) -> str:
    """The first line of the comment about the finding with this fingerprint."""
    claim = f"@{origin.claim}" if origin.base and origin.claim else ""
    words = (fingerprint, origin.check, origin.base, claim, origin.name)
    return f"{_OPENS}{' '.join(filter(None, words))}{_CLOSES}"


def read_marker(body: str) -> str | None:
    """The fingerprint in a comment's first line, or None. Check the author: others can forge it."""
    marked = _MARKER.match(body)
    return marked["fingerprint"] if marked else None


def read_origin(body: str) -> CommentOrigin:
    """What a comment's first line says besides; of an older version, the check of its rule."""
    marked = _MARKER.match(body)
    if marked and marked["check"]:
        return CommentOrigin(
            marked["check"], marked["base"], marked["name"] or "", marked["claim"] or ""
        )
    rule = _RULE.search(body)
    return CommentOrigin(rule[1] if rule else "")


class CommentTexts:
    """Writes the comments about one report. Raises ConfigError for a bad ``server_url``
    or an override of ``review.md.j2`` that cannot be used.
    """

    def __init__(
        self,
        subject: Subject,
        options: RenderOptions | None = None,
        origin: CommentOrigin = NOWHERE,
    ) -> None:
        options = options or RenderOptions()
        self._origin = origin
        self._links = Links(subject, options)
        self._template = loader.load_template(_TEMPLATE, overrides=options.templates)
        self._surface = MarkdownSurface()

    def body(self, placed: PlacedFinding, fingerprint: str) -> str:
        """The Markdown of one comment, short enough for GitHub; its first line is the marker.

        Raises ValueError for a fingerprint that is not 32 hex digits.
        """
        origin = self._origin
        if origin.base:
            check = placed.finding.rule.partition("/")[0]
            origin = origin.replace(check=check, claim=claim_mark.of(placed.finding))
        first = marker(fingerprint, origin)
        if read_marker(first) != fingerprint:
            raise ValueError("a fingerprint is 32 hex digits")
        for length in _LENGTHS:
            text = self._template(self._view(placed, length)).strip("\n")
            body = f"{first}\n{neutralise.document(text)}\n"
            if ROOM.has(body):
                return body
        return f"{first}\n{_CUT}\n"

    def _view(self, placed: PlacedFinding, length: int) -> dict[str, Any]:
        """The variables of the template; a project that overrides it may rely on them."""
        finding = placed.finding
        spot = finding.evidence[0] if finding.evidence else None
        more = finding.evidence[1 : 1 + _PLACES]
        # A shortened block would be another change.
        offered = placed.suggestion is not None and length > _LENGTHS[-1]
        proof = proof_of(finding, self._surface, ProofLimits(length, _OUTPUT_LINES))
        if proof and placed.is_run and offered:
            proof["repair"] = proof["left_out"] = None  # the suggestion is it
        return {
            "severity": finding.severity.label,
            "severity_icons": SEVERITY_ICONS,
            "rule": self._surface.link(
                neutralise.clip(finding.rule, 120), self._links.rule(finding)
            ),
            "source": None if finding.source == "check" else self._code(finding.source),
            "message": self._text(finding.message, length),
            "hint": self._surface.hint(neutralise.clip(finding.hint, length))
            if finding.hint
            else None,
            "suggestion": suggestions.block(placed.suggestion or "") if offered else None,
            "is_run": placed.is_run,
            "fix": fix_of(finding, self._surface, length, length),
            "proof": proof,
            "reason": self._text(placed.reason, length),
            "lines": wording.spoken_lines(spot) if spot else "",
            "url": self._links.place(spot) if spot else None,
            "removed": bool(spot and spot.side == "old"),
            "places": [self._place(location) for location in more],
            "places_more": max(0, len(finding.evidence) - 1 - len(more)),
        }

    def _code(self, name: str) -> str:
        return self._surface.code(neutralise.clip(name, 120))

    def _text(self, text: str, length: int) -> str:
        return self._surface.text(neutralise.clip(text, length))

    def _place(self, location: Location) -> dict[str, Any]:
        lines = wording.lines(location)
        path = f"{location.path}:{lines}" if lines else location.path
        return {"path": self._surface.code(path), "url": self._links.place(location)}
