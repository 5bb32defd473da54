"""One run of a reproduction on one of the trees: started in the sandbox, judged by its report.

A reproduction that is a test in Go, JavaScript, TypeScript or Rust runs by the validator: the
project's own runner tells how it ended. So a test that passes is run once more with its claims
reversed: if it does not fail then, its passing shows nothing.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shlex
from contextlib import suppress
from random import SystemRandom

from rlm_ci.canary import forms, readers
from rlm_ci.review.proofs import reproduction as ends
from rlm_ci.review.proofs.reproduction import MISSING, ClaimFailure, ProjectUse, expected_warning
from rlm_ci.sandbox import HOME, JobLimits, Mount, SandboxJob
from rlm_ci.system import files
from rlm_ci.system.command_line import SHELL
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import printable
from rlm_ci.text.steady import steady
from rlm_ci.trials.trees import BASE
from rlm_ci.validators import outcomes, parsers
from rlm_ci.validators.test_selection import narrowed
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Self

    from rlm_ci.review.proofs.reproduction import Reproduction
    from rlm_ci.system.command_line import Command
    from rlm_ci.system.process import StreamResult
    from rlm_ci.trials.trees import ProofTrees


#: Characters of an output in which the reason of a failure is looked for.
_MESSAGE = 8_000
#: Variables by which tools build elsewhere than in the tree, which is read-only.
ELSEWHERE = {"CARGO_TARGET_DIR": "/tmp/home/target"}  # noqa: S108 - a folder of the sandbox's own


class ForeignTest(Value):
    """A test file that the ``validator`` runs; ``root`` is the project as it sees it."""

    reproduction: Reproduction
    validator: Command | None
    root: str

    def test_names(self) -> tuple[str, ...]:
        """The tests in it. Raises UnparsableError."""
        reproduction = self.reproduction
        names = tuple(
            test.name
            for test in readers.of(reproduction.path).tests(reproduction.path, reproduction.content)
        )
        if not names:
            raise forms.UnparsableError(reproduction.path)
        return names

    def argv(self, folder: str) -> tuple[str, ...] | None:
        """The command for these tests alone; None where it cannot be told."""
        if self.validator is None:
            return None
        names = tuple(f"{self.reproduction.path}::{name}" for name in self.test_names())

        def exists(path: str) -> bool:
            return path == self.reproduction.path or os.path.lexists(os.path.join(folder, path))

        return narrowed(self.validator.argv, names, folder, exists)

    def command(self) -> str:
        """A line with which a person runs it; "" if it cannot be told."""
        with suppress(forms.UnparsableError):
            return shlex.join(self.argv(self.root) or ())
        return ""

    def inverted(self) -> tuple[str, tuple[str, ...]]:
        """The text with the claims reversed, and the tests that must fail now."""
        reproduction = self.reproduction
        inversions = dict.fromkeys(self.test_names(), forms.INVERTED)
        inverted = readers.of(reproduction.path).change(
            reproduction.path, reproduction.content, inversions, SystemRandom(), plain=True
        )
        return inverted.text, tuple(inverted.changed_tests)

    def failed(self, ended: StreamResult) -> tuple[ClaimFailure, ...]:
        """The tests that failed, each with what was printed."""
        output = ended.output.text()[-_MESSAGE:]
        return tuple(
            ClaimFailure((), f"{outcome.name}: {outcome.message}\n{output}", self._lines_in(output))
            for outcome in self._outcomes(ended)
            if outcome.state == outcomes.FAILED
        )

    def _lines_in(self, output: str) -> str:
        """The lines of the test that a runner names where it says what failed, "" for none."""
        lines = self.reproduction.content.split("\n")
        name = re.escape(self.reproduction.path.rpartition("/")[2])
        numbers = dict.fromkeys(map(int, re.findall(rf"\b{name}:(\d{{1,6}})", output)))
        return " ".join(lines[n - 1].strip() for n in numbers if 0 < n <= len(lines))

    def missing(self, ended: StreamResult) -> str:
        """What its file lacks, so that no test of it could run; "" for nothing."""
        path = self.reproduction.path
        failed = [
            outcome.name for outcome in self._outcomes(ended) if outcome.state == outcomes.FAILED
        ]
        if any(name and not name.endswith(path) for name in failed) or self.passed(ended):
            return ""
        lines = map(str.strip, ended.output.text().splitlines())
        return next(filter(MISSING.search, lines), "")

    def passed(self, ended: StreamResult) -> bool:
        """Whether all of them passed, and the command says so, too."""
        states = [outcome.state for outcome in self._outcomes(ended)]
        return bool(states) and set(states) == {outcomes.PASSED} and not ended.returncode

    def _outcomes(self, ended: StreamResult) -> Sequence[outcomes.TestOutcome]:
        lines = transcribe(ended.output, str).lines
        return parsers.outcomes(lines, self.root).tests


def why_not(test: ForeignTest, folder: str) -> str:
    """Why its tests cannot be run, in a line; "" where they can."""
    try:
        if test.argv(folder) is not None:
            return ""
    except forms.UnparsableError:
        return "no test was found in it"
    return f"the validator cannot run {printable(test.reproduction.path)[:200]} alone"


def record_of(
    test: ForeignTest, ended: StreamResult, again: Callable[[str], StreamResult]
) -> dict[str, Any]:
    """Status, reason and failures of a run; ``again`` runs another text in its place."""
    if missing := test.missing(ended):
        failures: tuple[ClaimFailure, ...] = (ClaimFailure((), missing),)
    else:
        failures = test.failed(ended)
    if failures:
        records = tuple(failure.to_dict() for failure in failures)
        first = failures[0].message.partition("\n")[0]
        return {"status": ends.FAILED, "reason": printable(first), "failures": records}
    if not test.passed(ended):
        return {
            "status": ends.NOT_RUN,
            "reason": f"no test of it ran: exit code {ended.returncode}",
        }
    text, must_fail = test.inverted()
    told_again = again(text)
    if not must_fail or len(test.failed(told_again)) < len(must_fail) or not told_again.returncode:
        return {"status": ends.NOT_RUN, "reason": "it passes with its claims reversed, too"}
    return {"status": ends.PASSED, "reason": ""}


#: Seconds and bytes of output of one run.
SECONDS, OUTPUT = 60.0, 1 << 20
_LIMITS = JobLimits(
    wall=SECONDS, memory=2 << 30, file_size=16 << 20, processes=256, scratch=256 << 20
)
#: Characters of an output that are recorded, both ends, and of a reason.
_SHOWN, _REASON = 16_000, 300
#: Where the sandbox shows what is ours.
_INSIDE, _OWN, _OUT = "/proof/inside", "/proof/own", "/proof/out"
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside")
#: Ways to run it: where each function returns what cannot be used, and to see what it does.
HOLLOW, WATCHED = "hollow", "watched"
_NO_SPACE = frozenset((errno.EFBIG, errno.ENOSPC, errno.EDQUOT))


class Launcher:
    """Runs reproductions on ``trees``, each for ``seconds`` at most."""

    def __init__(self, trees: ProofTrees, seconds: float = SECONDS) -> None:
        self._trees = trees
        self._limits = _LIMITS.replace(wall=seconds)

    def run(self, reproduction: Reproduction, side: str, how: str = "") -> dict[str, Any]:
        """The record of a run. Raises UnavailableError if the setup fails, ConfigError."""
        trees = self._trees
        if reproduction.kind == ends.TEST and not reproduction.path.endswith(".py"):
            return self._by_validator(reproduction, side, how)
        folder, python = trees.folder(side), trees.python()
        if not python:
            return record(ends.NOT_RUN, "there is no Python")
        token = secrets.token_hex(16)
        with (
            files.scratch_folders("own", "out") as (source, out),
            _Written(folder) as written,
        ):
            control = _Control(reproduction.kind)
            order = {
                "kind": reproduction.kind, "root": trees.root, "paths": trees.python_paths(side),
                "scratch": HOME, "report": f"{_OUT}/report", "token": token, "how": how,
                "controls": control.scripts, "warning": expected_warning(reproduction.expects),
            }  # fmt: skip
            if reproduction.kind == ends.SCRIPT:
                files.write(os.path.join(source, "script.py"), _bytes(reproduction.content), 0o600)
                order |= {"file": f"{_OWN}/script.py", "control": ""}
            else:
                beside = os.path.join(
                    os.path.dirname(reproduction.path), f"test_control_{token[:8]}.py"
                )
                if reason := written.write(
                    {reproduction.path: reproduction.content, beside: control.tests}
                ):
                    return record(ends.NOT_RUN, reason)
                inside = [os.path.join(trees.root, path) for path in (reproduction.path, beside)]
                order |= {"file": inside[0], "control": inside[1]}
            ended = self._started(
                (python, "-s", "-B", "-X", "utf8", f"{_INSIDE}/reproduce.py"),
                side,
                json.dumps(order).encode("ascii"),
                (Mount(_PROGRAM, _INSIDE), Mount(source, _OWN), Mount(out, _OUT, writable=True)),
                slower=2 if how == WATCHED else 1,
            )
            report = _report(os.path.join(out, "report"), token)
        outcome = _judged(ended, report, control.expected, trees.root)
        if side != BASE and (changed := next(filter(trees.differs, _texts(report, "plugins")), "")):
            reason = f"the change edits {printable(changed)}, a plugin of the tests"
            return record(ends.NOT_RUN, reason, outcome["output"])
        return outcome

    def _by_validator(self, reproduction: Reproduction, side: str, how: str) -> dict[str, Any]:
        trees = self._trees
        test = ForeignTest(reproduction, trees.proof_path.validator, trees.root)
        folder = trees.folder(side)
        with _Written(folder) as written:
            if how == WATCHED:
                written.add(trees.comments(side))
            why = written.write({reproduction.path: reproduction.content}) or why_not(test, folder)
            if why:
                return record(ends.NOT_RUN, why)
            argv = test.argv(folder) or ()

            def again(text: str) -> StreamResult:
                files.write(os.path.join(folder, reproduction.path), _bytes(text), 0o600)
                return self._started(argv, side, mounts=trees.caches(side))

            ended = self._started(argv, side, mounts=trees.caches(side))
            outcome = _beyond_bounds(ended) or record_of(test, ended, again)
        return record(**outcome, output=_shown(ended, trees.root))

    def shell(self, line: str, side: str) -> StreamResult:
        """How a line of shell ends at the root of a tree. Raises as ``run``."""
        paths = os.pathsep.join(self._trees.python_paths(side))
        return self._started((SHELL, "-c", line), side, paths=paths)

    def _started(
        self,
        argv: tuple[str, ...],
        side: str,
        stdin: bytes = b"",
        mounts: tuple[Mount, ...] = (),
        *,
        paths: str = "",
        slower: int = 1,
    ) -> StreamResult:
        heard = 0
        stop, stopping = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

        def count(data: bytes) -> None:
            nonlocal heard
            before, heard = heard, heard + len(data)
            if before <= OUTPUT < heard:
                os.write(stopping, b"\0")

        trees = self._trees
        job = SandboxJob(
            argv,
            env={
                **ELSEWHERE,
                "PYTHONHASHSEED": "0",
                "PYTHONPATH": paths,
                "PYTEST_ADDOPTS": f"-o cache_dir={HOME}/pytest",  # the tree is read-only
            },
            stdin=stdin,
            mounts=mounts,
            limits=self._limits.replace(wall=self._limits.wall * slower),
            keep=OUTPUT,
        )
        try:
            return trees.run(trees.shown(side), job, count, stop)
        finally:
            os.close(stop)
            os.close(stopping)


class _Control:
    """Tests beside the reproduction that must fail and pass, under names of no meaning.

    They are methods and functions, which frameworks run in different ways.
    """

    def __init__(self, kind: str) -> None:
        word, other, mark = (secrets.token_hex(8) for _ in range(3))
        fails = f"assert '{word}' == '{other}', '{mark}'"
        compares = f"self.assertEqual('{word}', '{other}', '{mark}')"
        passes = f"assert '{word}' == '{word}', '{mark}'"
        methods, functions = ({_name(): body for body in some} for some in (
            (fails, compares, passes), (fails, passes),
        ))  # fmt: skip
        self.tests = "import unittest\n\n" + "".join(
            f"def {name}():\n    {body}\n\n" for name, body in functions.items()
        )
        self.tests += f"class Test{secrets.token_hex(4)}(unittest.TestCase):\n" + "".join(
            f"    def {name}(self):\n        {body}\n" for name, body in methods.items()
        )
        self.scripts = functions
        controls = functions if kind == ends.SCRIPT else methods | functions
        #: What must be in the exception of each; "" where there is none.
        self.expected = {name: "" if body == passes else mark for name, body in controls.items()}


def _name() -> str:
    return f"test_{secrets.token_hex(6)}"


class _Written:
    """Files that lie in a tree while a reproduction runs."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made: list[str] = []
        self._before: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for path in reversed(self._made):
            files.clear(path)
        for path, data in self._before.items():
            files.write(path, data, 0o600)

    def add(self, texts: Mapping[str, bytes]) -> None:
        """Put texts behind what files of the tree have."""
        for path, data in texts.items():
            full_path = os.path.join(self._folder, path)
            self._before[full_path] = files.read(full_path, OUTPUT)
            files.write(full_path, self._before[full_path] + data, 0o600)

    def write(self, texts: Mapping[str, str]) -> str:
        """Write new files; why not, where one is there already, or would lie elsewhere."""
        for path, text in texts.items():
            *folders, name = path.split("/")
            parent = self._folder
            for part in folders:
                parent = os.path.join(parent, part)
                if not os.path.lexists(parent):
                    try:
                        os.mkdir(parent, 0o700)
                    except OSError as error:
                        return f"{printable(path)[:_REASON]} cannot be written: {error.strerror}"
                    self._made.append(parent)
                if os.path.islink(parent) or not os.path.isdir(parent):
                    return f"{printable(path)} leads out of the tree"
            full_path = os.path.join(parent, name)
            if os.path.lexists(full_path):
                return f"{printable(path)} is a file of the project"
            self._made.append(full_path)
            files.write(full_path, _bytes(text), 0o600)
        return ""


