"""A model that answers from a script: for tests and demos, without a key."""

from __future__ import annotations

import json
import threading

from rlm_ci.errors import ConfigError
from rlm_ci.models import Completion, TokenUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.models import ModelRequest

    Answer = str | Mapping[str, Any] | Completion | Exception


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
    ) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._lock = threading.Lock()
        self._asked = answers if callable(answers) else None
        self._answers = () if callable(answers) else tuple(answers)

    def complete(self, request: ModelRequest) -> Completion:
        """The next answer. Raises ConfigError when there is none left."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        # Outside of the lock: a callable may take its time, as a model does.
        if self._asked is not None:
            return self._completion(self._asked(request), request, number)
        if number >= len(self._answers):
            raise ConfigError(
                f"the script has run out: it has {len(self._answers)} answers",
                where=self.name,
                hint="add the answers that are missing, or lower the budgets",
            )
        return self._completion(self._answers[number], request, number)

    def _completion(self, answer: Answer, request: ModelRequest, number: int) -> Completion:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        told: Mapping[str, Any] = {"text": answer} if isinstance(answer, str) else answer
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
        # Four bytes a token, about as in English.
        written = len(text) + sum(len(call["arguments"]) for call in calls)
        prompt, completion = told.get("usage") or (
            request.prompt_bytes() // 4,
            min(written // 4 + 1, request.max_tokens),
        )
        reason = told.get("finish_reason") or ("tool_calls" if calls else "stop")
        return Completion(text, calls, reason, request.model, TokenUsage(prompt, completion))
