"""What a provider lists of a model, and the requests that are made to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import RemoteError
from rlm_ci.models import PROMPT_TOO_LONG, ModelRequest, TokenUsage, context_length
from rlm_ci.models.context_length import ContextFit
from testing.loopback_model.server import ModelServer
from testing.model_clients import client_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.loopback_model.server import Asked

_OTHER = {"id": "other", "context_length": 4096}


@pytest.mark.parametrize(
    ("row", "tokens"),
    [
        pytest.param({"max_model_len": 32768}, 32768, id="vLLM"),
        pytest.param({"context_window": 131072, "max_completion_tokens": 8192}, 131072, id="Groq"),
        pytest.param({"max_context_length": 131072}, 131072, id="Mistral"),
        pytest.param({"max_input_tokens": 200000}, 200000, id="Anthropic"),
        pytest.param({"meta": {"n_ctx": 4096, "n_ctx_train": 32768}}, 4096, id="llama.cpp"),
        pytest.param({"meta": {"n_ctx_train": 32768}}, None, id="what it was trained for"),
        pytest.param(
            {"context_length": 200000, "top_provider": {"context_length": 64000}},
            64000,
            id="OpenRouter",
        ),
        pytest.param(
            {"context_length": 200000, "top_provider": None}, 200000, id="no top provider"
        ),
        pytest.param({}, None, id="no figure"),
        pytest.param({"context_length": 0}, None, id="none"),
        pytest.param({"context_length": True, "max_model_len": "32768"}, None, id="no numbers"),
        pytest.param({"context_length": -5, "context_window": 1e6}, None, id="no count"),
    ],
)
def test_a_row_says_what_its_model_reads(row: Mapping[str, Any], tokens: int | None) -> None:
    assert context_length.tokens_of(dict(row)) == tokens


def test_the_list_of_an_endpoint_is_read_whatever_it_is() -> None:
    mine = {"id": "mine", "context_length": 8192}
    with ModelServer() as served:
        for listing, tokens in (
            ({"object": "list", "data": [_OTHER, mine]}, 8192),
            ([_OTHER, mine], 8192),  # Together's
            ({"data": [_OTHER]}, None),
            ({"data": {"id": "mine"}}, None),
            (["mine", None, 3], None),
            ("mine", None),
        ):
            served.listing = listing
            with client_of(served, own_name=lambda name: name.removeprefix("vllm:")) as model:
                assert model.context_tokens("vllm:mine") == tokens, listing
        served.stop()
        with client_of(served) as model:
            assert model.context_tokens("mine") is None
    assert context_length.listed(b"[" * 100_000) == []


def test_llama_cpp_answers_to_any_name_for_its_one_model() -> None:
    rows = [{"id": "/models/a.gguf", "meta": {"n_ctx": 4096}}]
    assert context_length.in_list(rows, "mine") == 4096
    assert context_length.in_list([*rows, {"id": "b", "meta": {"n_ctx": 8192}}], "mine") is None
    assert context_length.in_list([{"id": "other", "max_model_len": 4096}], "mine") is None


SETTINGS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}
LMSTUDIO = {
    "data": [
        {"id": "other", "loaded_context_length": 2048},
        {"id": "mine", "loaded_context_length": 4096, "max_context_length": 131072},
    ]
}
RUNS = {"models": [{"name": "other:1b"}, {"name": "mine:latest", "context_length": 4096}]}


@pytest.mark.parametrize(
    ("beside", "tokens"),
    [
        pytest.param({"/props": SETTINGS}, 4096, id="llama.cpp"),
        pytest.param({"/props": {"default_generation_settings": 3}}, None, id="no settings"),
        pytest.param({"/api/v0/models": LMSTUDIO}, 4096, id="LM Studio"),
        pytest.param(
            {"/api/v0/models": {"data": [{"id": "mine", "max_context_length": 131072}]}},
            None,
            id="what it can be loaded with",
        ),
        pytest.param({"/api/ps": RUNS}, 4096, id="Ollama, running"),
        pytest.param(
            {"/api/ps": {"models": []}, "/api/show": {"parameters": "stop x\nnum_ctx    8192"}},
            8192,
            id="Ollama, as its file says",
        ),
        pytest.param({"/api/ps": {"models": []}}, None, id="Ollama, no such model"),
        pytest.param({"/api/ps": [], "/props": "x"}, None, id="something else"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_what_a_server_of_ones_own_says_beside_its_list(
    beside: dict[str, Any], tokens: int | None
) -> None:
    with ModelServer() as served:
        served.models, served.beside = ["mine"], beside
        with client_of(served) as model:
            assert model.context_tokens("mine") == tokens


def test_ollama_loads_a_model_to_say_what_it_takes() -> None:
    """What is not loaded has no context yet: it depends on the machine's memory."""
    running: list[dict[str, Any]] = []

    def load(asked: Asked) -> dict[str, Any]:
        assert asked.body == {"model": "mine", "stream": False}, "no prompt"
        running.append({"name": "mine:latest", "context_length": 4096})
        return {"done": True}

    with ModelServer() as served:
        served.models = ["mine:latest"]
        served.beside = {
            "/api/ps": lambda _asked: {"models": running},
            "/api/show": {"parameters": "stop x", "model_info": {"llama.context_length": 131072}},
            "/api/generate": load,
        }
        with client_of(served) as model:
            assert model.context_tokens("mine") == 4096


