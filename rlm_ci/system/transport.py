"""HTTP to models and to GitHub, over ``httpx2``, with a deadline and a size limit.

The library's timeouts only bound the silence between two bytes: a server that sends one now and
then would never end. Here each wait at a socket gets the time left for the whole request.
Callers decide what to repeat; no redirect is followed.

Threads that call at the same time take turns at what needs the interpreter. Otherwise they would
pass it on at every look at a socket, and all would end when the last one does.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.system import installation
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Final

    import httpx2

#: Bytes that are written between two looks at the time left.
_PIECE: Final = 64 << 10
#: The shortest wait: 0 would make a socket non-blocking.
_LEAST: Final = 0.001


class DeadlineError(Exception):
    """The time is over before a whole answer."""


class AnswerTooLongError(Exception):
    """An answer is longer than the limit."""


class ConnectionBrokenError(Exception):
    """Why a request got no whole answer, without secrets."""


class Answer(Value):
    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient(Closing):
    """Sends one request after the other and reads whole answers."""

    def __init__(self, extra: str) -> None:
        import httpx2  # noqa: F401 - a missing package shows at once

        self._deadlines = Deadlines(time.monotonic, extra)
        self._client: httpx2.Client | None = None

    def send(
        self,
        request: Mapping[str, Any],
        seconds: float,
        limit: int,
        has_body: Callable[[int], bool],
    ) -> Answer:
        """The answer to ``request``, the arguments of ``httpx2.Client.build_request``.

        It takes ``seconds`` at most. The body is read if its status is ``has_body``. Raises
        ConnectionBrokenError, AnswerTooLongError beyond ``limit`` bytes, and as ``opened``.
        """
        import httpx2

        client = self._client = self._client or self._connected(request["url"])
        try:
            with self._deadlines.until(time.monotonic() + seconds):
                timeout = httpx2.Timeout(None, connect=seconds, pool=seconds)
                message = client.build_request(**request, timeout=timeout)
                answer = client.send(message, stream=True)
                try:
                    pieces = limited(answer, limit) if has_body(answer.status_code) else ()
                    return Answer(answer.status_code, answer.headers, b"".join(pieces))
                finally:
                    answer.close()
        except DeadlineError:
            raise ConnectionBrokenError(f"no whole answer within {seconds:.3g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ConnectionBrokenError(
                printable(str(error))[:200] or type(error).__name__
            ) from None

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self, url: str) -> httpx2.Client:
        import ssl

        import httpx2

        # Reading the certificates takes longer than a request; without TLS none is needed.
        verify = url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return self._deadlines.opened(lambda: httpx2.Client(verify=verify))


def limited(response: httpx2.Response, limit: int) -> Iterator[bytes]:
    """The body as it comes, unpacked. Raises AnswerTooLongError beyond ``limit`` bytes."""
    size = 0
    for piece in response.iter_bytes():
        size += len(piece)
        if size > limit:
            raise AnswerTooLongError
        yield piece


def redirect_target(headers: Mapping[str, str]) -> str:
    """Where a redirect leads, without possible secrets: a login, a query."""
    try:
        to = urlsplit(headers.get("location", ""))
    except ValueError:
        return "what is no URL"
    shown = to._replace(netloc=to.netloc.rpartition("@")[2], query="", fragment="")
    return printable(shown.geturl())[:300] or "nowhere"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks us to wait; None without such a header."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


class Deadlines:
    """The deadline of each thread, by ``clock``, and the sockets that keep it."""

    def __init__(self, clock: Callable[[], float], extra: str = "models") -> None:
        self._clock = clock
        self._extra = extra
        self._own = _OwnTransport()
        self._turn = threading.Lock()

    def opened(self, make: Callable[[], httpx2.Client]) -> httpx2.Client:
        """The client of ``make``, with deadlines. Raises ConfigError for certificates, proxies."""
        import httpx2

        try:
            client = make()
        except OSError as error:
            raise ConfigError(
                f"the certificates cannot be read: {error.strerror or error}",
                where="SSL_CERT_FILE, SSL_CERT_DIR",
                hint="name a file with certificates in PEM, or unset it",
            ) from None
        except (ValueError, ImportError, httpx2.InvalidURL):  # its words may hold a password
            raise _proxy_error() from None
        self.bind(client)
        return client

    def bind(self, client: Any) -> None:
        """Make all sockets that ``client`` (an ``httpx2.Client``) will open keep the deadlines.

        Raises UnavailableError for a version of httpx2 with other internals.
        """
        try:
            # httpx2 makes its pools itself, also those of the environment's proxies, and takes
            # no network for them.
            transports = (client._transport, *client._mounts.values())  # noqa: SLF001 - see above
            for pool in [transport._pool for transport in transports if transport is not None]:  # noqa: SLF001 - same
                inner = pool._network_backend  # noqa: SLF001 - same
                pool._network_backend = _Network(inner, self)  # noqa: SLF001 - same
        except AttributeError as error:
            raise UnavailableError(
                f"the installed version of httpx2 is not one whose time rlm-ci can limit ({error})",
                where=self._extra,
                hint=installation.command(self._extra, upgrade=True),
            ) from None

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Raise DeadlineError in a wait of this thread beyond ``deadline``."""
        outer = self._own.deadline
        self._own.deadline = min(outer, deadline)
        try:
            yield
        finally:
            self._own.deadline = outer

    def extend(self, deadline: float) -> None:
        """Give the wait of this thread, within ``until``, another deadline."""
        self._own.deadline = deadline

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One thread at a time; others come in while it waits at a socket."""
        with self._turn:
            self._own.turn = True
            try:
                yield
            finally:
                self._own.turn = False

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Give the turn of this thread to others while it waits, if it has it."""
        if not self._own.turn:
            yield
            return
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()

    def left(self, timeout: float | None) -> float | None:
        """Seconds to wait now: ``timeout``, or the time left if that is less."""
        left = self._own.deadline - self._clock()
        if left <= 0:
            raise DeadlineError
        if timeout is not None and timeout < left:
            return timeout
        return None if left == float("inf") else max(left, _LEAST)


