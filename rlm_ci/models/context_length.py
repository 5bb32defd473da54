"""How many tokens a model reads, as its server lists it, and the requests that fit into them."""

from __future__ import annotations

import json
import re

from rlm_ci.models import PROMPT_TOO_LONG
from rlm_ci.text.printable import clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeGuard

    from rlm_ci.errors import RlmCiError
    from rlm_ci.models import ModelRequest, TokenUsage

    #: ``fetch(path, body)``: the JSON that a server has there, None for none.
    Fetch = Callable[[str, Mapping[str, Any] | None], Any]

#: What is taken for a model of which nobody says how much it reads.
DEFAULT = 65_536
#: A model that reads less has no room for all tools.
_SMALL = 16_000
#: The names of the figure: OpenRouter and Together, vLLM, Groq, Mistral, Anthropic.
_FIELDS = (
    "context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens",
)  # fmt: skip
#: A smaller figure is not that of a model that reads code.
_SMALLEST = 1_024
#: Bytes of a token: at least, before an endpoint has counted any, and at most.
_DENSE, _FIRST, _THIN = 1.2, 2.5, 4.0
#: What follows may have fewer bytes a token than what was counted.
_MARGIN = 0.9
#: Which part of a context an answer may take, and one result of a tool.
_ANSWER, _RESULT = 4, 6
#: What a prompt keeps of its bytes after a refusal without figures, and the fewest of any use.
_SHORTER, _USEFUL = 0.6, 1_000
#: How a refusal names the tokens that prompt and answer may have; a larger figure is what they had.
_LIMIT = re.compile(
    r"context (?:length|size|window)\D{0,20}?(\d+)|(\d+) maximum|must be <= (\d+)"
    r"|maximum (?:number of tokens|model length|allowed length)\D{1,12}(\d+)|limit(?: of|:)? (\d+)"
    r"|max_model_len=\D{0,20}(\d+)|input length should be \[\d+, (\d+)|less than (\d+) tokens"
)
#: Figures that are no count of a prompt: those of an answer, of characters, and lower bounds.
_OTHER = re.compile(r"max_\w*tokens=\d+|at least \d+|requested \d+ output|\d+ characters")


def listed(data: bytes) -> list[dict[str, Any]]:
    """The rows of a provider's list of models; Together's stand in no object."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return []
    return _rows(value, "data")


def _rows(value: object, name: str) -> list[dict[str, Any]]:
    rows = value.get(name) if isinstance(value, dict) else value
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def in_list(rows: list[dict[str, Any]], model: str) -> int | None:
    """The tokens of ``model`` in a list of models; llama.cpp answers to any name for its one."""
    matching = [row for row in rows if row.get("id") == model]
    if not matching and len(rows) == 1 and isinstance(rows[0].get("meta"), dict):
        matching = rows
    return next(filter(None, map(tokens_of, matching)), None)


def tokens_of(row: dict[str, Any]) -> int | None:
    """The tokens of prompt and answer together that a row of the list names; None for none."""
    return min(_figures(row), default=None)


def _figures(row: dict[str, Any]) -> Iterator[int]:
    # At OpenRouter, the provider that answers may read less than the model can.
    objects = (row, row.get("top_provider"), row.get("meta"))
    for value in objects:
        for name in (*_FIELDS, "n_ctx"):
            if isinstance(value, dict) and (figure := _figure(value.get(name))):
                yield figure


def _figure(value: object) -> int | None:
    return value if is_context(value) else None


def is_context(value: object) -> TypeGuard[int]:
    """Whether ``value`` may be the tokens of a model that reads code."""
    return type(value) is int and value >= _SMALLEST


def of_server(fetch: Fetch, model: str) -> int | None:
    """The tokens of ``model`` as servers on one's own machine say it beside OpenAI's API.

    llama.cpp at ``/props``; LM Studio of a loaded model; Ollama of one that runs, or is made to:
    until then only the server knows what it takes.
    """
    props = fetch("/props", None)
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    if isinstance(settings, dict) and (figure := _figure(settings.get("n_ctx"))):
        return figure
    for row in _rows(fetch("/api/v0/models", None), "data"):
        if row.get("id") == model and (figure := _figure(row.get("loaded_context_length"))):
            return figure
    running = fetch("/api/ps", None)
    if not isinstance(running, dict) or "models" not in running:
        return None
    return _running(running, model) or _loaded(fetch, model)


def _loaded(fetch: Fetch, model: str) -> int | None:
    """Ollama's figure for a model that does not run yet."""
    shown = fetch("/api/show", {"model": model})
    parameters = shown.get("parameters") if isinstance(shown, dict) else None
    size = None
    if isinstance(parameters, str):
        size = re.search(r"^num_ctx\s+(\d+)", parameters, re.MULTILINE)
    if size:
        return _figure(int(size[1]))
    fetch("/api/generate", {"model": model, "stream": False})  # without a prompt it only loads
    return _running(fetch("/api/ps", None), model)


def _running(value: object, model: str) -> int | None:
    names = {model, f"{model}:latest"}
    rows = (row for row in _rows(value, "models") if {row.get("name"), row.get("model")} & names)
    return next((_figure(row.get("context_length")) for row in rows), None)


