"""Ask a model once what a change does, and keep the sentences whose quotes stand in the change."""

from __future__ import annotations

from rlm_ci.change.evidence import REJECTED, anchor
from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import list_form, read_answer, repeats
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.report.findings import Location
from rlm_ci.report.overview.changes import ModelWords, Overview, SaidLines, SaidSentence
from rlm_ci.resources import loader
from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.review.change.carry_over import CarriedWords
    from rlm_ci.review.change_prompts.digest import ChangeDigest

#: The name of the words in the data of a result.
WORDS = "words"
_TEMPLATE = "prompts/review-describe.md.j2"
#: The text in the example of the prompt, which small models copy.
_EXAMPLES = ("one sentence in plain English, names of code in `backticks`", "one sentence")
_SCHEMA, _SENTENCE = "review-description.schema.json", "review-description-sentence.schema.json"
#: Sentences on the whole, and on groups of files; files of a group; lines of a quote.
_ABOUT, _GROUPS, _FILES, _LINES = 2, 6, 8, 12
#: Characters of a sentence, of a note, and letters that a quote must have.
_TEXT, _NOTE, _TELLING = 400, 200, 3


def describe(
    ask: Ask | None,
    digest: ChangeDigest,
    carried: CarriedWords | None = None,
    *,
    may_ask: bool = True,
) -> ModelWords:
    """What the model says of a change, in one call; a note where it says nothing. Never raises.

    It is not asked again for what is ``carried``, whose quotes are looked up like those of an
    answer.
    """
    if ask is None:
        return ModelWords("", note="the model was not asked what the change does")
    opener = QuoteOpener(digest)
    words = ModelWords(ask.model)
    earlier = ""
    if carried is not None:
        words = opener.again(words, carried.words)
        if not carried.files:
            return words
        earlier = "\n".join(sentence.text for sentence in (*words.about, *words.groups))
    if not may_ask:
        return words.replace(note="the model was not asked about what the last push has changed")
    data = {"listing": digest.text, "fence": fence(f"{earlier}\n{digest.text}"), "known": earlier}
    is_whole = carried is None or carried.is_whole
    prompt = loader.load_template(_TEMPLATE)({**data, "is_whole": is_whole})
    if len(prompt.encode("utf-8", "replace")) > ask.max_bytes:
        return words.replace(note=f"a prompt of {ask.max_bytes:,} bytes has no room for the change")
    try:
        completion = ask(
            "describe-1", [{"role": "user", "content": prompt}],
            response_format=list_form("about", "groups", schema=_SENTENCE),
        )  # fmt: skip
    except LimitError as error:
        return words.replace(note=f"the model was not asked: no room in {error.budget}")
    except RemoteError as error:
        return words.replace(note=printable(f"the model gave no answer: {error}")[:_NOTE])
    answer, _ = read_answer(completion, lambda record: loader.every_misfit(record, _SCHEMA))
    if answer is None:
        return words.replace(note="the model's answer could not be read")
    return opener.words(words, answer if is_whole else {**answer, "about": []})


def overview_of(data: Mapping[str, Any], model: str | None) -> Overview | None:
    """The words of ``model`` in the root's data as an overview without anything else."""
    if WORDS not in data:
        return None
    words = ModelWords.from_dict(data[WORDS])
    return Overview(said=words.replace(model=model or words.model))


