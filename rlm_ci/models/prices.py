"""The price of a model's tokens in USD, and how many it reads.

A price is that of the settings, else that of ``price_table.json``, which ``docs/price_table.py``
writes, else that of the package genai-prices, which knows more providers and ways to write a name.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path

from rlm_ci.errors import ConfigError
from rlm_ci.models.providers import OPENAI, PROVIDERS
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.errors import RlmCiError

#: With the day on which it was compared with its source.
TABLE = Path(__file__).with_name("price_table.json")

_MILLION = 1_000_000
_ZERO = Decimal(0)


class Rate(Value):
    """USD per million tokens, and per call, for prompts of more than ``above`` tokens."""

    above: int
    input: Decimal
    output: Decimal
    cached: Decimal
    call: Decimal = _ZERO

    def of(self, prompt: int, completion: int, cached: int) -> Decimal:
        tokens = (prompt - cached) * self.input + cached * self.cached + completion * self.output
        return tokens / _MILLION + self.call


class Price(Value):
    """A model's rates, by the length of the prompt; the first begins at 0."""

    rates: tuple[Rate, ...]

    def cost(self, prompt: int, completion: int, cached: int = 0) -> Decimal:
        """What a call costs that used so many tokens; ``cached`` of the prompt's were cached."""
        rate = next(rate for rate in reversed(self.rates) if prompt > rate.above or not rate.above)
        return rate.of(prompt, completion, min(cached, prompt))

    def max_cost(self, prompt: int, completion: int) -> Decimal:
        """The most that a call can cost with at most so many tokens of each kind."""
        reached = [rate for rate in self.rates if prompt > rate.above or not rate.above]
        return max(
            rate.of(prompt, completion, cached) for rate in reached for cached in (0, prompt)
        )


class Prices:
    """Prices by the model's name: ``overrides`` first, then the tables.

    ``overrides`` is ``{NAME: {"input_per_million", "output_per_million"}}``, with an optional
    ``cached_per_million``; ``base_url`` tells the tables the provider. Raises ConfigError for an
    invalid price.
    """

    def __init__(
        self, overrides: Mapping[str, Mapping[str, object]] | None = None, base_url: str = ""
    ) -> None:
        self._known: dict[str, Price | None] = {
            name: _override(name, figures) for name, figures in (overrides or {}).items()
        }
        self._base_url = base_url

    def of(self, model: str) -> Price | None:
        """The price of ``model``, or None."""
        if model not in self._known:
            self._known[model] = _looked_up(model, self._base_url)
        return self._known[model]


def unknown(model: str) -> ConfigError:
    """The error of a budget of money for ``model`` without a price."""
    return ConfigError(
        f"the price of the model {model!r} is not known, so a budget of money is not possible",
        where="budget_usd",
        hint=f'give [models.prices."{model}"] its input_per_million and output_per_million in USD, '
        "or limit --max-tokens or --max-calls instead",
    )


def ends_run(error: RlmCiError, model: str, usual: str) -> bool:
    """Whether the error of a call to ``model`` is one of the run's configuration.

    It is not where a budget of money refuses a model that somebody else than the run has named.
    """
    is_other = model != usual and str(error) == str(unknown(model))
    return isinstance(error, ConfigError) and not is_other


def _override(name: str, figures: Mapping[str, object]) -> Price:
    where = f'models.prices."{name}"'
    keys = {"input_per_million", "output_per_million", "cached_per_million"}
    if strange := sorted(set(figures) - keys):
        raise ConfigError(
            f"unknown key {strange[0]!r}", where=where, hint=f"known: {', '.join(sorted(keys))}"
        )

    def figure(key: str) -> Decimal:
        if key not in figures:
            raise ConfigError(f"{key} is missing", where=where, hint="both prices are needed")
        try:
            # By its text, so that 0.1 is exactly a tenth.
            amount = Decimal(str(figures[key]))
        except InvalidOperation:
            amount = Decimal("NaN")
        if isinstance(figures[key], bool) or not amount.is_finite() or amount < 0:
            raise ConfigError(
                f"{key} is {figures[key]!r}, not a price",
                where=where,
                hint="give USD per million tokens, such as 2.5",
            )
        return amount

    read = figure("input_per_million")
    cached = figure("cached_per_million") if "cached_per_million" in figures else read
    return Price((Rate(0, read, figure("output_per_million"), cached),))


def context_window(model: str, base_url: str) -> int | None:
    """The tokens that ``model`` can read, where a table knows."""
    row = _row(model, base_url)
    if row is not None and row["context"]:
        return int(row["context"])
    entry = _entry(model, base_url)
    window = None if entry is None else entry.model.context_window
    return window if isinstance(window, int) and window > 0 else None


def _looked_up(model: str, base_url: str) -> Price | None:
    row = _row(model, base_url)
    if row is not None:
        return Price(tuple(Rate(above, *map(Decimal, figures)) for above, *figures in row["rates"]))
    entry = _entry(model, base_url)
    return None if entry is None else _from_figures(entry.model_price)


def _row(model: str, base_url: str) -> Any:
    """What our table has of a model at its provider; at another gateway, by the name alone."""
    table = _table()["providers"]
    address = base_url.rstrip("/") or PROVIDERS[OPENAI].base_url
    provider = next((name for name, row in PROVIDERS.items() if row.base_url == address), "")
    places = [table.get(provider, {})] if provider else table.values()
    return next((models[model] for models in places if model in models), None)


@cache
def _table() -> Any:
    return json.loads(TABLE.read_text("utf-8"))


def _entry(model: str, base_url: str) -> Any:
    """What the package's table has of a model; None where it does not know it."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    nothing = Usage(input_tokens=0, output_tokens=0)
    try:
        return calc_price(nothing, model, provider_api_url=base_url or None)
    except LookupError:
        try:  # another gateway: by the name alone
            return calc_price(nothing, model)
        except LookupError:
            return None


def _from_figures(figures: Any) -> Price | None:
    """A price from an entry of the table: each figure is a Decimal, tiers of them, or None."""
    read, written, cached = (
        _tiers(getattr(figures, name)) for name in ("input_mtok", "output_mtok", "cache_read_mtok")
    )
    if not read or not written:
        return None
    call = (figures.requests_kcount or _ZERO) / 1000
    cached = cached or read
    starts = sorted({*read, *written, *cached})
    return Price(
        tuple(Rate(at, _at(read, at), _at(written, at), _at(cached, at), call) for at in starts)
    )


def _tiers(figure: Any) -> dict[int, Decimal] | None:
    """USD per million tokens by the prompt's length from which it holds."""
    if figure is None or isinstance(figure, Decimal):
        return None if figure is None else {0: figure}
    return {0: figure.base, **{tier.start: tier.price for tier in figure.tiers}}


def _at(tiers: dict[int, Decimal], start: int) -> Decimal:
    return tiers[max(tier for tier in tiers if tier <= start)]