def test_a_small_context_has_smaller_requests_and_a_large_one_those_that_were_wanted() -> None:
    assert context_length.answer_tokens(8192, 16384) == 2048
    assert context_length.prompt_bytes(8192, 2048, 120_000) == 15_360
    assert context_length.answer_tokens(200_000, 16384) == 16384
    assert context_length.prompt_bytes(200_000, 16384, 120_000) == 120_000
    assert context_length.prompt_bytes(context_length.DEFAULT, 16384, 120_000) == 120_000
    # An answer that is set may be as long as the whole context, and hardly ever is.
    assert context_length.prompt_bytes(8192, 16384, 120_000) == 10_240


WORDS: dict[str, tuple[str, tuple[int | None, int | None]]] = {
    "OpenAI": (
        (
            "This model's maximum context length is 8,192 tokens. However, your messages "
            "resulted in 9000 tokens."
        ),
        (8192, 9000),
    ),
    "OpenAI, with the answer": (
        (
            "This model's maximum context length is 8192 tokens. However, you requested 16484"
            " tokens (9000 in the messages, 7484 in the completion)."
        ),
        (8192, 9000),
    ),
    "vLLM": (
        "This model's maximum context length is 4096 tokens and your request has 5000 input tokens",
        (4096, 5000),
    ),
    "vLLM's engine": (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        (4096, 5000),
    ),
    "llama.cpp, older": (
        "the request exceeds the available context size (4096 tokens), try increasing it",
        (4096, None),
    ),
    "llama.cpp": (
        "request (5013 tokens) exceeds the available context size (4096 tokens), try increasing it",
        (4096, 5013),
    ),
    "Anthropic": (
        "prompt is too long: 210000 tokens > 200000 maximum",
        (200000, 210000),
    ),
    "Gemini": (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        (1048576, 1200000),
    ),
    "TGI": (
        (
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens "
            "and 100 `max_new_tokens`"
        ),
        (4096, 5000),
    ),
    "Groq": (
        (
            "Request too large for model `llama-3.1` on tokens per minute (TPM): Limit 6000, "
            "Requested 7200, please reduce your message size"
        ),
        (6000, 7200),
    ),
    "LM Studio": (
        (
            "Trying to keep the first 5000 tokens when context the overflows. However, the "
            "model is loaded with context length of only 4096 tokens, which is not enough"
        ),
        (4096, 5000),
    ),
    "Copilot": (
        "prompt token count of 140000 exceeds the limit of 128000",
        (128000, 140000),
    ),
    "Mistral": (
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length"
        ),
        (32768, 40000),
    ),
    "vLLM, which stops counting": (
        (
            "This model's maximum context length is 8192 tokens. However, you requested 2048 "
            "output tokens and your prompt contains at least 6145 input tokens, for a total of at "
            "least 8193 tokens."
        ),
        (8192, None),
    ),
    "vLLM, by characters": (
        (
            "This model's maximum context length is 8192 tokens. However, you requested 2048 "
            "output tokens and your prompt contains 99000 characters (more than 61440 characters, "
            "which is the upper bound for 6144 input tokens)."
        ),
        (8192, None),
    ),
    "vLLM, of an answer": (
        "max_tokens=16384 cannot be greater than max_model_len=max_total_tokens=8192.",
        (8192, None),
    ),
    "SGLang": (
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        (4096, 5000),
    ),
    "SGLang's scheduler": (
        "Input length (5000 tokens) exceeds the maximum allowed length (4095 tokens).",
        (4095, 5000),
    ),
    "Moonshot": (
        "Your request exceeded model token limit: 131072 (requested: 140000)",
        (131072, 140000),
    ),
    "DashScope": (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        (129024, None),
    ),
    "TGI, of a prompt": (
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
        (4095, 5000),
    ),
    "without figures": (
        "input is too long",
        (None, None),
    ),
    "nonsense": (
        "context length is 3",
        (None, None),
    ),
}


