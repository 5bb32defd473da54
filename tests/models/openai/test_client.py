"""The client against a service that does what services do; on loopback, by real HTTP."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import SpentError, TokenUsage
from rlm_ci.models.openai.client import OpenAIModel, RetryLimits
from testing.loopback_model.replies import Answer, Call, Raw, redirect, refusal
from testing.loopback_model.server import ModelServer
from testing.model_clients import TOOL, Client, question

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# -- what is asked, and what is understood -------------------------------------------------------


def test_an_answer_with_its_usage(client: Client, llm: ModelServer) -> None:
    llm.script([Answer("The test is wrong: « é »\n" * 5, usage=(17, 42))])
    with_it = client(llm)
    completion = with_it.complete(question(temperature=0.5))
    assert completion.text == "The test is wrong: « é »\n" * 5
    assert completion.usage == TokenUsage(17, 42)
    assert (completion.finish_reason, completion.model, completion.tool_calls) == (
        "stop",
        "m-1",
        (),
    )
    (asked,) = llm.asked
    assert asked.headers["authorization"] == f"Bearer {llm.key}"
    assert asked.body["messages"] == [{"role": "user", "content": "What is wrong?"}]
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (100, 0.5)
    assert "tools" not in asked.body


def test_calls_of_tools_keep_their_arguments_as_they_were_written(
    client: Client, llm: ModelServer
) -> None:
    written = '{ "path" : "src/a.py", "note": "two\\nlines" }'
    broken = '{"path": "src/'
    llm.script([Answer(None, (Call("read", written, "c1"), Call("read", broken, "c2")))])
    completion = client(llm).complete(question(tools=(TOOL,)))
    assert completion.tool_calls == (
        {"id": "c1", "name": "read", "arguments": written},
        {"id": "c2", "name": "read", "arguments": broken},
    )
    assert (completion.text, completion.finish_reason) == ("", "tool_calls")
    assert llm.asked[0].body["tools"] == [TOOL]


def test_the_history_goes_back_as_the_service_wants_it(client: Client, llm: ModelServer) -> None:
    llm.script([Answer(None, (Call("read"),)), "done"])
    model = client(llm)
    first = model.complete(question(tools=(TOOL,)))
    (made,) = first.tool_calls
    function = {"name": made["name"], "arguments": made["arguments"]}
    call = {"id": made["id"], "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": made["id"], "content": "text"}
    messages = (*question().messages, answer, result)
    request = question(tools=(TOOL,), response_format={"type": "json_object"})
    assert model.complete(request.replace(messages=messages)).text == "done"
    assert llm.asked[1].body["response_format"] == {"type": "json_object"}


def test_no_usage_is_no_zero(client: Client, llm: ModelServer) -> None:
    llm.script([Answer("hi", usage=None)])
    assert client(llm).complete(question()).usage is None


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        # reasoning that only the total counts
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 65}, TokenUsage(10, 55)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5,
             "prompt_tokens_details": {"cached_tokens": 8}},
            TokenUsage(10, 5, 8),
        ),
        # more cached than there was
        (
            {"prompt_tokens": 10, "completion_tokens": 5,
             "prompt_tokens_details": {"cached_tokens": 800}},
            TokenUsage(10, 5, 10),
        ),
        ({"prompt_tokens": -1, "completion_tokens": 5}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": True, "completion_tokens": 5}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 5}, None),
        ({"prompt_tokens": "10", "completion_tokens": 5}, None),
        ([], None),
    ],
)  # fmt: skip
def test_usage_is_believed_only_where_it_can_be(
    client: Client, llm: ModelServer, told: Any, meant: Any
) -> None:
    llm.script([Answer("hi", more={"usage": told})])
    assert client(llm).complete(question()).usage == meant


def test_content_in_parts_and_arguments_that_somebody_parsed(
    client: Client, llm: ModelServer
) -> None:
    message = {
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "tool_calls": [{"function": {"name": "read", "arguments": {"path": "x"}}}],
    }
    llm.script([Raw(200, {"choices": [{"message": message}]})])
    completion = client(llm).complete(question())
    assert completion.text == "ab"
    assert completion.tool_calls == (
        {"id": "a1bd0f489", "name": "read", "arguments": '{"path": "x"}'},
    )
    assert completion.finish_reason == "tool_calls"


def test_one_client_serves_all_threads(client: Client, llm: ModelServer) -> None:
    llm.script(lambda asked: Answer(asked.messages[0]["content"], delay=0.02))
    model = client(llm)
    with ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda n: model.complete(question(f"q{n}")).text, range(64)))
    assert texts == [f"q{n}" for n in range(64)]
    model.close()


def test_threads_take_turns_and_wait_for_their_answers_together(
    client: Client, llm: ModelServer
) -> None:
    together = threading.Barrier(8)

    def answer(_asked: object) -> Answer:
        together.wait(20)  # none is answered before all are asked
        return Answer("fine")

    llm.script(answer)
    model = client(llm, patience=RetryLimits())
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: model.complete(question(f"q{n}")).text, range(24)))
    assert texts == ["fine"] * 24


@pytest.mark.parametrize("azure", ["", "2024-10-21"], ids=["openai", "azure"])
def test_later_questions_are_sent_as_the_package_sent_the_first(
    client: Client, llm: ModelServer, azure: str
) -> None:
    """All but a question's own: its body, and the key that all attempts at it share."""
    cookie = Raw(429, {"error": {"message": "busy"}}, {"Set-Cookie": "node=7; Path=/"})
    llm.script(["one", "two", cookie, "three", "four"])
    model = client(llm, **({"base_url": llm.origin, "azure_api_version": azure} if azure else {}))
    texts = [model.complete(question("« 1 »", model="m-1")).text]
    texts.append(model.complete(question("« 22 »", model="m-1", temperature=0.5)).text)
    texts.append(model.complete(question("« 3 »", model="m-1")).text)
    texts.append(model.complete(question("« 4 »", model="m-2")).text)
    assert texts == ["one", "two", "three", "four"]
    first, second, refused, third, other = llm.asked
    own = {"content-length", "idempotency-key", "cookie"}
    for asked in (second, refused, third, other):
        assert asked.headers.keys() - {"cookie"} == first.headers.keys()
        same = {name: first.headers[name] for name in first.headers.keys() - own}
        assert same.items() <= asked.headers.items()
    assert [one.messages[-1]["content"] for one in llm.asked] == [
        "« 1 »", "« 22 »", "« 3 »", "« 3 »", "« 4 »",
    ]  # fmt: skip
    assert [one.path for one in (second, third)] == [first.path] * 2
    assert (first.path == other.path) is (not azure)
    assert second.body["temperature"] == 0.5
    keys = [one.headers["idempotency-key"] for one in llm.asked]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 4
    assert third.headers["cookie"] == "node=7"
    assert "cookie" not in refused.headers


