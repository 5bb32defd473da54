"""What a model adds to the facts: sentences, each with lines that it quotes."""

from __future__ import annotations

from functools import partial
from itertools import chain, groupby

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import REPAIR, ask_object
from rlm_ci.recursion.prompt_windows import LEAST, fence, name
from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.text.line_references import marked
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value
from rlm_ci.wiki.pages.layout import is_source
from rlm_ci.wiki.pages.paths import folder_of
from rlm_ci.wiki.prose.quoted_claims import SENTENCE, QuotedClaims
from rlm_ci.wiki.prose.support_question import GroundedClaim, ask_support, lack
from rlm_ci.wiki.update.kept_prose import MOST, NAMED, QUOTES, SENTENCES
from rlm_ci.wiki.update.pieces import head, mark, pieces, shown
from rlm_ci.wiki.update.state import ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.update.pieces import ShownPiece, SourcePiece
    from rlm_ci.wiki.update.state import Prose

_MODULE = "prompts/wiki-module.md.j2"
_WHOLE = "prompts/wiki-whole.md.j2"
#: Sentences that are shown of a repository to be summed up.
_SUMMED = 240
#: The whole is asked about again where more than this part of its grounds are others: a quarter.
_DRIFT = 4
#: Bytes of a prompt for what has been said already: at most so many, and this share of it.
_KNOWN, _SHARE = 4_000, 16
#: Bytes of sources in one prompt: of more, eight sentences say too little.
_WINDOW = 40_000
_WHOLE_SENTENCE = "wiki-whole-sentence.schema.json"
_UNREADABLE = "no_answer: what the model said could not be read, twice"


#: What ``ProseResult.data`` has of files if no model is asked.
NOTHING: Mapping[str, Any] = {
    "prose": {}, "quoted": {}, "displaced": [], "done": [], "shown": {},
}  # fmt: skip


class ProseResult(Value):
    """What a model said of the files of a leaf, or of the whole, and what became of its pointers.

    ``data`` is JSON: new sentences by path (``prose``), the lines of their quotes by hash
    (``quoted``), earlier ones that they replace (``displaced``), files that were asked about
    (``done``), and hashes of their ``shown`` pieces; or sentences that were ``supported`` or not;
    or ``whole``, if that was asked. ``uncovered`` are paths of which something was left out, and
    why.
    """

    data: Mapping[str, Any] = {}
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()


def tell(
    ask: Ask, texts: Sequence[LeafText], known: Mapping[str, Prose] | None = None
) -> ProseResult:
    """Ask what the sources among ``texts`` are for, the files of a folder together.

    ``known`` are earlier sentences by path, which the model is not to repeat.
    """
    teller = _Teller(ask, texts, known or {})
    sources = [text for text in texts if is_source(text.path)]
    teller.tell(sorted(sources, key=lambda text: (folder_of(text.path), text.path)))
    return teller.told()


