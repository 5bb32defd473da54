"""The wiki's objective: facts from the sources, and sentences of a model if there is one.

A survey is what all files show together: where they belong, who imports whom, how calls flow.
"""

from __future__ import annotations

from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, LeafText, NodeResult
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.wiki import VERSION
from rlm_ci.wiki.facts.file_facts import facts_of, pack, unpack
from rlm_ci.wiki.pages.citations import contents
from rlm_ci.wiki.pages.flow_page import call_flows
from rlm_ci.wiki.pages.layout import is_source, laid_out
from rlm_ci.wiki.prose.model_prose import judged, merged, tell
from rlm_ci.wiki.prose.questions import ProseResult
from rlm_ci.wiki.prose.shown_sources import flow_text, mark
from rlm_ci.wiki.prose.whole_prose import EARLY, background, documents, grounds, is_due, sum_up
from rlm_ci.wiki.update.state import FLOW, WHOLE, Prose, ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import LeafTask, Node
    from rlm_ci.wiki.facts.call_flows import CallFlow
    from rlm_ci.wiki.facts.dependencies import OuterProject
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import PageLayout
    from rlm_ci.wiki.prose.shown_sources import FlowText


class Survey(Value):
    """``facts`` are those of the files of the corpus, in its order."""

    facts: Mapping[str, FileFacts]
    graph: ImportGraph
    layout: PageLayout
    flows: tuple[CallFlow, ...]


def survey(corpus: Corpus, facts: Mapping[str, FileFacts], outside: OuterProject | None) -> Survey:
    """``outside`` is the repository around a folder, if only that is read."""
    facts = {file.path: facts[file.path] for file in corpus.files if file.path in facts}
    outlines = [fact.outline for fact in facts.values()]
    paths = [file.path for file in corpus.files]
    declared = {name for fact in facts.values() for name, _ in fact.declared}
    if outside is not None:
        outlines += outside.outlines()
        paths += outside.paths
        declared |= outside.needed()
    graph = ImportGraph.of(outlines, paths, sorted(declared))
    layout = laid_out(facts.values(), graph)
    return Survey(facts, graph, layout, call_flows(facts, layout, graph, corpus))


def texts(corpus: Corpus, paths: Collection[str]) -> dict[str, LeafText]:
    """These files, whole, by path."""
    files = [file for file in corpus.files if file.path in paths]
    return {
        file.path: LeafText(file.path, file.oid, content)
        for file, content in contents(corpus, files)
    }


def flow_texts(corpus: Corpus, survey: Survey) -> list[FlowText]:
    """The flows as a model is shown them."""
    sources = texts(corpus, {step.at.path for flow in survey.flows for step in flow.steps})
    return [flow_text(flow, survey.facts, sources) for flow in survey.flows]


def unasked(corpus: Corpus, prose: Mapping[str, Prose]) -> set[str]:
    """The sources of which a model was not asked in full as they are now."""
    return {
        path
        for path, oid, size in corpus.files
        if size and is_source(path) and (path not in prose or prose[path].digest != mark(oid))
    }


class WikiSources(Value):
    """What the root of a recursion reads beside its leaves' results.

    ``digests`` are packed facts of files that no leaf reads, by path.
    """

    corpus: Corpus
    digests: Mapping[str, str]
    outside: OuterProject | None

    def facts(self, packed: Iterable[str] = ()) -> dict[str, FileFacts]:
        """The facts of all files by path; ``packed`` are those that the leaves found."""
        rows = (*self.digests.values(), *packed)
        return {file_facts.path: file_facts for row in rows for file_facts in unpack(row)}


NAME = "wiki"


def analyse(task: LeafTask) -> dict[str, Any]:
    """The facts of the leaf's files; those of a file in slices come with its first slice."""
    first = [text for text in task.texts if text.line_start == 1]
    facts = [facts_of(text.path, text.complete) for text in first]
    return {"packed": pack(facts), "files": len(task.texts)}


