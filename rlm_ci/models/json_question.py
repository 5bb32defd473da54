"""Questions whose answer is one JSON object: who asks them, their form, and how it is read."""

from __future__ import annotations

import re

from rlm_ci.errors import RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.models.strict_json import objects_in, read_object
from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from rlm_ci.models import Completion, Message
    from rlm_ci.models.strict_json import Misfit

    class Ask(Protocol):
        """Asks a model by the ledger and the journal of the run.

        ``place`` names the question within the node (``find-1``); the same messages at the same
        place cost nothing again. ``max_bytes`` limits the next prompt, of which ``repair`` are for
        asking once more; ``is_taught``: it follows from what other parts of the run were told, so
        that a prompt that is longer is not to be sent. Raises LimitError, RemoteError.
        """

        model: str

        @property
        def is_taught(self) -> bool: ...

        @property
        def max_bytes(self) -> int: ...

        @property
        def repair(self) -> int: ...

        def __call__(
            self,
            step: str,
            messages: Sequence[Message],
            *,
            response_format: Message | None = None,
            tools: Sequence[Message] = (),
        ) -> Completion: ...

        def calls_left(self) -> int | None:
            """How many more calls the budgets allow; None where nothing limits them."""

    Answer = TypeVar("Answer")

#: Keywords of a schema that endpoints know; they refuse others, or the whole.
_KEYWORDS = frozenset(("type", "required", "enum", "const"))
#: Bytes that a second question needs besides the first, and the share of a small prompt.
REPAIR, _REPAIR = 6_000, 10
_WORD = re.compile(r"[^\W_]+")
#: Words that follow each other, and the share of those of an example that shows it.
_RUN, _SHARE = 3, 0.6


def repair_bytes(max_bytes: int) -> int:
    """The bytes that a prompt of ``max_bytes`` leaves for asking once more."""
    return min(REPAIR, max_bytes // _REPAIR)


def answer_form(schema: str | Mapping[str, Any]) -> Message:
    """The response format of an answer with ``schema``, a shipped one or its members.

    It is a wish: an endpoint that refuses it is asked without.
    """
    value = loader.read_schema(schema) if isinstance(schema, str) else schema
    form = {"name": "answer", "strict": False, "schema": _simple(value)}
    return {"type": "json_schema", "json_schema": form}


def list_form(*members: str, schema: str) -> Message:
    """``answer_form`` of an object whose ``members`` are lists of what a shipped ``schema`` has."""
    row = {"type": "array", "items": loader.read_schema(schema)}
    properties = dict.fromkeys(members, row)
    return answer_form({"type": "object", "properties": properties, "required": members[:1]})


def _simple(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What every endpoint knows of a schema; the properties of a condition are optional ones."""
    simple = {name: value for name, value in schema.items() if name in _KEYWORDS}
    properties = {**schema.get("properties", {}), **schema.get("then", {}).get("properties", {})}
    if properties:
        simple["properties"] = {name: _simple(value) for name, value in properties.items()}
    if "items" in schema:
        simple["items"] = _simple(schema["items"])
    return simple


def shortened(ask: Ask, question: Callable[[], Answer]) -> Answer:
    """What ``question`` gives, which makes its prompt for ``ask.max_bytes``.

    It is put again, and shorter, while the endpoint refuses it for its length. Raises what
    ``question`` raises.
    """
    while True:
        before = ask.max_bytes
        try:
            return question()
        except RemoteError as error:
            if not is_too_long(error) or ask.max_bytes >= before:
                raise


def read_answer(completion: Completion, misfit: Misfit) -> tuple[dict[str, Any] | None, str]:
    """The object of an answer, or None and what is wrong with it."""
    if completion.finish_reason == "length":
        return None, "the answer was cut off: write less: only the most severe"
    try:
        answer = read_object(completion.text, misfit)
    except ValueError as error:  # or it is the only one that fits in a list
        fitting = [value for value in objects_in(completion.text) if not misfit(value)]
        return (fitting[0], "") if len(fitting) == 1 else (None, str(error))
    wrong = misfit(answer)
    return (None, wrong) if wrong else (answer, "")


def repeats(text: str, examples: Iterable[str]) -> bool:
    """Whether ``text`` has the words of a prompt's ``examples``, in any case and punctuation.

    A long one may lack some words, and have others around it; a short one stands alone.
    """
    words = _words(text)
    return any(_repeats(words, _words(example)) for example in examples)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _repeats(words: list[str], example: list[str]) -> bool:
    if len(example) <= _RUN:
        return words == example
    runs = _runs(example)
    return len(runs & _runs(words)) >= _SHARE * len(runs)


def _runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
