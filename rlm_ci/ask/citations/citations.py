"""Citations of an answer: each must point to bytes that the run showed to a model.

An answer is a model's text and may have anything in it. A citation is a pointer, or a
``path:line`` of a file of the context; those that do not hold are marked and counted.
"""

from __future__ import annotations

import re

from rlm_ci.ask.citations.cited_lines import CitationGround, CitedLines, unrefuted
from rlm_ci.context.pointers import PointerError
from rlm_ci.environments.symbolic.iteration import SUBCALL
from rlm_ci.report.findings import Evidence, Location
from rlm_ci.source.languages import is_known
from rlm_ci.text.line_references import LINES, ReferenceReader, unverified, written_name
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rlm_ci.ask.citations.cited_lines import Refute, Seen
    from rlm_ci.context.context import Context, SourceFile
    from rlm_ci.text.line_references import LineReference

#: Citations that are checked.
MOST = 200
_TOO_MANY = f"only the first {MOST} are looked at"
#: Why lines do not hold: the context has no file with exactly this name.
NO_FILE = "the context has no such file"
NO_PLACE = "it is not written as a place of the context, and cannot be looked up"
_NO_COUNT = "the run has no such count"
_NO_SOURCE = "the output of a sub-call is not part of the context"
#: Characters on either side for the bracket that makes a short form a citation.
_NEAR = 200
_PLACE = r"(?:chunk:[A-Za-z0-9]+|bytes:[0-9]+-[0-9]+)(?![A-Za-z0-9_])"
#: The rest of a word: a pointer with another kind of dash, or shortened.
_WORD = r"[^\s\[\](){}<>\"'`|,;#]"
#: Linear in time: every repetition has a bound or ends at a character of another class.
_CITATION = re.compile(
    rf"(?P<pointer>(?<![A-Za-z0-9])(?:(?P<full>ctx:[A-Za-z0-9:_.-]{{1,100}}\#{_PLACE})"
    rf"|(?P<short>{_PLACE})"
    rf"|(?P<other>ctx:(?:{_WORD}{{0,100}}\#|(?=sha256|chunk:|bytes:)){_WORD}{{0,200}}"
    rf"|subcall:[0-9]{_WORD}{{0,100}})|(?P<count>count:[0-9]{{1,9}}:[0-9]{{1,9}}(?![0-9:]))))"
    rf"|{LINES}"
)
#: The end of a sentence is not part of a pointer.
_STOPS = ".:!?…"


