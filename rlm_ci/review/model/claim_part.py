"""The part of a claim that its proof shows: whole clauses of it, and no other words."""

from __future__ import annotations

import re

#: Behind these a clause may end. What stands behind a bare comma may be a condition of the rest.
_ENDS = re.compile(r"(?<=[.;:!?])\s+|,\s+(?=(?:and|but|so|because|which)\b)")
_LEADS = re.compile(r"(?:and|but|so|because|which)\s+")
_WORD = re.compile(r"\w+|[^\w\s`.,;:!?]")


def part_of(claim: str, repeated: str) -> str:
    """The clauses of ``claim`` that ``repeated`` repeats, as they are written there.

    "" unless it repeats some of them, in their order, and says nothing else.
    """
    clauses, parts = _clauses(claim), []
    for sought in _clauses(repeated):
        at = next((n for n, clause in enumerate(clauses) if _words(clause) == _words(sought)), None)
        if at is None:
            return ""
        parts.append(clauses[at])
        del clauses[: at + 1]
    sentences = (clause if clause[-1] in ".!?" else f"{clause.rstrip(',;:')}." for clause in parts)
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)


def _clauses(text: str) -> list[str]:
    parts = (_LEADS.sub("", part.strip(), count=1) for part in _ENDS.split(text))
    return [part for part in parts if _words(part)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
