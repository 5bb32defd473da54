"""What a model adds to the facts: sentences, each with lines that it quotes."""

from __future__ import annotations

from functools import partial
from itertools import chain, groupby

from rlm_ci.environments.object_question import ask_object
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.models.json_question import list_form
from rlm_ci.recursion.prompt_windows import LEAST, fence, name
from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.text.printable import printable
from rlm_ci.wiki.pages.layout import is_source
from rlm_ci.wiki.pages.paths import folder_of
from rlm_ci.wiki.prose import flow_prose, whole_prose
from rlm_ci.wiki.prose.prose_result import NO_ANSWER, NOTHING, ProseResult, misfit
from rlm_ci.wiki.prose.quoted_claims import SENTENCE, QuotedClaims
from rlm_ci.wiki.prose.support_question import GroundedClaim, ask_support, lack
from rlm_ci.wiki.update.kept_prose import MOST, TOO_MANY
from rlm_ci.wiki.update.pieces import head, pieces, shown
from rlm_ci.wiki.update.state import ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.prose.flow_prose import FlowText, PromptShare
    from rlm_ci.wiki.update.pieces import ShownPiece, SourcePiece
    from rlm_ci.wiki.update.state import Prose

_PROMPT = "prompts/wiki-module.md.j2"
#: Bytes of a prompt for what has been said already: at most so many, and this share of it.
_KNOWN, _SHARE = 4_000, 16
#: What fills no more than this share of a prompt is asked about together with what others left.
_SMALL = 0.75
#: Bytes of sources in one prompt: of more, eight sentences say too little; and with flows and what
#: the whole rests on, which have sentences of their own.
WINDOW, _WIDE = 40_000, 60_000


def tell(
    ask: Ask,
    texts: Sequence[LeafText],
    known: Mapping[str, Prose] | None = None,
    *,
    defers: bool = False,
) -> ProseResult:
    """Ask what the sources among ``texts`` are for, the files of a folder together.

    ``known`` are earlier sentences by path, which the model is not to repeat. With ``defers``, what
    fills no prompt is not asked about, but for ``tell_rest``.
    """
    teller = _Teller(ask, texts, known or {})
    sources = [text for text in texts if is_source(text.path)]
    windows = teller.windows(sorted(sources, key=lambda text: (folder_of(text.path), text.path)))
    if defers and windows and teller.is_small(windows[-1]):
        teller.leave(windows.pop())
    return teller.told(flow_prose.shares(windows, (), 0))


def tell_rest(
    ask: Ask,
    texts: Sequence[LeafText],
    known: Mapping[str, Prose],
    asked: Mapping[str, Collection[str]],
    *,
    flows: Sequence[FlowText] = (),
    sentences: Sequence[ProseSentence] = (),
    background: str = "",
    first: int = 1,
) -> ProseResult:
    """Ask about what leaves left of ``texts``, and what happens in ``flows``.

    ``asked`` are hashes of pieces that leaves asked about; ``sentences`` are the grounds of the
    whole, if it is to be summed up anew, which the last question does if it has room;
    ``background`` helps to understand them. ``first`` is the number of the first question.
    """
    sources = {text.path: text for flow in flows for text in flow.sources.values()}
    every = sources | {text.path: text for text in texts}
    teller = _Teller(ask, list(every.values()), known, asked, background)
    windows = teller.windows(sorted(texts, key=lambda text: (folder_of(text.path), text.path)))
    return teller.told(flow_prose.shares(windows, flows, teller.wide), first, sentences)


