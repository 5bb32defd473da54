"""``rlm-ci wiki --check``: whether the pages in a folder are those that the sources give.

All pages are made as a run without a model makes them, in memory, and compared. What ``wiki.json``
says of itself is not believed: a change may bring any.
"""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git.history import GitHistory
from rlm_ci.pipelines.repository import scope
from rlm_ci.pipelines.repository.attempt import options_of
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.nodes import COMPLETED
from rlm_ci.recursion.scheduler import Budget, Constraints
from rlm_ci.recursion.solver import RLM
from rlm_ci.recursion.split.tree import TreeShape
from rlm_ci.report.findings import INCOMPLETE, Finding, Location, Part, Report, Severity
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.wiki.pages.build import INDEX
from rlm_ci.wiki.pages.citations import claim_of
from rlm_ci.wiki.pages.facts_page import FACTS
from rlm_ci.wiki.run import HISTORY, WikiJob
from rlm_ci.wiki.update import refresh
from rlm_ci.wiki.update.state import (
    COMMIT,
    GONE,
    OTHER,
    PageChange,
    WikiState,
    page_changes,
    place_of,
)
from rlm_ci.wiki.update.state import NAME as STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.pipelines.repository.plan import RepositoryOptions
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.wiki.pages.build import WikiPages
    from rlm_ci.wiki.update.refresh import Refresh
    from rlm_ci.wiki.update.state import PageState

_OUTDATED = "outdated"
RULES = {_OUTDATED: Severity.HIGH}
EDITED = "it was edited by hand, or made by another version"
MISSING = "its file is missing"
OPTIONS = "it was made for another repository, title or folder"
#: Places that a finding shows.
_PLACES = 5


class WikiCheck(WikiJob):
    """Compares; it writes nothing, and asks no model."""

    def wants_model(self) -> bool:
        return False

    def compared(self, redactor: Redactor) -> Report:
        """A finding for each page that a run would write again, or remove.

        Raises UsageError, ConfigError, DamagedError, StorageError.
        """
        folder = self._compared_folder()
        agreed = options_of(self)
        area = agreed.scope
        if area.commit is not None and self.repository.is_shallow():
            raise ConfigError(
                "the clone is shallow: the pages cannot be compared, as they tell of the history",
                where="--check",
                hint="fetch all of it: fetch-depth: 0 of actions/checkout, git fetch --unshallow",
            )
        state = self._stored(folder)
        corpus = self.corpus(agreed)
        # No cache is believed, as a change may bring one.
        with TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True) as work:
            looks = self._looks(area)
            todo = refresh.plan(corpus, state, cache=work, under=area.under, outside=looks.outside)
            result = _solved(todo, agreed, work, redactor) if todo.todo.files else None
            believed = self._believed(folder, area)
            pages = refresh.finish(
                todo,
                result,
                looks,
                chronicle=self._chronicle(believed, area.commit),
                state=believed,
                folder=folder,
                cache=work,
                model=None,
                mask=redactor.text,
            )
        is_whole = result is None or result.status == COMPLETED
        stale = tuple(_stale(pages, state, believed, folder)) if is_whole else ()
        level = Severity.from_label(self.settings.fail_level)
        part = self._compared_part(pages, stale, state, corpus)
        part = part if is_whole else part.replace(state=INCOMPLETE, summary="files were not read")
        return redactor.report(Report(area.subject(), level, (part,)))

    def _compared_folder(self) -> str:
        """Where the pages are; the run is then one that writes there."""
        settings = self.settings.wiki
        for name in ("push", "site"):
            if getattr(settings, name):
                raise UsageError(
                    f"--check writes nothing, and --{name} does",
                    where="--check",
                    hint=f"leave one of them out; --check compares the pages in {self._folder()}, "
                    "or in --out DIR",
                )
        if not settings.out:
            folder = os.path.join(self._root(), *self._folder().split("/"))
            self.settings.values["wiki.out"] = folder
        return str(self.settings.wiki.out)

    def _stored(self, folder: str) -> WikiState | None:
        files.require_inside(self.repository.root, place_of(folder, INDEX))
        state = WikiState.read(folder)
        if state is None and not os.path.lexists(place_of(folder, STATE)):
            raise ConfigError(
                "there is no wiki to check",
                where=printable(folder),
                hint="write it with rlm-ci wiki --out DIR, or name its folder with --out",
            )
        return state

    def _chronicle(self, state: WikiState | None, commit: str | None) -> GitHistory | None:
        """The history that the page of facts told of: new commits alone make no page stale."""
        if commit is None:
            return None
        page = state.pages.get(FACTS) if state is not None else None
        at = page.commit if page is not None and page.commit else commit
        return GitHistory.of(self.repository, at, HISTORY)

    def _compared_part(
        self,
        pages: WikiPages,
        stale: Sequence[PageChange],
        state: WikiState | None,
        corpus: Corpus,
    ) -> Part:
        where = printable(os.path.relpath(str(self.settings.wiki.out), self._root()))
        places = {page.name: page.evidence for page in pages.pages}
        before = state.pages if state is not None else {}
        findings = tuple(
            Finding(
                f"wiki/{_OUTDATED}",
                RULES[_OUTDATED],
                f"the wiki's page {change.name} is stale: {change.reason(printable)}",
                hint=f"write the pages again, and commit them: rlm-ci wiki --out {where}",
                evidence=_about(change, places.get(change.name, ()), before.get(change.name)),
                domain="docs",
                subject=change.name,
            )
            for change in stale
        )
        summary = f"{len(stale):,} of {count(len(pages.pages), 'page')} stale"
        if not stale:
            summary = f"{count(len(pages.pages), 'page')}, none stale"
        prose = pages.sentences.summary()
        summary += f" in {where}"
        summary += f"; {prose}" if prose else ""
        metrics = {"pages": len(pages.pages), "stale": len(stale), "prose": prose}
        return scope.with_closed(Part(self.name, summary, metrics, findings), corpus)


