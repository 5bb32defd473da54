"""What GitHub's answers mean: a no, a limit, a failure of its own that may pass."""

from __future__ import annotations

import json
import time

from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError
from rlm_ci.system.transport import retry_after
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

#: What GitHub asks for where it names no time: https://docs.github.com/rest, "rate limits".
_SECONDARY_WAIT = 60.0
#: What GitHub's documentation asks for, by a part of the address; the first that fits counts.
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
    """One request that was not answered as it should; ``wait`` is what GitHub asks for."""

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
    permission = _permission(headers.get("x-accepted-github-permissions", ""))
    if status == 403 and not permission:
        permission = _usual_permission(where, reasons)
    permission = "" if limited else permission
    refused = GitHubRefusedError(status, reasons, where, permission, limited=limited)
    if limited:
        return AttemptError(refused, again=True, wait=_asked_wait(headers))
    return AttemptError(refused, again=status >= 500 or status == 408)


def decoded(text: str) -> Any:
    """The JSON of an answer; None for what is none, such as a proxy's page."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _asked_wait(headers: Mapping[str, Any]) -> float:
    """How long GitHub wants to be left alone, in seconds."""
    after = retry_after(headers)
    if after:  # 0, or a moment that is over, is no time
        return max(1.0, after)
    reset = str(headers.get("x-ratelimit-reset", ""))
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(1.0, float(reset) - time.time())
    return _SECONDARY_WAIT


def _permission(accepted: str) -> str:
    """``issues=write; pull_requests=write`` as a workflow writes it."""
    names = [one.strip().replace("_", "-").replace("=", ": ") for one in accepted.split(";")]
    return printable(" or ".join(name for name in names if name))[:200]


def _usual_permission(where: str, reasons: tuple[str, ...]) -> str:
    """What a request takes, where GitHub's answer, or a proxy's, does not say it; "" if unknown."""
    if reasons and not any("not accessible" in reason.lower() for reason in reasons):
        return ""  # it is about something else: a login, a block, an archived repository
    verb, _, path = where.lower().rpartition(" ")
    level = "read" if verb == "get" else "write"
    names = next((names for part, names in _PERMISSIONS if part in path), ())
    return " or ".join(f"{name}: {level}" for name in names)


def _reasons(data: Any) -> Iterator[str]:
    """What GitHub says is wrong: its message, and each of its errors."""
    if not isinstance(data, dict):
        return
    texts = [data.get("message")]
    errors = data.get("errors")
    for one in errors if isinstance(errors, list) else [errors]:
        if isinstance(one, dict):
            field = one.get("field")
            told = one.get("message") or one.get("code")
            texts.append(f"{field}: {told}" if field else told)
        else:
            texts.append(one)
    for text in texts:
        if isinstance(text, str) and text:
            yield printable(text)[:300]


def graphql_data(answer: Any, headers: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an answer, in part where some of it failed. Raises AttemptError.

    GraphQL says no with the status of a yes: what REST tells by the status stands in the type
    of the error, and an error without one is GitHub's own.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    problems = answer.get("errors") if isinstance(answer, dict) else None
    if isinstance(data, dict) and any(value is not None for value in data.values()):
        return data
    first = problems[0] if isinstance(problems, list) and problems else None
    reasons = tuple(_reasons({"errors": problems}))
    kind = first.get("type") if isinstance(first, dict) else None
    if kind == "RATE_LIMITED":
        refused = GitHubRefusedError(429, reasons, "GraphQL", limited=True)
        raise AttemptError(refused, again=True, wait=_asked_wait(headers))
    broken = bool(first) and not kind and not (isinstance(first, dict) and "extensions" in first)
    status = {"FORBIDDEN": 403, "NOT_FOUND": 404}.get(str(kind), 502 if broken else 422)
    permission = _usual_permission("GraphQL", reasons) if status == 403 else ""
    raise AttemptError(GitHubRefusedError(status, reasons, "GraphQL", permission), again=broken)
