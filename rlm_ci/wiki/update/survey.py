"""What all files of a wiki show together: where they belong, who imports whom, how calls flow."""

from __future__ import annotations

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.values import Value
from rlm_ci.wiki.facts.file_facts import unpack
from rlm_ci.wiki.pages.citations import contents
from rlm_ci.wiki.pages.flow_page import call_flows
from rlm_ci.wiki.pages.layout import is_source, laid_out
from rlm_ci.wiki.prose.flow_prose import flow_text
from rlm_ci.wiki.update.pieces import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.wiki.facts.call_flows import CallFlow
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import PageLayout
    from rlm_ci.wiki.pages.outer_project import OuterProject
    from rlm_ci.wiki.prose.flow_prose import FlowText
    from rlm_ci.wiki.update.state import Prose


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

    def survey(self, packed: Iterable[str] = ()) -> Survey:
        """``packed`` are the facts that the leaves found."""
        rows = (*self.digests.values(), *packed)
        facts = {file_facts.path: file_facts for row in rows for file_facts in unpack(row)}
        return survey(self.corpus, facts, self.outside)
