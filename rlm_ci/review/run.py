"""A deep review of a repository, or of a change in its context."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.judge import config_file
from rlm_ci.judge.options import endpoint_of, output_of
from rlm_ci.models.gateway import SETTING
from rlm_ci.pipelines import load
from rlm_ci.pipelines.repository import plan
from rlm_ci.pipelines.repository.attempt import RepositoryJob
from rlm_ci.pipelines.repository.plan import RecursionPlan, RepositoryScope
from rlm_ci.recursion.corpus import eligibility as why_not
from rlm_ci.recursion.prompt_windows import LEAST
from rlm_ci.report import render, suppressions
from rlm_ci.report.findings import ENDED, INCOMPLETE, LATE, NOT_RUN, Part, Severity
from rlm_ci.report.links import Links
from rlm_ci.report.overview.changes import ModelWords
from rlm_ci.review import guidelines, objective, prover
from rlm_ci.review.analyzers.from_repository import AUTO, AnalyzerContext, not_asked
from rlm_ci.review.analyzers.programs import Analyzer
from rlm_ci.review.analyzers.ruff_settings import settings_at
from rlm_ci.review.analyzers.run import paths_looked_at
from rlm_ci.review.analyzers.sandboxed import AnalyzerUnavailableError, available
from rlm_ci.review.change import carry_over, previous_review, review_rounds
from rlm_ci.review.change.base_comparison import changed_of, is_moved_with_file, restored
from rlm_ci.review.change.carry_over import TOO_MUCH, CarriedReview, pack
from rlm_ci.review.change.doubts import shown, terms_of
from rlm_ci.review.change.review_rounds import ReviewRound
from rlm_ci.review.change_prompts.prompts import near_of, part_of, prompts_of
from rlm_ci.review.exploration.depth import depth_of, explorer_of, with_room
from rlm_ci.review.exploration.explorer import NO_TOOLS, QUICK, NodeQuestions
from rlm_ci.review.model import metered
from rlm_ci.review.model.describe import WORDS, overview_of
from rlm_ci.review.model.finder import accepted_bytes, room_for_change, source_of
from rlm_ci.review.model.reproduce import EarlierClaim
from rlm_ci.review.results import report as results_report
from rlm_ci.source.languages import OTHER, language
from rlm_ci.system import installation
from rlm_ci.text import dates
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.workspace.dependencies.ignored import dependency_folders
from rlm_ci.workspace.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.repository.plan import RecursionResult, RepositoryOptions
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.report.details.claim_mark import Settlement
    from rlm_ci.report.findings import Report, Subject
    from rlm_ci.review.change.affected_files import AffectedFiles
    from rlm_ci.review.change.previous_review import PreviousReviews
    from rlm_ci.review.change_prompts.listing import ChangePrompts
    from rlm_ci.runs.run import Run


#: The mode of a submodule.
_SUBMODULE, _LINK = "160000", "120000"
#: Among the first of these files, bytes of one whose first line may name its language.
_FIRST_LINES, _SCRIPT = 500, 1 << 20
#: Notes on the repository's own analyzers in the summary.
_NOTES = 3
#: Reasons to leave a file out that its author can cause.
_NO_EXCUSE = frozenset(
    (why_not.TOO_LARGE, why_not.OWN, why_not.BINARY, why_not.MISSING, why_not.UNREADABLE)
)


class ReviewJob(RepositoryJob):
    """The pipeline ``review``."""

    name = results_report.PART
    _near: AffectedFiles | None = None

    _held: ExitStack

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        with ExitStack() as self._held:
            return super().__call__(run, goal)

    def options(self, repository: RepositoryScope) -> dict[str, Any]:
        settings = self.settings
        change = plan.change_of(repository, self.repository)
        has_one = has_model(settings, repository)
        depth, why = depth_of(
            settings.review.depth if has_one else QUICK,
            settings.sandbox,
            by_default=settings.sources["review.depth"] == "default",
            is_change=change is not None,
            is_git=bool(self.repository.git_dir),
            may_write=self.may_write(),
        )
        terms = objective.options(
            domains=settings.review.domains,
            analyzers=() if self.is_own() else settings.review.analyzers,
            ruff=settings.review.ruff,
            sandbox=settings.sandbox,
            extend=settings.values["review.ruff.extend"],
            repair_level=settings.review.repair_level,
            changed=None if change is None else changed_of(change),
            depth=depth,
            notes=[why] if why else [],
        )
        if self.is_own() and self.may_write():
            terms = objective.with_own(terms, self._analyzer_context(repository, change))
        if has_one:
            accepted = {"entries": settings.suppressions, "day": dates.today(), "settled": []}
            terms = {
                **terms,
                "guidelines": self._guidelines(repository, change),
                "accepted": accepted,
            }
        proofs, setup = settings.review.proofs, settings.loop.setup
        validator = settings.loop.validator
        proofs = prover.options(proofs, setup, validator, change, may_write=self.may_write())
        terms = {**terms, "proofs": proofs, "describe": settings.review.describe}
        if change is None:
            return terms
        settings_files = settings_at(self.repository, change.names(), change.base)
        terms = {**terms, "settings": settings_files}
        return objective.with_base(terms, change, repository.max_file_bytes)

    def fitted(self, agreed: RepositoryOptions) -> RepositoryOptions:
        """``agreed`` with a depth that has room in its prompts, and why it is less than wanted."""
        options, wanted_depth = agreed.options, agreed.options["depth"]
        wishes = guidelines.Guidelines(options.get("guidelines", ()))
        description = shown(options.get("description"), accepted_bytes(agreed.repair))
        depth = with_room(wanted_depth, agreed.prompt_bytes, agreed.repair, wishes, description)
        if depth == wanted_depth:
            return agreed
        lost = "guidelines and the description" if description else "guidelines"
        lost = "tools" if depth else lost
        depth = depth or with_room(QUICK, agreed.prompt_bytes, agreed.repair)
        why = f"prompts of {agreed.prompt_bytes:,} bytes have no room for "
        why += f"{lost}, so the review is {depth}" if depth else "a change"
        why += f" ({SETTING}, recursion.prompt_bytes)"
        self.progress.say(why)
        options = {**options, "depth": depth or QUICK, "notes": [*options["notes"], why]}
        if lost != "tools":
            empty: dict[str, Any] = {"guidelines": [], "description": {}}
            options |= {name: empty[name] for name in empty if name in options}
        return agreed.replace(options=options)

    def _guidelines(self, scope: RepositoryScope, change: ChangeSet | None) -> list[dict[str, Any]]:
        """What the maintainers wish for; never as the head of a pull request has it."""
        rows, repository = self.settings.review.guidelines, self.repository
        commit, side = scope.commit, "new"
        if change is not None:
            commit, side = scope.merge_base or scope.base, "old"
        elif changes := load.changes_of(self.settings, repository):
            policy = changes[0].policy_commit
            commit, side = (policy, "") if policy else (commit, side)
        wishes = []
        if at := commit or (repository.git_dir and repository.head_commit()):
            names = None if change is None else change.names()
            wishes = guidelines.in_files(repository, at, names, side)
            wishes = wishes if commit else guidelines.on_disk(repository, wishes)
        pointed = commit if side else None
        return guidelines.stored_guidelines(
            [*guidelines.in_settings(repository, pointed, rows, side), *wishes]
        )

    def is_own(self) -> bool:
        """Whether the repository's own analyzers are asked for."""
        return bool(self.settings.review.analyzers == AUTO)

    def may_write(self) -> bool:
        """Whether files of what is reviewed may be written to the disk."""
        return True

    def _analyzer_context(
        self, scope: RepositoryScope, change: ChangeSet | None
    ) -> AnalyzerContext:
        repository = self.repository
        if not repository.git_dir:
            raise ConfigError(
                "a repository's own analyzers are those of a git repository",
                where="review.analyzers",
                hint="leave auto out, or name the programs: [[review.analyzers]]",
            )
        self.progress.step("asking the repository's own analyzers")
        head = Tree.at(repository, scope.commit)
        return AnalyzerContext(
            repository.root,
            head if change is None else Tree.at(repository, change.base),
            head,
            None if change is None else Tree.at(repository, change.merge_base),
            None if change is None else frozenset(change.names()),
            tuple(dependency_folders(repository.root)),
            self.settings.sandbox,
        )

    def plan(
        self,
        run: Run,
        record: Record,
        agreed: RepositoryOptions,
        corpus: Corpus,
    ) -> RecursionPlan:
        is_off = self.settings.review.ruff == "off"
        if agreed.model is None and not agreed.options["analyzers"] and not is_off:
            raise UnavailableError(
                "nothing can review: ruff is not installed, "
                "and neither another analyzer nor a model is set",
                where="review.ruff",
                hint=installation.command("review"),
            )
        options = self._confine(run, agreed)
        if agreed.scope.base is None:
            paths = [file.path for file in corpus.files]
            settings = settings_at(self.repository, paths, agreed.scope.commit)
            options = {**options, "settings": settings}
        change = plan.change_of(agreed.scope, self.repository)
        if change is not None:
            options = _by_true_names(options, change, run)
        has_prompts = change is not None and agreed.model is not None
        all_files = self.affected_files(agreed.scope).corpus if has_prompts else corpus
        sandbox, environ = self.settings.sandbox, self.settings.environ
        stack, is_replay = self._held, bool(self.replay)
        tell = self.progress.step
        site = prover.ProverPlace(sandbox, environ, change, run, record, stack, is_replay, tell)
        claims = prover.prover(site, options, all_files)
        explorer = None
        if agreed.model is not None and agreed.options.get("depth", QUICK) != QUICK:
            context = explorer_of(agreed, self.repository, record.fact, all_files, claims.runner)
            explorer = self._held.enter_context(context)
        prompt_bytes = NodeQuestions(explorer).prompt_bytes(agreed.prompt_bytes)
        prompts = self.prompts(agreed, options, prompt_bytes)
        parts = (
            [part_of(prompt, self.affected_files(agreed.scope)) for prompt in prompts.prompts]
            if prompts
            else ()
        )
        if explorer is not None and parts:
            times = metered.times_of(agreed.options["changed"])
            explorer.limits = explorer.limits.shared(len(parts), times)
        review = objective.ReviewObjective(options, explorer, prompts, claims)
        return RecursionPlan(corpus, review, tuple(parts))

    def prompts(
        self, agreed: RepositoryOptions, options: Mapping[str, Any], limit: int
    ) -> ChangePrompts | None:
        """What a model is asked about a change, in prompts of at most ``limit`` bytes."""
        change = plan.change_of(agreed.scope, self.repository)
        if change is None or agreed.model is None:
            return None
        self.progress.step("reading the change")
        wishes = guidelines.Guidelines(options.get("guidelines", ()))
        description = shown(options.get("description"), accepted_bytes(agreed.repair))
        room = room_for_change(limit, agreed.repair, wishes, description)
        onward = options.get("onward") or {}
        described = (onward.get("words") or {}).get("files")
        files = self.affected_files(agreed.scope)
        unread = onward.get("unread_files", onward.get("asked"))  # so records of before call it
        return prompts_of(
            change,
            files,
            agreed.scope,
            room,
            unread,
            described=described,
            minimum=2 * min(LEAST, agreed.repair),
        )

    def affected_files(self, scope: RepositoryScope) -> AffectedFiles:
        """All files at the head, as a change affects them."""
        if self._near is None:
            self._near = near_of(scope, self.repository, self.skipped)
        return self._near

    def without(self, part: Part, done: RecursionResult) -> Part:
        """A change cannot hide its files from the analyzers, by their size for instance.

        In a review of a repository, all that could not be read counts.
        """
        change = plan.change_of(done.agreed.scope, self.repository)
        if change is None:
            return plan.with_closed(part, done.corpus)
        if done.result is None and part.state is None:  # the change leaves no file
            return not_looked_at(part.summary, change, has_auto=self._has_auto)
        changed = frozenset(change.names())
        left = [
            path
            for path, why in done.corpus.omitted
            if path in changed and why.partition(":")[0] in _NO_EXCUSE
        ]
        rows = [Analyzer.from_dict(row) for row in done.agreed.options["analyzers"]]
        hidden = sorted(paths_looked_at(rows, left))
        if not hidden:
            return part
        why = f"{count(len(hidden), 'changed file')} not looked at, such as {hidden[0]}"
        return _adding(part, why).replace(state=INCOMPLETE, error=None)

    def _confine(self, run: Run, agreed: RepositoryOptions) -> dict[str, Any]:
        """The options with the sandbox of this process, which the manifest names."""
        options = objective.confined(agreed.options, self.settings.sandbox)
        if _programs(options):
            with suppress(AnalyzerUnavailableError):  # the result says that none of them ran
                run.set_sandbox(available(self.settings.sandbox))
        return options

    @property
    def _has_auto(self) -> bool:
        return bool(self.settings.review.analyzers == AUTO)

    def _with_reach(self, part: Part, done: RecursionResult, unseen: frozenset[str]) -> Part:
        """``part`` with how much was looked at, if no model takes part."""
        agreed, result = done.agreed, done.result
        if agreed.model is not None or result is None:
            return part
        change = plan.change_of(agreed.scope, self.repository)
        paths = [file.path for file in done.corpus.files]
        seen = frozenset(paths) - unseen - {path for path, _ in result.uncovered}
        languages = {path: language(path) for path in paths} if change is None else files_of(change)
        reach = _reach(languages, seen, is_change=change is not None, has_auto=self._has_auto)
        return part.replace(metrics={**part.metrics, "reach": reach})

    def wants_model(self) -> bool:
        return bool(self.settings.review.model != "off")

    def corpus(self, agreed: RepositoryOptions) -> Corpus:
        """For a change, its files: a model sees of others what its prompts show."""
        change = plan.change_of(agreed.scope, self.repository)
        if change is None:
            return super().corpus(agreed)
        return self.affected_files(agreed.scope).corpus.limited(change.names())

    def within_round(self, part: Part, _done: RecursionResult) -> Part:
        """``part`` without what a later review of the same change finds too late."""
        return part

    def conclude(self, done: RecursionResult) -> Report:
        settings, result, agreed = self.settings, done.result, done.agreed
        if result is None:
            raise AssertionError("there is a result where there are files")
        paths = [file.path for file in done.corpus.files]
        unseen = results_report.unseen(paths, agreed.options, agreed.model, result)
        part = results_report.part(result, agreed.options, agreed.model, unseen)
        if part.metrics["files"] and not part.metrics["looked"]:
            part = part.replace(state=part.state or NOT_RUN)
        part = self.without(part, done)
        names = _programs(agreed.options)
        if names and settings.sandbox == "none":
            part = _adding(part, f"ran without a sandbox: {', '.join(names)}")
        if lacking := agreed.options.get("notes", ()):
            part = _adding(part, "; ".join(lacking[:_NOTES]))
        if NO_TOOLS in result.notes:
            part = _adding(part, NO_TOOLS)
        part = self._with_reach(part, done, frozenset(path for path, _ in unseen))
        part = self.within_round(part, done)
        part = suppressions.apply(
            part, settings.suppressions, settings.sources["suppressions"],
            redact=done.run.redactor.finding,
        )  # fmt: skip
        change = plan.change_of(agreed.scope, self.repository)
        if change is not None and part.findings:
            entries = config_file.awaiting(settings, change)
            part = suppressions.announce(part, entries, redact=done.run.redactor.finding)
        level, refuted = Severity.from_label(settings.fail_level), prover.refuted(result)
        words = overview_of(done.run.redactor.json(result.data), agreed.model)
        report = done.report(part, level, unseen=unseen, refuted=refuted, overview=words)
        options = output_of(settings).options().replace(colour=False)
        title = agreed.scope.repository or agreed.scope.under or "the repository"
        texts = results_report.artifacts(
            result,
            report,
            title=title,
            sarif=lambda redacted: render.render(redacted, "sarif", options),
            link=Links(report.subject, options).address_of,
            redact=done.run.redactor.report,
            mask=done.run.redactor.text,
        )
        prover.write(result, done)
        for name, text in texts.items():
            done.write(name, text)
        return report


