"""The sentences of a model that are kept: each one as long as its quote is in the sources.

A change may bring the ``wiki.json`` that they come from, so every quote is looked up again.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.change.evidence import lines_in
from rlm_ci.environments.quoting import said_of
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.recursion.prompt_windows import LEAST, name
from rlm_ci.source.outline import outline
from rlm_ci.text.line_references import marked
from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Value
from rlm_ci.wiki.facts.commands import is_document
from rlm_ci.wiki.pages.citations import contents, quote_hash
from rlm_ci.wiki.pages.layout import is_source
from rlm_ci.wiki.prose.shown_sources import mark
from rlm_ci.wiki.update.state import FLOW, WHOLE, NamedDefinition, Prose, QuotedLines, is_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile
    from rlm_ci.source import Symbol
    from rlm_ci.wiki.prose.shown_sources import FlowText
    from rlm_ci.wiki.update.state import ProseSentence, WikiState

    Why = tuple[str, str]
    _Ground = QuotedLines | NamedDefinition
    #: A sentence with its key, and why it cannot be one of ours; None where it can.
    _Row = tuple[str, ProseSentence, Why | None]

#: Sentences of one answer about the whole, or that are kept of a flow.
SENTENCES = 8
#: Sentences about one piece: where new ones make it more, the oldest give way.
MOST = 2 * SENTENCES
#: Letters and digits that a quote must have, and the most lines; quotes of a sentence.
_TELLING = 8
LINES = 40
#: Kinds of definitions that a sentence may name, or quoted lines call.
_ACTS = ("function", "method")
QUOTES = 12
#: Functions that a sentence names.
NAMED = 12
#: Characters of a sentence that was kept: what takes a secret's place may make it longer.
_CHARACTERS = 1_000
#: Files that are searched for what was said of one that is gone.
_ALIKE = 32
#: Characters by which a sentence that goes is named, and of a path that it may have made up.
_SHORT, _PATH = 80, 300

#: Why a sentence goes: of one, and of several.
LINES_GONE = "its lines are gone", "their lines are gone"
FILE_GONE = "its file is gone", "their files are gone"
LEFT_OUT = "its file is left out", "their files are left out"
ELSEWHERE = (
    "its file is outside of the folder looked at",
    "their files are outside of the folder looked at",
)
CHANGED = "a function that it names has changed", "functions that they name have changed"
FLOW_GONE = "its flow of calls is on no page", "their flows of calls are on no page"
LONG = f"it has more than {_CHARACTERS:,} characters", f"they have more than {_CHARACTERS:,}"
MANY_QUOTES = "it quotes or names too much", "they quote or name too much"
NO_SOURCE = "it quotes what is no source", "they quote what is no source"
CROWDED = "there are too many about its file", "there are too many about their files"
#: The same of what an answer says, which never was on a page.
UNSUPPORTED = "its lines do not support it", "their lines do not support them"
UNFOUNDED = "what it rests on does not support it", "what they rest on does not support them"
STEPS_GONE = "its lines are in no step of the flow", "their lines are in no step of the flow"
NOT_THERE = "a quote of it is not in its file", "quotes of them are not in their files"
NOT_SHOWN = "it quotes a file that was not shown", "they quote files that were not shown"
SHORT_QUOTE = "a quote of it is too short to be looked up", "quotes of them are too short"
LONG_QUOTE = f"it quotes more than {LINES} lines at once", f"they quote more than {LINES} lines"
COPIED = "it repeats the example of the question", "they repeat the example of the question"
NO_GROUND = "it rests on no sentence", "they rest on no sentence"
WRONG_GROUND = "it rests on a number that was not shown", "they rest on numbers that were not shown"
TOO_MANY = "its flow of calls has three already", "their flows of calls have three already"
BEYOND = "the answer has more sentences than were asked for", "answers have more than asked for"
NOT_ASKED = "it is about nothing that was asked", "they are about nothing that was asked"
MALFORMED = "it is malformed", "they are malformed"

_AT_ONCE = (UNSUPPORTED, UNFOUNDED, STEPS_GONE, NOT_THERE, NOT_SHOWN, SHORT_QUOTE, LONG_QUOTE,
            COPIED, NO_GROUND, WRONG_GROUND, TOO_MANY, BEYOND, NOT_ASKED, MALFORMED)  # fmt: skip


class KeptProse(Value):
    """The kept sentences by path and WHOLE, how many moved, and the dropped ones with why."""

    prose: Mapping[str, Prose] = {}
    moved: int = 0
    dropped: tuple[tuple[ProseSentence, Why], ...] = ()


class Sentences(Value):
    """What became of a model's sentences in one refresh.

    ``moved`` are among the ``retained`` ones. Of ``doubted`` ones nobody asked whether their quotes
    support them.
    """

    retained: int = 0
    moved: int = 0
    new: int = 0
    replaced: int = 0
    dropped: tuple[tuple[ProseSentence, Why], ...] = ()
    doubted: int = 0

    @classmethod
    def of(
        cls,
        before: KeptProse,
        prose: Mapping[str, Prose],
        refused: Sequence[tuple[ProseSentence, Why]] = (),
    ) -> Sentences:
        """What ``prose``, the sentences of now, has of those that were kept.

        ``refused`` are new or doubted ones that do not stand.
        """
        old, now = (
            {(key, sentence.key) for key, entry in of.items() for sentence in entry.said}
            for of in (before.prose, prose)
        )
        common = len(old & now)
        lies = {sentence.key for sentence, _ in refused}
        replaced = sum(key not in lies for _, key in old - now)
        dropped = (*before.dropped, *refused)
        moved, new = min(before.moved, common), len(now - old)
        return cls(common, moved, new, replaced, dropped, doubted_in(prose))

    def summary(self) -> str:
        """In words; "" where there never was a sentence."""
        moved = f" ({self.moved} at other lines)" if self.moved else ""
        words = [f"{count(self.retained, 'sentence')} kept{moved}"]
        words += [f"{self.new} new"] if self.new else []
        if not (
            self.retained or self.replaced or any(why not in _AT_ONCE for _, why in self.dropped)
        ):
            # There were none before.
            words = [count(self.new, "new sentence")] if self.new else []
        words += [f"{self.replaced} replaced by newer ones"] if self.replaced else []
        words += [f"{self.doubted} not judged yet"] if self.doubted else []
        whys = Counter(why for _, why in self.dropped)
        words += [f"{n} dropped: {why[n > 1]}" for why, n in sorted(whys.items())]
        return ", ".join(words)

    def rows(self) -> list[str]:
        """What goes, with where its first quote was or should have been."""
        rows = []
        for sentence, why in self.dropped:
            location = (
                f"{name(clip(sentence.path, _PATH))}#L{sentence.line_start}-L{sentence.line_end}"
            )
            where = location if sentence.path else "of the whole"
            rows.append(f"dropped: {where}, {why[0]}: {clip(name(sentence.text), _SHORT)}")
        return rows


def doubted_in(prose: Mapping[str, Prose]) -> int:
    """How many sentences nobody has judged by what they quote."""
    return sum(not sentence.is_supported for entry in prose.values() for sentence in entry.said)


def tells(quote: str) -> bool:
    """Whether a quote is long enough to identify its lines: a ``def`` is in every file."""
    return sum(char.isalnum() for char in quote) >= _TELLING


def folded(lines: Iterable[str]) -> str:
    """The text of a quote whatever its indentation."""
    return "\n".join(line.strip() for line in lines)


def _hashes(lines: Sequence[str]) -> tuple[str, ...]:
    """By which lines may be known: as they are written, too, as before quotes were folded."""
    return quote_hash(folded(lines)), quote_hash("\n".join(lines))


class QuotedFile:
    """A file's lines, in which quotes are looked for."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self._content = content
        self._lines = lines_in(content)
        self._text = ""
        #: The first lines of all runs of a length, by their hashes.
        self._runs: dict[int, dict[str, list[int]]] = {}
        self._outlined: Sequence[Symbol] | None = None
        self._bare: list[tuple[int, str]] | None = None
        self._known: set[tuple[object, ...]] | None = None

    def moved(self, quoted: QuotedLines) -> QuotedLines | None:
        """These lines at their place that is nearest to the old one; None for none."""
        length = quoted.line_end - quoted.line_start + 1
        first = quoted.line_start - 1
        lines = self._lines[first : first + length]
        if quoted.quote in _hashes(lines) and self._is_within(quoted, quoted.line_start):
            starts = [quoted.line_start]
        else:
            candidates = self._runs_of(length).get(quoted.quote, ())
            starts = [start for start in candidates if self._is_within(quoted, start)]
        if not starts:
            return None
        start = min(starts, key=lambda start: (abs(start - quoted.line_start), start))
        return self.quoted(start, start + length - 1)

    def _runs_of(self, length: int) -> Mapping[str, Sequence[int]]:
        if length not in self._runs:
            starts: dict[str, list[int]] = {}
            for start in range(1, len(self._lines) - length + 2):
                for digest in _hashes(self._lines[start - 1 : start - 1 + length]):
                    starts.setdefault(digest, []).append(start)
            self._runs[length] = starts
        return self._runs[length]

    def quoted(self, start: int, end: int) -> QuotedLines | None:
        """These lines as a quote; None where they say too little to hold a sentence."""
        quote = folded(self._lines[start - 1 : end])
        if not tells(quote):
            return None
        if not self._text:
            self._text = f"\n{folded(self._lines)}\n"
        # Of two equal quotes, the definition around them says which one is meant.
        is_single = self._text.find(f"\n{quote}\n", self._text.find(f"\n{quote}\n") + 1) < 0
        within = "" if is_single else self._name(start)
        return QuotedLines(self.path, start, end, quote_hash(quote), within)

    def text_of(self, quoted: QuotedLines) -> str:
        """The lines of a quote as they are."""
        return "\n".join(self._lines[quoted.line_start - 1 : quoted.line_end])

    def without_gaps(self, quote: str, near: int) -> tuple[int, int] | None:
        """The lines nearest to ``near`` that are ``quote``, whatever blank lines either has."""
        if self._bare is None:
            self._bare = [(at, text) for at, line in enumerate(self._lines, 1)
                          if (text := encodable(line).strip())]  # fmt: skip
        wanted = [text for line in quote.split("\n") if (text := encodable(line).strip())]
        texts = [text for _, text in self._bare]
        starts = [at for at in range(len(texts)) if texts[at : at + len(wanted)] == wanted]
        spans = [(self._bare[at][0], self._bare[at + len(wanted) - 1][0]) for at in starts]
        return min(spans, key=lambda span: abs(span[0] - near), default=None) if wanted else None

    def present(self, definition: NamedDefinition) -> str:
        """The lines of the first function of that name, as they are now, to be read; "" for none.

        Of a long one, its first lines.
        """
        for symbol in self._symbols():
            if symbol.kind in _ACTS and symbol.name.rpartition(".")[2] == definition.name:
                last = min(symbol.line_end, symbol.line_start + LINES)
                return "\n".join(self._lines[symbol.line_start - 1 : last])
        return ""

    def functions(self) -> Iterator[tuple[str, int, NamedDefinition]]:
        """The functions of the file: qualified name, first line, and what they are known by."""
        for symbol in self._symbols():
            if symbol.kind in _ACTS:
                quote = quote_hash(folded(self._lines[symbol.line_start - 1 : symbol.line_end]))
                last = symbol.name.rpartition(".")[2]
                yield symbol.name, symbol.line_start, NamedDefinition(self.path, last, quote)

    def still(self, definition: NamedDefinition) -> NamedDefinition | None:
        """The function as it was; None where it is another now."""
        if self._known is None:
            self._known = {tuple(function)[1:] for _, _, function in self.functions()}
        return definition.replace(path=self.path) if tuple(definition)[1:] in self._known else None

    def _is_within(self, quoted: QuotedLines, start: int) -> bool:
        return not quoted.within or self._name(start) == quoted.within

    def _name(self, line: int) -> str:
        around = (
            (symbol.line_end - symbol.line_start, symbol.line_start, symbol.name)
            for symbol in self._symbols()
            if symbol.line_start <= line <= symbol.line_end
        )
        return min(around, default=(0, 0, ""))[2].rpartition(".")[2]

    def _symbols(self) -> Sequence[Symbol]:
        if self._outlined is None:
            self._outlined = outline(self.path, self._content).symbols
        return self._outlined


