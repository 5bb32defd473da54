"""Questions to a model in rounds, and a second one: whether what sentences quote supports them.

The first question is asked alone, as it shows what a prompt costs, then several. How many belong to
a round does not depend on threads or settings, and what the endpoint teaches counts from the next
round on. So a resumed run, and a replay, make the same prompts.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.object_question import ask_object
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.models.gateway import ask_together
from rlm_ci.models.json_question import answer_form
from rlm_ci.recursion.coverage import BUDGET, REMOTE
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from rlm_ci.models.json_question import Ask
    from rlm_ci.wiki.update.state import ProseSentence

    W = TypeVar("W")
    #: From a way to a model and the name of the question to its answer, or what is wrong with it.
    Question = Callable[[Ask, str, W], tuple[Mapping[str, Any] | None, str]]


#: Questions of a round behind the first.
_ROUND = 8


class RoundAnswer(Row):
    """The answer about a window; else ``wrong`` says what it is, or ``error`` why there is none."""

    answer: Mapping[str, Any] | None = None
    wrong: str = ""
    error: LimitError | RemoteError | None = None


def asked_in_rounds(
    ask: Ask,
    step: str,
    cut: Callable[[], Sequence[W]],
    question: Question[W],
    concurrency: int,
) -> Iterator[tuple[W, RoundAnswer]]:
    """Each window with what came of it; ``concurrency`` questions are asked at once at most.

    ``cut`` gives the windows that are left, for prompts of the present size: one that came has been
    taken from them. A window whose prompt was too long for the endpoint is cut and asked again.
    Who has refused, or is spent, is not asked in another round.
    """
    number, size, failure = 0, 1, None
    while windows := cut():
        batch = windows[:size]
        if failure is not None:
            yield from ((window, RoundAnswer(error=failure)) for window in windows)
            return
        before = ask.max_bytes
        tasks = [
            partial(_answered, question, f"{step}-{number + at}", window)
            for at, window in enumerate(batch, 1)
        ]
        answers = ask_together(ask, tasks, concurrency)
        number, size = number + len(batch), _ROUND
        for window, answer in zip(batch, answers, strict=True):
            error = answer.error if answer is not None else None
            if answer is None or (error and is_too_long(error) and ask.max_bytes < before):
                continue
            failure = failure or error
            yield window, answer


def _answered(question: Question[W], step: str, window: W, ask: Ask) -> RoundAnswer:
    try:
        answer, wrong = question(ask, step, window)
    except (LimitError, RemoteError) as error:
        return RoundAnswer(error=error)
    return RoundAnswer(answer, wrong)


_PROMPT, _ANSWER = "prompts/wiki-support.md.j2", "wiki-support.schema.json"
#: Bytes of sentences and grounds in one prompt, and sentences.
_WINDOW, _MOST = 30_000, 60
#: Characters of one ground, as many as an answer may quote.
_LONG = 4_000
_NO_ANSWER = "no_answer: the answer whether its lines support it {}"


class GroundedClaim(Row):
    """A sentence, and the texts that are to support it."""

    said: ProseSentence
    grounds: tuple[str, ...]


class SupportResult(Value):
    """What was answered; ``open`` are pairs of a sentence that nobody judged, and why."""

    supported: tuple[ProseSentence, ...] = ()
    unsupported: tuple[ProseSentence, ...] = ()
    open: tuple[tuple[ProseSentence, str], ...] = ()


def ask_support(
    ask: Ask, step: str, claims: Sequence[GroundedClaim], concurrency: int = 1
) -> SupportResult:
    """Ask of each claim whether its grounds support it, in as few prompts as they need.

    ``concurrency`` of them are asked at once.
    """
    render = loader.load_template(_PROMPT)
    words = len(render({"fence": fence(""), "listing": ""}).encode())
    judged: dict[bool, list[ProseSentence]] = {True: [], False: []}
    unjudged: list[tuple[ProseSentence, str]] = []
    left = list(claims)

    def question(
        part: Ask, step: str, window: Sequence[GroundedClaim]
    ) -> tuple[dict[str, Any] | None, str]:
        listing = _listing(window)
        prompt = render({"fence": fence(listing), "listing": listing})
        misfit = partial(_misfit, number=len(window))
        return ask_object(part, step, prompt, misfit, answer_form(_ANSWER))

    def cut() -> list[list[GroundedClaim]]:
        return list(_windows(left, min(_WINDOW, ask.max_bytes - words - ask.repair)))

    for window, (answer, wrong, error) in asked_in_rounds(ask, step, cut, question, concurrency):
        left = [claim for claim in left if claim not in window]
        if answer is None:
            why = _NO_ANSWER.format(wrong)
            if error is not None:
                what = printable(str(error))
                why = f"{lack(error)}: nobody was asked whether its lines support it: {what}"
            unjudged += [(claim.said, why) for claim in window]
            continue
        for at, claim in enumerate(window, 1):
            judged[at in answer["supported"]].append(claim.said)
    return SupportResult(tuple(judged[True]), tuple(judged[False]), tuple(unjudged))


def lack(error: LimitError | RemoteError) -> str:
    """Why something is left out, as the coverage has it."""
    return BUDGET if isinstance(error, LimitError) else REMOTE


def _windows(claims: Sequence[GroundedClaim], room: int) -> Iterator[list[GroundedClaim]]:
    """The claims, as many together as a prompt has room for."""
    window: list[GroundedClaim] = []
    used = 0
    for claim in claims:
        size = len(_row(len(window) + 1, claim).encode("utf-8", "replace")) + 2
        if window and (used + size > room or len(window) == _MOST):
            yield window
            window, used = [], 0
        window.append(claim)
        used += size
    if window:
        yield window


def _listing(claims: Sequence[GroundedClaim]) -> str:
    return "\n\n".join(_row(number, claim) for number, claim in enumerate(claims, 1))


def _row(number: int, claim: GroundedClaim) -> str:
    lines = [f"[{number}] {name(claim.said.text)}"]
    for ground in claim.grounds:
        lines += [f"    > {encodable(line)}" for line in ground[:_LONG].split("\n")]
        lines.append("")
    return "\n".join(lines[:-1] if claim.grounds else lines)


def _misfit(answer: Mapping[str, Any], number: int) -> str:
    """What is wrong with an answer that does not judge each sentence once."""
    wrong = loader.misfit(answer, _ANSWER)
    if wrong:
        return wrong
    judged = sorted([*answer["supported"], *answer["unsupported"]])
    if judged != list(range(1, number + 1)):
        return f"each number from 1 to {number} must be in one of the two lists, and only once"
    return ""


#: Why there is no prose where an answer was of no use; see ``ask_object``.
NO_ANSWER = "no_answer: what the model said {}"
#: What ``ProseResult.data`` has if no model is asked.
NOTHING: Mapping[str, Any] = {
    **{key: [] for key in ("displaced", "done", "rejected")},
    **{key: {} for key in ("prose", "shown", "quoted", "flows")},
}


class ProseResult(Value):
    """What a model said of some files, or of the whole, and what became of its pointers.

    ``data`` is JSON: new sentences by path (``prose``), the lines of their quotes by hash
    (``quoted``), earlier ones that they replace (``displaced``), what was ``rejected`` and why,
    files that were asked about (``done``), hashes of their ``shown`` pieces, and what was said of
    ``flows``; or sentences that were ``supported`` or not; or ``whole``, if that was asked.
    ``uncovered`` are paths of which something was left out, and why.
    """

    data: Mapping[str, Any] = {}
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()

    def then(self, more: ProseResult) -> ProseResult:
        """The sum of both; where they have the same data, those of ``more``."""
        return ProseResult(
            {**self.data, **more.data},
            self.counts + more.counts,
            tuple(dict.fromkeys((*self.uncovered, *more.uncovered))),
        )


def misfit(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which no sentence can be used; "" for any other."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    misfits = [loader.misfit(sentence, schema) for sentence in sentences]
    return misfits[0] if misfits and all(misfits) else ""
