"""What an endpoint accepts in a request, as far as its refusals have told.

Compatible endpoints differ: in the name of the cap on an answer, in its largest value, in the order
of roles that a model's template takes, in the members of a message that they know, in whether and
how they stream, in how they are told to go on from a part of an answer.

Its answers also show how many bytes a token has, and how many tokens the model reads.
``endpoints.json`` beside the runs keeps these figures for later runs. They only decide how long
prompts are; what is no such file counts as none.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from contextlib import suppress
from hashlib import sha256
from http import HTTPStatus

from rlm_ci.errors import StorageError
from rlm_ci.models import context_length, is_wish, text_of
from rlm_ci.models.providers import is_own
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final

    from rlm_ci.models import Message, ModelRequest
    from rlm_ci.models.openai.errors import EndpointRefusedError

    #: ``learn(request, limit, prompt)``, both in tokens, None for what a refusal does not say.
    Learn = Callable[[ModelRequest, int | None, int | None], None]


_CAPS: Final = ("max_tokens", "max_completion_tokens")
#: A refusal of the cap; its figures, without those in names; and whether the last is beyond it.
_CAP_SAID: Final = re.compile(r"max_?\w*tokens|(?:output|completion) tokens")
_FIGURE: Final = re.compile(r"(?<![\w.-])\d[\d,]{0,9}(?![\w-])")
_BEYOND: Final = re.compile(r"less than \d|\(exclusive\)")
#: Statuses of money and of a minute's tokens, which a lower cap is no answer to.
_NOT_THE_CAP: Final = frozenset((HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.TOO_MANY_REQUESTS))
#: How a refusal names a context that prompt and answer share, and the part of the prompt.
_SHARED: Final = tuple(map(re.compile, (
    r"context length is (?P<all>\d+) tokens and your request has (?P<prompt>\d+) input tokens",
    r"context length is (?P<all>\d+) tokens.*?\((?P<prompt>\d+) (?:in|of) the (?:messages|prompt)",
    r"context length is (?P<all>\d+) tokens.*prompt contains (?P<prompt>\d+) input",
    r"context length of (?P<all>\d+) tokens.*: (?P<prompt>\d+) tokens from the input",
    r"context limit: (?P<prompt>\d+) \+ \d+ > (?P<all>\d+)",
    r"must be <= (?P<all>\d+)\. given: (?P<prompt>\d+) `inputs`",
)))  # fmt: skip
#: The same, without a count of the prompt.
_UNCOUNTED: Final = re.compile(
    r"context length is (?P<all>\d+) tokens.*contains at least \d"
    r"|max_model_len=\D{0,20}(?P<most>\d+)"
)
#: The least answer that is of use, and that is asked for by an estimate.
_LEAST: Final = 256
_USEFUL: Final = 1_024
_ALTERNATE: Final = re.compile(
    r"must alternate|alternate between|unexpected role|expected last role"
    r"|system message must be at the beginning"
)
_UNWANTED: Final = re.compile(
    r"unsupported|not supported|unrecognized|unknown|unexpected|not permitted|not allowed|extra "
    r"(?:fields|inputs|properties)|additional propert|should not|must not"
)
_STREAM: Final = re.compile(r"\bstream(?:ing|ed)?\b")
#: Words of a refusal for the form of the answer.
_FORM: Final = re.compile(
    r"response[_ ]format|json[_ ](?:mode|schema|object)|schema|structured|grammar|guided"
)
_STREAM_OPTIONS: Final = re.compile(r"stream_options|include_usage")
#: How an endpoint goes on from the part of an answer that is the last message: told by a member of
#: it, as Mistral and DeepSeek want it, or of the request, as vLLM and SGLang do. Others need none.
_PREFIX: Final = "prefix"
_PREFIXED: Final = re.compile(r"^https://api\.(?:mistral\.ai|deepseek\.com)/")
_GO_ON: Final = {"add_generation_prompt": False, "continue_final_message": True}
#: How an endpoint answers a request that it does not take.
_UNTAKEN: Final = frozenset((400, 403, 404, 405, 406, 415, 422, 501))
#: Members of a message, and of calls and parts in it, that are of the format.
_FORMAT: Final = frozenset((
    "role", "content", "name", "tool_calls", "tool_call_id", "id", "type", "function", "arguments",
    "text",
))  # fmt: skip


class AcceptedRequests:
    """Bodies of requests to the endpoint at ``base_url``; ``own_name`` is its name of a model.

    ``is_newer``: it knows the longer name of the cap, as OpenAI's newer models do; many other
    servers know only the shorter. ``takes_schemas``: it may take those of answers. ``learn`` is
    told of the tokens that a refusal says that a model reads, and that the prompt has.
    """

    def __init__(
        self,
        own_name: Callable[[str], str],
        *,
        base_url: str,
        is_newer: bool,
        takes_schemas: bool = True,
        learn: Learn = lambda _request, _limit, _prompt: None,
    ) -> None:
        self._own_name = own_name
        self._cap = _CAPS[is_newer]
        self._was_swapped = False
        self._most: dict[str, int] = {}
        self._alternating: set[str] = set()
        self._has_stream_options = True
        self._takes_schemas = takes_schemas
        self._formless: set[str] = set()
        self._unstreamed: set[tuple[str, bool, bool]] = set()
        self._unwanted: set[str] = set()
        self._has_prefix = bool(_PREFIXED.search(base_url))
        self._learn = learn
        #: By model, the tokens that prompt and answer share.
        self._shared: dict[str, int] = {}
        self._can_go_on = is_own(base_url) and not (self._has_prefix or is_newer)
        #: By model, the tokens that it reads; and prompts by their messages, with their bytes.
        self._reads: dict[str, tuple[int, EndpointRefusedError]] = {}
        self._refused: dict[str, tuple[int, EndpointRefusedError]] = {}

    def too_long(self, request: ModelRequest) -> EndpointRefusedError | None:
        """The refusal of this prompt, or of one like it, that need not be sent again."""
        if not self._refused:
            return None
        size = request.prompt_bytes()
        tokens, refused = self._reads.get(request.model, (0, None))
        if refused is not None and context_length.is_beyond(size, tokens):
            return refused
        before, refused = self._refused.get(_request_key(request), (0, None))
        return refused if size >= before else None

    def body(self, request: ModelRequest, limit: int | None = None) -> dict[str, Any]:
        """A request as the endpoint takes it; ``limit`` tokens of an answer fit beside this one."""
        messages: Iterable[Message] = request.messages
        if self._unwanted:
            messages = [_without(message, self._unwanted) for message in messages]
        if request.model in self._alternating:
            messages = _alternating(messages)
        goes_on = _is_part(request.messages[-1])
        if goes_on and self._has_prefix:
            *before, part = messages
            messages = [*before, {**part, _PREFIX: True}]
        room = self._room(request) if limit is None else limit
        caps = (request.max_tokens, room, self._most.get(request.model))
        is_streamed = _kind(request) not in self._unstreamed
        has_options = is_streamed and self._has_stream_options
        options = {
            "tools": request.tools or None,
            "temperature": request.temperature,
            "response_format": self._form(request),
            "stream": True if is_streamed else None,
            "stream_options": {"include_usage": True} if has_options else None,
        }
        return {
            "model": self._own_name(request.model),
            "messages": messages,
            self._cap: min(cap for cap in caps if cap is not None),
            **{name: value for name, value in options.items() if value is not None},
            **(_GO_ON if goes_on and self._can_go_on else {}),
        }

    def _learned_form(self, text: str, status: int, request: ModelRequest) -> bool:
        """Whether a refusal is about how an answer comes: its events, its schema."""
        kind, form = _kind(request), self._form(request)
        if status in _UNTAKEN and self._has_stream_options and _STREAM_OPTIONS.search(text):
            self._has_stream_options = False
        elif status in _UNTAKEN and kind not in self._unstreamed and _STREAM.search(text):
            self._unstreamed.add(kind)
        elif status in (*_UNTAKEN, 500) and form and is_wish(form) and _FORM.search(text):
            self._formless.add(request.model)
        else:
            return False
        return True

    def _learned_part(self, words: set[str]) -> bool:
        """Whether a refusal in ``words`` tells how the endpoint goes on from a part."""
        if self._can_go_on and words & _GO_ON.keys():
            self._can_go_on = False
        elif not self._has_prefix and _PREFIX in words:
            self._has_prefix, self._can_go_on = True, False
        else:
            return False
        return True

    def _learned_cap(
        self, refused: EndpointRefusedError, request: ModelRequest, text: str
    ) -> tuple[bool, int | None]:
        """Whether a refusal is about the tokens of an answer, and what it leaves for this one."""
        shared, model = _shared_context(text), request.model
        if shared is not None:
            limit, prompt = shared
            room = limit - (prompt or context_length.guessed(request.prompt_bytes()))
            if _LEAST <= room < request.max_tokens:
                self._shared[model] = limit
                return True, room
            return False, None
        is_cap = not refused.is_too_long and refused.status not in _NOT_THE_CAP
        if is_cap and model not in self._most:
            cap = _largest_cap(text, request.max_tokens)
            if cap >= _LEAST:
                self._most[model] = cap
                return True, None
        return False, None

    def _room(self, request: ModelRequest) -> int | None:
        """The tokens of an answer for which a shared context seems to have room."""
        if request.model not in self._shared:
            return None
        room = self._shared[request.model] - context_length.guessed(request.prompt_bytes())
        return room if room >= _USEFUL else None

    def _form(self, request: ModelRequest) -> Message | None:
        form = request.response_format
        takes_form = self._takes_schemas and request.model not in self._formless
        return form if takes_form or form is None or not is_wish(form) else None

    def count_without_stream(self, request: ModelRequest) -> None:
        """Heed that a stream had no usage: one that cannot be asked for it is of no use.

        What it has cost would be as unknown as at its worst.
        """
        if not self._has_stream_options:
            self._unstreamed.add(_kind(request))

    def learned(
        self, refused: EndpointRefusedError, request: ModelRequest, largest: int | None
    ) -> tuple[bool, int | None]:
        """Whether another body may be accepted, and the tokens that its answer may have."""
        text, model = f"{refused.message} {refused.param}".casefold(), request.model
        if refused.is_about(self._cap) and not self._was_swapped:
            self._cap, self._was_swapped = _CAPS[self._cap == _CAPS[0]], True
            return True, largest
        if refused.is_too_long:
            self._learn(request, *(_shared_context(text) or context_length.tokens_in(text)))
        if largest is None:
            is_about_cap, room = self._learned_cap(refused, request, text)
            if is_about_cap:
                return True, room
        words = set(re.findall(r"\w+", text))
        if _is_part(request.messages[-1]) and self._learned_part(words):
            return True, largest
        if model not in self._alternating and _ALTERNATE.search(text):
            self._alternating.add(model)
            return True, largest
        if self._learned_form(text, refused.status, request):
            return True, largest
        unwanted = {name for name in _extras(request.messages) if name.casefold() in words}
        if unwanted - self._unwanted and _UNWANTED.search(text):
            self._unwanted |= unwanted
            return True, largest
        if refused.is_too_long:
            self._refused[_request_key(request)] = request.prompt_bytes(), refused
            if (tokens := context_length.tokens_in(text)[0]) is not None:
                self._reads[model] = tokens, refused
        return False, largest


def without_echo(messages: Iterable[Message], text: str) -> str | None:
    """What follows the part of an answer that Mistral sends again; None where it does not."""
    part = [*messages][-1]
    return text.removeprefix(part["content"]) if part.get(_PREFIX) else None


def _is_part(message: Message) -> bool:
    """Whether the last message of a question is the part of an answer to go on from."""
    return message["role"] == "assistant" and not _calls(message)


def _request_key(request: ModelRequest) -> str:
    return sha256(repr((request.model, request.messages)).encode("utf-8", "replace")).hexdigest()


def _kind(request: ModelRequest) -> tuple[str, bool, bool]:
    """What decides whether an answer is streamed: some endpoints stream no calls, or no JSON."""
    return request.model, bool(request.tools), bool(request.response_format)


def _largest_cap(text: str, cap: int) -> int:
    """The most tokens of an answer that a refusal of ``cap`` names; 0 for none."""
    if not _CAP_SAID.search(text):
        return 0
    figures = (int(figure.replace(",", "")) for figure in _FIGURE.findall(text))
    largest = max((figure for figure in figures if figure < cap), default=0)
    return largest - 1 if _BEYOND.search(text) else largest


def _shared_context(text: str) -> tuple[int, int | None] | None:
    """The tokens that a refusal says that prompt and answer share, and those of the prompt."""
    for pattern in _SHARED:
        if match := pattern.search(text):
            return int(match["all"]), int(match["prompt"])
    match = _UNCOUNTED.search(text)
    return None if match is None else (int(match["all"] or match["most"]), None)


def _extras(messages: Iterable[Message]) -> set[str]:
    """The members of messages and calls, and kinds of parts, that only an endpoint has and gave."""
    names: set[str] = set()
    for message in messages:
        names.update(message)
        for call in message.get("tool_calls", ()):
            names.update(call, call["function"])
        for part in _own_parts(message):
            names.update(part, filter(None, [part.get("type")]))
    return names - _FORMAT


def _own_parts(message: Message) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _without(message: Message, unwanted: set[str]) -> Message:
    def sent_members(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item for name, item in value.items() if name not in unwanted}

    reduced = sent_members(message)
    if calls := message.get("tool_calls"):
        reduced["tool_calls"] = [
            {**sent_members(call), "function": sent_members(call["function"])} for call in calls
        ]
    if parts := _own_parts(message):
        parts = [sent_members(part) for part in parts if part.get("type") not in unwanted]
        is_plain = all(part.keys() <= {"type", "text"} for part in parts)
        reduced["content"] = (text_of(parts) or None) if is_plain else parts
    return reduced


def _alternating(messages: Iterable[Message]) -> list[Message]:
    """The messages with neighbours of one role as one, and texts of the system at the start alone.

    A user's text behind the result of a tool becomes a part of that: some templates want an answer
    to follow it.
    """
    joined: list[Message] = []
    for message in messages:
        role, last = message["role"], joined[-1] if joined else None
        if role == "system" and last is not None and last["role"] != "system":
            role = "user"
        is_plain = role in ("system", "user") or (role == "assistant" and not _calls(message))
        follows = last is not None and (
            (last["role"] == role and not _calls(last))
            or (role == "user" and last["role"] == "tool")
        )
        if last is not None and is_plain and follows:
            joined[-1] = {**last, "content": _together(last["content"], message["content"])}
        else:
            joined.append({**message, "role": role})
    return joined


def _together(first: Any, second: Any) -> Any:
    """Two contents as one: as text, or as parts where one of them has some."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [
        part
        for content in (first, second)
        for part in (content if isinstance(content, list) else [{"type": "text", "text": content}])
    ]


