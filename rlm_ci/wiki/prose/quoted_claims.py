"""The sentences of an answer: kept are those whose quotes are all in the sources."""

from __future__ import annotations

import re

from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, anchor
from rlm_ci.environments.quoting import said_of
from rlm_ci.models.json_question import repeats
from rlm_ci.recursion.prompt_windows import name
from rlm_ci.report.findings import Evidence, Location
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable
from rlm_ci.wiki.update.kept_prose import (
    COPIED,
    LINES,
    LONG_QUOTE,
    MALFORMED,
    NAMED,
    NOT_ASKED,
    NOT_SHOWN,
    NOT_THERE,
    SHORT_QUOTE,
    STEPS_GONE,
    QuotedFile,
    tells,
)
from rlm_ci.wiki.update.state import ProseSentence, QuotedLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.update.kept_prose import Why
    from rlm_ci.wiki.update.state import NamedDefinition

SENTENCE = "wiki-sentence.schema.json"
#: The text in the example of the prompt, which small models copy.
_EXAMPLES = ("one sentence in plain English, names of code in `backticks`",)
#: How a sentence names a function: in backticks, by a call, or by a name that no word is.
_NAMES = re.compile(r"`([\w.:]{1,120})(?:\([^`]*\))?`|\b([A-Za-z_][\w.]*)\(\)|\b(\w+_\w+)\b")
#: Characters, and the number of a line, that are named of what does not stand.
_LONG, _LAST = 400, 1 << 30
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
            location = encodable(path[:_LONG]), start, min(max(start, end), _LAST)
    text = str(record.get("text", ""))[:_LONG] or "(nothing)"
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
        self._lines: dict[LeafText, QuotedFile] = {}
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
                    raise _RejectedError(STEPS_GONE)
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

    def reject_all(self, sentences: Iterable[Any], why: Why = NOT_ASKED) -> None:
        """Reject sentences that nobody has asked for, of which an answer may have any number."""
        for sentence in list(sentences)[:_REJECTED]:
            self.reject(sentence, why)

    def _open(self, claim: Mapping[str, Any]) -> tuple[ProseSentence, str]:
        """The sentence, and how its quotes were found. Raises _RejectedError."""
        if loader.misfit(claim, SENTENCE):
            raise _RejectedError(MALFORMED)
        if repeats(claim["text"], _EXAMPLES):
            raise _RejectedError(COPIED)
        quotes: list[QuotedLines] = []
        texts: dict[str, str] = {}
        outcomes = set()
        for quote in claim["quotes"]:
            source, first, last, outcome = self._locate(quote)
            quoted = self._file(source).quoted(first, last)
            if quoted is None:
                raise _RejectedError(SHORT_QUOTE)
            texts[quoted.quote] = self._file(source).text_of(quoted)
            by = source.line_start - 1
            quotes.append(
                quoted.replace(line_start=quoted.line_start + by, line_end=quoted.line_end + by)
            )
            outcomes.add(outcome)
        self.quoted |= texts
        words = encodable(said_of(self._shown, " ".join(claim["text"].split())))
        lines = tuple(dict.fromkeys(quotes))
        sentence = ProseSentence(words, lines, tuple(self._functions_named(words, lines))[:NAMED])
        return sentence, VERIFIED if outcomes == {VERIFIED} else REANCHORED

    def _locate(self, claim: Mapping[str, Any]) -> tuple[LeafText, int, int, str]:
        """The text that a quote is in, its lines in that, and how it was span_of_quote.

        Raises _RejectedError.
        """
        start, end, quote = int(claim["line_start"]), int(claim["line_end"]), claim["quote"]
        if not tells(quote):
            raise _RejectedError(SHORT_QUOTE)
        if quote.count("\n") >= LINES:
            raise _RejectedError(LONG_QUOTE)
        if claim["path"] not in self._texts:
            raise _RejectedError(NOT_SHOWN)
        span_of_quote: tuple[LeafText, int, int, str] | None = None
        for text in self._texts[claim["path"]]:
            by = text.line_start - 1
            location = Location(text.path, start, end, quote=quote)
            anchored_claim = anchor(location, text.content, text.blob, text.line_start)
            outcome, anchored = anchored_claim.outcome, anchored_claim.location
            if anchored is None or not anchored.line_start:
                # The listing has blank lines in some places, and not in others.
                span = self._file(text).without_gaps(quote, start - by)
                if span is not None and span[1] - span[0] < LINES and span_of_quote is None:
                    span_of_quote = text, *span, REANCHORED
            elif span_of_quote is None or outcome == VERIFIED:
                first = anchored.line_start
                span_of_quote = text, first - by, (anchored.line_end or first) - by, outcome
        if span_of_quote is None:
            raise _RejectedError(NOT_THERE)
        return span_of_quote

    def _file(self, source: LeafText) -> QuotedFile:
        if source not in self._lines:
            self._lines[source] = QuotedFile(source.path, source.content)
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
