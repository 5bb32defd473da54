"""Runs touched tests on a tree by the project's own runner, and says how each ended.

Each run has a copy of the tree of its own, so no run can reach the next one.
"""

from __future__ import annotations

import os
import re
import time

from rlm_ci.errors import UnavailableError
from rlm_ci.sandbox import HOME, JobLimits, SandboxJob
from rlm_ci.system import files
from rlm_ci.system.transcript import transcribe
from rlm_ci.trials.trees import HEAD, judges_of
from rlm_ci.validators import detect, test_reports
from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, OutcomeIndex
from rlm_ci.validators.test_selection import narrowed, unstopped
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.system.command_line import Command
    from rlm_ci.system.process import StreamResult
    from rlm_ci.trials.touched_tests import TouchedTest
    from rlm_ci.trials.trees import ProofTrees

    Key = tuple[str, str]

#: Families of languages whose tests one runner runs, by the ends of files.
_FAMILIES = {".py": "python", ".go": "go", ".rs": "rust"}
_NODE = "node"
#: The family of a command, by its first program that says so.
_PROGRAMS = (
    ("go", "go"), ("cargo", "rust"), ("pytest", "python"), ("unittest", "python"),
    ("py.test", "python"), ("tox", "python"), ("nox", "python"),
)  # fmt: skip
#: A build that failed: no test ran.
_BUILD = re.compile(
    r"\[(?:build|setup) failed\]|could not compile|^error(?:\[E\d+\])?: |SyntaxError: ",
    re.MULTILINE,
)
#: Bytes of an output that are kept, tests that are named one by one, characters that are shown.
_KEEP, _MOST, _TAIL = 4 << 20, 60, 2_000
_MEMORY = 2 << 30


class TestRun(Value):
    """How the touched tests ended: PASSED, FAILED or SKIPPED, and no entry where it is not known.

    ``built`` is false where the code could not be built; ``cut`` says why a run was stopped,
    ``code`` is the exit code, and ``output`` the end of what was printed.
    """

    states: Mapping[Key, str]
    built: bool = True
    code: int = 0
    cut: str = ""
    output: str = ""

    def state(self, test: TouchedTest) -> str:
        """How a test ended: one that is not known failed where the whole run did; else ""."""
        return self.states.get(test.key, FAILED if self.code and not self.cut else "")


class TestRuns:
    """Runs tests on the ``trees``, until ``seconds`` have passed; ``validator`` is a setting."""

    def __init__(self, trees: ProofTrees, seconds: float, validator: str) -> None:
        self._trees = trees
        self._end = time.monotonic() + seconds
        self._commands = _commands(trees.root, validator)
        self._chosen: dict[str, Command] = {}
        #: Seconds that one run of the tests may take; known once they ran.
        self.longest = seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()

    def run(
        self,
        tests: Sequence[TouchedTest],
        side: str = HEAD,
        *,
        texts: Mapping[str, bytes] | None = None,
        of_head: Callable[[str], bool] | None = None,
        look: Callable[[str], object] = str,
    ) -> TestRun:
        """Run ``tests`` on a side, with ``texts`` in the place of files.

        ``of_head`` are paths that come from the head. ``look`` sees the copy afterwards. Raises
        UnavailableError where no runner can be started.
        """
        by_family: dict[str, list[TouchedTest]] = {}
        for test in tests:
            ending = os.path.splitext(test.path)[1]
            by_family.setdefault(_FAMILIES.get(ending, _NODE), []).append(test)
        states: dict[Key, str] = {}
        outputs, built, code, cut = [], True, 0, ""
        for family, some in by_family.items():
            folder = self._trees.copy(side, own_conftest=True, texts=texts, tests=of_head)
            try:
                ran = self._run(family, some, side, folder)
                look(folder)
            finally:
                self._trees.drop(folder)
            states |= ran.states
            built, code, cut = built and ran.built, code or ran.code, cut or ran.cut
            outputs.append(ran.output)
        return TestRun(states, built, code, cut, "\n".join(outputs))

    def _run(self, family: str, tests: Sequence[TouchedTest], side: str, folder: str) -> TestRun:
        """Run the tests of one family by the first command that knows any of them."""
        if family in self._chosen:
            return self._ran(self._chosen[family], tests, side, folder) or TestRun({})
        first = None
        for command in self._commands.get(family, ()):
            try:
                ran = self._ran(command, tests, side, folder)
            except UnavailableError:  # there is no such program
                continue
            if ran is None:
                continue
            first = first or ran
            if ran.states or ran.cut:
                self._chosen[family] = command
                return ran
        if first is None:
            raise UnavailableError(
                f"no program that runs single tests of {family} was found",
                where="test_bite.validator",
                hint="name one that the sandbox can start, such as python -m pytest",
            )
        return first

    def _ran(
        self, command: Command, tests: Sequence[TouchedTest], side: str, folder: str
    ) -> TestRun | None:
        """A run by a command; None where it cannot run single tests."""

        def exists(path: str) -> bool:
            return os.path.lexists(os.path.join(folder, path))

        states: dict[Key, str] = {}
        ended = None
        for names in _names(tests):
            argv = narrowed(_verbose(command.argv), names, folder, exists)
            if argv is None:
                break
            ended, lines = self._started(unstopped(argv), side, folder)
            if test_reports.refused(ended.output.text()):
                ended, lines = self._started(unstopped(argv), side, folder, plugin=False)
            printed = transcribe(ended.output, str, limit=_KEEP).lines
            index = OutcomeIndex(test_reports.read(printed, lines, self._trees.root).tests)
            states = _states(index, tests)
            if states or ended.reason or ended.returncode == 0:
                break  # else a file cannot be read, and so its tests are not known by their names
        if ended is None:
            return None
        text = ended.output.text()
        is_unbuilt = ended.returncode != 0 and PASSED not in states.values() and _BUILD.search(text)
        cut = "it took too long" if ended.reason == "timeout" else ended.reason or ""
        return TestRun(states, not is_unbuilt, ended.returncode, cut, text[-_TAIL:])

    def _started(
        self, argv: tuple[str, ...], side: str, folder: str, *, plugin: bool = True
    ) -> tuple[StreamResult, list[str]]:
        trees = self._trees
        seconds = max(1.0, min(self.longest, self.left))
        paths = os.pathsep.join(trees.python_paths(side))
        env = {
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": paths,
            "PYTHONDONTWRITEBYTECODE": "1",
            "CARGO_TARGET_DIR": f"{HOME}/.cache/rlm-ci-target",
            "PYTEST_ADDOPTS": "--continue-on-collection-errors",
            "COVERAGE_FILE": f"{HOME}/.coverage",
            "npm_config_offline": "true",  # else npm exec waits for what is not installed
        }
        with files.scratch("rlm-ci-") as reports:
            env |= test_reports.environment(reports, trees.root, env, plugin=plugin, short=True)
            mounts = (*trees.caches(side), *(test_reports.mounts(reports) if plugin else ()))
            job = SandboxJob(
                argv,
                env=env,
                mounts=mounts,
                limits=JobLimits(wall=seconds, memory=_MEMORY),
                keep=_KEEP,
            )
            ended = trees.run(trees.shown(side, folder), job)
            return ended, test_reports.collect(reports)


