"""Decide what each claim of a model rests on: a reproduction that ran, or lines alone.

What nothing that ran shows is at most medium. The claims come once all are merged, the most severe
first, so that a budget that ends early has shown these.
"""

from __future__ import annotations

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.recursion import coverage
from rlm_ci.report.findings import UNTOUCHED, RefutedClaim, Severity, fingerprints
from rlm_ci.report.proof import ARGUED, GUIDELINE, LEVELS, PASSES, PROVEN, Proof
from rlm_ci.review.model import metered, refute, reproduce
from rlm_ci.review.model.architecture import DOMAIN as ARCHITECTURE
from rlm_ci.review.model.claim_context import ROOM, ClaimPrompt, Sources
from rlm_ci.review.model.metered import MeteredAsk
from rlm_ci.review.model.reproduce import ClaimTrial, EarlierClaim, EarlierTrial, Trial, trial_of
from rlm_ci.review.proofs.reproduction import (
    FAILED,
    FAILS_ALIKE,
    PASSED,
    RepairOutcome,
    StoredProof,
)
from rlm_ci.review.results import merge
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import TracedFinding
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.proofs.reproduction import Reproduction
    from rlm_ci.review.proofs.runner import ProofRunner

#: Below it, a claim is not run; what is argued is not above it.
LEVEL = Severity.MEDIUM
#: The rule of a claim that a fix leaves the fault where it was, and only satisfies its test.
UNMENDED = "review/special-cases-the-test"
#: What a budget or an endpoint left undone.
_NOT_RUN = "a severe claim that was not run"
#: What a prompt shows of a claim, in times of what it leaves for asking once more.
_REPAIRS = 4
_NOT_JUDGED = "a severe claim that was run, and not judged"
#: Our confidence in what is proven, and in what has nothing to be compared with.
_SURE = {PROVEN: 0.98}
_REPRODUCED = 0.95


class ProvedClaims(Value):
    """The claims that stand, each with its proof, and those that are refuted.

    ``uncovered`` are pairs of path and reason where a budget had no room; ``stored`` has what was
    run for a claim, by the id of its finding; ``claims`` are all, for a later review.
    """

    findings: tuple[TracedFinding, ...] = ()
    refuted: tuple[RefutedClaim, ...] = ()
    metrics: Mapping[str, float] = {}
    uncovered: tuple[tuple[str, str], ...] = ()
    stored: Mapping[str, StoredProof] = {}
    claims: tuple[EarlierClaim, ...] = ()

    def data(self) -> dict[str, Any]:
        """What the report needs besides the findings, as JSON."""
        if not self.metrics:
            return {}
        return {
            "refuted": [claim.to_dict() for claim in self.refuted],
            "proofs": {mark: proof.to_dict() for mark, proof in self.stored.items()},
        }


