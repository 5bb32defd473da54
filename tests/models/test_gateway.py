"""What a model reads, by who says so; and which runs are looked into for answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.models import context_length
from rlm_ci.models.gateway import ModelOptions, context_of, earlier
from rlm_ci.models.providers import Endpoint
from testing.loopback_model.server import ModelServer

if TYPE_CHECKING:
    from pathlib import Path

NAME = "calls.jsonl"


def made(folder: Path, number: int, size: int = 1) -> Path:
    run = folder / f"2026-01-01T00-00-{number:02d}Z-00000000"
    run.mkdir(parents=True)
    with (run / NAME).open("wb") as file:
        file.truncate(size)
    return run


def test_the_newest_five_without_the_run_itself(tmp_path: Path) -> None:
    runs = [made(tmp_path, number) for number in range(8)]
    (runs[5] / NAME).unlink()
    found = earlier(str(runs[7]), NAME)
    assert found == tuple(str(runs[number] / NAME) for number in (6, 4, 3, 2, 1))


def test_no_more_than_can_be_read_at_the_beginning(tmp_path: Path) -> None:
    runs = [made(tmp_path, number, 30 << 20) for number in range(4)]
    own = made(tmp_path, 9)
    assert earlier(str(own), NAME) == (str(runs[3] / NAME), str(runs[2] / NAME))


def test_a_link_is_no_run(tmp_path: Path) -> None:
    elsewhere = made(tmp_path / "elsewhere", 1)
    own = made(tmp_path / "cli", 9)
    os.symlink(elsewhere, tmp_path / "cli" / elsewhere.name)
    assert earlier(str(own), NAME) == ()
    assert earlier(str(tmp_path / "nowhere" / "run"), NAME) == ()


def options(base_url: str, tokens: int | None = None, provider: str = "") -> ModelOptions:
    endpoint = Endpoint(base_url, "k", "", provider)
    return ModelOptions(endpoint, 5, {}, None, None, None, context_tokens=tokens)


def test_a_setting_says_first_what_a_model_reads_then_its_endpoint_then_the_table() -> None:
    with ModelServer() as served:
        served.listing = [{"id": "gpt-4", "context_length": 4096}]
        told = context_of(options(served.url), "gpt-4")
        assert (told.tokens, told.source, len(served.asked)) == (4096, "as its endpoint says", 1)
        told = context_of(options(served.url, 2048), "gpt-4")
        assert (told.tokens, told.source) == (2048, "models.context_tokens")
        assert len(served.asked) == 1, "it is not asked"
        served.listing = []
        told = context_of(options(served.url), "gpt-4")
        assert (told.tokens, told.source) == (8192, "as the table of models says")
        for more in (options(served.url, provider="vllm"), options("recorded:/none")):
            told = context_of(more, "gpt-4")
            assert (told.tokens, told.is_known) == (context_length.DEFAULT, False)
    assert context_of(options(served.url), "no such model").tokens == context_length.DEFAULT
