"""What the quoted lines of sentences call: where that changes, a sentence is asked about again."""

from __future__ import annotations

from rlm_ci.wiki.pages.citations import contents
from rlm_ci.wiki.pages.flow_page import call_walks
from rlm_ci.wiki.update.kept_prose import NAMED, QuotedFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.source.uses.references import Definition
    from rlm_ci.wiki.objective import Survey
    from rlm_ci.wiki.update.state import NamedDefinition, Prose, ProseSentence


def with_called(prose: Mapping[str, Prose], corpus: Corpus, survey: Survey) -> dict[str, Prose]:
    """``prose`` with what the lines of each supported sentence call, as it is now.

    Others keep what they have: what changed is shown when somebody is asked.
    """
    judged = {
        sentence for entry in prose.values() for sentence in entry.said if sentence.is_supported
    }
    if not judged:
        return dict(prose)
    walks = call_walks(survey.facts, survey.layout, survey.graph, corpus)
    calls: dict[ProseSentence, list[Definition]] = {}
    for sentence in judged:
        found = (
            definition
            for quote in sentence.quotes
            if quote.path in survey.layout.owner
            for definition in walks.called(quote.path, quote.line_start, quote.line_end)
        )
        calls[sentence] = list(dict.fromkeys(found))
    paths = {definition.path for found in calls.values() for definition in found}
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
        others = (definition for definition in called if definition not in sentence.named)
        return sentence.replace(called=tuple(others)[:NAMED])

    return {
        key: entry.replace(said=tuple(map(updated, entry.said))) for key, entry in prose.items()
    }
