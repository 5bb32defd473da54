"""What a fix loop came to, as the one report that every surface shows."""

from __future__ import annotations

import re

from rlm_ci.errors import OK
from rlm_ci.fix.gates import gate
from rlm_ci.fix.roles import spoken
from rlm_ci.guard.secret_in_diff import DISCLOSED, TOO_LARGE
from rlm_ci.report.findings import (
    INCOMPLETE,
    Coverage,
    Document,
    Evidence,
    Finding,
    Part,
    Report,
    Severity,
)
from rlm_ci.runs.state import FAILED, NO_CHANGE, NO_PROGRESS, PASSED
from rlm_ci.text.line_references import marked
from rlm_ci.text.printable import clip, count, first_of
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.errors import RlmCiError
    from rlm_ci.fix.loop import FixEnd, ValidationResult
    from rlm_ci.fix.options import FixOptions
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.report.findings import Location, Subject, Usage

PART = "rlm"
#: The rule of a run that ends well by its terms, though its agent never did anything.
IDLE = "rlm/agent-failed"
GATE = "rlm/gate-failed"
#: The rule of a run that ended because an analysis before a turn failed.
ANALYSIS_FAILED = "rlm/analysis-failed"
RULES = {
    "agent-failed": Severity.MEDIUM,
    "gate-failed": Severity.MEDIUM,
    "analysis-failed": Severity.HIGH,
}
_BARE_CODE = re.compile(r"exit code \d+")
#: Characters of what an agent said.
_SAID = 300
#: What it said at the end, beside its changes: characters, files.
SUMMARY = "rlm/summary.txt"
_SUMMARY, _ROWS = 2_000, 20


class ApplyResult(Value):
    """What became of the result: applied, where it is ``is_requested`` and there is no ``reason``.

    ``by_hand`` is the command that applies its patch, ``converted`` names the files for which
    ``git apply`` does not.
    """

    is_requested: bool = False
    reason: str = ""
    converted: str = ""
    by_hand: str = ""

    @property
    def applied(self) -> bool:
        return self.is_requested and not self.reason


class FixDetails(Value):
    """What a report says of a loop besides its options and its end.

    ``files`` is how many the result changes. ``canary``, ``plain_run`` and ``tests`` say in a line
    what the canary found, what came of a run as the user has it, and of edits to tests.
    """

    iterations: int
    files: int
    home: ApplyResult = ApplyResult()
    patch: str | None = None
    canary: str = ""
    plain_run: str = ""
    tests: str = ""
    omitted: tuple[tuple[str, str], ...] = ()
    #: What the agent said last, and the changed files with their numbers of lines.
    last_message: str = ""
    status: str = ""
    #: What the state keeps of each turn, with the number of its iteration.
    turns: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    #: Analyses that failed: the role, the iteration and the error's code.
    failed: tuple[str, ...] = ()
    #: The log of the validator's last run, and its last lines.
    log: str = ""
    printed: tuple[str, ...] = ()

    def offered(self) -> list[str]:
        """Which role was offered which analysis."""
        return [f"{spoken(turn['role'])} in iteration {n}: {turn['analysis']}"
                for n, turn in self.turns if turn["analysis"]]  # fmt: skip

    def taken_back(self) -> list[str]:
        """What was taken back from roles that may not edit."""
        return [
            f"{turn['role']} in iteration {n}: {first_of(turn['takenBack'].splitlines(), 'file')}"
            for n, turn in self.turns
            if turn["takenBack"]
        ]

    def objector(self) -> str:
        """The role that had the last word and asks for a revision; "" if there is none."""
        last = self.turns[-1][1] if self.turns else {}
        return str(last["role"]) if last.get("verdict") == "revise" else ""

    def document(self, reason: str, *, has_place: bool = True) -> Document | None:
        """What the agent says that it did, beside what it changed; the ``reason`` has the rest.

        Where the validator fails and no place is known, its last lines.
        """
        summary = clip(self.last_message.strip(), _SUMMARY)
        lines = [f"The agent says: {marked(summary)}"] if summary and summary not in reason else []
        rows = self.status.splitlines()
        lines += rows[:_ROWS]
        if len(rows) > _ROWS:
            lines.append(f"and {count(len(rows) - _ROWS, 'more file')}")
        lines += _listed("analysis for the", self.offered())
        lines += _listed("failed analysis for the", list(self.failed))
        lines += _listed("changes taken back from the", self.taken_back())
        if self.printed and not has_place:
            lines += ["The last lines of the validator:", *self.printed]
        return Document(SUMMARY, "\n".join(lines), shown=True) if lines else None