def _states(index: OutcomeIndex, tests: Sequence[TouchedTest]) -> dict[Key, str]:
    """The worst state of the cases of each test that has any."""
    by_path: dict[str, list[str]] = {}
    for test in tests:
        by_path.setdefault(test.path, []).append(test.name)
    states = {}
    for path, names in by_path.items():
        for name, outcomes in index.of_each(path, names).items():
            # Of a method that classes inherit, a runner may name the class that has it.
            last = name.rpartition("::")[2]
            several = outcomes or (index.of(path, f"*::{last}") if "::" in name else ())
            kinds = {outcome.state for outcome in several}
            if state := next((kind for kind in (FAILED, PASSED, SKIPPED) if kind in kinds), ""):
                states[path, name] = state
    return states


def _names(tests: Sequence[TouchedTest]) -> tuple[tuple[str, ...], ...]:
    """What a runner is asked for: the tests, then their files, which alone do where many are."""
    paths = tuple(dict.fromkeys(test.path for test in tests))
    if len(tests) > _MOST or any("*" in test.name for test in tests):
        return (paths,)
    return tuple(f"{test.path}::{test.name}" for test in tests), paths


def _verbose(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Have unittest name each test."""
    if "unittest" not in argv:
        return argv
    at = argv.index("unittest") + 1
    return (*argv[:at], *(() if "-v" in argv else ("-v",)), *argv[at:])


def _commands(root: str, validator: str) -> dict[str, tuple[Command, ...]]:
    """The commands that may run tests, by the family of their languages. Raises UsageError."""
    if validator not in (detect.AUTO, detect.NONE):
        command = detect.select(validator, detect.Detection()).command
        families = (*_FAMILIES.values(), _NODE)
        return dict.fromkeys(families, (command,)) if command else {}
    commands: dict[str, tuple[Command, ...]] = {}
    for candidate in detect.detect(root).candidates:
        selection = detect.select(detect.AUTO, detect.Detection((candidate,)))
        family = _family(candidate.command)
        commands[family] = (*commands.get(family, ()), *judges_of(selection, root))
    python = detect.ValidatorCandidate(
        ("python", "-m", "pytest"), "", (("python3", "-m", "pytest"),)
    )
    more = judges_of(detect.select(detect.AUTO, detect.Detection((python,))), root)
    commands["python"] = (*commands.get("python", ()), *more)
    return commands


def _family(argv: tuple[str, ...]) -> str:
    return next((family for word, family in _PROGRAMS if word in argv), _NODE)
