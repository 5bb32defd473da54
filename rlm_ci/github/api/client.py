"""GitHub's API, through PyGithub: how often, what may be asked twice, what answers mean.

A read is repeated within a budget of time and requests; a write only after its caller has checked
that it was not done. Waits that GitHub asks for are kept as long as the budget has the time.
PyGithub's own retries are off: they repeat a POST after a 502, and so post twice. It sends by our
transport, so it neither follows redirects nor waits.
"""

from __future__ import annotations

import json
import logging
import time
from types import SimpleNamespace
from urllib.parse import urljoin, urlsplit

from github import Auth, Github

from rlm_ci.errors import ConfigError
from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record, rows, text
from rlm_ci.system.transport import (
    Answer,
    AnswerTooLongError,
    ConnectionBrokenError,
    HttpClient,
    redirect_target,
    retry_after,
)
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any


#: Seconds to wait if GitHub names no time: https://docs.github.com/rest, "rate limits".
_SECONDARY_WAIT = 60.0
#: Permissions by a part of the address, from GitHub's documentation; the first match counts.
_PERMISSIONS = (
    ("/check-runs", ("checks",)),
    ("/issues/", ("issues", "pull-requests")),
    ("/pulls", ("pull-requests",)),
    ("graphql", ("pull-requests",)),
    ("/actions/", ("actions",)),
    ("/commits", ("contents",)),
    ("/contents/", ("contents",)),
    ("/compare/", ("contents",)),
)