def _calls(message: Message) -> bool:
    return bool(message.get("tool_calls"))


#: Its name in the folder of all runs, its version and most bytes.
FILE = "endpoints.json"
_VERSION = 1
_LIMIT = 1 << 20
#: Models that it has, the latest, and for how many seconds what they read counts: a week. Then a
#: server may have been started with another context.
_MODELS = 100
_VALID = 7 * 86_400
#: Bytes of a prompt whose tokens say something: a template adds some to each.
_COUNTED = 2_000
#: A density that is written replaces one that differs by more, so that prompts stay the same.
_SAME = 0.2
#: No text has more bytes a token.
_MOST = 1_000


class ModelFigures(Value):
    """The bytes of a token, and the tokens that the model reads; None for what is not known."""

    bytes_per_token: float | None = None
    context_tokens: int | None = None


NO_FIGURES = ModelFigures()


class EndpointFigures:
    """The figures of one model at one endpoint, for all threads of a run.

    ``folder`` is that of all runs, "" to keep nothing.
    """

    def __init__(
        self, folder: str, base_url: str, model: str, now: Callable[[], float] = time.time
    ) -> None:
        self._path = os.path.join(folder, FILE) if folder else ""
        # An address may hold a secret.
        self._key = sha256(f"{base_url}\0{model}".encode()).hexdigest()[:32]
        self._model, self._now = model, now
        self._lock = threading.Lock()
        #: Those of earlier runs, and what is written for later ones.
        self.stored = self._read()
        self._size = self._tokens = 0
        self._refused: int | None = None
        #: Held by the one part of a run that asks before the model has shown anything.
        self.first = threading.Lock()
        self.is_asked = False

    @property
    def shown(self) -> ModelFigures:
        """The bytes of a token, else those of an earlier run; and what this run had refused."""
        with self._lock:
            ratio = self.stored.bytes_per_token
            if self._tokens:
                ratio = round(self._size / self._tokens, 3)
            return ModelFigures(ratio, self._refused)

    def count(self, size: int, tokens: int) -> None:
        """Take the ``tokens`` that the endpoint has counted in a prompt of ``size`` bytes."""
        if size < _COUNTED or tokens < 1:
            return
        with self._lock:
            self._size, self._tokens = self._size + size, self._tokens + tokens
            ratio, before = self._size / self._tokens, self.stored.bytes_per_token
            if before is None or abs(before - ratio) > _SAME:
                self._keep(self.stored.replace(bytes_per_token=round(ratio, 1)))

    def refuse(self, tokens: int) -> None:
        """Take the ``tokens`` that a refusal says the model reads."""
        with self._lock:
            self._refused = tokens
            if self.stored.context_tokens != tokens:
                self._keep(self.stored.replace(context_tokens=tokens))

    def _read(self) -> ModelFigures:
        row = self._rows().get(self._key)
        if not isinstance(row, dict):
            return NO_FIGURES
        ratio, tokens, at = map(row.get, ("bytes_per_token", "context_tokens", "at"))
        is_valid = type(at) is int and 0 <= self._now() - at < _VALID
        return ModelFigures(
            ratio if isinstance(ratio, float) and 0 < ratio < _MOST else None,
            tokens if is_valid and context_length.is_context(tokens) else None,
        )

    def _rows(self) -> dict[str, Any]:
        data = files.read_or_none(self._path, _LIMIT) if self._path else None
        if data is None:
            return {}
        with suppress(ValueError, RecursionError):
            value = json.loads(data)
            if isinstance(value, dict) and value.get("version") == _VERSION:
                rows = value.get("models")
                return rows if isinstance(rows, dict) else {}
        return {}

    def _keep(self, figures: ModelFigures) -> None:
        """Write the figures for later runs; what cannot be written is learned again."""
        self.stored = figures
        if not self._path:
            return
        rows = self._rows()
        rows.pop(self._key, None)
        row = {"model": self._model, "at": int(self._now()), **figures.to_dict()}
        latest = [*rows.items()][-_MODELS + 1 :]
        models = {**dict(latest), self._key: row}
        text = json.dumps({"version": _VERSION, "models": models}, indent=1)
        with suppress(StorageError):
            files.write(self._path, f"{text}\n".encode(), 0o600)
