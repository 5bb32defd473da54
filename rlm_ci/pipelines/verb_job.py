"""One process's job for a verb, from the open run to its delivered results."""

from __future__ import annotations

from abc import abstractmethod

from rlm_ci.judge.options import output_of
from rlm_ci.pipelines.job import PipelineJob
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import RunAttempt
    from rlm_ci.runs.run import Run


class VerbJob(PipelineJob):
    """A job that sets ``report`` at the end.

    A verb makes its attempt; all else is here: the record, the files of the report, the error.
    """

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        self.prepare(run, goal)
        with self.recording(run) as record:
            attempt = self.attempt(run, run.redactor.text(goal or ""), record)
        self.report = attempt.report
        for message in record.losses():
            run.event("progress", {"summary": message})
            self.progress.say(message)
        for name, pieces in output_of(self.settings).rendered(attempt.report):
            files.write(run.path_of(name), pieces, 0o600)
        run.detail = attempt.detail
        if attempt.error is not None:
            raise attempt.error
        if not self.replay:
            self.deliver(run)
        return attempt.ending()

    def prepare(self, run: Run, goal: str | None) -> None:
        """What comes before the record is opened. Raises UsageError for a missing goal."""

    @abstractmethod
    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:
        """Make an attempt at the goal, and carry it out."""

    def deliver(self, run: Run) -> None:
        """Copy the results to where the user wants them, once all are written."""