class ChangeReviewJob(ReviewJob):
    """The review of a given change, with the settings of its base.

    ``before`` are earlier reviews of the change. If a comment asks for it, nothing of the change
    is written to the disk.
    """

    change: ChangeSet
    subject: Subject
    before: PreviousReviews
    #: Gives why findings are settled on the pull request.
    settled: Callable[[], Sequence[Settlement]]
    #: What the next review may use, "" for nothing.
    packed_text = ""

    def may_write(self) -> bool:
        return not self.before.is_asked

    def scope(self) -> RepositoryScope:
        change, subject, is_asked = self.change, self.subject, self.before.is_asked
        return RepositoryScope(
            commit=change.head,
            head=change.head,
            base=change.base,
            merge_base=change.merge_base,
            repository=subject.repository,
            pull_request=subject.pull_request,
            from_outside=plan.from_outside(self.settings, (change,), is_asked=is_asked),
            **plan.looks(self.settings),
        )

    def options(self, scope: RepositoryScope) -> dict[str, Any]:
        terms = super().options(scope)
        if not self.may_write():
            terms = objective.without_disk(terms)
            if self.is_own():
                rows = not_asked(Tree.at(self.repository, self.change.base))
                terms = {**terms, "left_out": [row.to_dict() for row in rows]}
        if not has_model(self.settings, scope):
            return terms
        if said := terms_of(self.change.pull_request, self.settings.review.description):
            terms = {**terms, "description": said}
        model, files = self.settings.model, self.affected_files(scope)
        begun = self.before.begin(
            self.change, files, source_of(model), objective.asked_for(terms, model)
        )
        accepted = terms["accepted"]
        if begun.since is not None or begun.is_doubt:
            settled = [[*settlement.to_dict().values()] for settlement in self.settled()]
            accepted = {**accepted, "settled": settled}
        terms = {**terms, "onward": begun.to_dict(), "accepted": accepted}
        if not self.before.is_posted or self.before.is_asked:
            return terms  # a person who asks for a review gets all of it
        cap = int(self.settings.review.rounds)
        return {**terms, "round": review_rounds.begin(self.before.last, self.change, cap).to_dict()}

    def within_round(self, part: Part, done: RecursionResult) -> Part:
        if (record := done.agreed.options.get("round")) is None:
            return part
        this = ReviewRound.from_dict(record)
        findings, late = review_rounds.parted(part.findings, this, self.change)
        part = part.replace(
            findings=findings, metrics={**part.metrics, "round": this.number, "late": late}
        )
        words = review_rounds.round_summary(this, late)
        return part.replace(summary=f"{part.summary}{words}") if words else part

    def without(self, part: Part, done: RecursionResult) -> Part:
        part = super().without(part, done)
        rows = [Analyzer.from_dict(row) for row in done.agreed.options.get("left_out", ())]
        if not paths_looked_at(rows, [file.path for file in done.corpus.files]):
            return part
        names = ", ".join(analyzer.name for analyzer in rows)
        why = f"not run, because they need files on disk: {names}"
        return _adding(part, why).replace(state=INCOMPLETE, error=None)

    def _without_late(
        self, claims: list[EarlierClaim], done: RecursionResult
    ) -> list[EarlierClaim]:
        """``claims`` for the next review: what is too late now is too late then."""
        if (record := done.agreed.options.get("round")) is None:
            return claims
        findings = [claim.finding for claim in claims]
        marked, _ = review_rounds.parted(findings, ReviewRound.from_dict(record), self.change)
        pairs = zip(claims, marked, strict=True)
        return [claim for claim, finding in pairs if finding.suppression not in (LATE, ENDED)]

    def conclude(self, done: RecursionResult) -> Report:
        report = super().conclude(done)
        result = done.result
        if done.agreed.options.get("onward") is None or result is None:
            return report
        options = _by_true_names(done.agreed.options, self.change, done.run)
        changed = options["changed"]
        begun = CarriedReview.from_dict(options["onward"])
        (part,) = report.parts
        left_out = 0
        if part.state is None and begun.is_kept:
            claims = [EarlierClaim.from_dict(record) for record in result.data["claims"]]
            # What rests on a deleted file is asked again: the next review cannot open its lines.
            gone = [
                claim
                for claim in claims
                if any(is_moved_with_file(location, changed) for location in claim.finding.evidence)
            ]
            again = {
                at.path
                for claim in gone
                for at in claim.finding.evidence
                if is_moved_with_file(at, changed)
            }
            claims = [claim for claim in claims if claim not in gone]
            claims = self._without_late(claims, done)
            files = self.affected_files(done.agreed.scope)
            marks = [files.mark(path) for path in self.change.names() if path not in again]
            asked_for = objective.asked_for(done.agreed.options, done.agreed.model)
            unchecked = result.data.get("unchecked", ())
            mask = done.run.redactor.text
            words = ModelWords.from_dict(result.data[WORDS]) if WORDS in result.data else None
            head = self.change.head
            sentences = previous_review.rows(words, head, mask) if words and head else ()
            packed = pack(claims, marks, asked_for, mask, unchecked, sentences=sentences)
            self.packed_text, left_out = packed.text or TOO_MUCH, packed.left_out
        mended = result.data["mended"]
        number = len(done.corpus.files) if begun.unread_files is None else len(begun.unread_files)
        metrics = {
            "since": begun.since,
            "why": begun.why,
            "asked": number,
            "carried": len(begun.claims) - len(mended),
            "mended": len(mended),
        }
        refuted = [claim.finding for claim in prover.refuted(result)]
        addition = carry_over.carried_summary(begun, number, mended, refuted)
        addition += carry_over.left_out(left_out)
        part = part.replace(
            summary=printable(f"{part.summary}{addition}"),
            metrics={**part.metrics, **metrics},
        )
        paths = [file.path for file in done.corpus.files]
        coverage = carry_over.covered(report.coverage, begun, paths)
        return report.replace(parts=(part,), coverage=coverage)


