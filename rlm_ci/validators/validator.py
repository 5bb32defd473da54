"""The validator: one command that decides green, and the verdict on its output.

Green is exit code 0 *and* no sign that the work was not done: if a test runner says that it ran
nothing, or that something failed, an exit code of 0 does not count.
"""

from __future__ import annotations

import os
import signal

from rlm_ci.errors import UnavailableError
from rlm_ci.system import files
from rlm_ci.system.transcript import Transcript, transcribe
from rlm_ci.text.printable import printable
from rlm_ci.validators import feedback, parsers, script_commands, start_failures
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, Self

    from rlm_ci.report.findings import Finding
    from rlm_ci.system.command_line import Command
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.parsers import TestTally

    class ValidatedTree(Protocol):
        """The files that a validator runs on: seen at ``visible_root``, by relative paths."""

        visible_root: str

        def exists(self, path: str) -> bool:
            """Whether it is a file."""

        def text(self, path: str) -> str:
            """What is in it, "" if it cannot be read."""

        def find(self, program: str) -> str | None:
            """Where the sandbox finds a program."""


_HINT = (
    'install it where the sandbox can see it, or pass --validator "<another command>"'
    " or --validator none"
)
#: How a shell ends if it cannot run a command.
SHELL_CODES = {126: "it cannot be executed", 127: "a command in it was not found"}
#: An exit code above this is how a shell or a sandbox passes a signal on.
_SIGNALLED = 128
#: Characters of the name of a test.
_NAME = 200
#: Lines of the end of an output, and characters of each.
_LAST, _LINE = 8, 300


class NotStartedError(UnavailableError):
    """A command of the run could not do its work: ``lines`` are the last that it printed."""

    def __init__(self, error: UnavailableError, lines: Sequence[str]) -> None:
        super().__init__(error.what, where=error.where, hint=error.hint)
        self.lines = last_lines(lines)

    def logged(self, path: str) -> Self:
        """The same, with the place of its output."""
        self.hint = f"{self.hint}; all of its output: {path}"
        return self


class Verdict(Value):
    """What one run of the validator says.

    ``exit_code`` is negative for a signal; ``reason`` is one line; ``feedback`` is for a model,
    empty if it ``passed``.
    """

    exit_code: int
    passed: bool
    reason: str
    findings: tuple[Finding, ...]
    feedback: str


class Validator(Value):
    """A command, and how its runs are judged.

    ``root`` is the repository as the command sees it, ``exists`` says whether a relative path
    is a file there, ``text`` is what is in it, ``redact`` takes secrets out of a text, ``find``
    resolves a program as the sandbox would (``command_line.finder``), ``mark`` is a random word of
    this run for the feedback. With ``trust_exit_code`` nothing but the exit code counts.
    """

    command: Command
    root: str
    exists: Callable[[str], bool]
    redact: Callable[[str], str]
    find: Callable[[str], str | None]
    mark: str
    trust_exit_code: bool = False
    text: Callable[[str], str] = staticmethod(lambda _path: "")

    @classmethod
    def over(
        cls, tree: ValidatedTree, command: Command, redact: Callable[[str], str], **more: Any
    ) -> Self:
        """One that judges a ``tree``; ``more`` are further fields, or others."""
        fields = {"exists": tree.exists, "find": tree.find, "text": tree.text, "mark": ""}
        return cls(command, root=tree.visible_root, redact=redact, **{**fields, **more})

    def require(self) -> None:
        """Raise UnavailableError, exit 4, if a program of the command cannot be started."""
        for program in self.command.programs:
            if self.find(program) is None:
                hint = _HINT
                if program == "python" and self.find("python3"):
                    other = self.command.text.replace("python", "python3", 1)
                    hint = f'python3 is there: pass --validator "{other}"'
                raise self._unavailable(f"{program} was not found, or cannot be executed", hint)

    def _unavailable(self, what: str, hint: str) -> UnavailableError:
        where = f"validator {printable(self.redact(self.command.text))[:200]}"
        return UnavailableError(printable(what[:300]), where=where, hint=hint)

    def judge(
        self,
        run: Callable[[tuple[str, ...]], StreamResult],
        log: str | None = None,
        where: Callable[[], str] = str,
        failed: Callable[[], str] = str,
    ) -> Verdict:
        """Run it once and judge it; ``log`` is the file for its output.

        After the run ``where`` tells what a reader of a failure must know of the place, ``failed``
        a test that failed, whatever was printed. Raises UnavailableError if the program is not
        there, StorageError for the log.
        """
        self.require()
        ended = run(self.command.argv)
        transcript = transcribe(ended.output, self.redact)
        reading = parsers.read(transcript.lines, self.root, self.exists)
        reason = failure(ended, self.command)
        if not reason and not self.trust_exit_code:
            reason = _doubt(dict(reading.tallies))
            if not reason and (name := failed()):
                reason = f"exit code 0, and yet {printable(name[:_NAME])} failed"
        if log is not None:
            files.write(log, _log(self.command, self.redact, ended, transcript, reason), 0o600)
        if module := self._missing_module(ended, transcript):
            raise self._unavailable(
                f"this Python has no module {module}",
                f"install {module} there, or let loop.setup install it, or pass --validator",
            )
        told = ""
        if reason:
            reason = f"{place}: {reason}" if (place := where()) else reason
            told = feedback.compose(reason, reading.findings, transcript, mark=self.mark)
        return Verdict(
            exit_code=ended.returncode,
            passed=not reason,
            reason=reason or "exit code 0",
            findings=reading.findings,
            feedback=told,
        )

    def require_started(self, ended: StreamResult, *, may_edit: bool) -> None:
        """Raise NotStartedError, exit 4, for a run that could not even start, or never ends.

        ``may_edit``: an agent may add tests, or change what runs them.
        """
        lines = transcribe(ended.output, self.redact).lines
        if ended.reason == "timeout" and watches(ended):
            what = "the validator watches for changes, and never ends"
            raise NotStartedError(self._unavailable(what, "pass one that ends"), lines)
        reading = parsers.read(lines, self.root, self.exists)
        start_failure = start_failures.find(
            ended,
            lines,
            reading,
            start_failures.RepositoryRoot(self.root, self.exists, self.text),
            command=self.command.text,
            may_edit=may_edit or self.trust_exit_code,
        )
        if start_failure is not None:
            error = self._unavailable(
                f"the validator cannot start: {start_failure.what}", start_failure.hint
            )
            raise NotStartedError(error, lines)

    def _missing_module(self, ended: StreamResult, transcript: Transcript) -> str:
        """The module of ``python -m MODULE`` if Python itself says that it is not there."""
        argv = self.command.argv
        if ended.returncode != 1 or len(argv) < 3 or argv[1] != "-m" or len(transcript.lines) != 1:
            return ""
        is_python = os.path.basename(argv[0]).startswith("python")
        said = f": No module named {argv[2].partition('.')[0]}"
        return argv[2] if is_python and transcript.lines[0].endswith(said) else ""