class _Teller:
    """Asks about pieces that no model was asked about."""

    def __init__(
        self,
        ask: Ask,
        texts: Sequence[LeafText],
        known: Mapping[str, Prose],
        asked: Mapping[str, Collection[str]] | None = None,
        background: str = "",
    ) -> None:
        self._ask = ask
        self._background = background
        self._render = loader.load_template(_PROMPT)
        every = dict.fromkeys(("listing", "known", "flows", "whole", "background"), "-")
        self._words = len(self._render({"fence": fence(""), "is_new": True, **every}).encode())
        self._known = known
        self._before = asked or {}
        self._opener = QuotedClaims(texts)
        self._said: dict[str, list[ProseSentence]] = {}
        self._flows: dict[str, Any] = {}
        self._whole: dict[str, Any] = {}
        self._whole_counts = Evidence()
        self._displaced: list[ProseSentence] = []
        self._shown: dict[str, list[str]] = {}
        self._asked: list[str] = []
        self._later: dict[str, int] = {}
        self._uncovered: list[tuple[str, str]] = []
        self._why = ""

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

    def windows(self, texts: Sequence[LeafText]) -> list[list[ShownPiece]]:
        """All that is new in the texts, in as few prompts as it needs."""
        self._asked += [text.path for text in texts]
        first: list[ShownPiece] = []
        changed: list[SourcePiece] = []
        for text in texts:
            before = self._known[text.path].shown if text.path in self._known else ()
            digests = self._before.get(text.path, ())
            new = []
            for piece in pieces(text):
                if piece.digest in before:
                    self._shown.setdefault(text.path, []).append(piece.digest)
                elif text.content.strip() and piece.digest not in digests:
                    new.append(piece)
            if before:
                changed += new
            else:
                first += shown(new, in_full=False)
        again = shown(changed, in_full=True)
        if (
            sum(shown_piece.size for shown_piece in again) > self.room
        ):  # so much is new that it is as at first
            again = [
                shown_piece
                for text, new in _by_text(changed)
                for shown_piece in shown(new, in_full=False)
            ]
        return list(_windows((*again, *first), self.room))

    def is_small(self, window: Sequence[ShownPiece]) -> bool:
        """Whether it leaves room in a prompt, and no other leaf has a part of its files.

        A file is in one leaf if its first slice is all of it.
        """
        texts = {piece.piece.text for piece in window}
        return (
            self.room >= LEAST
            and sum(piece.size for piece in window) <= self.room * _SMALL
            and all(text.line_start == 1 and text.whole is None for text in texts)
        )

    def leave(self, window: Sequence[ShownPiece]) -> None:
        for piece in window:
            path = piece.piece.text.path
            self._later[path] = self._later.get(path, 0) + piece.size

    def _turn(self, step: str, share: PromptShare, sentences: Sequence[ProseSentence]) -> bool:
        """Ask about a share; False where the endpoint reads no prompt of that length."""
        why, before = self._why, self._room  # who has refused, or is spent, is not asked again
        try:
            if not why and self.room < LEAST:
                size = self._ask.max_bytes
                why = f"prompt_too_small: a prompt of {size:,} bytes has no room for it"
            why = why or self._asks(step, share, sentences)
        except (LimitError, RemoteError) as error:
            is_less = self._room < before and (sentences or self._room < share.used)
            if is_too_long(error) and is_less and self.room >= LEAST:
                return False
            self._why = why = f"{lack(error)}: no prose about it: {printable(str(error))}"
        source_pieces = [piece.piece for piece in share.pieces if piece.piece.digest]
        if why:
            self._uncovered += [(piece.text.path, why) for piece in source_pieces]
            self._uncovered += [(flow.path, why) for flow in share.flows]
            return True
        for piece in source_pieces:
            self._shown.setdefault(piece.text.path, []).append(piece.digest)
        return True

    def _asks(self, step: str, share: PromptShare, sentences: Sequence[ProseSentence]) -> str:
        """Ask; why there is no answer, "" if there is one."""
        prior = {piece.piece: self._of(piece.piece) for piece in share.pieces if piece.piece.digest}
        rows, used = [], 0
        for sentence in chain.from_iterable(prior.values()):
            row = f"- {name(sentence.path)}:{sentence.line_start}: {name(sentence.text)}"
            used += len(row.encode("utf-8", "replace")) + 1
            if used <= self._for_known:
                rows.append(row)
        data = {
            "listing": "\n".join(_listed(share.pieces)),
            "known": "\n".join(rows),
            "flows": "\n".join(share.flow_rows()),
            "whole": "\n".join(whole_prose.ground_rows(sentences)),
            "background": self._background if sentences else "",
        }
        prompt = self._render({"fence": fence(*data.values()), "is_new": bool(prior), **data})
        answer, wrong = ask_object(
            self._ask, step, prompt, partial(misfit, schema=SENTENCE),
            list_form("sentences", schema=SENTENCE),
        )  # fmt: skip
        if answer is None:
            return NO_ANSWER.format(wrong)
        others = [row for row in answer["sentences"] if _flow_of(row) is None]
        if prior:
            self._keep(others, prior)
        else:
            self._opener.reject_all(others)
        self._keep_flows([row for row in answer["sentences"] if _flow_of(row) is not None], share)
        if sentences and isinstance(answer.get("whole"), list):
            self._whole, self._whole_counts = whole_prose.unjudged(
                answer["whole"], sentences, sentences
            )
        return ""

    def _keep(
        self,
        sentences: Sequence[Mapping[str, Any]],
        known: Mapping[SourcePiece, Sequence[ProseSentence]],
    ) -> None:
        before = {sentence.key for sentence in chain.from_iterable(known.values())}
        new = [sentence for sentence in self._opener.kept(sentences) if sentence.key not in before]
        for sentence in new:
            self._said.setdefault(sentence.path, []).append(sentence)
        for piece, said_of_it in known.items():
            added = sum(_is_in(prose_sentence, piece) for prose_sentence in new)
            if added:
                self._displaced += said_of_it[: max(0, len(said_of_it) + added - MOST)]

    def _keep_flows(self, sentences: Sequence[Mapping[str, Any]], share: PromptShare) -> None:
        left = list(sentences)
        for number, flow in enumerate(share.flows, 1):
            every = [sentence for sentence in sentences if _flow_of(sentence) == number]
            about = every[: flow_prose.SENTENCES]
            prose_sentences = self._opener.kept(about, flow.holds)
            self._opener.reject_all(every[flow_prose.SENTENCES :], TOO_MANY)
            self._flows[flow.key] = [
                flow.digest,
                [sentence.to_list() for sentence in prose_sentences],
            ]
            left = [sentence for sentence in left if sentence not in every]
        self._opener.reject_all(left)

    def _of(self, piece: SourcePiece) -> list[ProseSentence]:
        prose = self._known.get(piece.text.path)
        return (
            []
            if prose is None
            else [sentence for sentence in prose.said if _is_in(sentence, piece)]
        )

    def told(
        self, shares: Sequence[PromptShare], first: int = 1, sentences: Sequence[ProseSentence] = ()
    ) -> ProseResult:
        """Ask, and return what was said."""
        rows = whole_prose.ground_rows(sentences)
        size = sum(len(row.encode("utf-8", "replace")) + 1 for row in (*rows, self._background))
        left, number = list(shares), first
        while left:
            room = self._room
            has_room = len(left) == 1 and left[0].used + size <= self.wide
            if self._turn(f"tell-{number}", left[0], sentences if has_room else ()):
                del left[0]
                number += 1
            if self._room != room and self._room >= LEAST:
                left = self._shared(left)
        data = {
            **NOTHING,
            "prose": {
                path: [sentence.to_list() for sentence in dict.fromkeys(prose_sentences)]
                for path, prose_sentences in self._said.items()
            },
            "quoted": self._opener.quoted,
            "displaced": [sentence.to_list() for sentence in self._displaced],
            "rejected": self._opener.rejected,
            "done": list(dict.fromkeys(self._asked)),
            "shown": self._shown,
            "later": self._later,
            "flows": self._flows,
            **({"whole": self._whole} if self._whole else {}),
        }
        counts = self._opener.counts() + self._whole_counts
        uncovered = tuple(dict.fromkeys(self._uncovered))
        return ProseResult(data, counts, uncovered, number - first)

    def _shared(self, left: Sequence[PromptShare]) -> list[PromptShare]:
        """What is left to ask about, in prompts of the bytes that have room now."""
        shown_pieces = (piece for share in left for piece in share.pieces if piece.piece.digest)
        flows = (flow for share in left for flow in share.flows)
        return flow_prose.shares(_windows(shown_pieces, self.room), flows, self.wide)


