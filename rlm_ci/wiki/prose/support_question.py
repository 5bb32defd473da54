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
_UNREADABLE = "no_answer: the answer whether its lines support it could not be read, twice"


class GroundedClaim(Row):
    """A sentence, and the texts that are to support it."""

    said: ProseSentence
    grounds: tuple[str, ...]


class SupportResult(Value):
    """What was answered; ``open`` are pairs of a sentence that nobody judged, and why."""

    supported: tuple[ProseSentence, ...] = ()
    unsupported: tuple[ProseSentence, ...] = ()
    open: tuple[tuple[ProseSentence, str], ...] = ()


def ask_support(ask: Ask, place: str, claims: Sequence[GroundedClaim]) -> SupportResult:
    """Ask of each claim whether its grounds support it, in as few prompts as they need."""
    render = loader.load_template(_PROMPT)
    words = len(render({"fence": fence(""), "listing": ""}).encode())
    room = min(_WINDOW, ask.max_bytes - words - ask.repair)
    found: dict[bool, list[ProseSentence]] = {True: [], False: []}
    left: list[tuple[ProseSentence, str]] = []
    why = ""
    for number, (some, listing) in enumerate(_windows(claims, room), 1):
        answer = None
        try:
            if not why:  # who has refused, or is spent, is not asked again
                prompt = render({"fence": fence(listing), "listing": listing})
                misfit = partial(_misfit, number=len(some))
                answer = ask_object(ask, f"{place}-{number}", prompt, misfit, answer_form(_ANSWER))
        except (LimitError, RemoteError) as error:
            told = printable(str(error))
            why = f"{lack(error)}: nobody was asked whether its lines support it: {told}"
        if answer is None:
            left += [(one.said, why or _UNREADABLE) for one in some]
            continue
        for at, one in enumerate(some, 1):
            found[at in answer["supported"]].append(one.said)
    return SupportResult(tuple(found[True]), tuple(found[False]), tuple(left))


def lack(error: LimitError | RemoteError) -> str:
    """Why something is left out, as the coverage has it."""
    return BUDGET if isinstance(error, LimitError) else REMOTE


def _windows(
    claims: Sequence[GroundedClaim], room: int
) -> Iterator[tuple[list[GroundedClaim], str]]:
    some: list[GroundedClaim] = []
    rows: list[str] = []
    used = 0
    for one in claims:
        row = _row(len(some) + 1, one)
        size = len(row.encode("utf-8", "replace")) + 2
        if some and (used + size > room or len(some) == _MOST):
            yield some, "\n\n".join(rows)
            some, rows, used = [], [], 0
            row = _row(1, one)
        some.append(one)
        rows.append(row)
        used += size
    if some:
        yield some, "\n\n".join(rows)


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
