"""What GitHub's answers mean: a refusal, a limit, or a failure that may pass."""

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
    for text in texts:
        if isinstance(text, str) and text:
            yield printable(text)[:300]


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
