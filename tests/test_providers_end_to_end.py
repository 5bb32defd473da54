"""Each provider of docs/models.md, by the rules of its endpoint: a fix, a review, two questions."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.analyses import FORCED, analysed_role, finding
from testing.analyses import answer as analysis
from testing.ask_stage import LOG, Asking, final
from testing.fix_stage import MEND, MENDED, call, done
from testing.loopback_model.dialects import dialects
from testing.loopback_model.fixture import llm
from testing.loopback_model.histories import HISTORIES
from testing.loopback_model.replies import Answer
from testing.loopback_model.streams import FORMS, StreamForm
from testing.repl_stage import repl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform == "win32", reason="no sandbox, no flock"),
]

ROOT = Path(__file__).parents[1]
_ROW = re.compile(r"^\| (?:`\w+`, )?`(\w+):[A-Z]+` \|", re.MULTILINE)
#: GitHub's models are asked by Copilot's own program: tests/models/test_copilot.py.
PROVIDERS = [
    name for name in _ROW.findall((ROOT / "docs/models.md").read_text()) if name != "github"
]
LOCAL = {"lmstudio", "ollama", "vllm"}  # no key
#: Makers whose models are reached through a provider or an address by hand.
MAKERS = {
    "deepseek": "openrouter", "deepseek without a thought": "openrouter", "kimi": "together",
    "glm": "openrouter", "minimax": "openrouter",
    "minimax in the text": "openai", "qwen": "vllm", "a gateway to gemini": "openai",
}  # fmt: skip
MEND_STEPS = (call("read", path="calc.py"), MEND, done("Summary: a sum is a sum."))
CODE = (repl("print(len(context))"), repl("FINAL('It is a log.')"))


class Provider:
    """A model of ``name``: it does what ``verb`` wants, and refuses what the provider refuses."""

    def __init__(self, name: str, verb: str) -> None:
        self.verb = verb
        self.dialect = dialects().get(name, dialects()["openai"])
        self.is_too_long = False

    def __call__(self, request: Asked) -> Reply:
        if self.is_too_long:
            assert self.dialect.long is not None
            return self.dialect.long
        if "tools" in request.body and self.dialect.tools:
            return self.dialect.tools
        if "response_format" in request.body and self.dialect.schema:
            return self.dialect.schema
        return self.answer(request)

    def answer(self, request: Asked) -> Reply:
        steps = sum(message["role"] == "assistant" for message in request.messages)
        if self.verb == "rlms" and analysed_role(request):
            return analysis(finding())
        if self.verb in FIXES and "This is iteration" in json.dumps(request.messages):
            return _written(MEND_STEPS[steps], is_native="tools" in request.body)
        if self.verb == "repl":
            return CODE[steps]
        return json.dumps(final("It is a log.") if self.verb == "ask" else {"findings": []})


def _written(step: Answer, *, is_native: bool) -> Reply:
    """A call as such, or as the text that a model without tools is asked for."""
    [tool] = step.calls
    fields = {"tool": tool.name, "arguments": json.loads(tool.arguments)}
    return step if is_native else json.dumps(fields)


FIXES = ("fix", "rlms")
VERBS: dict[str, tuple[str, ...]] = {
    "fix": ("rlm", "make it add", "--validator", "grep -q 'a + b' calc.py"),
    "rlms": ("rlm", "make it add", "--validator", "grep -q 'a + b' calc.py"),
    "review": ("review", "--base", "HEAD~1"),
    "ask": ("rlm", "What is it?", "--context", LOG),
    "repl": ("rlm", "What is it?", "--context", LOG, "--environment", "repl"),
}


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Asking]:
    found = Asking(repo, cli, llm)
    yield found
    found.clean()


def end_of(stage: Asking, name: str, verb: str, model: str = "m-1") -> Ended:
    """Ask the provider for what the verb does; OPENAI_BASE_URL stands in for its address."""
    settings: dict[str, str | None] = {
        "RLM_CI_MODEL": None,
        "RLM_CI_MODELS_PROVIDER": name,
        "OPENAI_API_VERSION": "2026-01-01" if name == "azure" else None,
    }
    settings |= FORCED if verb == "rlms" else {}
    if name == "azure":
        settings["OPENAI_BASE_URL"] = stage.llm.origin
    if name in LOCAL:
        stage.llm.key = ""
        settings["OPENAI_API_KEY"] = None
    return stage.cli(*VERBS[verb], "--model", model, env=settings)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", PROVIDERS)
def test_it_does_what_is_asked(stage: Asking, name: str, verb: str) -> None:
    stage.llm.history = HISTORIES[name]
    stage.llm.stream_form = FORMS.get(name, FORMS["openai"])
    stage.llm.script(Provider(name, verb))
    ended = end_of(stage, name, verb)
    assert ended.code == 0, ended
    if verb in FIXES:
        assert stage.source() == MENDED
    elif verb != "review":
        assert "It is a log." in ended.stdout, ended
    assert "tokens, price unknown" in ended.stderr, ended


#: Reasoning around a draft and an answer, as it stands in the text of an answer.
THOUGHTS = {
    "capitals and attributes": "\ufeff<THINK time='2'>\n{draft}\n</THINK>\n{answer}",
    "inside itself": "<think>\n{draft}\n<think>\n{draft}\n</think>\nno\n</think>\n{answer}",
    "ended twice": "<thinking>so</thinking>\n{draft}\n</thinking>\n{answer}",
    "bare channels": "<|channel|>analysis\n{draft}\n<|channel|>final\n{answer}",
    "no marks": "analysisWe could\n{draft}\nassistantfinal{answer}",
}
DRAFTS = {
    "rlms": repl("FINAL('a draft')"),
    "fix": json.dumps({"tool": "delete", "arguments": {"path": "calc.py"}}),
    "review": json.dumps({"findings": [{"message": "a draft"}]}),
    "ask": json.dumps(final("a draft")),
    "repl": repl("FINAL('a draft')"),
}


class Thinker(Provider):
    """A model without tools that thinks aloud before each answer."""

    def __init__(self, thought: str, verb: str) -> None:
        super().__init__("ollama", verb)
        self.thought = thought

    def answer(self, request: Asked) -> Reply:
        answer = super().answer(request)
        assert isinstance(answer, str)
        return self.thought.replace("{draft}", DRAFTS[self.verb]).replace("{answer}", answer)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("thought", THOUGHTS.values(), ids=THOUGHTS)
def test_a_draft_among_thoughts_does_nothing(stage: Asking, thought: str, verb: str) -> None:
    stage.llm.script(Thinker(thought, verb))
    ended = end_of(stage, "ollama", verb)
    assert ended.code == 0, ended
    assert "a draft" not in ended.stdout + ended.stderr
    if verb in FIXES:
        assert stage.source() == MENDED
    elif verb != "review":
        assert "It is a log." in ended.stdout, ended


@pytest.mark.parametrize(("maker", "name"), MAKERS.items(), ids=MAKERS)
def test_a_fix_gives_back_what_a_maker_wants(stage: Asking, maker: str, name: str) -> None:
    stage.llm.history = HISTORIES[maker]
    stage.llm.stream_form = FORMS.get(maker, FORMS["openai"])
    stage.llm.script(Provider(maker, "fix"))
    ended = end_of(stage, name, "fix", stage.llm.history.model)
    assert ended.code == 0, ended
    assert stage.source() == MENDED
    assert [asked.status for asked in stage.llm.completions] == [200] * 3, "nothing was refused"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", [name for name, row in dialects().items() if row.long])
def test_a_prompt_that_is_too_long_has_its_end(stage: Asking, name: str, verb: str) -> None:
    provider = Provider(name, verb)
    provider.is_too_long = True
    stage.llm.script(provider)
    before = stage.source()
    ended = end_of(stage, name, verb)
    assert ended.code == 8, ended
    assert "too long for the model" in ended.stdout + ended.stderr, ended
    assert stage.source() == before


class Breaking(Provider):
    """A model whose first long answer breaks off; it writes on what it has begun."""

    def __init__(self, llm: ModelServer, verb: str) -> None:
        super().__init__("openai", verb)
        self.llm = llm

    def answer(self, request: Asked) -> Reply:
        is_first = len(self.llm.completions) == 1
        cut = 3 if self.verb == "fix" else 8
        self.llm.stream_form = StreamForm(cut=cut, usage="none") if is_first else StreamForm()
        if self.verb == "fix":
            return super().answer(request)
        text = repl("print(len(context))\n" * 9 + "FINAL('It is a log.')")
        last = request.messages[-1]
        return text[len(last["content"]) :] if last["role"] == "assistant" else text


@pytest.mark.parametrize("verb", ["fix", "repl"])
def test_what_broke_off_goes_on_or_its_cost_is_said(stage: Asking, verb: str) -> None:
    stage.llm.script(Breaking(stage.llm, verb))
    ended = end_of(stage, "openai", verb)
    assert ended.code == 0, ended
    lost = "of 1 answer that broke off" in ended.stderr
    assert lost == ("paid twice" in ended.stderr) == (verb == "fix"), ended
    if verb == "repl":
        assert stage.llm.completions[1].messages[-1]["role"] == "assistant"
        assert "It is a log." in ended.stdout
    else:
        assert stage.source() == MENDED
