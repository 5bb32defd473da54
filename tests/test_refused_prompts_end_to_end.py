"""Reviews and wikis at an endpoint that refuses prompts: they are cut, and all of them is read."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from testing.fix_stage import Stage
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer, refusal
from testing.loopback_model.small_contexts import NewVllm, SmallContext, vllm
from testing.wiki_sentences import sentence, supports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no flock")

#: Files, functions of each, and the tokens that the model reads.
FILES, PARTS, TOKENS = 3, 240, 16_384


def silent(tokens: int, bytes_per_token: float) -> SmallContext:
    """A server whose refusal has no figures."""
    return SmallContext(
        tokens,
        bytes_per_token,
        lambda _prompt, _tokens: refusal(400, "input is too long for requested model"),
    )


DIALECTS = {
    "llama.cpp": SmallContext,
    "vLLM": vllm,
    "vLLM since 0.18": NewVllm,
    "no figures": silent,
}


def code(name: str) -> str:
    return "".join(
        f"def {name}_{number}(prices):\n    whole = sum(prices)\n"
        f"    return [price / whole for price in prices[{number}:]]\n\n\n"
        for number in range(PARTS)
    )


def shown(asked: Asked) -> list[tuple[str, int, str]]:
    """The functions in a prompt: file, line and text of each."""
    text = asked.messages[0]["content"]
    rows: list[tuple[str, int, str]] = []
    path = ""
    for line in text.split("\n"):
        if found := re.match(r"=== (\S+) ===", line):
            path = found[1]
        elif found := re.match(r" *(\d+) ?[+|] ?(    return \[price .*)", line):
            rows.append((path, int(found[1]), found[2]))
    return rows


def finds(asked: Asked) -> Answer:
    """Every division, as far as an answer may have claims; nothing else is a fault."""
    if not re.search("Look for (?:its )?faults", asked.messages[0]["content"]):
        return Answer(json.dumps({"findings": [], "about": [], "claims": []}))
    claims = [
        {"rule": "division-by-zero", "severity": "low", "domain": "quality", "confidence": 0.8,
         "message": f"An empty list divides by zero in {path} at line {line}.", "path": path,
         "line_start": line, "line_end": line, "quote": text, "suggested_fix": None}
        for path, line, text in shown(asked)[::12]
    ]  # fmt: skip
    return Answer(json.dumps({"findings": claims[:60]}))


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Stage]:
    found = Stage(repo, cli, llm)
    yield found
    found.clean()


def written(stage: Stage) -> str:
    """Commit the files; the commit before them."""
    base = stage.repo.sha()
    for number in range(FILES):
        stage.repo.write(f"part_{number}.py", code(f"share_{number}"))
    stage.repo.commit()
    return base


def run(stage: Stage, *words: str) -> Ended:
    return stage.cli(*words, "--model", "small", env={"RLM_CI_MODEL": None})


def refused(stage: Stage) -> list[str]:
    """Prompts with their caps: a prompt may be asked for a shorter answer."""
    refusals = (one for one in stage.llm.completions if one.status >= 400)
    return [json.dumps([one.cap, one.body["messages"]]) for one in refusals]


def read(stage: Stage) -> set[tuple[str, int, str]]:
    """The functions in all prompts that were answered."""
    taken = (one for one in stage.llm.completions if one.status < 400)
    return {row for one in taken for row in shown(one)}


def require_whole(stage: Stage, report: dict[str, Any]) -> None:
    [part] = [one for one in report["parts"] if one["id"] == "review"]
    assert part["verdict"] == "clean", part
    assert not [one for one in report["coverage"]["omitted"] if one["reason"].startswith("remote")]
    lines = {(path, line) for path, line, _ in read(stage)}
    every = {
        (f"part_{number}.py", 3 + 5 * part) for number in range(FILES) for part in range(PARTS)
    }
    assert lines == every, sorted(every - lines)[:5]
    assert len(report["findings"]) > 30
    assert len(refused(stage)) == len(set(refused(stage))) > 0, "none is sent again"


def require_replay(stage: Stage) -> None:
    asked = len(stage.llm.asked)
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0
    assert len(stage.llm.asked) == asked


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("density", [1.2, 4.0])
@pytest.mark.parametrize("of_change", [True, False], ids=["change", "repository"])
def test_a_review_reads_all_in_smaller_prompts(
    stage: Stage, dialect: str, density: float, *, of_change: bool
) -> None:
    base = written(stage)
    stage.llm.context = DIALECTS[dialect](TOKENS, density)
    stage.llm.script(finds)
    words = ("--base", base, "--depth", "quick") if of_change else ()
    ended = run(stage, "review", *words, "--fail-level", "high", "--format", "json")
    assert ended.code == 0, ended
    require_whole(stage, ended.json())
    require_replay(stage)


@pytest.mark.full
@pytest.mark.parametrize(("density", "largest"), [(4.0, 20_000), (1.2, 9_000)])
def test_windows_have_the_bytes_that_the_endpoint_has_counted(
    stage: Stage, density: float, largest: int
) -> None:
    """The first window of each part is cut by the estimate, later ones by what was counted."""
    written(stage)
    stage.llm.context = SmallContext(8_192, density)
    stage.llm.listing = {"data": [{"id": "small", "context_length": 8_192}]}
    stage.llm.script(finds)
    ended = run(stage, "review", "--fail-level", "high", "--format", "json")
    assert ended.code == 0, ended
    sizes = [len(one.messages[0]["content"]) for one in stage.llm.completions if one.status < 400]
    first = 15_360  # 6,144 tokens beside the answer, of 2.5 bytes
    assert max(sizes) > largest if density > 2.5 else max(sizes) < largest
    assert (max(sizes) > first) == (density > 2.5)
    assert len(refused(stage)) <= FILES
    require_replay(stage)


@pytest.mark.full
def test_an_endpoint_that_refuses_all_is_soon_left_alone(stage: Stage) -> None:
    base = written(stage)
    stage.llm.context = silent(256, 3)
    stage.llm.script(finds)
    ended = run(stage, "review", "--base", base, "--depth", "quick")
    assert ended.code == 8, ended
    assert "the prompt is too long for the model" in ended.stderr
    assert "models.context_tokens" in ended.stderr
    assert len(refused(stage)) == len(set(refused(stage))) < 12
    assert stage.cli("verify", "latest").code == 0


@pytest.mark.full
@pytest.mark.parametrize("of_change", [True, False], ids=["change", "repository"])
def test_a_killed_review_goes_on_with_the_prompts_that_it_had(
    stage: Stage, *, of_change: bool
) -> None:
    base = written(stage)
    stage.llm.context = SmallContext(TOKENS, 1.2)
    stage.llm.script(finds)
    words = ["review", *(("--base", base, "--depth", "quick") if of_change else ())]
    words += ["--model", "small", "--fail-level", "high"]
    for answered in (1, 3):
        child = stage.spawn(*words, env={"RLM_CI_MODEL": None})
        before = len(stage.llm.completions)

        def is_on_its_way(before: int = before, answered: int = answered) -> bool:
            new = stage.llm.completions[before:]
            return sum(one.status < 400 for one in new) >= answered

        assert child.kill_when(is_on_its_way)
        child.wait()
        taken = read(stage)
        ended = stage.cli("resume", "latest")
        assert ended.code == 0, ended
        assert read(stage) >= taken
        assert len(stage.runs()[-1].report["findings"]) > 30
        assert stage.cli("replay", "latest", "--check").code == 0
        assert stage.cli("verify", "latest").code == 0


def tells(asked: Asked) -> Answer:
    """A sentence about the first division of each file in the prompt, which its line supports."""
    prompt = asked.messages[-1]["content"]
    if '"unsupported"' in prompt:
        return Answer(json.dumps(supports(prompt)))
    if "rests_on" in json.dumps(asked.body):
        return Answer(json.dumps({"sentences": []}))
    firsts = {path: (line, text) for path, line, text in reversed(shown(asked))}
    said = [
        sentence(f"Number {path[5]} is shared out.", path, (line, line), text)
        for path, (line, text) in sorted(firsts.items())
    ]
    return Answer(json.dumps({"sentences": said}))


@pytest.mark.full
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("density", [1.2, 2.5])
def test_a_wiki_tells_of_all_in_smaller_prompts(stage: Stage, dialect: str, density: float) -> None:
    written(stage)
    stage.llm.context = DIALECTS[dialect](8_192, density)
    stage.llm.script(tells)
    ended = run(stage, "wiki", "--out", "docs/wiki", "--format", "json")
    assert ended.code == 0, ended
    report = ended.json()
    assert not [one for one in report["coverage"]["omitted"] if "too long" in one["reason"]], report
    pages = "".join(path.read_text() for path in (stage.repo.path / "docs" / "wiki").rglob("*.md"))
    assert all(f"Number {number} is shared out." in pages for number in range(FILES)), pages
    assert len(refused(stage)) == len(set(refused(stage))) > 0, "none is sent again"
    require_replay(stage)


#: A model that is listed with what it reads, of which each token has so many bytes.
LISTED = {"data": [{"id": "small", "context_length": TOKENS}]}


@pytest.mark.full
@pytest.mark.parametrize("density", [1.2, 1.3])
@pytest.mark.parametrize("of_change", [True, False], ids=["change", "repository"])
def test_one_part_asks_for_all_and_a_later_run_knows(
    stage: Stage, density: float, *, of_change: bool
) -> None:
    """Of all first prompts one is refused, and none in the next run."""
    base = written(stage)
    stage.llm.context, stage.llm.listing = SmallContext(TOKENS, density), LISTED
    stage.llm.script(finds)
    words = ("--base", base, "--depth", "quick") if of_change else ()
    for refusals in (1, 0):
        stage.llm.asked.clear()
        ended = run(stage, "review", *words, "--fail-level", "high", "--format", "json")
        assert ended.code == 0, ended
        assert len(refused(stage)) == refusals
        lines = {(path, line) for path, line, _ in read(stage)}
        assert len(lines) == FILES * PARTS
        require_replay(stage)
    [row] = json.loads((stage.repo.path / ".runs/endpoints.json").read_text())["models"].values()
    assert abs(row["bytes_per_token"] - density) < 0.2
    assert row["context_tokens"] == TOKENS


@pytest.mark.full
def test_an_unlisted_endpoint_refuses_one_request_of_all_verbs(stage: Stage) -> None:
    base = written(stage)
    stage.llm.context = vllm(8_192)
    stage.llm.script(finds)
    words = ("review", "--base", base, "--depth", "quick", "--fail-level", "high")
    assert run(stage, *words).code == 0
    assert len(refused(stage)) == 1
    for _ in range(2):
        stage.llm.asked.clear()
        ended = run(stage, *words)
        assert ended.code == 0, ended
        assert refused(stage) == []
        assert "8,192 tokens (as it refused more in an earlier run)" in ended.stderr
        require_replay(stage)
