"""GitHub's models by the real program ``copilot``, at a loopback service instead of GitHub."""

from __future__ import annotations

import re
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import RemoteError, UnavailableError
from rlm_ci.models import ModelRequest, SpentError
from rlm_ci.models.copilot import PACKAGE, TOKEN, TRIED, CopilotModel, texts_of
from testing.copilot_service import SECRET, copilot_service, copilot_variables
from testing.loopback_model.replies import Answer, Raw, busy, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testing.loopback_model.server import ModelServer

SYSTEM = {"role": "system", "content": "You are a reviewer."}
QUESTION = {"role": "user", "content": "Is it green?"}


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Callable[..., tuple[ModelServer, CopilotModel]]]:
    """``asked(reply, token)``: a service that answers with it, and the model that asks there."""
    with ExitStack() as stack:

        def make(
            reply: Answer | Raw | str, token: str = SECRET, **more: Any
        ) -> tuple[ModelServer, CopilotModel]:
            served = stack.enter_context(copilot_service(lambda _asked: reply))
            variables = {**copilot_variables(served, tmp_path), TOKEN: token}
            variables["OPENAI_API_KEY"] = "of another service"
            own = re.compile(r"^github:")
            model = CopilotModel(variables, own_name=lambda name: own.sub("", name), **more)
            return served, stack.enter_context(model)

        yield make


def request(*messages: dict[str, str], **more: Any) -> ModelRequest:
    return ModelRequest("github:gpt-x", messages or (SYSTEM, QUESTION), 100, **more)


def test_what_is_said_becomes_one_prompt() -> None:
    assert texts_of((SYSTEM, QUESTION)) == ("You are a reviewer.", "Is it green?")
    system, prompt = texts_of((SYSTEM, QUESTION, {"role": "assistant", "content": "No."}, QUESTION))
    assert system == "You are a reviewer."
    assert prompt.startswith("[user]\nIs it green?\n\n[assistant]\nNo.\n\n[user]\n")


@pytest.mark.full
def test_a_missing_program_says_how_to_install_it(tmp_path: Path) -> None:
    with (
        CopilotModel({"PATH": str(tmp_path), TOKEN: SECRET}) as model,
        pytest.raises(UnavailableError, match="copilot is not installed") as told,
    ):
        model.complete(request())
    assert told.value.hint == f"npm install --global {PACKAGE}@{TRIED}"


@pytest.mark.parametrize(
    ("more", "lack"),
    [({"tools": ({},)}, "tools"), ({"response_format": {"type": "json_object"}}, "JSON schemas")],
)
def test_what_it_lacks_is_not_asked_for(more: dict[str, Any], lack: str) -> None:
    with CopilotModel({}) as model, pytest.raises(RemoteError, match=f"not support {lack}"):
        model.complete(request(**more))


@pytest.mark.full
def test_the_model_reads_the_request_and_nothing_of_the_machine(asked: Any) -> None:
    served, model = asked("fine")
    first, second = (model.complete(request()) for _ in range(2))
    assert (first.text, first.finish_reason, first.model) == ("fine", "stop", "gpt-x")
    assert first.usage == second.usage
    assert first.usage.prompt_tokens == served.bill.prompt_tokens // 2
    for one in served.completions:
        assert one.headers["authorization"] == f"Bearer {SECRET}"
        system, prompt = one.messages
        assert system["content"] == SYSTEM["content"]
        assert (
            re.sub(r"<current_datetime>\S+</current_datetime>\s+", "", prompt["content"])
            == (QUESTION["content"])
        )
        assert not one.body.get("tools")
    assert {one.path for one in served.asked} == {"/v1/models", "/v1/chat/completions"}
    assert served.violations == []
    assert model.context_tokens("github:gpt-x") == 64_000
    assert model.context_tokens("github:other") is None


@pytest.mark.full
def test_the_program_gets_no_other_variable_and_leaves_no_file(
    asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _, model = asked("fine")
    model.complete(request())
    environments = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            environments.append(path.read_bytes())
    told = [one for one in environments if SECRET.encode() in one]
    assert told
    assert not any(b"OPENAI_API_KEY" in one for one in told)
    assert list(tmp_path.glob("rlm-ci-copilot-*/state"))
    model.close()
    assert not list(tmp_path.glob("rlm-ci-copilot-*"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("reply", "token", "words", "hint"),
    [
        ("", "ghs_wrong", "GitHub refused the token", "copilot-requests: write"),
        (refusal(403, "not authorized to use this Copilot feature", code="forbidden"), SECRET,
         "GitHub refused the token", "billed"),
        (refusal(402, "You have no quota", code="quota_exceeded"), SECRET,
         r"a limit of Copilot is reached \(402\)", "resume"),
        (refusal(400, "prompt token count of 70000 exceeds the limit of 64000"), SECRET,
         r"GitHub gave no answer \(400\).*exceeds the limit", "resume"),
    ],
)  # fmt: skip
def test_refusals_are_errors_that_say_what_to_do(
    asked: Any, reply: Raw, token: str, words: str, hint: str
) -> None:
    _, model = asked(reply, token)
    with pytest.raises(RemoteError, match=words) as told:
        model.complete(request())
    assert hint in told.value.hint
    assert told.value.where == "GitHub Copilot, model gpt-x"
    assert token not in str(told.value)


@pytest.mark.full
def test_an_unknown_model_a_limit_and_a_lost_answer(asked: Any) -> None:
    _, model = asked("fine")
    with pytest.raises(RemoteError, match="does not know the model gpt-y"):
        model.complete(ModelRequest("github:gpt-y", (QUESTION,), 100))
    _, model = asked(busy("90"), seconds=6)
    with pytest.raises(RemoteError, match=r"a limit of Copilot is reached \(429\)"):
        model.complete(request())
    _, model = asked(Answer("late", delay=5))
    with pytest.raises(SpentError, match="did not come in time"):
        model.complete(request(seconds=1.0))
    _, model = asked(Answer(""))
    with pytest.raises(SpentError, match="No response was returned"):
        model.complete(request())