def _by_true_names(options: Mapping[str, Any], change: ChangeSet, run: Run) -> dict[str, Any]:
    """The options with the paths of ``change`` that the record of ``run`` writes otherwise."""
    paths = change.names()
    names = {path: run.redactor.text(encodable(path)) for path in paths}
    options = {**options, "changed": restored(options["changed"], names)}
    if onward := options.get("onward"):
        for name in ("unread_files", "asked"):  # so records of before call it
            if (unread := onward.get(name)) is not None:
                onward = {**onward, name: [path for path in paths if names[path] in unread]}
        options["onward"] = onward
    return options


def _adding(part: Part, text: str) -> Part:
    return part.replace(summary=printable(f"{part.summary}; {text}"))


def _programs(options: Mapping[str, Any]) -> list[str]:
    """The names of the analyzers that run in a sandbox, or not at all."""
    return [row["name"] for row in options["analyzers"] if not row["rules"]]


def not_looked_at(summary: str, change: ChangeSet, *, has_auto: bool) -> Part:
    """The part of a review that looked at no file of ``change``, and does not fail.

    ``has_auto``: the analyzers that are installed may run.
    """
    languages = files_of(change)
    metrics: dict[str, Any] = {
        "enabled": False,
        "files": len(languages),
        "looked": 0,
        "model": None,
    }
    metrics["reach"] = _reach(languages, (), is_change=True, has_auto=has_auto)
    return Part(results_report.PART, summary, metrics, enabled=False)