def standing_prose(state: WikiState | None, corpus: Corpus, under: str = "") -> KeptProse:
    """The sentences of ``state`` whose quotes are in ``corpus``, the files below ``under``."""
    if state is None or not state.prose:
        return KeptProse()
    rows = list(_rows(state.prose, corpus))
    files = {file.path: file for file in corpus.files}
    by_path: dict[str, dict[_Ground, None]] = {}
    for _, sentence, fault in rows:
        for ground in (*_grounds(sentence), *sentence.called) if fault is None else ():
            by_path.setdefault(ground.path, {})[ground] = None
    gone = {path: grounds for path, grounds in by_path.items() if path not in files}
    standing: dict[_Ground, _Ground] = {}
    for file, content in contents(corpus, (files[path] for path in by_path if path in files)):
        standing |= _standing(QuotedFile(file.path, content), by_path[file.path])
    prose = _asked_prose(state, files)
    if gone:
        new = _NewSources(state, corpus, (prose_sentence for _, prose_sentence, _ in rows))
        prose |= new.renamed(gone)
        for path, grounds in gone.items():
            standing |= _renamed(new.opened(path), grounds)
    omitted = dict(corpus.omitted)
    placed: dict[str, dict[ProseSentence, None]] = {}
    moved, dropped = 0, []
    for key, sentence, fault in rows:
        missing = [ground for ground in _grounds(sentence) if ground not in standing]
        if missing or fault is not None:
            dropped.append((sentence, fault or _lost(missing[0], files, omitted, under)))
            continue
        now = sentence.replace(
            quotes=tuple(dict.fromkeys(standing[quote] for quote in sentence.quotes)),
            named_definitions=tuple(
                dict.fromkeys(standing[definition] for definition in sentence.named_definitions)
            ),
            called=tuple(standing.get(definition, definition) for definition in sentence.called),
            # What its lines call is another now: it is asked about again.
            is_supported=sentence.is_supported and all(map(standing.__contains__, sentence.called)),
        )
        moved += [tuple(lines)[:2] for lines in now.quotes] != [
            tuple(quote)[:2] for quote in sentence.quotes
        ]
        prose_key = key if is_apart(key) else now.path
        placed.setdefault(prose_key, {})[_marked(now, state, corpus, files)] = None
        prose.setdefault(prose_key, Prose("", state.prose[key].model, ()))
    for prose_key, rows_of in placed.items():
        prose[prose_key] = prose[prose_key].replace(said=tuple(rows_of))
    for key in filter(is_apart, state.prose):
        if len(placed.get(key, ())) < len(state.prose[key].said):  # so that it is asked about again
            prose[key] = prose[key].replace(shown=(), digest="")
    return KeptProse({key: prose[key] for key in sorted(prose)}, moved, tuple(dropped))


