"""What tools for code need of a copy of the work tree: commands, tests, the difference, the start.

What runs does so in the sandbox. How it ended is a fact of the run's record, with the tree that it
left.
"""

from __future__ import annotations

from rlm_ci.environments.coding import code_queries, test_report
from rlm_ci.environments.generic import Execution
from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted
from rlm_ci.guard import secret_in_diff
from rlm_ci.system.command_line import SHELL, Command
from rlm_ci.system.process import SEAM
from rlm_ci.system.transcript import transcribe
from rlm_ci.validators.test_selection import narrowed_in
from rlm_ci.validators.validator import failure
from rlm_ci.workspace.recorded_change import ended_of, record_of, recorded
from rlm_ci.workspace.sandboxed_commands import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.environments.coding.test_report import TestReport
    from rlm_ci.git.repository import Repository
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs import Fact
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.validator import Validator
    from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
    from rlm_ci.workspace.workspace import Workspace

#: Bytes of a command's output that are recorded. A fifth is its beginning: what the cut takes for
#: fear of half a secret, and what a model is shown.
_KEEP = 5 * (SEAM + OUTPUT_LIMIT)
#: Characters of the output that a model is shown, below the limit of an observation.
_SHOWN = OUTPUT_LIMIT - 500
_PYTHON = ("python3", "python")


def difference(copy: Workspace, redactor: Redactor) -> str:
    """What differs from the start, for a model to read."""
    _, patch = secret_in_diff.account(copy, copy.tree(), (), redactor)
    return redactor.without_known(patch.decode("utf-8", "replace"))


class WorkspaceServices:
    """Services on the copy of ``commands``.

    ``path_of`` gives each thing that is asked for its own path in the run, by its kind.
    ``seconds`` says how long a command may take.
    """

    def __init__(
        self,
        commands: SandboxedCommands,
        fact: Fact,
        redactor: Redactor,
        *,
        path_of: Callable[[str], str],
        seconds: Callable[[], float],
    ) -> None:
        self._commands = commands
        self._copy = commands.workspace
        self._fact = fact
        self._redactor = redactor
        self._place = path_of
        self._seconds = seconds

    def run(self, text: str) -> str:
        """Run a line of shell."""
        command = Command(text, (SHELL, "-c", text), (SHELL,), in_shell=True)
        ended = self._ran({"run": text}, {"command": text}, command.argv, self._seconds())
        text = transcribe(ended.output, self._redactor.text).clipped(_SHOWN)
        head = f"{failure(ended, command) or 'exit code 0'}, {ended.seconds:.1f} s"
        return quoted(f"The command ended: {head}", text)

    def python(self, code: str, seconds: float) -> Execution:
        """Run Python at the root of the copy. Its errors, and how it failed, end its output."""
        python = next((program for program in _PYTHON if self._commands.find(program)), _PYTHON[0])
        command = Command(python, (python, "-"), (python,))
        seconds = min(seconds, self._seconds())
        ended = self._ran({"python": code}, {}, command.argv, seconds, stdin=code)
        text = transcribe(ended.output, self._redactor.text).clipped(_SHOWN)
        wrong = failure(ended, command)
        parts = filter(None, (text, f"[{wrong}]" if wrong else ""))
        return Execution("\n".join(parts), succeeded=not wrong)

    def _ran(
        self,
        key: Mapping[str, Any],
        more: Mapping[str, Any],
        argv: tuple[str, ...],
        seconds: float,
        stdin: str = "",
    ) -> StreamResult:
        """How a command ended, which may have changed the copy."""
        self._copy.settled = None

        def produce() -> Mapping[str, Any]:
            launch = Launch(argv, seconds, stdin=stdin.encode("utf-8", "surrogateescape"))
            return {**more, **record_of(self._commands.run(launch, keep=_KEEP))}

        run_key = ("command", self._place("command"))
        fact = recorded(self._fact, self._copy, run_key, key, produce)
        self._copy.settled = None  # the agent goes on
        return ended_of(fact)

    def tests(self, validator: Validator, names: tuple[str, ...]) -> TestReport | str:
        """What the validator says of all tests, or of those named; why it cannot be asked."""
        argv = validator.command.argv
        if names:
            narrowed = narrowed_in(validator.command, names, self._commands.root)
            if narrowed is None:
                return test_report.UNKNOWN_RUNNER
            argv = narrowed
        tree = self._copy.tree()

        def produce() -> Mapping[str, Any]:
            record = record_of(self._commands.run(Launch(argv, self._seconds())))
            if self._commands.tree() != tree:
                self._copy.restore(tree)
            return record

        key = {"argv": list(argv), "tree": tree}
        fact = self._fact("tests", self._place("tests"), key, produce)
        return test_report.judged(validator, ended_of(fact), is_selection=bool(names))

    def diff(self) -> str:
        return difference(self._copy, self._redactor)

    def restore(self, path: str) -> bool:
        """Put a file or a folder back as it was at the start; whether it had changed."""
        copy = self._copy
        tree = copy.tree()

        def is_wanted(name: str) -> bool:
            return name == path or name.startswith(f"{path}/")

        before = copy.restored(tree, copy.snapshot.tree, is_wanted)
        if before != tree:
            copy.restore(before)
        return before != tree

    def history(self, repository: Repository, path: str, lines: tuple[int, int]) -> str:
        """The commits that changed lines of a file: a fact, as it may have grown since."""
        commit = self._copy.snapshot.head
        first, last = lines

        def produce() -> Mapping[str, Any]:
            return {"text": code_queries.history(repository, str(commit), path, lines)}

        key = {"path": path, "first": first, "last": last, "commit": commit}
        return str(self._fact("history", self._place("history"), key, produce)["text"])
