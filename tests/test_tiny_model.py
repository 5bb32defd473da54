"""A real model, small enough for any machine: what holds whatever it answers."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from testing.tiny_model import NAME, TinyModel, is_installed

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not is_installed(), reason="make test-full found no index, or none with llama.cpp for here"
    ),
]

BASE = '''\
"""Prices of a shop."""


def total(prices: list[float], discount: float) -> float:
    """The sum of prices, less a discount between 0 and 1."""
    return sum(prices) * (1 - discount)


def average(prices: list[float]) -> float:
    """The mean price; 0 for no prices."""
    if not prices:
        return 0.0
    return sum(prices) / len(prices)
'''
HEAD = (
    BASE.replace("    if not prices:\n        return 0.0\n", "")
    + '''

def cheapest(prices: list[float]) -> float:
    """The lowest price."""
    return sorted(prices)[-1]
'''
)


@pytest.mark.long
def test_a_review_by_a_tiny_model_says_nothing_untrue(
    repo: GitRepo, cli: Cli, tmp_path: Path
) -> None:
    repo.write("prices.py", BASE).commit()
    repo.write("prices.py", HEAD).commit()
    with TinyModel(4096, tmp_path / "server.log") as server:
        env = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "RLM_CI_MODELS_MAX_COMPLETION_TOKENS": "128",
            "RLM_CI_REVIEW_DESCRIBE": "off",
        }
        before = server.counted()
        words = ("--base", "HEAD~1", "--model", NAME, "--depth", "quick", "--format", "json")
        ended = cli("review", *words, cwd=repo.path, env=env, timeout=280)
        assert ended.code in {0, 1, 3}, ended
        report = ended.json()
        usage = report["usage"]
        # A request whose connection breaks is charged by estimates: the server may have read it.
        estimates = [
            fact["charge"]["usage"]
            for path in repo.path.glob(".runs/*/cli/*/calls.jsonl")
            for fact in map(json.loads, path.read_text().splitlines())
            if fact["type"] == "failed" and fact.get("charge")
        ]
        not_counted = [
            sum(usage[key] for usage in estimates) for key in ("prompt_tokens", "completion_tokens")
        ]
        expected = (
            before[0] + usage["prompt_tokens"] - usage["cached_tokens"] - not_counted[0],
            before[1] + usage["completion_tokens"] - not_counted[1],
        )
        patience = time.monotonic() + 30
        while server.counted() != expected and time.monotonic() < patience:
            time.sleep(0.2)  # it counts an answer some time after it was read
        assert server.counted() == expected
    assert "the model reads 4,096 tokens (as its endpoint says)" in ended.stderr
    assert usage["calls"] > 0
    for finding in report["findings"]:
        for location in finding["evidence"]:
            assert location["path"] == "prices.py"
            assert location["quote"] in HEAD or location["quote"] in BASE, finding
    [part] = report["parts"]
    is_read = part["verdict"] != "incomplete"
    assert is_read == (ended.code != 3)
    assert is_read == ("not looked at in full" not in part["summary"])
    assert part["metrics"]["looked"] == is_read
    assert (part["metrics"]["confidence"] > 0.5) == is_read
    assert cli("replay", "latest", "--check", cwd=repo.path).code == 0
    assert cli("verify", "latest", cwd=repo.path).code == 0