def files_of(change: ChangeSet) -> dict[str, str]:
    """The files of a change that are there at its head, each with its language; a link has none."""
    languages: dict[str, str] = {}
    for file in change.files():
        if file.status[:1] != "D" and file.new_mode != _SUBMODULE:
            file_language = OTHER if file.new_mode == _LINK else language(file.path)
            if file_language == OTHER and file.new_mode != _LINK and len(languages) < _FIRST_LINES:
                file_language = language(file.path, change.read(file.path, _SCRIPT) or b"")
            languages[file.path] = file_language
    return languages


def _reach(
    languages: Mapping[str, str], seen: Container[str], *, is_change: bool, has_auto: bool
) -> dict[str, Any]:
    """How many files were ``seen``, and the others by language, the most frequent first."""
    others = Counter(name for path, name in languages.items() if path not in seen)
    return {
        "change": is_change,
        "files": len(languages),
        "looked": len(languages) - others.total(),
        "others": dict(sorted(others.items(), key=lambda pair: (-pair[1], pair[0]))),
        "auto": has_auto,
    }


def has_model(settings: Settings, scope: RepositoryScope) -> bool:
    """Whether a model takes part in the review of a pull request."""
    has_way = not endpoint_of(settings).lack
    is_off = settings.review.model == "off" or bool(scope.from_outside)
    return bool(settings.model and has_way and not is_off)
