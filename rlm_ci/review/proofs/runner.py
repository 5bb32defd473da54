"""Runs the reproduction of a claim at head and at the base, and says what that shows.

Each run is a fact of the run's record: a resumed review runs none again, and a replay runs none.
``rlm-ci verify RUN --run-proofs`` runs the proofs of a stored review once more.
"""

from __future__ import annotations

import os
import threading
from functools import partial

from rlm_ci.canary import readers
from rlm_ci.errors import ConfigError, DamagedError, UnavailableError, UsageError
from rlm_ci.redaction.token_forms import SIGN
from rlm_ci.report.proof import ARGUED, PASSES, PROVEN, REPRODUCED
from rlm_ci.review.proofs import launch
from rlm_ci.review.proofs import reproduction as ends
from rlm_ci.review.proofs.repair import RepairTrial
from rlm_ci.review.proofs.reproduction import (
    ClaimFailure,
    ProjectUse,
    ProofOutcome,
    RepairOutcome,
    Reproduction,
    ReproductionRun,
    RunOutcome,
)
from rlm_ci.runs import checksums
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.trials.trees import BASE, HEAD, ProofTrees
from rlm_ci.validators import test_file_names
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.review.proofs.reproduction import StoredProof
    from rlm_ci.runs import Fact
    from rlm_ci.system.process import StreamResult
    from rlm_ci.trials.trees import ProofPlace


#: Characters of a reason, and of a reproduction.
_REASON, LARGEST = 300, 32_000
#: Says what runs tests in Python, and asks pytest itself how it treats warnings.
_FRAMEWORK = r"""import contextlib, importlib.util, io
if importlib.util.find_spec("pytest"):
    import pytest
    filters = []
    class Ask:
        def pytest_configure(self, config):
            filters.extend(config.getoption("pythonwarnings") or ())
            filters.extend(config.getini("filterwarnings"))
            pytest.exit("it is known")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main([], plugins=[Ask()])
    print("pytest", pytest.__version__)
    if any(each.strip().partition(":")[0] == "error" for each in filters):
        print("Warnings are errors, with these filters:", "; ".join(map(str.strip, filters)))
else:
    print("unittest (pytest is not installed)")
"""
#: Why a test shows nothing that ends otherwise where code has comments more.
_TEXT = "it reads the project's code as text: with comments more in the code it ends otherwise"
#: Characters of what a setup printed.
_LOG = 8_000


