"""What a provider lists of a model, and the requests that are made to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.models import context_length
from testing.loopback_model.server import ModelServer
from testing.model_clients import client_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_OTHER = {"id": "other", "context_length": 4096}


@pytest.mark.parametrize(
    ("row", "tokens"),
    [
        pytest.param({"max_model_len": 32768}, 32768, id="vLLM"),
        pytest.param({"context_window": 131072, "max_completion_tokens": 8192}, 131072, id="Groq"),
        pytest.param({"max_context_length": 131072}, 131072, id="Mistral"),
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


def test_a_small_context_has_smaller_requests_and_a_large_one_those_that_were_wanted() -> None:
    assert context_length.answer_tokens(8192, 16384) == 2048
    assert context_length.prompt_bytes(8192, 2048, 120_000) == 18_432
    assert context_length.answer_tokens(200_000, 16384) == 16384
    assert context_length.prompt_bytes(200_000, 16384, 120_000) == 120_000
    # An answer that is set may leave no room at all.
    assert context_length.prompt_bytes(8192, 16384, 120_000) == 1
