"""Ask a model for faults in the texts of a leaf, and open every place that it names."""

from __future__ import annotations

import re

from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, AnchoredClaim, anchor
from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.models.json_question import list_form, repeats
from rlm_ci.recursion.coverage import REMOTE
from rlm_ci.recursion.prompt_windows import LEAST, WindowCutter, fence, name
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.report.rules import kebab
from rlm_ci.resources import loader
from rlm_ci.review.exploration.explorer import NodeQuestions
from rlm_ci.text.printable import clip, count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.review.change_prompts.listing import ChangePrompt
    from rlm_ci.review.guidelines import Guidelines, ShownGuidelines

#: The share of accepted faults in what asking once more needs.
_ACCEPTED = 3
_TEMPLATE, CHANGE_TEMPLATE = "prompts/review.md.j2", "prompts/review-change.md.j2"
#: Bytes of what differs between prompts besides their data.
_DIFFERENT = 300
_SCHEMA = "review-claim.schema.json"
#: Claims that are taken from an answer.
_CLAIMS = 60
#: Characters that are kept of a message and of a suggested fix.
_MESSAGE = 1_000
_FIX = 2_000
#: Why claims are dropped, by the name of their number among the metrics of a result.
DROPPED = {
    "dropped_quotes": "the quote is not in the files",
    "dropped_examples": "they repeat the example of the prompt",
    "dropped_guidelines": "the guideline that they name is not there",
    "dropped_forms": "not in the form that was asked for",
    "dropped_domains": "of a domain that was not asked for",
}
#: What the example in the templates has, which small models copy.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "rule": ("short-name-of-the-kind-of-fault",),
    "message": ("what breaks, in one line, then why", "what is wrong, and what it leads to"),
    "path": ("as in the listing",),
    "quote": ("these lines, copied exactly, without",),
    "suggested_fix": ("the lines that replace these, to the letter",),
}
#: The highest confidence of a model.
_SUREST = 0.95


class FinderResult(Value):
    """``uncovered`` are pairs of path and reason, ``dropped`` numbers of claims as in DROPPED.

    ``unchecked`` has a file for each claim that could not be checked.
    """

    findings: tuple[Finding, ...] = ()
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()
    dropped: Mapping[str, int] = {}
    unchecked: tuple[str, ...] = ()


