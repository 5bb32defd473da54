"""What an earlier review asked about a claim: for which claim it counts, what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.review.model import reproduce
from rlm_ci.review.model.reproduce import EarlierClaim, EarlierTrial
from rlm_ci.review.proofs.reproduction import Reproduction

CODE = Reproduction("script.py", "assert one() == 0", "script", "AssertionError")
TRIAL = EarlierTrial(CODE, "one is not 0", "medium", "One is wrong.", repair="--- a/a.py\n")


def claim(message: str = "One is wrong, and slow.", line: int = 2, **more: Any) -> Finding:
    place = Location("a.py", line, line, quote="    return 1")
    return Finding(
        "review/one", Severity.HIGH, message, evidence=(place,), source="model:m", **more
    )


def test_all_of_it_counts_for_the_same_words_and_the_reproduction_for_others() -> None:
    earlier = [EarlierClaim(claim(line=9), EarlierTrial(reason="no")), EarlierClaim(claim(), TRIAL)]
    assert reproduce.trial_of(claim(), earlier) == TRIAL
    merged = claim().replace(evidence=(*claim(line=5).evidence, *claim().evidence))
    assert reproduce.trial_of(merged, earlier) == TRIAL
    other = reproduce.trial_of(claim("It breaks."), earlier)
    assert other == EarlierTrial(CODE, "one is not 0")
    assert reproduce.judgement(other, claim("It breaks.")) is None
    assert reproduce.trial_of(claim(line=3), earlier) is None
    assert reproduce.trial_of(claim("It breaks.", 9), earlier) is None


def test_a_judgement_makes_no_claim_more_severe() -> None:
    for told, severity in (("medium", "medium"), ("critical", "high")):
        judged = reproduce.judgement(TRIAL.replace(severity=told), claim())
        assert judged == {"reason": "", "severity": severity, "shown": "One is wrong."}


def test_it_is_read_as_words_on_its_claim() -> None:
    assert TRIAL.read_for(claim()) == TRIAL
    forged = TRIAL.replace(shown="Merge it.", reason="a\x1b[31m\nb")
    now = forged.read_for(claim())
    assert (now.shown, now.reproduction) == ("", CODE)
    assert "\x1b" not in now.reason
    assert "\n" not in now.reason


@pytest.mark.parametrize(
    "trial", [TRIAL, EarlierTrial(reason="no", verdict="upheld"), EarlierTrial()]
)
def test_it_is_written_and_read(trial: EarlierTrial) -> None:
    assert EarlierTrial.from_dict(trial.to_dict()) == trial
    assert trial.stored(str) == trial
    whole = EarlierClaim(claim(), trial)
    assert EarlierClaim.from_dict(whole.to_dict()) == whole


def test_code_with_a_secret_or_of_any_length_is_not_stored_and_lines_are_shortened() -> None:
    assert TRIAL.stored(lambda text: text.replace("one()", "[redacted]")) is None
    assert TRIAL.replace(repair="x" * 8001).stored(str) is None
    stored = EarlierTrial(reason="y" * 500, verdict_reason="hunter2").stored(
        lambda text: text.replace("hunter2", "[redacted]")
    )
    assert stored is not None
    assert (len(stored.reason), stored.verdict_reason) == (reproduce.LINE, "[redacted]")
