"""A Python program's own model and interpreter, behind the contracts of the package."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from copy import copy
from time import monotonic

from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import Completion, SpentError, TokenUsage
from rlm_ci.models.gateway import CONNECTOR
from rlm_ci.report.rules import SITE
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.models import ModelRequest

#: Where a Python program gives what is wrong.
WHERE = "RLMRunner"
#: Bytes of a text that count as a token where a connector counts none.
_BYTES_A_TOKEN = 4
#: Attributes with the name of a connector's model, in this order.
_NAMES = ("current_model_id", "current_model", "model", "model_name")
_SAID = 300


class ConnectorModel:
    """Answers requests by ``generate_response(prompt, **kwargs)`` of a connector.

    It returns a text, or an object with ``text`` and ``usage``. Of the keywords ``system_prompt``,
    ``model``, ``provider``, ``temperature``, ``max_tokens`` and ``timeout`` it gets those that its
    signature names. Without a count, ``_BYTES_A_TOKEN`` bytes are a token; with ``metered``, the
    ledger charges all that it reserved instead.
    """

    name = CONNECTOR

    def __init__(self, connector: Any, *, metered: bool) -> None:
        self._generate: Callable[..., Any] = method_of(connector, "generate_response")
        self._metered = metered
        self._taken = _parameters(self._generate)
        self.sub_provider: str | None = None
        self.model = next(
            (model for name in _NAMES if isinstance(model := getattr(connector, name, None), str)),
            CONNECTOR,
        )

    def with_sub_provider(self, name: str | None) -> ConnectorModel:
        """The same, which names the provider ``name`` to the connector in sub-calls."""
        model = copy(self)
        model.sub_provider = name
        return model

    def complete(self, request: ModelRequest) -> Completion:
        """See ``Model``. A call that takes too long is left behind: no thread can be killed."""
        system, prompt = _prompts(request, apart="system_prompt" in self._taken)
        is_sub = request.model != self.model
        offered = {
            "system_prompt": system,
            "model": request.model if is_sub else None,
            "provider": self.sub_provider if is_sub else None,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "timeout": request.seconds,
        }
        arguments = {
            name: value
            for name, value in offered.items()
            if name in self._taken and value is not None
        }
        try:
            answer = within(request.seconds, lambda: self._generate(prompt, **arguments))
        except TimeoutError:
            raise SpentError(
                f"the connector gave no answer in {request.seconds:.0f} seconds",
                where="generate_response",
                hint="give it more time, or a faster model",
            ) from None
        except Exception as error:
            message = printable(f"{type(error).__name__}: {error}")[:_SAID]
            raise RemoteError(
                f"the connector raised {message}",
                where="generate_response",
                hint="mend the connector, then continue the run",
            ) from error
        text, usage = _read(answer)
        if usage is None and not self._metered:
            read = len(prompt) + len(system or "")
            usage = TokenUsage(-(-read // _BYTES_A_TOKEN), -(-len(text) // _BYTES_A_TOKEN))
        return Completion(text, (), "stop", request.model, usage)


class CodeResult(Value):
    """The end of a piece of Python: what it printed, and whether it failed, or took too long."""

    stdout: str
    stderr: str = ""
    failed: bool = False
    timed_out: bool = False
    seconds: float = 0.0


class ConnectedEngine:
    """Runs code by ``execute_code(code)`` of an engine, which returns output and error.

    That is a pair, or an object or mapping with ``output`` or ``stdout``, and ``error`` or
    ``stderr``.
    """

    def __init__(self, engine: Any) -> None:
        self._execute: Callable[..., Any] = method_of(engine, "execute_code")
        self._takes_timeout = "timeout" in _parameters(self._execute)

    def run(self, code: str, seconds: float) -> CodeResult:
        """Run it, for ``seconds`` at most; a call that takes longer is left behind."""
        arguments = {"timeout": seconds} if self._takes_timeout else {}
        began = monotonic()
        try:
            result = within(seconds, lambda: self._execute(code, **arguments))
        except TimeoutError:
            message = f"stopped after {seconds:g} seconds"
            return CodeResult("", message, failed=True, timed_out=True, seconds=seconds)
        except Exception as error:  # noqa: BLE001 - what the code raised, in many engines
            output, failure, failed = "", f"{type(error).__name__}: {error}", True
        else:
            output, failure, failed = _outcome(result)
        took = round(monotonic() - began, 3)
        return CodeResult(output, failure, failed=failed, seconds=took)


def within(seconds: float | None, work: Callable[[], Any]) -> Any:
    """The result of ``work``. Raises TimeoutError after ``seconds``, and what it raises."""
    results: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
            raised.append(error)

    thread = threading.Thread(target=run, name="rlm-ci-connector", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not results:
        raise TimeoutError
    return results[0]


def method_of(owner: Any, name: str) -> Callable[..., Any]:
    """The method of an object that a Python program gave. Raises ConfigError."""
    attribute = getattr(owner, name, None)
    if not callable(attribute):
        raise ConfigError(
            f"{type(owner).__name__} has no method {name}",
            where=WHERE,
            hint=f"give it {name}(), as {SITE}runner.html describes",
        )
    method: Callable[..., Any] = attribute
    return method


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters that a function names; those of builtins cannot be seen."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _prompts(request: ModelRequest, *, apart: bool) -> tuple[str | None, str]:
    """The system prompt, None where it is a part of the other, and the conversation as a text."""
    messages = [(message["role"], message.get("content") or "") for message in request.messages]
    system = "\n\n".join(text for role, text in messages if role == "system")
    dialogue = [message for message in messages if message[0] != "system"]
    if len(dialogue) == 1:
        prompt = dialogue[0][1]
    else:
        prompt = "\n\n".join(f"[{role}]\n{text}" for role, text in dialogue)
    if apart:
        return system or None, prompt
    return None, f"{system}\n\n{prompt}" if system else prompt


def _read(answer: Any) -> tuple[str, TokenUsage | None]:
    if isinstance(answer, str):
        return answer, None
    text, usage = _field(answer, "text"), _field(answer, "usage")
    if not isinstance(text, str):
        raise RemoteError(
            f"the connector returned {type(answer).__name__}, which has no text",
            where="generate_response",
            hint="return a str, or an object with text and usage",
        )
    counts = [_field(usage, name) for name in ("prompt_tokens", "completion_tokens")]
    if not all(type(count) is int and count >= 0 for count in counts):
        return text, None
    return text, TokenUsage(*counts)


def _outcome(result: Any) -> tuple[str, str, bool]:
    """Output, error, and whether it failed."""
    if isinstance(result, str) or result is None:
        return result or "", "", False
    if isinstance(result, tuple) and len(result) == 2:
        output, error = result
        return _text(output), _text(error), bool(error)
    stdout = _field(result, "stdout")
    output = _field(result, "output") if stdout is None else stdout
    error, stderr = _field(result, "error"), _field(result, "stderr")
    success = _field(result, "success")
    failed = bool(error) if success is None else not success
    return _text(output), _text(stderr or error), failed


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _field(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)
