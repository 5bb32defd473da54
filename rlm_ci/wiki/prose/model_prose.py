"""What a model adds to the facts: sentences, each with lines that it quotes."""

from __future__ import annotations

from itertools import chain, groupby

from rlm_ci.git.objects import batches
from rlm_ci.recursion.prompt_windows import LEAST, fence, name
from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.wiki.pages.paths import folder_of
from rlm_ci.wiki.prose import shown_sources, whole_prose
from rlm_ci.wiki.prose.questions import (
    NOTHING,
    SENTENCE,
    GroundedClaim,
    ProseResult,
    QuotedClaims,
    SupportResult,
    ask_sentences,
    ask_support,
    asked_in_rounds,
)
from rlm_ci.wiki.prose.shown_sources import head, pieces, row_size, shown
from rlm_ci.wiki.update.kept_prose import BEYOND, MOST, SENTENCES, TOO_MANY
from rlm_ci.wiki.update.state import ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.prose.questions import RoundAnswer
    from rlm_ci.wiki.prose.shown_sources import FlowText, PromptShare, ShownPiece, SourcePiece
    from rlm_ci.wiki.update.state import Prose

_PROMPT = "prompts/wiki-module.md.j2"
#: Bytes of a prompt for what has been said already: at most so many, and this share of it.
_KNOWN, _SHARE = 4_000, 16
#: Bytes of sources in one prompt; with flows and what the whole rests on, which have sentences of
#: their own.
WINDOW, _WIDE = 40_000, 60_000
#: Sentences about the sources of a prompt: one a file, and one for so many bytes that are shown of
#: them, within bounds. Of more, an answer may be cut off.
_FEWEST, _LARGEST, _BYTES = SENTENCES, 24, 2_500


def tell(
    ask: Ask,
    texts: Iterable[LeafText],
    known: Mapping[str, Prose] | None = None,
    *,
    flows: Sequence[FlowText] = (),
    sentences: Sequence[ProseSentence] = (),
    background: str = "",
    concurrency: int = 1,
) -> ProseResult:
    """Ask what the sources among ``texts`` are for, and what happens in ``flows``.

    The files of a folder are asked about together. ``known`` are earlier sentences by path, which
    the model is not to repeat; ``sentences`` are the grounds of the whole, if it is to be summed up
    anew, which the last question does if it has room; ``background`` helps to understand them.
    ``concurrency`` questions are asked at once at most.
    """
    sources = sorted(texts, key=lambda text: (folder_of(text.path), text.path))
    every = {text.path: text for flow in flows for text in flow.sources.values()}
    every |= {text.path: text for text in sources}
    teller = _Teller(ask, list(every.values()), known or {}, background, sentences)
    return teller.ask_and_collect(sources, flows, concurrency)


