"""From facts to pages: grouped, written, compared with what was there."""

from __future__ import annotations

import json
import os
from functools import partial
from hashlib import sha256

from rlm_ci.errors import ConfigError
from rlm_ci.recursion.corpus.eligibility import GENERATED
from rlm_ci.report.findings import Document
from rlm_ci.resources.loader import load_template
from rlm_ci.runs.journal import spans
from rlm_ci.source.test_files import subject_of
from rlm_ci.system import files as disk
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.wiki import VERSION
from rlm_ci.wiki.facts.readme import is_readme
from rlm_ci.wiki.front_page.overview import overview
from rlm_ci.wiki.pages.citations import COMMIT, CitationRegister, LinkDestination, claim_of, opened
from rlm_ci.wiki.pages.facts_page import FACTS, inventory
from rlm_ci.wiki.pages.flow_page import NAME as FLOWS
from rlm_ci.wiki.pages.flow_page import flow_page
from rlm_ci.wiki.pages.layout import surroundings
from rlm_ci.wiki.pages.module_page import LARGE, PageSources, chapter
from rlm_ci.wiki.update.kept_prose import Sentences
from rlm_ci.wiki.update.state import NAME, PageState, WikiState, hashed, is_apart, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from rlm_ci.git.history import GitHistory
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.report.findings import Location
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.wiki.facts.dependencies import OuterProject
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.objective import Survey
    from rlm_ci.wiki.pages.citations import CitedPlace
    from rlm_ci.wiki.pages.layout import PageLayout
    from rlm_ci.wiki.update.state import Prose, ProseSentence

    #: A template: from its variables to the text.
    Render = Callable[[Mapping[str, Any]], str]

INDEX = "index.md"
_LIMIT = 256 << 20
#: Functions from which on a file is worth a test of its own.
_ACTS = 10


class PageOptions(Value):
    """``title`` is the project's name; ``target`` says where links lead.

    ``is_guess``: the title is only a folder's name, so that of a manifest or a README wins.
    ``outside`` is the repository around a folder, if only that folder is read.
    """

    title: str
    target: LinkDestination = LinkDestination()
    is_guess: bool = False
    outside: OuterProject | None = None

    def digest(self) -> str:
        target = [self.target.server, self.target.repository, self.target.base]
        if self.outside is not None:
            target.append(self.outside.digest())
        text = json.dumps([VERSION, "" if self.is_guess else self.title, self.is_guess, *target])
        return sha256(text.encode()).hexdigest()


class WikiPage(Value):
    """``name`` is its path in the wiki, ``evidence`` what its claims cite at this run's commit."""

    name: str
    text: str
    evidence: tuple[Location, ...]
    is_new: bool

    def document(self) -> Document:
        return Document(f"artifacts/wiki/{self.name}", self.text, self.evidence)


class WikiPages(Value):
    """All pages, the index first, and the state that they leave."""

    pages: tuple[WikiPage, ...]
    state: WikiState
    sentences: Sentences = Sentences()

    def write(self, folder: str) -> tuple[str, ...]:
        """Write the pages and their state, and remove pages that are gone; the touched files.

        Raises StorageError; ConfigError, before it writes anything, for a link or for a file that
        rlm-ci did not write.
        """
        old = WikiState.read(folder)
        if os.path.islink(os.path.join(folder, "modules")):
            raise ConfigError(
                "a page would be written through a link",
                where=printable(os.path.join(folder, "modules")),
                hint="remove the link, or name another folder",
            )
        # The state comes first: a run that is killed here finds its own pages again by it.
        texts = {page.name: page.text for page in self.pages}
        places = {name: place_of(folder, name) for name in (NAME, *texts)}
        written = {NAME, *(old.pages if old else ())}
        digest = sha256(disk.read_or_none(places[NAME], _LIMIT) or b"").hexdigest()
        stale = [] if digest == hashed(self.state.pieces()) else [NAME]
        for name, text in texts.items():
            if disk.read_or_none(places[name], _LIMIT) != text.encode():
                stale.append(name)
        foreign = [name for name in stale if name not in written and os.path.lexists(places[name])]
        if foreign:
            more = f" and {count(len(foreign) - 1, 'other file')}" if foreign[1:] else ""
            raise ConfigError(
                f"{printable(foreign[0])}{more} would be overwritten, but rlm-ci did not write it",
                where=printable(folder),
                hint="name another folder, or move the existing files away",
            )
        disk.make_folder(os.path.join(folder, "modules"))
        for name in stale:
            data = self.state.pieces() if name == NAME else (texts[name].encode(),)
            disk.write(places[name], data)
        touched = sorted(stale, key=lambda name: name == NAME)
        for name, page in sorted(old.pages.items() if old else ()):
            path = place_of(folder, name)
            if name not in texts and page.is_in(path):
                try:
                    os.unlink(path)
                except OSError as error:
                    raise disk.storage_error(error, path) from None
                touched.append(name)
        return tuple(touched)