class AttemptError(Exception):
    """A failed request; ``wait`` is what GitHub asks for, ``again`` if it may be repeated."""

    def __init__(
        self,
        error: GitHubRefusedError | UnreachableError,
        *,
        again: bool,
        wait: float | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.wait = wait


def failure(status: int, headers: Mapping[str, Any], data: Any, where: str) -> AttemptError:
    """What an answer with an error's status (400 and above) says."""
    reasons = tuple(_reasons(data))
    limited = status == 429 or (
        status == 403
        and (
            "retry-after" in headers
            or headers.get("x-ratelimit-remaining") == "0"
            or any("rate limit" in reason.lower() for reason in reasons)
        )
    )
    if limited:
        refused = GitHubRefusedError(status, reasons, where, limited=True)
        return AttemptError(refused, again=True, wait=_asked_wait(headers))
    permission = _permission(headers.get("x-accepted-github-permissions", ""))
    if status == 403 and not permission:
        permission = _usual_permission(where, reasons)
    refused = GitHubRefusedError(status, reasons, where, permission)
    return AttemptError(refused, again=status >= 500 or status == 408)


def decoded(text: str) -> Any:
    """The JSON of an answer; None for what is none, such as a proxy's page."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _asked_wait(headers: Mapping[str, Any]) -> float:
    """How long GitHub asks to wait, in seconds."""
    after = retry_after(headers)
    if after:  # not 0, nor a moment in the past
        return max(1.0, after)
    reset = str(headers.get("x-ratelimit-reset", ""))
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(1.0, float(reset) - time.time())
    return _SECONDARY_WAIT


def _permission(accepted: str) -> str:
    """``issues=write; pull_requests=write`` as a workflow writes it."""
    names = [part.strip().replace("_", "-").replace("=", ": ") for part in accepted.split(";")]
    return printable(" or ".join(name for name in names if name))[:200]


def _usual_permission(where: str, reasons: tuple[str, ...]) -> str:
    """The permission for a request, if the answer does not name it; "" if unknown."""
    if reasons and not any("not accessible" in reason.lower() for reason in reasons):
        return ""  # about something else: a login, a block, an archived repository
    verb, _, path = where.lower().rpartition(" ")
    level = "read" if verb == "get" else "write"
    names = next((names for part, names in _PERMISSIONS if part in path), ())
    return " or ".join(f"{name}: {level}" for name in names)


def _reasons(data: Any) -> Iterator[str]:
    if not isinstance(data, dict):
        return
    texts = [data.get("message")]
    errors = data.get("errors")
    for error in errors if isinstance(errors, list) else [errors]:
        if isinstance(error, dict):
            field = error.get("field")
            detail = error.get("message") or error.get("code")
            texts.append(f"{field}: {detail}" if field else detail)
        else:
            texts.append(error)
    for message in texts:
        if isinstance(message, str) and message:
            yield printable(message)[:300]


def graphql_data(answer: Any, headers: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an answer, even if only a part of it. Raises AttemptError.

    GraphQL refuses with status 200. The type of the error is used as REST's status; an error
    without a type is GitHub's own.
    """
    answer = answer if isinstance(answer, dict) else {}
    data, problems = answer.get("data"), answer.get("errors")
    if isinstance(data, dict) and any(value is not None for value in data.values()):
        return data
    first = problems[0] if isinstance(problems, list) and problems else None
    reasons = tuple(_reasons(answer | {"message": None}))
    kind = first.get("type") if isinstance(first, dict) else None
    if kind == "RATE_LIMITED":
        refused = GitHubRefusedError(429, reasons, "GraphQL", limited=True)
        raise AttemptError(refused, again=True, wait=_asked_wait(headers))
    broken = bool(first) and not kind and not (isinstance(first, dict) and "extensions" in first)
    status = {"FORBIDDEN": 403, "NOT_FOUND": 404}.get(str(kind), 502 if broken else 422)
    permission = _usual_permission("GraphQL", reasons) if status == 403 else ""
    raise AttemptError(GitHubRefusedError(status, reasons, "GraphQL", permission), again=broken)


PER_PAGE = 100
#: GitHub lists no more than 3,000 files, and comments come by the hundred.
_MOST_PAGES = 100
_UNKNOWN = 404
_MIB = 1024 * 1024
#: A page of a hundred of the longest comments has some 25 MiB.
_LONGEST_ANSWER = 64 * _MIB
_REDIRECTS = (301, 302, 303, 307, 308)


class RequestLimits(Value):
    """``requests`` of a run, without further pages; ``attempts`` at one write.

    ``repeats``: tries of one request if GitHub names no time to wait. In seconds: ``seconds`` in
    all, ``pause`` between two writes, ``wait`` at most at once, ``timeout`` of one request.
    """

    requests: int = 15
    attempts: int = 3
    repeats: int = 5
    seconds: float = 120.0
    pause: float = 1.0
    wait: float = 60.0
    timeout: float = 15.0


#: Pages of a hundred rows each.
_MOST_OF_PULL = 50
_OF_PULL = """\
query ($owner: String!, $name: String!, $number: Int!, $after: String) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      headRefOid
      @LIST@(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          @FIELDS@
        }
      }
    }
  }
}
"""


class PullRequestList(Value):
    """A list of a pull request, with its head and the login that we write under."""

    login: str
    head: str
    rows: tuple[Any, ...]


class _UnreadError(Exception):
    """An answer that PyGithub would act upon by itself."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(str(answer.status))
        self.answer = answer


class _Connection:
    """What PyGithub sends through. ``seconds`` is how long the next request may take."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.seconds = 0.0
        self.http = HttpClient("github")
        self._answer = Answer(0, {}, b"")

    def request(
        self, verb: str, url: str, body: Any, headers: dict[str, str], _stream: Any = None
    ) -> None:
        """Raises _UnreadError, and what ``HttpClient.send`` raises."""
        url = f"{self.origin}{url}"
        request = {"method": verb, "url": url, "content": body, "headers": headers}
        self._answer = self.http.send(
            request, self.seconds, _LONGEST_ANSWER, lambda status: _is_read(verb, status)
        )
        if not _is_read(verb, self._answer.status):
            raise _UnreadError(self._answer)

    def getresponse(self) -> SimpleNamespace:
        answer = self._answer
        return SimpleNamespace(
            status=answer.status,
            getheaders=answer.headers.items,
            read=lambda: answer.body.decode("utf-8", "replace"),
        )


class GitHubClient(Closing):
    """The connection of one run. ``requests`` and ``writes`` count what was sent."""

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
        #: When the next write may be sent.
        self._next_write = 0.0
        self._uncounted = 0
        self.requests = 0
        self.writes = 0
        # PyGithub logs addresses and answers.
        logging.getLogger("github").setLevel(logging.CRITICAL + 1)
        self._token = token.strip()
        split = urlsplit(api_url)
        self._connection: Any = _Connection(f"{split.scheme}://{split.netloc}")
        github = Github(
            auth=Auth.Token(self._token),
            base_url=api_url.rstrip("/"),
            user_agent="rlm-ci",
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
        )
        self._requester = github.requester

    def close(self) -> None:
        """End the connection; the end of the process does as much."""
        self._connection.http.close()
        self._requester.close()

    def go_on(self) -> None:
        """Begin the time anew, after a pause; the counts go on."""
        self._deadline = self._clock() + self._limits.seconds
        self._away = False

    # ── reading ──

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """The record at ``path``. Like all below, raises GitHubRefusedError or UnreachableError."""
        data = self._read("GET", path, parameters=parameters)[1]
        return record(data, f"GET {path}")

    def pages(self, path: str, key: str = "", **parameters: str) -> Iterator[Any]:
        """The records of a list (under ``key`` of each page, if given), from all its pages."""
        firsts: list[Any] = []
        for number in range(1, _MOST_PAGES + 1):
            query = {**parameters, "per_page": str(PER_PAGE), "page": str(number)}
            headers, page = self._read("GET", path, parameters=query)
            records = page.get(key) if key and isinstance(page, dict) else page
            if not isinstance(records, list):
                raise UnreachableError("GitHub's answer is not a list", f"GET {path}")
            if records and records[0] in firsts:
                raise UnreachableError("GitHub gives the same page again", f"GET {path}")
            firsts += records[:1]
            yield from records
            if 'rel="next"' not in str(headers.get("link", "")):
                return
            self.more()
        raise UnreachableError(f"{_MOST_PAGES} pages were not enough", f"GET {path}")

    def merge_base(self, repository: str, base: str, head: str) -> str | None:
        """The merge base of two commits, None without one."""
        path = f"/repos/{repository}/compare/{base}...{head}"
        try:
            commit = record(self.get(path, per_page="1").get("merge_base_commit"), path)
        except GitHubRefusedError as refused:
            if refused.status != _UNKNOWN:
                raise
            return None
        return text(commit.get("sha"), path) or None

    def query(self, document: str, **variables: Any) -> dict[str, Any]:
        """The data of a GraphQL query, which changes nothing."""
        body = {"query": document, "variables": variables}
        return record(self._read("POST", self._requester.graphql_url, body=body)[1])

    def of_pull_request(
        self, repository: str, number: int, name: str, *, fields: str, what: str
    ) -> PullRequestList:
        """The whole list ``name`` of a pull request, with ``fields`` of each row; ``what`` it is.

        Raises for a part of the list too: all that is missing would be posted again.
        """
        query = _OF_PULL.replace("@LIST@", name).replace("@FIELDS@", fields)
        owner, _, short = repository.partition("/")
        after, seen = "", {""}
        nodes: list[Any] = []
        for _ in range(_MOST_OF_PULL):
            data = self.query(query, owner=owner, name=short, number=number, after=after or None)
            login = text(record(data.get("viewer")).get("login"))
            pull = record(record(data.get("repository")).get("pullRequest"))
            listed, head = record(pull.get(name)), text(pull.get("headRefOid"))
            if not login or not head or listed.get("nodes") is None:
                raise UnreachableError(f"GitHub does not name the {what}", "GraphQL")
            nodes += rows(listed["nodes"])
            page = record(listed.get("pageInfo"))
            if not page.get("hasNextPage"):
                return PullRequestList(login, head, tuple(nodes))
            after = text(page.get("endCursor"))
            if after in seen:
                break
            seen.add(after)
            self.more()
        raise UnreachableError(f"GitHub's list of {what} has no end", "GraphQL")

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
        """Change something, once. After a failure ``done`` returns what GitHub has still made."""
        for attempt in range(1, self._limits.attempts + 1):
            wait = self._next_write - self._clock()
            if wait > 0:
                self._sleep(wait)
            self.writes += 1
            try:
                return self._send(verb, path, None, body)[1]
            except AttemptError as failed:
                self._next_write = self._clock() + self._limits.pause
                self._wait_or_raise(failed, attempt)
                existing = done()
                if existing is not None:
                    return existing
                if attempt == self._limits.attempts:
                    raise failed.error from None
            finally:
                self._next_write = self._clock() + self._limits.pause
        raise AssertionError("a loop of attempts ends by itself")

    def mutate(self, document: str, **variables: Any) -> dict[str, Any]:
        """GraphQL mutations that may be done twice without harm."""
        body = {"query": document, "variables": variables}
        return record(self.write("POST", self._requester.graphql_url, body))

    def more(self) -> None:
        """Do not count the next request: the report decides how many of its kind there are."""
        self._uncounted += 1

    # ── one request ──

    def _send(
        self, verb: str, path: str, parameters: Mapping[str, str] | None, body: Any
    ) -> tuple[Mapping[str, str], Any]:
        where = f"{verb} {path.partition('://')[2].partition('/')[2] or path}"
        is_first = verb == "GET" and path not in self._moved
        to = self._moved.get(path, path) if verb == "GET" else path
        try:
            status, headers, text = self._answer(verb, to, parameters, body, where)
        except _UnreadError as unread:
            moved = self._same_host(unread.answer) if is_first else ""
            if not moved:
                raise _elsewhere(unread.answer, where) from None
            self._moved[path] = moved  # usually a renamed repository
            return self._send(verb, path, parameters, body)
        data = decoded(text)
        if status >= 400:
            raise failure(status, headers, data, where)
        if verb != "DELETE" and not isinstance(data, (dict, list)):
            raise AttemptError(
                UnreachableError("GitHub's answer is not a record", where), again=True
            )
        if path == self._requester.graphql_url:
            data = graphql_data(data, headers)
        self._away = False
        return headers, data

    def _answer(
        self, verb: str, path: str, parameters: Mapping[str, str] | None, body: Any, where: str
    ) -> tuple[int, Mapping[str, str], str]:
        """One request over the wire. Raises AttemptError or _UnreadError."""
        self._connection.seconds = self._spend(where)
        if not (self._token.isascii() and self._token.isprintable() and " " not in self._token):
            refused = GitHubRefusedError(
                401, ("the token has characters that no token has",), where
            )
            raise AttemptError(refused, again=False)
        try:
            return self._requester.requestJson(
                verb, path, parameters=dict(parameters) if parameters else None, input=body,
                cnx=self._connection,
            )  # fmt: skip
        except AnswerTooLongError:
            what = f"GitHub's answer is longer than {_LONGEST_ANSWER // _MIB} MiB"
            raise AttemptError(UnreachableError(what, where), again=False) from None
        except (ConnectionBrokenError, ConfigError) as error:
            away = UnreachableError(f"GitHub cannot be reached: {error}", where)
            raise AttemptError(away, again=isinstance(error, ConnectionBrokenError)) from None
        except (ValueError, ArithmeticError) as error:  # headers that are no numbers
            what = f"GitHub's answer cannot be read: {printable(str(error))[:200]}"
            raise AttemptError(UnreachableError(what, where), again=True) from None

    def _spend(self, where: str) -> float:
        """Take a request from the budget; the seconds that it may take. Raises AttemptError."""
        left = self._deadline - self._clock()
        spent = f"{self._limits.seconds:g} seconds" if left <= 0 else ""
        if self.requests - self._uncounted >= self._limits.requests:
            spent = f"{self._limits.requests} requests"
        if spent:
            raise AttemptError(UnreachableError(f"{spent} were not enough", where), again=False)
        self.requests += 1
        return min(self._limits.timeout, left)

    def _same_host(self, answer: Answer) -> str:
        """The whole address that a redirect leads to, or "" if it is not at this GitHub."""
        location = answer.headers.get("location", "")
        try:
            address = urljoin(self._connection.origin, location)
            split = urlsplit(address)
        except ValueError:
            return ""
        is_ours = f"{split.scheme}://{split.netloc}" == self._connection.origin
        return address if answer.status in _REDIRECTS and location and is_ours else ""

    def _wait_or_raise(self, failed: AttemptError, attempt: int) -> None:
        """Wait before the next attempt; raise if there is none, or no time for it."""
        wait = 0.5 * 2**attempt if failed.wait is None else failed.wait
        left = self._deadline - self._clock()
        tired = failed.wait is None and (self._away or attempt >= self._limits.repeats)
        self._away = self._away or (failed.again and tired)
        if not failed.again or tired or wait >= left or wait > self._limits.wait:
            raise failed.error from None
        self._sleep(wait)


def _is_read(verb: str, status: int) -> bool:
    """Whether an answer's body counts: it is no redirect, and not still being made."""
    return not (300 <= status < 400 or (status == 202 and verb == "GET"))


def _elsewhere(answer: Answer, where: str) -> AttemptError:
    """The error for an answer without a body."""
    what = f"GitHub answered {answer.status}"
    if answer.status in _REDIRECTS:
        what = f"{what}, and leads elsewhere: {redirect_target(answer.headers)}"
    return AttemptError(UnreachableError(what, where), again=answer.status == 202)