def _grounds(sentence: ProseSentence) -> tuple[_Ground, ...]:
    return (*sentence.quotes, *sentence.named_definitions)


def _standing(lines: QuotedFile, grounds: Iterable[_Ground]) -> dict[_Ground, _Ground]:
    """Those of ``grounds`` that are in the file, each with its place there."""
    standing: dict[_Ground, _Ground] = {}
    for ground in grounds:
        now = lines.moved(ground) if isinstance(ground, QuotedLines) else lines.still(ground)
        if now is not None:
            standing[ground] = now
    return standing


def _renamed(
    candidates: Iterable[QuotedFile], grounds: Collection[_Ground]
) -> dict[_Ground, _Ground]:
    """The grounds in a file that is gone, in the files that may have its content now."""
    looked: list[dict[_Ground, _Ground]] = []
    for lines in candidates:
        looked.append(_standing(lines, grounds))
        if len(looked[-1]) == len(grounds):
            break
    standing: dict[_Ground, _Ground] = {}
    for matches in sorted(looked, key=len, reverse=True):  # the file with most of them comes first
        standing = matches | standing
    return standing


def _lost(
    ground: _Ground, files: Mapping[str, CorpusFile], omitted: Mapping[str, str], under: str
) -> Why:
    """Why a sentence that rests on this goes."""
    if isinstance(ground, NamedDefinition):
        return CHANGED
    return LINES_GONE if ground.path in files else _missing(ground.path, omitted, under)


