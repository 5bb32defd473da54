"""A patch for a proven fault, tried: it mends the reproduction, and harms nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
from hashlib import sha256

from rlm_ci.errors import RlmCiError
from rlm_ci.git.objects import TreeEntry
from rlm_ci.guard import guard
from rlm_ci.guard.protected.protection import Protection
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Severity
from rlm_ci.review.proofs import reproduction as ends
from rlm_ci.review.proofs.reproduction import RepairOutcome
from rlm_ci.sandbox import JobLimits, SandboxJob
from rlm_ci.system import files
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import count, printable
from rlm_ci.trials.trees import HEAD
from rlm_ci.validators import outcomes, start_failures, test_reports
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.review.proofs.reproduction import Reproduction, ReproductionRun
    from rlm_ci.runs import Fact
    from rlm_ci.system.command_line import Command
    from rlm_ci.trials.trees import ProofTrees

#: Lines that a patch may add and remove, and its characters.
MOST_LINES, _LONGEST = 30, 16_000
#: Seconds of the validator, and tests that are told by name.
_SECONDS, _MOST = 600.0, 5_000
_TIMEOUT = "timeout"
#: A greater exit code is what a shell gives for a signal.
_SIGNAL = 128
_NO_VALIDATOR = "there is no validator, or more than one: set loop.validator"
_NOT_RUN = {"code": -1, "failed": [], "passed": 0, "last_line": ""}
_SAID = 200
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)")


class RepairJudge(Value):
    """The validator of repairs, and how it ended ``before``, on head.

    Without a ``command`` none can judge, for the reason ``lacking``.
    """

    command: Command | None = None
    before: Mapping[str, Any] = {}
    lacking: str = ""


class RepairTrial:
    """Tries patches on the head of ``trees``; ``ran`` runs a reproduction on a side.

    ``tell`` hears of what may take minutes.
    """

    def __init__(
        self,
        trees: ProofTrees,
        fact: Fact,
        key: Mapping[str, Any],
        ran: Callable[[Reproduction, str, int], ReproductionRun],
        tell: Callable[[str], object],
    ) -> None:
        self._tell = tell
        self._trees = trees
        self._fact = fact
        self._key = key
        self._ran = ran
        self._judge: RepairJudge | None = None

    def start(self) -> RepairJudge:
        """The first validator that can judge what is at head; it runs there once."""
        if self._judge is None:
            self._judge = self._first_able()
        return self._judge

    def _first_able(self) -> RepairJudge:
        failing: RepairJudge | None = None
        refused: dict[str, None] = {}
        for command in self._trees.proof_path.validators:
            before = self._validated(HEAD, command.argv)
            judge = RepairJudge(command, before)
            if _is_able(before, command.argv):
                return judge
            if before["failed"] and not before["reason"]:
                failing = failing or judge
            refused[_why_not(command.text, before)] = None
            if before["reason"] == _TIMEOUT:  # the others would run the same tests
                break
        why = "; ".join(refused) or _NO_VALIDATOR
        return failing or RepairJudge(lacking=f"your tests could not be run: {why}")

    def attempt(self, patch: str, reproduction: Reproduction) -> RepairOutcome:
        """Whether the patch mends what ``reproduction`` shows. Raises StorageError."""
        patch = recounted(patch)
        side = f"repair-{sha256(patch.encode('utf-8', 'backslashreplace')).hexdigest()[:12]}"
        key = {**self._key, "patch": patch}
        fact = self._fact("repair", f"proofs/{side}", key, lambda: {"why": self._laid(side, patch)})
        if why := str(fact["why"]):
            return RepairOutcome(ok=False, reason=why)
        self._trees.patches[side] = patch
        for number in (1, 2):
            outcome = self._ran(reproduction, side, number).outcome
            if outcome.status != ends.PASSED:
                reason = f"with the patch the reproduction does not pass: {outcome.reason}"
                return RepairOutcome(ok=False, reason=reason, is_run=True)
        judge = self.start()
        if judge.command is None:
            reason = f"the reproduction passes; {judge.lacking}"
            return RepairOutcome(ok=True, reason=reason, patch=patch, is_run=True)
        is_own = judge.before["own_conftest"]
        argv, shown = judge.command.argv, printable(judge.command.text)[:_SAID]
        more = " with the change's own conftest.py" if is_own else ""
        reason = f"the reproduction passes, and `{shown}`{more} is as green as before"
        after = self._validated(side, argv, own_conftest=is_own)
        if why := _worse(judge.before, after):
            # A test may fail now and then, whatever the patch does; one that hangs, hangs again.
            is_over = after["reason"] == _TIMEOUT
            second = after if is_over else self._validated(side, argv, 2, own_conftest=is_own)
            if again := _worse(judge.before, second):
                return RepairOutcome(ok=False, reason=again, is_run=True)
            reason = f"{reason} in one of two runs; in the other {why}"
        return RepairOutcome(ok=True, reason=reason, patch=patch, is_run=True)

    def _laid(self, side: str, patch: str) -> str:
        """Lay the tree with the patch; why it is refused, "" if it is not."""
        from rlm_ci.git import patches  # most reviews need no parser

        try:
            hunks = patches.hunks_by_path(patch) if len(patch) <= _LONGEST else {}
        except ValueError as error:
            return printable(f"it is no patch that edits files: {error}")[:_SAID]
        changed = sum(
            line.kind != " " for some in hunks.values() for hunk in some for line in hunk.lines
        )
        if not 0 < changed <= MOST_LINES:
            return f"a repair changes at most {MOST_LINES} lines, and this one {changed:,}"
        trees = self._trees
        head = trees.listed(HEAD)
        if missing := sorted(hunks.keys() - head.modes.keys()):
            return f"{printable(missing[0])[:_SAID]} is no file of the change"
        trees.patches[side] = patch
        try:
            folder = trees.folder(side)
        except RlmCiError as error:
            return printable(f"it does not apply: {error.what}")[:_SAID]
        return _objections(trees, folder, hunks)

    def _validated(
        self,
        side: str,
        argv: tuple[str, ...],
        number: int = 1,
        *,
        own_conftest: bool | None = None,
    ) -> Mapping[str, Any]:
        """How a validator ends on a side, for the ``number``-th time.

        Without ``own_conftest`` it takes the one that loads.
        """

        def produce() -> Mapping[str, Any]:
            ended = self._run(side, argv, own_conftest=bool(own_conftest))
            if own_conftest is not None or ended["reason"] or _is_able(ended, argv):
                return ended
            if not self._trees.edits_conftest():
                return ended
            # The base's conftest.py may not fit the code of the head.
            run = self._run(side, argv, own_conftest=True)
            return run if _is_able(run, argv) or (run["failed"] and not ended["failed"]) else ended

        name = sha256(json.dumps([argv, own_conftest, number]).encode("ascii")).hexdigest()[:12]
        key = {
            **self._key,
            "side": side,
            "argv": list(argv),
            "own_conftest": own_conftest,
            "number": number,
        }
        return self._fact("repair-validator", f"proofs/validator-{side}-{name}", key, produce)

    def _run(self, side: str, argv: tuple[str, ...], *, own_conftest: bool) -> dict[str, Any]:
        """How the validator ends in a copy of a side that it may write to."""
        trees = self._trees
        on = "the change, before repairs" if side == HEAD else "a repair"
        self._tell(f"running {shlex.join(argv)} on {on}, {_SECONDS / 60:.0f} minutes at most")
        copy = trees.copy(side, own_conftest=own_conftest)
        with files.scratch("rlm-ci-") as scratch:
            folder = os.path.realpath(scratch)
            job = SandboxJob(
                argv,
                env=test_reports.environment(folder, trees.root, trees.env, short=True),
                mounts=(*trees.caches(side), *test_reports.mounts(folder)),
                limits=JobLimits(wall=_SECONDS),
                keep=1 << 20,
            )
            try:
                ended = trees.run(trees.shown(side, copy), job)
            except RlmCiError as error:
                return {**_NOT_RUN, "reason": error.what, "own_conftest": own_conftest}
            lines = transcribe(ended.output, str).lines
            test_outcomes = test_reports.read(lines, test_reports.collect(folder), trees.root)
        failed = [
            f"{test.location} {test.name} {test.case}".strip()
            for test in test_outcomes.tests
            if test.state == outcomes.FAILED
        ]
        return {
            "reason": ended.reason,
            "code": ended.returncode,
            "failed": sorted(set(failed))[:_MOST],
            "passed": sum(test.state == outcomes.PASSED for test in test_outcomes.tests),
            "last_line": start_failures.telling_line(lines).replace(f"{trees.root}/", "")[:_SAID],
            "own_conftest": own_conftest,
        }


def recounted(patch: str) -> str:
    """A patch with the counts of lines that its hunks have: models count badly."""
    lines = patch.strip("\n").split("\n")
    head, left = -1, [0, 0]
    for at, line in enumerate([*lines, "@@"]):
        if line.startswith(("@@", "diff ", "--- ")):
            if head >= 0 and (match := _HUNK.match(lines[head])):
                old, new, tail = match.groups()
                lines[head] = f"@@ -{old},{left[0]} +{new},{left[1]} @@{tail}"
            head, left = (at if line.startswith("@@") else -1), [0, 0]
        elif head >= 0:
            lines[at] = line or " "
            left[0] += lines[at][0] in " -"
            left[1] += lines[at][0] in " +"
    return "\n".join(lines) + "\n"


def _is_able(ended: Mapping[str, Any], argv: tuple[str, ...]) -> bool:
    """Whether a validator has run what it is to judge by."""
    # unittest is green without any test; with -v it names each.
    is_green = not ended["code"] and not {"unittest", "-v"} <= {*argv}
    is_killed = not 0 <= ended["code"] <= _SIGNAL  # which tests it did not reach, nobody knows
    return not ended["reason"] and not is_killed and bool(ended["passed"] or is_green)


def _why_not(text: str, ended: Mapping[str, Any]) -> str:
    """Why a validator cannot judge, in a line."""
    why = ended["reason"] or f"{text} ends with exit code {ended['code']}: {ended['last_line']}"
    if ended["reason"] == _TIMEOUT:
        why = f"{text} takes more than {_SECONDS:.0f} seconds"
    return printable(why)[:_SAID]


def _worse(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How the validator is less green than before; "" if it is not."""
    if reason := before["reason"] or after["reason"]:
        return printable(f"the validator was stopped: {reason}")[:_SAID]
    if new := sorted({*after["failed"]} - {*before["failed"]}):
        verb = "fails" if len(new) == 1 else "fail"
        return printable(f"{count(len(new), 'test')} more {verb}: {new[0]}")[:_SAID]
    if after["code"] and (not before["code"] or not after["failed"]):
        return f"the validator ends with exit code {after['code']}"
    if after["passed"] < before["passed"]:
        return f"{after['passed']:,} tests pass, and {before['passed']:,} did before"
    return ""


