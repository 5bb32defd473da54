"""Providers with an OpenAI-compatible endpoint: ``--model PROVIDER:NAME``.

A row has all that is particular to a provider, as its own documentation says it.
"""

from __future__ import annotations

import re

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Provider(Value):
    """``keys`` are the variables that may hold its key, the strongest first.

    ``base_url`` is "" where each customer has an address of their own. A ``local`` server needs no
    key. ``lacks`` names what no model there has, of TOOLS and SCHEMAS; what only some models lack,
    the endpoint refuses. ``by_program``: a program of the provider asks it, at an address it knows.
    """

    base_url: str
    keys: tuple[str, ...] = ()
    local: bool = False
    lacks: tuple[str, ...] = ()
    by_program: bool = False


#: What a name of a model is made of, with or without its provider.
MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,199}", re.ASCII)
TOOLS = "tools"
SCHEMAS = "JSON schemas"
OPENAI = "openai"
#: Through Copilot: GitHub Models, which had this name, closed on 30 July 2026.
GITHUB = "github"
_AZURE = "azure"
#: What the names of OpenAI's fine-tuned models begin with.
_TUNED = "ft"
PROVIDERS: Mapping[str, Provider] = {
    OPENAI: Provider("https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "anthropic": Provider("https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), lacks=(SCHEMAS,)),
    _AZURE: Provider("", ("AZURE_OPENAI_API_KEY",)),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    GITHUB: Provider("", ("COPILOT_GITHUB_TOKEN",), lacks=(TOOLS, SCHEMAS), by_program=True),
    "groq": Provider("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "lmstudio": Provider("http://127.0.0.1:1234/v1", local=True),
    "mistral": Provider("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "ollama": Provider("http://127.0.0.1:11434/v1", local=True),
    "openrouter": Provider("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "together": Provider("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "vllm": Provider("http://127.0.0.1:8000/v1", ("VLLM_API_KEY",), local=True),
}

NAME_HINT = (
    f"PROVIDER:NAME, with one of {', '.join(PROVIDERS)}; or NAME for OpenAI, and {OPENAI}:NAME if "
    "the name has a colon"
)


class Endpoint(Value):
    """Where a model is asked. ``provider`` is "" where the caller chose none.

    ``lack`` says why it cannot be asked, "" where it can; ``lacks`` is what its provider lacks.
    ``variables`` are what a program of the provider hears of the environment, None without one.
    """

    base_url: str
    api_key: str
    api_version: str
    provider: str = ""
    lack: str = ""
    lacks: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None

    def own_name(self, model: str) -> str:
        """The name that the provider knows ``model`` by.

        Raises ConfigError for a model of another provider: a run has one endpoint.
        """
        prefix, _, name = model.partition(":")
        provider = self.provider or ("" if self.base_url else OPENAI)
        if not self.provider and provider:
            require_provider(model, "model")
        if not provider or prefix not in PROVIDERS or not name:
            return model
        if prefix != provider:
            raise ConfigError(
                f"the model {model[:80]!r} is at another provider than this run: {provider}",
                where="model",
                hint="all models of a run are asked at one provider",
            )
        return name


def is_own(base_url: str) -> bool:
    """Whether an address is that of a server of one's own, as far as the table knows."""
    return all(row.local for row in PROVIDERS.values() if row.base_url == base_url)


def require_provider(model: str, where: str) -> None:
    """Raise ConfigError where ``model`` begins with a provider that nobody knows."""
    prefix, colon, name = model.partition(":")
    if colon and not (name and (prefix in PROVIDERS or prefix == _TUNED)):
        raise ConfigError(
            f"no provider is called {printable(prefix)[:80]!r}"
            if name
            else f"no name of a model: {printable(model)[:80]!r}",
            where=where,
            hint=NAME_HINT,
        )


def choose(
    model: str,
    provider: str,
    endpoint: Endpoint,
    environ: Mapping[str, str],
    *,
    from_file: bool,
) -> Endpoint:
    """The endpoint for ``model``: what was ``endpoint`` by hand, else what its provider has.

    A ``provider`` that is set, or the model's prefix, names it. With an address by hand a prefix is
    a part of the name, as for ``mistral:7b`` of a local server. A provider that a config file names
    (``from_file``) gets its own key only: it must not direct the key of another one. Raises
    ConfigError for an unknown prefix.
    """
    if not (provider or endpoint.base_url):
        require_provider(model, "model")
    prefix, _, suffix = model.partition(":")
    name = provider or (prefix if suffix and not endpoint.base_url and prefix in PROVIDERS else "")
    if not name:
        is_set = endpoint.api_key or endpoint.base_url
        return endpoint if is_set else endpoint.replace(lack=_neither(PROVIDERS[OPENAI]))
    row = PROVIDERS[name]
    key = next((environ[var].strip() for var in row.keys if environ.get(var, "").strip()), "")
    if not key and not row.local and (name == OPENAI or endpoint.base_url or not from_file):
        key = endpoint.api_key
    address = endpoint.base_url or row.base_url
    lack = ""
    by_program = row.by_program and not endpoint.base_url
    if not address and not by_program:
        lack = f"the address of {name} is not set: OPENAI_BASE_URL"
    elif name == _AZURE and not endpoint.api_version:
        lack = "the version of Azure's API is not set: OPENAI_API_VERSION"
    elif not key and not row.local and not endpoint.base_url:
        lack = f"the key of {name} is not set: {' or '.join(row.keys)}"
    version = endpoint.api_version if name == _AZURE or endpoint.base_url else ""
    variables = dict(environ) if by_program else None
    return Endpoint(address, key, version, name, lack, row.lacks, variables)


def _neither(row: Provider) -> str:
    return f"neither {row.keys[0]} nor OPENAI_BASE_URL is set"
