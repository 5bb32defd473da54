"""What a model adds to the facts: sentences, each with lines that it quotes."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, AnchoredClaim, anchor
from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import REPAIR, ask_object
from rlm_ci.recursion.coverage import BUDGET, REMOTE
from rlm_ci.recursion.prompt_windows import LEAST, fence, name, windows
from rlm_ci.report.findings import Evidence, Location
from rlm_ci.resources import loader
from rlm_ci.text.line_references import marked
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value
from rlm_ci.wiki.pages.layout import is_source
from rlm_ci.wiki.pages.paths import folder_of
from rlm_ci.wiki.update.kept_prose import LINES, MOST, SENTENCES, QuotedFile, mark, tells
from rlm_ci.wiki.update.state import ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.update.state import Prose

_MODULE = "prompts/wiki-module.md.j2"
_WHOLE = "prompts/wiki-whole.md.j2"
#: Sentences that are shown of a repository to be summed up.
_SUMMED = 240
#: Bytes of a prompt for what has been said already: at most so many, and this share of it.
_KNOWN, _SHARE = 4_000, 16
#: Bytes that the number of a line takes.
_NUMBERED = 8
_SENTENCE, _WHOLE_SENTENCE = "wiki-sentence.schema.json", "wiki-whole-sentence.schema.json"
_UNREADABLE = "no_answer: what the model said could not be read, twice"


#: What ``ProseResult.data`` has of files if no model is asked.
NOTHING: Mapping[str, Any] = {"prose": {}, "displaced": [], "done": [], "shown": {}}


class ProseResult(Value):
    """What a model said of the files of a leaf, or of the whole, and what became of its pointers.

    ``data`` is JSON: new sentences by path (``prose``), earlier ones that they replace
    (``displaced``), files that were asked about (``done``), and hashes of the ``shown`` parts of
    long ones; or ``whole``, if that was asked. ``uncovered`` are paths of which something was left
    out, and why.
    """

    data: Mapping[str, Any] = {}
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()


def tell(
    ask: Ask, texts: Sequence[LeafText], known: Mapping[str, Prose] | None = None
) -> ProseResult:
    """Ask what the sources among ``texts`` are for, folder by folder.

    ``known`` are earlier sentences by path, which the model is not to repeat.
    """
    teller = _Teller(ask, texts, known or {})
    groups: dict[str, list[LeafText]] = {}
    for text in texts:
        if is_source(text.path):
            groups.setdefault(folder_of(text.path), []).append(text)
    for number, inner in enumerate(groups.values(), 1):
        teller.tell(number, inner)
    return teller.told()


class _Teller:
    """Asks about the folders of one leaf."""

    def __init__(self, ask: Ask, texts: Sequence[LeafText], known: Mapping[str, Prose]) -> None:
        self._ask = ask
        self._render = loader.load_template(_MODULE)
        words = self._render({"fence": fence(""), "listing": "", "known": ["-"]})
        self._for_known = min(_KNOWN, ask.max_bytes // _SHARE)
        self._room = ask.max_bytes - len(words.encode()) - REPAIR - self._for_known
        self._known = known
        self._opener = _Opener(texts)
        self._said: dict[str, list[ProseSentence]] = {}
        self._displaced: list[ProseSentence] = []
        self._shown: dict[str, list[str]] = {}
        self._asked: list[str] = []
        self._uncovered: list[tuple[str, str]] = []
        self._why = ""

    def tell(self, number: int, inner: Sequence[LeafText]) -> None:
        """Ask about a folder, by as few prompts as its unknown parts need."""
        paths = [text.path for text in inner]
        self._asked += paths
        full = [text for text in inner if text.content.strip()]
        if full and self._room < LEAST:
            why = f"a prompt of {self._ask.max_bytes:,} bytes has no room for it"
            self._uncovered += [(path, f"prompt_too_small: {why}") for path in paths]
            return
        turn, self._why = 0, ""
        for some in _apart(full, self._room):
            cut = windows(some, self._room)
            self._uncovered += cut.missing
            for window in cut.windows:
                turn += 1
                pieces = [_Piece.of((some[one.text], *list(one)[1:])) for one in window.shown]
                is_long = len(some) == 1 and (len(cut.windows) > 1 or _is_slice(some[0]))
                self._turn(f"tell-{number}-{turn}", window.listing, pieces, is_long=is_long)

    def _turn(self, place: str, listing: str, pieces: Sequence[_Piece], *, is_long: bool) -> None:
        marks = [(one.text.path, _digest(one)) for one in pieces]
        before = {path: self._known[path].shown for path, _ in marks if path in self._known}
        why = ""
        if not all(part in before.get(path, ()) for path, part in marks):
            why = self._why  # who has refused, or is spent, is not asked again
            try:
                if not why and not self._asks(place, listing, pieces):
                    why = _UNREADABLE
            except (LimitError, RemoteError) as error:
                self._why = why = f"{_lack(error)}: no prose about it: {printable(str(error))}"
        for path, part in marks:
            if why:
                self._uncovered.append((path, why))
            elif is_long:
                self._shown.setdefault(path, []).append(part)

    def _asks(self, place: str, listing: str, pieces: Sequence[_Piece]) -> bool:
        known = [said for one in pieces for said in self._of(one)]
        rows, used = [], 0
        for said in known:
            row = f"- {name(said.path)}:{said.line_start}: {name(said.text)}"
            used += len(row.encode("utf-8", "replace")) + 1
            if used <= self._for_known:
                rows.append(row)
        line = fence(listing, *rows)
        prompt = self._render({"fence": line, "listing": listing, "known": rows})
        answer = ask_object(self._ask, place, prompt, partial(_misfit, schema=_SENTENCE))
        if answer is None:
            return False
        new = [one for one in self._opener.kept(answer["sentences"]) if one not in known]
        for said in new:
            self._said.setdefault(said.path, []).append(said)
        self._displaced += known[: max(0, len(known) + len(new) - MOST)]
        return True

    def _of(self, piece: _Piece) -> list[ProseSentence]:
        known = self._known.get(piece.text.path)
        said = known.said if known is not None else ()
        return [one for one in said if piece.line_start <= one.line_start <= piece.line_end]

    def told(self) -> ProseResult:
        data = {
            "prose": {
                path: list(map(list, dict.fromkeys(said))) for path, said in self._said.items()
            },
            "displaced": list(map(list, self._displaced)),
            "done": list(dict.fromkeys(self._asked)),
            "shown": self._shown,
        }
        return ProseResult(data, self._opener.counts(), tuple(dict.fromkeys(self._uncovered)))


class _Piece(Row):
    """Lines of a text that are shown together."""

    text: LeafText
    line_start: int
    line_end: int


def _is_slice(text: LeafText) -> bool:
    return text.line_start > 1 or text.whole is not None


def _digest(piece: _Piece) -> str:
    """A hash of the lines of a piece, without their place."""
    text, start, end = piece
    lines = text.content.split(b"\n")[start - text.line_start : end - text.line_start + 1]
    return mark(sha256(b"\n".join(lines)).hexdigest())


def _apart(texts: Sequence[LeafText], room: int) -> Iterator[list[LeafText]]:
    """Texts that fit a prompt together; a longer one is alone, so that its parts stay the same."""
    some: list[LeafText] = []
    for text in texts:
        size = len(text.content) + _NUMBERED * (text.content.count(b"\n") + 1)
        if size > room:
            if some:
                yield some
            yield [text]
            some = []
        else:
            some.append(text)
    if some:
        yield some


def merged(
    known: Mapping[str, Sequence[ProseSentence]], data: Mapping[str, Any]
) -> dict[str, tuple[ProseSentence, ...]]:
    """What was said of files before, and by a recursion whose result has ``data``."""
    displaced = {ProseSentence.of(row) for row in data["displaced"]}
    found = {path: [one for one in said if one not in displaced] for path, said in known.items()}
    for path, rows in data["prose"].items():
        found.setdefault(path, []).extend(map(ProseSentence.of, rows))
    return {path: tuple(dict.fromkeys(said)) for path, said in found.items()}


def grounds(said: Mapping[str, Sequence[ProseSentence]]) -> list[ProseSentence]:
    """The sentences that what is said of the whole rests on."""
    folders: dict[str, list[ProseSentence]] = {}
    for path in sorted(said):
        folders.setdefault(folder_of(path), []).extend(said[path])
    return [one for rows in folders.values() for one in rows[:SENTENCES]][:_SUMMED]


def digest_of(known: Iterable[ProseSentence]) -> str:
    """A hash of the sentences, without their places."""
    rows = [f"{encodable(one.path)}\0{encodable(one.text)}\0" for one in known]
    return mark("".join(rows))


def sum_up(ask: Ask, known: Sequence[ProseSentence]) -> ProseResult:
    """Ask what the whole is, from sentences that hold; each new one rests on some of them."""
    rows = [f"[{at}] {name(one.path)}: {name(one.text)}" for at, one in enumerate(known, 1)]
    render = loader.load_template(_WHOLE)
    room = ask.max_bytes - len(render({"fence": fence(""), "listing": ""}).encode()) - REPAIR
    while rows and len("\n".join(rows).encode()) > room:
        rows.pop()
    if not rows:
        return ProseResult()
    listing = "\n".join(rows)
    try:
        prompt = render({"fence": fence(listing), "listing": listing})
        misfit = partial(_misfit, schema=_WHOLE_SENTENCE)
        answer = ask_object(ask, "tell-whole", prompt, misfit)
    except (LimitError, RemoteError) as error:
        return ProseResult(uncovered=(("", f"{_lack(error)}: no prose about the whole"),))
    if answer is None:
        return ProseResult(uncovered=(("", _UNREADABLE),))
    kept, offered = [], answer["sentences"][:SENTENCES]
    for sentence in offered:
        if loader.misfit(sentence, _WHOLE_SENTENCE):
            continue
        numbers = [number for number in sentence["rests_on"] if 1 <= number <= len(rows)]
        if numbers and len(numbers) == len(sentence["rests_on"]):
            ground = known[numbers[0] - 1]
            text = marked(encodable(" ".join(sentence["text"].split())))
            kept.append(ground.replace(text=text))
    counts = Evidence(len(offered), len(kept), 0, len(offered) - len(kept))
    whole = {"digest": digest_of(known), "said": list(map(list, kept))}
    return ProseResult({"whole": whole}, counts)


def _lack(error: LimitError | RemoteError) -> str:
    return BUDGET if isinstance(error, LimitError) else REMOTE


def _misfit(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which no sentence can be used; "" for any other."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    told = [loader.misfit(one, schema) for one in sentences[:SENTENCES]]
    return told[0] if told and all(told) else ""


class _Opener:
    """Keeps those sentences of a model whose quotes are in the texts."""

    def __init__(self, texts: Sequence[LeafText]) -> None:
        self._shown = texts
        self._texts: dict[str, list[LeafText]] = {}
        for text in texts:  # slices of one file share its path
            for known in {text.path, encodable(text.path), name(text.path)}:
                self._texts.setdefault(known, []).append(text)
        self._lines: dict[LeafText, QuotedFile] = {}
        self._outcomes = {VERIFIED: 0, REANCHORED: 0, REJECTED: 0}

    def counts(self) -> Evidence:
        return Evidence(sum(self._outcomes.values()), *self._outcomes.values())

    def kept(self, sentences: Sequence[Mapping[str, Any]]) -> list[ProseSentence]:
        found = []
        for one in sentences[:SENTENCES]:
            if loader.misfit(one, _SENTENCE):
                self._outcomes[REJECTED] += 1
                continue
            said = self._open(one)
            if said is not None:
                found.append(said)
        return found

    def _open(self, claim: Mapping[str, Any]) -> ProseSentence | None:
        start, end, quote = int(claim["line_start"]), int(claim["line_end"]), claim["quote"]
        best, source = AnchoredClaim(), None
        is_one = tells(quote) and quote.count("\n") < LINES
        for text in self._texts.get(claim["path"], ()) if is_one else ():
            place = Location(text.path, start, end, quote=quote)
            found = anchor(place, text.content, text.blob, text.line_start)
            if best.location is None or found.outcome == VERIFIED:
                best, source = found, text
        said = None
        if source is not None and best.location is not None and best.location.line_start:
            begin, stop = best.location.line_start, best.location.line_end
            words = said_of(self._shown, " ".join(claim["text"].split()))
            said = self._said(source, words, begin, stop or begin)
        self._outcomes[best.outcome if said is not None else REJECTED] += 1
        return said

    def _said(self, source: LeafText, text: str, start: int, end: int) -> ProseSentence | None:
        if source not in self._lines:
            self._lines[source] = QuotedFile(source.path, source.content)
        by = source.line_start - 1
        said = self._lines[source].said(text, start - by, end - by)
        return None if said is None else said.replace(line_start=start, line_end=end)
