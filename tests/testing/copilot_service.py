"""GitHub's models as the real program ``copilot`` asks for them, on loopback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_ci.models.copilot import TOKEN
from testing.loopback_model.server import ModelServer

if TYPE_CHECKING:
    from testing.loopback_model.server import Script

SECRET = "ghs_0123456789abcdefghijABCDEFGHIJ012345"
_PROGRAMS = Path(__file__).parents[1] / "tools/full/node_modules/.bin"


def copilot_service(script: Script) -> ModelServer:
    """A service that has the model ``gpt-x``."""
    served = ModelServer(script, key=SECRET)
    served.listing = _listing("gpt-x")
    served.own_parameters = frozenset(("snippy", "reasoning_effort"))
    return served


def copilot_variables(served: ModelServer, folder: Path) -> dict[str, str]:
    """What leads the program to ``served``; it unpacks itself beside ``folder``."""
    return {
        "PATH": f"{_PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "COPILOT_CACHE_HOME": str(folder.parent / "copilot-cache"),
        "COPILOT_API_URL": served.url,
        TOKEN: SECRET,
    }


def _listing(*names: str) -> dict[str, Any]:
    """The list of models as GitHub gives it to the program."""
    limits = {"max_context_window_tokens": 128_000, "max_prompt_tokens": 64_000}
    return {
        "data": [
            {
                "id": name, "name": name, "object": "model", "vendor": "OpenAI", "version": name,
                "model_picker_enabled": True, "preview": False,
                "policy": {"state": "enabled", "terms": ""},
                "supported_endpoints": ["/chat/completions"],
                "billing": {"is_premium": True, "multiplier": 1},
                "capabilities": {
                    "family": name, "object": "model_capabilities", "type": "chat",
                    "tokenizer": "o200k_base", "limits": limits, "supports": {"tool_calls": True},
                },
            }
            for name in names
        ]
    }  # fmt: skip
