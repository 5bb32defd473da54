"""A question to a model whose answer is one JSON object: asked once more where it is not."""

from __future__ import annotations

from rlm_ci.models.strict_json import read_object
from rlm_ci.resources import loader
from rlm_ci.text.printable import clip, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.models import Message
    from rlm_ci.recursion.objective import Ask

    #: What is wrong with an object, in words for the model; "" when nothing is.
    Misfit = Callable[[Mapping[str, Any]], str]

#: Bytes that a second question needs besides the first: the answer, cut down, and what was wrong.
REPAIR = 6_000
_ANSWER = 4_000
_WRONG = 500


def ask_object(ask: Ask, place: str, prompt: str, misfit: Misfit) -> dict[str, Any] | None:
    """The object that a model answers, None when it is wrong twice.

    Raises what ``ask`` raises.
    """
    messages: list[Message] = [{"role": "user", "content": prompt}]
    said = ask(place, messages)
    found, wrong = _read(said.text, said.finish_reason, misfit)
    if found is not None:
        return found
    render = loader.load_template("prompts/review-repair.md.j2")
    messages += [
        {"role": "assistant", "content": clip(said.text, _ANSWER) or "(nothing)"},
        {"role": "user", "content": render({"wrong": printable(wrong)[:_WRONG]})},
    ]
    said = ask(f"{place}-repair", messages)
    return _read(said.text, said.finish_reason, misfit)[0]


def _read(text: str, finish_reason: str, misfit: Misfit) -> tuple[dict[str, Any] | None, str]:
    if finish_reason == "length":
        return None, "the answer was cut off: write less, the gravest only"
    try:
        found = read_object(text)
    except ValueError as error:
        return None, str(error)
    wrong = misfit(found)
    return (None, wrong) if wrong else (found, "")