class Prover:
    """What decides about claims. Without a ``runner`` nothing is run, for the reason ``lacking``.

    ``level`` is the severity from which a model is asked to refute what nothing shows, and
    ``repair_level`` that from which it is asked to repair what a run shows; None for never.
    ``of_fix``: the change is to mend something, so a claim may be that it does not, and nobody
    asks for repairs. ``accepted`` gives the reason why a claim does not count, if there is one.
    """

    def __init__(
        self,
        sources: Sources | None = None,
        runner: ProofRunner | None = None,
        lacking: str = "nothing can be run here",
        level: Severity | None = Severity.HIGH,
        repair_level: Severity | None = Severity.HIGH,
        *,
        of_fix: bool = False,
        accepted: Callable[[Finding], str | None] = lambda _finding: None,
    ) -> None:
        self.accepted = accepted
        self.sources = sources or Sources((), lambda _path: None)
        self.runner = runner
        self.level = level
        self.repair_level = repair_level
        self.of_fix = of_fix
        self._lacking = lacking

    def lacking(self) -> str:
        """Why nothing can be run; "" if something can."""
        return self._lacking if self.runner is None else self.runner.available

    def has_passed(self, claim: EarlierClaim) -> bool:
        """Whether the reproduction of an earlier claim passes now, so that it is mended."""
        code = claim.reproduction
        if code is None or self.runner is None or self.lacking() or self.accepted(claim.finding):
            return False
        return self.runner.check(code).head.status == PASSED

    def settle(
        self,
        findings: tuple[TracedFinding, ...],
        ask: Ask | None,
        limit: tuple[float, float],
        spent: Mapping[str, float],
        earlier: Sequence[EarlierClaim] = (),
    ) -> tuple[tuple[TracedFinding, ...], ProvedClaims]:
        """Decide about the claims in ``findings``, then merge them with what tools found.

        ``spent`` counts against ``limit``; ``earlier`` are the claims of the last review.
        """
        claims = merge.claims_of(findings)
        if not claims:
            return findings, ProvedClaims()
        metered_ask = None if ask is None else MeteredAsk(ask, spent, limit)
        proved = self.prove(metered_ask, claims, earlier)
        if metered_ask is not None:
            proved = proved.replace(metrics={**proved.metrics, **metered_ask.spent()})
        tools = (traced for traced in findings if not merge.is_claim(traced.finding))
        return merge.merge((*tools, *proved.findings)), proved

    def prove(
        self,
        ask: Ask | None,
        claims: Sequence[TracedFinding],
        earlier: Sequence[EarlierClaim] = (),
    ) -> ProvedClaims:
        """Decide about ``claims``, the most severe first. Without ``ask`` all are argued."""
        stage = _Stage(self, ask, earlier)
        for claim in claims:
            stage.take(claim)
        if not self.of_fix:
            stage.mend()
        return stage.result()


