"""Wikis for the tests: a small shop, the way from a repository to its pages, and their judge."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rlm_ci.change import evidence
from rlm_ci.git.repository import Repository, discover
from rlm_ci.recursion.corpus import corpus as corpora
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.scheduler import Budget, Constraints
from rlm_ci.recursion.solver import RLM
from rlm_ci.report.findings import Report, Severity, Subject
from rlm_ci.wiki.pages.build import PageOptions
from rlm_ci.wiki.pages.citations import LinkDestination
from rlm_ci.wiki.update import refresh
from rlm_ci.wiki.update.state import WikiState
from testing.markup_judges import LINKED, github_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.git.history import GitHistory
    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import Node
    from rlm_ci.wiki.pages.build import WikiPages
    from testing.repositories.git_repo import GitRepo

CASES = Path(__file__).parents[1] / "wiki" / "pages" / "cases"
OPTIONS = PageOptions("shop", LinkDestination("https://github.com", "acme/shop"))
#: What a page may be made of.
TAGS = {
    "h1", "h2", "h3", "p", "ul", "ol", "li", "a", "code", "pre", "table", "thead", "tbody", "tr",
    "th", "td", "blockquote", "span", "strong", "details", "summary",
}  # fmt: skip


def shop() -> dict[str, str]:
    """The files of the shop."""
    parts = re.split(r"(?m)^=== (.+)\n", (CASES / "shop.txt").read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commit_all(repo: GitRepo, files: dict[str, str]) -> str:
    for path, text in files.items():
        repo.write(path, text)
    return repo.commit("the shop")


def opened(repo: GitRepo) -> Repository:
    return Repository(*discover(str(repo.path)), os.environ)


def corpus_of(repo: GitRepo, commit: str) -> Corpus:
    return corpora.at_commit(opened(repo), commit, EligibilityRules())


def wiki(
    corpus: Corpus,
    out: Path,
    work: Path,
    *,
    options: PageOptions = OPTIONS,
    chronicle: GitHistory | None = None,
    ask: Callable[[Node], Ask] | None = None,
    under: str = "",
    constraints: Constraints | None = None,
) -> tuple[WikiPages, tuple[str, ...], int]:
    """Refresh the wiki in ``out``: its pages, the files touched, and how many files were read."""
    state = WikiState.read(str(out))
    model = "loopback" if ask is not None else None
    cache = str(work / "cache")
    todo = refresh.plan(corpus, state, cache=cache, model=model, under=under,
                        outside=options.outside)  # fmt: skip
    result = None
    if todo.todo.files:
        number = sum(1 for _ in work.glob("run-*"))
        with Journals.open(str(work / f"run-{number}")) as store:
            rlm = RLM(todo.todo, store, ask=ask)
            result = rlm.solve(rlm.root, todo.objective(), Budget(), constraints or Constraints())
    pages = refresh.finish(
        todo, result, options, chronicle=chronicle, state=state, folder=str(out), cache=cache,
        model=model, mask=str,
    )  # fmt: skip
    return pages, pages.write(str(out)), len(todo.todo.files)


def first_page(repo: GitRepo, work: Path, files: dict[str, str], name: str = "index.md") -> str:
    """A page of the wiki of these files, judged; of its links only the names are left."""
    corpus = corpus_of(repo, commit_all(repo, files))
    pages, _, _ = wiki(corpus, work / "wiki", work)
    judge(pages, corpus, work / "wiki", opened(repo))
    text = next(page.text for page in pages.pages if page.name == name)
    return re.sub(r"\(https://[^)]*\)", "", text)


def facts_page(repo: GitRepo, work: Path, files: dict[str, str]) -> str:
    """The page of facts about these files, as ``first_page`` has it."""
    return first_page(repo, work, files, "facts.md")


def rows(page: str, heading: str) -> list[str]:
    """The rows of the first table below a heading, without the bars at their ends."""
    below = page.split(f"\n## {heading}\n", 1)[1]
    table = below[below.index("\n|") + 1 :].split("\n\n", 1)[0]
    return [line[2:-2] for line in table.split("\n")[2:]]


def texts(out: Path) -> dict[str, str]:
    """All files of a wiki."""
    return {
        str(path.relative_to(out)): path.read_text(encoding="utf-8")
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def judge(pages: WikiPages, corpus: Corpus, out: Path, repository: Repository) -> None:
    """Every claim holds, every link leads somewhere, nothing of a page is more than text."""
    assert pages.pages[0].name == "index.md"
    subject = Subject(head=corpus.commit)
    documents = tuple(page.document() for page in pages.pages)
    checked = evidence.verify(Report(subject, Severity.HIGH, (), documents=documents), repository)
    assert checked.problems == ()
    lines = {
        file.path: len(content.decode("utf-8", "surrogateescape").split("\n"))
        for file, content in zip(corpus.files, corpus.read(corpus.files), strict=True)
    }
    for page in pages.pages:
        assert (out / page.name).read_text(encoding="utf-8") == page.text
        judge_page(page.name, page.text, out, lines)
        cited = {(place.path, place.line_start, place.line_end) for place in page.evidence}
        assert sources(page.text) == cited
        # Neither empty nor silly: something is said, and of something.
        assert len(page.text.splitlines()) > 8
        assert page.evidence


def judge_page(name: str, text: str, out: Path, lines: dict[str, int]) -> None:
    html = github_html(text)
    assert html.comments == html.stray == []
    assert {element.tag for element in html.root.all()} <= TAGS, name
    for prose in html.root.prose():
        assert not LINKED.search(prose), (name, prose)
    folder = (out / name).parent
    for element in html.root.all("a"):
        href = element.attributes["href"] or ""
        place = re.search(r"^(.*?)(?:\?plain=1)?#L(\d+)(?:-L(\d+))?$", href)
        if place is None:
            file, _, anchor = href.partition("#")
            assert (folder / file).is_file(), (name, href)
            titles = re.findall(r"(?m)^## (.*)$", (folder / file).read_text(encoding="utf-8"))
            assert not anchor or anchor in {
                re.sub(r"[^a-z -]", "", one.lower()).replace(" ", "-") for one in titles
            }, (name, href)
            continue
        path = unquote(place[1].partition("/blob/")[2].partition("/")[2], errors="surrogateescape")
        if "/blob/" not in href:
            path = unquote(re.sub(r"^(?:\.\./)*", "", place[1]), errors="surrogateescape")
        assert 1 <= int(place[2]) <= int(place[3] or place[2]) <= lines[path], (name, href)


def sources(text: str) -> set[tuple[str, int, int]]:
    """The places that a page links to."""
    found = set()
    link = r"\]\(([^)\s]*?)(?:\?plain=1)?#L(\d+)(?:-L(\d+))?\)"
    for href, start, end in re.findall(link, text):
        _, blob, rest = href.partition("/blob/")
        path = rest.partition("/")[2] if blob else re.sub(r"^(?:\.\./)*", "", href)
        found.add((unquote(path, errors="surrogateescape"), int(start), int(end or start)))
    return found


def diagrams(text: str) -> list[str]:
    return re.findall(r"```mermaid\n(.*?)\n```", text, re.DOTALL)