class Finder:
    """Asks a model for faults of some domains.

    No rule of a model begins with one of the names ``analyzers``. ``questions`` puts each question.
    ``more`` are further instructions about a change, ``description`` what its author says of it:
    hostile data.
    """

    def __init__(
        self,
        ask: Ask,
        domains: Sequence[str],
        analyzers: Sequence[str] = (),
        guidelines: Guidelines | None = None,
        questions: NodeQuestions | None = None,
        *,
        more: str = "",
        description: str = "",
    ) -> None:
        self._ask = ask
        self._description = description
        self._more = more
        self._questions = questions or NodeQuestions()
        self._domains = domains
        self._analyzers = analyzers
        self._guidelines = guidelines

    def look(self, texts: Sequence[LeafText]) -> FinderResult:
        """Ask for the faults in ``texts``, window by window. Raises RemoteError.

        What an endpoint refuses for its length is asked about in smaller windows.
        """
        wishes = self._wishes([leaf_text.path for leaf_text in texts])
        data = self._answer_record(wishes)
        render = loader.load_template(_TEMPLATE)
        words = len(render(data).encode())
        room = self._room(words)
        if room < LEAST:
            why = f"a prompt of {self._ask.max_bytes:,} bytes has no room for it"
            return FinderResult(uncovered=tuple((text.path, why) for text in texts))
        opener = self._opener(texts, wishes)
        cutter, number, is_over = WindowCutter(texts), 1, False
        uncovered: list[tuple[str, str]] = []
        while not is_over and (window := cutter.window(room)) is not None:
            prompt = render({**data, "fence": fence(window.listing), "listing": window.listing})
            try:
                why, is_over = self._take(f"find-{number}", prompt, opener)
            except RemoteError as error:
                room = self._room(words)
                if is_too_long(error) and LEAST <= room < len(window.listing.encode()):
                    continue
                why, is_over = opener.unread(error), True
            cutter.take(window)
            lost = (window, *cutter.windows_left(LEAST)) if is_over else (window,) if why else ()
            uncovered += [(texts[lines.text].path, why) for some in lost for lines in some.shown]
            number, room = number + 1, max(LEAST, self._room(words))
        return opener.result([*cutter.missing, *uncovered])

    def _room(self, words: int) -> int:
        """The bytes of a listing beside ``words``."""
        prompt_bytes = self._questions.prompt_bytes(self._ask.max_bytes)
        return prompt_bytes - words - self._ask.repair

    def look_at_change(
        self, prompt: ChangePrompt, texts: Sequence[LeafText], accepted: str = ""
    ) -> FinderResult:
        """Ask for the faults of a change by ``prompt``; ``texts`` are the files that it shows.

        ``accepted`` lists faults that are not to be reported again. A prompt that an endpoint
        refuses for its length is cut into several. Raises RemoteError.
        """
        opener = self._opener(texts, None, prompt.gone)
        left, number, is_over = [prompt], 1, False
        uncovered: list[tuple[str, str]] = []
        while left and not is_over:
            change_prompt = left.pop(0)
            opener.guidelines = self._wishes(change_prompt.paths)
            fields = {**self._answer_record(opener.guidelines), "part": change_prompt.part}
            data = {"fence": self._fence(change_prompt.text), "listing": change_prompt.text}
            data |= {"description": self._description}
            data |= {"accepted": accepted, "accepted_fence": fence(accepted)}
            question = loader.load_template(CHANGE_TEMPLATE)({**fields, **data})
            if parts := self._ahead(change_prompt, question):
                left = [*parts, *left]
                continue
            try:
                why, is_over = self._take(f"find-{number}", question, opener)
            except RemoteError as error:
                room = self._room(len(question.encode()) - len(change_prompt.text.encode()))
                is_useful = is_too_long(error) and room >= 2 * min(LEAST, self._ask.repair)
                if is_useful and (parts := change_prompt.cut(room)):
                    left = [
                        *parts,
                        *(part for other in left for part in other.cut(room) or [other]),
                    ]
                    continue
                why, is_over = opener.unread(error), True
            lost = (change_prompt, *left) if is_over else (change_prompt,) if why else ()
            uncovered += [(path, why) for some in lost for path in some.paths]
            uncovered += change_prompt.missing
            number += 1
        return opener.result(uncovered)

    def _fence(self, listing: str) -> str:
        description = self._description
        return fence(description, listing) if description else fence(listing)

    def _ahead(self, prompt: ChangePrompt, question: str) -> list[ChangePrompt]:
        """The parts of a question that the endpoint would refuse, as others were told; or none.

        A part that loses lines is no part: the endpoint may take the question after all.
        """
        if not (self._ask.is_taught and len(question.encode()) > self._ask.max_bytes):
            return []
        parts = prompt.cut(self._room(len(question.encode()) - len(prompt.text.encode())))
        return parts if parts and parts[0].missing == prompt.missing else []

    def _opener(
        self,
        texts: Sequence[LeafText],
        wishes: ShownGuidelines | None,
        gone: Sequence[LeafText] = (),
    ) -> _Opener:
        return _Opener(
            texts, self._domains, self._ask.model, self._analyzers,
            guidelines=wishes, others=self._questions.text, gone=gone,
        )  # fmt: skip

    def _take(self, step: str, prompt: str, opener: _Opener) -> tuple[str, bool]:
        """Take an answer; why there is none, and whether there will be no other."""
        try:
            answer, wrong = self._questions(
                self._ask, step, prompt, _misfit, list_form("findings", schema=_SCHEMA)
            )
        except LimitError as error:
            return f"budget: no room in {error.budget}", True
        if answer is None:
            return f"the model's answer {wrong}", False
        return opener.take(answer["findings"]), False

    def _wishes(self, paths: Sequence[str]) -> ShownGuidelines | None:
        guidelines = self._guidelines
        return guidelines.for_paths(paths, self._ask.max_bytes) if guidelines else None

    def _answer_record(self, wishes: ShownGuidelines | None) -> dict[str, Any]:
        return {
            "domains": ", ".join(self._domains),
            "example": self._domains[0],
            "guidelines": self._more + (wishes.text if wishes else ""),
            "fence": fence(""),
            "listing": "",
        }