def options(
    *,
    proses: Mapping[str, Prose] | None = None,
    doubted: Iterable[tuple[ProseSentence, Sequence[str]]] = (),
    tree: str = "",
) -> dict[str, Any]:
    """All that the results depend on.

    ``proses`` are earlier sentences by path, of flows and of the whole; ``doubted`` are those, with
    the lines that they quote, of which somebody is to be asked whether these support them; ``tree``
    is a hash of all files, as the root reads any of them.
    """
    return {
        "version": VERSION,
        "known": {path: prose.to_dict() for path, prose in (proses or {}).items()},
        "doubted": [[sentence.to_json(), list(lines)] for sentence, lines in doubted],
        "tree": tree,
    }


class WikiObjective:
    """Leaves read their files, parents collect that; the pages are made of the root's ``data``.

    It has the packed facts of files, ``ProseResult.data``, and ``whole``. The root asks the model:
    what belongs to the program, and how calls flow, follows from all facts together; ``sources``
    reads what that needs. ``concurrency`` questions are asked at once.
    """

    name = NAME
    domain = "architecture"
    analyse = staticmethod(analyse)

    def __init__(
        self,
        chosen: Mapping[str, Any] | None = None,
        sources: WikiSources | None = None,
        concurrency: int = 1,
    ) -> None:
        self.options = dict(chosen if chosen is not None else options())
        self._sources = sources
        self._concurrency = concurrency
        self._known = {
            path: Prose.from_dict(option) for path, option in self.options["known"].items()
        }

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        return self._result(node, [analysis["packed"]], len(task.texts), ask)

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        alive = [child for child in children if child.status != FAILED]
        packed = [row for child in alive for row in child.data["packed"]]
        files = int(sum(child.metrics["files"] for child in alive))
        return self._result(node, packed, files, ask, is_whole=len(alive) == len(children))

    def _result(
        self, node: Node, packed: list[str], files: int, ask: Ask | None, *, is_whole: bool = True
    ) -> NodeResult:
        """The result of a node; the root's has what a model says."""
        result = ProseResult()
        if ask is not None and node.parent is None and self._sources is not None:
            result = self._sentences(ask, self._sources, packed)
        return NodeResult(
            node.id,
            COMPLETED if is_whole and not result.uncovered else PARTIAL,
            count(files, "file"),
            1.0,
            uncovered=result.uncovered,
            counts=result.counts,
            metrics={
                "files": files,
                "sentences": sum(map(len, result.data.get("prose", {}).values())),
            },
            data={**result.data, "packed": packed},
        )

    def _sentences(self, ask: Ask, sources: WikiSources, packed: Sequence[str]) -> ProseResult:
        """What a model says of what is new, of what is doubted, and of the whole."""
        corpus, known, at_once = sources.corpus, self._known, self._concurrency
        overview = survey(corpus, sources.facts(packed), sources.outside)
        open_paths = unasked(corpus, known)
        # What no model was asked about may have become a part of the program.
        unshown = {path for path, prose in known.items() if not prose.shown}
        asked = {path for path in overview.layout.owner if is_source(path)} & (open_paths | unshown)
        before = {entry.digest for key, entry in known.items() if key.startswith(FLOW)}
        flows = [text for text in flow_texts(corpus, overview) if text.digest not in before]
        shown = known[WHOLE].shown if WHOLE in known else ()
        guides = documents(corpus)
        sentences = grounds({key: prose.said for key, prose in known.items()}, guides)
        about = background(corpus, overview.layout, overview.graph)
        result = tell(
            ask,
            texts(corpus, asked).values(),
            known,
            flows=flows,
            sentences=sentences if is_due(sentences, shown, EARLY) else (),
            background=about,
            concurrency=at_once,
        )
        result = result.replace(data={**result.data, "done": sorted(open_paths)})
        doubted = [(ProseSentence.from_dict(row), lines) for row, lines in self.options["doubted"]]
        result = result.then(judged(ask, doubted, result.data, at_once))
        # The whole rests on what was said of files that this run left alone, too.
        sentences = grounds(merged(known, result.data), guides)
        shown = result.data["whole"]["shown"] if "whole" in result.data else shown
        if is_due(sentences, shown):
            result = result.then(sum_up(ask, sentences, about))
        return result.replace(data={**result.data, "quoted": {}})
