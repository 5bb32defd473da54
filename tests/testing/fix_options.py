"""Options of a fix loop, and what its steps share, for tests of single steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm_ci.fix.options import FixContext, FixOptions
from rlm_ci.models.record.clock import RunClock
from rlm_ci.redaction.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rlm_ci.validators.validator import Validator
    from rlm_ci.workspace.sandboxed_commands import SandboxedCommands


def options(**fields: Any) -> FixOptions:
    given: dict[str, Any] = {
        "goal": "goal", "validator": None, "reason": "", "max_iterations": 1, "max_minutes": None,
        "validator_minutes": 1.0, "setup": None, "roles": "single", "subagents": False,
        "agent": "sh", "model": None, "provider": "", "max_completion_tokens": 1000,
        "allow_test_edits": False, "trust_exit_code": True, "sandbox": "none", "isolated": True,
        "mark": "mark",
    }  # fmt: skip
    return FixOptions(**given | fields)


def context(
    folder: Path,
    commands: SandboxedCommands,
    validator: Validator | None = None,
    **fields: Any,
) -> FixContext:
    """With a record that forgets, and ``folder`` as the one of the run."""

    def produced(
        _kind: str, _place: str, _key: Mapping[str, Any], produce: Callable[[], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        return produce()

    def path_of(*parts: str) -> str:
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    return FixContext(
        options(validator=validator.command.text if validator else None, **fields),
        commands,
        validator,
        produced,
        RunClock(produced),
        path_of,
        lambda _text: None,
        Redactor({}),
    )