def accepted_bytes(repair: int) -> int:
    """The bytes about accepted faults in a prompt that leaves ``repair`` for asking once more."""
    return repair // _ACCEPTED


def room_for_change(
    max_bytes: int, repair: int, guidelines: Guidelines, description: str = ""
) -> int:
    """The bytes of a listing in a prompt of ``max_bytes``; see ``Ask`` and ``Finder``."""
    data = {"domains": "x" * _DIFFERENT, "example": "", "guidelines": "", "part": ""}
    data |= {"accepted": "x" * accepted_bytes(repair), "accepted_fence": fence("")}
    data |= {"description": description}
    empty = loader.load_template(CHANGE_TEMPLATE)({**data, "fence": fence(""), "listing": ""})
    return max_bytes - len(empty.encode()) - guidelines.max_block_bytes(max_bytes) - repair


def dropped(metrics: Mapping[str, float]) -> list[str]:
    """Which claims were dropped, and why, in the words of a report."""
    reasons = ((int(metrics.get(name, 0)), why) for name, why in DROPPED.items())
    return [
        f"{count(number, 'claim')} of the model dropped: {why}" for number, why in reasons if number
    ]


def _misfit(answer: Mapping[str, Any]) -> str:
    """What is wrong with an answer of which nothing can be used."""
    claims = answer.get("findings")
    if not isinstance(claims, list):
        return "findings must be a list"
    misfits = [loader.every_misfit(claim, _SCHEMA) for claim in claims[:_CLAIMS]]
    if not all(misfits):
        return ""
    return "\n".join(f"findings[{number}]: {wrong}" for number, wrong in enumerate(misfits))


def source_of(model: str) -> str:
    """What findings of a model say of where they come from."""
    return f"model:{re.sub(r'[^!-_a-~]+', '-', model) or 'unnamed'}"


def _repeats(claim: Mapping[str, Any], *members: str) -> bool:
    """Whether one of ``members`` is what the prompt's example has there."""
    return any(repeats(str(claim.get(name)), EXAMPLES[name]) for name in members)