class PageDraft(Value):
    """A page with no commit yet, and the places that it cites, in order."""

    name: str
    body: str
    places: tuple[CitedPlace, ...]


def drafted(
    survey: Survey,
    corpus: Corpus,
    options: PageOptions,
    *,
    chronicle: GitHistory | None,
    prose: Mapping[str, Prose],
) -> list[PageDraft]:
    """What the pages of a corpus say, whose files are ``survey``."""
    facts, graph, layout = survey.facts, survey.graph, survey.layout
    target = options.target.at(corpus.commit)
    lost = ((file.path, "failed") for file in corpus.files if file.path not in facts)
    generated = ((path, GENERATED) for path in layout.generated)
    world = PageSources(
        files=facts,
        layout=layout,
        omitted=(*corpus.omitted, *lost, *generated),
        chronicle=chronicle,
        names={module.key: module.name for module in layout.modules},
        around=surroundings(layout, graph),
        untested=_untested(layout, graph) if options.outside is None else frozenset(),
        prose=_placed(prose, facts, layout),
        graph=graph,
        register=CitationRegister(target, deep=False),
        outside=options.outside,
        flows=survey.flows,
    )
    at = f" at commit `{COMMIT}`" if corpus.commit else ""
    return list(_drafts(world, options.replace(target=target), at))


def settled(
    drafts: list[PageDraft],
    corpus: Corpus,
    options: PageOptions,
    *,
    prose: Mapping[str, Prose],
    previous: WikiState | None,
    folder: str | None,
) -> WikiPages:
    """The pages, from ``drafts``, which is emptied to free memory.

    A page that says and cites the same as in ``previous`` keeps its bytes in ``folder``, and so the
    commit of its links. Raises DamagedError if a place is not in the contents.
    """
    files = {file.path: file for file in corpus.files}
    places = {cited_place for draft in drafts for cited_place in draft.places}
    blobs = {path: files[path].oid for path in sorted({cited_place.path for cited_place in places})}
    locations = opened(corpus, places, files)
    pages, records = [], {}
    drafts.reverse()
    while drafts:
        draft = drafts.pop()
        old = previous.pages.get(draft.name) if previous is not None else None
        page, record = _settled(draft, locations, corpus.commit, old, folder)
        pages.append(page)
        records[draft.name] = record
    commit = corpus.commit
    if previous is not None and previous.tree == corpus.digest:
        commit = previous.commit
    state = WikiState(corpus.digest, options.digest(), commit, records, blobs, dict(prose))
    return WikiPages(tuple(pages), state)


def _placed(
    prose: Mapping[str, Prose], facts: Mapping[str, FileFacts], layout: PageLayout
) -> dict[str, tuple[ProseSentence, ...]]:
    """Each sentence on the page of the first file that it quotes; of flows and the whole, apart."""
    by_page: dict[str, list[ProseSentence]] = {}
    for key in sorted(prose):
        for sentence in prose[key].said:
            ends = [(facts.get(quoted.path), quoted.line_end) for quoted in sentence.quotes]
            if any(file is None or end > file.outline.lines for file, end in ends):
                continue
            if is_apart(key):
                by_page.setdefault(key, []).append(sentence)
            elif sentence.path in layout.owner:
                by_page.setdefault(layout.owner[sentence.path].key, []).append(sentence)
    return {key: tuple(sentences) for key, sentences in by_page.items()}


