"""Errors as the journal holds them, so that a replay ends as its run did."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.errors import LimitError, RlmCiError
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

_FIELDS: Final = ("what", "where", "hint")
_BY_CODE: Final = {
    kind.code: kind
    for kind in (
        errors.UsageError, errors.UnavailableError, errors.ConfigError, errors.DamagedError,
        errors.LockedError, errors.RemoteError, errors.StorageError,
    )
}  # fmt: skip


def to_dict(error: Exception, redact: Callable[[str], str]) -> dict[str, Any]:
    """What is kept of ``error``, without secrets; ``from_dict`` makes one like it."""
    is_ours = isinstance(error, RlmCiError)
    texts = {name: getattr(error, name) if is_ours else "" for name in _FIELDS}
    if not is_ours:
        texts["what"] = f"{type(error).__name__}: {error}"
    safe = {name: encodable(redact(printable(text))) for name, text in texts.items()}
    code = error.code if isinstance(error, RlmCiError) else errors.INTERNAL
    return {**safe, "code": code, "budget": error.budget if isinstance(error, LimitError) else None}


def from_dict(value: Mapping[str, Any]) -> RlmCiError:
    what, where, hint = (value[name] for name in _FIELDS)
    if value["code"] == errors.LIMIT:
        return LimitError(what, budget=value["budget"], where=where, hint=hint)
    return _BY_CODE.get(value["code"], RlmCiError)(what, where=where, hint=hint)
