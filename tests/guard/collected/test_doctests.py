"""Examples in comments of Rust that no longer run."""

from __future__ import annotations

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import TextChange

SOURCE = """\
/// Sums.
///
/// ```
/// assert_eq!(till::due(&[20, 35]), 55);
/// ```
///
/// ```text
/// 20 + 35
/// ```
pub fn due(prices: &[i32]) -> i32 { prices.iter().sum() }
"""
FIRST = "///\n/// ```\n"


@pytest.mark.parametrize(
    ("old", "new", "is_found"),
    [
        (FIRST, "///\n/// ```no_run\n", True),
        (FIRST, "///\n/// ```ignore\n", True),
        (FIRST, "///\n/// ```rust,ignore-windows\n", False),
        (FIRST, "///\n/// ```should_panic\n", False),
        (FIRST, "///\n/// ```rust\n", False),
        (FIRST, f"///\n/// ```no_run\n/// due();\n/// ```\n{FIRST}", False),
        (SOURCE, "", False),
    ],
)
def test_an_example_that_no_longer_runs_is_found(old: str, new: str, *, is_found: bool) -> None:
    assert old in SOURCE
    change = TextChange("src/lib.rs", SOURCE, SOURCE.replace(old, new))
    found = weaker.compared([change], code_changed=True).weakenings
    assert [one.rule for one in found] == (["test-skipped"] if is_found else [])