class _Teller:
    """Asks about pieces that no model was asked about."""

    def __init__(
        self,
        ask: Ask,
        texts: Sequence[LeafText],
        known: Mapping[str, Prose],
        background: str,
        sentences: Sequence[ProseSentence],
    ) -> None:
        self._ask = ask
        self._background = background
        self._sentences = sentences
        self._render = loader.load_template(_PROMPT)
        shown = dict.fromkeys(("listing", "known", "flows"), "-")
        #: Bytes of the words around what a prompt shows, and of those about the whole.
        self._words = self._bytes(shown | {"whole": "", "background": ""})
        self._of_whole = self._bytes(shown | {"whole": "-", "background": "-"}) - self._words
        self._known = known
        self._opener = QuotedClaims(texts)
        self._data: dict[str, Any] = {key: type(empty)() for key, empty in NOTHING.items()}
        self._whole_counts = Evidence()
        self._uncovered: list[tuple[str, str]] = []
        self._left: list[PromptShare] = []
        #: The bytes for which they were cut.
        self._cut_for = 0

    def _bytes(self, shown: Mapping[str, str]) -> int:
        return len(self._render({"fence": fence(""), "most": _LARGEST, **shown}).encode())

    @property
    def _for_known(self) -> int:
        """The bytes of what has been said already."""
        return min(_KNOWN, self._ask.max_bytes // _SHARE)

    @property
    def _room(self) -> int:
        """The bytes of all that a prompt shows, as far as they are known now."""
        return self._ask.max_bytes - self._words - self._ask.repair - self._for_known

    @property
    def room(self) -> int:
        """The bytes of sources in one prompt."""
        return min(self._room, WINDOW)

    @property
    def wide(self) -> int:
        """The bytes of sources with flows, and with what the whole rests on."""
        return min(self._room, _WIDE)

    def _windows(self, texts: Iterable[LeafText]) -> list[list[ShownPiece]]:
        """All that is new in the texts, in as few prompts as it needs."""
        first: list[ShownPiece] = []
        changed: list[SourcePiece] = []
        for text in texts:
            before = self._known[text.path].shown if text.path in self._known else ()
            new = []
            for piece in pieces(text):
                if piece.digest in before:
                    self._note_shown(piece)
                elif text.content.strip():
                    new.append(piece)
            if before:
                changed += new
            else:
                first += shown(new, in_full=False)
        again = shown(changed, in_full=True)
        if sum(piece.size for piece in again) > self.room:  # so much is new that it is as at first
            again = [piece for new in _by_text(changed) for piece in shown(new, in_full=False)]
        return list(_windows((*again, *first), self.room))

    def ask_and_collect(
        self,
        texts: Sequence[LeafText],
        flows: Sequence[FlowText],
        concurrency: int,
    ) -> ProseResult:
        """Ask, and return what was said."""
        self._left = shown_sources.shares(self._windows(texts), flows, self.wide)
        self._cut_for = self._room
        answers = asked_in_rounds(self._ask, "tell", self._cut, self._question, concurrency)
        for share, answer in answers:
            self._take(share, answer)
            self._left = [other for other in self._left if other is not share]
        data = {
            **self._data,
            "quoted": self._opener.quoted,
            "rejected": self._opener.rejected,
            "done": [text.path for text in texts],
        }
        counts = self._opener.counts() + self._whole_counts
        return ProseResult(data, counts, tuple(dict.fromkeys(self._uncovered)))

    def _note_shown(self, piece: SourcePiece) -> None:
        self._data["shown"].setdefault(piece.text.path, []).append(piece.digest)

    def _cut(self) -> list[PromptShare]:
        """What is left to ask about, in prompts of the bytes that have room now."""
        if self._room != self._cut_for and self.room >= LEAST:
            self._cut_for = self._room
            shown_pieces = (
                piece for share in self._left for piece in share.pieces if piece.piece.digest
            )
            flows = (flow for share in self._left for flow in share.flows)
            self._left = shown_sources.shares(_windows(shown_pieces, self.room), flows, self.wide)
        rows = whole_prose.ground_rows(self._sentences)
        size = sum(map(row_size, (*rows, self._background)))
        size += self._of_whole
        for share in self._left:
            share.has_whole = bool(
                self._sentences and share is self._left[-1] and share.used + size <= self.wide
            )
        return self._left

    def _question(
        self, ask: Ask, step: str, share: PromptShare
    ) -> tuple[Mapping[str, Any] | None, str]:
        if self.room < LEAST:
            size = self._ask.max_bytes
            return None, f"prompt_too_small: a prompt of {size:,} bytes has no room for it"
        rows, used = [], 0
        for sentence in chain.from_iterable(self._prior(share).values()):
            row = f"- {name(sentence.path)}:{sentence.line_start}: {name(sentence.text)}"
            used += row_size(row)
            if used <= self._for_known:
                rows.append(row)
        ground_rows = whole_prose.ground_rows(self._sentences) if share.has_whole else []
        data = {
            "listing": "\n".join(_listed(share.pieces)),
            "known": "\n".join(rows),
            "flows": "\n".join(share.flow_rows()),
            "whole": "\n".join(ground_rows),
            "background": self._background if share.has_whole else "",
        }
        prompt = self._render(
            {"fence": fence(*data.values()), "most": _sentence_limit(share), **data}
        )
        return ask_sentences(ask, step, prompt, SENTENCE)

    def _take(self, share: PromptShare, outcome: RoundAnswer) -> None:
        """Keep what an answer says; of none, why there is nothing."""
        source_pieces = _described(share)
        if outcome.answer is None:
            why = outcome.why("no prose about it")
            self._uncovered += [(piece.text.path, why) for piece in source_pieces]
            self._uncovered += [(flow.path, why) for flow in share.flows]
            return
        for piece in source_pieces:
            self._note_shown(piece)
        rows = outcome.answer["sentences"]
        others = [row for row in rows if _flow_of(row) is None]
        limit = _sentence_limit(share)
        if limit:
            self._keep(others[:limit], self._prior(share))
            self._opener.reject_all(others[limit:], BEYOND)
        else:
            self._opener.reject_all(others)
        self._keep_flows([row for row in rows if _flow_of(row) is not None], share)
        if share.has_whole and isinstance(outcome.answer.get("whole"), list):
            self._data["whole"], self._whole_counts = whole_prose.unjudged(
                outcome.answer["whole"], self._sentences, self._sentences
            )

    def _prior(self, share: PromptShare) -> dict[SourcePiece, list[ProseSentence]]:
        """What was said before of the pieces that are to be described."""
        return {
            piece: [said for said in self._known[piece.text.path].said if _is_in(said, piece)]
            if piece.text.path in self._known else []
            for piece in _described(share)
        }  # fmt: skip

    def _keep(
        self,
        sentences: Sequence[Mapping[str, Any]],
        known: Mapping[SourcePiece, Sequence[ProseSentence]],
    ) -> None:
        before = {sentence.key for sentence in chain.from_iterable(known.values())}
        new = [
            sentence for sentence in self._opener.accepted(sentences) if sentence.key not in before
        ]
        for sentence in new:
            rows = self._data["prose"].setdefault(sentence.path, [])
            rows += [sentence.to_json()] if sentence.to_json() not in rows else []
        for piece, said_of_it in known.items():
            added = sum(_is_in(prose_sentence, piece) for prose_sentence in new)
            if added:
                others = said_of_it[: max(0, len(said_of_it) + added - MOST)]
                self._data["displaced"] += [sentence.to_json() for sentence in others]

    def _keep_flows(self, sentences: Sequence[Mapping[str, Any]], share: PromptShare) -> None:
        left = list(sentences)
        for number, flow in enumerate(share.flows, 1):
            every = [sentence for sentence in sentences if _flow_of(sentence) == number]
            about = every[: shown_sources.SENTENCES]
            prose_sentences = self._opener.accepted(about, flow.holds)
            self._opener.reject_all(every[shown_sources.SENTENCES :], TOO_MANY)
            rows = [sentence.to_json() for sentence in prose_sentences]
            self._data["flows"][flow.key] = [flow.digest, rows]
            left = [sentence for sentence in left if sentence not in every]
        self._opener.reject_all(left)


def _described(share: PromptShare) -> list[SourcePiece]:
    """The pieces that a prompt asks about; others it shows for its flows."""
    return [piece.piece for piece in share.pieces if piece.piece.digest]


def _sentence_limit(share: PromptShare) -> int:
    """Sentences about the sources of a prompt; 0 where it only shows what flows need."""
    size = sum(piece.size for piece in share.pieces if piece.piece.digest)
    files = len({piece.text.path for piece in _described(share)})
    return max(_FEWEST, min(_LARGEST, files + size // _BYTES)) if files else 0


def _flow_of(sentence: Any) -> object:
    return sentence.get("flow") if isinstance(sentence, dict) else None


def _is_in(sentence: ProseSentence, piece: SourcePiece) -> bool:
    return (
        sentence.path == piece.text.path
        and piece.line_start <= sentence.line_start <= piece.line_end
    )


def _by_text(source_pieces: Iterable[SourcePiece]) -> Iterator[list[SourcePiece]]:
    for _, inner in groupby(source_pieces, key=lambda piece: piece.text):
        yield list(inner)


def _windows(shown_pieces: Iterable[ShownPiece], room: int) -> Iterator[list[ShownPiece]]:
    """Pieces that fit a prompt together; one that does not fit any is cut off."""
    fitting = (piece.fitted(room) for piece in shown_pieces)
    return batches(((piece, piece.cost) for piece in fitting), room)


def _listed(window: Iterable[ShownPiece]) -> Iterator[str]:
    path = None
    for piece in window:
        if piece.piece.text.path != path:
            path = piece.piece.text.path
            yield head(path)
        yield from piece.rows


def judged(
    ask: Ask,
    doubted: Iterable[tuple[ProseSentence, Sequence[str]]],
    data: Mapping[str, Any],
    concurrency: int = 1,
) -> ProseResult:
    """Ask whether their quotes support new sentences, those of ``data``, and ``doubted`` ones.

    The result's ``data`` has ``supported`` and ``unsupported`` sentences, and ``whole`` if that
    was told with the others.
    """
    displaced = {ProseSentence.from_dict(row).key for row in data["displaced"]}
    claims = {
        sentence.key: GroundedClaim(sentence, tuple(lines))
        for sentence, lines in doubted
        if sentence.key not in displaced
    }
    flows = (rows for _, rows in data["flows"].values())
    for row in chain.from_iterable((*data["prose"].values(), *flows)):
        sentence = ProseSentence.from_dict(row)
        lines = tuple(data["quoted"].get(quote.quote, "") for quote in sentence.quotes)
        claims[sentence.key] = GroundedClaim(sentence, lines)
    summary = data.get("whole")
    about = whole_prose.claims(summary) if summary else []
    result = ask_support(ask, "support", [*claims.values(), *about], concurrency)
    summary_keys = {claim.sentence.key for claim in about}
    return ProseResult(
        {
            "supported": [row.to_json() for row in result.supported],
            "unsupported": [
                row.to_json() for row in result.unsupported if row.key not in summary_keys
            ],
            **({"whole": whole_prose.judged_by(summary, result)} if summary else {}),
        },
        uncovered=tuple(
            ("" if row.key in summary_keys else row.path, why) for row, why in result.open
        ),
    )


def merged(
    known: Mapping[str, Prose], data: Mapping[str, Any]
) -> dict[str, tuple[ProseSentence, ...]]:
    """What was said before, and by a recursion whose result has ``data``, by path and flow."""
    displaced = {ProseSentence.from_dict(row).key for row in data["displaced"]}
    by_path = {
        path: {sentence.key: sentence for sentence in prose.said if sentence.key not in displaced}
        for path, prose in known.items()
    }
    for path, rows in data["prose"].items():
        for row in rows:
            sentence = ProseSentence.from_dict(row)
            by_path.setdefault(path, {}).setdefault(sentence.key, sentence)
    supported, unsupported = (
        tuple(map(ProseSentence.from_dict, data.get(key, ())))
        for key in ("supported", "unsupported")
    )
    result = SupportResult(supported, unsupported)
    every = {path: result.stood(rows.values()) for path, rows in by_path.items()}
    for key, (_, rows) in data["flows"].items():
        new = result.stood(map(ProseSentence.from_dict, rows))
        every[key] = _of_flow(every.get(key, ()), new)
    return every


def _of_flow(
    sentences: Sequence[ProseSentence], new: Sequence[ProseSentence]
) -> tuple[ProseSentence, ...]:
    """New sentences instead of the known ones, which stay where nobody has judged the new ones."""
    old = {sentence.key: sentence for sentence in sentences}
    current = {sentence.key: old.get(sentence.key, sentence) for sentence in new}
    if current and all(sentence.is_supported for sentence in current.values()):
        return tuple(current.values())
    return tuple((old | current).values())[-SENTENCES:]
