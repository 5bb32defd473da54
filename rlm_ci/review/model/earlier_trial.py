"""What an earlier review of a pull request asked about a claim, so that it is not asked again.

It is read from a comment, which others may forge. So a stored reproduction is code like any other:
it runs in the sandbox, and what this run measures decides. What its judge said of it counts only
beside a failure of this run, for the same claim in the same words, as the judge was asked about
no other. A stored argument only keeps a claim from being shown; whoever can forge it could leave
the whole claim out, too.
"""

from __future__ import annotations

from rlm_ci.report.findings import Finding, Severity
from rlm_ci.review.model.claim_part import part_of
from rlm_ci.review.proofs.reproduction import Reproduction  # noqa: TC001 - to read it
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Characters of a reproduction and of a repair, and of a line, that are stored.
_CODE, LINE = 8_000, 400


class EarlierTrial(Value):
    """``reproduction`` showed the claim, and its judge said ``severity`` and ``shown``, or did not.

    With a ``reason`` nothing showed it, nor its reproduction, if any. ``verdict`` and
    ``verdict_reason`` are those of the second look, "" if there was none. ``repair`` is a patch
    that mended it, ``repair_reason`` says why there is none, "" if nobody was asked.
    """

    _optional = (
        "reproduction", "breaks", "severity", "shown", "reason", "verdict", "verdict_reason",
        "repair", "repair_reason",
    )  # fmt: skip

    reproduction: Reproduction | None = None
    breaks: str = ""
    severity: str = ""
    shown: str = ""
    reason: str = ""
    verdict: str = ""
    verdict_reason: str = ""
    repair: str = ""
    repair_reason: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether its reproduction showed the claim."""
        return self.reproduction is not None and not self.reason

    def stored(self, mask: Callable[[str], str]) -> EarlierTrial | None:
        """As it can be stored; None if it is too long, or has what ``mask`` takes out."""
        code = self.reproduction
        texts = [*code.to_dict().values(), self.repair] if code else []
        if any(len(text) > _CODE or mask(text) != text for text in texts):
            return self.replace(reproduction=None).stored(mask) if self.reason else None
        lines = {
            name: mask(text)[:LINE]
            for name, text in self.to_dict().items()
            if isinstance(text, str) and name != "repair"
        }
        return self.replace(**lines)

    def read_for(self, finding: Finding) -> EarlierTrial:
        """What was stored, as words on ``finding`` for a report."""
        lines = {
            name: printable(" ".join(text.split()))
            for name, text in self.to_dict().items()
            if isinstance(text, str) and name not in {"repair", "severity", "verdict"}
        }
        shown = part_of(finding.message, lines["shown"]) if self.shown else ""
        return self.replace(**{**lines, "shown": shown, "repair": encodable(self.repair)})


class EarlierClaim(Value):
    """A claim as it was before it was decided, and what was asked about it, if anything was."""

    _optional = ()

    finding: Finding
    trial: EarlierTrial | None = None

    @property
    def reproduction(self) -> Reproduction | None:
        """The one that showed it, if there is one."""
        return self.trial.reproduction if self.trial and self.trial.is_shown else None

    def is_same(self, finding: Finding) -> bool:
        """Whether ``finding`` claims the same in the same words, and nothing more severe."""
        is_worse = finding.severity > self.finding.severity
        words = (self.finding.rule, self.finding.message)
        return words == (finding.rule, finding.message) and not is_worse


def trial_of(finding: Finding, earlier: Iterable[EarlierClaim]) -> EarlierTrial | None:
    """What was asked about the claim ``finding``, or one that was merged into it.

    For a claim in other words, it is the reproduction alone.
    """
    places = frozenset(finding.evidence)
    some = [claim for claim in earlier if claim.trial and places.issuperset(claim.finding.evidence)]
    for claim in some:
        if claim.is_same(finding):
            return claim.trial
    code = next((earlier_claim.trial for earlier_claim in some if earlier_claim.reproduction), None)
    return None if code is None else EarlierTrial(code.reproduction, code.breaks)


def judgement(trial: EarlierTrial, finding: Finding) -> dict[str, str] | None:
    """What a judge said of the reproduction, as its answer; None if it is to be asked."""
    if not trial.severity:
        return None
    severity = min(Severity.from_label(trial.severity), finding.severity)
    return {"reason": "", "severity": severity.label, "shown": trial.shown}
