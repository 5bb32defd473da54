"""A second question about sentences of a model: whether what they quote supports them."""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.object_question import ask_object
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import answer_form
from rlm_ci.recursion.coverage import BUDGET, REMOTE
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value
from rlm_ci.wiki.prose.rounds import asked_in_rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.wiki.update.state import ProseSentence

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
