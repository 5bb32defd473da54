"""GitHub's API: how often, how fast, and what may be asked twice.

A read is repeated within a budget of time and requests; a write is repeated only after its
caller has looked whether it was done all the same. Limits that GitHub sets are obeyed as
long as the budget has the time.

PyGithub is left out. It would take a connection of ours (``requestJson(cnx=...)``), but loads
``requests`` too, follows redirects and waits by itself, and would only write a header for us.
"""

from __future__ import annotations

import json
import time
from urllib.parse import urljoin, urlsplit

from rlm_ci.errors import ConfigError
from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record
from rlm_ci.github.api.responses import AttemptError, decoded, failure, graphql_data
from rlm_ci.system.transport import (
    Answer,
    AnswerTooLongError,
    ConnectionBrokenError,
    HttpClient,
    redirect_target,
)
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

PER_PAGE = 100
#: GitHub lists no more than 3,000 files, and comments come by the hundred.
_MOST_PAGES = 100
_MIB = 1024 * 1024
#: A page of a hundred of the longest comments has some 25 MiB.
_LONGEST_ANSWER = 64 * _MIB
_REDIRECTS = (301, 302, 303, 307, 308)


class RequestLimits(Value):
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


class GitHubClient(Closing):
    """One run's way to GitHub. ``requests`` and ``writes`` count what was sent."""

    def __init__(
        self,
        token: str,
        api_url: str,
        limits: RequestLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limits = limits or RequestLimits()
        self._clock = clock
        self._sleep = sleep
        self._deadline = clock() + self._limits.seconds
        self._away = False
        self._moved: dict[str, str] = {}
        self._last_write: float | None = None
        self._uncounted = 0
        self.requests = 0
        self.writes = 0
        self._token = token.strip()
        self._url = api_url.rstrip("/")
        split = urlsplit(self._url)
        self._origin = f"{split.scheme}://{split.netloc}"
        self._graphql = f"{self._url.removesuffix('/v3')}/graphql"
        self._http = HttpClient("github")

    def close(self) -> None:
        """End the connection; the end of the process does as much."""
        self._http.close()

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
                raise UnreachableError("GitHub's answer is not a list", f"GET {path}")
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
        return record(self._read("POST", self._graphql, body=body)[1])

    def _read(
        self,
        verb: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> tuple[Mapping[str, str], Any]:
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
        return record(self.write("POST", self._graphql, body))

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
    ) -> tuple[Mapping[str, str], Any]:
        where = f"{verb} {path.partition('://')[2].partition('/')[2] or path}"
        answer = self._answer(
            verb, self._moved.get(path, path) if verb == "GET" else path, parameters, body, where
        )
        to = self._same_host(answer) if verb == "GET" else ""
        if to:
            self._moved[path] = to  # a renamed repository, as a rule
            answer = self._answer(verb, to, parameters, body, where)
        if not _is_read(verb, answer.status):
            raise _elsewhere(answer, where)
        data = decoded(answer.body)
        if answer.status >= 400:
            raise failure(answer.status, answer.headers, data, where)
        if verb != "DELETE" and not isinstance(data, (dict, list)):
            raise AttemptError(
                UnreachableError("GitHub's answer is not a record", where), again=True
            )
        if path == self._graphql:
            data = graphql_data(data, answer.headers)
        self._away = False
        return answer.headers, data

    def _answer(
        self, verb: str, path: str, parameters: Mapping[str, str] | None, body: Any, where: str
    ) -> Answer:
        """One request over the wire. Raises AttemptError."""
        seconds = self._spend(where)
        if not (self._token.isascii() and self._token.isprintable() and " " not in self._token):
            refused = GitHubRefusedError(
                401, ("the token has characters that no token has",), where
            )
            raise AttemptError(refused, again=False)
        request = {
            "method": verb,
            "url": f"{self._url}{path}" if path.startswith("/") else path,
            "params": parameters or None,
            "content": None if body is None else json.dumps(body),
            "headers": {
                "Authorization": f"token {self._token}",
                "Content-Type": "application/json",
                "User-Agent": "rlm-ci",
            },
        }
        try:
            return self._http.send(
                request, seconds, _LONGEST_ANSWER, lambda status: _is_read(verb, status)
            )
        except AnswerTooLongError:
            what = f"GitHub's answer is longer than {_LONGEST_ANSWER // _MIB} MiB"
            raise AttemptError(UnreachableError(what, where), again=False) from None
        except (ConnectionBrokenError, ConfigError) as error:
            away = UnreachableError(f"GitHub cannot be reached: {error}", where)
            raise AttemptError(away, again=isinstance(error, ConnectionBrokenError)) from None

    def _spend(self, where: str) -> float:
        """Take one request from the budget; the seconds that it may take. Raises AttemptError."""
        left = self._deadline - self._clock()
        what = ""
        if left <= 0:
            what = f"{self._limits.seconds:g} seconds were not enough"
        if self.requests - self._uncounted >= self._limits.requests:
            what = f"{self._limits.requests} requests were not enough"
        if what:
            raise AttemptError(UnreachableError(what, where), again=False)
        self.requests += 1
        return min(self._limits.timeout, left)

    def _same_host(self, answer: Answer) -> str:
        """The whole address that a redirect leads to, or "" if it is not at this GitHub."""
        location = answer.headers.get("location", "")
        if answer.status not in _REDIRECTS or not location:
            return ""
        try:
            address = urljoin(self._origin, location)
            split = urlsplit(address)
        except ValueError:
            return ""
        return address if f"{split.scheme}://{split.netloc}" == self._origin else ""

    def _wait_or_raise(self, failed: AttemptError, attempt: int) -> None:
        """Wait before the next attempt; raise where there is none, or no time for it."""
        wait = 0.5 * 2**attempt if failed.wait is None else failed.wait
        left = self._deadline - self._clock()
        tired = failed.wait is None and (self._away or attempt >= self._limits.repeats)
        self._away = self._away or (failed.again and tired)
        if not failed.again or tired or wait >= left or wait > self._limits.wait:
            raise failed.error from None
        self._sleep(wait)


def _is_read(verb: str, status: int) -> bool:
    """Whether an answer's body counts: it is no redirect, and nothing to come back for."""
    return not (300 <= status < 400 or (status == 202 and verb == "GET"))


def _elsewhere(answer: Answer, where: str) -> AttemptError:
    """What to say of an answer that is none."""
    what = f"GitHub answered {answer.status}"
    if answer.status in _REDIRECTS:
        what = f"{what}, and leads elsewhere: {redirect_target(answer.headers)}"
    return AttemptError(UnreachableError(what, where), again=answer.status == 202)


def _identity(one: Any) -> Any:
    """What tells a record from others: its id, or all of it."""
    return one.get("id", one) if isinstance(one, dict) else one
