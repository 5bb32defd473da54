"""A recursion over a repository: its scope, its options, its plan, its result, what each verb adds.

A scope is a commit, the work tree, a folder, or a change.
"""

from __future__ import annotations

import os
from abc import abstractmethod

from rlm_ci.change import change_set, privileged_events
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git import errors
from rlm_ci.judge import judge
from rlm_ci.judge.judge import repository_name
from rlm_ci.models.json_question import REPAIR, repair_bytes
from rlm_ci.pipelines import load
from rlm_ci.pipelines.attempt import VerbJob
from rlm_ci.recursion.corpus import corpus as corpora
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.report.findings import INCOMPLETE, Coverage, Evidence, Report, Subject
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import Record
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.recursion.objective import Objective
    from rlm_ci.recursion.tree_split import PromptPart
    from rlm_ci.report.findings import Part, Severity, Usage
    from rlm_ci.runs.run import Run


class RepositoryScope(Value):
    """Where to look. ``commit`` is None for the work tree, or for a folder outside of git.

    ``under`` is the folder below the top level. ``from_outside`` says why no model may read the
    scope, "" if one may.
    """

    _optional = ()

    commit: str | None = None
    head: str | None = None
    base: str | None = None
    merge_base: str | None = None
    under: str = ""
    repository: str | None = None
    pull_request: int | None = None
    exclude: tuple[str, ...] = ()
    #: What is larger is data, or written by a program.
    max_file_bytes: int = 1 << 20
    include_generated: bool = False
    from_outside: str = ""

    @property
    def rules(self) -> EligibilityRules:
        # A name such as vendor/ must not exempt a file of a change.
        guess = not self.include_generated and self.merge_base is None
        return EligibilityRules(self.exclude, self.max_file_bytes, self.include_generated, guess)

    def subject(self) -> Subject:
        return Subject(
            repository=self.repository,
            base=self.base,
            head=self.head,
            merge_base=self.merge_base,
            worktree=self.commit is None,
            pull_request=self.pull_request,
        )


def select(settings: Settings, repository: Repository) -> RepositoryScope:
    """The scope that the settings name. Raises ConfigError, UsageError."""
    recursion = settings.recursion
    base, head_name = settings.values.get("base"), settings.values.get("head")
    if recursion.worktree and (base or head_name):
        reason = "a change is between commits" if base else "--head names a commit"
        flag = "--base" if base else "--head"
        raise UsageError(
            f"{reason}, and --worktree is none",
            where="--worktree",
            hint=f"leave one of {flag} and --worktree out",
        )
    changes = load.changes_of(settings, repository)
    about = {
        **looks(settings),
        "under": inside(settings, repository),
        "repository": repository_name(changes, settings, repository, look=True),
        "from_outside": from_outside(settings, changes),
    }
    head = repository.head_commit() if repository.git_dir else None
    if head_name and not base:  # the whole of that commit
        head = change_set.require(repository, head_name, "head", settings.sources["head"])
    if base:
        change = changes[0]
        if not settings.quiet:
            judge.note_uncommitted(repository, change.head, "rlm-ci check")
        return RepositoryScope(
            commit=change.head,
            head=change.head,
            base=change.base,
            merge_base=change.merge_base,
            **about,
        )
    if recursion.worktree or not repository.git_dir:
        return RepositoryScope(head=head, **about)
    if head is None:
        raise ConfigError(
            "nothing is committed yet",
            where=repository.root,
            hint="commit it, or look at the work tree: --worktree",
        )
    if not settings.quiet:
        judge.note_uncommitted(repository, head, "--worktree")
    return RepositoryScope(commit=head, head=head, **about)


def looks(settings: Settings) -> dict[str, Any]:
    recursion = settings.recursion
    return {
        "exclude": recursion.exclude,
        "include_generated": recursion.include_generated,
    }


def corpus(scope: RepositoryScope, repository: Repository, own_folders: Sequence[str]) -> Corpus:
    """The files; ``own_folders`` are folders in which rlm-ci writes."""
    if scope.commit is not None:
        # A change cannot mark its own files as generated: the attributes of its base count.
        return corpora.at_commit(
            repository, scope.commit, scope.rules, scope.under, policy=scope.merge_base
        )
    if repository.git_dir:
        return corpora.in_worktree(repository, scope.rules, scope.under, own_folders)
    full_corpus = corpora.in_folder(repository.root, scope.rules, own_folders)
    if not scope.under:
        return full_corpus
    every = [*(file.path for file in full_corpus.files), *(path for path, _ in full_corpus.omitted)]
    return full_corpus.limited([path for path in every if _is_under(path, scope.under)])


def require_tree(repository: Repository) -> None:
    """Raise ConfigError in a bare repository: it has no files to look at, and no place for runs."""
    if repository.git_dir is None and errors.is_bare(repository.root):
        raise errors.no_repository(repository.root)


def change_of(scope: RepositoryScope, repository: Repository) -> change_set.ChangeSet | None:
    if scope.base is None:
        return None
    return change_set.ChangeSet(
        repository, "range", base=scope.base, head=scope.head, merge_base=scope.merge_base
    )


