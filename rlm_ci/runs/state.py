"""The state of a run: ``rlm/state.json``, saved after every turn and at the end."""

from __future__ import annotations

import json

from rlm_ci import errors
from rlm_ci.runs.manifest import BUDGETS
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

VERSION = 1
PASSED = "passed"
BUDGET_COMPLETE = "budget_complete"
TAMPERED = "tampered"
FAILED = "failed"
NO_PROGRESS = "no_progress"
NO_CHANGE = "no_change"
BLOCKED = "blocked"
PAUSED = "paused"
NO_VALIDATOR = "no_validator"
INVALID_CONFIG = "invalid_config"
ERROR = "error"
#: Status of an end to its exit code; an error has the code of what happened.
EXIT_CODES: Mapping[str, int] = {
    PASSED: errors.OK,
    BUDGET_COMPLETE: errors.OK,
    TAMPERED: errors.FINDINGS,
    FAILED: errors.FINDINGS,
    NO_VALIDATOR: errors.USAGE,
    **dict.fromkeys(BUDGETS, errors.LIMIT),
    NO_PROGRESS: errors.LIMIT,
    NO_CHANGE: errors.LIMIT,
    BLOCKED: errors.LIMIT,
    PAUSED: errors.LIMIT,
    INVALID_CONFIG: errors.CONFIG,
}
#: The ends with work left to do.
LIMITS = tuple(status for status, code in EXIT_CODES.items() if code == errors.LIMIT)


class FinalState(Value):
    """How a run ended: a status of the specs, the exit code, and why, in words."""

    status: str
    exit_code: int
    reason: str

    @classmethod
    def of(cls, status: str, reason: str) -> FinalState:
        """The end with the exit code of ``status``; an unknown status is an error."""
        if status not in EXIT_CODES:
            return cls(ERROR, errors.LIMIT, reason)
        return cls(status, EXIT_CODES[status], reason)

    @classmethod
    def from_error(cls, error: errors.RlmCiError) -> FinalState:
        states = {errors.USAGE: NO_VALIDATOR, errors.CONFIG: INVALID_CONFIG}
        return cls(states.get(error.code, ERROR), error.code, str(error))


class RunState:
    """The state file of one run, always whole.

    ``mode`` is iterative or symbolic, ``turns`` the key of its turns. ``head`` are the first keys;
    ``describe`` adds later ones.
    """

    def __init__(
        self,
        path: str,
        head: Mapping[str, Any],
        redact: Callable[[str], str] = str,
        *,
        mode: str = "iterative",
        turns: str = "iterations",
    ) -> None:
        self._path = path
        self._redact = redact
        self._key = turns
        self._turns: list[Mapping[str, Any]] = []
        self._head: dict[str, Any] = {"version": VERSION, "mode": mode, **head}
        self._final: dict[str, Any] | None = None

    @property
    def entries(self) -> tuple[Mapping[str, Any], ...]:
        """The turns that are over."""
        return tuple(self._turns)

    def describe(self, **head: Any) -> None:
        """Add keys of the whole run, and save."""
        self._head |= head
        self.save()

    def add(self, turn: Mapping[str, Any]) -> None:
        """Add a turn that is over, and save."""
        self._turns.append(turn)
        self.save()

    def end(self, final: FinalState) -> None:
        """Set the end, and save."""
        code = {"exitCode": final.exit_code}
        self._final = {"status": final.status, **code, "reason": final.reason}
        self.save()

    def save(self) -> None:
        """Write the file. Raises StorageError."""
        record = {**self._head, self._key: self._turns, "final": self._final}
        text = self._redact(json.dumps(record, indent=2))
        files.write(self._path, text.encode() + b"\n", 0o600)