# -- a cap by another name -----------------------------------------------------------------------


def test_the_other_name_of_the_cap_is_found_and_kept(client: Client, llm: ModelServer) -> None:
    llm.unknown_parameter = "max_tokens"
    llm.script(["one", "two"])
    model = client(llm)
    assert [model.complete(question()).text for _ in range(2)] == ["one", "two"]
    assert [asked.status for asked in llm.asked] == [400, 200, 200]
    assert [asked.cap for asked in llm.asked] == [100, 100, 100]


def test_a_cap_that_is_too_large_is_told_not_renamed(client: Client, llm: ModelServer) -> None:
    llm.script([refusal(400, "max_tokens is too large: 100. This model supports at most 50")])
    with pytest.raises(RemoteError, match="too large"):
        client(llm).complete(question())
    assert len(llm.asked) == 1


# -- Azure ---------------------------------------------------------------------------------------


def test_azure_is_asked_in_its_own_way(client: Client, llm: ModelServer) -> None:
    llm.script(["from Azure"])
    model = client(llm, base_url=llm.origin, azure_api_version="2024-10-21")
    assert model.complete(question(model="my deployment")).text == "from Azure"
    (asked,) = llm.asked
    assert asked.path == "/openai/deployments/my%20deployment/chat/completions"
    assert asked.query == {"api-version": "2024-10-21"}
    assert asked.headers["api-key"] == llm.key
    assert asked.body["max_completion_tokens"] == 100
    assert model.name == "azure"


# -- where the prompt goes, and who hears the key ------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_prompt_is_not_sent_to_where_a_redirect_leads(
    client: Client, llm: ModelServer, status: int
) -> None:
    with ModelServer(["stolen"]) as other:
        llm.script([redirect(f"{other.url}/chat/completions?token=x", status)])
        with pytest.raises(RemoteError, match="redirects to") as caught:
            client(llm).complete(question())
        assert other.asked == []
    assert not isinstance(caught.value, SpentError)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("echo", [lambda key: key, lambda key: key[::-1], lambda key: f"{key}\n"])
def test_an_error_that_echoes_the_key_does_not_tell_it(
    client: Client, llm: ModelServer, echo: Callable[[str], str]
) -> None:
    llm.script([refusal(400, f"bad: {echo(llm.key)}")])
    with pytest.raises(RemoteError, match=r"bad: \[redacted\]") as caught:
        client(llm).complete(question())
    assert llm.key not in repr(caught.value)


def test_a_key_that_is_refused_is_told_without_it(client: Client, llm: ModelServer) -> None:
    with pytest.raises(RemoteError, match=r"key was refused \(401\)") as caught:
        client(llm, api_key="wrong-key-0123456789").complete(question())
    assert "wrong-key" not in str(caught.value)
    assert caught.value.code == 8


def test_an_unknown_model_is_told_with_those_that_are_known(
    client: Client, llm: ModelServer
) -> None:
    llm.models = ["gpt-large", "gpt-small", "other"]
    with pytest.raises(RemoteError, match="does not know the model gpt-smal") as caught:
        client(llm).complete(question(model="gpt-smal"))
    assert caught.value.hint.startswith("3 are known there, such as gpt-small")


