"""Which pages of a wiki are stale: ``rlm-ci wiki --check``, and what ``pr`` says of a change.

All pages are made as a run without a model makes them, in memory, and compared. What ``wiki.json``
says of itself is not believed: a change may bring any.
"""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git.history import GitHistory
from rlm_ci.pipelines.repository import plan
from rlm_ci.pipelines.repository.attempt import options_of
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Report, Severity
from rlm_ci.source.grammars import lacking
from rlm_ci.source.languages import language
from rlm_ci.system import files, installation
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.wiki.pages.build import INDEX
from rlm_ci.wiki.pages.citations import claim_of
from rlm_ci.wiki.pages.facts_page import FACTS
from rlm_ci.wiki.run import HISTORY, WikiJob, stale_pages
from rlm_ci.wiki.update import refresh
from rlm_ci.wiki.update.state import NAME as STATE
from rlm_ci.wiki.update.state import OPTIONS, PageChange, WikiState, is_page, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.pipelines.repository.plan import RepositoryOptions, RepositoryScope
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.wiki.pages.build import WikiPages
    from rlm_ci.wiki.update.state import PageState

#: The rules of ``--check`` and of a change.
_OUTDATED, _STALE = "outdated", "stale"
RULES = {_STALE: Severity.INFO, _OUTDATED: Severity.HIGH}
#: Places that a finding shows.
_PLACES = 5
#: Bytes of a page, or of what is known of all.
_LIMIT = 64 << 20
_DEEPEN = "fetch all of it: fetch-depth: 0 of actions/checkout, git fetch --unshallow"


class WikiComparison(Value):
    """Pages as they would be made, and those of a folder, of ``state``, that are stale."""

    pages: WikiPages
    state: WikiState | None
    stale: tuple[PageChange, ...]
    corpus: Corpus

    def digest_of(self, name: str) -> str:
        """A hash of what a page would say, "" for one that would not be there."""
        page = self.pages.state.pages.get(name)
        return page.digest if page is not None else ""

    def part(self, name: str, rule: str, hint: str, chosen: Sequence[PageChange]) -> Part:
        """A part with a finding for each of the ``chosen`` stale pages."""
        places = {page.name: page.evidence for page in self.pages.pages}
        before = self.state.pages if self.state is not None else {}
        findings = tuple(
            Finding(
                f"wiki/{rule}",
                RULES[rule],
                f"the wiki's page {change.name} is stale: {change.reason(printable)}",
                hint=hint,
                evidence=_about(change, places.get(change.name, ()), before.get(change.name)),
                domain="docs",
                subject=change.name,
            )
            for change in chosen
        )
        pages = count(len(self.pages.pages), "page")
        summary = f"{len(chosen):,} of {pages} stale" if chosen else f"{pages}, none stale"
        metrics = {"pages": len(self.pages.pages), "stale": len(chosen)}
        return Part(name, summary, metrics, findings)


