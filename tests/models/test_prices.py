from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.models.prices import Prices, context_window


def test_the_table_knows_what_models_cost() -> None:
    price = Prices().of("gpt-4o-mini")
    assert price is not None
    assert price.cost(1_000_000, 0) == Decimal("0.15")
    assert price.cost(0, 1_000_000) == Decimal("0.6")
    assert price.cost(1_000_000, 0, 1_000_000) == Decimal("0.075")


def test_the_table_knows_what_a_model_can_read() -> None:
    assert context_window("gpt-4o-mini", "") == 128_000
    assert context_window("a-model-of-our-own", "") is None


def test_a_long_prompt_pays_its_own_rate() -> None:
    price = Prices().of("claude-sonnet-4-5")
    assert price is not None
    assert price.cost(200_000, 0) == Decimal("0.6")
    assert price.cost(200_001, 0) == Decimal("1.200006")
    assert price.most(200_001, 0) == Decimal("1.200006")


def test_the_provider_behind_the_base_url_counts() -> None:
    assert Prices().of("openai/gpt-4o") is None
    assert Prices(base_url="https://openrouter.ai/api/v1").of("openai/gpt-4o") is not None
    assert Prices(base_url="http://127.0.0.1:8000/v1").of("gpt-4o") is not None


def test_what_nobody_knows_has_no_price() -> None:
    assert Prices().of("a-model-of-our-own") is None


def test_a_users_figure_wins() -> None:
    figures = {"gpt-4o": {"input_per_million": 0.1, "output_per_million": "2.5"}}
    price = Prices(figures).of("gpt-4o")
    assert price is not None
    # As it is written: a tenth, not its nearest binary fraction.
    assert price.cost(1_000_000, 1_000_000) == Decimal("2.6")
    assert price.cost(1_000_000, 0, 1_000_000) == Decimal("0.1")


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"input_per_million": 1}, "output_per_million is missing"),
        ({"input_per_million": -1, "output_per_million": 1}, "is -1, not a price"),
        ({"input_per_million": "much", "output_per_million": 1}, "is 'much', not a price"),
        ({"input_per_million": True, "output_per_million": 1}, "is True, not a price"),
        ({"input_per_million": float("nan"), "output_per_million": 1}, "is nan, not a price"),
        ({"input_per_million": 1, "output_per_million": 1, "input": 2}, "unknown key 'input'"),
    ],
)
def test_a_figure_that_is_none_is_told(figures: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Prices({"m": figures})
    assert caught.value.where == 'models.prices."m"'
