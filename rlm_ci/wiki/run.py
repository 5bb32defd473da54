"""A wiki of the repository, put together from its systems, and brought to where it is read."""

from __future__ import annotations

import os

from rlm_ci.console.messages import warn
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.git.history import GitHistory
from rlm_ci.judge.options import access_of
from rlm_ci.pipelines.repository import plan
from rlm_ci.pipelines.repository.attempt import RepositoryJob
from rlm_ci.pipelines.repository.plan import RecursionPlan
from rlm_ci.recursion.coverage import refusal
from rlm_ci.recursion.nodes import FAILED, PARTIAL
from rlm_ci.report.findings import (
    INCOMPLETE,
    NOT_RUN,
    Document,
    Evidence,
    Location,
    Part,
    Severity,
    Usage,
)
from rlm_ci.runs.checksums import EVENTS
from rlm_ci.source.grammars import lacking
from rlm_ci.source.languages import language
from rlm_ci.system import files, installation
from rlm_ci.system.lock import exclusive
from rlm_ci.text.printable import count, printable
from rlm_ci.wiki import static_site
from rlm_ci.wiki.deliver import (
    PR,
    RefreshCost,
    WikiTarget,
    checked_folder,
    checked_target,
    last_pages,
    push,
)
from rlm_ci.wiki.facts import dependencies
from rlm_ci.wiki.facts.dependencies import OuterProject
from rlm_ci.wiki.objective import NAME, WikiObjective
from rlm_ci.wiki.pages.build import PageOptions
from rlm_ci.wiki.pages.citations import LinkDestination, gitlab_project
from rlm_ci.wiki.update import refresh
from rlm_ci.wiki.update.kept_prose import Sentences, doubted_in
from rlm_ci.wiki.update.state import (
    COMMIT,
    EDITED,
    GONE,
    MISSING,
    OPTIONS,
    OTHER,
    PageChange,
    WikiState,
    page_changes,
    place_of,
)
from rlm_ci.wiki.update.state import NAME as STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.repository.plan import RecursionResult, RepositoryOptions, RepositoryScope
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.run import Run
    from rlm_ci.wiki.pages.build import WikiPages

#: Of a run: the pages as they were before it.
BEFORE = "before"
_PLACE = ("rlm", "artifacts", NAME)
_LIMIT = 256 << 20
#: Commits of the history that are looked at.
HISTORY = 2_000
#: Sentences that are named on the terminal when they go.
_NAMED = 10


