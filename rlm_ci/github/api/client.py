"""GitHub's API, through PyGithub: how often, how fast, and what may be asked twice.

PyGithub's own retries are off: they repeat a POST after a 502, and so post twice. Here a
read is repeated within a budget of time and requests; a write is repeated only after its
caller has looked whether it was done all the same. Limits that GitHub sets are obeyed as
long as the budget has the time. What PyGithub would follow or wait for by itself, without
an end, never comes to it: the connection is ours.
"""

from __future__ import annotations

import http.client
import io
import logging
import time
from urllib.parse import urljoin, urlsplit

import requests
from github import Auth, Github
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from rlm_ci.github.api.errors import RefusedError, UnreachableError, record
from rlm_ci.github.api.responses import AttemptError, decoded, failure, graphql_data
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

PER_PAGE = 100
#: GitHub lists no more than 3,000 files, and comments come by the hundred.
_MOST_PAGES = 100
_MIB = 1024 * 1024
#: A page of a hundred of the longest comments has some 25 MiB.
_LONGEST_ANSWER = 64 * _MIB
_CHUNK = 64 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)


class Limits(Value):
    """``requests`` of a run, further pages not counted; ``attempts`` at one write.

    ``repeats`` is how often one request is tried where GitHub names no time to wait. In
    seconds: ``seconds`` for everything that is repeated, ``pause`` between two writes,
    ``wait`` at most at once, ``timeout`` of one request.
    """

    requests: int = 15
    attempts: int = 3
    repeats: int = 5
    seconds: float = 120.0
    pause: float = 1.0
    wait: float = 60.0
    timeout: float = 15.0


class _DeviousError(Exception):
    """An answer that PyGithub would act upon by itself."""

    def __init__(self, status: int, location: str) -> None:
        super().__init__(str(status))
        self.status = status
        self.location = location


class _TooLongError(Exception):
    """An answer beyond what we read."""


class _Incoming(io.RawIOBase):
    """What a server sends in answer, up to ``end``. A timeout alone begins anew with each byte."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._end = time.monotonic() + (sock.gettimeout() or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer does not come to its end")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is bounded in time from its first byte on, headers included."""

    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_Incoming(sock))


class _Plain(HTTPConnection):
    response_class = _Answer


class _Secure(HTTPSConnection):
    response_class = _Answer


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


_POOLS = {"http": _PlainPool, "https": _SecurePool}


