"""How many tokens a model reads, as its provider lists it, and the requests that fit into them."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: The names of the figure: OpenRouter and Together, vLLM, Groq, Mistral.
_FIELDS = ("context_length", "max_model_len", "context_window", "max_context_length")
#: A smaller figure is not that of a model that reads code.
_SMALLEST = 1_024
#: Bytes of a token in code, and which part of a context an answer may take.
_BYTES = 3
_ANSWER = 4


def listed(data: bytes) -> list[dict[str, Any]]:
    """The rows of a provider's list of models; Together's stand in no object."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return []
    rows = value.get("data") if isinstance(value, dict) else value
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def tokens_of(row: dict[str, Any]) -> int | None:
    """The tokens of prompt and answer together that a row of the list names; None for none."""
    return min(_figures(row), default=None)


def _figures(row: dict[str, Any]) -> Iterator[int]:
    # At OpenRouter, the provider that answers may read less than the model can.
    serving = row.get("top_provider")
    for place in (row, serving if isinstance(serving, dict) else {}):
        for name in _FIELDS:
            figure = place.get(name)
            if isinstance(figure, int) and figure >= _SMALLEST:
                yield figure


def answer_tokens(tokens: int, wanted: int) -> int:
    """``wanted``, or less: an answer leaves most of a context of ``tokens`` to the prompt."""
    return min(wanted, tokens // _ANSWER)


def prompt_bytes(tokens: int, answer: int, wanted: int) -> int:
    """``wanted``, or what a context of ``tokens`` has room for beside an ``answer``."""
    return max(1, min(wanted, (tokens - answer) * _BYTES))
