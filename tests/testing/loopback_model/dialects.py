"""How the endpoints of providers word their limits and what they lack: one row each.

The shapes are those of answers that people got, with other names and figures.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testing.loopback_model.replies import Raw

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Dialect:
    """What an endpoint answers; None where its documentation has no such answer.

    ``minute``: the limit of a minute, which names 7 seconds; ``day``: that of a day, with what it
    allows; ``long``: a prompt beyond the context; ``tools`` and ``schema``: the model has none.
    """

    minute: Raw | None = None
    day: Raw | None = None
    daily: int | None = None
    long: Raw | None = None
    tools: Raw | None = None
    schema: Raw | None = None


def _openai(status: int, message: str, code: str | None, kind: str, **headers: str) -> Raw:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Raw(status, {"error": error}, {k.replace("_", "-"): v for k, v in headers.items()})


def _spoken(model: str, what: str, limit: int, wait: str) -> Raw:
    """OpenAI's words for a limit, which Groq has too."""
    used = f"Limit {limit}, Used {limit}, Requested 1"
    text = f"Rate limit reached for {model} in organization org-1 on {what}: {used}. "
    return _openai(429, f"{text}Please try again in {wait}.", "rate_limit_exceeded", "requests")


def _google(quota: str, limit: str, delay: str) -> Raw:
    """Google's body is a list, and it names a short delay for the limit of a day too."""
    violation = {"quotaMetric": "generate_content_free_tier_requests", "quotaId": quota,
                 "quotaDimensions": {"model": "gemini-x"}, "quotaValue": limit}  # fmt: skip
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    message = f"You exceeded your current quota, please check your plan.\nPlease retry in {delay}."
    error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}
    return Raw(429, _list({"error": error}))


def _list(value: Mapping[str, Any]) -> bytes:
    return json.dumps([value]).encode()


def _openrouter(what: str, limit: int, seconds: float) -> Raw:
    reset = str(int((time.time() + seconds) * 1000))
    headers = {"X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": "0",
               "X-RateLimit-Reset": reset}  # fmt: skip
    text = f"Rate limit exceeded: {what}. Add 10 credits to unlock 1000 free model requests per day"
    error = {"message": text if "day" in what else f"Rate limit exceeded: {what}. ", "code": 429,
             "metadata": {"headers": headers}}  # fmt: skip
    return Raw(429, {"error": error, "user_id": "user_1"})


def _anthropic(status: int, kind: str, message: str, **headers: str) -> Raw:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Raw(status, body, {k.replace("_", "-"): v for k, v in headers.items()})


def dialects() -> dict[str, Dialect]:
    """By provider. A function, as some answers tell a moment."""
    return {
        "anthropic": Dialect(
            _anthropic(429, "rate_limit_error", "This request would exceed your rate limit of "
                       "50,000 input tokens per minute", retry_after="7"),
            long=_anthropic(400, "invalid_request_error",
                            "prompt is too long: 210000 tokens > 200000 maximum"),
        ),
        "azure": Dialect(
            _openai(429, "Requests have exceeded call rate limit of your tier. Please retry after "
                    "7 seconds.", "429", "", retry_after="7"),
        ),
        "gemini": Dialect(
            _google("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "10", "7s"),
            _google("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "20", "18s"), 20,
        ),
        "groq": Dialect(
            _spoken("model `llama-x`", "requests per minute (RPM)", 30, "7s"),
            _spoken("model `llama-x`", "requests per day (RPD)", 1000, "14h24m"), 1000,
            _openai(413, "Request too large for model `llama-x` in organization `org_1` on tokens "
                    "per minute (TPM): Limit 6000, Requested 7200, please reduce your message size",
                    "rate_limit_exceeded", "tokens"),
            schema=_openai(400, "This model does not support response format `json_schema`", None,
                           "invalid_request_error"),
        ),
        "mistral": Dialect(
            Raw(429, {"object": "error", "message": "Requests rate limit exceeded",
                      "type": "rate_limited", "param": None, "code": "1300"}, {"Retry-After": "7"}),
        ),
        "ollama": Dialect(
            tools=_openai(400, "registry.ollama.ai/library/m-1 does not support tools", None,
                          "api_error"),
        ),
        "openai": Dialect(
            _spoken("m-1", "requests per min (RPM)", 3, "7s"),
            _spoken("m-1", "requests per day (RPD)", 200, "7h12m"), 200,
            _openai(400, "This model's maximum context length is 8192 tokens. However, your "
                    "messages resulted in 9000 tokens.", "context_length_exceeded",
                    "invalid_request_error"),
        ),
        "openrouter": Dialect(
            _openrouter("free-models-per-min", 20, 7.4),
            _openrouter("free-models-per-day", 50, 9 * 3600), 50,
            tools=_openai(404, "No endpoints found that support tool use. To learn more about "
                          "provider routing, visit the documentation.", None, ""),
        ),
        "vllm": Dialect(
            long=_openai(400, "This model's maximum context length is 4096 tokens. However, you "
                         "requested 5000 tokens in the messages.", None, "BadRequestError"),
            tools=_openai(400, '"auto" tool choice requires --enable-auto-tool-choice and '
                          "--tool-call-parser to be set", None, "BadRequestError"),
        ),
    }  # fmt: skip