class _Adapter(requests.adapters.HTTPAdapter):
    """Opens our own connections, through a proxy too."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **more: Any) -> Any:
        manager = super().proxy_manager_for(*args, **more)
        manager.pool_classes_by_scheme = _POOLS
        return manager


class _Session(requests.Session):
    def __init__(self) -> None:
        super().__init__()
        for scheme in _POOLS:
            self.mount(f"{scheme}://", _Adapter())

    def get_redirect_target(self, _answer: requests.Response) -> None:
        """No redirect is any of its business: it would read all of the answer first."""


class _Connection:
    """What PyGithub sends through; each answer is bounded in time and in size."""

    def __init__(self, api_url: str) -> None:
        split = urlsplit(api_url)
        self.origin = f"{split.scheme}://{split.netloc}"
        self.seconds = 0.0
        self._session = _Session()
        self._session.auth = lambda request: request  # else a .netrc file would be asked
        self._asked: dict[str, Any] = {}
        self._answer = requests.Response()
        self._text = ""

    def request(
        self, verb: str, url: str, body: Any, headers: dict[str, str], _stream: Any = None
    ) -> None:
        self._asked = {"method": verb, "url": self.origin + url, "data": body, "headers": headers}

    def getresponse(self) -> _Connection:
        """Raises _DeviousError, _TooLongError, and what requests raises."""
        with self._session.request(
            **self._asked, timeout=self.seconds, allow_redirects=False, stream=True
        ) as answer:
            status = answer.status_code
            if status in _REDIRECTS or (status == 202 and self._asked["method"] == "GET"):
                raise _DeviousError(status, answer.headers.get("location", ""))
            self._answer = answer
            self._text = _content(answer.raw)
        return self

    @property
    def status(self) -> int:
        return self._answer.status_code

    def getheaders(self) -> Any:
        return self._answer.headers.items()

    def read(self) -> str:
        return self._text

    def close(self) -> None:
        self._session.close()


def _content(raw: Any) -> str:
    """The text of an answer."""
    content = bytearray()
    while chunk := raw.read1(_CHUNK, decode_content=True):
        content += chunk
        if len(content) > _LONGEST_ANSWER:
            raise _TooLongError(f"GitHub's answer is longer than {_LONGEST_ANSWER // _MIB} MiB")
    return content.decode("utf-8", "replace")


class Client:
    """One run's way to GitHub. ``requests`` and ``writes`` count what was sent."""

    def __init__(
        self,
        token: str,
        api_url: str,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limits = limits or Limits()
        self._clock = clock
        self._sleep = sleep
        self._deadline = clock() + self._limits.seconds
        self._away = False
        self._moved: dict[str, str] = {}
        self._last_write: float | None = None
        self._uncounted = 0
        self.requests = 0
        self.writes = 0
        # PyGithub's lines have addresses and answers in them, and belong to no report of ours.
        logging.getLogger("github").setLevel(logging.CRITICAL + 1)
        self._connection: Any = _Connection(api_url)
        github = Github(
            auth=Auth.Token(token.strip()),
            base_url=api_url.rstrip("/"),
            user_agent="rlm-ci",
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
        )
        self._requester = github.requester

    def close(self) -> None:
        """End the connection; the end of the process does as much."""
        self._connection.close()
        self._requester.close()

    def go_on(self) -> None:
        """After a while in which nothing was asked: the time begins anew, the counts do not."""
        self._deadline = self._clock() + self._limits.seconds
        self._away = False

    # ── reading ──

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """The record at ``path``. Raises RefusedError or UnreachableError."""
        data = self._read("GET", path, parameters=parameters)[1]
        return record(data, f"GET {path}")

    def pages(self, path: str, key: str = "", **parameters: str) -> Iterator[Any]:
        """The records of a list (under ``key`` of each page, if given), from all its pages."""
        firsts: list[Any] = []
        for number in range(1, _MOST_PAGES + 1):
            asked = {**parameters, "per_page": str(PER_PAGE), "page": str(number)}
            headers, page = self._read("GET", path, parameters=asked)
            records = page.get(key) if key and isinstance(page, dict) else page
            if not isinstance(records, list):
                raise UnreachableError("GitHub's answer is no list", f"GET {path}")
            first = [_identity(one) for one in records[:1]]
            if first and first in firsts:
                raise UnreachableError("GitHub gives the same page again", f"GET {path}")
            firsts.append(first)
            yield from records
            if 'rel="next"' not in str(headers.get("link", "")):
                return
            self.more()
        raise UnreachableError(f"{_MOST_PAGES} pages were not enough", f"GET {path}")

    def query(self, document: str, **variables: Any) -> dict[str, Any]:
        """The data of a GraphQL query, which changes nothing. Raises as ``get``."""
        body = {"query": document, "variables": variables}
        return record(self._read("POST", self._requester.graphql_url, body=body)[1])

    def _read(
        self,
        verb: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> tuple[dict[str, Any], Any]:
        attempt = 0
        while True:
            try:
                return self._send(verb, path, parameters, body)
            except AttemptError as failed:
                attempt += 1
                self._wait_or_raise(failed, attempt)

    # ── writing ──

    def write(
        self, verb: str, path: str, body: Any = None, *, done: Callable[[], Any] = lambda: None
    ) -> Any:
        """Change something, once. ``done`` looks whether it is there, and returns it.

        It is asked after every failure that leaves open whether GitHub did it. Raises
        RefusedError or UnreachableError.
        """
        for attempt in range(1, self._limits.attempts + 1):
            self._pace()
            self.writes += 1
            try:
                return self._send(verb, path, None, body)[1]
            except AttemptError as failed:
                self._last_write = self._clock()
                self._wait_or_raise(failed, attempt)
                found = done()
                if found is not None:
                    return found
                if attempt == self._limits.attempts:
                    raise failed.error from None
            finally:
                self._last_write = self._clock()
        raise AssertionError("a loop of attempts ends by itself")

    def mutate(self, document: str, **variables: Any) -> dict[str, Any]:
        """GraphQL mutations that may be done twice without harm. Raises as ``write``."""
        body = {"query": document, "variables": variables}
        return record(self.write("POST", self._requester.graphql_url, body))

    def more(self) -> None:
        """The next request is one of a series whose length the report decides: not counted."""
        self._uncounted += 1

    def _pace(self) -> None:
        if self._last_write is not None:
            rest = self._last_write + self._limits.pause - self._clock()
            if rest > 0:
                self._sleep(rest)

    # ── one request ──

    def _send(
        self, verb: str, path: str, parameters: Mapping[str, str] | None, body: Any
    ) -> tuple[dict[str, Any], Any]:
        where = f"{verb} {path.partition('://')[2].partition('/')[2] or path}"
        try:
            status, headers, text = self._answer(
                verb, self._moved.get(path, path) if verb == "GET" else path,
                parameters, body, where,
            )  # fmt: skip
        except _DeviousError as devious:
            to = self._same_host(devious.location) if devious.status in _REDIRECTS else ""
            if verb != "GET" or not to:
                raise _elsewhere(devious, where) from None
            self._moved[path] = to  # a renamed repository, as a rule
            try:
                status, headers, text = self._answer(verb, to, parameters, body, where)
            except _DeviousError as again:
                raise _elsewhere(again, where) from None
        data = decoded(text)
        if status >= 400:
            raise failure(status, headers, data, where)
        if status >= 300:
            what = f"GitHub answered {status}"
            raise AttemptError(UnreachableError(what, where), again=False)
        if verb != "DELETE" and not isinstance(data, (dict, list)):
            raise AttemptError(UnreachableError("GitHub's answer is no record", where), again=True)
        if path == self._requester.graphql_url:
            data = graphql_data(data, headers)
        self._away = False
        return headers, data

    def _answer(
        self, verb: str, path: str, parameters: Mapping[str, str] | None, body: Any, where: str
    ) -> tuple[int, dict[str, Any], str]:
        """One request over the wire. Raises AttemptError or _DeviousError."""
        self._spend(where)
        try:
            return self._requester.requestJson(
                verb, path, parameters=dict(parameters) if parameters else None, input=body,
                cnx=self._connection,
            )  # fmt: skip
        except requests.exceptions.InvalidHeader:  # its message has the token in it
            refused = RefusedError(401, ("the token has characters that no token has",), where)
            raise AttemptError(refused, again=False) from None
        # While an answer is read, urllib3's errors come as they are.
        except (requests.exceptions.RequestException, HTTPError, OSError) as error:
            away = UnreachableError(f"GitHub cannot be reached: {_cause(error)}", where)
            raise AttemptError(away, again=True) from None
        except _TooLongError as error:
            raise AttemptError(UnreachableError(str(error), where), again=False) from None
        except (ValueError, ArithmeticError) as error:  # headers that are no numbers
            what = f"GitHub's answer cannot be read: {printable(str(error))[:200]}"
            raise AttemptError(UnreachableError(what, where), again=True) from None

    def _spend(self, where: str) -> None:
        """Take one request, and its time, from the budget. Raises AttemptError."""
        left = self._deadline - self._clock()
        what = ""
        if left <= 0:
            what = f"{self._limits.seconds:g} seconds were not enough"
        if self.requests - self._uncounted >= self._limits.requests:
            what = f"{self._limits.requests} requests were not enough"
        if what:
            raise AttemptError(UnreachableError(what, where), again=False)
        self.requests += 1
        self._connection.seconds = min(self._limits.timeout, left)

    def _same_host(self, location: str) -> str:
        """The whole address that a redirect leads to, or "" if it is not at this GitHub."""
        if not location:
            return ""
        try:
            address = urljoin(self._connection.origin, location)
            split = urlsplit(address)
        except ValueError:
            return ""
        return address if f"{split.scheme}://{split.netloc}" == self._connection.origin else ""

    def _wait_or_raise(self, failed: AttemptError, attempt: int) -> None:
        """Wait before the next attempt; raise where there is none, or no time for it."""
        wait = 0.5 * 2**attempt if failed.wait is None else failed.wait
        left = self._deadline - self._clock()
        tired = failed.wait is None and (self._away or attempt >= self._limits.repeats)
        self._away = self._away or (failed.again and tired)
        if not failed.again or tired or wait >= left or wait > self._limits.wait:
            raise failed.error from None
        self._sleep(wait)


def _elsewhere(devious: _DeviousError, where: str) -> AttemptError:
    """What to say of an answer that is none; without the query, which may hold a secret."""
    what = f"GitHub answered {devious.status}"
    if devious.status in _REDIRECTS:
        try:
            split = urlsplit(devious.location)
            place = f"{split.netloc.rpartition('@')[2]}{split.path}"
        except ValueError:
            place = ""
        what = f"{what}, and leads elsewhere: {printable(place)[:200] or 'nowhere'}"
    return AttemptError(UnreachableError(what, where), again=devious.status == 202)


def _identity(one: Any) -> Any:
    """What tells a record from others: its id, or all of it."""
    return one.get("id", one) if isinstance(one, dict) else one


def _cause(error: BaseException) -> str:
    """The innermost error: what stands around it tells how the libraries are built."""
    inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
    found = next((one for one in error.args if isinstance(one, BaseException)), inner)
    own = printable(str(error))[:200] or type(error).__name__
    return _cause(found) if isinstance(found, BaseException) else own
