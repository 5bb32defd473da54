"""A deep review, put together from its systems: of a repository, or of a change in its context."""

from __future__ import annotations

from rlm_ci import publishing, suppressions
from rlm_ci.cli import output, pipelines, scope
from rlm_ci.cli.scope import Scope
from rlm_ci.cli.solving import Plan, Solving
from rlm_ci.errors import ConfigError
from rlm_ci.findings import INCOMPLETE, NOT_RUN, Part, Severity
from rlm_ci.publishing.links import Links
from rlm_ci.recursion import eligibility as why_not
from rlm_ci.recursion.objectives import review
from rlm_ci.recursion.review import export
from rlm_ci.recursion.review.analyzers import Analyzer, known
from rlm_ci.recursion.review.touched import changed_of
from rlm_ci.settings import CONFIG_FILES
from rlm_ci.texts import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.changes import ChangeSet
    from rlm_ci.cli.solving import Agreed, Done
    from rlm_ci.findings import Report, Subject
    from rlm_ci.models.recorded import Record
    from rlm_ci.recursion.corpus import Corpus
    from rlm_ci.runs.run import Run


#: Why a file is left out, where its own author has made it so.
_NO_EXCUSE = frozenset(
    (why_not.TOO_LARGE, why_not.OWN, why_not.BINARY, why_not.MISSING, why_not.UNREADABLE)
)


class Reviewing(Solving):
    """The pipeline ``review``."""

    name = export.PART

    def options(self, here: Scope) -> dict[str, Any]:
        settings = self.settings
        self.require_leave()
        change = scope.change_of(here, self.repository)
        return review.options(
            domains=settings.review.domains,
            analyzers=settings.review.analyzers,
            ruff=settings.review.ruff,
            refute_level=settings.review.refute_level,
            changed=None if change is None else changed_of(change),
        )

    def plan(self, run: Run, record: Record, agreed: Agreed, corpus: Corpus) -> Plan:  # noqa: ARG002 - the options say it all
        return Plan(corpus, review.Review(agreed.options))

    def without(self, part: Part, done: Done) -> Part:
        """A change cannot switch off who would look at a file by what it makes of it."""
        change = scope.change_of(done.agreed.scope, self.repository)
        if change is None:
            return part
        changed = frozenset(change.names())
        left = [
            path
            for path, why in done.corpus.omitted
            if path in changed and why.partition(":")[0] in _NO_EXCUSE
        ]
        rows = [Analyzer.from_dict(row) for row in done.agreed.options["analyzers"]]
        hidden = sorted(known(rows, left)) if rows else []
        if not hidden:
            return part
        told = f"{count(len(hidden), 'changed file')} not looked at, such as {hidden[0]}"
        return part.replace(state=INCOMPLETE, summary=printable(f"{part.summary}; {told}"))

    def require_leave(self) -> None:
        """Raise ConfigError where a work tree's own file names programs that nobody has allowed.

        The repository may be anybody's. On a change from outside the file is the base's.
        """
        settings = self.settings
        source = settings.sources["review.analyzers"]
        is_theirs = source.startswith(CONFIG_FILES) and not settings.config
        if not (settings.review.analyzers and is_theirs) or settings.sandbox == "none":
            return
        found = pipelines.changes_of(settings, self.repository)
        if any(one.policy_commit is None for one in found):
            names = ", ".join(row["name"] for row in settings.review.analyzers)
            raise ConfigError(
                f"the repository names programs to run: {names[:80]}",
                where=f"{source}, review.analyzers",
                hint="if you trust them to run as you, say --sandbox none",
            )

    def wants_model(self) -> bool:
        return bool(self.settings.review.model != "off")

    def corpus(self, agreed: Agreed) -> Corpus:
        """Of a change what it touches, and whom that concerns."""
        whole = super().corpus(agreed)
        change = scope.change_of(agreed.scope, self.repository)
        if change is None:
            return whole
        return whole.limited(self.concerned(agreed, whole, change.names()))

    def concerned(self, agreed: Agreed, whole: Corpus, changed: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - for who knows better
        """The files that a change concerns."""
        return concerned(whole, changed)

    def conclude(self, done: Done) -> Report:
        settings, result, agreed = self.settings, done.result, done.agreed
        if result is None:
            raise AssertionError("there is a result where there are files")
        part = export.part(result, agreed.options, agreed.model)
        if part.metrics["files"] and not part.metrics["looked"]:
            part = part.replace(state=part.state or NOT_RUN)
        part = self.without(part, done)
        paths = [file.path for file in done.corpus.files]
        unseen = export.unseen(paths, agreed.options, agreed.model, result)
        source = settings.sources["suppressions"]
        part = suppressions.apply(part, settings.suppressions, source)
        report = done.report(part, Severity.from_label(settings.fail_level), unseen=unseen)
        options = output.rendering(settings).replace(colour=False)
        links = Links(report.subject, options.server_url)
        title = agreed.scope.repository or agreed.scope.under or "the repository"
        texts = export.artifacts(
            result,
            report,
            title=title,
            sarif=lambda one: publishing.render(one, "sarif", options),
            link=links.place,
            redact=done.run.redactor.report,
            mask=done.run.redactor.text,
        )
        for name, text in texts.items():
            done.write(name, text)
        return report


class ReviewingChange(Reviewing):
    """The same for a change that is known already, whose settings are its base's.

    Where no model takes part, only what is changed is looked at: analyzers need no context.
    """

    change: ChangeSet
    subject: Subject

    def scope(self) -> Scope:
        change, subject = self.change, self.subject
        return Scope(
            commit=change.head,
            head=change.head,
            base=change.base,
            merge_base=change.merge_base,
            repository=subject.repository,
            pull_request=subject.pull_request,
            from_outside=scope.from_outside(self.settings, (change,)),
            **scope.looks(self.settings),
        )

    def concerned(self, agreed: Agreed, whole: Corpus, changed: Sequence[str]) -> Sequence[str]:
        return changed if agreed.model is None else concerned(whole, changed)

    def require_leave(self) -> None:
        """They are the base's."""


def concerned(corpus: Corpus, changed: Sequence[str]) -> list[str]:
    """The changed files, and those that import them, are called by them, or test them.

    A changed file that is not looked at is among them: why it is not, is to be told.
    """
    from rlm_ci.recursion.syntax.graph import Graph
    from rlm_ci.recursion.syntax.reading import outline

    known = [file for file in corpus.files if file.path in frozenset(changed)]
    if not known:
        return [*changed]
    contents = corpus.read(corpus.files)
    outlines = [
        outline(file.path, content) for file, content in zip(corpus.files, contents, strict=True)
    ]
    paths = [file.path for file in corpus.files]
    graph = Graph.of(outlines, paths)
    touching = graph.touching([file.path for file in known], outlines)
    return [*dict.fromkeys((*changed, *touching))]