def build(
    ended: FixEnd,
    options: FixOptions,
    account: FixDetails,
    subject: Subject,
    usage: Usage,
    *,
    error: RlmCiError | None = None,
) -> Report:
    """The report: how it ended, what the validator still says, what must not be in a fix.

    The fail level is always ``high``. An ``error`` is the one cause of its exit code.
    """
    final = ended.final
    parts = [
        Part(
            PART,
            _summary(ended, options, account),
            {
                "status": final.status,
                "iterations": account.iterations,
                "files": account.files,
                "agent": options.agent,
                "roles": options.roles,
                "validator": options.validator or "",
                "sandbox": options.sandbox,
                "applied": account.home.applied,
                "not_applied": account.home.reason or None,
                "patch": account.patch,
                "canary": account.canary or None,
                "allowed": ", ".join(options.allowed) or None,
                "by_hand": account.home.by_hand or None,
                "analyses": "; ".join(account.offered()[:_ROWS]) or None,
                "failed_analyses": "; ".join(account.failed[:_ROWS]) or None,
                "taken_back": len(account.taken_back()) or None,
                "gates": gate.summary(ended.judged.gates) or None,
            },
            _of_run(ended, account),
            state=INCOMPLETE if final.exit_code != OK else None,
            error=error,
        )
    ]
    has_place = True
    if not ended.judged.passed and error is None and final.status != FAILED:
        if ended.judged.held_by(gate.FAILED):
            parts.append(_gates(ended.judged))
        elif options.validator and not ended.judged.gates:
            parts.append(_validator(ended.judged, account.log))
            has_place = any(finding.evidence for finding in ended.judged.findings)
    parts += _remarks(ended.judged)
    if ended.tampering:
        parts.append(_tampering(ended.tampering, fails=final.exit_code != OK and error is None))
    coverage = Coverage(omitted=account.omitted)
    document = account.document(final.reason, has_place=has_place)
    return Report(
        subject,
        Severity.HIGH,
        tuple(parts),
        coverage=coverage,
        usage=usage,
        documents=(document,) if document else (),
    )