class CitedAnswer(Value):
    """An answer with places instead of pointers.

    Of its ``offered`` citations, ``verified`` hold; ``locations`` are their places in files, each
    once, ``spans`` their ranges in the text. ``rejected`` are pairs of pointer and reason.
    """

    text: str
    locations: tuple[Location, ...]
    offered: int
    verified: int
    rejected: tuple[tuple[str, str], ...]
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def evidence(self) -> Evidence:
        """The counts as a report has them."""
        return Evidence(self.offered, self.verified, 0, self.offered - self.verified)

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The text in pieces, end to end, each with whether it is a verified place."""
        done = 0
        for start, end in self.spans:
            yield self.text[done:start], False
            yield self.text[start:end], True
            done = end
        yield self.text[done:], False


def cite(
    answer: str,
    context: Context,
    seen: Seen,
    *,
    refute: Refute = unrefuted,
    redact: Callable[[str], str] = str,
    counts: Mapping[str, str] | None = None,
) -> CitedAnswer:
    """``answer`` with each citation checked; ``seen`` are the bytes that models were shown.

    ``counts`` are those of the run, as ``count:<iteration>:<number>`` in square brackets names
    them, and the words for each; None for a run from before there were counts.

    Citations are pointers, ``bytes:<start>-<end>`` and ``chunk:<id>`` in square brackets, and lines
    of a file, as ``path:12``, ``path#L3-L5`` or ``line 12 of path``. Text that only looks like one
    does not hold. ``refute`` says why a file differs from the context; ``redact`` takes secrets
    out of a text: a place with a secret in its path is redacted, and not among the locations.
    Raises DamagedError, StorageError.
    """
    return _Reader(answer, context, CitedLines(context, seen, refute), redact, counts).read()


class _Reader:
    def __init__(
        self,
        answer: str,
        context: Context,
        grounds: CitedLines,
        redact: Callable[[str], str],
        counts: Mapping[str, str] | None,
    ) -> None:
        self._answer = answer
        self._counts = counts
        self._context = context
        self._own = f"ctx:{context.object_id}#"
        self._grounds = grounds
        self._redact = redact
        self._files: dict[str, tuple[SourceFile, ...]] = {}
        for piece in context.files:
            name = written_name(piece.path)
            self._files[name] = (*self._files.get(name, ()), piece)
        self._reader = ReferenceReader(self._files, is_known)
        self._known: dict[str, CitationGround] = {}
        self._offered = self._verified = 0
        self._places: dict[Location, None] = {}
        self._rejected: list[tuple[str, str]] = []

    def read(self) -> CitedAnswer:
        answer, done, length = self._answer, 0, 0
        parts: list[str] = []
        spans: list[tuple[int, int]] = []
        for match in _CITATION.finditer(answer):
            start, end, text = match.start(), match.end(), match[0]
            verified = self._verified
            if match["pointer"] is not None:
                text = self._replaced(match)
            elif reference := self._reader.read(answer, match, done):
                start, end = reference.start, reference.end
                text = self._located(answer[start:end], reference)
            else:  # a name that follows may include it
                continue
            parts += (answer[done:start], text)
            length += start - done + len(text)
            if self._verified > verified:
                spans.append((length - len(text), length))
            done = end
        parts.append(answer[done:])
        if self._offered > MOST:
            self._rejected.append(("…", _TOO_MANY))
        return CitedAnswer(
            "".join(parts),
            tuple(self._places),
            self._offered,
            self._verified,
            tuple(self._rejected),
            tuple(spans),
        )

    def _replaced(self, match: re.Match[str]) -> str:
        written, tail = match[0], ""
        if match["short"] is not None and not self._is_bracketed(match):
            return written
        if match["count"] is not None:
            if self._counts is None or not self._is_bracketed(match):
                return written
            words = self._counts.get(written, "")
            return self._judged(
                written, lambda: CitationGround(words, flaw=None if words else _NO_COUNT)
            )
        if match["other"] is not None:
            written = written.rstrip(_STOPS)
            tail = match[0][len(written) :]
        pointer = self._own + written if match["short"] is not None else written
        return self._judged(pointer, lambda: self._follow(pointer)) + tail

    def _located(self, written: str, reference: LineReference) -> str:
        """The text for lines of a file: as written, if all of them hold."""

        def follow() -> CitationGround:
            if not reference.is_plain:
                return CitationGround(flaw=NO_PLACE)
            pieces = self._files.get(reference.name)
            if pieces is None:
                return CitationGround(flaw=NO_FILE)
            return self._grounds.of_spans(pieces, reference.spans, written)

        return self._judged(written, follow)

    def _judged(self, pointer: str, follow: Callable[[], CitationGround]) -> str:
        self._offered += 1
        if self._offered > MOST:  # also a known one: its places are longer
            return unverified(self._short(pointer))
        if pointer not in self._known:
            self._known[pointer] = follow()
        ground = self._known[pointer]
        if ground.flaw is None:
            self._verified += 1
            self._places.update(
                (location, None)
                for location in ground.locations
                if self._redact(location.path) == location.path
            )
            return self._redact(ground.text)
        self._rejected.append((self._short(pointer), ground.flaw))
        return unverified(self._short(pointer))

    def _is_bracketed(self, match: re.Match[str]) -> bool:
        head = self._answer[max(0, match.start() - _NEAR) : match.start()]
        tail = self._answer[match.end() : match.end() + _NEAR]
        close = tail.find("]")
        return head.rfind("[") > head.rfind("]") and close >= 0 and "[" not in tail[:close]

    def _follow(self, pointer: str) -> CitationGround:
        if pointer.startswith(SUBCALL):
            return CitationGround(flaw=_NO_SOURCE)
        try:
            start, end = self._context.resolve(pointer)
        except PointerError as error:
            return CitationGround(flaw=printable(str(error)))
        exact = pointer.startswith(f"{self._own}bytes:")
        return self._grounds.of(start, end, exact=exact)

    def _short(self, pointer: str) -> str:
        """A pointer for people, without the id of our own object."""
        if not pointer.startswith(self._own):
            return pointer
        return pointer.removeprefix(self._own).replace(":", " ", 1)