def _drafts(world: PageSources, options: PageOptions, at: str) -> Iterator[PageDraft]:
    """All pages, the commit not yet filled in."""
    index, facts, flows, module_page = (
        load_template(f"wiki/{name}.md.j2") for name in ("index", "facts", "flows", "module")
    )

    def draft(
        name: str, render: Render, page: PageSources, says: Callable[[], dict[str, Any]]
    ) -> PageDraft:
        with spans.span("page", name, key=name) as step:
            body = _tidy(render({**says(), "at": at}))
            cited = page.register.cited()
            step.details["cited places"] = len(cited)
        return PageDraft(name, body, cited)

    title = _title(world, options)
    yield draft(INDEX, index, world, lambda: {**overview(world), "title": title})
    page = world.replace(register=CitationRegister(options.target, deep=False))
    yield draft(FACTS, facts, page, partial(inventory, page))
    if world.flows:
        page = world.replace(register=CitationRegister(options.target, deep=False))
        yield draft(FLOWS, flows, page, partial(_flows, page))
    for module in world.layout.modules:
        page = world.replace(register=CitationRegister(options.target, deep=True))
        name = f"modules/{module.name}.md"
        yield draft(name, module_page, page, partial(chapter, module, page))


def _flows(page: PageSources) -> dict[str, Any]:
    return {"flows": flow_page(page)}


def _title(world: PageSources, options: PageOptions) -> str:
    every = sorted(world.files.items(), key=lambda pair: (is_readme(pair[0]), pair[0]))
    projects = [facts.project for _, facts in every if facts.project]
    return neutralise.prose(
        (projects[0] if options.is_guess and projects else options.title) or "This repository"
    )


def _tidy(text: str) -> str:
    """No line ends in a blank, no two blank lines follow each other, one line break at the end."""
    lines: list[str] = []
    for line in text.split("\n"):
        row = line.rstrip(" ")
        if row or (lines and lines[-1]):
            lines.append(row)
    return "\n".join(lines).strip("\n") + "\n"


def _settled(
    draft: PageDraft,
    locations: Mapping[CitedPlace, Location],
    commit: str | None,
    old: PageState | None,
    folder: str | None,
) -> tuple[WikiPage, PageState]:
    """The page as it was, if it says and cites the same; else at this commit."""
    evidence = tuple(locations[cited_place] for cited_place in draft.places)
    cited: list[Any] = [[*claim.cited_place, claim.quote] for claim in map(claim_of, evidence)]
    digest = _hash(json.dumps([draft.body, cited]))
    text, at, is_new = draft.body.replace(COMMIT, commit or ""), commit, True
    # Not what the state says of a page is believed, but what would be made at its commit.
    if old is not None and old.digest == digest and folder is not None:
        same = draft.body.replace(COMMIT, old.commit or "")
        if disk.read_or_none(place_of(folder, draft.name), _LIMIT) == same.encode():
            text, at, is_new = same, old.commit, False
    page = WikiPage(draft.name, text, evidence, is_new)
    return page, PageState(digest, _hash(text), at, evidence)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _untested(layout: PageLayout, graph: ImportGraph) -> frozenset[str]:
    tests = {facts.path for inner in layout.tests.values() for facts in inner}
    tested = {edge.target for path in tests for edge in graph.internal.get(path, ())}
    if not tested:
        return frozenset()
    large = {
        file.path
        for module in layout.modules
        for file in module.files
        if file.outline.lines >= LARGE and _acts(file)
    }
    subjects = {subject for path in tests for subject in (subject_of(path), _stem(path))}
    return frozenset(path for path in large - tested if _stem(path) not in subjects)


def _acts(facts: FileFacts) -> bool:
    return sum(symbol.kind in ("function", "method") for symbol in facts.outline.symbols) >= _ACTS


def _stem(path: str) -> str:
    """What a test of a file would be named after."""
    return path.rpartition("/")[2].partition(".")[0].lower().strip("_")