def _marked(
    sentence: ProseSentence, state: WikiState, corpus: Corpus, files: Mapping[str, CorpusFile]
) -> ProseSentence:
    """The sentence; a place that it names is marked, but in a file as the model was shown it."""
    if marked(sentence.text) == sentence.text:
        return sentence
    same = [
        files[path]
        for path, prose in state.prose.items()
        if path in files and prose.digest == mark(files[path].oid) and path in sentence.text
    ]
    texts = [
        LeafText(file.path, file.oid, content)
        for file, content in zip(same, corpus.read(same), strict=True)
    ]
    return sentence.replace(text=said_of(texts, sentence.text))


def _asked_prose(state: WikiState, files: Mapping[str, CorpusFile]) -> dict[str, Prose]:
    by_key = {}
    for key, prose in state.prose.items():
        file = files.get(key)
        if is_apart(key) or file is not None:
            is_same = file is None or prose.digest == mark(file.oid)
            by_key[key] = prose.replace(said=(), digest=prose.digest if is_same else "")
    return by_key


def _rows(prose: Mapping[str, Prose], corpus: Corpus) -> Iterator[_Row]:
    """All sentences. How many count is bounded, by file: a change may bring any number."""
    sizes = {file.path: file.size for file in corpus.files}
    count: Counter[str] = Counter()
    total = sum(sizes.values())
    for key, entry in prose.items():
        for sentence in entry.said:
            size = sizes.get(sentence.path, total)
            group = key if is_apart(key) else f" {sentence.path}"
            count[group] += 1
            many = MOST * (1 + size // LEAST)  # no window is smaller
            limit = SENTENCES if is_apart(key) else many
            fault = CROWDED if count[group] > limit else _fault(key, sentence)
            yield key, sentence, fault


def _fault(key: str, sentence: ProseSentence) -> Why | None:
    """Why no run of ours can have said that; None if one can."""
    if len(sentence.text) > _CHARACTERS:
        return LONG
    if any(quote.line_end - quote.line_start >= LINES for quote in sentence.quotes):
        return LONG_QUOTE
    if (
        len(sentence.quotes) > QUOTES
        or max(len(sentence.named_definitions), len(sentence.called)) > NAMED
    ):
        return MANY_QUOTES
    # The whole rests on what its documents say, too.
    is_ground = all(
        is_source(quote.path) or (key == WHOLE and is_document(quote.path))
        for quote in sentence.quotes
    )
    return None if is_ground else NO_SOURCE


class _NewSources:
    """The sources that the last run did not know, for one that is gone the likeliest first."""

    def __init__(
        self, state: WikiState, corpus: Corpus, sentences: Iterable[ProseSentence]
    ) -> None:
        quoted = {quote.path for row in sentences for quote in row.quotes}
        old = state.blobs.keys() | state.prose.keys() | quoted
        self._corpus = corpus
        self._state = state
        self._alike: dict[tuple[str, str], list[CorpusFile]] = {}
        for file in corpus.files:
            if file.path not in old and is_source(file.path):
                for key in _marks(file.path, mark(file.oid), file.oid):
                    self._alike.setdefault(key, []).append(file)

    def renamed(self, gone: Iterable[str]) -> dict[str, Prose]:
        """What is kept of files that have only another name now, by that."""
        entries = (self._state.prose[path] for path in gone if path in self._state.prose)
        pairs = ((prose, self._alike.get(("digest", prose.digest), ())) for prose in entries)
        return {same[0].path: prose.replace(said=()) for prose, same in pairs if same}

    def opened(self, path: str) -> Iterator[QuotedFile]:
        digest = self._state.prose[path].digest if path in self._state.prose else ""
        keys = _marks(path, digest, self._state.blobs.get(path, ""))
        alike = [file for key in keys for file in self._alike.get(key, ())[:_ALIKE]]
        for file, content in contents(self._corpus, list(dict.fromkeys(alike))[:_ALIKE]):
            yield QuotedFile(file.path, content)


def _marks(path: str, digest: str, blob: str) -> tuple[tuple[str, str], ...]:
    """What two versions of a file may have in common, the surest sign first."""
    base = path.rpartition("/")[2]
    suffix = base.rpartition(".")[2]
    return ("digest", digest), ("blob", blob), ("name", base), ("suffix", suffix)


def _missing(path: str, omitted: Mapping[str, str], under: str) -> Why:
    if under and path != under and not path.startswith(f"{under}/"):
        return ELSEWHERE
    above = [path, *(path[: at + 1] for at, sign in enumerate(path) if sign == "/")]
    return LEFT_OUT if any(parent in omitted for parent in above) else FILE_GONE


def flowing(kept: KeptProse, flows: Sequence[FlowText]) -> KeptProse:
    """``kept`` with prose of these flows alone, each by its present key."""
    prose = {key: entry for key, entry in kept.prose.items() if not key.startswith(FLOW)}
    left = {key: entry for key, entry in kept.prose.items() if key.startswith(FLOW)}
    keys = {flow.key for flow in flows}
    dropped = list(kept.dropped)
    for flow in flows:
        entry = left.pop(_key_before(flow, left, keys), None)
        if entry is None:
            continue
        stays = tuple(sentence for sentence in entry.said if flow.holds(sentence))
        dropped += [(sentence, STEPS_GONE) for sentence in entry.said if sentence not in stays]
        prose[flow.key] = entry.replace(said=stays)
    dropped += [(sentence, FLOW_GONE) for entry in left.values() for sentence in entry.said]
    return kept.replace(prose={key: prose[key] for key in sorted(prose)}, dropped=tuple(dropped))


def _key_before(flow: FlowText, known: Mapping[str, Prose], own: Collection[str]) -> str:
    """The key by which a flow was known, which is another one where its file was renamed."""
    if flow.key in known:
        return flow.key
    others = [key for key in known if key not in own]
    same = [key for key in others if known[key].digest == flow.digest]
    last = flow.key.rpartition("#")[2]
    return next(iter((*same, *(key for key in others if key.rpartition("#")[2] == last))), "")
