"""Texts of a repository, cut and made harmless for a page."""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.wiki.facts.readme import plain

#: Characters of a description in a list.
_SENTENCE = 180
_SIGNATURE = 160
_LEADING = re.compile(r"(.{12,}[.!?])\s+[^.!?]*:$")


def sentence(text: str, *, cell: bool = False) -> str:
    text = plain(text).rstrip(":")
    match = re.match(r"(.{12,}?[.!?])(?=\s+[^a-z\s]|\s*$)", text)
    if match and not re.search(r"(?:\be\.g|\bi\.e|\betc|\bvs)\.$", match[1]):
        text = match[1]
    return prose(clip(text, _SENTENCE), cell=cell)


def paragraph(text: str) -> str:
    """A whole paragraph of documentation, without a last sentence that leads to an example."""
    text = plain(text)
    if text.endswith(":"):
        text = _LEADING.sub(r"\1", text).rstrip(":")
    return prose(clip(text, 900))


def signature(text: str) -> str:
    return code(clip(" ".join(text.split()), _SIGNATURE))


def listed(items: list[str], limit: int, number: int | None = None) -> str:
    """``a, b, c and 4 more``; ``number`` of them are there, also where ``items`` ends early."""
    more = (len(items) if number is None else number) - limit
    text = ", ".join(items[:limit])
    return f"{text} and {more:,} more" if more > 0 else text