class _Stage:
    """The claims of one review, one after the other."""

    def __init__(self, prover: Prover, ask: Ask | None, earlier: Sequence[EarlierClaim]) -> None:
        self._prover = prover
        self._ask = ask
        self._earlier = earlier
        #: All claims as they came, and what was asked about them, by the ids of their findings.
        self._claims: dict[str, EarlierClaim] = {}
        #: The ids of those whose questions ended early.
        self._cut: set[str] = set()
        self._findings: list[TracedFinding] = []
        self._refuted: list[RefutedClaim] = []
        names = (*refute.VERDICTS, *LEVELS, "disputed")
        self._numbers: dict[str, float] = dict.fromkeys(names, 0)
        self._uncovered: dict[tuple[str, str], None] = {}
        self._stored: dict[str, StoredProof] = {}
        self._marks: dict[str, int] = {}
        #: What was shown by a run, by its place among those that are kept.
        self._shown: dict[int, tuple[str, Trial]] = {}
        #: Why no more is asked, once a limit is reached.
        self._spent = "" if ask is not None else "no model answered"

    def result(self) -> ProvedClaims:
        return ProvedClaims(
            tuple(self._findings),
            tuple(self._refuted),
            self._numbers,
            tuple(self._uncovered),
            self._stored,
            tuple(self._claims.values()),
        )

    def take(self, claim: TracedFinding) -> None:
        """Decide about one claim; whether the change has made the fault, a run tells."""
        mark = self._mark(claim.finding)
        earlier = trial_of(claim.finding, self._earlier)
        reason = self._prover.accepted(claim.finding) or claim.finding.suppression
        finding = claim.finding.replace(suppression=reason)
        is_untouched = finding.suppression == UNTOUCHED
        is_near = is_untouched and self._prover.sources.is_near_change(finding)
        if is_near or (is_untouched and finding.severity >= LEVEL):
            finding = finding.replace(suppression=None)
        with spans.span("proof", f"proof of {finding.rule}", key=f"proof-{mark}") as step:
            trial = first = self._tried(finding, mark, earlier)
            step.outcome = spans.PARTIAL if trial.level == ARGUED else spans.DONE
            step.details |= {"level": trial.level, "reason": trial.reason}
        if is_untouched and not is_near and trial.level == ARGUED:
            if self._is_old(trial):
                finding = finding.replace(suppression=UNTOUCHED)
            else:
                trial = trial.replace(reason=f"{trial.reason}; it is {UNTOUCHED}")
        verdict = reason = ""
        if trial.level == ARGUED and self._is_doubtful(finding, trial, earlier):
            verdict, reason = self._second_look(finding, mark, trial, earlier)
        if verdict == refute.REFUTED and trial.is_open:
            verdict = refute.UNSURE  # an argument alone refutes nothing that ran
        carried = _carried_trial(first, verdict, reason, earlier, is_cut=mark in self._cut)
        self._claims[mark] = EarlierClaim(claim.finding, carried)
        if verdict:
            self._numbers[verdict] += 1
        if reason:
            trial = trial.replace(reason=f"{trial.reason}; a second look: {reason}")
        is_of_change = finding.suppression is None and (is_near or not is_untouched)
        if trial.level == ARGUED and verdict != refute.REFUTED and is_of_change:
            trial = self._by_guideline(finding) or trial
        finding = self._with_proof(finding, mark, trial)
        if verdict == refute.REFUTED:
            as_claimed = finding.replace(severity=claim.finding.severity)
            why_refuted = reason if trial.outcome is None else trial.reason
            self._refuted.append(RefutedClaim(as_claimed, why_refuted or "no reason given"))
            self._numbers["disputed"] += not trial.is_missed
            return
        self._numbers[trial.level] += 1
        if verdict in (refute.UNSURE, refute.UNEXAMINED):
            doubted = round((finding.confidence or 0.0) * refute.DOUBT, 3)
            finding = finding.replace(confidence=doubted)
        if trial.level not in (GUIDELINE, ARGUED):
            self._shown[len(self._findings)] = mark, trial
        finding = self._prover.sources.guidelines.pointed_to(finding)
        self._findings.append(claim.replace(finding=finding))

    def mend(self) -> None:
        """Have what was shown repaired, as long as there is room: a claim does not depend on it."""
        runner = self._prover.runner
        for at, (mark, trial) in self._shown.items():
            claim, reproduction = self._findings[at], trial.reproduction
            proof = claim.finding.proof
            if runner is None or reproduction is None or proof is None:
                continue
            tried = reproduce.by_suggestion(
                runner, self._prover.sources, claim.finding, reproduction
            )
            is_refused = tried is not None and tried.is_run and not tried.ok
            if tried is None or not tried.ok:
                before = f"its suggestion: {tried.reason}; " if tried else ""
                tried = self._mended_before(runner, mark, reproduction)
                tried = tried or self._asked_to_mend(runner, mark, claim.finding, trial)
                tried = tried.replace(reason=tried.reason if tried.ok else before + tried.reason)
            fields = {"repair": tried.patch, "repair_reason": tried.reason}
            self._stored[mark] = self._stored[mark].replace(**fields)
            # Nobody is to apply a suggestion that was run, and does not hold.
            fix = None if is_refused else claim.finding.suggested_fix
            finding = claim.finding.replace(proof=proof.replace(**fields), suggested_fix=fix)
            self._findings[at] = claim.replace(finding=finding)

    def _mended_before(
        self, runner: ProofRunner, mark: str, reproduction: Reproduction
    ) -> RepairOutcome | None:
        """What came of the repair of an earlier review; None where a model is to be asked."""
        earlier = self._claims[mark].trial
        if earlier is None or not earlier.repair:
            why = earlier.repair_reason if earlier else ""
            return RepairOutcome(ok=False, reason=why) if why else None
        runner.start_validator()
        tried = runner.try_repair(earlier.repair, reproduction)
        return tried if tried.ok else None

    def _asked_to_mend(
        self, runner: ProofRunner, mark: str, finding: Finding, trial: Trial
    ) -> RepairOutcome:
        why, level = self._spent, self._prover.repair_level
        if level is None or finding.severity < level:
            lowest = "off" if level is None else level.label
            reason = f"severity {finding.severity.label}, and review.repair_level is {lowest}"
            return RepairOutcome(ok=False, reason=f"not asked for: {reason}")
        if self._ask is not None and not why:
            try:
                sources = self._prover.sources
                runner.start_validator()
                prompt = trial.prompt or self._prompt(finding, runner.framework())
                tried = reproduce.by_question(self._ask, runner, sources, mark, prompt, trial)
                fields = {"repair": tried.patch, "repair_reason": "" if tried.ok else tried.reason}
                claim = self._claims[mark]
                if claim.trial:
                    trial_now = claim.trial.replace(**fields)
                    self._claims[mark] = claim.replace(trial=trial_now)
                return tried
            except (LimitError, RemoteError) as error:
                self._spent = why = printable(str(error))
        return RepairOutcome(ok=False, reason=f"no repair was asked for: {why}")

    def _tried(self, finding: Finding, mark: str, earlier: EarlierTrial | None) -> Trial:
        why = self._why_not(finding)
        if why or self._ask is None or self._prover.runner is None:
            return Trial(ARGUED, why or self._no_room(finding))
        if earlier is not None and (again := self._argued_again(earlier)):
            return again
        room, prompt = self._room(), self._prompt(finding, self._prover.runner.framework())
        trial = ClaimTrial(self._ask, self._prover.runner, mark, finding, prompt)
        trial.unmended = self._prover.of_fix and finding.rule == UNMENDED
        try:
            if earlier is not None and earlier.reproduction is not None:
                again = trial.again(earlier)
                if again.level != ARGUED:
                    return again.replace(prompt=prompt)
            if why := self._no_room(finding):
                return trial.last.replace(reason=why)
            return trial.run().replace(prompt=prompt)
        except (LimitError, RemoteError) as error:
            if is_too_long(error) and self._room() < room and trial.last.outcome is None:
                return self._tried(finding, mark, earlier)
            self._cut.add(mark)
            last, what = trial.last, _NOT_RUN
            if last.outcome is not None:
                what = _NOT_JUDGED if last.is_open else "a severe claim that was run once"
            why = self._ended(error, finding, what)
            before = "" if last.outcome is None else f"{last.reason}; "
            return last.replace(reason=before + why, prompt=prompt)

    def _argued_again(self, earlier: EarlierTrial) -> Trial | None:
        """A claim that nothing showed, with what ran for it; None where it is to be tried."""
        code, runner = earlier.reproduction, self._prover.runner
        if not earlier.reason or code is None or runner is None:
            return Trial(ARGUED, earlier.reason) if earlier.reason else None
        outcome, is_wrong = runner.check(code), earlier.verdict == refute.REFUTED
        trial = Trial(ARGUED, earlier.reason, earlier.breaks, code, outcome, is_wrong=is_wrong)
        is_other = earlier.reason.startswith(PASSES) and not trial.is_missed
        return None if is_other else trial

    def _prompt(self, finding: Finding, framework: str | None = None) -> ClaimPrompt:
        context = self._prover.sources.around(finding, self._room())
        return ClaimPrompt.of(finding, context, framework)

    def _room(self) -> int:
        """The bytes of what a prompt shows of a claim."""
        return ROOM if self._ask is None else min(ROOM, _REPAIRS * self._ask.repair)

    def _why_not(self, finding: Finding) -> str:
        """Why a claim is not run; "" if it is to be."""
        if finding.suppression is not None:
            return "it does not count, and was not run"
        if finding.severity < LEVEL:
            return f"a claim of severity {finding.severity.label} is not run"
        if finding.domain == ARCHITECTURE:
            return "what many places show together cannot be run"
        return self._prover.lacking()

    def _by_guideline(self, finding: Finding) -> Trial | None:
        """A claim that nothing shows may rest on a guideline: its lines and these are there."""
        guideline = self._prover.sources.guidelines.behind(finding)
        if guideline is None:
            return None
        level = Severity.from_label(guideline.level)
        why = "it goes against a guideline of the maintainers; the lines of both were looked up"
        return Trial(GUIDELINE, why, severity=level)

    def _is_old(self, trial: Trial) -> bool:
        """Whether a claim on lines that the change does not touch is not of this change."""
        # A fix answers for no fault elsewhere unless a run shows it.
        reason = trial.reason if trial.outcome is None else trial.outcome.reason
        return reason.startswith(FAILS_ALIKE) or self._prover.of_fix

    def _is_doubtful(self, finding: Finding, trial: Trial, earlier: EarlierTrial | None) -> bool:
        level = self._prover.level
        is_missed = trial.is_missed or (earlier is not None and bool(earlier.verdict))
        is_claimed = level is not None and (finding.severity >= level or is_missed)
        return is_claimed and finding.suppression is None and finding.domain != ARCHITECTURE

    def _second_look(
        self, finding: Finding, mark: str, trial: Trial, earlier: EarlierTrial | None
    ) -> tuple[str, str]:
        if earlier is not None and earlier.verdict and trial.prompt is None:
            return earlier.verdict, earlier.verdict_reason
        if self._ask is None or self._no_room(finding):
            return refute.UNEXAMINED, ""
        room, prompt = self._room(), trial.prompt or self._prompt(finding)
        missed = trial.tried if trial.is_missed else ""
        try:
            verdict, reason = refute.refute(self._ask, mark, prompt, missed)
        except (LimitError, RemoteError) as error:
            if is_too_long(error) and self._room() < room:
                return self._second_look(finding, mark, trial.replace(prompt=None), None)
            self._ended(error, finding, "a severe claim without a second look")
            return refute.UNEXAMINED, ""
        return verdict, printable(reason)

    def _no_room(self, finding: Finding) -> str:
        """Why no more is asked; "" if there is room."""
        if self._spent.startswith(coverage.BUDGET):
            self._uncovered[finding.evidence[0].path, self._spent] = None
        return self._spent

    def _ended(self, error: LimitError | RemoteError, finding: Finding, what: str) -> str:
        """Why no more is asked; a later attempt may go on, but not beyond our own limit."""
        if isinstance(error, RemoteError):
            why = f"{coverage.REMOTE}: {what}: {error}"
        elif error.budget == metered.OWN:
            self._spent = "the review has asked as much as it may"
            return self._spent
        else:
            why = f"{coverage.BUDGET}: {what}, no room in {error.budget}"
            # What comes later is not even run.
            self._spent = f"{coverage.BUDGET}: {_NOT_RUN}, no room in {error.budget}"
        self._uncovered[finding.evidence[0].path, why] = None
        return why

    # ── proofs ──

    def _mark(self, finding: Finding) -> str:
        """The id of a finding, and of the questions about it."""
        (mark,) = fingerprints([finding])
        number = self._marks[mark] = self._marks.get(mark, 0) + 1
        return mark if number == 1 else f"{mark}-{number}"

    def _with_proof(self, finding: Finding, mark: str, trial: Trial) -> Finding:
        proof = Proof(trial.level, trial.reason)
        if trial.reproduction is not None and trial.outcome is not None:
            stored = self._stored[mark] = StoredProof(trial.reproduction, trial.outcome)
            # What a model says breaks counts only once a run has shown it.
            is_shown = trial.level != ARGUED
            reason = f"{trial.breaks} ({trial.reason})" if is_shown else trial.reason
            proof = stored.proof(mark).replace(level=trial.level, reason=reason)
        if trial.level == ARGUED:
            return finding.replace(severity=min(finding.severity, LEVEL), proof=proof)
        if trial.level == GUIDELINE:
            return finding.replace(severity=trial.severity or LEVEL, proof=proof)
        return finding.replace(
            severity=min(finding.severity, trial.severity or finding.severity),
            message=trial.shown or finding.message,
            confidence=_SURE.get(trial.level, _REPRODUCED),
            proof=proof,
        )


def _carried_trial(
    trial: Trial, verdict: str, reason: str, earlier: EarlierTrial | None, *, is_cut: bool
) -> EarlierTrial | None:
    """What a later review need not ask about a claim."""
    if trial.level != ARGUED:
        before = earlier or EarlierTrial()
        severity = trial.severity.label if trial.severity is not None else ""
        repair = {"repair": before.repair, "repair_reason": before.repair_reason}
        return EarlierTrial(trial.reproduction, trial.breaks, severity, trial.shown, **repair)
    if is_cut:  # its judge is still to be asked
        return EarlierTrial(trial.reproduction, trial.breaks) if trial.is_open else earlier
    if trial.prompt is None and earlier is not None:  # nobody was asked to show it
        return earlier
    verdict, reason = ("", "") if verdict == refute.UNEXAMINED else (verdict, reason)
    why = trial.reason if trial.prompt is not None else ""
    carried = EarlierTrial(reason=why, verdict=verdict, verdict_reason=reason)
    if trial.outcome is not None and trial.outcome.head.status in (PASSED, FAILED) and why:
        carried = carried.replace(reproduction=trial.reproduction, breaks=trial.breaks)
    return None if carried == EarlierTrial() else carried