def test_a_hostile_message_cannot_move_the_terminal(client: Client, llm: ModelServer) -> None:
    llm.script([refusal(400, "\x1b[2J\x1b]0;owned\x07\u202e" + "x" * 5000)])
    with pytest.raises(RemoteError) as caught:
        client(llm).complete(question())
    assert caught.value.what.isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"<html>", b"[" * 5000, b'{"error": 5}', b""])
def test_errors_of_any_shape_are_told(client: Client, llm: ModelServer, body: bytes) -> None:
    llm.script([Raw(418, body)])
    with pytest.raises(RemoteError, match=r"refused \(418\)"):
        client(llm).complete(question())


@pytest.mark.parametrize("to", ["http://[::1", "http://[x]/", "http://a:b/c", "", "\x1b[2J"])
def test_a_redirect_to_nothing_is_refused_all_the_same(
    client: Client, llm: ModelServer, to: str
) -> None:
    llm.script([redirect(to)])
    with pytest.raises(RemoteError, match="redirects to") as caught:
        client(llm).complete(question())
    assert caught.value.what.isprintable()


def test_an_error_without_end_is_not_read_to_its_end(client: Client, llm: ModelServer) -> None:
    llm.script([Raw(400, b"x" * 4096, endless=True)])
    with pytest.raises(RemoteError, match=r"refused \(400\): xxx"):
        client(llm).complete(question())


def test_a_server_of_ones_own_needs_no_key(client: Client) -> None:
    with ModelServer(["hi"], key="") as served:
        assert client(served).complete(question()).text == "hi"
        assert "authorization" not in served.asked[0].headers


@pytest.mark.parametrize("more", [{}, {"base_url": "https://x.test", "azure_api_version": "v"}])
def test_no_key_is_an_error_of_the_configuration(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no key") as caught:
        OpenAIModel(**more)
    assert "OPENAI_BASE_URL" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["ftp://x.test", "x.test/v1", "https://u:p@x.test/v1", "https://x.test/v1?k=1",
            "https:///v1", "https://x.test/\n", "http://[::1", "http://localhost:abc/v1",
            "http://a..b/v1", f"http://{'a' * 64}.test/v1", "http://x.test:65536/v1",
            "http://x.test:0/v1", "http://[nonsense]/v1"],
)  # fmt: skip
def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="base URL") as caught:
        OpenAIModel(base_url=url, api_key="k")
    assert "u:p" not in str(caught.value)
    assert caught.value.where == "OPENAI_BASE_URL"


@pytest.mark.parametrize("url", ["http://256.1.1.1/v1", "http://\u2603.test/v1"])
def test_a_host_that_cannot_be_is_an_error_of_the_configuration(client: Client, url: str) -> None:
    with pytest.raises(ConfigError) as caught, ModelServer() as served:
        client(served, base_url=url).complete(question())
    assert caught.value.where == "OPENAI_BASE_URL"


@pytest.mark.parametrize("key", ["clé-0123456789", "two words", "sk-abc\n", "\x00"])
def test_a_key_that_is_none_is_told_without_it(key: str) -> None:
    with pytest.raises(ConfigError, match="characters that a key cannot have") as caught:
        OpenAIModel(api_key=key)
    assert caught.value.where == "OPENAI_API_KEY"
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    ["socks5://127.0.0.1:1", "foo://u:hidden@x", "http://u:hidden@127.0.0.1:abc", "http://[::1",
     "http://a..b:80"],
)  # fmt: skip
def test_a_proxy_that_is_none_is_named(client: Client, llm: ModelServer, proxy: str,
                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ConfigError, match="proxy") as caught:
        client(llm, base_url="http://model.test/v1").complete(question())
    assert "HTTP_PROXY" in caught.value.where
    assert "hidden" not in str(caught.value)
    assert llm.asked == []


@pytest.mark.parametrize("content", [None, "no certificate\n"])
def test_certificates_that_are_none_are_named(
    client: Client,
    llm: ModelServer,
    tmp_path: Path,
    content: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "certificates.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ConfigError, match="certificates cannot be read") as caught:
        client(llm).complete(question())
    assert "SSL_CERT_FILE" in caught.value.where


def test_text_that_is_no_unicode_is_told(client: Client, llm: ModelServer) -> None:
    with pytest.raises(ConfigError, match="not Unicode"):
        client(llm).complete(question("\udc80"))
    assert llm.asked == []


def test_closing_and_asking_again(client: Client, llm: ModelServer) -> None:
    llm.script(["one", "two"])
    model = client(llm)
    model.complete(question())
    model.close()
    assert model.complete(question()).text == "two"
    model.close()
    model.close()


def test_no_thread_is_left_behind(client: Client, llm: ModelServer) -> None:
    llm.script(["one"])
    before = {thread.ident for thread in threading.enumerate()}
    model = client(llm)
    model.complete(question())
    model.close()
    ours = [
        t
        for t in threading.enumerate()
        if t.ident not in before and "process_request" not in t.name
    ]
    assert ours == []