# ── what fits ──


def answer_tokens(tokens: int, cap: int) -> int:
    """``cap``, or less: an answer leaves most of a context of ``tokens`` to the prompt."""
    return min(cap, tokens // _ANSWER)


def prompt_bytes(tokens: int, answer: int, cap: int, ratio: float | None = None) -> int:
    """``cap``, or what a context of ``tokens`` has room for beside an ``answer``.

    ``ratio`` are the bytes of a token, None where the endpoint has counted none.
    """
    return max(1, min(cap, int((tokens - _reserved(tokens, answer)) * _careful(ratio))))


def _careful(ratio: float | None) -> float:
    """The bytes of a token that prompts are cut by."""
    return _FIRST if ratio is None else min(_THIN, max(_DENSE, ratio * _MARGIN))


def _reserved(tokens: int, answer: int) -> int:
    """The tokens that are left for an answer: a cap beyond half of the context is hardly used."""
    return min(answer, tokens // 2)


def guessed(size: int) -> int:
    """The tokens of a prompt of ``size`` bytes that nobody has counted."""
    return int(size / _FIRST)


def is_beyond(size: int, tokens: int) -> bool:
    """Whether a prompt of ``size`` bytes has more than ``tokens``, whatever it is made of."""
    return size > tokens * _THIN


class ContextFit:
    """The bytes that requests to one model may have, by what it has counted and refused.

    All follows from the requests and what came of them, so that a replay finds the same.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        #: Bytes of a token, the fewest that were counted; None before the first count.
        self._counted: float | None = None

    @classmethod
    def of(cls, tokens: int | None) -> ContextFit | None:
        """None where a run has not agreed on a context."""
        return None if tokens is None else cls(tokens)

    def answer(self, cap: int) -> int:
        """The tokens that an answer may have; see ``answer_tokens``."""
        return answer_tokens(self.tokens, cap)

    def longest(self, cap: int) -> int:
        """The tokens of an answer after one that was cut off: half of the context at most."""
        return _reserved(self.tokens, cap)

    def room(self, answer: int) -> int:
        """The bytes of a prompt beside an ``answer``."""
        left = self.tokens - _reserved(self.tokens, answer)
        return max(1, int(left * _careful(self._counted)))

    def clip(self, text: str) -> str:
        """``text``, without its middle where it takes too much of what the model reads."""
        return clip(text, self.output)

    @property
    def output(self) -> int:
        """The characters of one result."""
        return max(_USEFUL, int(self.tokens * _FIRST) // _RESULT)

    @property
    def is_small(self) -> bool:
        """Whether tools are to be few, and texts short."""
        return self.tokens < _SMALL

    def take(self, tokens: int | None, ratio: float | None) -> None:
        """Take what the endpoint has shown elsewhere: what it reads, and the bytes of a token."""
        self.tokens = min(self.tokens, tokens or self.tokens)
        self._counted = ratio or self._counted

    def learn(self, size: int, usage: TokenUsage | None) -> None:
        """Take the count of an answered prompt of ``size`` bytes."""
        if usage is not None and not usage.estimated and usage.prompt_tokens:
            self._count(size / usage.prompt_tokens)

    def merge(self, other: ContextFit) -> None:
        """Know what ``other`` has learned, too."""
        self.tokens = min(self.tokens, other.tokens)
        if other._counted is not None:
            self._count(other._counted)

    def _count(self, ratio: float) -> None:
        self._counted = ratio if self._counted is None else min(self._counted, ratio)

    def shrinks(self, request: ModelRequest, error: RlmCiError) -> bool:
        """Whether ``error`` refused ``request`` for its length: from now on others are shorter."""
        if not is_too_long(error):
            return False
        size, (limit, prompt) = request.prompt_bytes(), tokens_in(error.what)
        if limit is not None:
            self.tokens = min(self.tokens, limit)
        if prompt is not None:
            self._count(size / prompt)
        answer = self.answer(request.max_tokens)
        if self.room(answer) >= size:  # so it reads less than was thought
            prompt = int(_SHORTER * size / _careful(self._counted))
            self.tokens = prompt + min(answer, prompt // 2)
        return _USEFUL <= self.room(self.answer(answer)) < size


def is_too_long(error: RlmCiError) -> bool:
    """Whether an endpoint refused a prompt for its length."""
    return error.what.startswith(PROMPT_TOO_LONG)


def tokens_in(text: str) -> tuple[int | None, int | None]:
    """The tokens that a refusal says a prompt may have, and has; None for what it does not say."""
    words = re.sub(r"(?<=\d),(?=\d)", "", text.casefold())
    match = _LIMIT.search(words)
    if match is None:
        return None, None
    limit = int(next(filter(None, match.groups())))
    counts = map(int, re.findall(r"(?<![\w.])\d{1,9}", _OTHER.sub("", words)))
    larger = (figure for figure in counts if figure > limit)
    return (limit, min(larger, default=None)) if limit >= _SMALLEST // 4 else (None, None)
