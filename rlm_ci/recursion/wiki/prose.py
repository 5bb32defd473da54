"""What a model says on top of what the sources show: sentences, each held by lines it quotes."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from rlm_ci import resources
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.evidence import REANCHORED, REJECTED, VERIFIED, Anchored, anchor
from rlm_ci.findings import Evidence, Location
from rlm_ci.line_references import marked
from rlm_ci.recursion.journals import BUDGET, REMOTE
from rlm_ci.recursion.quoting import said_of
from rlm_ci.recursion.review.questions import REPAIR, ask_object
from rlm_ci.recursion.review.windows import LEAST, fence, name, windows
from rlm_ci.recursion.wiki.claims import batches, lines_in, quote_hash
from rlm_ci.recursion.wiki.modules import is_source
from rlm_ci.recursion.wiki.paths import folder_of
from rlm_ci.recursion.wiki.state import WHOLE, Said
from rlm_ci.texts import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.corpus import Corpus, File
    from rlm_ci.recursion.nodes import Text
    from rlm_ci.recursion.objective import Ask
    from rlm_ci.recursion.wiki.state import Prose

#: Raised whenever the prompts ask for something else.
_VERSION = 1
_MODULE = "prompts/wiki-module.md.j2"
_WHOLE = "prompts/wiki-whole.md.j2"
#: Sentences of one answer, and of all that is shown of a repository to be summed up.
_SENTENCES = 8
#: Letters and digits that a quote must have, and the most lines.
_TELLING = 8
_LINES = 40
_SUMMED = 240
#: Characters of a sentence that was kept: what takes a secret's place may make it longer.
_CHARACTERS = 1_000
_SENTENCE, _WHOLE_SENTENCE = "wiki-sentence.schema.json", "wiki-whole-sentence.schema.json"
_UNREADABLE = "no_answer: what the model said could not be read, twice"


class Told(Value):
    """Sentences by folder; what became of the pointers; paths that nobody told of, and why.

    ``unfinished`` are folders of which something, or all, is missing.
    """

    said: Mapping[str, tuple[Said, ...]] = {}
    unfinished: tuple[str, ...] = ()
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()


def digests(files: Iterable[File]) -> dict[str, str]:
    """For each folder with sources a hash of all that a model would be shown of it."""
    groups: dict[str, list[str]] = {}
    for path, oid, _ in files:
        if is_source(path):
            groups.setdefault(folder_of(path), []).append(f"{encodable(path)}\0{oid}\0")
    return {
        folder: sha256(f"{_VERSION}\0{''.join(rows)}".encode()).hexdigest()
        for folder, rows in sorted(groups.items())
    }


def tell(ask: Ask, texts: Sequence[Text]) -> Told:
    """Ask what the sources among ``texts`` are for, folder by folder."""
    groups: dict[str, list[Text]] = {}
    for text in texts:
        if is_source(text.path) and text.content.strip():
            groups.setdefault(folder_of(text.path), []).append(text)
    render = resources.load_template(_MODULE)
    room = ask.max_bytes - len(render({"fence": fence(""), "listing": ""}).encode()) - REPAIR
    said: dict[str, tuple[Said, ...]] = {}
    unfinished: list[str] = []
    uncovered: list[tuple[str, str]] = []
    opener = _Opener(texts)
    for number, (folder, inner) in enumerate(groups.items(), 1):
        if room < LEAST:
            why = f"a prompt of {ask.max_bytes:,} bytes has no room for it"
            uncovered += [(text.path, f"prompt_too_small: {why}") for text in inner]
            unfinished.append(folder)
            continue
        cut = windows(inner, room, None)
        uncovered += cut.missing
        found: list[Said] = []
        for turn, window in enumerate(cut.windows, 1):
            mark = fence(window.listing)
            prompt = render({"fence": mark, "listing": window.listing})
            try:
                answer = ask_object(ask, f"tell-{number}-{turn}", prompt, _misfit)
            except (LimitError, RemoteError) as error:
                word = BUDGET if isinstance(error, LimitError) else REMOTE
                why = f"{word}: no prose about it: {printable(str(error))}"
                uncovered += [(text.path, why) for text in inner]
                unfinished.append(folder)
                break
            if answer is None:
                uncovered += [(inner[one.text].path, _UNREADABLE) for one in window.shown]
                unfinished.append(folder)
            else:
                found += opener.kept(answer["sentences"])
        said[folder] = tuple(dict.fromkeys(found))
    missing = tuple(dict.fromkeys(uncovered))
    return Told(said, tuple(unfinished), opener.counts(), missing)


def sum_up(ask: Ask, said: Mapping[str, Sequence[Said]]) -> Told:
    """Ask what the whole is, from sentences that hold; each new one rests on some of them."""
    known = [one for folder in sorted(said) for one in said[folder][:_SENTENCES]][:_SUMMED]
    if not known:
        return Told()
    rows = [f"[{number}] {name(one.path)}: {one.text}" for number, one in enumerate(known, 1)]
    render = resources.load_template(_WHOLE)
    room = ask.max_bytes - len(render({"fence": fence(""), "listing": ""}).encode()) - REPAIR
    while rows and len("\n".join(rows).encode("utf-8", "surrogateescape")) > room:
        rows.pop()
    if not rows:
        return Told()
    listing = "\n".join(rows)
    try:
        prompt = render({"fence": fence(listing), "listing": listing})
        answer = ask_object(ask, "tell-whole", prompt, _misfit_whole)
    except (LimitError, RemoteError) as error:
        word = BUDGET if isinstance(error, LimitError) else REMOTE
        return Told(unfinished=("",), uncovered=(("", f"{word}: no prose about the whole"),))
    if answer is None:
        return Told(unfinished=("",), uncovered=(("", _UNREADABLE),))
    kept, offered = [], 0
    for sentence in answer["sentences"][:_SENTENCES]:
        offered += 1
        if resources.misfit(sentence, _WHOLE_SENTENCE):
            continue
        numbers = [number for number in sentence["rests_on"] if 1 <= number <= len(rows)]
        if numbers and len(numbers) == len(sentence["rests_on"]):
            ground = known[numbers[0] - 1]
            kept.append(ground.replace(text=marked(" ".join(sentence["text"].split()))))
    counts = Evidence(offered, len(kept), 0, offered - len(kept))
    return Told({"": tuple(kept)}, counts=counts)


def _misfit(answer: Mapping[str, Any]) -> str:
    return _wrong(answer, _SENTENCE)


def _misfit_whole(answer: Mapping[str, Any]) -> str:
    return _wrong(answer, _WHOLE_SENTENCE)


def _wrong(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which nothing can be used: a bad sentence costs itself."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    told = [resources.misfit(one, schema) for one in sentences[:_SENTENCES]]
    return told[0] if told and all(told) else ""


def _tells(quote: str) -> bool:
    """Whether a quote is long enough to stand for anything: a ``def`` is in every file."""
    return sum(char.isalnum() for char in quote) >= _TELLING


class _Opener:
    """Takes what a model says, and keeps what stands by the lines that it quotes."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self._shown = texts
        self._texts: dict[str, list[Text]] = {}
        for text in texts:  # slices of one file share its path
            for known in {text.path, encodable(text.path), name(text.path)}:
                self._texts.setdefault(known, []).append(text)
        self._outcomes = {VERIFIED: 0, REANCHORED: 0, REJECTED: 0}

    def counts(self) -> Evidence:
        return Evidence(sum(self._outcomes.values()), *self._outcomes.values())

    def kept(self, sentences: Sequence[Mapping[str, Any]]) -> list[Said]:
        found = []
        for one in sentences[:_SENTENCES]:
            if resources.misfit(one, _SENTENCE):
                self._outcomes[REJECTED] += 1
                continue
            place = self._open(one)
            if place is not None and place.line_start is not None:
                end = place.line_end or place.line_start
                text = said_of(self._shown, " ".join(one["text"].split()))
                quote = quote_hash(place.quote or "")
                found.append(Said(text, place.path, place.line_start, end, quote))
        return found

    def _open(self, claim: Mapping[str, Any]) -> Location | None:
        start, end, quote = int(claim["line_start"]), int(claim["line_end"]), claim["quote"]
        best = Anchored(None, REJECTED, "the path is not there")
        is_one = _tells(quote) and quote.count("\n") < _LINES
        for text in self._texts.get(claim["path"], ()) if is_one else ():
            place = Location(text.path, start, end, quote=quote)
            found = anchor(place, text.content, text.blob, text.line_start)
            if best.location is None or found.outcome == VERIFIED:
                best = found
        self._outcomes[best.outcome] += 1
        return best.location