def inside(settings: Settings, repository: Repository) -> str:
    """The folder of the settings, relative to the top level. Raises ConfigError."""
    path = settings.recursion.path
    if not path:
        return ""
    root = os.path.realpath(repository.root)
    relative = files.below(root, os.path.realpath(os.path.join(root, path)))
    if relative is None:
        raise ConfigError(
            f"{path[:80]!r} is outside of the repository",
            where=settings.sources["recursion.path"],
            hint=f"name a folder below {repository.root}, or its repository by --repo",
        )
    return relative


def _is_under(path: str, under: str) -> bool:
    return path == under or path.startswith(f"{under}/")


def from_outside(
    settings: Settings, changes: Sequence[change_set.ChangeSet], *, is_asked: bool = False
) -> str:
    """Why no model may read this change; "" if one may.

    ``is_asked`` means that a person with write access asked: then any event may start the job.
    """
    github = settings.github
    event = privileged_events.event_of(github.event_name) if github.actions else None
    if event and not is_asked:
        return f"{event} can be started by a stranger, with this job's secrets"
    if any(change.pull_request and change.pull_request.from_fork for change in changes):
        return "the change is a fork's"
    return ""


def with_closed(part: Part, corpus: Corpus) -> Part:
    """``part``, made incomplete if a file or folder of the corpus could not be opened."""
    closed = corpus.closed
    if not closed:
        return part
    things = "file or folder" if len(closed) == 1 else "files or folders"
    problem = f"{len(closed):,} {things} could not be read, such as {closed[0]}"
    summary = printable(f"{part.summary}; {problem}")
    return part.replace(state=part.state or INCOMPLETE, error=None, summary=summary)


class RepositoryOptions(Value):
    """The options of a run, the same whenever it is resumed."""

    scope: RepositoryScope
    options: Mapping[str, Any]
    model: str | None
    provider: str
    order: str
    leaf_bytes: int
    leaf_files: int
    max_depth: int
    attempts: int
    prompt_bytes: int
    max_completion_tokens: int
    #: What the model reads; old runs have not recorded it.
    context_tokens: int | None = None
    #: Whether questions have the schema of their answers; those of old runs have not.
    forms: bool = False
    #: The bytes of a prompt if the endpoint counts fewer tokens than were thought; None: no more.
    largest_prompt: int | None = None
    #: Whether parts learn from each other what the endpoint shows; those of old runs do not.
    shares: bool = False
    #: Whether nobody says what the model reads.
    is_assumed: bool = False

    @property
    def repair(self) -> int:
        """The bytes of a prompt that are for asking once more."""
        return REPAIR if self.context_tokens is None else repair_bytes(self.prompt_bytes)


class RecursionPlan(Value):
    """The objective of a recursion, and its files: none if all results are known already.

    ``prompts`` are leaves beside the files.
    """

    corpus: Corpus
    objective: Objective
    prompts: tuple[PromptPart, ...] = ()


class RecursionResult(Value):
    """A recursion that has ended; ``result`` is None if there was nothing to do.

    ``write`` writes a text as an artifact of the run, and returns its path.
    """

    run: Run
    agreed: RepositoryOptions
    corpus: Corpus
    result: NodeResult | None
    usage: Usage
    write: Callable[[str, str | Iterable[str]], str]

    def report(
        self,
        part: Part,
        fail_level: Severity,
        *,
        unseen: Sequence[tuple[str, str]] = (),
        **fields: Any,
    ) -> Report:
        """The report with this part alone; ``unseen`` are pairs of an omitted file and a reason."""
        uncovered = self.result.uncovered if self.result else ()
        counts = self.result.counts if self.result else Evidence()
        eligible = len(self.corpus.files)
        missing = len({path for path, _ in (*uncovered, *unseen) if path})
        uncovered = tuple((path or "the whole", why) for path, why in uncovered)
        return Report(
            self.agreed.scope.subject(),
            fail_level,
            (part,),
            coverage=Coverage(
                eligible, max(0, eligible - missing), (*self.corpus.omitted, *uncovered, *unseen)
            ),
            evidence=fields.pop("evidence", counts),
            usage=self.usage,
            **fields,
        )


class RepositoryVerb(VerbJob):
    """The part of a job over a repository that each verb implements."""

    #: The name of the pipeline, of the part of the report, and of the folder of the artifacts.
    name = ""
    #: The folder of journals whose results are reused, if any.
    stored = ""

    @abstractmethod
    def options(self, scope: RepositoryScope) -> dict[str, Any]:
        """All that the results depend on besides texts and model; called once in a run."""

    def fitted(self, agreed: RepositoryOptions) -> RepositoryOptions:
        """``agreed``, changed where prompts of that size have no room for what it wants."""
        return agreed

    @abstractmethod
    def plan(
        self, run: Run, record: Record, agreed: RepositoryOptions, corpus: Corpus
    ) -> RecursionPlan:
        """The objective, and the files to look at."""

    @abstractmethod
    def conclude(self, done: RecursionResult) -> Report:
        """Write the artifacts, and return the report."""

    def scope(self) -> RepositoryScope:
        """Where to look; called once in a run."""
        return select(self.settings, self.repository)

    def corpus(self, agreed: RepositoryOptions) -> Corpus:
        return corpus(agreed.scope, self.repository, self.skipped)

    def without(self, part: Part, done: RecursionResult) -> Part:  # noqa: ARG002 - for verbs that override it
        """``part``, changed for the files that were left out."""
        return part

    def wants_model(self) -> bool:
        """Whether to ask a model, if there is one."""
        return True