class _Opener:
    def __init__(
        self,
        texts: Sequence[LeafText],
        domains: Sequence[str],
        model: str,
        analyzers: Sequence[str],
        *,
        guidelines: ShownGuidelines | None = None,
        others: Callable[[str], LeafText | None],
        gone: Sequence[LeafText] = (),
    ) -> None:
        self._shown = [*texts, *gone]
        #: Finds a file that the model may have read besides; those that were asked for.
        self._others = others
        self._read: dict[str, list[LeafText]] = {}
        self._texts: dict[str, list[LeafText]] = {}
        #: Deleted files, whose lines stand at the base.
        self._gone = frozenset(text.path for text in gone)
        for text in self._shown:  # slices of one file share its path
            for spelling in {text.path, encodable(text.path), name(text.path)}:
                self._texts.setdefault(spelling, []).append(text)
        self._domains = domains
        self._source = source_of(model)
        self._analyzers = tuple(f"{analyzer}-" for analyzer in analyzers)
        self._outcomes = {VERIFIED: 0, REANCHORED: 0, REJECTED: 0}
        self._dropped = self._examples = self._odd = self._unfounded = self._unasked = 0
        self.guidelines = guidelines
        self._has_read = False
        self._unchecked: list[str] = []
        self.findings: list[Finding] = []

    def take(self, claims: Sequence[Mapping[str, Any]]) -> str:
        """Keep what holds; a malformed claim is dropped alone.

        Return why the answer shows no reading: none of its claims points to a line that exists.
        """
        opened = 0
        self._has_read = True
        for number, claim in enumerate(claims):
            if number >= _CLAIMS or loader.misfit(claim, _SCHEMA):
                self._odd += 1
                self._outcomes[REJECTED] += 1
                self._unchecked.append(self._file_named(claim))
                continue
            if _repeats(claim, "rule", "message", "path", "quote"):
                self._examples += 1
                self._outcomes[REJECTED] += 1
                continue
            location, is_moved = self._open(claim)
            opened += location is not None
            others = [self._open(other)[0] for other in claim.get("also", ())]
            hint, is_founded = None, True
            if guideline := claim.get("guideline"):
                reference = self.guidelines.open(guideline) if self.guidelines else None
                self._outcomes[REJECTED if reference is None else VERIFIED] += 1
                is_founded = reference is not None
                rests_on, hint = reference or (None, None)
                others.append(rests_on)
            if location is None:
                self._dropped += 1
                self._unchecked.append(self._file_named(claim))
            elif not is_founded:
                self._unfounded += 1
                self._unchecked.append(self._file_named(claim))
            elif claim["domain"] not in self._domains:
                self._unasked += 1
            else:
                finding = self._finding(claim, location, others).replace(hint=hint)
                # A suggestion fits only the lines that it was written for.
                self.findings.append(finding.replace(suggested_fix=None) if is_moved else finding)
        if opened or not claims:
            return ""
        return f"nothing that the model claimed holds: {count(len(claims), 'claim')} dropped"

    def unread(self, error: RemoteError) -> str:
        """Why the rest is not read, once something was: else the part as a whole has failed.

        Raises ``error`` then, and where it is no refusal of a prompt for its length.
        """
        if not (self._has_read and is_too_long(error)):
            raise error
        return f"{REMOTE}: {error}; see models.context_tokens"

    def result(self, uncovered: Sequence[tuple[str, str]]) -> FinderResult:
        counts = Evidence(sum(self._outcomes.values()), *self._outcomes.values())
        lacking = tuple(dict.fromkeys(uncovered))
        numbers = (self._dropped, self._examples, self._unfounded, self._odd, self._unasked)
        dropped = zip(DROPPED, numbers, strict=True)
        unchecked = tuple(self._unchecked)
        return FinderResult(tuple(self.findings), counts, lacking, dict(dropped), unchecked)

    def _file_named(self, claim: Mapping[str, Any]) -> str:
        """The file that a claim names, or one of those that were shown; it may have no form."""
        path = claim.get("path") if isinstance(claim, dict) else None
        texts = self._texts.get(str(path)) or self._shown
        return texts[0].path if texts else ""

    def _open(self, claim: Mapping[str, Any]) -> tuple[Location | None, bool]:
        """Where a claim points, and whether these are other lines than it names."""
        path, quote = claim["path"], claim["quote"]
        location = Location(path, int(claim["line_start"]), int(claim["line_end"]), quote=quote)
        best = AnchoredClaim()
        texts = self._texts.get(path) or self._elsewhere(path)
        for text in texts:
            side = "old" if text.path in self._gone else "new"
            claimed = location.replace(path=text.path, side=side)
            anchored_claim = anchor(claimed, text.content, text.blob, text.line_start)
            if best.location is None or anchored_claim.outcome == VERIFIED:
                best = anchored_claim
        self._outcomes[best.outcome] += 1
        return best.location, best.outcome == REANCHORED

    def _elsewhere(self, path: str) -> Sequence[LeafText]:
        if path not in self._read:
            text = self._others(path)
            self._read[path] = [text] if text else []
            self._shown += self._read[path]
        return self._read[path]

    def _finding(
        self, claim: Mapping[str, Any], location: Location, others: Sequence[Location | None]
    ) -> Finding:
        rule = kebab(claim["rule"], 60)
        if rule.startswith(self._analyzers) and self._analyzers:
            rule = f"model-{rule}"
        fix = claim.get("suggested_fix")
        places = dict.fromkeys((location, *(other for other in others if other is not None)))
        return Finding(
            f"review/{rule}",
            Severity.from_label(claim["severity"]),
            said_of(self._shown, clip(claim["message"].strip(), _MESSAGE)),
            evidence=tuple(places),
            domain=claim["domain"],
            confidence=round(min(_SUREST, float(claim["confidence"])), 3),
            suggested_fix=None
            if not fix or len(fix) > _FIX or _repeats(claim, "suggested_fix")
            else fix,  # cut, it is another
            source=self._source,
        )