def anchored(ended: FixEnd, entries: Mapping[str, TreeEntry]) -> FixEnd:
    """An end whose findings name each place by its content in ``entries``, if it is in there."""

    def verified(location: Location) -> Location | None:
        if location.blob is not None:
            return location
        entry = entries.get(location.path)
        return None if entry is None else location.replace(blob=entry.oid)

    def findings(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return tuple(
            finding.replace(evidence=tuple(filter(None, map(verified, finding.evidence))))
            for finding in findings
        )

    judged = ended.judged.replace(findings=findings(ended.judged.findings))
    return ended.replace(judged=judged, tampering=findings(ended.tampering))


def _summary(ended: FixEnd, options: FixOptions, account: FixDetails) -> str:
    clauses = [ended.final.reason]
    if account.files:
        clauses.append(f"{count(account.files, 'file')} changed")
    elif ended.final.status not in (PASSED, NO_CHANGE, NO_PROGRESS):  # whose reason says it
        clauses.append("no file changed")
    if account.home.applied:
        clauses.append("applied to the work tree")
    elif account.home.reason:
        clauses.append(f"not applied: {account.home.reason}")
    if objector := account.objector():
        clauses.append(f"the {objector} asks for a revision")
    if passed := len(ended.judged.held_by(gate.PASSED)):
        clauses.append(f"{count(passed, 'gate')} passed")
    clauses += [note for note in (account.canary, account.plain_run, account.tests) if note]
    if options.allowed:
        clauses.append(f"allowed: {', '.join(options.allowed)}")
    rules = {finding.rule for finding in ended.tampering}
    if DISCLOSED in rules:
        clauses.append("a secret was removed from the patch, which may not apply without it")
    if TOO_LARGE in rules:
        clauses.append("files that are too large to judge are not in the patch")
    if account.patch and (converted := account.home.converted):
        clauses.append(f"patch -p1 puts the patch in, git apply does not: git converts {converted}")
    if not options.isolated:
        clauses.append("its commands ran without a sandbox")
    return "; ".join(clauses)


def _of_run(ended: FixEnd, account: FixDetails) -> tuple[Finding, ...]:
    """What speaks against the run itself."""
    final = ended.final
    if final.status == FAILED:
        return (Finding(ANALYSIS_FAILED, Severity.HIGH, marked(final.reason)),)
    return (_idle(ended.idled, account),) if ended.idled and final.exit_code == OK else ()


def _listed(what: str, rows: list[str]) -> list[str]:
    more = [f"and {len(rows) - _ROWS:,} more"] if len(rows) > _ROWS else []
    return [f"{what} {row}" for row in rows[:_ROWS]] + more


def _idle(why: str, account: FixDetails) -> Finding:
    turns = "its turn" if account.iterations == 1 else f"each of its {account.iterations} turns"
    return Finding(
        IDLE,
        Severity.MEDIUM,
        f"the agent failed in {turns}, and changed nothing: {marked(why[:_SAID])}",
        hint="what it said is in the folder of the run, under rlm/iteration-1; "
        "with a validator such a run ends with another code than 0",
    )


def _validator(judged: ValidationResult, log: str) -> Part:
    """What still fails: the reason why the work is not done, not a verdict on it.

    Where no place is known, a reader needs the ``log``.
    """
    left = tuple(
        finding.replace(severity=min(finding.severity, Severity.MEDIUM))
        for finding in judged.findings
    )
    clauses = [f"{count(len(left), 'failure')} left"] if left else []
    if not _BARE_CODE.fullmatch(judged.reason):  # a time limit, a signal, no test that ran
        clauses.insert(0, judged.reason or "it fails")
    elif not left:
        clauses = [f"it fails with {judged.reason}, and names no place"]
    places = sum(len(finding.evidence) for finding in left)
    if log and not places:
        clauses.append(f"see {log}")
    return Part("validator", "; ".join(clauses), {"failures": len(left)}, left, state=INCOMPLETE,
                evidence=Evidence(places, places))  # fmt: skip


def _gates(judged: ValidationResult) -> Part:
    """The gates that keep the work from being done: each is a finding, with those of its run."""
    failed = judged.held_by(gate.FAILED)
    left = tuple(
        finding.replace(severity=min(finding.severity, Severity.MEDIUM))
        for finding in judged.findings
    )
    findings = tuple(
        Finding(
            GATE,
            Severity.MEDIUM,
            f"gate {result.name} fails: {marked(result.reason)}",
            subject=result.name,
        )
        for result in failed
    )
    places = sum(len(finding.evidence) for finding in left)
    return Part("gates", gate.summary(judged.gates), {"failed": len(failed)}, findings + left,
                state=INCOMPLETE, evidence=Evidence(places, places))  # fmt: skip


def _remarks(judged: ValidationResult) -> list[Part]:
    """What gates that pass have to say of the result: no reason to fail it."""
    results = [result for result in judged.held_by(gate.PASSED) if result.findings]
    if not results:
        return []
    findings = tuple(finding for result in results for finding in result.findings)
    summary = "; ".join(f"{result.name}: {result.reason}" for result in results)
    places = sum(len(finding.evidence) for finding in findings)
    evidence = Evidence(places, places)
    return [Part("remarks", summary, {"remarks": len(findings)}, findings, evidence=evidence)]


def _tampering(findings: tuple[Finding, ...], *, fails: bool) -> Part:
    """Edits that weaken what decides; without a validator they do not fail the run."""
    severity = Severity.HIGH if fails else Severity.MEDIUM
    capped = tuple(
        finding.replace(severity=min(finding.severity, severity)) for finding in findings
    )
    places = sum(len(finding.evidence) for finding in capped)
    refused = sum(finding.fails(Severity.HIGH) for finding in findings)
    summary = f"{count(refused, 'finding')} against the result" if refused else "nothing refused"
    allowed = sum(finding.suppression is not None for finding in findings)
    if others := len(findings) - refused - allowed:
        summary += f", {others:,} to look at"
    if allowed:
        summary += f", {allowed:,} allowed by --allow"
    return Part("tamper", summary, {"refused": refused}, capped, evidence=Evidence(places, places))
