"""What comparisons and macros of Rust must refuse."""

from __future__ import annotations

import random

import pytest

from rlm_ci.canary.forms import ACCEPTS, FAR, JUDGES, NEAR, NEARLY, PART, STYLE
from rlm_ci.canary.rust import reader

TEST = """\
#[test]
fn totals() {
    let want = Money { amount: 5, unit: "EUR" };
    %s
}
"""


@pytest.mark.parametrize(
    ("claim", "kinds"),
    [
        ("assert_eq!(total(), 300u8);", {FAR, NEAR}),
        ("assert_eq!(total(), vec![3, 4]);", {FAR, NEAR}),
        ('assert!(total() == Some("a"));', {FAR, NEAR, STYLE}),
        ('assert_eq!(&total(), &want, "{}", 3);', {FAR, PART, STYLE}),
        ("assert!(total().equals(&want));", {FAR, PART, STYLE}),
        ("same!(total(), 3);", {PART}),
    ],
)
def test_what_is_altered(claim: str, kinds: set[str]) -> None:
    accepts, judges = (
        reader.change("a.rs", TEST % claim, {"totals": form}, random.Random(1), plain=True)
        for form in (ACCEPTS, JUDGES)
    )
    assert accepts.changed_tests["totals"].tokens == judges.changed_tests["totals"].tokens
    assert {*accepts.changed_tests["totals"].kinds.values()} == kinds
    assert judges.text.count(" && !") == list(judges.changed_tests["totals"].kinds.values()).count(
        PART
    )


@pytest.mark.parametrize("claim", ["assert!(total() > 3);", "assert_eq!(total(), want(3));"])
def test_what_is_not_altered(claim: str) -> None:
    changed = reader.change("a.rs", TEST % claim, {"totals": NEARLY}, random.Random(1))
    assert changed.changed_tests["totals"].form != NEARLY


@pytest.mark.parametrize("number", [0, 1, 126, 127, 255, 65_535])
def test_a_number_keeps_its_type(number: int) -> None:
    text = TEST % f"assert_eq!(total(), {number});"
    changed = reader.change("a.rs", text, {"totals": NEARLY}, random.Random(number))
    bits = next(bits for bits in (7, 8, 15, 16, 31) if number < 2**bits)
    values = [int(part.split(")")[0]) for part in changed.text.split("== (")[1:]]
    assert len(values) > 1
    assert all(0 <= value < 2**bits and value != number for value in values)
