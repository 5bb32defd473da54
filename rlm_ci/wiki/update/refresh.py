"""One refresh of a wiki: what has to be read again, and the pages that follow from it."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256

from rlm_ci.errors import RlmCiError
from rlm_ci.system import files
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value
from rlm_ci.wiki import objective
from rlm_ci.wiki.facts.file_facts import facts_of, pack, unpack
from rlm_ci.wiki.objective import WikiObjective, WikiSources, flow_texts, survey, unasked
from rlm_ci.wiki.pages.build import drafted, settled
from rlm_ci.wiki.pages.citations import contents
from rlm_ci.wiki.pages.flow_page import call_walks
from rlm_ci.wiki.prose.model_prose import merged
from rlm_ci.wiki.prose.questions import NOTHING
from rlm_ci.wiki.prose.shown_sources import mark
from rlm_ci.wiki.prose.whole_prose import documents, grounds, is_due
from rlm_ci.wiki.update.kept_prose import (
    NAMED,
    SENTENCES,
    UNFOUNDED,
    UNSUPPORTED,
    KeptProse,
    QuotedFile,
    Sentences,
    flowing,
    standing_prose,
)
from rlm_ci.wiki.update.state import FLOW, WHOLE, Prose, ProseSentence, WikiState, altered, readers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.git.history import GitHistory
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.source.uses.references import Definition
    from rlm_ci.wiki.facts.dependencies import OuterProject
    from rlm_ci.wiki.facts.file_facts import FileFacts, Mask
    from rlm_ci.wiki.objective import Survey
    from rlm_ci.wiki.pages.build import PageOptions, WikiPages
    from rlm_ci.wiki.update.kept_prose import Why
    from rlm_ci.wiki.update.state import NamedDefinition

    Settle = Callable[[list[list[int]]], list[list[int]]]


def with_called(prose: Mapping[str, Prose], corpus: Corpus, survey: Survey) -> dict[str, Prose]:
    """``prose`` with what the lines of each supported sentence call, as it is now.

    Others keep what they have: what changed is shown when somebody is asked.
    """
    judged = {row for entry in prose.values() for row in entry.said if row.is_supported}
    if not judged:
        return dict(prose)
    walks = call_walks(survey.facts, survey.layout, survey.graph, corpus)
    calls: dict[ProseSentence, list[Definition]] = {}
    for sentence in judged:
        definitions = (
            definition
            for quote in sentence.quotes
            if quote.path in survey.layout.owner
            for definition in walks.called(quote.path, quote.line_start, quote.line_end)
        )
        calls[sentence] = list(dict.fromkeys(definitions))
    paths = {definition.path for definitions in calls.values() for definition in definitions}
    known: dict[tuple[str, str, int], NamedDefinition] = {}
    for file, content in contents(corpus, (file for file in corpus.files if file.path in paths)):
        for name, first, definition in QuotedFile(file.path, content).functions():
            known[file.path, name, first] = definition

    def updated(sentence: ProseSentence) -> ProseSentence:
        if sentence not in judged:
            return sentence
        keys = (
            (definition.path, definition.symbol.name, definition.symbol.line_start)
            for definition in calls[sentence]
        )
        called = dict.fromkeys(known[key] for key in keys if key in known)
        others = [function for function in called if function not in sentence.named_definitions]
        return sentence.replace(called=tuple(others[:NAMED]))

    return altered(prose, updated)


#: The file that facts are kept in between runs: a line for each file of the last corpus.
KEPT = "facts.txt"
_LIMIT = 1 << 30


class Refresh(Value):
    """``todo`` is what a recursion must look at, maybe nothing; ``options`` are its objective's.

    ``sources`` have the facts of unchanged files; ``prose`` are the kept sentences.
    """

    sources: WikiSources
    todo: Corpus
    options: Mapping[str, Any]
    prose: KeptProse

    @property
    def corpus(self) -> Corpus:
        return self.sources.corpus

    def objective(self, concurrency: int = 1) -> WikiObjective:
        """``concurrency`` questions are asked at once at most."""
        return WikiObjective(self.options, self.sources, concurrency)


def plan(
    corpus: Corpus,
    state: WikiState | None,
    *,
    cache: str,
    model: str | None = None,
    settle: Settle | None = None,
    under: str = "",
    outside: OuterProject | None = None,
) -> Refresh:
    """What must be read, or asked about, for ``corpus``, the files below ``under``.

    ``outside`` is the repository around these, if only they are read.

    ``cache`` is a folder that may be deleted at any time; ``model`` is the one to ask, if any.
    ``settle`` takes the places of unknown files in the corpus, as runs, and returns those that
    were unknown when the run began: the cache may have changed since.
    """
    packed = _load(cache, corpus)
    unknown = {file.path for file in corpus.files if file.path not in packed}
    if settle is not None:
        unknown = _chosen(corpus, settle(_runs(corpus, unknown)))
        packed = _known_rows(corpus, packed, unknown)
    before = standing_prose(state, corpus, under)
    sources = WikiSources(corpus, packed, outside)
    work = Refresh(sources, corpus.limited(unknown), objective.options(), before)
    return work if model is None else _with_model(work, unknown)


def _with_model(work: Refresh, unknown: set[str]) -> Refresh:
    """The refresh with what a model is to be asked about."""
    corpus, prose = work.corpus, work.prose.prose
    paths = unknown | unasked(corpus, prose)
    about = prose.get(WHOLE, Prose("", "", ()))
    doubted = _doubted(corpus, {key: entry for key, entry in prose.items() if key != WHOLE})
    sentences = grounds({key: entry.said for key, entry in prose.items()}, documents(corpus))
    is_whole_due = is_due(sentences, about.shown)
    if not is_whole_due:
        doubted += _doubted_of_whole(about, sentences)
    if corpus.files and not paths and (doubted or is_whole_due or _are_due(work)):
        # Something was left open: it is asked behind any file, the least of them.
        paths = {min(corpus.files, key=lambda file: (file.size, file.path)).path}
    options = objective.options(proses=prose, doubted=doubted, tree=corpus.digest)
    return work.replace(todo=corpus.limited(paths), options=options)


def _are_due(work: Refresh) -> bool:
    """Whether a flow is another than the one that was asked about; all facts are known."""
    before = {entry.digest for key, entry in work.prose.prose.items() if key.startswith(FLOW)}
    overview = survey(work.corpus, work.sources.facts(), work.sources.outside)
    return any(text.digest not in before for text in flow_texts(work.corpus, overview))


def _doubted(corpus: Corpus, prose: Mapping[str, Prose]) -> list[tuple[ProseSentence, list[str]]]:
    """Sentences of which nobody asked whether their quotes support them, with these.

    Where they call what is another now, with that as it is.
    """
    rows = [line for entry in prose.values() for line in entry.said if not line.is_supported]
    paths = {quote.path for row in rows for quote in row.quotes}
    paths |= {called.path for row in rows for called in row.called}
    chosen = (file for file in corpus.files if file.path in paths)
    sources = {
        file.path: QuotedFile(file.path, content) for file, content in contents(corpus, chosen)
    }
    doubted = []
    for row in rows:
        lines = [sources[quote.path].text_of(quote) for quote in row.quotes]
        for called in row.called:
            source = sources.get(called.path)
            if source is not None and source.still(called) is None:
                lines += filter(None, [source.present(called)])
        doubted.append((row, lines))
    return doubted


def _doubted_of_whole(
    about: Prose, sentences: Sequence[ProseSentence]
) -> list[tuple[ProseSentence, list[str]]]:
    """The same of the whole: what it rests on are sentences, those about the same lines."""
    return [
        (
            sentence,
            [ground.text for ground in sentences if set(sentence.quotes) & set(ground.quotes)],
        )
        for sentence in about.said
        if not sentence.is_supported
    ]


def _runs(corpus: Corpus, paths: Collection[str]) -> list[list[int]]:
    """The places of ``paths`` in the corpus: of each run the first, and the one behind it."""
    runs: list[list[int]] = []
    for position, file in enumerate(corpus.files):
        if file.path not in paths:
            continue
        if runs and runs[-1][1] == position:
            runs[-1][1] = position + 1
        else:
            runs.append([position, position + 1])
    return runs


def _known_rows(corpus: Corpus, rows: Mapping[str, str], unknown: set[str]) -> dict[str, str]:
    """What is known of all but the ``unknown`` files; what was forgotten of one is read again."""
    packed = {path: row for path, row in rows.items() if path not in unknown}
    lost = [file for file in corpus.files if file.path not in unknown | packed.keys()]
    for file, content in contents(corpus, lost):
        packed[file.path] = pack([facts_of(file.path, content)])
    return packed


def _chosen(corpus: Corpus, runs: Iterable[Sequence[int]]) -> set[str]:
    return {file.path for first, last in runs for file in corpus.files[first:last]}


def finish(
    work: Refresh,
    result: NodeResult | None,
    options: PageOptions,
    *,
    chronicle: GitHistory | None,
    state: WikiState | None,
    folder: str | None,
    cache: str,
    model: str | None,
    mask: Mask,
) -> WikiPages:
    """The pages, from what was known and ``result``; ``folder`` has the pages of ``state``.

    What is known now is stored in ``cache``. ``mask`` removes secrets of a text.
    """
    # The facts are freed before the pages are made: there may be very many.
    facts = work.sources.facts(result.data["packed"] if result is not None else ())
    _store(cache, work, facts)
    for path, fact in facts.items():
        facts[path] = fact.masked(mask)
    overview = survey(work.corpus, facts, options.outside)
    del facts
    kept_prose = flowing(work.prose, flow_texts(work.corpus, overview))
    prose = altered(
        _spoken(work.replace(prose=kept_prose), result, model or ""),
        lambda sentence: sentence.replace(text=mask(sentence.text)),
    )
    prose = with_called(prose, work.corpus, overview)
    drafts = drafted(overview, work.corpus, options, chronicle=chronicle, prose=prose)
    del overview
    pages = settled(drafts, work.corpus, options, prose=prose, previous=state, folder=folder)
    with suppress(RlmCiError):  # then the next run reads all of it again
        pages.state.remember(cache)
    return pages.replace(sentences=Sentences.of(kept_prose, prose, _refused(result)))


def _refused(result: NodeResult | None) -> list[tuple[ProseSentence, Why]]:
    """The sentences that do not stand, each with why."""
    if result is None:
        return []
    parts = result.data, result.data.get("whole", {})
    rejected = [
        (ProseSentence.from_dict(row), (single, several))
        for part in parts
        for row, (single, several) in part.get("rejected", ())
    ]
    lies = [
        (ProseSentence.from_dict(row), why)
        for part, why in zip(parts, (UNSUPPORTED, UNFOUNDED), strict=True)
        for row in part.get("unsupported", ())
    ]
    return [*rejected, *lies]


def _spoken(work: Refresh, result: NodeResult | None, model: str) -> dict[str, Prose]:
    """The prose of each file and of the whole, kept or new."""
    before = work.prose.prose
    if result is None:
        return dict(before)
    data = {**NOTHING, **result.data}
    by_path = merged(before, data)
    oids = {file.path: file.oid for file in work.corpus.files}
    # Of a long file one part may have failed, and another not.
    unfinished = {path for path, _ in result.uncovered}
    spoken: dict[str, Prose] = {}
    for path in dict.fromkeys((*by_path, *data["done"])):
        old = before.get(path, Prose("", model, ()))
        shown = tuple(dict.fromkeys(data["shown"].get(path, ())))
        if path in data["done"] and path not in unfinished:
            digest, name = mark(oids[path]), model
        else:
            digest, name, shown = old.digest, old.model, tuple(dict.fromkeys((*old.shown, *shown)))
        spoken[path] = Prose(digest, name, by_path.get(path, ()), shown)
    for key, (digest, _) in data["flows"].items():
        spoken[key] = Prose(digest, model, by_path[key])
    summary = data.get("whole")
    if summary is not None:
        prose_sentences = before[WHOLE].said if WHOLE in before else ()
        new = [ProseSentence.from_dict(row) for row in summary["said"]]
        if new and all(sentence.is_supported for sentence in new):
            prose_sentences = tuple(row for row in prose_sentences if row.is_supported)
        both = {sentence.key: sentence for sentence in (*reversed(prose_sentences), *reversed(new))}
        rows = tuple(reversed(both.values()))[:SENTENCES]
        spoken[WHOLE] = Prose("", model, rows, tuple(summary["shown"]))

    def signed(sentence: ProseSentence) -> ProseSentence:
        new = sentence.replace(model=model, commit=work.corpus.commit or "")
        return sentence if sentence.model else new

    return altered({key: spoken[key] for key in sorted(spoken)}, signed)


# ── what is kept ──


def _key(path: str, oid: str) -> str:
    """What facts depend on: the file, and the versions of its readers."""
    return sha256(f"{readers()}\0{encodable(path)}\0{oid}".encode()).hexdigest()[:32]


def _load(folder: str, corpus: Corpus) -> dict[str, str]:
    """The stored facts of the corpus' files, packed, by path; invalid ones are left out."""
    try:
        data = files.read(os.path.join(folder, KEPT), _LIMIT)
    except files.UnreadableError:
        return {}
    places = {_key(file.path, file.oid): file.path for file in corpus.files}
    by_path = {}
    for line in data.splitlines():
        key, _, packed = line.decode("ascii", "replace").partition(" ")
        if key in places:
            with suppress(ValueError, IndexError):
                if unpack(packed):
                    by_path[places[key]] = packed
    return by_path


def _store(folder: str, work: Refresh, facts: Mapping[str, FileFacts]) -> None:
    """Keep what is known of the files of this corpus; that it cannot be kept is no failure."""

    def rows() -> Iterator[bytes]:
        for file in work.corpus.files:
            file_facts = facts.get(file.path)
            if file_facts is not None:
                packed = work.sources.digests.get(file.path) or pack([file_facts])
                yield f"{_key(file.path, file.oid)} {packed}\n".encode("ascii")

    with suppress(RlmCiError):
        files.make_folder(folder)
        files.write(os.path.join(folder, KEPT), rows())
