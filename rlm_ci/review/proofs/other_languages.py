"""Reproductions that are tests in Go, JavaScript, TypeScript or Rust, run by the validator.

Here the project's own runner tells how a test ended. So a test that passes is run once more with
its claims reversed: if it does not fail then, its passing shows nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from random import SystemRandom

from rlm_ci.canary import forms, readers
from rlm_ci.review.proofs import reproduction as ends
from rlm_ci.review.proofs.levels import MISSING, ClaimFailure
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import printable
from rlm_ci.validators import outcomes, parsers
from rlm_ci.validators.test_selection import narrowed
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.review.proofs.reproduction import Reproduction
    from rlm_ci.system.command_line import Command
    from rlm_ci.system.process import StreamResult

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