@pytest.mark.parametrize(("said", "tokens"), WORDS.values(), ids=WORDS)
def test_the_words_of_a_refusal_name_the_tokens(
    said: str, tokens: tuple[int | None, int | None]
) -> None:
    assert context_length.tokens_in(said) == tokens


# ── what fits ──

TOO_LONG = (
    f"{PROMPT_TOO_LONG}: request (4500 tokens) exceeds the available context size (4096 tokens)"
)


def asked_with(size: int, cap: int = 1000) -> ModelRequest:
    request = ModelRequest("m-1", ({"role": "user", "content": ""},), cap)
    text = "x" * (size - request.prompt_bytes())
    return request.replace(messages=({"role": "user", "content": text},))


@pytest.mark.parametrize(
    ("prompt_tokens", "room"),
    [(1000, 3000 * 9), (500, 3000 * 4), (3000, 3000 * 3), (9000, 3600), (0, 7500)],
)
def test_the_bytes_of_a_token_are_learned_within_bounds(prompt_tokens: int, room: int) -> None:
    """1.2 to 4, a tenth less than what was counted; 2.5 before anything was."""
    fit = ContextFit(4000)
    assert fit.room(1000) == 7500
    fit.learn(10_000, TokenUsage(prompt_tokens, 5))
    assert fit.room(1000) == min(room, 12_000)
    fit.learn(10_000, TokenUsage(1000, 5))
    assert fit.room(1000) <= 12_000


def test_the_densest_prompt_counts_and_no_estimate() -> None:
    fit = ContextFit(4000)
    fit.learn(10_000, TokenUsage(5000, 5))
    fit.learn(10_000, TokenUsage(2500, 5))
    fit.learn(10_000, TokenUsage(9999, 5, estimated=True))
    fit.learn(10_000, None)
    assert fit.room(1000) == 5400


@pytest.mark.parametrize(
    ("error", "size", "room"),
    [
        (TOO_LONG, 9000, 3096 * 1.8),
        (f"{PROMPT_TOO_LONG}: input is too long", 9000, 5400),
        (f"{PROMPT_TOO_LONG}: the available context size is 2048", 5000, 1048 * 2.5),
    ],
)
def test_after_a_refusal_prompts_are_shorter(error: str, size: int, room: float) -> None:
    fit = ContextFit(8192)
    assert fit.shrinks(asked_with(size), RemoteError(error))
    assert fit.room(1000) == pytest.approx(room, abs=2)


def test_a_prompt_is_shorter_also_beside_a_long_answer() -> None:
    """A refusal without figures, at a cap that an unknown context had room for."""
    fit, request = ContextFit(65_536), asked_with(45_000).replace(max_tokens=16_384)
    assert fit.shrinks(request, RemoteError(f"{PROMPT_TOO_LONG}: input is too long"))
    assert 20_000 < fit.room(fit.answer(16_384)) < 40_000


def test_what_cannot_be_shorter_and_what_is_no_refusal_of_that_changes_nothing() -> None:
    fit = ContextFit(4096)
    assert not fit.shrinks(asked_with(1200), RemoteError(TOO_LONG))
    before = ContextFit(4096)
    assert not before.shrinks(asked_with(9000), RemoteError("the key was refused"))
    assert before.room(1000) == 7740
