"""What each verb does with a model that reads 4,096 or 8,192 tokens, and refuses longer prompts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import LOG, QUESTION, REFUSED, Asking, final, going_on, prompt_of
from testing.fix_stage import BUG, MEND, MENDED, QUICK, USELESS, Play, call, done
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.loopback_model.small_contexts import SmallContext, vllm
from testing.repl_stage import repl

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
    assert stage.cli("verify", "latest").code == 0


@pytest.mark.full
def test_guidelines_are_left_out_where_there_is_no_room_for_them(stage: Asking) -> None:
    stage.repo.write("AGENTS.md", "Guard each division against zero.\n" * 40).commit()
    base = stage.repo.sha()
    stage.repo.write("shop.py", CODE).commit()
    serves(stage, SmallContext(4096))
    stage.llm.script(reviews)
    ended = run(stage, "review", "--base", base, "--format", "json")
    assert "no room for guidelines, so the review is quick" in ended.stderr, ended
    assert [one["rule"] for one in ended.json()["findings"]] == ["review/division-by-zero"]
    assert not refused(stage)


@pytest.mark.full
def test_a_review_for_which_nothing_has_room_says_what_to_do(stage: Asking) -> None:
    base = stage.repo.sha()
    stage.repo.write("shop.py", CODE).commit()
    serves(stage, SmallContext(2048))
    stage.llm.script(reviews)
    ended = run(stage, "review", "--base", base)
    assert ended.code == 3, ended
    assert "have no room for a change (models.context_tokens" in ended.stderr


# ── fix ──

#: A file of which a small context has room for a part.
LONG = "".join(f"def part_{n}(value):\n    return value + {n}\n\n\n" for n in range(400)) + BUG
FIX = ("rlm", "make add add", "--validator", QUICK)


def mends(asked: Asked) -> Answer:
    """Read where the fault is, in steps, then mend it: what it was shown says where it stands."""
    said = sum(one["role"] == "assistant" for one in asked.messages)
    noted = json.dumps(asked.messages).count("calc.py, lines ")
    shown = "return a - b" in json.dumps(asked.messages)
    if said + noted == 0:
        return call("read", path="calc.py")
    return MEND if shown and "Edited calc.py" not in json.dumps(asked.messages) else (
        done() if shown or "Edited calc.py" in json.dumps(asked.messages)
        else call("read", path="calc.py", start=1590)
    )  # fmt: skip


@pytest.mark.sample(1)
@each_context
@pytest.mark.parametrize("by", ["listed", "setting", "refusals"])
def test_a_fix_is_made_by_small_reads(stage: Asking, context: SmallContext, by: str) -> None:
    stage.repo.write("calc.py", LONG).commit()
    serves(stage, context)
    env: dict[str, str | None] = {"RLM_CI_MODEL": None}
    if by != "listed":
        stage.llm.listing = None
    if by == "setting":
        env["RLM_CI_MODELS_CONTEXT_TOKENS"] = str(context.tokens)
    stage.llm.script(mends)
    ended = stage.cli(*FIX, "--model", "small", env=env)
    assert ended.code == 0, ended
    assert stage.source("calc.py").endswith(MENDED)
    if by != "refusals":
        assert f"the model reads {context.tokens:,} tokens" in ended.stderr
        assert not refused(stage)
    sizes = [json.dumps(one.body["messages"]) for one in refused(stage)]
    assert len(sizes) == len(set(sizes)) <= 3, "none is sent again"
    asked = len(stage.llm.asked)
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0
    assert len(stage.llm.asked) == asked


@pytest.mark.full
def test_a_resumed_fix_keeps_to_the_context_of_its_beginning(stage: Asking) -> None:
    serves(stage, SmallContext(4096))
    stage.llm.script(Play([USELESS, done()], [MEND, done()]))
    assert run(stage, *FIX, "--max-iterations", "1").code == 3
    stage.llm.listing = {"data": [{"id": "small", "max_model_len": 131_072}]}
    asked = len(stage.llm.asked)
    ended = stage.cli("resume", "latest", "--max-iterations", "2")
    assert ended.code == 0, ended
    assert {one.method for one in stage.llm.asked[asked:]} == {"POST"}, "the list is not asked for"
    assert max(one.cap or 0 for one in stage.llm.completions) == 1024
    assert not refused(stage)


@pytest.mark.full
def test_what_has_no_room_names_the_setting(stage: Asking) -> None:
    serves(stage, SmallContext(1024))
    stage.llm.script(mends)
    ended = run(stage, *FIX)
    assert ended.code == 8, ended
    assert "the prompt is too long for the model" in ended.stderr
    assert "models.context_tokens" in ended.stderr


# ── questions ──


def answers(asked: Asked) -> Answer:
    """Look for errors, then answer with the line that the prompt shows."""
    shown = prompt_of(asked)
    if REFUSED in shown:
        return Answer(json.dumps(final(f"The gateway refused the key ({LOG}).")))
    return Answer(json.dumps(going_on(searches=[{"query": "ERROR", "top_k": 5}])))


def codes(asked: Asked) -> Answer:
    """Print all of it, of which the prompt has the ends, then search by code."""
    is_printed = "2026-03-03 11:" in prompt_of(asked)
    found = "[line for line in context.splitlines() if 'ERROR' in line][0]"
    code = f"FINAL({found})" if is_printed else "print(context)"
    return Answer(repl(code))


@pytest.mark.full
@each_context
@pytest.mark.parametrize("how", ["symbolic", "repl"])
def test_a_question_about_a_long_text_is_answered(
    stage: Asking, context: SmallContext, how: str
) -> None:
    serves(stage, context)
    stage.llm.script(answers if how == "symbolic" else codes)
    ended = run(stage, "rlm", QUESTION, "--context", LOG, "--environment", how)
    assert ended.code == 0, ended
    assert "refused the key" in ended.stdout
    assert not refused(stage)
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0


# ── episodes, chats, benchmarks ──


def action(name: str, **arguments: object) -> Answer:
    return Answer(json.dumps({"action": name, **arguments}))


def acts(asked: Asked) -> Answer:
    """Run code that prints much, again and again, until a note says so."""
    shown = prompt_of(asked)
    if "It was said: 41" in shown or "[… " in shown:
        return action("final", final_response="It is 42.")
    return action("run_python", code="print('It was said: 41' + 'x ' * 9000)")


@pytest.mark.full
@each_context
@pytest.mark.parametrize("environment", ["generic", "coding", "pure_rlm"])
def test_an_episode_ends_with_its_answer(
    stage: Asking, context: SmallContext, environment: str
) -> None:
    serves(stage, context)
    stage.llm.script(codes if environment == "pure_rlm" else acts)
    words = ("run", "What is it?", "--environment", environment, "--validator", "none")
    more = ("--context", LOG) if environment == "pure_rlm" else ()
    ended = run(stage, *words, *more)
    assert ended.code == 0, ended
    assert "refused the key" in ended.stdout or "It is 42." in ended.stdout, ended
    assert f"the model reads {context.tokens:,} tokens" in ended.stderr
    assert not refused(stage)
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0


@pytest.mark.full
def test_a_long_chat_stays_within_what_the_model_reads(stage: Asking) -> None:
    serves(stage, SmallContext(4096))
    stage.llm.script(lambda _asked: action("final", final_response="Yes. " * 300))
    for turn in range(8):
        words = ("chat", f"Question {turn}: " + "and " * 600, "--session-id", "long")
        ended = run(stage, *words, "--sandbox", "none")
        assert ended.code == 0, ended
    assert not refused(stage)
    assert "Question 7" in prompt_of(stage.llm.completions[-1])


@pytest.mark.full
def test_the_baseline_of_a_benchmark_gets_what_fits(stage: Asking) -> None:
    serves(stage, SmallContext(4096))
    stage.llm.script(lambda _asked: Answer("PONG"))
    case = {"id": "ping", "task": "Ping.", "expected_answer": "PONG", "context": "pad " * 9000}
    stage.repo.write("ping.json", json.dumps([case]))
    ended = run(stage, "bench", "run", "ping.json", "--mode", "direct-llm", "--format", "json")
    assert ended.code == 0, ended
    [entry] = ended.json()["case_results"]
    assert entry["completed"]
    assert entry["context_bytes_left_out"] > 25_000
    assert not refused(stage)
    assert max(one.cap or 0 for one in stage.llm.completions) <= 2048


@pytest.mark.full
def test_a_review_by_a_model_that_says_nothing_of_its_context(stage: Asking) -> None:
    """What is refused is cut, and read."""
    base = stage.repo.sha()
    stage.repo.write("shop.py", CODE * 40).commit()
    stage.llm.context = SmallContext(4096)
    stage.llm.script(reviews)
    ended = run(stage, "review", "--base", base)
    assert ended.code == 0, ended
    assert "review/division-by-zero" in ended.stdout
    prompts = [json.dumps(one.body["messages"]) for one in refused(stage)]
    assert len(prompts) == len(set(prompts)) > 0, "none is sent again"
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0


@pytest.mark.full
@pytest.mark.parametrize(("how", "tokens"), [("symbolic", 6000), ("repl", 5000)])
def test_a_question_to_a_model_that_says_nothing_of_its_context(
    stage: Asking, how: str, tokens: int
) -> None:
    """Refused prompts are made shorter, by the figures of the refusal."""
    stage.llm.context = SmallContext(tokens, 2.4)
    stage.llm.script(answers if how == "symbolic" else codes)
    question = QUESTION + " Say why, and how." * 1500
    ended = run(stage, "rlm", question, "--context", LOG, "--environment", how)
    assert ended.code == 0, ended
    assert "refused the key" in ended.stdout
    assert 1 <= len(refused(stage)) <= 3
    prompts = [json.dumps(one.body["messages"]) for one in refused(stage)]
    assert len(prompts) == len(set(prompts)), "none is sent again"
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0
