"""The cases of a benchmark; the model asked directly stands beside them."""

from __future__ import annotations

from rlm_ci.viewer.folder import (
    amount,
    in_words,
    mapping_in,
    mappings_in,
    number_in,
    text_in,
    whole_in,
)
from rlm_ci.viewer.steps import DONE, FAILED, ViewedStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.viewer.folder import RunFolder

NAME = "rlm/benchmark.json"
_FIGURES = ("preset", "mode", "attempted_cases", "completed_cases", "avg_score", "avg_reward",
            "cancelled_reason")  # fmt: skip
_TOLD = ("score", "score_note", "total_reward", "steps", "repeat", "environment", "run_id",
         "description", "error")  # fmt: skip


def read(folder: RunFolder, root: ViewedStep) -> None:
    record = folder.json(NAME)
    for name in _FIGURES:
        root.tell(name.replace("_", " "), record.get(name))
    for case in mappings_in(record, "case_results"):
        root.add(_case(case))
    direct = mappings_in(mapping_in(record, "direct"), "case_results")
    if direct:
        beside = root.add(ViewedStep("benchmark", "The model asked directly", DONE))
        for case in direct:
            beside.add(_case(case))


def _case(row: Mapping[str, Any]) -> ViewedStep:
    step = ViewedStep("case", text_in(row, "case_id") or "case")
    step.status = DONE if row.get("completed") is True else FAILED
    usage = mapping_in(row, "usage")
    step.calls = whole_in(usage, "total_calls")
    step.prompt_tokens = whole_in(usage, "prompt_tokens")
    step.completion_tokens = whole_in(usage, "completion_tokens")
    step.cost = amount(row.get("cost_usd"))
    step.seconds = number_in(row, "seconds")
    for name in _TOLD:
        value = row.get(name)
        step.tell(name.replace("_", " "), value if isinstance(value, str | int | float) else None)
    for name in ("task", "expected_answer", "final_response"):
        step.show(name.replace("_", " ").capitalize(), *in_words(row.get(name)))
    return step
