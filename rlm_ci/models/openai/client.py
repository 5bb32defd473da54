"""Any endpoint that speaks OpenAI's chat API, over the ``openai`` package.

The package's own retries, redirects and typed transforms are off. The first call to a model goes
through ``client.post``, whose cost does not grow with the history; what the package made of it
(the URL, the key, its headers) is what later ones are sent with, since making it anew takes as
long as all the rest of a call. Answers are read here, within bounds of size and time. What may
be asked again is said in one place, ``refusals``.
"""

from __future__ import annotations

import difflib
import random
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from http import HTTPStatus

from rlm_ci.errors import ConfigError, RemoteError, UnavailableError
from rlm_ci.models import SpentError
from rlm_ci.models.openai import errors, responses
from rlm_ci.models.openai.endpoint import DEFAULT_URL, checked_key, checked_url
from rlm_ci.models.openai.errors import EndpointRefusedError
from rlm_ci.models.openai.request_body import ONCE, RequestComposer, unicode_only
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import installation
from rlm_ci.system.transport import (
    AnswerTooLongError,
    DeadlineError,
    Deadlines,
    limited,
    redirect_target,
)
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Final

    import httpx2

    from rlm_ci.models import Completion, ModelRequest

_ERROR_LIMIT: Final = 64 << 10
_ERROR_SECONDS: Final = 5
#: Escaped as JSON it is six times that, and has to fit a record of the journal.
_ANSWER_LIMIT: Final = 8 << 20
#: How many times longer a stream is than the text in it, at most.
_ENVELOPE: Final = 32
_MESSAGE: Final = 300
_CAPS: Final = ("max_tokens", "max_completion_tokens")


class RetryLimits(Value):
    """How long is waited, in seconds, and how often is asked.

    ``connect`` bounds a connection to one address, ``answer`` an attempt from its beginning to
    the last byte, ``total`` and ``attempts`` one call of ``complete``; ``pause`` is the first
    wait between two attempts, doubled for each one after it; ``longest`` the most that an
    endpoint may ask us to wait.
    """

    connect: float = 10
    answer: float = 120
    total: float = 300
    attempts: int = 3
    pause: float = 0.5
    longest: float = 60


