"""The validator on what a session changed, in the sandbox, within the time of a hook."""

from __future__ import annotations

import os
import time

from rlm_ci import sandbox
from rlm_ci.errors import LimitError
from rlm_ci.fix import choose_validator
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.validators.validator import Validator, Verdict
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

#: Failures that an agent is shown.
_SHOWN = 10
#: Seconds that are kept to answer.
_RESERVE = 2.0
#: The failure of a validator that names none.
_WHOLE = "validator"


class Failures(Value):
    """What fails: ``reason`` is "" if nothing does, ``texts`` say of each failure by its key."""

    reason: str
    texts: Mapping[str, str]


class HookValidator:
    """Runs the first of ``commands`` that can run, until ``ends`` on the monotonic clock."""

    def __init__(
        self,
        repository: Repository,
        environ: Mapping[str, str],
        commands: Sequence[str],
        place: str,
        ends: float,
    ) -> None:
        """``place`` is the name of a sandbox."""
        self._repository, self._environ = repository, environ
        self._texts, self._place, self._ends = commands, place, ends
        self._redact = Redactor(environ).text

    def compare(self, start: str, known: Sequence[str] | None) -> tuple[Failures, Sequence[str]]:
        """What fails now and did not in the tree ``start``; and the keys of what failed there.

        ``known`` are these keys, if an earlier stop found them. Raises LimitError for a run that
        does not end in time, other RlmCiErrors where it cannot run.
        """
        chosen = sandbox.choose(self._place, self._environ)
        with files.scratch("rlm-ci-") as folder:
            space = Workspace(folder, self._repository, self._environ, isolated=chosen.isolated)
            root = self._repository.root
            commands = SandboxedCommands(chosen, space, root, self._environ)
            now = self._failures(commands, None)
            if now.reason and known is None:
                before = self._failures(commands, space.fresh(start))
                known = (*before.texts, *([_WHOLE] if before.reason else []))
        if known and now.reason:
            new = {key: text for key, text in now.texts.items() if key not in known}
            now = Failures(now.reason if new else "", new)
        return now, known or ()

    def _failures(self, commands: SandboxedCommands, copy: Checkout | None) -> Failures:
        command, why = choose_validator.first_able(self._texts, commands, self._redact)
        if command is None:
            raise choose_validator.none_can_run(why, "agent_hooks.validator")
        root = copy.path if copy else commands.root
        validator = Validator(
            command,
            root=commands.place,
            exists=lambda path: os.path.isfile(os.path.join(root, path)),
            redact=self._redact,
            find=lambda program: commands.find(program, copy),
            mark="",
        )

        def run(argv: tuple[str, ...]) -> StreamResult:
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
            return ended

        return _failures(command.text, validator.judge(run))


def _failures(command: str, verdict: Verdict) -> Failures:
    if verdict.passed:
        return Failures("", {})
    reason = f"the validator fails: {command[:200]}: {verdict.reason}"
    texts = {_key(one): _shown(one) for one in verdict.findings}
    return Failures(reason, texts or {_WHOLE: ""})


def _key(finding: Finding) -> str:
    path = finding.evidence[0].path if finding.evidence else ""
    return f"{finding.rule} {path} {finding.subject or finding.message}"


def _shown(finding: Finding) -> str:
    first = finding.evidence[0] if finding.evidence else None
    place = f"{first.path}:{first.line_start or 1}: " if first else ""
    return f"{place}{finding.message}"


def lines_of(failures: Failures) -> list[str]:
    """What an agent is shown, a line each."""
    texts = [text for text in failures.texts.values() if text]
    more = len(texts) - _SHOWN
    rest = [f"and {count(more, 'more failure')}"] if more > 0 else []
    return [failures.reason, *texts[:_SHOWN], *rest]