def _report(path: str, token: str) -> Mapping[str, Any]:
    """What our program reported; empty if that is not clear."""
    try:
        report = json.loads(files.read(path, OUTPUT))
    except (files.UnreadableError, ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) and report.get("token") == token else {}


def _texts(report: Mapping[str, Any], name: str) -> list[str]:
    texts = report.get(name)
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []


def record(
    status: str,
    reason: str,
    output: str = "",
    failures: tuple[Mapping[str, Any], ...] = (),
    uses: tuple[ProjectUse, ...] = (),
) -> dict[str, Any]:
    return {
        "status": status, "reason": printable(steady(reason))[:_REASON], "output": steady(output),
        "failures": list(failures), "uses": [use.to_dict() for use in uses],
    }  # fmt: skip


def _judged(
    ended: StreamResult, report: Mapping[str, Any], expected: Mapping[str, str], root: str
) -> dict[str, Any]:
    """A run as its record: first whether it stayed within its bounds, then what it reported."""
    outcome = _beyond_bounds(ended)
    if not outcome and not report:
        reason = f"it ended before its end, with code {ended.returncode}"
        outcome = {"status": ends.NOT_RUN, "reason": reason}
    return record(**(outcome or _of_report(report, expected, root)), output=_shown(ended, root))


def _shown(ended: StreamResult, root: str) -> str:
    output = ended.output.text().replace(f"{root}/", "").replace(f"{_OWN}/script.py", "script.py")
    if len(output) > _SHOWN:
        output = f"{output[: _SHOWN // 4]}\n…\n{output[-_SHOWN * 3 // 4 :]}"
    return output