def held(prose: Mapping[str, Prose], corpus: Corpus) -> dict[str, Prose]:
    """What was kept and still holds: each sentence by the very lines that it quoted.

    It comes from a file that a change may bring, and so nothing in it is believed for its own
    sake: a folder of which one sentence does not hold is as if nothing had been said of it.
    """
    files = {file.path: file for file in corpus.files}
    room: Counter[str] = Counter({WHOLE: 1})
    for path, _, size in corpus.files:
        room[folder_of(path)] += 1 + size // LEAST  # no window is smaller
    sound = {
        key: one
        for key, one in prose.items()
        if len(one.said) <= _SENTENCES * room[key]
        and all(_is_sound(said, key) and said.path in files for said in one.said)
    }
    by_path: dict[str, list[Said]] = {}
    for one in sound.values():
        for said in one.said:
            by_path.setdefault(said.path, []).append(said)
    wrong: set[Said] = set()
    for group in batches(files[path] for path in sorted(by_path)):
        for file, content in zip(group, corpus.read(group), strict=True):
            lines = lines_in(content)
            wrong.update(said for said in by_path[file.path] if not _is_quoted(said, lines))
    return {key: one for key, one in sound.items() if wrong.isdisjoint(one.said)}


def _is_sound(said: Said, key: str) -> bool:
    is_there = key == WHOLE or folder_of(said.path) == key
    is_short = said.line_end - said.line_start < _LINES and len(said.text) <= _CHARACTERS
    return is_there and is_short and is_source(said.path)


def _is_quoted(said: Said, lines: Sequence[str]) -> bool:
    quote = "\n".join(lines[said.line_start - 1 : said.line_end])
    return said.line_end <= len(lines) and _tells(quote) and quote_hash(quote) == said.quote


def added(one: Evidence, other: Evidence) -> Evidence:
    return Evidence(*(getattr(one, field) + getattr(other, field) for field in one._fields))
