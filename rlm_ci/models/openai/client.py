"""Any endpoint that speaks OpenAI's chat API, over the ``openai`` package.

The package's retries, redirects and typed transforms are off. The first call to a model goes
through ``client.post``; later ones reuse its URL, key and headers, which take as long to make as
the rest of a call. Answers are read here, with limits of size and time; those that are streamed
may take as long as tokens come. ``errors`` decides what may be asked again.
"""

from __future__ import annotations

import difflib
import json
import random
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from http import HTTPStatus

from rlm_ci.console.progress import ActiveAnswer, duration
from rlm_ci.errors import ConfigError, RemoteError, UnavailableError
from rlm_ci.models import SpentError, context_length, is_wish
from rlm_ci.models.openai import errors, responses
from rlm_ci.models.openai.accepted import AcceptedRequests, without_echo
from rlm_ci.models.openai.errors import DAY, EndpointRefusedError, RateLimits
from rlm_ci.models.openai.request import (
    DEFAULT_URL,
    ONCE,
    RequestComposer,
    checked_key,
    checked_url,
    unicode_only,
)
from rlm_ci.models.openai.responses import EventStream, is_stream
from rlm_ci.models.providers import SCHEMAS, TOOLS, is_own
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import installation
from rlm_ci.system.transport import (
    AnswerTooLongError,
    DeadlineError,
    Deadlines,
    limited,
    redirect_target,
)
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any, Final

    import httpx2

    from rlm_ci.models import Completion, ModelRequest
    from rlm_ci.models.openai.accepted import Learn

_ERROR_LIMIT: Final = 64 << 10
_ERROR_SECONDS: Final = 5
#: As JSON an answer may be six times as long, and must fit into a record of the journal.
_ANSWER_LIMIT: Final = 8 << 20
#: A stream is larger than what it says: by what is around each token.
_AROUND: Final = 16
#: Seconds for what follows the last token, the usage, and for what follows that, nothing.
_TAIL: Final = 5
_NOTHING: Final = 0.5
_MESSAGE: Final = 300
#: Headers of the package that no endpoint needs, as those about the machine: each takes time.
_UNSAID: Final = ("x-stainless-async", "x-stainless-retry-count")


class RetryLimits(Value):
    """Limits in seconds: of a connection, of one attempt, and of all ``attempts`` together.

    In an answer that is streamed, ``answer`` is the limit up to the first token, and between two.

    ``pause`` is the first wait between two attempts, doubled each time; ``longest`` the longest
    wait that an endpoint may ask for. Where it names one for a limit, there may be ``waits``
    attempts.
    """

    connect: float = 10
    answer: float = 120
    total: float = 300
    attempts: int = 3
    pause: float = 0.5
    longest: float = 60
    waits: int = 12


class _Times(Value):
    """``deadline`` of an answer that comes at once, ``final`` of one whose tokens are seen."""

    deadline: float
    final: float
    active: ActiveAnswer


