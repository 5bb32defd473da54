from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.models.prices import TABLE, Price, Prices, context_window
from rlm_ci.models.providers import PROVIDERS

TOP = Path(__file__).resolve().parents[2]


def test_the_table_knows_what_models_cost() -> None:
    price = Prices().of("gpt-4o-mini")
    assert price is not None
    assert price.cost(1_000_000, 0) == Decimal("0.15")
    assert price.cost(0, 1_000_000) == Decimal("0.6")
    assert price.cost(1_000_000, 0, 1_000_000) == Decimal("0.075")


def test_the_table_knows_what_a_model_can_read() -> None:
    assert context_window("gpt-4o-mini", "") == 128_000
    assert context_window("a-model-of-our-own", "") is None


def test_nobody_has_to_trust_prices_that_nobody_has_looked_at_for_half_a_year() -> None:
    lock = tomllib.loads((TOP / "uv.lock").read_text())
    (package,) = (one for one in lock["package"] if one["name"] == "genai-prices")
    looked = {
        TABLE.name: json.loads(TABLE.read_text())["checked"],
        f"genai-prices {package['version']}": package["sdist"]["upload-time"],
    }
    oldest = datetime.now(UTC) - timedelta(days=183)
    old = {
        name: day
        for name, day in looked.items()
        if datetime.fromisoformat(day).replace(tzinfo=UTC) < oldest
    }
    assert not old, f"look at them again: make prices ({old})"


def test_the_price_table_has_the_models_of_each_provider_and_says_whose_it_is() -> None:
    table = json.loads(TABLE.read_text())
    assert "Permission is hereby granted, free of charge" in " ".join(table["license"])
    for provider, models in table["providers"].items():
        assert len(models) > 3, provider
        prices = Prices(base_url=PROVIDERS[provider].base_url)
        for name in models:
            price = prices.of(name)
            assert isinstance(price, Price)
            assert price.rates[0].above == 0
            assert price.cost(1_000_000, 1_000_000) > 0, name


def test_todays_models_have_a_price_and_a_context() -> None:
    for model, provider in {
        "gpt-5.5": "openai", "claude-opus-4-8": "anthropic", "claude-mythos-5": "anthropic",
        "gemini-4-hydrogen": "gemini", "mistral-large-latest": "mistral",
    }.items():  # fmt: skip
        url = PROVIDERS[provider].base_url
        assert Prices(base_url=f"{url}/").of(model) is not None, model
        assert (context_window(model, url) or 0) >= 200_000
    long = Prices().of("gpt-5.5")
    assert long is not None
    assert (long.cost(272_000, 0), long.cost(272_001, 0)) == (Decimal("1.36"), Decimal("2.72001"))
    assert Prices(base_url="https://gateway.acme.dev/v1").of("claude-mythos-5") is not None
    # At another provider a name says nothing of this provider's price.
    assert Prices(base_url=PROVIDERS["groq"].base_url).of("claude-mythos-5") is None


def test_a_long_prompt_pays_its_own_rate() -> None:
    price = Prices().of("claude-sonnet-4-5")
    assert price is not None
    assert price.cost(200_000, 0) == Decimal("0.6")
    assert price.cost(200_001, 0) == Decimal("1.200006")
    assert price.max_cost(200_001, 0) == Decimal("1.200006")


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
