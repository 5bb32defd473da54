"""Where a model is asked: presets of providers, what is set by hand, and whose key goes where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlm_ci.config.options import BUDGET, MODEL
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.judge.options import endpoint_of, models_of
from rlm_ci.models import ModelRequest
from rlm_ci.models.openai.client import OpenAIModel
from rlm_ci.models.providers import PROVIDERS
from testing.loopback_model.replies import Answer
from testing.loopback_model.server import ModelServer

GROQ = "https://api.groq.com/openai/v1"
KEYS = {"GROQ_API_KEY": "of-groq", "OPENAI_API_KEY": "of-openai"}
OPENAI_KEY = {"OPENAI_API_KEY": "of-openai"}
HAND = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}


def settings(named: str, environ: dict[str, str], **file: object) -> Settings:
    told = Settings((*MODEL, *BUDGET), {"model": named} if named else {}, environ)
    told.apply(file, "rlm-ci.toml", (*MODEL, *BUDGET))
    return told


@pytest.mark.parametrize(
    ("model", "environ", "file", "found"),
    [
        # What was before: OpenAI's names, and servers of one's own.
        ("gpt-x", OPENAI_KEY, {}, ("", "of-openai", "")),
        ("mistral:7b", HAND, {}, (HAND["OPENAI_BASE_URL"], "", "")),
        ("gpt-x", {}, {}, ("", "", "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set")),
        # A provider, by prefix, variable or file.
        ("groq:llama", KEYS, {}, (GROQ, "of-groq", "")),
        ("groq:llama", OPENAI_KEY, {}, (GROQ, "of-openai", "")),
        ("groq:llama", {}, {}, (GROQ, "", "the key of groq is not set: GROQ_API_KEY")),
        ("llama", {**KEYS, "RLM_CI_MODELS_PROVIDER": "groq"}, {}, (GROQ, "of-groq", "")),
        ("", KEYS, {"model": "groq:llama"}, (GROQ, "of-groq", "")),
        ("", KEYS, {"model": "llama", "models": {"provider": "groq"}}, (GROQ, "of-groq", "")),
        ("ollama:qwen:7b", OPENAI_KEY, {}, ("http://127.0.0.1:11434/v1", "", "")),
        ("openai:gpt-x", OPENAI_KEY, {}, ("https://api.openai.com/v1", "of-openai", "")),
        # A config file cannot send one provider's key to another.
        ("", OPENAI_KEY, {"model": "groq:llama"},
         (GROQ, "", "the key of groq is not set: GROQ_API_KEY")),
        ("llama", OPENAI_KEY, {"models": {"provider": "groq"}},
         (GROQ, "", "the key of groq is not set: GROQ_API_KEY")),
        # An address by hand comes first; who sets it means its key too.
        ("llama", {**HAND, **KEYS, "RLM_CI_MODELS_PROVIDER": "groq"}, {},
         (HAND["OPENAI_BASE_URL"], "of-groq", "")),
        # OpenAI's own key is its own, whatever the variable and whoever names the provider.
        ("", {"RLM_CI_OPENAI_API_KEY": "k"}, {"model": "openai:gpt-x"},
         ("https://api.openai.com/v1", "k", "")),
        # GitHub's program gets its own token, and not the one that posts.
        ("github:gpt-x", {"COPILOT_GITHUB_TOKEN": "t", **OPENAI_KEY}, {}, ("", "t", "")),
        ("", {"GITHUB_TOKEN": "t", **OPENAI_KEY}, {"model": "github:gpt-x"},
         ("", "", "the key of github is not set: COPILOT_GITHUB_TOKEN")),
        # Azure has an address for each customer, and versions.
        ("azure:mine", {"AZURE_OPENAI_API_KEY": "k"}, {},
         ("", "k", "the address of azure is not set: OPENAI_BASE_URL")),
        # A prefix that is no provider's belongs to the name.
        ("ft:gpt-x:me", OPENAI_KEY, {}, ("", "of-openai", "")),
    ],
)  # fmt: skip
def test_where_and_by_which_key(
    model: str, environ: dict[str, str], file: dict[str, object], found: tuple[str, str, str]
) -> None:
    endpoint = endpoint_of(settings(model, environ, **file))
    assert (endpoint.base_url, endpoint.api_key, endpoint.lack) == found


@pytest.mark.parametrize("environ", [OPENAI_KEY, {}])
@pytest.mark.parametrize("model", ["gorq:m", "Groq:m", "openrouter/llama:free", ":m", "gorq:"])
def test_an_unknown_provider_is_an_error_and_never_openai(
    model: str, environ: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"no (provider is called|name of a model)") as caught:
        endpoint_of(settings(model, environ))
    assert "groq" in caught.value.hint
    assert endpoint_of(settings(model, {**environ, **HAND})).own_name(model) == model
    for other in (model, "mistral:large"):  # of a sub-call
        with pytest.raises(ConfigError):
            endpoint_of(settings("gpt-x", OPENAI_KEY)).own_name(other)


def test_azure_needs_its_version_and_keeps_it_to_itself() -> None:
    azure = {**HAND, "RLM_CI_MODELS_PROVIDER": "azure", "AZURE_OPENAI_API_KEY": "k"}
    assert "OPENAI_API_VERSION" in endpoint_of(settings("mine", azure)).lack
    whole = endpoint_of(settings("mine", {**azure, "OPENAI_API_VERSION": "v"}))
    assert (whole.lack, whole.api_version) == ("", "v")
    groq = endpoint_of(settings("groq:x", {**KEYS, "OPENAI_API_VERSION": "v"}))
    assert groq.api_version == ""


def test_all_presets_can_be_chosen_and_have_https_or_are_local() -> None:
    (row,) = (one for one in MODEL if one.key == "models.provider")
    assert sorted(row.choices) == sorted(PROVIDERS)
    for one in PROVIDERS.values():
        assert one.base_url.startswith("http://127.0.0.1:" if one.local else "https://") or (
            not one.base_url
        )


def test_the_table_in_the_docs_is_that_of_the_presets() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text("utf-8")
    row = re.compile(r"^\| (?:`NAME`, )?`(\w+):[A-Z]+` \|(.*)\|(.*)\|(.*)\|$", re.MULTILINE)
    shown = {
        found[1]: [cell.strip() for cell in found.groups()[1:]] for found in row.finditer(text)
    }
    assert set(shown) == set(PROVIDERS)
    for name, (_, keys, lacks) in shown.items():
        preset = PROVIDERS[name]
        assert re.findall(r"`(\w+)`", keys) == list(preset.keys)
        assert keys.startswith("none") == preset.local
        assert lacks == ", ".join(preset.lacks)


def test_a_run_has_one_provider() -> None:
    endpoint = endpoint_of(settings("groq:llama", KEYS))
    assert endpoint.own_name("groq:llama") == endpoint.own_name("llama") == "llama"
    assert endpoint.own_name("openai/gpt-x") == "openai/gpt-x"
    with pytest.raises(ConfigError, match="another provider than this run: groq"):
        endpoint.own_name("mistral:large")


def test_the_endpoint_hears_its_own_name_and_key() -> None:
    with ModelServer([Answer("hi")], key="of-groq") as served:
        environ = {**KEYS, "OPENAI_BASE_URL": served.url, "RLM_CI_MODELS_PROVIDER": "groq"}
        endpoint = models_of(settings("groq:llama", environ)).endpoint
        with OpenAIModel(
            base_url=endpoint.base_url, api_key=endpoint.api_key, own_name=endpoint.own_name
        ) as model:
            request = ModelRequest("groq:llama", ({"role": "user", "content": "?"},), 10)
            assert model.complete(request).text == "hi"
        (asked,) = served.completions
        assert asked.body["model"] == "llama"
