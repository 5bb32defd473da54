"""Start the validator once, as a fix loop does before any edit, and name what it lacks."""

from __future__ import annotations

from rlm_ci.fix import choose_validator
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import files
from rlm_ci.validators.validator import Validator, failure
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import Launch, SandboxedCommands
from rlm_ci.workspace.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.git.repository import Repository
    from rlm_ci.sandbox.job import Sandbox

#: Seconds after which it has started.
_SECONDS = 30.0


class ValidatorTrial(Value):
    """The command that was started, why that one, and how it ended."""

    command: str
    reason: str
    end: str


def try_out(
    setting: str,
    repository: Repository,
    sandbox: Sandbox,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
) -> ValidatorTrial:
    """Start the validator ``setting``, or the one that is found; ``tell`` of it before.

    Raises UsageError where there is none, or several, ConfigError for one that watches, and
    UnavailableError for one that cannot start.
    """
    selection = choose_validator.select(setting, repository.root, environ, None)
    if selection.command is None:
        return ValidatorTrial("none", selection.reason, "nothing is validated")
    redact = Redactor(environ).text
    with files.scratch("rlm-ci-") as folder:
        workspace = Workspace(folder, repository, environ, isolated=sandbox.isolated)
        commands = SandboxedCommands(sandbox, workspace, repository.root, environ)
        texts = (selection.command.text, *selection.others)
        command, why = selection.command, ""
        if selection.others:
            able, why = choose_validator.first_able(texts, commands, redact)
            if able is None:
                raise choose_validator.none_can_run(why, selection.reason)
            command = able
        note = choose_validator.require_no_watch(command.text, commands, selection.reason)
        validator = Validator.over(commands, command, redact)
        validator.require()
        tell(f"starting the validator, for at most {_SECONDS:.0f} s: {command.text}")
        ended = commands.run(Launch(command.argv, _SECONDS))
        validator.require_started(ended, may_edit=False)
    end = failure(ended, command) or "it passes"
    if ended.reason == "timeout":
        end = f"it was still running after {_SECONDS:.0f} s"
    text = "; ".join(filter(None, (selection.reason, why, note)))
    return ValidatorTrial(command.text, text, f"it starts: {end}")
