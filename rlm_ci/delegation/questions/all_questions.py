"""The questions to all runs of a repository, for the people who answer them."""

from __future__ import annotations

import os
from functools import partial

from rlm_ci.delegation.questions.pause import settle
from rlm_ci.delegation.questions.queue import QuestionQueue
from rlm_ci.delegation.tool import STATUS_ONLY, ServerContext
from rlm_ci.errors import RlmCiError, UsageError
from rlm_ci.runs.delegated import INBOX
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.delegation.questions.queue import RunQuestion
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.find import FoundRun

_SHOWN = 5


class AllQuestions:
    """The questions to the runs of ``runs``, or to the run ``word`` alone.

    ``problems`` are the errors of inboxes that cannot be read, and of runs that cannot go on.
    """

    def __init__(self, runs: StoredRuns, word: str | None = None) -> None:
        """Raises RlmCiError where that run, or the store, cannot be read."""
        #: A child goes on as by a server in this repository.
        self._server = ServerContext([runs.root], STATUS_ONLY, runs.settings.environ)
        self.problems: list[RlmCiError] = []
        self._found: list[tuple[RunQuestion, QuestionQueue]] = []
        for entry in runs.entries() if word is None else [runs.find(word)]:
            if os.path.lexists(os.path.join(entry.path, INBOX)):
                self._read(entry)
        self._found.sort(key=lambda pair: (pair[0].queued_at, pair[0].question_id))

    def _read(self, entry: FoundRun) -> None:
        settling = partial(settle, self._server)
        queue = QuestionQueue(entry.path, self._server.redactor, settling)
        try:
            self._found += [(question, queue) for question in queue.read().values()]
        except RlmCiError as error:
            self.problems.append(error)
        self.problems += queue.problems
        queue.problems = self.problems

    def questions(self, *, closed: bool = False) -> list[RunQuestion]:
        """The open questions, or all, the newest last."""
        return [question for question, _ in self._found if closed or question.is_open]

    def close(self, word: str, answer: str | None) -> RunQuestion:
        """Answer the question that ``word`` means, an id or a beginning that no other open one has;
        None dismisses it.

        Raises UsageError where it means none or several, or one that is closed.
        """
        exact = [pair for pair in self._found if pair[0].question_id == word]
        begin = [pair for pair in self._found if pair[0].question_id.startswith(word)]
        matches = exact or [pair for pair in begin if pair[0].is_open] or begin
        if len(matches) == 1 and word:
            question, queue = matches[0]
            if answer is None:
                return queue.dismiss(question.question_id)
            return queue.answer(question.question_id, answer)
        if self.problems and not matches:
            raise self.problems[0]
        if matches:
            some = [
                f"{run_question.question_id} ({run_question.from_run_id})"
                for run_question, _ in matches[:_SHOWN]
            ]
            listed = printable(", ".join(some))
            more = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
            raise UsageError(
                f"{len(matches)} questions begin with {printable(word)[:80]!r}",
                where="QUESTION",
                hint=f"write more of it: {listed}{more}",
            )
        raise UsageError(
            f"there is no question {printable(word)[:80]!r}",
            where="QUESTION",
            hint="rlm-ci questions lists those that are open",
        )
