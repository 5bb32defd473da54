"""Questions to a model in rounds; kept are sentences whose quotes are in the sources, and hold.

The first question is asked alone, as it shows what a prompt costs, then several. How many belong to
a round does not depend on threads or settings, and what the endpoint teaches counts from the next
round on. So a resumed run, and a replay, make the same prompts.
"""

from __future__ import annotations

import re
from functools import partial

from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, anchor
from rlm_ci.environments.object_question import ask_object
from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.models.gateway import ask_together
from rlm_ci.models.json_question import answer_form, list_form, repeats
from rlm_ci.recursion.coverage import BUDGET, REMOTE
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.report.findings import Evidence, Location
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value
from rlm_ci.wiki.update import kept_prose
from rlm_ci.wiki.update.state import ProseSentence, QuotedLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.update.kept_prose import Why
    from rlm_ci.wiki.update.state import NamedDefinition

    W = TypeVar("W")
    #: From a way to a model and the name of the question to its answer, or what is wrong with it.
    Question = Callable[[Ask, str, W], tuple[Mapping[str, Any] | None, str]]


#: Questions of a round behind the first.
_ROUND = 8


class RoundAnswer(Row):
    """The answer about a window; else ``wrong`` says what it is, or ``error`` why there is none."""

    answer: Mapping[str, Any] | None = None
    wrong: str = ""
    error: LimitError | RemoteError | None = None

    def why(self, missing: str) -> str:
        """Why something is left out, as the coverage has it; ``missing`` says what that is."""
        if self.error is None:
            return self.wrong
        return f"{lack(self.error)}: {missing}: {printable(str(self.error))}"


def asked_in_rounds(
    ask: Ask,
    step: str,
    cut: Callable[[], Sequence[W]],
    question: Question[W],
    concurrency: int,
) -> Iterator[tuple[W, RoundAnswer]]:
    """Each window with what came of it; ``concurrency`` questions are asked at once at most.

    ``cut`` gives the windows that are left, for prompts of the present size: one that came has been
    taken from them. A window whose prompt was too long for the endpoint is cut and asked again.
    Who has refused, or is spent, is not asked in another round.
    """
    number, size, failure = 0, 1, None
    while windows := cut():
        batch = windows[:size]
        if failure is not None:
            yield from ((window, RoundAnswer(error=failure)) for window in windows)
            return
        before = ask.max_bytes
        tasks = [
            partial(_answered, question, f"{step}-{number + at}", window)
            for at, window in enumerate(batch, 1)
        ]
        answers = ask_together(ask, tasks, concurrency)
        number, size = number + len(batch), _ROUND
        for window, answer in zip(batch, answers, strict=True):
            error = answer.error if answer is not None else None
            if answer is None or (error and is_too_long(error) and ask.max_bytes < before):
                continue
            failure = failure or error
            yield window, answer


def _answered(question: Question[W], step: str, window: W, ask: Ask) -> RoundAnswer:
    try:
        answer, wrong = question(ask, step, window)
    except (LimitError, RemoteError) as error:
        return RoundAnswer(error=error)
    return RoundAnswer(answer, wrong)


_PROMPT, _ANSWER = "prompts/wiki-support.md.j2", "wiki-support.schema.json"
#: Bytes of sentences and grounds in one prompt, and sentences.
_WINDOW, _MOST = 30_000, 60
#: Characters of one ground, as many as an answer may quote.
_LONG = 4_000


class GroundedClaim(Row):
    """A sentence, and the texts that are to support it."""

    sentence: ProseSentence
    grounds: tuple[str, ...]


class SupportResult(Value):
    """What was answered; ``open`` are pairs of a sentence that nobody judged, and why."""

    supported: tuple[ProseSentence, ...] = ()
    unsupported: tuple[ProseSentence, ...] = ()
    open: tuple[tuple[ProseSentence, str], ...] = ()

    def stood(self, sentences: Iterable[ProseSentence]) -> tuple[ProseSentence, ...]:
        """The sentences without those that what they rest on does not support."""
        supported = {sentence.key for sentence in self.supported}
        lies = {sentence.key for sentence in self.unsupported}
        return tuple(
            sentence.replace(is_supported=sentence.is_supported or sentence.key in supported)
            for sentence in sentences
            if sentence.key not in lies
        )