class ProofRunner(Closing):
    """Runs reproductions, one at a time; ``fact`` records each run, ``tell`` hears of long ones."""

    def __init__(
        self,
        proof_place: ProofPlace,
        fact: Fact,
        *,
        seconds: float = launch.SECONDS,
        tell: Callable[[str], object] = str,
    ) -> None:
        self._fact = fact
        self._setup = "" if proof_place.setup is None else printable(proof_place.setup.text)
        self._tell = tell
        self._trees = ProofTrees(proof_place)
        self._validator = proof_place.validator
        self._launcher = launch.Launcher(self._trees, seconds)
        self._lock = threading.Lock()
        self._key = {
            "base": proof_place.base,
            "head": proof_place.head,
            "setup": list(proof_place.setup.argv) if proof_place.setup else None,
            "validators": [validator.text for validator in proof_place.validators],
        }
        self._available: str | None = None
        #: What the setup printed, if it failed.
        self._log = ""
        self._repairs = RepairTrial(self._trees, fact, self._key, self._ran, tell)

    def close(self) -> None:
        self._trees.close()

    @property
    def available(self) -> str:
        """Why nothing can be run, in a line; "" where it can."""
        if self._available is None:
            record = self._fact("reproducible", "proofs", self._key, self._ready)
            self._available, self._log = str(record["why"]), str(record["output"])
        return self._available

    def _ready(self) -> Mapping[str, str]:
        if self._setup:
            self._tell(f"running {self._setup} for the reproductions")
        why = self._trees.why_not()
        return {"why": why, "output": self._trees.setup_output[-_LOG:]}

    def check(self, reproduction: Reproduction, *, unmended: bool = False) -> ProofOutcome:
        """What runs of a reproduction show. Raises StorageError, and ConfigError in a replay.

        ``unmended``: the claim is that head still has a fault of the base.
        """
        outcome = partial(self._argued, reproduction)
        if reason := self.available or _misshapen(reproduction):
            return outcome(reason, RunOutcome(ends.NOT_RUN, reason, self._log))
        head = self._ran(reproduction, HEAD, 1)
        if head.outcome.status == ends.PASSED:
            again = self._ran(reproduction, HEAD, 2).outcome
            if again.status != ends.PASSED:
                return outcome(f"{PASSES}, and not each time", _flaky(again))
            return outcome(PASSES, head.outcome)
        if head.outcome.status != ends.FAILED:
            return outcome(f"at head {head.outcome.reason}", head.outcome)
        if head.fails_as(reproduction.expects) is None:
            messages = "; ".join(failure.summary for failure in head.failures[:2])
            return outcome(
                f"at head it fails by {messages}, which is not what is claimed", head.outcome
            )
        base = self._ran(reproduction, BASE, 1)
        return self._compared(reproduction, head, base, unmended=unmended)

    def try_repair(self, patch: str, reproduction: Reproduction) -> RepairOutcome:
        """Whether a patch for head mends what a reproduction shows, and harms nothing else."""
        if reason := self.available or _misshapen(reproduction):
            return RepairOutcome(ok=False, reason=reason)
        return self._repairs.attempt(patch, reproduction)

    def start_validator(self) -> None:
        """Run the validator on head, before a repair is asked for that it is to judge."""
        if not self.available:
            self._repairs.start()

    def framework(self) -> str:
        """What runs tests in Python here, and whether warnings are errors, in lines."""
        ran = self._ran(Reproduction("script.py", _FRAMEWORK, ends.SCRIPT, ""), BASE, 1).outcome
        return ran.output.strip() if ran.status == ends.PASSED else ""

    def compare(self, script: str) -> tuple[str, str]:
        """What a Python script prints at head, and at the base, and how it ends there."""
        reproduction = Reproduction("script.py", script, ends.SCRIPT, "")
        if reason := self.available or _misshapen(reproduction):
            return (f"not run: {reason}",) * 2
        head, base = (self._ran(reproduction, side, 1) for side in (HEAD, BASE))
        return _printout(head.outcome), _printout(base.outcome)

    def shell(self, line: str, side: str) -> StreamResult:
        """How a line of shell ends on a side, which it cannot change; the caller records it.

        Raises UnavailableError, ConfigError.
        """
        with self._lock:
            return self._launcher.shell(line, side)

    def _compared(
        self,
        reproduction: Reproduction,
        head: ReproductionRun,
        base: ReproductionRun,
        *,
        unmended: bool,
    ) -> ProofOutcome:
        """What a reproduction that fails at head as claimed shows, by how it ends at the base."""
        if base.outcome.status == ends.PASSED:
            return self._settled(
                reproduction, head, base, PROVEN, "fails at head, passes at the base"
            )
        if base.outcome.status != ends.FAILED:
            return self._argued(
                reproduction, f"at the base {base.outcome.reason}", head.outcome, base.outcome
            )
        first = next(iter(base.failures), ClaimFailure((), ""))
        is_alike = base.fails_as(reproduction.expects) is not None
        is_python = _is_python(reproduction)
        if not is_python and first.says_missing:  # runners print the code of a test, too
            is_alike = is_alike and head.failures[0].says_missing
        is_left = unmended and is_alike
        if not is_left and (is_alike or not first.says_missing):
            reason = (
                ends.FAILS_ALIKE if is_alike else f"it fails at the base, too, by {first.summary}"
            )
            return self._argued(reproduction, reason, head.outcome, base.outcome)
        why = "at the base for the same reason"
        if not is_left:
            why = f"the base has nothing to compare with: {first.summary}"
            gone = base.outcome.replace(status=ends.NOT_APPLICABLE, reason=why)
            base = base.replace(outcome=gone)
        if is_python:
            hollow = self._ran(reproduction, HEAD, 1, launch.HOLLOW)
            if hollow.failures[:1] and hollow.failures[0].is_like(head.failures[0]):
                reason = "it fails whatever the project's code returns"
                return self._argued(reproduction, reason, head.outcome, base.outcome)
        return self._settled(reproduction, head, base, REPRODUCED, f"fails at head; {why}")

    def _settled(
        self,
        reproduction: Reproduction,
        head: ReproductionRun,
        base: ReproductionRun,
        level: str,
        reason: str,
    ) -> ProofOutcome:
        """The level, if both sides end the same way once more."""
        for side, before in ((HEAD, head), (BASE, base)):
            again = self._ran(reproduction, side, 2)
            is_same = [*map(_kinds, again.failures)] == [*map(_kinds, before.failures)]
            if again.outcome.status == ends.PASSED == before.outcome.status or (
                again.failures and is_same
            ):
                continue
            where = "head" if side == HEAD else "the base"
            reason = f"at {where} it does not end the same way each time"
            runs = {HEAD: head.outcome, BASE: base.outcome, side: _flaky(again.outcome)}
            return self._argued(reproduction, reason, runs[HEAD], runs[BASE])
        uses, reason_not = self._watched(reproduction, head, base)
        if reason_not:
            return self._argued(reproduction, reason_not, head.outcome, base.outcome)
        failure = head.fails_as(reproduction.expects)
        line = "" if failure is None else encodable(failure.line)
        by = self._command(reproduction)
        return ProofOutcome(level, reason, head.outcome, base.outcome, by, line, uses)

    def _watched(
        self, reproduction: Reproduction, head: ReproductionRun, base: ReproductionRun
    ) -> tuple[tuple[ProjectUse, ...], str]:
        """What it does to the project besides calling it, and why it shows nothing, "" if it may.

        Of other languages than Python nothing sees what a test does. There the code has comments
        more, with all that the other side has: whoever reads code as text is told by that.
        """
        is_python = _is_python(reproduction)
        for side, before in ((HEAD, head), (BASE, base)):
            now = self._ran(reproduction, side, 1, launch.WATCHED)
            has_passed = (now.outcome.status == ends.PASSED, before.outcome.status == ends.PASSED)
            if not is_python and has_passed[0] != has_passed[1]:
                return (), _TEXT
            if now.outcome.status not in {ends.PASSED, ends.FAILED}:
                return (), f"what it does could not be seen: {now.outcome.reason}"
            if is_python:
                return now.uses, ""
        return (), ""

    def _argued(
        self,
        reproduction: Reproduction,
        reason: str,
        head: RunOutcome,
        base: RunOutcome | None = None,
    ) -> ProofOutcome:
        reason = reason[:_REASON]
        return ProofOutcome(ARGUED, reason, head, base, self._command(reproduction))

    def _command(self, reproduction: Reproduction) -> str:
        """A line with which a person runs it, once it lies at its path."""
        if reproduction.kind == ends.SCRIPT:
            return "python reproduction.py"
        if _is_python(reproduction):
            return f"python -m pytest {printable(reproduction.path)[:200]}"
        test = launch.ForeignTest(reproduction, self._validator, self._trees.root)
        return printable(test.command())[:_REASON]

    # ── one run ──

    def _ran(
        self, reproduction: Reproduction, side: str, number: int, how: str = ""
    ) -> ReproductionRun:
        key = {**self._key, **reproduction.to_dict(), "side": side, "how": how}

        def produce() -> Mapping[str, Any]:
            if (side, number, how) == (HEAD, 1, ""):
                self._tell(f"running the reproduction {printable(reproduction.path)}")
            with self._lock:
                try:
                    return self._launcher.run(reproduction, side, how)
                except (UnavailableError, ConfigError) as error:
                    return launch.record(ends.NOT_RUN, f"nothing could be run: {error.what}")

        name = "-".join(filter(None, (how, side, str(number))))
        record = self._fact("reproduction", f"proofs/{reproduction.digest}/{name}", key, produce)
        outcome = RunOutcome(*(str(record[name]) for name in ("status", "reason", "output")))
        failures = tuple(map(ClaimFailure.from_dict, record["failures"]))
        uses = tuple(
            ProjectUse(*(str(use[of]) for of in ProjectUse._fields)) for use in record["uses"]
        )
        return ReproductionRun(outcome, failures, uses)