class _Edited(Value):
    """The contents of the edited files, by what stands for their ids: the path, or a new one."""

    old: Mapping[str, bytes]
    new: Mapping[str, bytes]

    def contents(self, oids: Iterable[str]) -> list[bytes | None]:
        return [{**self.old, **self.new}.get(oid) for oid in oids]

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        listed = list(oids)
        pairs = zip(listed, self.contents(listed), strict=True)
        return {oid: -1 if data is None else len(data) for oid, data in pairs}


def _objections(trees: ProofTrees, folder: str, hunks: Iterable[str]) -> str:
    """What the guard has against the edits of ``hunks``; "" for nothing."""
    head, paths = trees.listed(HEAD), sorted(hunks)
    before = head.read(paths)
    after = {f"\0{path}": files.read_inside(folder, path, 16 << 20) for path in paths}
    base = {path: TreeEntry(mode, "blob", path) for path, mode in head.modes.items()}
    now = {**base, **{path: base[path].replace(oid=f"\0{path}") for path in paths}}

    def read(oids: Iterable[str]) -> list[bytes | None]:
        listed = list(oids)
        contents = head.read(listed)
        return [contents.get(oid) for oid in listed]

    command = trees.proof_path.validator
    protection = Protection.of(base, read, command.text if command else "")
    if of_tests := next(filter(protection.is_of_tests, paths), ""):
        return f"{printable(of_tests)[:_SAID]} is of tests: it decides what green means"
    findings = guard.compared(base, now, _Edited(before, after), protection, Redactor({}))
    refused = next((finding for finding in findings if finding.fails(Severity.HIGH)), None)
    return printable(f"the guard refuses it: {refused.message}")[:_SAID] if refused else ""