class WikiCheck(WikiJob):
    """Compares; it writes nothing, and asks no model."""

    #: Where to look, where that is not what the settings name; and the folder of the pages.
    _scope: RepositoryScope | None = None
    _pages = ""

    def wants_model(self) -> bool:
        return False

    def scope(self) -> RepositoryScope:
        return self._scope or super().scope()

    def _out(self) -> str | None:
        return self._pages

    def compared(self, redactor: Redactor) -> Report:
        """A finding for each page that a run would write again, or remove.

        Raises UsageError, ConfigError, DamagedError, StorageError.
        """
        self._pages = folder = self._compared_folder()
        agreed = options_of(self)
        area = agreed.scope
        if area.commit is not None and self.repository.is_shallow():
            raise ConfigError(
                "the clone is shallow: the pages cannot be compared, as they tell of the history",
                where="--check",
                hint=_DEEPEN,
            )
        self._require_wiki(folder)
        with TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True) as work:
            comparison = self._comparison(agreed, folder, work, redactor)
        where = printable(os.path.relpath(folder, self._root()))
        hint = f"write the pages again, and commit them: rlm-ci wiki --out {where}"
        part = comparison.part(self.name, _OUTDATED, hint, comparison.stale)
        prose = comparison.pages.sentences.summary()
        summary = f"{part.summary} in {where}" + (f"; {prose}" if prose else "")
        part = part.replace(summary=summary, metrics={**part.metrics, "prose": prose})
        level = Severity.from_label(self.settings.fail_level)
        part = plan.with_closed(part, comparison.corpus)
        return redactor.report(Report(area.subject(), level, (part,)))

    def of_change(self, change: ChangeSet, repository: str | None, redactor: Redactor) -> Part:
        """The pages that are stale once ``change`` is in, but for those that were so before.

        The pages of its head are compared with its sources, as ``compared`` does; where some are
        stale, those of the merge base as well. A shallow clone has not the history that pages tell
        of: none is compared, and the part says so. Raises as ``compared``.
        """
        if self.repository.is_shallow():
            return self._not_compared(
                f"the clone is shallow, and pages tell of the history; {_DEEPEN}"
            )
        folder = self._folder()
        self._pages = place_of(self._root(), folder)
        sides: list[WikiComparison] = []
        with TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True) as work:
            for commit in filter(None, (change.head, change.merge_base)):
                self._scope = plan.RepositoryScope(
                    commit=commit, head=commit, repository=repository, **plan.looks(self.settings)
                )
                agreed = options_of(self)
                pages = os.path.join(work, commit)
                if not self._extracted(commit, folder, pages):
                    return Part(self.name, "the change removes the wiki", {"pages": 0, "stale": 0})
                sides.append(self._comparison(agreed, pages, work, redactor))
                if not sides[0].stale:
                    break
        head, *before = sides
        options = head.pages.state.options
        if any(side.state is None or side.state.options != options for side in sides):
            return self._not_compared(f"{OPTIONS}, or by another version")
        earlier = {(page.name, base.digest_of(page.name)) for base in before for page in base.stale}
        stale = [
            page for page in head.stale if (page.name, head.digest_of(page.name)) not in earlier
        ]
        hint = "write the pages again, or leave it to the next refresh: rlm-ci wiki"
        part = head.part(self.name, _STALE, hint, stale)
        notes = [part.summary]
        if len(stale) < len(head.stale):
            notes.append(f"{count(len(head.stale) - len(stale), 'other')} stale before the change")
        if missing := lacking({language(file.path) for file in change.files()}):
            notes.append(
                f"files in {', '.join(missing)} were not compared, as grammars are not installed: "
                f"{installation.command('wiki')}"
            )
        part = plan.with_closed(part.replace(summary="; ".join(notes)), head.corpus)
        places = sum(len(finding.evidence) for finding in part.findings)
        return part.replace(evidence=Evidence(places, places))

    def _not_compared(self, why: str) -> Part:
        return Part(self.name, f"not compared: {why}", {"enabled": False}, enabled=False)

    def _extracted(self, commit: str, folder: str, place: str) -> bool:
        """Write the pages of a commit to ``place``; whether there are any."""
        tree = self.repository.tree(commit)
        names = [
            path.removeprefix(f"{folder}/")
            for path, entry in tree.items()
            if path.startswith(f"{folder}/") and entry.is_file
        ]
        names = [name for name in names if name == STATE or is_page(name)]
        oids = [tree[f"{folder}/{name}"].oid for name in names]
        files.make_folder(os.path.join(place, "modules"))
        for name, data in zip(names, self.repository.read_small(oids, _LIMIT), strict=True):
            if data is not None:
                files.write(place_of(place, name), data)
        return STATE in names

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
        return str(settings.out or place_of(self._root(), self._folder()))

    def _require_wiki(self, folder: str) -> None:
        files.require_inside(self.repository.root, place_of(folder, INDEX))
        if not os.path.lexists(place_of(folder, STATE)):
            raise ConfigError(
                "there is no wiki to check",
                where=printable(folder),
                hint="write it with rlm-ci wiki --out DIR, or name its folder with --out",
            )

    def _comparison(
        self, agreed: RepositoryOptions, folder: str, work: str, redactor: Redactor
    ) -> WikiComparison:
        """``work`` is a folder of ours: no cache is believed, as a change may bring one.

        So all files are read at once, and nothing is left to a recursion.
        """
        state = WikiState.read(folder)
        corpus, area = self.corpus(agreed), agreed.scope
        looks, believed = self._looks(area), self._believed(folder, area)
        pages = refresh.finish(
            refresh.plan(
                corpus,
                state,
                cache=work,
                settle=lambda _unknown: [],
                under=area.under,
                outside=looks.outside,
            ),
            None,
            looks,
            chronicle=self._chronicle(believed, area.commit),
            state=believed,
            folder=folder,
            cache=work,
            model=None,
            mask=redactor.text,
        )
        stale = tuple(stale_pages(pages, state, believed, folder))
        return WikiComparison(pages, state, stale, corpus)

    def _chronicle(self, state: WikiState | None, commit: str | None) -> GitHistory | None:
        """The history that the page of facts told of: new commits alone make no page stale."""
        if commit is None:
            return None
        page = state.pages.get(FACTS) if state is not None else None
        at = page.commit if page is not None and page.commit else commit
        return GitHistory.of(self.repository, at, HISTORY)


def _about(
    change: PageChange, places: tuple[Location, ...], old: PageState | None
) -> tuple[Location, ...]:
    """Lines of the files that the reason names, those that the page does not cite yet first."""
    hashed_places = set(old.claims) if old is not None else set()
    locations = [location for location in places if location.path in change.paths]
    return tuple(
        sorted(locations, key=lambda location: claim_of(location) in hashed_places)[:_PLACES]
    )