def _is_python(reproduction: Reproduction) -> bool:
    return reproduction.kind == ends.SCRIPT or reproduction.path.endswith(".py")


def _misshapen(reproduction: Reproduction) -> str:
    """Why a reproduction is none that can be run; "" where it is one."""
    if reproduction.kind not in {ends.TEST, ends.SCRIPT}:
        return f"a reproduction is a test or a script, and no {printable(reproduction.kind)[:40]}"
    if len(reproduction.content) > LARGEST or not reproduction.content.strip():
        return "the reproduction is empty, or too long"
    if SIGN in reproduction.content:
        # Of an answer only this is kept, and what runs must be what is kept.
        return "a text in it looks like a secret, and was removed: put it together from parts"
    if reproduction.kind == ends.SCRIPT:
        return ""
    path = reproduction.path
    if {"", ".", "..", ".git"} & set(path.split("/")) or "\0" in path or len(path) > _REASON:
        return "its path is none of a file in the project"
    if not (readers.is_known(path) and test_file_names.is_file(path)):
        return "it is no file of tests, by its name, in a language whose tests can be run"
    return ""


def _kinds(failure: ClaimFailure) -> tuple[str, ...]:
    return failure.kinds


def _flaky(outcome: RunOutcome) -> RunOutcome:
    return outcome.replace(status=ends.FLAKY, reason="it does not end the same way each time")