def _flow_of(sentence: Any) -> object:
    return sentence.get("flow") if isinstance(sentence, dict) else None


def _is_in(sentence: ProseSentence, piece: SourcePiece) -> bool:
    return (
        sentence.path == piece.text.path
        and piece.line_start <= sentence.line_start <= piece.line_end
    )


def _by_text(source_pieces: Iterable[SourcePiece]) -> Iterator[tuple[LeafText, list[SourcePiece]]]:
    for text, inner in groupby(source_pieces, key=lambda piece: piece.text):
        yield text, list(inner)


def _windows(shown_pieces: Iterable[ShownPiece], room: int) -> Iterator[list[ShownPiece]]:
    """Pieces that fit a prompt together; one that does not fit any is cut off."""
    some: list[ShownPiece] = []
    used = 0
    for piece in shown_pieces:
        head_size = len(head(piece.piece.text.path).encode("utf-8", "replace")) + 1
        shown_piece = piece if piece.size + head_size <= room else piece.cut(room - head_size)
        if some and used + head_size + shown_piece.size > room:
            yield some
            some, used = [], 0
        some.append(shown_piece)
        used += head_size + shown_piece.size
    if some:
        yield some


def _listed(window: Iterable[ShownPiece]) -> Iterator[str]:
    path = None
    for piece in window:
        if piece.piece.text.path != path:
            path = piece.piece.text.path
            yield head(path)
        yield from piece.rows