class OpenAIModel(Closing):
    """A model behind ``base_url``; one client for all threads, made when first asked.

    With ``azure_api_version``, ``base_url`` is that of the Azure resource, and a model's name that
    of its deployment. ``own_name`` turns a model's name into that of the endpoint; what it
    ``lacks`` (see ``providers``) is refused without asking it. ``tell`` hears of waits for a limit,
    ``learn`` of the tokens that a refusal says that a model reads, and that a prompt has.
    Raises ConfigError without a key for OpenAI or Azure; other servers may need none.
    """

    def __init__(
        self,
        *,
        base_url: str = "",
        api_key: str = "",
        azure_api_version: str = "",
        own_name: Callable[[str], str] = str,
        lacks: Collection[str] = (),
        tell: Callable[[str], None] = lambda _text: None,
        learn: Learn = lambda _request, _limit, _prompt: None,
        patience: RetryLimits = RetryLimits(),  # noqa: B008 - immutable
        answer_limit: int = _ANSWER_LIMIT,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = "azure" if azure_api_version else "openai"
        self._url = checked_url(base_url or DEFAULT_URL)
        if not api_key and (not base_url or azure_api_version):
            raise ConfigError(
                "no key for the model service",
                where="OPENAI_API_KEY",
                hint="set it, or OPENAI_BASE_URL for a server of your own",
            )
        self._key = checked_key(api_key)
        self._azure_version = azure_api_version
        self._own_name = own_name
        self._lacks = lacks
        self._say = tell
        self._limits = RateLimits(clock)
        self._patience = patience
        self._limit = answer_limit
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self._deadlines = Deadlines(clock)
        self._redact = Redactor({"API_KEY": api_key}).text
        self._lock = threading.Lock()
        self._client: Any = None
        self._http: Any = None  # the client's connections
        self._composed: dict[tuple[str, str], RequestComposer] = {}  # by path and model
        is_newer = self._url.startswith(DEFAULT_URL) or bool(azure_api_version)
        self._accepted = AcceptedRequests(
            own_name,
            base_url=self._url,
            is_newer=is_newer,
            takes_schemas=SCHEMAS not in lacks,
            learn=learn,
        )

    def complete(self, request: ModelRequest) -> Completion:
        """See Model. It never repeats a question that may have cost something."""
        self._require(request)
        self._opened()  # loading the package must not take from the endpoint's time
        limits = (self._patience.total, request.seconds)
        deadline = self._clock() + min(limit for limit in limits if limit is not None)
        active = request.active or ActiveAnswer(limit=request.seconds)
        times = _Times(deadline, self._clock() + active.limit, active)
        # The idempotency key of all attempts.
        once = uuid.uuid4().hex
        attempt, max_tokens = 1, None
        self._heed(request, deadline)
        if (error := self._accepted.too_long(request)) is not None:
            raise self._refusal_error(error, request, attempt, deadline)
        while True:
            body = self._accepted.body(request, max_tokens)
            try:
                return self._ask(request, body, times, once)
            except EndpointRefusedError as refused:
                has_learned, max_tokens = self._accepted.learned(refused, request, max_tokens)
                # Another thread may have learned it meanwhile.
                if has_learned or self._accepted.body(request, max_tokens) != body:
                    continue
                wait = self._wait(refused, attempt, deadline)
                if refused.limit is not None:
                    self._limits.note(request.model, refused.limit)
                if wait is None:
                    raise self._refusal_error(refused, request, attempt, deadline) from None
                self._say_wait(refused, wait)
            self._sleep(wait)
            attempt += 1

    def close(self) -> None:
        with self._lock:
            client, self._client, self._http = self._client, None, None
        if client is not None:
            client.close()

    def _require(self, request: ModelRequest) -> None:
        """Raise RemoteError for what the endpoint is known to lack, as it would itself."""
        form = request.response_format
        needs = {TOOLS: request.tools, SCHEMAS: form is not None and not is_wish(form)}
        for lack in self._lacks:
            if needs[lack]:
                raise RemoteError(
                    f"the endpoint does not support {lack}",
                    where=self._where(request),
                    hint="use another provider",
                )

    def _heed(self, request: ModelRequest, deadline: float) -> None:
        """Wait for a limit that an earlier question met. Raises RemoteError if that is too long."""
        limit = self._limits.left(request.model)
        if limit is None:
            return
        if limit.wait is None or limit.wait > self._patience.longest:
            refused = EndpointRefusedError(
                limit.words, status=HTTPStatus.TOO_MANY_REQUESTS, retry_after=limit.wait,
                limit=limit,
            )  # fmt: skip
            raise self._refusal_error(refused, request, 1, deadline)
        self._sleep(min(limit.wait, max(0.0, deadline - self._clock())))

    def _say_wait(self, refused: EndpointRefusedError, wait: float) -> None:
        if refused.limit is not None:
            self._say(f"{refused.limit}: waiting {duration(wait)}")

    def _ask(
        self, request: ModelRequest, body: Mapping[str, Any], times: _Times, once: str
    ) -> Completion:
        """One request. Raises EndpointRefusedError if it cost nothing, SpentError if not."""
        began = self._clock()
        end = min(began + self._patience.answer, times.deadline)
        stream = EventStream()
        try:
            with self._sent("/chat/completions", end, body, once) as got:
                value = self._parsed(got, stream, times)
            if not stream.tokens and (refused := errors.of_event(value)):
                raise refused
            completion = responses.completion_of(value, request.model)
            part = without_echo(body["messages"], completion.text)
            completion = completion if part is None else completion.replace(text=part)
            if stream.tokens and completion.usage is None:
                self._accepted.count_without_stream(request)
            responses.require_whole_prompt(value, completion.usage, request.prompt_bytes())
            return completion
        except (DeadlineError, RemoteError) as failed:
            if isinstance(failed, DeadlineError):
                error: RemoteError = self._late(stream, times, began, end)
            else:
                error = failed
            if stream.tokens and isinstance(error, SpentError):
                error.what += f", after about {count(stream.tokens, 'token')}"
                error.usage = error.usage or responses.usage_of(stream.usage)
                error.size, error.tokens = stream.size, stream.tokens
                has_form = request.tools or "response_format" in body
                error.part = "" if has_form else responses.resumable(stream.part)
            error.where = error.where or self._where(request)
            error.what = self._redact(error.what)[:_MESSAGE]
            error.args = (error.what,)
            raise error from None

    def _late(self, stream: EventStream, times: _Times, began: float, end: float) -> SpentError:
        """The error of an answer that took too long: as a whole, or between two tokens."""
        again = end < times.deadline
        if stream.tokens:
            end, again = times.final, self._clock() < times.final
        what = f"the answer was not whole after {max(0.0, end - began):.3g} seconds"
        if stream.tokens and again:
            what = f"no token came for {self._patience.answer:.3g} seconds"
        hint = "allow more time (models.timeout), or lower the cap on tokens of one answer"
        return SpentError(what, hint=hint, again=again)

    @contextmanager
    def _sent(
        self,
        path: str,
        end: float,
        body: Mapping[str, Any] | None = None,
        once: str = "",
    ) -> Iterator[httpx2.Response]:
        """The response without its body. Raises DeadlineError at ``end``, also in the context."""
        client, _ = self._opened()
        import httpx2
        import openai

        # Waits after the connection have the deadline.
        connect = min(self._patience.connect, max(0.001, end - self._clock()))
        options: dict[str, Any] = {"timeout": openai.Timeout(None, connect=connect, pool=connect)}
        options["headers"] = dict.fromkeys((*client.platform_headers(), *_UNSAID), openai.omit)
        options["headers"] |= {ONCE: once} if once else {}
        if not self._key:
            options["headers"]["Authorization"] = openai.omit
        response: httpx2.Response | None = None
        try:
            with self._deadlines.until(end):
                # Raw, so that nothing is parsed before it is measured.
                if body is None:
                    raw = httpx2.Response
                    response = client.get(path, cast_to=raw, options=options, stream=True)
                else:
                    response = self._posted(path, body, once, options)
                yield response
        except openai.APIConnectionError as error:
            raise _broken(error.__cause__ or error) from None
        except httpx2.HTTPError as error:  # while the body came; its cause is of the layer below
            raise _broken(error) from None
        finally:
            if response is not None:
                response.close()

    def _posted(
        self, path: str, body: Mapping[str, Any], once: str, options: dict[str, Any]
    ) -> httpx2.Response:
        """The response to a question, sent by the package or like its first to this model."""
        import httpx2

        client, http = self._opened()
        composer = self._composed.get((path, body["model"]))
        response: httpx2.Response
        with unicode_only(), self._deadlines.turn():
            if composer is not None:
                request = composer.request(body, once, options["timeout"], http.cookies)
                response = http.send(request, stream=True)
            else:
                raw = httpx2.Response
                response = client.post(path, cast_to=raw, body=body, options=options, stream=True)
                self._composed[path, body["model"]] = RequestComposer(response.request)
        return response

    def _parsed(
        self, response: httpx2.Response, stream: EventStream, times: _Times
    ) -> dict[str, Any]:
        """The JSON object in the body, or what its events make, which go to ``stream``.

        Raises SpentError for one that is too long.
        """
        import httpx2

        data, streams, is_over = b"", False, False
        try:
            for piece in limited(response, self._limit * _AROUND):
                data = piece if streams else data + piece
                streams = streams or is_stream(data)
                before = stream.tokens
                added = stream.feed(data) if streams else ""
                if (stream.size if streams else len(data)) > self._limit:
                    raise AnswerTooLongError
                if stream.tokens > before:
                    times.active.add(added, stream.tokens)
                    self._extend(self._patience.answer, times)
                if (stream.reason or stream.is_done) and not is_over:
                    is_over = stream.is_done
                    self._extend(_NOTHING if stream.is_done else _TAIL, times)
        except AnswerTooLongError:
            raise SpentError(
                f"the answer is larger than {self._limit:,} bytes",
                hint="lower models.max_completion_tokens, or use another model",
            ) from None
        except (DeadlineError, httpx2.HTTPError):
            if not (stream.reason or stream.is_done):
                raise
        except (ValueError, RecursionError) as error:
            raise responses.unreadable(error) from None
        return responses.streamed(stream) if streams else responses.parse(data)

    def _extend(self, seconds: float, times: _Times) -> None:
        self._deadlines.extend(min(self._clock() + seconds, times.final))

    def _opened(self) -> tuple[Any, Any]:
        """The package's client, and its connections."""
        with self._lock:
            if self._client is None:
                self._client, self._http = self._connected()
            return self._client, self._http

    def _connected(self) -> tuple[Any, httpx2.Client]:
        """Raises ConfigError for an invalid host, and as ``Deadlines.opened``."""
        try:
            import openai
        except ImportError:
            raise UnavailableError(
                "the package openai is not installed",
                where="models",
                hint=installation.command("models"),
            ) from None
        import httpx2

        try:
            httpx2.URL(self._url)
        except httpx2.InvalidURL:
            raise ConfigError(
                "the base URL of the model service has a host that cannot be",
                where="OPENAI_BASE_URL",
                hint="check its spelling",
            ) from None
        # The package would send the prompt along with a redirect.
        hooks = {"response": [self._refuse]}
        http = self._deadlines.opened(
            lambda: openai.DefaultHttpxClient(follow_redirects=False, event_hooks=hooks)
        )
        # _sent leaves a missing key out of the request.
        more: dict[str, Any] = {"api_key": self._key or "none", "max_retries": 0}
        if not self._azure_version:
            return openai.OpenAI(base_url=self._url, http_client=http, **more), http
        more |= {"azure_endpoint": self._url, "api_version": self._azure_version}
        return openai.AzureOpenAI(http_client=http, **more), http

    def _refuse(self, response: httpx2.Response) -> None:
        """Raise for all but an answer, before the package reads, follows or repeats anything."""
        status = response.status_code
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return
        if status < HTTPStatus.BAD_REQUEST:
            raise RemoteError(
                f"the endpoint redirects to {redirect_target(response.headers)}, and the prompt is "
                "sent only to the address that you set",
                hint="if that is right, set it as the base URL",
            )
        data = b""
        # Even a part of the body helps.
        with suppress(Exception), self._deadlines.until(self._clock() + _ERROR_SECONDS):
            for piece in response.iter_bytes():
                data += piece
                if len(data) > _ERROR_LIMIT:
                    break
        if status in errors.GAVE_UP:
            raise SpentError(
                f"a gateway on the way gave up waiting ({status})",
                hint="resume the run; if it stays so, lower models.max_completion_tokens",
                again=True,
            )
        raise errors.read(status, data[:_ERROR_LIMIT], response.headers)

    def _wait(self, refused: EndpointRefusedError, attempt: int, deadline: float) -> float | None:
        """Seconds to wait before asking again; None for not at all."""
        patience, limit = self._patience, refused.limit
        # A wait of no time tells nothing of when there will be room.
        is_told = limit is not None and bool(limit.wait)
        if not refused.again or attempt >= (patience.waits if is_told else patience.attempts):
            return None
        if limit is not None and limit.window == DAY and limit.wait is None:
            return None
        doubled = 2 ** (min(attempt, patience.attempts) - 1)
        wait = patience.pause * doubled * (0.5 + self._chance() / 2)
        if refused.retry_after is not None:
            if refused.retry_after > patience.longest:
                return None
            wait = max(wait, refused.retry_after)
        return wait if self._clock() + wait < deadline else None

    def _refusal_error(
        self, refused: EndpointRefusedError, request: ModelRequest, attempts: int, deadline: float
    ) -> RemoteError:
        """The error of a refusal."""
        what, hint = errors.explained(refused, request.model)
        if refused.status == HTTPStatus.NOT_FOUND and (names := self._known_models(deadline)):
            similar = difflib.get_close_matches(request.model, names, 5, 0) or names[:5]
            hint = f"{len(names)} are known there, such as {', '.join(similar)}"
        if refused.message:
            what += f": {printable(self._redact(refused.message))[:_MESSAGE]}"
        if refused.again and attempts > 1:
            what += f" (asked {attempts} times)"
        return RemoteError(what, where=self._where(request), hint=hint)

    def context_tokens(self, model: str) -> int | None:
        """The tokens that ``model`` reads; None where its server does not say it."""
        name = self._own_name(model)
        self._opened()  # loading the package must not take from the endpoint's time
        rows = self._listed(self._clock() + self._patience.connect)
        tokens = context_length.in_list(rows, name)
        if tokens is None and rows and is_own(self._url) and not self._azure_version:
            tokens = context_length.of_server(self._fetched, name)
        return tokens

    def _known_models(self, deadline: float) -> list[str]:
        """The models that the endpoint lists quickly."""
        ids = (row.get("id") for row in self._listed(deadline))
        return sorted(printable(name[:100]) for name in ids if isinstance(name, str))

    def _listed(self, deadline: float) -> list[dict[str, Any]]:
        return context_length.listed(self._read("/models", deadline))

    def _fetched(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON that the server has at ``path``, beside the API; None for none."""
        patience = self._patience.answer if body else self._patience.connect
        data = self._read(f"{self._url.removesuffix('/v1')}{path}", self._clock() + patience, body)
        with suppress(ValueError, RecursionError):
            return json.loads(data)
        return None

    def _read(self, path: str, deadline: float, body: Mapping[str, Any] | None = None) -> bytes:
        """What is at ``path``; b"" for what does not come by ``deadline``, and quickly."""
        patience = self._patience.answer if body else self._patience.connect
        try:
            with self._sent(path, min(self._clock() + patience, deadline), body) as got:
                return b"".join(limited(got, self._limit))
        except (RemoteError, EndpointRefusedError, DeadlineError, AnswerTooLongError):
            return b""

    def _where(self, request: ModelRequest) -> str:
        return f"{self._url}, model {printable(request.model[:100])}"


def _broken(cause: BaseException) -> Exception:
    """The error of a broken connection, by whether the prompt may have arrived."""
    import httpx2

    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return EndpointRefusedError(str(cause), again=True)
    if isinstance(cause, httpx2.ProxyError | httpx2.UnsupportedProtocol):
        return EndpointRefusedError(str(cause))
    if isinstance(cause, httpx2.TimeoutException):
        return DeadlineError()
    return SpentError(
        "the connection broke before the answer was whole",
        hint="check the network and the proxy, then resume the run",
        again=True,
    )