def _printout(outcome: RunOutcome) -> str:
    end = "" if outcome.status == ends.PASSED else f"[{outcome.reason or outcome.status}]"
    return f"{outcome.output.rstrip()}\n{end}".strip()


class ProofsAgain(Value):
    """How many proofs were run, and those that ended otherwise than the run says."""

    ran: int = 0
    problems: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """In a line, for people."""
        if not self.ran:
            return "no proof was run again" if self.problems else "the run has no proofs"
        outcome = f"{len(self.problems):,} not as before" if self.problems else "as before"
        return f"{count(self.ran, 'proof')} run again: {outcome}"


def run(
    folder: str, proof_place: ProofPlace, tell: Callable[[str], object], only: str | None = None
) -> ProofsAgain:
    """Run the proofs of the run in ``folder``, or ``only`` one; ``tell`` hears of each.

    Raises UnavailableError, and UsageError where there is no such proof.
    """
    records: dict[str, Mapping[str, Any]] = {}

    def remembered(
        kind: str, where: str, _key: Mapping[str, Any], produce: Callable[[], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        name = f"{kind} {where}"
        if name not in records:
            records[name] = produce()
        return records[name]

    # A run of several parts has its review as a run within.
    folders = (folder, *(os.path.join(folder, inner) for inner in checksums.children(folder)))
    try:
        stored = [pair for name in folders for pair in ends.read(os.path.join(name, *ends.PLACE))]
    except DamagedError as error:
        return ProofsAgain(0, (printable(str(error)),))
    if only is not None:
        stored = _chosen(stored, only)
    problems: list[str] = []
    with ProofRunner(proof_place, remembered) as runner:
        if stored and (why := runner.available):
            return ProofsAgain(0, (f"proofs: none can be run here: {why}",))
        for name, proof in stored:
            tell(f"running the proof of {printable(name)[:80]}")
            problems += [
                f"proof of {printable(name)[:80]}: {why}" for why in _unlike(proof, runner)
            ]
    return ProofsAgain(len(stored), tuple(problems))


def _chosen(stored: list[tuple[str, StoredProof]], only: str) -> list[tuple[str, StoredProof]]:
    """The proof that ``only`` names, by its id or its beginning. Raises UsageError."""
    begun = [pair for pair in stored if pair[0].startswith(only)]
    matches = [pair for pair in begun if pair[0] == only] or begun
    if len(matches) == 1:
        return matches
    ids = ", ".join(printable(name) for name, _ in matches or stored)
    name = printable(only)
    what = f"{name} is the beginning of several" if matches else f"the run has no proof {name}"
    raise UsageError(what, where="--proof", hint=f"its proofs: {ids or 'none'}")


def _unlike(proof: StoredProof, runner: ProofRunner) -> list[str]:
    """What is not as it was. The level may be lower than the runs say, and so does not count."""
    differences = []
    before, now = _outcome_words(proof.outcome), _outcome_words(runner.check(proof.reproduction))
    if now != before:
        differences.append(f"now {now}; it was {before}")
    if proof.repair and not (tried := runner.try_repair(proof.repair, proof.reproduction)).ok:
        differences.append(f"its repair does not hold: {tried.reason}")
    return differences


def _outcome_words(outcome: ProofOutcome) -> str:
    base = "not run" if outcome.base is None else printable(outcome.base.status)
    return f"{printable(outcome.head.status)} at head, {base} at the base"
