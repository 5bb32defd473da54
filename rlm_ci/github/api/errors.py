"""Refusals and missing answers of GitHub, importable without PyGithub."""

from __future__ import annotations

from rlm_ci.errors import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    _T = TypeVar("_T")


class GitHubRefusedError(RemoteError):
    """GitHub refused, perhaps for a missing ``permission`` or a rate limit (``limited``)."""

    def __init__(
        self,
        status: int,
        reasons: tuple[str, ...],
        where: str,
        permission: str = "",
        *,
        limited: bool = False,
    ) -> None:
        reason = "; ".join(reasons) or "no reason given"
        hint = "see GitHub's answer"
        if status == 401:
            hint = "give a valid token: github-token, or GITHUB_TOKEN"
        elif limited:
            hint = "GitHub limits how much it is asked: run it again later"
        elif status == 403 and _wants_an_app(reasons, where):
            hint = (
                "check runs need an App's token, such as github.token in Actions;"
                " or set publish.check_run = false"
            )
        elif permission:
            hint = f"give the job's token this permission: {permission}"
        elif status in (403, 404):
            hint = "see that the token may use this repository"
        super().__init__(f"GitHub answered {status}: {reason}", where=where, hint=hint)
        self.status = status
        self.reasons = reasons
        self.permission = permission
        self.limited = limited

    @property
    def denied(self) -> bool:
        """Whether the token may not do this, however often it is asked."""
        return self.status == 403 and not self.limited


class UnreachableError(RemoteError):
    """No usable answer within the budget."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what, where=where, hint="run it again later: rlm-ci publish REPORT")


def _wants_an_app(reasons: tuple[str, ...], where: str) -> bool:
    """Whether a person's token asked for a check run: no permission would help it."""
    text = " ".join(reasons).lower()
    return "check-runs" in where and ("github app" in text or "personal access token" in text)


# ── the parts of an answer, which may be of any type ──


def record(value: Any, where: str = "GitHub") -> dict[str, Any]:
    """``value``, which is a record; {} for null. Raises UnreachableError for all else."""
    return {} if value is None else _typed(value, dict, where)


def rows(value: Any, where: str = "GitHub") -> list[Any]:
    """``value``, which is a list; [] for null. Raises UnreachableError for all else."""
    return [] if value is None else _typed(value, list, where)


def text(value: Any, where: str = "GitHub") -> str:
    """``value``, which is a text; "" for null. Raises UnreachableError for all else."""
    return "" if value is None else _typed(value, str, where)


def _typed(value: Any, kind: type[_T], where: str) -> _T:
    if not isinstance(value, kind):
        raise UnreachableError("GitHub's answer is not what it should be", where)
    return value