class QuoteOpener:
    """Opens the quotes of sentences on both sides of a change."""

    def __init__(self, digest: ChangeDigest) -> None:
        self._shown = (*digest.new, *digest.old)
        self._sides = {"new": _by_name(digest.new), "old": _by_name(digest.old)}

    def words(self, words: ModelWords, answer: Mapping[str, Any]) -> ModelWords:
        offered = answer["about"][:_ABOUT], answer.get("groups", [])[:_GROUPS]
        about = [sentence for claim in offered[0] if (sentence := self._sentence(claim))]
        groups = [sentence for claim in offered[1] if (sentence := self._group(claim))]
        # What is carried of the same files is not said twice.
        carried = {path for group in words.groups for path in group.files}
        fresh = [group for group in groups if not carried.issuperset(group.files)]
        dropped = words.dropped + sum(map(len, offered)) - len(about) - len(groups)
        about, groups = [*words.about, *about][:_ABOUT], [*words.groups, *fresh][:_GROUPS]
        return words.replace(about=tuple(about), groups=tuple(groups), dropped=dropped)

    def again(self, words: ModelWords, carried: ModelWords) -> ModelWords:
        """The sentences of an earlier review that stand in this change, too."""
        about = [self._again(sentence, self._sentence) for sentence in carried.about]
        groups = [self._again(group, self._group) for group in carried.groups]
        lost = (*about, *groups).count(None)
        stand = tuple(filter(None, about)), tuple(filter(None, groups))
        return words.replace(about=stand[0], groups=stand[1], dropped=lost)

    @staticmethod
    def _again(
        sentence: SaidSentence, read_sentence: Callable[[Mapping[str, Any]], SaidSentence | None]
    ) -> SaidSentence | None:
        quotes = [at.to_dict() for at in sentence.lines]
        again = read_sentence({"text": sentence.text, "files": [*sentence.files], "quotes": quotes})
        return again and again.replace(since=sentence.since)

    def _group(self, claim: Mapping[str, Any]) -> SaidSentence | None:
        """A sentence on changed files, one of which it quotes."""
        sentence = self._sentence(claim)
        if sentence is None:
            return None
        paths = [self._path(file) for file in claim.get("files", ())]
        files = tuple(dict.fromkeys(filter(None, paths)))[:_FILES]
        return (
            sentence.replace(files=files)
            if {line.path for line in sentence.lines} & {*files}
            else None
        )

    def _path(self, name: str) -> str:
        """The path of a changed file that a model names; "" for no such file."""
        texts = self._sides["new"].get(name) or self._sides["old"].get(name)
        return texts[0].path if texts else ""

    def _sentence(self, claim: Mapping[str, Any]) -> SaidSentence | None:
        """A sentence, if each of its quotes stands."""
        if loader.misfit(claim, _SENTENCE) or repeats(claim["text"], _EXAMPLES):
            return None
        places = [self.quoted_lines(quote) for quote in claim["quotes"]]
        lines = tuple(dict.fromkeys(spot for spot in places if spot is not None))
        if len([spot for spot in places if spot is not None]) < len(places):
            return None
        text = encodable(said_of(self._shown, " ".join(claim["text"].split())))
        return SaidSentence(clip(text, _TEXT), lines)

    def quoted_lines(self, claim: Mapping[str, Any]) -> SaidLines | None:
        """The lines of a quote: at the head, or, where they were removed, at the base."""
        quote = claim["quote"]
        if sum(map(str.isalnum, quote)) < _TELLING or quote.count("\n") >= _LINES:
            return None
        sides = ("old", "new") if claim.get("side") == "old" else ("new", "old")
        location = Location("", int(claim["line_start"]), int(claim["line_end"]), quote=quote)
        for side in sides:
            for text in self._sides[side].get(claim["path"], ()):
                anchored_claim = anchor(location, text.content, None, text.line_start)
                at = anchored_claim.location
                if anchored_claim.outcome != REJECTED and at is not None and at.line_start:
                    last = at.line_end or at.line_start
                    return SaidLines(text.path, at.line_start, last, side, at.quote or "")
        return None


def _by_name(texts: Iterable[LeafText]) -> Mapping[str, Sequence[LeafText]]:
    by_name: dict[str, list[LeafText]] = {}
    for text in texts:  # removed parts of one file share its path
        for spelling in {text.path, encodable(text.path), name(text.path)}:
            by_name.setdefault(spelling, []).append(text)
    return by_name
