"""What a model says of the whole: sentences that follow from those about its files.

They may rest on paragraphs of documents, too; manifests, tree and imports help to understand.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, zip_longest

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import shortened
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.source import manifests
from rlm_ci.source.languages import language
from rlm_ci.text.line_references import marked
from rlm_ci.text.printable import count, encodable
from rlm_ci.wiki.facts.commands import is_document
from rlm_ci.wiki.facts.readme import is_readme, paragraphs
from rlm_ci.wiki.pages.citations import contents
from rlm_ci.wiki.pages.layout import surroundings
from rlm_ci.wiki.pages.paths import folder_of
from rlm_ci.wiki.prose.questions import (
    GroundedClaim,
    ProseResult,
    ask_sentences,
    ask_support,
    lack,
    unheld,
)
from rlm_ci.wiki.prose.shown_sources import mark
from rlm_ci.wiki.update import kept_prose
from rlm_ci.wiki.update.state import WHOLE, ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.wiki.pages.layout import PageLayout
    from rlm_ci.wiki.prose.questions import SupportResult


_PROMPT, _SENTENCE = "prompts/wiki-whole.md.j2", "wiki-whole-sentence.schema.json"
#: Sentences that are shown of a repository to be summed up.
_SUMMED = 240
#: The whole is asked about again where more than this part of its grounds are others: a quarter,
#: and an eighth where something is asked anyway.
_DRIFT, EARLY = 4, 8


def grounds(
    said: Mapping[str, Sequence[ProseSentence]],
    documents: Mapping[str, Sequence[ProseSentence]] | None = None,
) -> list[ProseSentence]:
    """What may be said of the whole rests on these: of each flow and file one, then a second.

    ``documents`` are paragraphs of README and CONTRIBUTING by path, as sentences: they count beside
    what was said of sources only.
    """
    prose = {key: said[key] for key in sorted(said) if key != WHOLE and said[key]}
    turns = zip_longest(*prose.values(), *(documents or {}).values()) if prose else ()
    return [sentence for turn in turns for sentence in turn if sentence is not None][:_SUMMED]


def is_due(sentences: Sequence[ProseSentence], before: Collection[str], part: int = _DRIFT) -> bool:
    """Whether the whole is to be asked about: its grounds are others than ``before``, by marks.

    Some new sentences do not change what the whole is: they are waited for.
    """
    return len(set(_marks(sentences)) ^ set(before)) * part > len(before)


def ground_rows(sentences: Sequence[ProseSentence]) -> list[str]:
    """The sentences as a prompt has them."""
    return [
        f"[{at}] {name(sentence.path)}: {name(sentence.text)}"
        for at, sentence in enumerate(sentences, 1)
    ]


def sum_up(ask: Ask, sentences: Sequence[ProseSentence], background: str = "") -> ProseResult:
    """Ask what the whole is, from sentences that hold; each new one rests on some of them.

    ``background`` helps to understand them.
    """
    try:
        return shortened(ask, lambda: _summed(ask, sentences, background))
    except (LimitError, RemoteError) as error:
        return ProseResult(uncovered=(("", f"{lack(error)}: no prose about the whole"),))


def _summed(ask: Ask, sentences: Sequence[ProseSentence], background: str) -> ProseResult:
    rows = ground_rows(sentences)
    render = loader.load_template(_PROMPT)
    empty = render({"fence": fence(""), "listing": "", "background": background})
    room = ask.max_bytes - len(empty.encode("utf-8", "replace")) - ask.repair
    while rows and len("\n".join(rows).encode()) > room:
        rows.pop()
    if not rows:
        return ProseResult()
    listing = "\n".join(rows)
    data = {"listing": listing, "background": background}
    prompt = render({"fence": fence(*data.values()), **data})
    answer, why = ask_sentences(ask, "tell-whole", prompt, _SENTENCE)
    if answer is None:
        return ProseResult(uncovered=(("", why),))
    summary, counts = unjudged(answer["sentences"], sentences[: len(rows)], sentences)
    result = ask_support(ask, "support-whole", claims(summary))
    why = result.open[0][1] if result.open else ""
    uncovered = (("", why),) if why else ()
    return ProseResult({"whole": judged_by(summary, result)}, counts, uncovered)


def unjudged(
    sentences: Sequence[Mapping[str, Any]],
    shown: Sequence[ProseSentence],
    prose_sentences: Sequence[ProseSentence],
) -> tuple[dict[str, Any], Evidence]:
    """What was said of the whole, as JSON: each sentence with the texts that it rests on.

    A sentence that rests on none of those ``shown`` is dropped; ``prose_sentences`` are all
    grounds.
    """
    grounded_claims: list[GroundedClaim] = []
    rejected = []
    offered = sentences[: kept_prose.SENTENCES]
    for sentence in offered:
        wrong = loader.misfit(sentence, _SENTENCE)
        numbers = [] if wrong else sentence["rests_on"]
        why = (
            kept_prose.MALFORMED
            if wrong
            else kept_prose.NO_GROUND
            if not numbers
            else kept_prose.WRONG_GROUND
        )
        if numbers and all(1 <= number <= len(shown) for number in numbers):
            grounded_claims.append(
                _grounded(sentence["text"], [shown[number - 1] for number in numbers])
            )
        else:
            rejected.append([unheld(sentence).to_json(), list(why)])
    rejected += [
        [unheld(sentence).to_json(), list(kept_prose.BEYOND)]
        for sentence in sentences[kept_prose.SENTENCES : 32]
    ]
    counts = Evidence(len(offered), len(grounded_claims), 0, len(offered) - len(grounded_claims))
    rows = [[claim.sentence.to_json(), list(claim.grounds)] for claim in grounded_claims]
    return {"shown": _marks(prose_sentences), "told": rows, "rejected": rejected}, counts


def claims(whole: Mapping[str, Any]) -> list[GroundedClaim]:
    """The sentences that are to be judged."""
    return [
        GroundedClaim(ProseSentence.from_dict(row), tuple(texts)) for row, texts in whole["told"]
    ]


def judged_by(whole: Mapping[str, Any], result: SupportResult) -> dict[str, Any]:
    """``whole`` without the sentences that what they rest on does not support."""
    lies = {sentence.key for sentence in result.unsupported}
    sentences = [claim.sentence for claim in claims(whole)]
    return {
        "shown": whole["shown"],
        "rejected": whole["rejected"],
        "said": [sentence.to_json() for sentence in result.stood(sentences)],
        "unsupported": [sentence.to_json() for sentence in sentences if sentence.key in lies],
    }


def _marks(sentences: Iterable[ProseSentence]) -> list[str]:
    """Hashes of the sentences, without their places."""
    return [
        mark(f"{encodable(sentence.path)}\0{encodable(sentence.text)}") for sentence in sentences
    ]


def _grounded(text: str, rests_on: Sequence[ProseSentence]) -> GroundedClaim:
    """A sentence about the whole: it rests on sentences, and on all that they rest on."""
    quotes = dict.fromkeys(chain.from_iterable(sentence.quotes for sentence in rests_on))
    definitions = dict.fromkeys(
        chain.from_iterable(sentence.named_definitions for sentence in rests_on)
    )
    words = marked(encodable(" ".join(text.split())))
    sentence = ProseSentence(
        words, tuple(quotes)[: kept_prose.QUOTES], tuple(definitions)[: kept_prose.NAMED]
    )
    return GroundedClaim(sentence, tuple(prose_sentence.text for prose_sentence in rests_on))


#: Paragraphs of README and CONTRIBUTING.
_PARAGRAPHS = 12
#: Bytes of a manifest; manifests, and rows of tree and imports.
_MANIFEST = 1_500
_MANIFESTS, _ROWS = 3, 60


def documents(corpus: Corpus) -> dict[str, list[ProseSentence]]:
    """The first paragraphs of README and CONTRIBUTING by path, as sentences that quote them."""
    chosen: dict[bool, CorpusFile] = {}
    for file in corpus.files:
        if is_document(file.path) and (is_readme(file.path) or "contributing" in file.path.lower()):
            known = chosen.setdefault(is_readme(file.path), file)
            if file.path.count("/") < known.path.count("/"):
                chosen[is_readme(file.path)] = file
    by_path = {}
    for file, content in contents(corpus, chosen.values()):
        lines = kept_prose.QuotedFile(file.path, content)
        quotes = (
            (statement.text, lines.quoted(statement.line_start, statement.line_end))
            for statement in paragraphs(content, file.path)
            if statement.line_end - statement.line_start < kept_prose.LINES
        )
        sentences = [ProseSentence(encodable(text), (quote,)) for text, quote in quotes if quote]
        by_path[file.path] = sentences[:_PARAGRAPHS]
    return by_path


def background(corpus: Corpus, layout: PageLayout, graph: ImportGraph) -> str:
    """The manifests at the top of the repository, its folders, and which module imports which."""
    declaring = [
        file for file in corpus.files if not folder_of(file.path) and _is_manifest(file.path)
    ][:_MANIFESTS]
    rows = [
        *_shown(corpus, declaring, _MANIFEST),
        *_listed("folders", _tree(corpus)),
        *_listed("imports of modules", _imports(layout, graph)),
    ]
    return "\n".join(rows)


def _is_manifest(path: str) -> bool:
    return manifests.outline(path, language(path), b"") is not None


def _shown(corpus: Corpus, files: Iterable[CorpusFile], limit: int) -> Iterator[str]:
    for file, content in contents(corpus, files):
        yield f"=== {name(file.path)} ==="
        yield content[:limit].decode("utf-8", "replace").rstrip()
        if len(content) > limit:
            yield "…"


def _listed(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield f"=== {title} ==="
        yield from rows[:_ROWS]
    if len(rows) > _ROWS:
        yield f"… and {len(rows) - _ROWS} more"


def _tree(corpus: Corpus) -> list[str]:
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in corpus.files:
        files[folder_of(file.path)] += 1
        sizes[folder_of(file.path)] += file.size
    largest = sorted(files, key=lambda folder: (-sizes[folder], folder))
    return [
        f"{name(key) or '.'}: {count(files[key], 'file')}, {sizes[key]:,} bytes" for key in largest
    ]


def _imports(layout: PageLayout, graph: ImportGraph) -> list[str]:
    weights = surroundings(layout, graph).weights
    imports: dict[str, list[str]] = {}
    for (module, other), _ in sorted(weights.items(), key=lambda row: (-row[1], row[0])):
        imports.setdefault(module, []).append(name(other))
    return [f"{name(module)}: {', '.join(others)}" for module, others in sorted(imports.items())]
