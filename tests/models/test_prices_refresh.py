"""``make prices``: the table of prices is that of a package, which an index on loopback serves."""

from __future__ import annotations

import json
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs import price_table

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMBER = "litellm/model_prices_and_context_window_backup.json"
TEXTS = {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "mode": "chat"}


class Index:
    """A package index with one wheel."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "simple" / "litellm"
        self.place.mkdir(parents=True)
        self.url = ""

    def publish(self, version: str, models: dict[str, Any], *, notice: str = "MIT License") -> None:
        name = f"litellm-{version}"
        with zipfile.ZipFile(self.place / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(MEMBER, json.dumps(models))
            info = f"{name}.dist-info"
            wheel.writestr(f"{info}/licenses/LICENSE", f"Of the folder a/: other\n{notice}\nText")
            head = "Metadata-Version: 2.1\nName: litellm\nVersion: "
            wheel.writestr(f"{info}/METADATA", f"{head}{version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    found = Index(tmp_path)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_port}/simple"
        yield found
        server.shutdown()


def rows(**more: Any) -> dict[str, Any]:
    """A model of each provider, and ``more``."""
    every = {
        f"{name}/m": {**TEXTS, "litellm_provider": name} for name in price_table._PROVIDERS.values()
    }
    return {**every, **more}


@pytest.mark.full
def test_the_newest_release_becomes_the_table(index: Index, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    own = {"litellm_provider": "openai", **TEXTS}
    long = {
        **own, "max_input_tokens": 1_050_000, "cache_read_input_token_cost": 1.25e-07,
        "input_cost_per_token_above_272k_tokens": 5e-06,
        "output_cost_per_token_above_272k_tokens": 1.5e-05,
        "input_cost_per_token_above_272k_tokens_batches": 1e-09,
    }  # fmt: skip
    others = {
        "draws": {**own, "mode": "image_generation"},
        "free": {**own, "input_cost_per_token": 0, "output_cost_per_token": 0},
        "elsewhere": {**own, "litellm_provider": "acme"},
        "sample_spec": {"litellm_provider": "one of many", "mode": "one of many"},
    }
    index.publish("9.9.0", rows(long=long, **others))
    index.publish("9.1.0", {})
    options = ("--index-url", index.url)
    assert price_table.main(options, table) == ("litellm 9.9.0: 7 models, 7 new, 0 changed, 0 gone")
    written = json.loads(table.read_text())
    assert written["source"].endswith("litellm 9.9.0")
    assert written["license"] == ["MIT License", "Text"]
    assert written["providers"]["openai"] == {
        "long": {
            "context": 1_050_000,
            "rates": [[0, "2.5", "10", "0.125"], [272_000, "5", "15", "0.125"]],
        },
        "m": {"context": None, "rates": [[0, "2.5", "10", "2.5"]]},
    }
    assert sorted(written["providers"]) == sorted(price_table._PROVIDERS)
    # Of the next release: a price is another, a model is new, and one is gone.
    cheaper = {**own, "output_cost_per_token": 5e-06}
    index.publish("10.0", rows(**{"openai/m": cheaper, "new": own}))
    assert price_table.main(options, table) == "litellm 10.0: 7 models, 1 new, 1 changed, 1 gone"


@pytest.mark.full
@pytest.mark.parametrize(
    ("models", "terms", "told"),
    [
        ({}, "MIT License", "litellm 9.9.0 has no chat model of openai, anthropic"),
        ({"input_cost_per_token": -1}, "MIT License", "input_cost_per_token is -1, no price"),
        ({"output_cost_per_token": "NaN"}, "MIT License", "is 'NaN', no price"),
        ({"output_cost_per_token": "x"}, "MIT License", "has no table as expected"),
        ({"output_cost_per_token": 1}, "Not yours", "has no table as expected"),
        (None, "", "pip did not get litellm; the table is as it was"),
    ],
)
def test_a_table_that_cannot_be_read_leaves_the_old_one(
    index: Index, tmp_path: Path, models: dict[str, Any] | None, terms: str, told: str
) -> None:
    table = tmp_path / "table.json"
    table.write_text("as it was")
    if models is not None:
        odd = {**TEXTS, "litellm_provider": "openai", **models}
        index.publish("9.9.0", rows(odd=odd) if models else {}, notice=terms)
    with pytest.raises(SystemExit, match=told):
        price_table.main(("--index-url", index.url), table)
    assert table.read_text() == "as it was"