def log(ended: StreamResult, command: Command, redact: Callable[[str], str]) -> bytes:
    """The log of a run of another command than the validator."""
    transcript = transcribe(ended.output, redact)
    return _log(command, redact, ended, transcript, failure(ended, command))


def _log(
    command: Command,
    redact: Callable[[str], str],
    ended: StreamResult,
    transcript: Transcript,
    reason: str,
) -> bytes:
    """The command, what it printed and how it ended, without invisible characters."""
    why = f", {reason}" if reason and not reason.startswith("exit code ") else ""
    end = f"[exit code {ended.returncode}, {ended.seconds:.1f} s{why}]"
    lines = (f"$ {printable(redact(command.text))}", *transcript.lines, end)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def last_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """The end of an output, for a reader who cannot do without it."""
    return tuple(printable(line[:_LINE]) for line in lines if line.strip())[-_LAST:]


def watches(ended: StreamResult) -> bool:
    """Whether a command that was stopped has said that it waits for changes."""
    output = ended.output
    return any(map(script_commands.WAITING.search, (output.head, output.tail)))


def failure(ended: StreamResult, command: Command) -> str:
    """Why a run of a command failed, by its exit code alone; empty if it did not."""
    code = ended.returncode
    if ended.reason == "timeout":
        waits = ", which waits for changes of files" if watches(ended) else ""
        return f"it was stopped after {ended.seconds:.1f} s, its time limit{waits}"
    if ended.reason:
        return f"it was stopped: {printable(ended.reason[:100])}"
    if code < 0:
        return f"it was killed by {_signal(-code)}"
    if code == 0:
        return ""
    if command.in_shell and code in SHELL_CODES:
        return f"exit code {code}: {SHELL_CODES[code]}"
    if code > _SIGNALLED and (name := _signal(code - _SIGNALLED)).startswith("SIG"):
        return f"exit code {code}, which means {name}"
    return f"exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _doubt(tallies: Mapping[str, TestTally]) -> str:
    """Why exit code 0 does not count; empty if it does."""
    if failed := sum(tally.failed for tally in tallies.values()):
        tools = ", ".join(name for name, tally in tallies.items() if tally.failed)
        return f"exit code 0, and yet {tools} says that {failed:,} failed"
    if tallies and not any(tally.passed for tally in tallies.values()):
        return f"exit code 0, but {', '.join(tallies)} says that no test ran"
    return ""
