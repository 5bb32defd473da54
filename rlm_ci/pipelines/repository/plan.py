"""A recursion over a repository: its options, its plan, its result, and what each verb adds."""

from __future__ import annotations

from abc import abstractmethod

from rlm_ci.models.json_question import REPAIR, repair_bytes
from rlm_ci.pipelines.repository import scope
from rlm_ci.pipelines.repository.scope import RepositoryScope  # noqa: TC001 - to read it
from rlm_ci.pipelines.verb_job import VerbJob
from rlm_ci.report.findings import Coverage, Evidence, Report
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.record.record import Record
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.recursion.objective import Objective
    from rlm_ci.recursion.split.tree import PromptPart
    from rlm_ci.report.findings import Part, Severity, Usage
    from rlm_ci.runs.run import Run


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
        return scope.select(self.settings, self.repository)

    def corpus(self, agreed: RepositoryOptions) -> Corpus:
        return scope.corpus(agreed.scope, self.repository, self.skipped)

    def without(self, part: Part, done: RecursionResult) -> Part:  # noqa: ARG002 - for verbs that override it
        """``part``, changed for the files that were left out."""
        return part

    def wants_model(self) -> bool:
        """Whether to ask a model, if there is one."""
        return True