def _beyond_bounds(ended: StreamResult) -> dict[str, Any]:
    """How a run ended that did not stay within its bounds; empty for one that did."""
    if ended.reason == "timeout":
        reason = f"it takes more than {SECONDS:.0f} seconds"
        return {"status": ends.TIMEOUT, "reason": reason}
    if ended.output.size > OUTPUT or ended.reason in {"stopped", "disk"}:
        reason = f"it prints or writes more than {OUTPUT >> 20} MiB"
        return {"status": ends.TOO_MUCH_OUTPUT, "reason": reason}
    if ended.reason:
        return {"status": ends.NOT_RUN, "reason": f"it uses more than it may: {ended.reason}"}
    return {}


def _of_report(report: Mapping[str, Any], expected: Mapping[str, str], root: str) -> dict[str, Any]:
    try:
        failures = tuple(
            failure.replace(message=steady(failure.message.replace(f"{root}/", "")))
            for failure in map(ClaimFailure.from_dict, report["failures"])
        )
        controls, passed = dict(report["controls"]), list(report["passed"])
        uses = tuple(ProjectUse(*map(str, use)) for use in report["uses"])
        skipped, problem = report["skipped"], str(report["problem"])
    except (KeyError, TypeError, ValueError):
        return {"status": ends.NOT_RUN, "reason": "its report cannot be read"}
    reason = ""
    if foreign := _texts(report, "foreign"):
        reason = f"{foreign[0][:80]} is imported from the environment, and not from the tree"
    elif problem:
        reason = problem
    elif not all(_holds(controls.get(name), mark) for name, mark in expected.items()):
        reason = "code under test changes how tests end: a control test did not end as it must"
    if reason:
        return {"status": ends.NOT_RUN, "reason": reason}
    records = tuple(failure.to_dict() for failure in failures)
    if any(failure.errno == errno.EROFS for failure in failures):
        return {"status": ends.CHANGED_FILES, "reason": "it tries to change files of the project"}
    if any(failure.errno in _NO_SPACE for failure in failures):
        return {"status": ends.TOO_MUCH_OUTPUT, "reason": "it writes more than it may"}
    if failures:
        reason = failures[0].summary
        return {"status": ends.FAILED, "reason": reason, "failures": records, "uses": uses}
    if not passed:
        reason = "its tests are skipped" if skipped else "it has no test"
        return {"status": ends.NOT_RUN, "reason": reason}
    return {"status": ends.PASSED, "reason": "", "uses": uses}


def _holds(end: object, mark: str) -> bool:
    if not mark:
        return end == "passed"
    return isinstance(end, str) and end.startswith("AssertionError") and mark in end


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
