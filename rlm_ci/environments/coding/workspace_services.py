"""What tools for code need of a copy of the work tree: commands, tests, the difference, the start.

What runs does so in the sandbox. How it ended is a fact of the run's record, with the tree that it
left. An agent reads of a run of the tests what failed, and gets scores.
"""

from __future__ import annotations

import re

from rlm_ci.environments.coding import code_queries
from rlm_ci.environments.generic import Execution
from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted
from rlm_ci.guard import secret_in_diff
from rlm_ci.system.command_line import SHELL, Command
from rlm_ci.system.process import SEAM
from rlm_ci.system.transcript import plain, transcribe
from rlm_ci.text.printable import count
from rlm_ci.validators import parsers, test_reports
from rlm_ci.validators.test_selection import narrowed_in
from rlm_ci.validators.validator import failure
from rlm_ci.values import Value
from rlm_ci.workspace.recorded_change import ended_of, record_of, recorded
from rlm_ci.workspace.sandboxed_commands import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs import Fact
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.validator import Validator
    from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
    from rlm_ci.workspace.workspace import Workspace


UNKNOWN_RUNNER = "rlm-ci cannot run some tests of this validator: name none, or use another tool"
#: In the last line of pytest.
_WARNINGS = re.compile(
    r"^(?:=+ )?(?:\d{1,9} [a-z]+, ){0,9}(\d{1,9}) warnings?(?:, \d{1,9} [a-z]+){0,9} in \d",
    re.MULTILINE,
)


class TestReport(Value):
    """``text`` is for the model.

    ``passed``: the validator is green. ``score`` is the share of tests that passed; ``tests`` says
    whether all did, None where none was counted. ``timed_out``: it was stopped.
    """

    __test__ = False

    text: str
    passed: bool
    tests: bool | None
    score: float
    warnings: int
    timed_out: bool


def judged(validator: Validator, ended: StreamResult, *, is_selection: bool) -> TestReport:
    """The report of a run; ``is_selection``: of some tests alone."""
    verdict = validator.judge(lambda _argv: ended)
    output = ended.output.text()
    counts = test_reports.parse(output).values()
    number = max((tests.judged for tests in counts), default=0)
    notes = [f"{count(number, 'test')} ran"] if number else []
    passed = verdict.passed
    if is_selection and not number:
        notes = ["no test ran: none has such a name"]
        passed = False
    elif verdict.passed:
        notes += ["it passes"]
    printed = plain(output)
    read = parsers.read(printed.split("\n"), validator.root, validator.exists)
    tallies = [tally for _, tally in read.tallies]
    good, bad = (
        sum(tally.passed for tally in tallies),
        sum(test_tally.failed for test_tally in tallies),
    )
    ran = good + bad
    return TestReport(
        "\n".join(notes if verdict.passed else [*notes, verdict.feedback]),
        passed,
        (not bad) if ran else None,
        good / ran if ran else float(passed),
        sum(map(int, _WARNINGS.findall(printed))),
        ended.reason == "timeout",
    )


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
                return UNKNOWN_RUNNER
            argv = narrowed
        tree = self._copy.tree()

        def produce() -> Mapping[str, Any]:
            record = record_of(self._commands.run(Launch(argv, self._seconds())))
            if self._commands.tree() != tree:
                self._copy.restore(tree)
            return record

        key = {"argv": list(argv), "tree": tree}
        fact = self._fact("tests", self._place("tests"), key, produce)
        return judged(validator, ended_of(fact), is_selection=bool(names))

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