def _solved(
    todo: Refresh, agreed: RepositoryOptions, folder: str, redactor: Redactor
) -> NodeResult:
    shape = TreeShape(leaf_bytes=agreed.leaf_bytes, leaf_files=agreed.leaf_files)
    limits = Constraints(order=agreed.order, shape=shape)
    with Journals.open(os.path.join(folder, "rlm"), redactor=redactor) as store:
        rlm = RLM(todo.todo, store)
        return rlm.solve(rlm.root, todo.objective(), Budget(max_depth=agreed.max_depth), limits)


def _stale(
    pages: WikiPages, state: WikiState | None, believed: WikiState | None, folder: str
) -> Iterator[PageChange]:
    """The pages whose bytes in ``folder`` are others, and those that should not be there."""
    whys = {page_change.name: page_change for page_change in page_changes(state, pages.state)}
    for page in pages.pages:
        if not page.is_new:
            continue
        is_there = os.path.lexists(place_of(folder, page.name))
        old = believed.pages.get(page.name) if believed is not None else None
        change = whys.get(page.name)
        if change is not None and change.why == COMMIT and old is not None and old.commit:
            change = None  # the same content at a known commit: the file itself differs
        if old is not None and not is_there:
            change = PageChange(page.name, MISSING)
        elif change is None or (old is None and is_there):
            change = PageChange(page.name, EDITED)
        elif change.why == OTHER and state is not None and state.options != pages.state.options:
            change = PageChange(page.name, OPTIONS)
        yield change
    for page_change in whys.values():
        if page_change.why == GONE and os.path.lexists(place_of(folder, page_change.name)):
            yield page_change


def _about(
    change: PageChange, places: tuple[Location, ...], old: PageState | None
) -> tuple[Location, ...]:
    """Lines of the files that the reason names, those that the page does not cite yet first."""
    hashed_places = set(old.claims) if old is not None else set()
    locations = [location for location in places if location.path in change.paths]
    return tuple(
        sorted(locations, key=lambda location: claim_of(location) in hashed_places)[:_PLACES]
    )