class WikiJob(RepositoryJob):
    """The pipeline ``wiki``."""

    name = NAME
    _kept: str | None = None
    _work: refresh.Refresh | None = None
    _made: WikiPages | None = None

    def options(self, scope: RepositoryScope) -> dict[str, Any]:  # noqa: ARG002 - they follow from the plan
        return {}

    def wants_model(self) -> bool:
        return bool(self.settings.wiki.prose)

    def corpus(self, agreed: RepositoryOptions) -> Corpus:
        """Everything but the pages of an earlier run: they are no source of themselves."""
        area, out = agreed.scope, self._out()
        folders = [self._folder()]
        if out:
            folders.append(files.below(self._root(), os.path.realpath(out)) or "")
        patterns = [f"/{folder}/" for folder in folders if folder and self._is_wiki(area, folder)]
        bounds = area.replace(exclude=(*area.exclude, *patterns))
        corpus = super().corpus(agreed.replace(scope=bounds))
        missing = lacking({language(file.path) for file in corpus.files})
        if missing:
            warn(
                UnavailableError(
                    f"{', '.join(missing)}: counted, but not read, as grammars are not installed",
                    where=self.name,
                    hint=installation.command("wiki"),
                )
            )
        return corpus

    def plan(
        self, run: Run, record: Record, agreed: RepositoryOptions, corpus: Corpus
    ) -> RecursionPlan:
        """What has to be read again, given the pages as they were when the run began."""
        self._kept = before = self._before(run, record)
        state = WikiState.read(before) if before else None
        looks = self._looks(agreed.scope)
        self._work = None
        is_silent = agreed.model is None  # else sentences may be missing
        cache = self._cache()

        def compared() -> Mapping[str, Any]:
            inputs = corpus.digest, looks.digest(), before or ""
            return {"is": bool(before and state and state.covers(*inputs, cache=cache))}

        # A fact, as what is kept between runs may know something else by the time of a replay.
        if is_silent and record.fact("unchanged", "start", {}, compared)["is"]:
            return RecursionPlan(corpus.limited(()), WikiObjective())

        def settle(unknown: list[list[int]]) -> list[list[int]]:
            unread = record.shaped("unread", "start", {}, lambda: {"files": unknown}, _runs)
            # Without a model, a replay can also read files that the cache has lost since.
            return [*unread, *unknown] if self.replay and is_silent else unread

        self._work = refresh.plan(
            corpus,
            state,
            cache=cache,
            model=agreed.model,
            settle=settle,
            under=agreed.scope.under,
            outside=looks.outside,
        )
        concurrency = self.settings.recursion.concurrency
        return RecursionPlan(self._work.todo, self._work.objective(concurrency))

    def conclude(self, done: RecursionResult) -> Report:
        level = Severity.from_label(self.settings.fail_level)
        if self._work is None:
            return self._unchanged(done, level)
        agreed, before = done.agreed, self._kept
        commit = agreed.scope.commit
        believed = self._believed(before, agreed.scope)
        self._made = pages = refresh.finish(
            self._work,
            done.result,
            self._looks(agreed.scope),
            chronicle=GitHistory.of(self.repository, commit, HISTORY) if commit else None,
            state=believed,
            folder=before,
            cache=self._cache(),
            model=agreed.model,
            mask=done.run.redactor.text,
        )
        gone = pages.sentences.rows()
        for number, row in enumerate(gone):
            if number < _NAMED:
                self._show_line(done.run, row)
            else:
                done.run.event("progress", {"summary": row})
        if len(gone) > _NAMED:
            others = count(len(gone) - _NAMED, "other")
            self.progress.say(f"and {others}: see {done.run.shown(EVENTS)}")
        for page in pages.pages:
            done.write(page.name, page.text)
        files.write(done.run.path_of(*_PLACE, STATE), pages.state.pieces(), 0o600)
        # Their number alone: the claims of the state before are not held for it.
        new = sum(1 for _ in stale_pages(pages, believed, believed, before))
        part = self._part(done, pages, new)
        offered = sum(len(page.evidence) for page in pages.pages)
        counts = part.evidence or Evidence()
        return done.report(
            part,
            level,
            documents=tuple(page.document() for page in pages.pages),
            evidence=counts.replace(
                offered=counts.offered + offered, verified=counts.verified + offered
            ),
        )

    def _unchanged(self, done: RecursionResult, level: Severity) -> Report:
        if self._kept is None or (state := WikiState.read(self._kept)) is None:
            raise AssertionError("nothing is unchanged that was not there")
        documents = []
        for name in (STATE, *state.pages):
            data = files.read(place_of(self._kept, name), _LIMIT)
            files.write(done.run.path_of(*_PLACE, *name.split("/")), data, 0o600)
            if name in state.pages:
                places = tuple(
                    Location(path, start, end, blob=state.blobs.get(path))
                    for (path, start, end), _ in state.pages[name].claims
                )
                text = data.decode("utf-8", "replace")
                documents.append(Document(f"artifacts/wiki/{name}", text, places))
        number = sum(len(document.evidence) for document in documents)
        pages = count(len(documents), "page")
        sentences = sum(len(entry.said) for entry in state.prose.values())
        prose = Sentences(retained=sentences, doubted=doubted_in(state.prose)).summary()
        part = Part(
            NAME,
            f"{pages}, nothing new: no file changed",
            {"pages": len(documents), "new": 0, "claims": number, "prose": prose},
        )
        evidence = Evidence(number, number, 0, 0)
        return done.report(part, level, documents=tuple(documents), evidence=evidence)

    def deliver(self, run: Run) -> None:
        """Raises StorageError, RemoteError, ConfigError, UnavailableError."""
        settings = self.settings.wiki
        source = os.path.dirname(run.path_of(*_PLACE, STATE))
        if settings.out:
            with exclusive(settings.out):  # two wikis at once: each writes all of its pages
                touched = self._made.write(settings.out) if self._made else ()
            outcome = f"{count(len(touched), 'file')} written" if touched else "nothing new"
            self._leaves(run, f"{printable(files.shown_path(settings.out))}: {outcome}")
        if settings.site:
            pages = static_site.build(source, settings.site, self.settings.environ)
            site = printable(files.shown_path(settings.site))
            self._leaves(run, f"site: {site}, {count(pages, 'page')}")
        if not (settings.out or settings.site or settings.push):
            self.places.append(f"pages: {files.shown_path(run.path_of(*_PLACE, 'index.md'))}")
        if settings.push:
            for line in push(self._delivery(), self.repository, source, self._cost()):
                self._leaves(run, line)

    def _cost(self) -> RefreshCost:
        dropped = self._made.sentences.dropped if self._made is not None else ()
        usage = self.report.usage if self.report is not None else Usage()
        return RefreshCost(usage, {sentence.text: why for sentence, (why, _) in dropped})

    # ── where it goes ──

    def _out(self) -> str | None:
        """The folder for the pages, if they go to one."""
        out: str | None = self.settings.wiki.out
        return out

    def _folder(self) -> str:
        return checked_folder(self.settings.wiki.folder, self.settings.sources["wiki.folder"])

    def _delivery(self) -> WikiTarget:
        settings = self.settings
        return WikiTarget(
            checked_target(settings.wiki.target, settings.sources["wiki.target"]),
            self._folder(),
            settings.github.repository or "",
            access_of(settings),
            settings.environ,
        )

    def _root(self) -> str:
        return os.path.realpath(self.repository.root)

    def _is_wiki(self, scope: RepositoryScope, folder: str) -> bool:
        path = f"{folder}/{STATE}"
        if scope.commit is not None:
            return self.repository.sizes([f"{scope.commit}:{path}"])[0] >= 0
        return os.path.isfile(os.path.join(self.repository.root, *path.split("/")))

    def _leaves(self, run: Run, line: str) -> None:
        self.places.append(line)
        run.event("progress", {"summary": line})

    def _show_line(self, run: Run, line: str) -> None:
        self.progress.say(line)
        run.event("progress", {"summary": line})

    def _cache(self) -> str:
        """Facts of files, by content: it may be deleted at any time."""
        return os.path.join(self.skipped[0], ".cache", NAME)

    def _before(self, run: Run, record: Record) -> str | None:
        """The pages as they were when the run began; None where there were none."""
        state_path = run.path_of("rlm", BEFORE, STATE)
        if self.replay:
            state_path = os.path.join(os.path.dirname(self.replay), "rlm", BEFORE, STATE)

        def produce() -> Mapping[str, Any]:
            pages = self._existing_pages()
            for name, data in pages.items():
                files.write(run.path_of("rlm", BEFORE, *name.split("/")), data, 0o600)
            return {"pages": len(pages)}

        fact = record.fact("before", "start", {}, produce)
        return os.path.dirname(state_path) if fact["pages"] else None

    def _existing_pages(self) -> dict[str, bytes]:
        """The pages that are where this run is to bring its own."""
        settings = self.settings.wiki
        for folder in (settings.out, settings.site):
            if folder:  # a repository may bring a link that leads elsewhere
                files.require_inside(self.repository.root, os.path.join(folder, "index.md"))
        if settings.push:
            return last_pages(self._delivery(), self.repository)
        folder = settings.out or settings.site
        state = WikiState.read(folder) if folder else None
        if settings.out and state is None and os.path.lexists(os.path.join(folder, "index.md")):
            raise ConfigError(  # before a model costs anything; other pages are checked later
                "index.md would be overwritten, but rlm-ci did not write it",
                where=printable(folder),
                hint="name another folder, or move the existing files away",
            )
        if state is None:
            return {}
        names = (STATE, *state.pages) if settings.out else (STATE,)  # a site has the state alone
        read = ((name, files.read_or_none(place_of(folder, name), _LIMIT)) for name in names)
        return {name: data for name, data in read if data is not None}  # what is gone is made again

    def _believed(self, before: str | None, scope: RepositoryScope) -> WikiState | None:
        """The pages' state, without commits that are no ancestors: a change could name any."""
        state = WikiState.read(before) if before else None
        if state is None:
            return None
        commits = {page.commit for page in state.pages.values() if page.commit}
        if scope.commit is not None and commits:
            existing = [oid for oid in self.repository.resolve(*commits) if oid]
            head = scope.commit
            commits = {oid for oid in existing if self.repository.merge_base(oid, head) == oid}
        return state.summed_up(commits)

    def _looks(self, scope: RepositoryScope) -> PageOptions:
        repository_name = (scope.repository or "").rpartition("/")[2]
        name = repository_name or os.path.basename(self._root())
        title = f"{name}: {scope.under}" if scope.under else name
        return PageOptions(
            title,
            self._target(scope),
            is_guess=not (repository_name or scope.under),
            outside=self._outside(scope) if scope.under else None,
        )

    def _outside(self, repository: RepositoryScope) -> OuterProject:
        """The names of what is not looked at: they are no packages of others."""
        if repository.commit is not None:
            return OuterProject.at_commit(self.repository, repository.commit, repository.under)
        if self.repository.git_dir:
            every = dependencies.listed(self.repository)
        else:
            corpus = plan.corpus(repository.replace(under=""), self.repository, self.skipped)
            every = [file.path for file in corpus.files]
        return OuterProject.on_disk(self.repository, every, repository.under)

    def _target(self, scope: RepositoryScope) -> LinkDestination:
        server = access_of(self.settings).server_url
        out, root = self._out(), self._root()
        base = ""  # what is not beside its sources leads nowhere
        if out:
            real = os.path.realpath(out)
            if files.below(root, real) is not None:
                base = os.path.relpath(root, real).replace(os.sep, "/")
        elif self.settings.wiki.push and self.settings.wiki.target == PR:
            base = "/".join([".."] * len(self._folder().split("/")))
        if scope.repository:
            return LinkDestination(server, scope.repository, base)
        remote = f"remote.{self.repository.remote()}.url" if self.repository.git_dir else ""
        gitlab = gitlab_project(self.repository.config(remote)) if remote else None
        return (
            LinkDestination(*gitlab, base, is_gitlab=True) if gitlab else LinkDestination(base=base)
        )

    def _part(self, done: RecursionResult, pages: WikiPages, new: int) -> Part:
        """``new`` is the number of pages that were stale."""
        result = done.result
        claims = sum(len(page.evidence) for page in pages.pages)
        state = None
        summary = f"{count(len(pages.pages), 'page')}, {count(claims, 'claim')}"
        summary += f", {count(new, 'page')} new, rewritten or removed" if new else ", nothing new"
        prose = pages.sentences.summary()
        summary += f"; {prose}" if prose else ""
        if result is not None and result.status == FAILED:
            state, summary = NOT_RUN, result.summary
        elif result is not None and (result.status == PARTIAL or result.uncovered):
            state = INCOMPLETE
            missing = len({path for path, _ in result.uncovered if path})
            summary += f"; {count(missing, 'file')} not looked at in full" if missing else ""
            whys = [why.partition(": ")[2] for path, why in result.uncovered if not path]
            summary += f"; about the whole: {printable(whys[0])}" if whys else ""
        metrics = {
            "pages": len(pages.pages),
            "new": new,
            "claims": claims,
            "prose": prose,
            "files": len(done.corpus.files),
            "model": done.agreed.model,
        }
        counts = result.counts if result else None
        error = refusal(result) if result else None
        part = Part(NAME, summary, metrics, state=state, error=error, evidence=counts)
        return plan.with_closed(part, done.corpus)


def _runs(row: Mapping[str, Any]) -> list[list[int]]:
    return [[int(first), int(last)] for first, last in row["files"]]


def stale_pages(
    pages: WikiPages, state: WikiState | None, believed: WikiState | None, folder: str | None
) -> Iterator[PageChange]:
    """The pages whose bytes in ``folder`` are others, and those that should not be there.

    ``state`` is that of the folder, ``believed`` the same without commits that are no ancestors.
    """
    whys = {page_change.name: page_change for page_change in page_changes(state, pages.state)}
    for page in pages.pages:
        if not page.is_new:
            continue
        is_there = bool(folder) and os.path.lexists(place_of(folder or "", page.name))
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
        place = place_of(folder or "", page_change.name)
        if page_change.why == GONE and folder and os.path.lexists(place):
            yield page_change
