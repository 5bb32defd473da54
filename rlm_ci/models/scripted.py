"""A model that says what it was told to: for tests, demos, and trying a set-up without a key."""

from __future__ import annotations

import json
import threading

from rlm_ci.errors import ConfigError
from rlm_ci.models import Completion, TokenUsage
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.models import ModelRequest

    Answer = str | Mapping[str, Any] | Completion | Exception

_LIMIT = 64 << 20
_KEYS = frozenset(("text", "tool_calls", "finish_reason", "usage"))


class ScriptedModel:
    """Answers in the order given, to whoever asks first; thread-safe.

    An answer is a text, a mapping (``text``, ``tool_calls`` as ``[{"name", "arguments"}]``,
    ``finish_reason``, ``usage`` as ``[prompt, completion]``), a Completion, or an exception to
    be raised. Instead of a list there may be a callable that takes the request. ``requests`` is
    all that was asked.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[ModelRequest], Answer],
        *,
        name: str = "scripted",
        source: str = "the script",
    ) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._source = source
        self._lock = threading.Lock()
        if callable(answers):
            self._asked: Callable[[ModelRequest], Answer] | None = answers
            self._answers: tuple[Answer, ...] = ()
        else:
            self._asked, self._answers = None, tuple(answers)

    @classmethod
    def from_file(cls, path: str) -> ScriptedModel:
        """Answers from a JSON list in ``path``. Raises ConfigError."""
        try:
            answers = json.loads(files.read(path, _LIMIT))
        except files.UnreadableError as error:
            raise ConfigError(
                f"the script cannot be read: {error}", where=path, hint="name a JSON file"
            ) from None
        except (ValueError, RecursionError):
            answers = None
        if not isinstance(answers, list) or not all(isinstance(a, str | dict) for a in answers):
            raise ConfigError(
                "the script is not a JSON list of answers",
                where=path,
                hint='an answer is a text, or {"text": …, "tool_calls": [{"name": …, '
                '"arguments": …}]}',
            )
        for number, answer in enumerate(answers, 1):
            if isinstance(answer, dict):
                _check(answer, f"{path}, answer {number}")
        return cls(answers, source=path)

    def complete(self, request: ModelRequest) -> Completion:
        """The next answer. Raises ConfigError when there is none left."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            if self._asked is None and number >= len(self._answers):
                raise ConfigError(
                    f"the script has run out: it has {len(self._answers)} answers, and one more "
                    "was asked for",
                    where=self._source,
                    hint="add the answers that are missing, or lower the budgets",
                )
        # Outside of the lock: a callable may take its time, as a model does.
        answer = self._answers[number] if self._asked is None else self._asked(request)
        return self._completion(answer, request, number)

    def _completion(self, answer: Answer, request: ModelRequest, number: int) -> Completion:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        told: Mapping[str, Any] = {"text": answer} if isinstance(answer, str) else answer
        _check(told, f"{self._source}, answer {number + 1}")
        calls = tuple(
            {
                "id": call.get("id", f"call_{number}_{index}"),
                "name": call["name"],
                "arguments": arguments
                if isinstance(arguments := call.get("arguments", "{}"), str)
                else json.dumps(arguments),
            }
            for index, call in enumerate(told.get("tool_calls", ()))
        )
        text = told.get("text", "")
        # Four bytes a token, about as in English; nobody's tokenizer is meant.
        written = len(text) + sum(len(call["arguments"]) for call in calls)
        prompt, completion = told.get("usage") or (
            request.prompt_bytes() // 4,
            min(written // 4 + 1, request.max_tokens),
        )
        reason = told.get("finish_reason") or ("tool_calls" if calls else "stop")
        return Completion(text, calls, reason, request.model, TokenUsage(prompt, completion))


def _check(answer: Mapping[str, Any], place: str) -> None:
    """Raise ConfigError where an answer is not what Scripted documents."""
    wrong = sorted(set(answer) - _KEYS)
    calls = answer.get("tool_calls", ())
    usage = answer.get("usage")
    if wrong:
        problem = f"unknown key {wrong[0]!r}"
    elif not isinstance(answer.get("text", ""), str):
        problem = "text is not a string"
    elif not isinstance(calls, list | tuple) or not all(
        isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls
    ):
        problem = 'tool_calls is not a list of {"name", "arguments"}'
    elif usage is not None and not (
        isinstance(usage, list | tuple)
        and len(usage) == 2
        and all(isinstance(number, int) for number in usage)
    ):
        problem = "usage is not [prompt tokens, completion tokens]"
    else:
        return
    raise ConfigError(problem, where=place, hint=f"known keys: {', '.join(sorted(_KEYS))}")
