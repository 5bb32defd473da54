"""The validator on what a session changed, in the sandbox, within the time of a hook."""

from __future__ import annotations

import time
from functools import partial

from rlm_ci import sandbox
from rlm_ci.errors import LimitError
from rlm_ci.fix import choose_validator
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import files
from rlm_ci.system.transcript import Transcript, transcribe
from rlm_ci.text.printable import printable
from rlm_ci.validators import feedback
from rlm_ci.validators.validator import Validator
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import Launch, SandboxedCommands
from rlm_ci.workspace.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Finding
    from rlm_ci.system.process import StreamResult
    from rlm_ci.workspace.checkout import Checkout

#: Bytes of what an agent is told, beside what else it has to mend.
_LONGEST = 2_500
#: Seconds that are kept to answer.
_RESERVE = 2.0
#: The failure of a validator that names none.
_UNNAMED = "validator"
_UNNAMED_FAILURE = {_UNNAMED: None}


class Failures(Value):
    """What fails, by its key: ``reason`` is "" if nothing does, None a failure without a name."""

    reason: str
    findings: Mapping[str, Finding | None]
    output: Transcript = Transcript(())

    def text(self, mark: str) -> str:
        """What an agent is told; ``mark`` is around what comes from the repository."""
        findings = [finding for finding in self.findings.values() if finding is not None]
        return feedback.compose(self.reason, findings, self.output, mark=mark, limit=_LONGEST)


class HookValidator:
    """Runs the first of ``commands`` that can run, until ``ends`` on the monotonic clock."""

    def __init__(
        self,
        repository: Repository,
        environ: Mapping[str, str],
        commands: Sequence[str],
        sandbox_name: str,
        ends: float,
    ) -> None:
        self._repository, self._environ = repository, environ
        self._commands, self._sandbox_name, self._ends = commands, sandbox_name, ends
        self._redact = Redactor(environ).text

    def compare(self, start: str, baseline: Sequence[str] | None) -> tuple[Failures, Sequence[str]]:
        """What fails now and did not in the tree ``start``; and the keys of what failed there.

        ``baseline`` are these keys, if an earlier stop found them. Raises LimitError for a run that
        does not end in time, other RlmCiErrors where it cannot run.
        """
        chosen = sandbox.choose(self._sandbox_name, self._environ)
        with files.scratch("rlm-ci-") as folder:
            space = Workspace(folder, self._repository, self._environ, isolated=chosen.isolated)
            root = self._repository.root
            commands = SandboxedCommands(chosen, space, root, self._environ)
            now = self._failures(commands, None)
            if now.reason and baseline is None:
                before = self._failures(commands, space.fresh(start))
                baseline = (*before.findings, *([_UNNAMED] if before.reason else []))
        if baseline and now.reason:
            new = {key: value for key, value in now.findings.items() if key not in baseline}
            now = now.replace(reason=now.reason if new else "", findings=new)
        return now, baseline or ()

    def _failures(self, commands: SandboxedCommands, copy: Checkout | None) -> Failures:
        command, why = choose_validator.first_able(self._commands, commands, self._redact)
        if command is None:
            raise choose_validator.none_can_run(why, "agent_hooks.validator")
        exists, find = partial(commands.exists, copy=copy), partial(commands.find, copy=copy)
        validator = Validator.over(commands, command, self._redact, exists=exists, find=find)

        output = Transcript(())

        def run(argv: tuple[str, ...]) -> StreamResult:
            nonlocal output
            seconds = self._ends - time.monotonic() - _RESERVE
            ended = commands.run(Launch(argv, max(1.0, seconds)), copy)
            if ended.reason == "timeout":
                raise LimitError(
                    "the validator does not end within the time of a hook",
                    budget="agent_hooks.timeout",
                    where=command.text[:200],
                    hint="raise agent_hooks.timeout, and the timeout in the program's hook file",
                )
            validator.require_started(ended, may_edit=True)
            output = transcribe(ended.output, self._redact)
            return ended

        verdict = validator.judge(run)
        if verdict.passed:
            return Failures("", {})
        reason = f"{printable(self._redact(command.text))[:200]}: {verdict.reason}"
        findings = {_key(finding): finding for finding in verdict.findings}
        return Failures(reason, findings or _UNNAMED_FAILURE, output)


def _key(finding: Finding) -> str:
    path = finding.evidence[0].path if finding.evidence else ""
    return f"{finding.rule} {path} {finding.subject or finding.message}"
