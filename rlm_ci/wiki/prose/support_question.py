"""A second question about sentences of a model: whether what they quote supports them."""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.object_question import ask_object
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import answer_form, shortened
from rlm_ci.recursion.coverage import BUDGET, REMOTE
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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


def ask_support(ask: Ask, step: str, claims: Sequence[GroundedClaim]) -> SupportResult:
    """Ask of each claim whether its grounds support it, in as few prompts as they need."""
    render = loader.load_template(_PROMPT)
    words = len(render({"fence": fence(""), "listing": ""}).encode())
    judged: dict[bool, list[ProseSentence]] = {True: [], False: []}
    unjudged: list[tuple[ProseSentence, str]] = []
    left, number = list(claims), 0

    def question() -> tuple[list[GroundedClaim], dict[str, Any] | None, str]:
        some, listing = _window(left, min(_WINDOW, ask.max_bytes - words - ask.repair))
        prompt = render({"fence": fence(listing), "listing": listing})
        misfit = partial(_misfit, number=len(some))
        return some, *ask_object(ask, f"{step}-{number}", prompt, misfit, answer_form(_ANSWER))

    while left:
        number += 1
        try:
            some, answer, wrong = shortened(ask, question)
        except (LimitError, RemoteError) as error:
            # Who has refused, or is spent, is not asked again.
            why = f"{lack(error)}: nobody was asked whether its lines support it: "
            unjudged += [(claim.said, why + printable(str(error))) for claim in left]
            break
        left = left[len(some) :]
        if answer is None:
            unjudged += [(claim.said, _NO_ANSWER.format(wrong)) for claim in some]
            continue
        for at, claim in enumerate(some, 1):
            judged[at in answer["supported"]].append(claim.said)
    return SupportResult(tuple(judged[True]), tuple(judged[False]), tuple(unjudged))


def lack(error: LimitError | RemoteError) -> str:
    """Why something is left out, as the coverage has it."""
    return BUDGET if isinstance(error, LimitError) else REMOTE


def _window(claims: Sequence[GroundedClaim], room: int) -> tuple[list[GroundedClaim], str]:
    """The first of the claims, as many as a prompt has room for, and their listing."""
    rows: list[str] = []
    used = 0
    for number, claim in enumerate(claims[:_MOST], 1):
        row = _row(number, claim)
        used += len(row.encode("utf-8", "replace")) + 2
        if rows and used > room:
            break
        rows.append(row)
    return [*claims[: len(rows)]], "\n\n".join(rows)


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
