"""What a review and a wiki tell apart: what is asked of which files, and what is made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rlm_ci.pipelines.job import PipelineJob
from rlm_ci.pipelines.repository import scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.repository.plan import RecursionPlan, RecursionResult, RepositoryOptions
    from rlm_ci.pipelines.repository.scope import RepositoryScope
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.report.findings import Part, Report
    from rlm_ci.runs.run import Run


class RepositoryVerb(PipelineJob, ABC):
    """The half of a job over a repository that each verb writes itself."""

    #: The name of the pipeline, of the part of the report, and of the folder of the artifacts.
    name = ""
    #: The folder of journals whose results are taken, if there is one.
    stored = ""

    @abstractmethod
    def options(self, here: RepositoryScope) -> dict[str, Any]:
        """All that the results depend on besides texts and model; asked once in a run."""

    @abstractmethod
    def plan(
        self, run: Run, record: Record, agreed: RepositoryOptions, corpus: Corpus
    ) -> RecursionPlan:
        """What is asked of which files."""

    @abstractmethod
    def conclude(self, done: RecursionResult) -> Report:
        """The report, once the artifacts are written."""

    def scope(self) -> RepositoryScope:
        """Where to look; asked once in a run."""
        return scope.select(self.settings, self.repository)

    def corpus(self, agreed: RepositoryOptions) -> Corpus:
        """The files that it is about."""
        return scope.corpus(agreed.scope, self.repository, self.skipped)

    def without(self, part: Part, done: RecursionResult) -> Part:  # noqa: ARG002 - for who knows better
        """``part``, and what follows from the files that were left out."""
        return part

    def wants_model(self) -> bool:
        """Whether a model has a part in it, if there is one."""
        return True
