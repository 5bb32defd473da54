"""Does an endpoint take tools? Asked with the first question that has some."""

from __future__ import annotations

import re

from rlm_ci.errors import RemoteError
from rlm_ci.models import SpentError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.runs import Fact

#: A refusal that names tools, and one of these, means that there are none.
_OF_TOOLS = re.compile(r"(?<![a-z])tools?(?![a-z])|function[ _-]call")
_LACKING = (
    "support", "enable", "allow", "permitted", "unknown", "unexpected", "unrecognized", "extra",
)  # fmt: skip


def takes_tools(fact: Fact, step: str, model: str, ask: Callable[[], object]) -> bool:
    """Whether the endpoint of ``model`` takes tools: a fact of the run.

    ``ask`` puts the first question, with its tools. Raises what it raises, but for a refusal of
    them.
    """

    def produce() -> Mapping[str, Any]:
        try:
            ask()
        except RemoteError as error:
            if not _refuses_tools(error, model):
                raise
            return {"takes_tools": False, "said": printable(error.what[:500])}
        return {"takes_tools": True}

    return bool(fact("tools", step, {"model": model}, produce)["takes_tools"])


def _refuses_tools(error: RemoteError, model: str) -> bool:
    """Whether the endpoint says that it knows no tools."""
    if isinstance(error, SpentError):  # it was at work: that is no refusal
        return False
    text = _without_name(error.what.casefold(), model.casefold())
    return bool(_OF_TOOLS.search(text)) and any(word in text for word in _LACKING)


def _without_name(text: str, model: str) -> str:
    """What an endpoint says apart from the model's name, which may speak of tools itself."""
    if not model:
        return text
    before = r"(?<=\bmodel )" if model.isalpha() else r"(?<![\w.-])"
    quote = "[`'\"]?" if model.isalpha() else ""
    return re.sub(rf"{before}{quote}{re.escape(model)}(?![\w-])", " ", text)
