"""Turns in a row that leave the same failures."""

from __future__ import annotations

import pytest

from rlm_ci.fix.gates.stuck import FailureStreak


@pytest.mark.parametrize(
    ("failures", "lengths"),
    [
        (["a", "a", "a"], [1, 2, 3]),
        (["a", "b", "b", "a"], [1, 1, 2, 1]),
        (["", "", "a", "", "a"], [0, 0, 1, 0, 1]),
        (["1 failed in 0.12s", "1 failed in 3.40 s", "2 failed in 0.12s"], [1, 2, 1]),
        (["<A at 0x7f0012ab>", "<A at 0x7f0012ac>"], [1, 2]),
        (["expected 1.5", "expected 2.5"], [1, 1]),
        (["9" * 100_000, "\udcff" * 10], [1, 1]),
    ],
)
def test_only_times_and_addresses_may_differ(failures: list[str], lengths: list[int]) -> None:
    streak = FailureStreak()
    assert [streak.add(one) for one in failures] == lengths