def ask_support(
    ask: Ask, step: str, claims: Sequence[GroundedClaim], concurrency: int = 1
) -> SupportResult:
    """Ask of each claim whether its grounds support it, in as few prompts as they need.

    ``concurrency`` of them are asked at once.
    """
    render = loader.load_template(_PROMPT)
    words = len(render({"fence": fence(""), "listing": ""}).encode())
    judged: dict[bool, list[ProseSentence]] = {True: [], False: []}
    unjudged: list[tuple[ProseSentence, str]] = []
    left = list(claims)

    def question(
        part: Ask, step: str, window: Sequence[GroundedClaim]
    ) -> tuple[dict[str, Any] | None, str]:
        listing = _listing(window)
        prompt = render({"fence": fence(listing), "listing": listing})
        misfit = partial(_misfit, number=len(window))
        answer, wrong = ask_object(part, step, prompt, misfit, answer_form(_ANSWER))
        return answer, f"no_answer: the answer whether its lines support it {wrong}"

    def cut() -> list[list[GroundedClaim]]:
        return list(_windows(left, min(_WINDOW, ask.max_bytes - words - ask.repair)))

    for window, outcome in asked_in_rounds(ask, step, cut, question, concurrency):
        left = [claim for claim in left if claim not in window]
        if outcome.answer is None:
            why = outcome.why("nobody was asked whether its lines support it")
            unjudged += [(claim.sentence, why) for claim in window]
            continue
        for at, claim in enumerate(window, 1):
            judged[at in outcome.answer["supported"]].append(claim.sentence)
    return SupportResult(tuple(judged[True]), tuple(judged[False]), tuple(unjudged))


def lack(error: LimitError | RemoteError) -> str:
    """Why something is left out, as the coverage has it."""
    return BUDGET if isinstance(error, LimitError) else REMOTE


def _windows(claims: Sequence[GroundedClaim], room: int) -> Iterator[list[GroundedClaim]]:
    """The claims, as many together as a prompt has room for."""
    window: list[GroundedClaim] = []
    used = 0
    for claim in claims:
        size = len(_row(len(window) + 1, claim).encode("utf-8", "replace")) + 2
        if window and (used + size > room or len(window) == _MOST):
            yield window
            window, used = [], 0
        window.append(claim)
        used += size
    if window:
        yield window


def _listing(claims: Sequence[GroundedClaim]) -> str:
    return "\n\n".join(_row(number, claim) for number, claim in enumerate(claims, 1))


def _row(number: int, claim: GroundedClaim) -> str:
    lines = [f"[{number}] {name(claim.sentence.text)}"]
    for ground in claim.grounds:
        lines += [f"    > {encodable(line)}" for line in ground[:_LONG].split("\n")]
        lines.append("")
    return "\n".join(lines[:-1] if claim.grounds else lines)


def _misfit(answer: Mapping[str, Any], number: int) -> str:
    """What is wrong with an answer that does not judge each sentence once."""
    wrong = loader.misfit(answer, _ANSWER)
    if wrong:
        return wrong
    judged = sorted([*answer["supported"], *answer["unsupported"]])
    if judged != list(range(1, number + 1)):
        return f"each number from 1 to {number} must be in one of the two lists, and only once"
    return ""


#: What ``ProseResult.data`` has if no model is asked.
NOTHING: Mapping[str, Any] = {
    **{key: [] for key in ("displaced", "done", "rejected")},
    **{key: {} for key in ("prose", "shown", "quoted", "flows")},
}


class ProseResult(Value):
    """What a model said of some files, or of the whole, and what became of its pointers.

    ``data`` is JSON: new sentences by path (``prose``), the lines of their quotes by hash
    (``quoted``), earlier ones that they replace (``displaced``), what was ``rejected`` and why,
    files that were asked about (``done``), hashes of their ``shown`` pieces, and what was said of
    ``flows``; or sentences that were ``supported`` or not; or ``whole``, if that was asked.
    ``uncovered`` are paths of which something was left out, and why.
    """

    data: Mapping[str, Any] = {}
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()

    def then(self, more: ProseResult) -> ProseResult:
        """The sum of both; where they have the same data, those of ``more``."""
        return ProseResult(
            {**self.data, **more.data},
            self.counts + more.counts,
            tuple(dict.fromkeys((*self.uncovered, *more.uncovered))),
        )


