"""``rlm-ci questions``: what delegated runs ask, the newest last."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import complain
from rlm_ci.console.progress import duration
from rlm_ci.delegation.questions.queue import AllQuestions
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import StoredRuns
from rlm_ci.runs import manifest
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.delegation.questions.queue import RunQuestion

SUMMARY = "list the questions of delegated runs, the newest last"
USAGE = "[RUN] [--all] [OPTION...]"
TAKES = ("the run that is asked, for its questions alone", 0, 1)
EXAMPLES = ("rlm-ci questions", "rlm-ci questions latest --all")
FORMS = ("text", "json")
EXITS = {
    errors.OK: "done, also if there are none",
    errors.DAMAGED: "the questions to a run cannot be read; those to others are listed",
}
ROWS = (
    Setting("closed", "also those that are closed, with their answers", default=False,
            kind="boolean", flag="--all", file=False, own_env=False),
    *stored_runs.ROWS,
)  # fmt: skip


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("questions")
    word = arguments.words[0] if arguments.words else None
    questions = AllQuestions(StoredRuns(settings), word)
    run_questions = questions.questions(closed=settings.closed)
    if settings.format == "json":
        text = neutralise.record(
            {"questions": [question.to_record() for question in run_questions]}
        )
    else:
        text = "\n".join(_text(run_questions, time.time(), closed=settings.closed)).rstrip("\n")
        text = "".join(f"{neutralise.log(line)}\n" for line in text.split("\n"))
    output.emit(text)
    for problem in questions.problems:
        complain(problem)
    return questions.problems[0].code if questions.problems else errors.OK


def _text(questions: list[RunQuestion], now: float, *, closed: bool) -> Iterator[str]:
    if not questions:
        yield "no questions" if closed else "no open questions"
        return
    for question in questions:
        yield f"{question.question_id}  {', '.join(_facts(question, now))}"
        asker, parent = printable(question.from_run_id), printable(question.parent_run_id)
        yield f"  from {asker[:80]}, to {parent[:80]}"
        yield from _lines(question.prompt)
        if question.answer is not None:
            yield "  answer:"
            yield from _lines(question.answer)
        yield ""
    waiting = next(
        (run_question.question_id for run_question in questions if run_question.is_open), None
    )
    if waiting:
        yield f"answer one: rlm-ci answer {waiting} TEXT"


def _facts(question: RunQuestion, now: float) -> Iterator[str]:
    yield f"{question.urgency} urgency"
    yield f"asked {duration(max(0.0, now - manifest.moment(question.queued_at)))} ago"
    if not question.is_open:
        yield question.status
    elif question.expires_at is not None:
        left = duration(max(0.0, manifest.moment(question.expires_at) - now))
        yield f"expires in {left} ({question.expiry_fallback})"


def _lines(text: str) -> list[str]:
    """A text of an agent, which no line of ours can be taken for."""
    return [f"  | {printable(line)}".rstrip() for line in text.split("\n")]