class _Teller:
    """Asks about the pieces of one leaf that no model was asked about."""

    def __init__(self, ask: Ask, texts: Sequence[LeafText], known: Mapping[str, Prose]) -> None:
        self._ask = ask
        self._render = loader.load_template(_MODULE)
        words = self._render({"fence": fence(""), "listing": "", "known": ["-"]})
        self._for_known = min(_KNOWN, ask.max_bytes // _SHARE)
        room = ask.max_bytes - len(words.encode()) - REPAIR - self._for_known
        self._room = min(room, _WINDOW)
        self._known = known
        self._opener = QuotedClaims(texts)
        self._said: dict[str, list[ProseSentence]] = {}
        self._displaced: list[ProseSentence] = []
        self._shown: dict[str, list[str]] = {}
        self._asked: list[str] = []
        self._uncovered: list[tuple[str, str]] = []
        self._why = ""

    def tell(self, texts: Sequence[LeafText]) -> None:
        """Ask about all that is new in the texts, by as few prompts as it needs."""
        self._asked += [text.path for text in texts]
        first: list[ShownPiece] = []
        changed: list[SourcePiece] = []
        for text in texts:
            before = self._known[text.path].shown if text.path in self._known else ()
            new = []
            for piece in pieces(text):
                if piece.digest in before:
                    self._shown.setdefault(text.path, []).append(piece.digest)
                elif text.content.strip():
                    new.append(piece)
            if before:
                changed += new
            else:
                first += shown(new, in_full=False)
        again = shown(changed, in_full=True)
        if sum(one.size for one in again) > self._room:  # so much is new that it is as at first
            again = [one for text, new in _by_text(changed) for one in shown(new, in_full=False)]
        for number, window in enumerate(_windows((*again, *first), self._room), 1):
            self._turn(f"tell-{number}", window)

    def _turn(self, place: str, window: Sequence[ShownPiece]) -> None:
        why = self._why  # who has refused, or is spent, is not asked again
        try:
            if not why and self._room < LEAST:
                size = self._ask.max_bytes
                why = f"prompt_too_small: a prompt of {size:,} bytes has no room for it"
            if not why and not self._asks(place, window):
                why = _UNREADABLE
        except (LimitError, RemoteError) as error:
            self._why = why = f"{lack(error)}: no prose about it: {printable(str(error))}"
        for one in window:
            path = one.piece.text.path
            if why:
                self._uncovered.append((path, why))
            else:
                self._shown.setdefault(path, []).append(one.piece.digest)

    def _asks(self, place: str, window: Sequence[ShownPiece]) -> bool:
        known = {one.piece: self._of(one.piece) for one in window}
        rows, used = [], 0
        for said in chain.from_iterable(known.values()):
            row = f"- {name(said.path)}:{said.line_start}: {name(said.text)}"
            used += len(row.encode("utf-8", "replace")) + 1
            if used <= self._for_known:
                rows.append(row)
        listing = "\n".join(_listed(window))
        line = fence(listing, *rows)
        prompt = self._render({"fence": line, "listing": listing, "known": rows})
        answer = ask_object(self._ask, place, prompt, partial(_misfit, schema=SENTENCE))
        if answer is None:
            return False
        before = {said.key for said in chain.from_iterable(known.values())}
        new = [one for one in self._opener.kept(answer["sentences"]) if one.key not in before]
        for said in new:
            self._said.setdefault(said.path, []).append(said)
        for piece, said_of_it in known.items():
            added = sum(_is_in(said, piece) for said in new)
            if added:
                self._displaced += said_of_it[: max(0, len(said_of_it) + added - MOST)]
        return True

    def _of(self, piece: SourcePiece) -> list[ProseSentence]:
        known = self._known.get(piece.text.path)
        return [] if known is None else [one for one in known.said if _is_in(one, piece)]

    def told(self) -> ProseResult:
        data = {
            "prose": {
                path: [one.to_list() for one in dict.fromkeys(said)]
                for path, said in self._said.items()
            },
            "quoted": self._opener.quoted,
            "displaced": [one.to_list() for one in self._displaced],
            "done": list(dict.fromkeys(self._asked)),
            "shown": self._shown,
        }
        return ProseResult(data, self._opener.counts(), tuple(dict.fromkeys(self._uncovered)))


def _is_in(said: ProseSentence, piece: SourcePiece) -> bool:
    return said.path == piece.text.path and piece.line_start <= said.line_start <= piece.line_end


def _by_text(found: Iterable[SourcePiece]) -> Iterator[tuple[LeafText, list[SourcePiece]]]:
    for text, inner in groupby(found, key=lambda one: one.text):
        yield text, list(inner)


def _windows(found: Iterable[ShownPiece], room: int) -> Iterator[list[ShownPiece]]:
    """Pieces that fit a prompt together; one that does not fit any is cut off."""
    some: list[ShownPiece] = []
    used = 0
    for one in found:
        head_size = len(head(one.piece.text.path).encode("utf-8", "replace")) + 1
        whole = one if one.size + head_size <= room else one.cut(room - head_size)
        if some and used + head_size + whole.size > room:
            yield some
            some, used = [], 0
        some.append(whole)
        used += head_size + whole.size
    if some:
        yield some


def _listed(window: Iterable[ShownPiece]) -> Iterator[str]:
    path = None
    for one in window:
        if one.piece.text.path != path:
            path = one.piece.text.path
            yield head(path)
        yield from one.rows


def judged(
    ask: Ask, doubted: Iterable[tuple[ProseSentence, Sequence[str]]], data: Mapping[str, Any]
) -> ProseResult:
    """Ask whether their quotes support new sentences, those of ``data``, and ``doubted`` ones.

    The result's ``data`` has ``supported`` and ``unsupported`` sentences.
    """
    displaced = {ProseSentence.from_list(row).key for row in data["displaced"]}
    claims = {
        said.key: GroundedClaim(said, tuple(lines))
        for said, lines in doubted
        if said.key not in displaced
    }
    for row in chain.from_iterable(data["prose"].values()):
        said = ProseSentence.from_list(row)
        lines = tuple(data["quoted"].get(one.quote, "") for one in said.quotes)
        claims[said.key] = GroundedClaim(said, lines)
    found = ask_support(ask, "support", list(claims.values()))
    return ProseResult(
        {
            "supported": [one.to_list() for one in found.supported],
            "unsupported": [one.to_list() for one in found.unsupported],
        },
        uncovered=tuple((one.path, why) for one, why in found.open),
    )


def merged(
    known: Mapping[str, Sequence[ProseSentence]], data: Mapping[str, Any]
) -> dict[str, tuple[ProseSentence, ...]]:
    """What was said of files before, and by a recursion whose result has ``data``."""
    keys = {
        name: {ProseSentence.from_list(row).key for row in data.get(name, ())}
        for name in ("displaced", "unsupported", "supported")
    }
    found = {
        path: {said.key: said for said in rows if said.key not in keys["displaced"]}
        for path, rows in known.items()
    }
    for path, rows in data["prose"].items():
        for row in rows:
            said = ProseSentence.from_list(row)
            found.setdefault(path, {}).setdefault(said.key, said)
    return {
        path: tuple(
            said.replace(is_supported=said.is_supported or key in keys["supported"])
            for key, said in rows.items()
            if key not in keys["unsupported"]
        )
        for path, rows in found.items()
    }


def grounds(said: Mapping[str, Sequence[ProseSentence]]) -> list[ProseSentence]:
    """The sentences that what is said of the whole rests on."""
    folders: dict[str, list[ProseSentence]] = {}
    for path in sorted(said):
        folders.setdefault(folder_of(path), []).extend(said[path])
    return [one for rows in folders.values() for one in rows[:SENTENCES]][:_SUMMED]


def marks(known: Iterable[ProseSentence]) -> list[str]:
    """Hashes of the sentences, without their places."""
    return [mark(f"{encodable(one.path)}\0{encodable(one.text)}") for one in known]


def is_due(known: Sequence[ProseSentence], before: Collection[str]) -> bool:
    """Whether the whole is to be asked about: its grounds are others than ``before``, by marks.

    Some new sentences do not change what the whole is: they are waited for.
    """
    return len(set(marks(known)) ^ set(before)) * _DRIFT > len(before)


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
        return ProseResult(uncovered=(("", f"{lack(error)}: no prose about the whole"),))
    if answer is None:
        return ProseResult(uncovered=(("", _UNREADABLE),))
    kept: list[GroundedClaim] = []
    offered = answer["sentences"][:SENTENCES]
    for sentence in offered:
        if loader.misfit(sentence, _WHOLE_SENTENCE):
            continue
        numbers = [number for number in sentence["rests_on"] if 1 <= number <= len(rows)]
        if numbers and len(numbers) == len(sentence["rests_on"]):
            kept.append(_grounded(sentence["text"], [known[number - 1] for number in numbers]))
    counts = Evidence(len(offered), len(kept), 0, len(offered) - len(kept))
    found = ask_support(ask, "support-whole", kept)
    lies = {one.key for one in found.unsupported}
    said = [one.said for one in kept if one.said.key not in lies]
    data = {
        "shown": marks(known),
        "said": [one.replace(is_supported=one in found.supported).to_list() for one in said],
        "unsupported": [one.to_list() for one in found.unsupported],
    }
    why = found.open[0][1] if found.open else ""
    return ProseResult({"whole": data}, counts, (("", why),) if why else ())


def _grounded(text: str, rests_on: Sequence[ProseSentence]) -> GroundedClaim:
    """A sentence about the whole: it rests on sentences, and on all that they rest on."""
    quotes = dict.fromkeys(chain.from_iterable(one.quotes for one in rests_on))
    named = dict.fromkeys(chain.from_iterable(one.named for one in rests_on))
    words = marked(encodable(" ".join(text.split())))
    said = ProseSentence(words, tuple(quotes)[:QUOTES], tuple(named)[:NAMED])
    return GroundedClaim(said, tuple(one.text for one in rests_on))


def _misfit(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which no sentence can be used; "" for any other."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    told = [loader.misfit(one, schema) for one in sentences[:SENTENCES]]
    return told[0] if told and all(told) else ""