def ask_sentences(
    ask: Ask, step: str, prompt: str, schema: str
) -> tuple[dict[str, Any] | None, str]:
    """An answer with sentences of this schema; else None, and why it is of no use."""
    form = list_form("sentences", schema=schema)
    answer, wrong = ask_object(ask, step, prompt, partial(_no_sentence, schema=schema), form)
    return answer, f"no_answer: what the model said {wrong}"


def _no_sentence(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which no sentence can be used; "" for any other."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    misfits = [loader.misfit(sentence, schema) for sentence in sentences]
    return misfits[0] if misfits and all(misfits) else ""


SENTENCE = "wiki-sentence.schema.json"
#: The text in the example of the prompt, which small models copy.
_EXAMPLES = ("one sentence in plain English, names of code in `backticks`",)
#: How a sentence names a function: in backticks, by a call, or by a name that no word is.
_NAMES = re.compile(r"`([\w.:]{1,120})(?:\([^`]*\))?`|\b([A-Za-z_][\w.]*)\(\)|\b(\w+_\w+)\b")
#: Characters, and the number of a line, that are named of what does not stand.
_NAMED_LONG, _LAST = 400, 1 << 30
#: Functions of one name that are meant together.
_SAME = 4
#: Sentences of an answer that are named as rejected: it may have any number.
_REJECTED = 32


def unheld(sentence: Any) -> ProseSentence:
    """What a model said, as far as it is a sentence, with the place that it named first."""
    record = sentence if isinstance(sentence, dict) else {}
    quotes = record.get("quotes")
    first = quotes[0] if isinstance(quotes, list) and quotes else None
    location = ("", 1, 1)
    if isinstance(first, dict):
        path, start, end = (first.get(key) for key in ("path", "line_start", "line_end"))
        if isinstance(path, str) and isinstance(start, int) and isinstance(end, int):
            start = min(max(1, start), _LAST)
            location = encodable(path[:_NAMED_LONG]), start, min(max(start, end), _LAST)
    text = str(record.get("text", ""))[:_NAMED_LONG] or "(nothing)"
    return ProseSentence(encodable(" ".join(text.split())), (QuotedLines(*location, ""),))


class _RejectedError(Exception):
    """A sentence that does not stand, with why."""

    def __init__(self, why: Why) -> None:
        super().__init__(why[0])
        self.why = why


class QuotedClaims:
    """Opens what a model says of ``texts``, and counts what became of it."""

    def __init__(self, texts: Sequence[LeafText]) -> None:
        self._shown = texts
        self._texts: dict[str, list[LeafText]] = {}
        for text in texts:  # slices of one file share its path
            for path in {text.path, encodable(text.path), name(text.path)}:
                self._texts.setdefault(path, []).append(text)
        self._lines: dict[LeafText, kept_prose.QuotedFile] = {}
        self._functions: dict[str, list[tuple[str, NamedDefinition]]] | None = None
        self._outcomes = {VERIFIED: 0, REANCHORED: 0, REJECTED: 0}
        #: The lines of all quotes of the kept sentences, by their hashes.
        self.quoted: dict[str, str] = {}
        #: What was rejected, as JSON, each with why.
        self.rejected: list[list[Any]] = []

    def counts(self) -> Evidence:
        return Evidence(sum(self._outcomes.values()), *self._outcomes.values())

    def accepted(
        self,
        sentences: Sequence[Mapping[str, Any]],
        holds: Callable[[ProseSentence], bool] | None = None,
    ) -> list[ProseSentence]:
        """The sentences that stand, and that ``holds`` allows by where their quotes are."""
        prose_sentences = []
        for sentence in sentences:
            try:
                prose_sentence, outcome = self._open(sentence)
                if holds is not None and not holds(prose_sentence):
                    raise _RejectedError(kept_prose.STEPS_GONE)
            except _RejectedError as error:
                self.reject(sentence, error.why)
            else:
                self._outcomes[outcome] += 1
                prose_sentences.append(prose_sentence)
        return prose_sentences

    def reject(self, sentence: Any, why: Why) -> None:
        """Count a sentence that does not stand, and keep it to be named."""
        self._outcomes[REJECTED] += 1
        self.rejected.append([unheld(sentence).to_json(), list(why)])

    def reject_all(self, sentences: Iterable[Any], why: Why = kept_prose.NOT_ASKED) -> None:
        """Reject sentences that nobody has asked for, of which an answer may have any number."""
        for sentence in list(sentences)[:_REJECTED]:
            self.reject(sentence, why)

    def _open(self, claim: Mapping[str, Any]) -> tuple[ProseSentence, str]:
        """The sentence, and how its quotes were found. Raises _RejectedError."""
        if loader.misfit(claim, SENTENCE):
            raise _RejectedError(kept_prose.MALFORMED)
        if repeats(claim["text"], _EXAMPLES):
            raise _RejectedError(kept_prose.COPIED)
        quotes: list[QuotedLines] = []
        texts: dict[str, str] = {}
        outcomes = set()
        for quote in claim["quotes"]:
            source, first, last, outcome = self._locate(quote)
            quoted = self._file(source).quoted(first, last)
            if quoted is None:
                raise _RejectedError(kept_prose.SHORT_QUOTE)
            texts[quoted.quote] = self._file(source).text_of(quoted)
            by = source.line_start - 1
            quotes.append(
                quoted.replace(line_start=quoted.line_start + by, line_end=quoted.line_end + by)
            )
            outcomes.add(outcome)
        self.quoted |= texts
        words = encodable(said_of(self._shown, " ".join(claim["text"].split())))
        lines = tuple(dict.fromkeys(quotes))
        sentence = ProseSentence(
            words, lines, tuple(self._functions_named(words, lines))[: kept_prose.NAMED]
        )
        return sentence, VERIFIED if outcomes == {VERIFIED} else REANCHORED

    def _locate(self, claim: Mapping[str, Any]) -> tuple[LeafText, int, int, str]:
        """The text that a quote is in, its lines in that, and how it was span_of_quote.

        Raises _RejectedError.
        """
        start, end, quote = int(claim["line_start"]), int(claim["line_end"]), claim["quote"]
        if not kept_prose.tells(quote):
            raise _RejectedError(kept_prose.SHORT_QUOTE)
        if quote.count("\n") >= kept_prose.LINES:
            raise _RejectedError(kept_prose.LONG_QUOTE)
        if claim["path"] not in self._texts:
            raise _RejectedError(kept_prose.NOT_SHOWN)
        span_of_quote: tuple[LeafText, int, int, str] | None = None
        for text in self._texts[claim["path"]]:
            by = text.line_start - 1
            location = Location(text.path, start, end, quote=quote)
            anchored_claim = anchor(location, text.content, text.blob, text.line_start)
            outcome, anchored = anchored_claim.outcome, anchored_claim.location
            if anchored is None or not anchored.line_start:
                # The listing has blank lines in some places, and not in others.
                span = self._file(text).without_gaps(quote, start - by)
                if (
                    span is not None
                    and span[1] - span[0] < kept_prose.LINES
                    and span_of_quote is None
                ):
                    span_of_quote = text, *span, REANCHORED
            elif span_of_quote is None or outcome == VERIFIED:
                first = anchored.line_start
                span_of_quote = text, first - by, (anchored.line_end or first) - by, outcome
        if span_of_quote is None:
            raise _RejectedError(kept_prose.NOT_THERE)
        return span_of_quote

    def _file(self, source: LeafText) -> kept_prose.QuotedFile:
        if source not in self._lines:
            self._lines[source] = kept_prose.QuotedFile(source.path, source.content)
        return self._lines[source]

    def _functions_named(
        self, words: str, quotes: Iterable[QuotedLines]
    ) -> Iterator[NamedDefinition]:
        """The functions that the sentence names, as far as it is clear which ones are meant."""
        paths = {quote.path for quote in quotes}
        seen = set()
        for match in _NAMES.finditer(words):
            full_name = next(filter(None, match.groups())).replace("::", ".").strip(".")
            rows = self._definitions_by_name().get(full_name.rpartition(".")[2], ())
            fitting = [row for row in rows if f".{row[0]}".endswith(f".{full_name}")] or rows
            nearest = [row for row in fitting if row[1].path in paths] or fitting
            for _, definition in nearest if len(nearest) <= _SAME else ():
                if definition not in seen:
                    seen.add(definition)
                    yield definition

    def _definitions_by_name(self) -> Mapping[str, Sequence[tuple[str, NamedDefinition]]]:
        if self._functions is None:
            self._functions = {}
            for text in self._shown:
                for full, _, definition in self._file(text).functions():
                    self._functions.setdefault(definition.name, []).append((full, definition))
        return self._functions