class OpenAIModel(Closing):
    """A model behind ``base_url``; one client for all threads, made when first asked.

    With ``azure_api_version``, ``base_url`` is the Azure resource's, and the model's name is
    that of the deployment. ``progress`` turns on streaming, and is told the number of characters
    so far. Raises ConfigError without a key for OpenAI itself or Azure; a server of one's own
    may need none.
    """

    def __init__(
        self,
        *,
        base_url: str = "",
        api_key: str = "",
        azure_api_version: str = "",
        patience: RetryLimits = RetryLimits(),  # noqa: B008 - immutable
        progress: Callable[[int], None] | None = None,
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
        self._patience = patience
        self._progress = progress
        self._limit = answer_limit
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self._deadlines = Deadlines(clock)
        self._redact = Redactor({"API_KEY": api_key}).text
        self._lock = threading.Lock()
        self._client: Any = None
        self._http: Any = None  # the client's connections
        #: By path and model, how the package sends such a question.
        self._composed: dict[tuple[str, str], RequestComposer] = {}
        # OpenAI's newer models know only the longer name, many other servers only the shorter.
        own = self._url.startswith(DEFAULT_URL) or bool(azure_api_version)
        self._cap = _CAPS[own]

    def complete(self, request: ModelRequest) -> Completion:
        """The answer to ``request``; see Model. Never asks twice what may have been paid for."""
        self._opened()  # to load the package takes no time of the endpoint's
        seconds = self._patience.total
        if request.seconds is not None:
            seconds = min(seconds, request.seconds)
        deadline = self._clock() + seconds
        # The same for every attempt, for endpoints that know what it is for.
        once = uuid.uuid4().hex
        attempt, swapped = 1, False
        while True:
            cap = self._cap
            try:
                return self._ask(request, cap, deadline, once)
            except EndpointRefusedError as refused:
                if refused.is_about(cap) and not swapped:
                    self._cap, swapped = _CAPS[cap == _CAPS[0]], True
                    continue
                wait = self._wait(refused, attempt, deadline)
                if wait is None:
                    raise self._told(refused, request, attempt, deadline) from None
            self._sleep(wait)
            attempt += 1

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            client, self._client, self._http = self._client, None, None
        if client is not None:
            client.close()

    # -- one attempt ------------------------------------------------------------------------

    def _ask(self, request: ModelRequest, cap: str, deadline: float, once: str) -> Completion:
        """One request. Raises EndpointRefusedError if it cost nothing, SpentError if not."""
        began = self._clock()
        end = min(began + self._patience.answer, deadline)
        try:
            with self._sent("/chat/completions", end, self._body(request, cap), once) as got:
                pieces = self._pieces(got)
                if _is_stream(got):
                    progress = self._progress or _nobody
                    return responses.streamed(pieces, request.model, progress, self._limit)
                return responses.whole(responses.parse(b"".join(pieces)), request.model)
        except DeadlineError:
            raise SpentError(
                f"the answer was not whole after {max(0.0, end - began):.3g} seconds",
                where=self._where(request),
                hint="allow more time (models.timeout), or lower the cap on tokens of one answer",
                again=end < deadline,
            ) from None
        except RemoteError as error:
            error.where = error.where or self._where(request)
            error.what = self._redact(error.what)[:_MESSAGE]
            error.args = (error.what,)
            raise

    def _body(self, request: ModelRequest, cap: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "messages": request.messages}
        body[cap] = request.max_tokens
        if request.tools:
            body["tools"] = request.tools
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.response_format is not None:
            body["response_format"] = request.response_format
        if self._progress is not None:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    @contextmanager
    def _sent(
        self,
        path: str,
        end: float,
        body: Mapping[str, Any] | None = None,
        once: str = "",
    ) -> Iterator[httpx2.Response]:
        """The response, its headers read and its body not; failures on the way put in our words.

        Raises DeadlineError at ``end``, here and in what is done with the response.
        """
        client, _ = self._opened()
        import httpx2
        import openai

        # What is waited for after the connection, the wire bounds as a whole.
        connect = min(self._patience.connect, max(0.001, end - self._clock()))
        options: dict[str, Any] = {"timeout": openai.Timeout(None, connect=connect, pool=connect)}
        options["headers"] = {ONCE: once} if once else {}
        if not self._key:
            options["headers"]["Authorization"] = openai.omit
        response: httpx2.Response | None = None
        try:
            with self._deadlines.until(end):
                # Raw in every case, so that nothing is parsed before it has been measured.
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
        """The response to a question, sent by the package, or as it sent one to this model."""
        import httpx2

        client, http = self._opened()
        known = self._composed.get((path, body["model"]))
        response: httpx2.Response
        with unicode_only(), self._deadlines.turn():
            if known is not None:
                request = known.request(body, once, options["timeout"], http.cookies)
                response = http.send(request, stream=True)
                return response
            response = client.post(
                path, cast_to=httpx2.Response, body=body, options=options, stream=True
            )
        self._composed[path, body["model"]] = RequestComposer(response.request)
        return response

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """The body as it comes, within the bounds of size."""
        # Each token of a stream comes in an envelope of its own.
        limit = self._limit * _ENVELOPE if _is_stream(response) else self._limit
        try:
            yield from limited(response, limit)
        except AnswerTooLongError:
            raise SpentError(
                f"the answer is larger than {limit:,} bytes",
                hint="lower models.max_completion_tokens, or use another model",
            ) from None

    def _opened(self) -> tuple[Any, Any]:
        """The package's client, and the connections that it uses."""
        with self._lock:
            if self._client is None:
                self._client, self._http = self._connected()
            return self._client, self._http

    def _connected(self) -> tuple[Any, httpx2.Client]:
        try:
            import openai
        except ImportError:
            raise UnavailableError(
                "the package openai is not installed",
                where="models",
                hint=installation.command("models"),
            ) from None
        key = self._key or "none"  # it is left out of the request, see _sent
        http = self._connections()
        more: dict[str, Any] = {"api_key": key, "max_retries": 0, "http_client": http}
        if self._azure_version:
            version = self._azure_version
            client = openai.AzureOpenAI(azure_endpoint=self._url, api_version=version, **more)
            return client, http
        return openai.OpenAI(base_url=self._url, **more), http

    def _connections(self) -> httpx2.Client:
        """The connections. Raises ConfigError for what the environment says of them."""
        import httpx2
        import openai

        try:
            httpx2.URL(self._url)
        except httpx2.InvalidURL:
            raise ConfigError(
                "the base URL of the model service has a host that cannot be",
                where="OPENAI_BASE_URL",
                hint="check its spelling",
            ) from None
        # A redirect is refused, never followed: the package would send the prompt along.
        return self._deadlines.opened(
            lambda: openai.DefaultHttpxClient(
                follow_redirects=False, event_hooks={"response": [self._refuse]}
            )
        )

    # -- refusals ---------------------------------------------------------------------------

    def _refuse(self, response: httpx2.Response) -> None:
        """Stop at whatever is no answer, before the package reads, follows or repeats anything."""
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
        # What is left of a broken body still says something.
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
        """How many seconds to wait before asking again; None for not at all."""
        patience = self._patience
        if not refused.again or attempt >= patience.attempts:
            return None
        wait = patience.pause * 2 ** (attempt - 1) * (0.5 + self._chance() / 2)
        if refused.retry_after is not None:
            if refused.retry_after > patience.longest:
                return None
            wait = max(wait, refused.retry_after)
        return wait if self._clock() + wait < deadline else None

    def _told(
        self, refused: EndpointRefusedError, request: ModelRequest, attempts: int, deadline: float
    ) -> RemoteError:
        """A refusal in our words: what, where, and what to do about it."""
        what, hint = errors.explained(refused, request.model)
        if refused.status == HTTPStatus.NOT_FOUND and (known := self._known_models(deadline)):
            near = difflib.get_close_matches(request.model, known, 5, 0) or known[:5]
            hint = f"{len(known)} are known there, such as {', '.join(near)}"
        if refused.message:
            what += f": {printable(self._redact(refused.message))[:_MESSAGE]}"
        if refused.again and attempts > 1:
            what += f" (asked {attempts} times)"
        return RemoteError(what, where=self._where(request), hint=hint)

    def _known_models(self, deadline: float) -> list[str]:
        """The models that the endpoint lists; none when it does not, or not at once."""
        end = min(self._clock() + self._patience.connect, deadline)
        try:
            with self._sent("/models", end) as got:
                value = responses.parse(b"".join(self._pieces(got)))
        except (RemoteError, EndpointRefusedError, DeadlineError):
            return []
        rows = value.get("data")
        ids = (
            row.get("id")
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, dict)
        )
        return sorted(printable(name[:100]) for name in ids if isinstance(name, str))

    def _where(self, request: ModelRequest) -> str:
        return f"{self._url}, model {printable(request.model[:100])}"


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _nobody(_count: int) -> None:
    """Nobody asked for progress, and the endpoint streams all the same."""


def _broken(cause: BaseException) -> Exception:
    """What a failure of the connection means: whether the prompt was on its way."""
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
