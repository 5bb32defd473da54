"""What each verb does with a model that reads 4,096 or 8,192 tokens, and refuses longer prompts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import Asking
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.loopback_model.small_contexts import SmallContext, vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no sandbox, no flock")

#: As llama.cpp counts code, and as a small vocabulary and vLLM do.
CONTEXTS = {
    "llama.cpp, 4096": SmallContext(4096),
    "vLLM, 4096, dense": vllm(4096, 2.5),
    "llama.cpp, 8192": SmallContext(8192),
}
each_context = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Asking]:
    found = Asking(repo, cli, llm)
    yield found
    found.clean()


def serves(stage: Asking, context: SmallContext) -> None:
    """The endpoint reads so much, and lists it."""
    stage.llm.context = context
    meta = {"n_ctx": context.tokens, "n_ctx_train": 131_072}
    stage.llm.listing = {"data": [{"id": "small", "meta": meta}]}


def refused(stage: Asking) -> list[Asked]:
    return [one for one in stage.llm.completions if one.status >= 400]


def run(stage: Asking, *words: str) -> Ended:
    return stage.cli(*words, "--model", "small", env={"RLM_CI_MODEL": None})


# ── review ──

CODE = """def total(prices):
    return sum(prices)


def mean(prices):
    return total(prices) / len(prices)


def shares(prices):
    whole = total(prices)
    return [price / whole for price in prices]
"""
CLAIM = {
    "rule": "division-by-zero", "severity": "medium", "domain": "quality", "confidence": 0.8,
    "message": "An empty list divides by zero.", "path": "shop.py", "line_start": 6, "line_end": 6,
    "quote": "    return total(prices) / len(prices)", "suggested_fix": None,
}  # fmt: skip


def reviews(asked: Asked) -> Answer:
    is_shown = CLAIM["quote"] in asked.messages[0]["content"]
    is_about = "Look for its faults" in asked.messages[0]["content"]
    return Answer(json.dumps({"findings": [CLAIM] if is_shown and is_about else []}))


@pytest.mark.full
@each_context
def test_a_change_of_twelve_lines_is_reviewed(stage: Asking, context: SmallContext) -> None:
    base = stage.repo.sha()
    stage.repo.write("shop.py", CODE).commit()
    serves(stage, context)
    stage.llm.script(reviews)
    ended = run(stage, "review", "--base", base, "--format", "json")
    report = ended.json()
    assert "no room for tools, so the review is quick" in ended.stderr, ended
    [part] = [one for one in report["parts"] if one["id"] == "review"]
    assert "so the review is quick" in part["summary"], part
    assert part["verdict"] in ("clean", "findings"), part
    assert [one["rule"] for one in report["findings"]] == ["review/division-by-zero"], report
    assert not refused(stage)
    assert stage.cli("replay", "latest", "--check").code == 0