class _OwnTransport(threading.local):
    deadline = float("inf")
    turn = False


class _Network:
    """A network of ``httpcore2`` whose streams are bounded."""

    def __init__(self, inner: Any, deadlines: Deadlines) -> None:
        self._inner = inner
        self._deadlines = deadlines

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> _Stream:
        timeout = self._deadlines.left(timeout)
        try:
            with self._deadlines.aside():
                stream = self._inner.connect_tcp(host, port, timeout, **options)
        except (ValueError, OverflowError):  # the endpoint's own address was checked before
            raise _proxy_error() from None
        return _Stream(stream, self._deadlines)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream:
    """A stream of ``httpcore2`` with bounded waits, which writes head and body at once."""

    def __init__(self, inner: Any, deadlines: Deadlines) -> None:
        self._inner = inner
        self._deadlines = deadlines
        self._kept: list[bytes] = []

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._flush(timeout)
        with self._deadlines.aside():
            data: bytes = self._inner.read(max_bytes, self._deadlines.left(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._kept.append(buffer)
        # An empty buffer ends a request.
        if not buffer or sum(map(len, self._kept)) > _PIECE:
            self._flush(timeout)

    def _flush(self, timeout: float | None) -> None:
        buffer, self._kept = b"".join(self._kept), []
        if not buffer:
            return
        with self._deadlines.aside():
            for start in range(0, len(buffer), _PIECE):
                self._inner.write(buffer[start : start + _PIECE], self._deadlines.left(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        timeout = self._deadlines.left(timeout)
        with self._deadlines.aside():
            stream = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(stream, self._deadlines)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _proxy_error() -> ConfigError:
    """The error of an invalid proxy, without its address, which may hold a password."""
    return ConfigError(
        "the proxy cannot be used",
        where="HTTPS_PROXY, HTTP_PROXY, ALL_PROXY",
        hint="such as http://HOST:PORT; one of SOCKS needs the package socksio",
    )
