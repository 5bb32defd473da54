"""What an endpoint accepts in a request, as far as its refusals have told.

Compatible endpoints differ: in the name of the cap on an answer, in its largest value, in the order
of roles that a model's template takes, in the members of a message that they know, in whether and
how they stream.
"""

from __future__ import annotations

import re
from hashlib import sha256

from rlm_ci.models import context_length, is_wish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Final

    from rlm_ci.models import Message, ModelRequest
    from rlm_ci.models.openai.errors import EndpointRefusedError

_CAPS: Final = ("max_tokens", "max_completion_tokens")
#: How a refusal names the most tokens that an answer may have.
_MOST: Final = re.compile(
    r"range of max_\w*tokens (?:is|should be) \[\d+, ?(\d+)\]|less than or equal to\W{1,3}(\d+)"
    r"|at most (\d+) (?:completion|output) tokens|max_\w*tokens:? \d+ > (\d+)"
    r"|max_\w*tokens\W{0,3} must be at most (\d+)"
    r"|max_\w*tokens\W{0,3}\d+\)? exceeds (?:the )?limit\D{1,20}(\d+)"
    r"|maximum (?:allowed )?(?:number of )?(?:output|completion) tokens\D{1,40}?(\d+)"
)
#: How a refusal names a context that prompt and answer share, and the part of the prompt.
_SHARED: Final = tuple(map(re.compile, (
    r"context length is (?P<all>\d+) tokens and your request has (?P<prompt>\d+) input tokens",
    r"context length is (?P<all>\d+) tokens.*?\((?P<prompt>\d+) (?:in|of) the (?:messages|prompt)",
    r"context limit: (?P<prompt>\d+) \+ \d+ > (?P<all>\d+)",
    r"must be <= (?P<all>\d+)\. given: (?P<prompt>\d+) `inputs`",
)))  # fmt: skip
#: The least answer that is of use.
_LEAST: Final = 256
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
#: How an endpoint answers a request that it does not take.
_UNTAKEN: Final = frozenset((400, 403, 404, 405, 406, 415, 422, 501))
#: Members of a message, and of a call in it, that are of the format.
_FORMAT: Final = frozenset((
    "role", "content", "name", "tool_calls", "tool_call_id", "id", "type", "function",
))  # fmt: skip


class AcceptedRequests:
    """Bodies of requests to one endpoint. ``own_name`` is the endpoint's name of a model.

    ``is_newer``: it knows the longer name of the cap, as OpenAI's newer models do; many other
    servers know only the shorter. ``takes_schemas``: it may take those of answers.
    """

    def __init__(
        self, own_name: Callable[[str], str], *, is_newer: bool, takes_schemas: bool = True
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
        before, refused = self._refused.get(_said(request), (0, None))
        return refused if size >= before else None

    def body(self, request: ModelRequest, most: int | None = None) -> dict[str, Any]:
        """A request as the endpoint takes it; ``most`` tokens of an answer fit beside this one."""
        messages: Iterable[Message] = request.messages
        if self._unwanted:
            messages = [_without(message, self._unwanted) for message in messages]
        if request.model in self._alternating:
            messages = _alternating(messages)
        caps = (request.max_tokens, most, self._most.get(request.model))
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
        self, refused: EndpointRefusedError, request: ModelRequest, most: int | None
    ) -> tuple[bool, int | None]:
        """Whether another body may be accepted, and the tokens that its answer may have."""
        text, model = refused.message.casefold(), request.model
        if refused.is_about(self._cap) and not self._was_swapped:
            self._cap, self._was_swapped = _CAPS[self._cap == _CAPS[0]], True
            return True, most
        if most is None:
            limit = None if model in self._most else _number(_MOST.search(text))
            if limit is not None and _LEAST <= limit < request.max_tokens:
                self._most[model] = limit
                return True, None
            room = next(_rooms(text), None)
            if room is not None and _LEAST <= room < request.max_tokens:
                return True, room
        if model not in self._alternating and _ALTERNATE.search(text):
            self._alternating.add(model)
            return True, most
        if self._learned_form(f"{text} {refused.param}", refused.status, request):
            return True, most
        unwanted = {name for name in _extras(request.messages) if name.casefold() in text}
        if unwanted - self._unwanted and _UNWANTED.search(text):
            self._unwanted |= unwanted
            return True, most
        if refused.is_too_long:
            self._refused[_said(request)] = request.prompt_bytes(), refused
            if (tokens := context_length.tokens_in(text)[0]) is not None:
                self._reads[model] = tokens, refused
        return False, most


def _said(request: ModelRequest) -> str:
    return sha256(repr((request.model, request.messages)).encode("utf-8", "replace")).hexdigest()


def _kind(request: ModelRequest) -> tuple[str, bool, bool]:
    """What decides whether an answer is streamed: some endpoints stream no calls, or no JSON."""
    return request.model, bool(request.tools), bool(request.response_format)


def _number(match: re.Match[str] | None) -> int | None:
    """The number in the one group that matched."""
    return None if match is None else int(next(filter(None, match.groups())))


def _rooms(text: str) -> Iterator[int]:
    """The tokens that a context has for an answer beside the prompt."""
    for pattern in _SHARED:
        if match := pattern.search(text):
            yield int(match["all"]) - int(match["prompt"])


def _extras(messages: Iterable[Message]) -> set[str]:
    """The members of messages and calls that only an endpoint has, which it gave us itself."""
    names: set[str] = set()
    for message in messages:
        names.update(message)
        for call in message.get("tool_calls", ()):
            names.update(call)
    return names - _FORMAT


def _without(message: Message, unwanted: set[str]) -> Message:
    kept = {name: value for name, value in message.items() if name not in unwanted}
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [
            {name: value for name, value in call.items() if name not in unwanted} for call in calls
        ]
    return kept


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
            joined[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
        else:
            joined.append({**message, "role": role})
    return joined


def _calls(message: Message) -> bool:
    return bool(message.get("tool_calls"))
