"""``rlm-ci answer``: answer a question of a delegated run, or dismiss it."""

from __future__ import annotations

import sys

from rlm_ci import errors
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import complain
from rlm_ci.delegation.questions.queue import ANSWER, AllQuestions
from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import StoredRuns
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "answer a question of a delegated run, which goes on then"
USAGE = "QUESTION TEXT [OPTION...] | QUESTION --dismiss [OPTION...]"
TAKES = ("a question, by its id or its beginning; and the answer, - for standard input", 1, 2)
EXAMPLES = (
    'rlm-ci answer q-0001-3f9a1c07 "Keep the old name."',
    "rlm-ci answer q-0001 - < answer.txt",
    "rlm-ci answer q-0001 --dismiss",
)
FORMS = ("text", "json")
EXITS = {
    errors.OK: "the question is answered, or dismissed",
    errors.USAGE: "there is no such question, or it is closed already",
}
ROWS = (
    Setting("dismiss", "close the question without an answer", default=False, kind="boolean",
            flag="--dismiss", file=False, own_env=False),
    *stored_runs.ROWS,
)  # fmt: skip
_STDIN = "-"


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("answer")
    word, *texts = arguments.words
    if settings.dismiss == bool(texts):
        raise UsageError(
            "a dismissed question has no answer" if texts else "the answer is missing",
            where="rlm-ci answer",
            hint='rlm-ci answer QUESTION "TEXT", or rlm-ci answer QUESTION --dismiss',
        )
    answer = _answer(texts[0]) if texts else None
    questions = AllQuestions(StoredRuns(settings))
    others = len(questions.problems)  # of other questions
    closed = questions.close(word, answer)
    if settings.format == "json":
        output.emit(neutralise.record(closed.to_record()))
    else:
        output.emit(f"{closed.question_id} is {closed.status}\n")
    problems = questions.problems[others:]
    for problem in problems:
        complain(problem)
    return problems[0].code if problems else errors.OK


def _answer(text: str) -> str:
    """The answer that ``text`` means. Raises UsageError."""
    where = "TEXT"
    if text == _STDIN:
        where = "standard input"
        data = b"" if sys.stdin is None else sys.stdin.buffer.read(4 * ANSWER + 1)
        text = data.decode("utf-8", "replace").rstrip("\n")
    if not text.strip():
        raise UsageError("the answer is empty", where=where, hint="write one, or add --dismiss")
    if len(text) > ANSWER:
        raise UsageError(
            f"the answer has more than {ANSWER:,} characters",
            where=where,
            hint="write a shorter one, which may name a file",
        )
    return text
