"""Intervals and percentiles, by values that are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.lab.bench import summary


def test_wilson_by_published_values() -> None:
    """Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for successes, trials, low, high in (
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):  # fmt: skip
        assert summary.wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)
    assert summary.wilson(0, 0) is None


def test_percentiles_are_values_that_were_measured() -> None:
    values = [3.0, 1.0, 2.0, 4.0]
    assert [summary.percentile(values, share) for share in (0.0, 0.5, 0.95)] == [1.0, 2.0, 4.0]
    assert summary.percentile([], 0.5) == 0.0


def test_without_repeats_there_is_no_interval() -> None:
    assert summary.bootstrap([[1.0], [0.0]]) is None
    assert summary.bootstrap_difference([[1.0]], [[0.0]]) is None


SCORES = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=4)


@given(st.lists(SCORES, min_size=1, max_size=3))
def test_an_interval_holds_the_mean_and_is_the_same_each_time(groups: list[list[float]]) -> None:
    interval = summary.bootstrap(groups)
    assert interval is not None
    low, high = interval
    assert low - 1e-9 <= summary.mean([value for group in groups for value in group]) <= high + 1e-9
    assert summary.bootstrap(groups) == interval


def test_an_interval_is_that_of_theory() -> None:
    """Of 40 repeats of one case, half of them right: about 0.5 ± 1.96 × sqrt(.25 / 40)."""
    interval = summary.bootstrap([[0.0, 1.0] * 20])
    assert interval == pytest.approx((0.345, 0.655), abs=0.03)