def judged(
    ask: Ask, doubted: Iterable[tuple[ProseSentence, Sequence[str]]], data: Mapping[str, Any]
) -> ProseResult:
    """Ask whether their quotes support new sentences, those of ``data``, and ``doubted`` ones.

    The result's ``data`` has ``supported`` and ``unsupported`` sentences, and ``whole`` if that
    was told with the others.
    """
    displaced = {ProseSentence.from_list(row).key for row in data["displaced"]}
    claims = {
        sentence.key: GroundedClaim(sentence, tuple(lines))
        for sentence, lines in doubted
        if sentence.key not in displaced
    }
    flows = (rows for _, rows in data["flows"].values())
    for row in chain.from_iterable((*data["prose"].values(), *flows)):
        sentence = ProseSentence.from_list(row)
        lines = tuple(data["quoted"].get(quote.quote, "") for quote in sentence.quotes)
        claims[sentence.key] = GroundedClaim(sentence, lines)
    summary = data.get("whole")
    about = whole_prose.claims(summary) if summary else []
    result = ask_support(ask, "support", [*claims.values(), *about])
    summary_keys = {claim.said.key for claim in about}
    return ProseResult(
        {
            "supported": [prose_sentence.to_list() for prose_sentence in result.supported],
            "unsupported": [
                prose_sentence.to_list()
                for prose_sentence in result.unsupported
                if prose_sentence.key not in summary_keys
            ],
            **({"whole": whole_prose.judged_by(summary, result)} if summary else {}),
        },
        uncovered=tuple(
            ("" if prose_sentence.key in summary_keys else prose_sentence.path, why)
            for prose_sentence, why in result.open
        ),
    )


def merged(
    known: Mapping[str, Sequence[ProseSentence]], data: Mapping[str, Any]
) -> dict[str, tuple[ProseSentence, ...]]:
    """What was said of files before, and by a recursion whose result has ``data``."""
    displaced = {ProseSentence.from_list(row).key for row in data.get("displaced", ())}
    by_path = {
        path: {sentence.key: sentence for sentence in rows if sentence.key not in displaced}
        for path, rows in known.items()
    }
    for path, rows in data["prose"].items():
        for row in rows:
            sentence = ProseSentence.from_list(row)
            by_path.setdefault(path, {}).setdefault(sentence.key, sentence)
    return {path: stood(rows.values(), data) for path, rows in by_path.items()}


def stood(sentences: Iterable[ProseSentence], data: Mapping[str, Any]) -> tuple[ProseSentence, ...]:
    """The sentences without those that what they quote does not support."""
    supported, lies = (
        {ProseSentence.from_list(row).key for row in data.get(key, ())}
        for key in ("supported", "unsupported")
    )
    return tuple(
        sentence.replace(is_supported=sentence.is_supported or sentence.key in supported)
        for sentence in sentences
        if sentence.key not in lies
    )
