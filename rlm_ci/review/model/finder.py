"""Ask a model for faults in the texts of a leaf, and open every place that it names."""

from __future__ import annotations

import re

from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, AnchoredClaim, anchor
from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError
from rlm_ci.models.json_question import REPAIR, ask_object
from rlm_ci.recursion.prompt_windows import LEAST, fence, name, windows
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.report.rules import kebab
from rlm_ci.resources import loader
from rlm_ci.text.printable import clip, count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.recursion.prompt_windows import PromptWindow, Ranges

_TEMPLATE = "prompts/review.md.j2"
_SCHEMA = "review-claim.schema.json"
#: Claims that are taken from an answer.
_CLAIMS = 60
#: Characters that are kept of a message and of a suggested fix.
_MESSAGE = 1_000
_FIX = 2_000
#: The highest confidence of a model.
_SUREST = 0.95


class FinderResult(Value):
    """``uncovered`` are pairs of path and reason, ``notes`` for the report."""

    findings: tuple[Finding, ...] = ()
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def look(
    ask: Ask,
    texts: Sequence[LeafText],
    domains: Sequence[str],
    changed: Ranges | None,
    analyzers: Sequence[str] = (),
) -> FinderResult:
    """Ask for the faults in ``texts``, window by window. Raises RemoteError.

    No rule of a model begins with one of the names ``analyzers``.
    """
    render = loader.load_template(_TEMPLATE)
    told = {
        "domains": ", ".join(domains),
        "example": domains[0],
        "is_change": changed is not None,
        "fence": fence(""),
        "listing": "",
    }
    room = ask.max_bytes - len(render(told).encode()) - REPAIR
    if room < LEAST:
        why = f"a prompt of {ask.max_bytes:,} bytes has no room for it"
        return FinderResult(uncovered=tuple((text.path, why) for text in texts))
    cut = windows(texts, room, changed)
    opener = _Opener(texts, domains, ask.model, analyzers)
    uncovered = list(cut.missing)
    for number, window in enumerate(cut.windows, 1):
        prompt = render({**told, "fence": fence(window.listing), "listing": window.listing})
        try:
            answer = ask_object(ask, f"find-{number}", prompt, _misfit)
        except LimitError as error:
            rest = cut.windows[number - 1 :]
            uncovered += _unseen(rest, texts, f"budget: no room in {error.budget}")
            break
        if answer is None:
            uncovered += _unseen([window], texts, "the model's answer could not be read, twice")
        else:
            opener.take(answer["findings"])
    return FinderResult(
        tuple(opener.findings), opener.counts(), tuple(dict.fromkeys(uncovered)), opener.notes()
    )


def _misfit(answer: Mapping[str, Any]) -> str:
    """What is wrong with an answer of which nothing can be used."""
    claims = answer.get("findings")
    if not isinstance(claims, list):
        return "findings must be a list"
    told = [loader.misfit(claim, _SCHEMA) for claim in claims[:_CLAIMS]]
    return told[0] if told and all(told) else ""


def _unseen(
    some: Sequence[PromptWindow], texts: Sequence[LeafText], why: str
) -> list[tuple[str, str]]:
    return [(texts[one.text].path, why) for window in some for one in window.shown]


def source_of(model: str) -> str:
    """What findings of a model say of where they come from."""
    return f"model:{re.sub(r'[^!-_a-~]+', '-', model) or 'unnamed'}"


class _Opener:
    def __init__(
        self,
        texts: Sequence[LeafText],
        domains: Sequence[str],
        model: str,
        analyzers: Sequence[str],
    ) -> None:
        self._shown = texts
        self._texts: dict[str, list[LeafText]] = {}
        for text in texts:  # slices of one file share its path
            for known in {text.path, encodable(text.path), name(text.path)}:
                self._texts.setdefault(known, []).append(text)
        self._domains = domains
        self._source = source_of(model)
        self._analyzers = tuple(f"{one}-" for one in analyzers)
        self._outcomes = {VERIFIED: 0, REANCHORED: 0, REJECTED: 0}
        self._dropped = self._odd = 0
        self.findings: list[Finding] = []

    def take(self, claims: Sequence[Mapping[str, Any]]) -> None:
        """Keep what holds; a malformed claim is dropped alone."""
        for number, claim in enumerate(claims):
            if number >= _CLAIMS or loader.misfit(claim, _SCHEMA):
                self._odd += 1
                self._outcomes[REJECTED] += 1
                continue
            place = self._open(claim)
            others = [self._open(one) for one in claim.get("also", ())]
            if place is None:
                self._dropped += 1
            elif claim["domain"] in self._domains:
                self.findings.append(self._finding(claim, place, others))

    def counts(self) -> Evidence:
        return Evidence(sum(self._outcomes.values()), *self._outcomes.values())

    def notes(self) -> tuple[str, ...]:
        told = (
            (self._dropped, "the quote is not in the files"),
            (self._odd, "not in the form that was asked for"),
        )
        dropped = ((count(number, "claim"), why) for number, why in told if number)
        return tuple(f"{claims} of the model dropped: {why}" for claims, why in dropped)

    def _open(self, claim: Mapping[str, Any]) -> Location | None:
        path, quote = claim["path"], claim["quote"]
        place = Location(path, int(claim["line_start"]), int(claim["line_end"]), quote=quote)
        best = AnchoredClaim()
        for text in self._texts.get(path, ()):
            known = place.replace(path=text.path)
            found = anchor(known, text.content, text.blob, text.line_start)
            if best.location is None or found.outcome == VERIFIED:
                best = found
        self._outcomes[best.outcome] += 1
        return best.location

    def _finding(
        self, claim: Mapping[str, Any], place: Location, others: Sequence[Location | None]
    ) -> Finding:
        rule = kebab(claim["rule"], 60)
        if rule.startswith(self._analyzers) and self._analyzers:
            rule = f"model-{rule}"
        fix = claim.get("suggested_fix")
        places = dict.fromkeys((place, *(one for one in others if one is not None)))
        return Finding(
            f"review/{rule}",
            Severity.from_label(claim["severity"]),
            said_of(self._shown, clip(claim["message"].strip(), _MESSAGE)),
            evidence=tuple(places),
            domain=claim["domain"],
            confidence=round(min(_SUREST, float(claim["confidence"])), 3),
            suggested_fix=fix[:_FIX] if fix else None,
            source=self._source,
        )
