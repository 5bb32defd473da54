"""Ask a model to refute a claim that nothing could show, given the claim and its surroundings."""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.object_question import ask_object
from rlm_ci.environments.quoting import said_of
from rlm_ci.models.json_question import answer_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models import Message
    from rlm_ci.models.json_question import Ask
    from rlm_ci.review.model.claim_context import ClaimPrompt

UPHELD = "upheld"
REFUTED = "refuted"
UNSURE = "unsure"
#: There was no room in a budget or a prompt.
UNEXAMINED = "unexamined"
VERDICTS = (UPHELD, REFUTED, UNSURE, UNEXAMINED)
#: The factor for the confidence in a claim that was not upheld.
DOUBT = 0.6


def refute(ask: Ask, mark: str, prompt: ClaimPrompt, missed: str = "") -> tuple[str, str]:
    """The verdict on a claim, and its reason. Raises what ``ask`` raises.

    ``missed``: what was run and passes at head, if something was.
    """
    question = prompt.asking("refute", {"is_missed": bool(missed)}, missed)
    verdicts = (UPHELD, REFUTED, UNSURE)
    misfit = partial(verdict_misfit, verdicts=verdicts)
    answer, _ = ask_object(ask, f"refute-{mark}", question, misfit, verdict_form(verdicts))
    if answer is None:
        return UNSURE, ""
    return answer["verdict"], said_of(prompt.texts, answer["reason"])


def verdict_form(verdicts: Sequence[str], **more: Mapping[str, Any]) -> Message:
    """The form of a verdict with its reason and ``more`` members."""
    properties = {"verdict": {"enum": list(verdicts)}, **more, "reason": {"type": "string"}}
    required = list(properties)
    return answer_form({"type": "object", "properties": properties, "required": required})


def verdict_misfit(answer: Mapping[str, Any], verdicts: Sequence[str]) -> str:
    """All that is wrong with an answer that is to be a verdict and its reason."""
    wrong = []
    if answer.get("verdict") not in verdicts:
        wrong.append(f"verdict must be one of {', '.join(verdicts)}")
    if not isinstance(answer.get("reason"), str):
        wrong.append("reason must be a text")
    return "; ".join(wrong)
