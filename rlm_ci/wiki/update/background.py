"""What a question about the whole is shown besides sentences about sources.

It may rest on paragraphs of documents; manifests, tree and imports help to understand.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.recursion.prompt_windows import name
from rlm_ci.source import manifests
from rlm_ci.source.languages import language
from rlm_ci.text.printable import count, encodable
from rlm_ci.wiki.facts.commands import is_document
from rlm_ci.wiki.facts.readme import is_readme, paragraphs
from rlm_ci.wiki.pages.citations import contents
from rlm_ci.wiki.pages.dependencies_map import surroundings
from rlm_ci.wiki.pages.paths import folder_of
from rlm_ci.wiki.update.kept_prose import LINES, QuotedFile
from rlm_ci.wiki.update.state import ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.wiki.pages.layout import PageLayout

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
        lines = QuotedFile(file.path, content)
        quotes = (
            (statement.text, lines.quoted(statement.line_start, statement.line_end))
            for statement in paragraphs(content, file.path)
            if statement.line_end - statement.line_start < LINES
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
