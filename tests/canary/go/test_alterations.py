"""What comparisons and helpers of Go must refuse."""

from __future__ import annotations

import random

import pytest

from rlm_ci.canary.forms import ACCEPTS, FAR, JUDGES, NEARLY, PART, STYLE
from rlm_ci.canary.go import reader

TEST = """\
package money

import "testing"

func TestTotal(t *testing.T) {
	want := Money{5, "EUR"}
	if got := Total(); %s {
		t.Fatal(got)
	}
	%s
}
"""


@pytest.mark.parametrize(
    ("claim", "helper", "kinds"),
    [
        ("!got.Equal(want)", "", {FAR, PART, STYLE}),
        ("!Equal(got, 5)", "", {FAR, PART}),
        ("got.Compare(want) != 0", "", {FAR, PART, STYLE}),
        ("false", "same(t, Total(), 5)", {PART}),
    ],
)
def test_what_is_altered(claim: str, helper: str, kinds: set[str]) -> None:
    text = TEST % (claim, helper)
    accepts, judges = (
        reader.change("a_test.go", text, {"TestTotal": form}, random.Random(1), plain=True)
        for form in (ACCEPTS, JUDGES)
    )
    assert accepts.changed_tests["TestTotal"].tokens == judges.changed_tests["TestTotal"].tokens
    assert {*accepts.changed_tests["TestTotal"].kinds.values()} == kinds
    assert judges.text.count(" && !(") == list(
        judges.changed_tests["TestTotal"].kinds.values()
    ).count(PART)


@pytest.mark.parametrize("claim", ["!got.Equal(5 + f())", "!strings.Contains(got, `a`)", "got > 5"])
def test_what_is_not_altered(claim: str) -> None:
    changed = reader.change(
        "a_test.go", TEST % (claim, ""), {"TestTotal": NEARLY}, random.Random(1)
    )
    assert changed.changed_tests["TestTotal"].form != NEARLY
