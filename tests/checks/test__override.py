"""The words by which a check is overridden; what they do is told in the tests of the checks."""

from __future__ import annotations

from rlm_ci.change.change_set import PullRequest
from rlm_ci.checks._override import OverrideWords, StatedOverride, stated

WORDS = OverrideWords("SOME_REASON", "some-override", "Some override")
TODAY = "2026-03-01"


def test_the_environment_comes_first() -> None:
    pull = PullRequest(1, body="Some override: b", labels=("some-override",))
    assert stated(WORDS, "a", pull, TODAY) == StatedOverride("a")
    assert stated(WORDS, None, pull, TODAY) == StatedOverride("b")
    assert stated(WORDS, None, None, TODAY) == StatedOverride()
    assert stated(WORDS, None, PullRequest(1), TODAY) == StatedOverride()


def test_a_flaw_names_what_is_missing() -> None:
    found = stated(WORDS, None, PullRequest(1, body="some OVERRIDE: b"), TODAY)
    assert (found.reason, found.flaw) == ("", "the label some-override is missing")
    assert "'Some override: <reason>'" in found.hint
