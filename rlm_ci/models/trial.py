"""What a model can do, found out by small questions: ``rlm-ci doctor --model``."""

from __future__ import annotations

import json
import time

from rlm_ci.errors import RlmCiError
from rlm_ci.models import ModelRequest
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rlm_ci.models import Completion, Message, Model
    from rlm_ci.models.prices import Price

#: Tokens of an answer: models that reason use some before they write.
_TOKENS = 1_000
_SAID = 60
_PLAIN = "Answer with the single word: ready"
_CALL = "Call the tool report_ready. Write nothing else."
_SCHEMA: Message = {
    "type": "object",
    "properties": {"state": {"type": "string"}},
    "required": ["state"],
    "additionalProperties": False,
}
_TOOL: Message = {
    "type": "function",
    "function": {
        "name": "report_ready",
        "description": "Report that you are ready.",
        "parameters": {"type": "object", "properties": {}},
    },
}
_FORMAT: Message = {
    "type": "json_schema",
    "json_schema": {"name": "state", "strict": True, "schema": _SCHEMA},
}


class TrialResult(Value):
    """One thing that was tried. ``error`` is why the model gave no answer."""

    name: str
    works: bool
    detail: str
    error: RlmCiError | None = None


def results(model: Model, name: str, price: Callable[[str], Price | None]) -> Iterator[TrialResult]:
    """An answer, then tools and structured output; nothing more if none comes."""
    began = time.monotonic()
    try:
        completion = _trial_answer(model, name, _PLAIN)
    except RlmCiError as error:
        yield TrialResult("answer", works=False, detail="none", error=error)
        return
    yield TrialResult(
        "answer", works=True, detail=_summary(completion, time.monotonic() - began, price)
    )
    yield _tried("tools", model, name, lambda reply: bool(reply.tool_calls), _CALL, tools=(_TOOL,))
    yield _tried(
        "JSON schema", model, name, _is_object, f"{_PLAIN}, as JSON.", response_format=_FORMAT
    )


def _trial_answer(model: Model, name: str, prompt: str, **more: Any) -> Completion:
    messages = ({"role": "user", "content": prompt},)
    return model.complete(ModelRequest(name, messages, _TOKENS, **more))


def _tried(
    what: str,
    model: Model,
    name: str,
    holds: Callable[[Completion], bool],
    prompt: str,
    **more: Any,
) -> TrialResult:
    try:
        completion = _trial_answer(model, name, prompt, **more)
    except RlmCiError as error:
        return TrialResult(what, works=False, detail=f"refused: {printable(str(error))[:200]}")
    if holds(completion):
        return TrialResult(what, works=True, detail="work" if what == "tools" else "works")
    shown = printable(completion.text)[:_SAID] or "nothing"
    return TrialResult(what, works=False, detail=f"not used; the answer was: {shown}")


def _is_object(completion: Completion) -> bool:
    try:
        value = json.loads(completion.text)
    except ValueError:
        return False
    return isinstance(value, dict) and set(value) == {"state"}


def _summary(completion: Completion, seconds: float, price: Callable[[str], Price | None]) -> str:
    text = f"{printable(completion.text)[:_SAID]!r} after {seconds:.1f} s"
    if completion.finish_reason == "length":
        text += f", cut off at {_TOKENS:,} tokens: it finds no end"
    if completion.usage is None:
        return f"{text}; the endpoint counts no tokens"
    used, tariff = completion.usage, price(completion.model)
    text += f", {count(used.prompt_tokens + used.completion_tokens, 'token')}"
    if tariff is None:
        return f"{text}; its price is not known"
    dollars = tariff.cost(used.prompt_tokens, used.completion_tokens, used.cached_tokens)
    return f"{text}, ${dollars:.6f}"
