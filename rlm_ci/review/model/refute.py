"""Ask a model to refute a claim that nothing could show, given the claim and its surroundings."""

from __future__ import annotations

from rlm_ci.environments.quoting import said_of
from rlm_ci.models.json_question import ask_object
from rlm_ci.recursion.prompt_windows import fence
from rlm_ci.resources import loader
from rlm_ci.review.model.claim_context import place_of
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.model.claim_context import ClaimContext

UPHELD = "upheld"
REFUTED = "refuted"
UNSURE = "unsure"
#: There was no room in a budget or a prompt.
UNEXAMINED = "unexamined"
VERDICTS = (UPHELD, REFUTED, UNSURE, UNEXAMINED)
#: The factor for the confidence in a claim that was not upheld.
DOUBT = 0.6

_TEMPLATE = "prompts/review-refute.md.j2"


def refute(
    ask: Ask, mark: str, finding: Finding, context: ClaimContext, missed: tuple[str, str]
) -> tuple[str, str]:
    """The verdict on a claim, and its reason. Raises what ``ask`` raises.

    ``missed``: a reproduction that passes at head, and what it printed, if there is one.
    """
    told = {
        "severity": finding.severity.label,
        "place": place_of(finding),
        "claim": printable(finding.message),
        "test": encodable(missed[0]),
        "output": missed[1],
        "guideline": context.guideline,
        "listing": context.listing,
    }
    prompt = loader.load_template(_TEMPLATE)({**told, "fence": fence(*told.values())})
    answer = ask_object(ask, f"refute-{mark}", prompt, _misfit)
    if answer is None:
        return UNSURE, ""
    return answer["verdict"], said_of(context.texts, answer["reason"])


def _misfit(answer: Mapping[str, Any]) -> str:
    return verdict_misfit(answer, (UPHELD, REFUTED, UNSURE))


def verdict_misfit(answer: Mapping[str, Any], verdicts: Sequence[str]) -> str:
    """All that is wrong with an answer that is to be a verdict and its reason."""
    wrong = []
    if answer.get("verdict") not in verdicts:
        wrong.append(f"verdict must be one of {', '.join(verdicts)}")
    if not isinstance(answer.get("reason"), str):
        wrong.append("reason must be a text")
    return "; ".join(wrong)
