"""What a fix loop came to, as the one report that every surface shows."""

from __future__ import annotations

import re

from rlm_ci.errors import OK
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
from rlm_ci.runs.state import NO_CHANGE, NO_PROGRESS, PASSED
from rlm_ci.text.line_references import marked
from rlm_ci.text.printable import clip, count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.errors import RlmCiError
    from rlm_ci.fix.loop import FixEnd, ValidationResult
    from rlm_ci.fix.options import FixOptions
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.report.findings import Location, Subject, Usage

PART = "rlm"
#: The rule of a run that ends well by its terms, though its agent never did anything.
IDLE = "rlm/agent-failed"
RULES = {
    "agent-failed": Severity.MEDIUM,
}
_BARE_CODE = re.compile(r"exit code \d+")
#: Characters of what an agent said.
_SAID = 300
#: What it said at the end, beside its changes: characters, files.
SUMMARY = "rlm/summary.txt"
_SUMMARY, _ROWS = 2_000, 20


class ApplyResult(Value):
    """What became of the result: applied, where it is ``wanted`` and there is no ``reason``.

    ``by_hand`` is the command that applies its patch, ``converted`` names the files for which
    ``git apply`` does not.
    """

    wanted: bool = False
    reason: str = ""
    converted: str = ""
    by_hand: str = ""

    @property
    def applied(self) -> bool:
        return self.wanted and not self.reason


class FixDetails(Value):
    """What a report says of a loop besides its options and its end.

    ``files`` is how many the result changes. ``canary`` and ``tests`` say in a line what the
    canary found, and what became of edits to tests.
    """

    iterations: int
    files: int
    home: ApplyResult = ApplyResult()
    patch: str | None = None
    canary: str = ""
    tests: str = ""
    omitted: tuple[tuple[str, str], ...] = ()
    #: What the agent said last, and the changed files with their numbers of lines.
    said: str = ""
    status: str = ""

    def document(self, reason: str) -> Document | None:
        """What the agent says that it did, beside what it changed; the ``reason`` has the rest."""
        said = clip(self.said.strip(), _SUMMARY)
        told = [f"The agent says: {marked(said)}"] if said and said not in reason else []
        rows = self.status.splitlines()
        told += rows[:_ROWS]
        if len(rows) > _ROWS:
            told.append(f"and {count(len(rows) - _ROWS, 'more file')}")
        return Document(SUMMARY, "\n".join(told), shown=True) if told else None


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
                "allowed": ", ".join(options.allow) or None,
                "by_hand": account.home.by_hand or None,
            },
            (_idle(ended.idled, account),) if ended.idled and final.exit_code == OK else (),
            state=INCOMPLETE if final.exit_code != OK else None,
            error=error,
        )
    ]
    if options.validator and not ended.judged.passed and error is None:
        parts.append(_validator(ended.judged))
    if ended.tampering:
        parts.append(_tampering(ended.tampering, fails=final.exit_code != OK and error is None))
    coverage = Coverage(omitted=account.omitted)
    document = account.document(final.reason)
    documents = (document,) if document else ()
    return Report(
        subject,
        Severity.HIGH,
        tuple(parts),
        coverage=coverage,
        usage=usage,
        documents=documents,
    )


def anchored(ended: FixEnd, entries: Mapping[str, TreeEntry]) -> FixEnd:
    """An end whose findings name each place by its content in ``entries``, if it is in there."""

    def known(place: Location) -> Location | None:
        if place.blob is not None:
            return place
        entry = entries.get(place.path)
        return None if entry is None else place.replace(blob=entry.oid)

    def findings(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return tuple(
            one.replace(evidence=tuple(filter(None, map(known, one.evidence)))) for one in found
        )

    judged = ended.judged.replace(findings=findings(ended.judged.findings))
    return ended.replace(judged=judged, tampering=findings(ended.tampering))


def _summary(ended: FixEnd, options: FixOptions, account: FixDetails) -> str:
    told = [ended.final.reason]
    if account.files:
        told.append(f"{count(account.files, 'file')} changed")
    elif ended.final.status not in (PASSED, NO_CHANGE, NO_PROGRESS):  # whose reason says it
        told.append("no file changed")
    if account.home.applied:
        told.append("applied to the work tree")
    elif account.home.reason:
        told.append(f"not applied: {account.home.reason}")
    told += [one for one in (account.canary, account.tests) if one]
    if options.allow:
        told.append(f"allowed: {', '.join(options.allow)}")
    rules = {one.rule for one in ended.tampering}
    if DISCLOSED in rules:
        told.append("a secret was removed from the patch, which may not apply without it")
    if TOO_LARGE in rules:
        told.append("files that are too large to judge are not in the patch")
    if account.patch and (converted := account.home.converted):
        told.append(f"patch -p1 puts the patch in, git apply does not: git converts {converted}")
    if not options.isolated:
        told.append("its commands ran without a sandbox")
    return "; ".join(told)


def _idle(why: str, account: FixDetails) -> Finding:
    turns = "its turn" if account.iterations == 1 else f"each of its {account.iterations} turns"
    return Finding(
        IDLE,
        Severity.MEDIUM,
        f"the agent failed in {turns}, and changed nothing: {marked(why[:_SAID])}",
        hint="what it said is in the folder of the run, under rlm/iteration-1; "
        "with a validator such a run ends with another code than 0",
    )


def _validator(judged: ValidationResult) -> Part:
    """What still fails: the reason why the work is not done, not a verdict on it."""
    left = tuple(
        one.replace(severity=min(one.severity, Severity.MEDIUM)) for one in judged.findings
    )
    told = [f"{count(len(left), 'failure')} left"] if left else []
    if not _BARE_CODE.fullmatch(judged.reason):  # a time limit, a signal, no test that ran
        told.insert(0, judged.reason or "it fails")
    elif not left:
        told = [f"it fails with {judged.reason}, and names no place"]
    places = sum(len(one.evidence) for one in left)
    return Part("validator", "; ".join(told), {"failures": len(left)}, left, state=INCOMPLETE,
                evidence=Evidence(places, places))  # fmt: skip


def _tampering(findings: tuple[Finding, ...], *, fails: bool) -> Part:
    """Edits that weaken what decides; without a validator they do not fail the run."""
    most = Severity.HIGH if fails else Severity.MEDIUM
    held = tuple(one.replace(severity=min(one.severity, most)) for one in findings)
    places = sum(len(one.evidence) for one in held)
    refused = sum(one.fails(Severity.HIGH) for one in findings)
    told = f"{count(refused, 'finding')} against the result" if refused else "nothing refused"
    allowed = sum(one.suppression is not None for one in findings)
    if others := len(findings) - refused - allowed:
        told += f", {others:,} to look at"
    if allowed:
        told += f", {allowed:,} allowed by --allow"
    return Part("tamper", told, {"refused": refused}, held, evidence=Evidence(places, places))
