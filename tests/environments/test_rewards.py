"""The reward profile: 17 numbers, each of which matters, none of which may be odd."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.errors import ConfigError

PROFILE = RLMRewardProfile()


def rewards(profile: RLMRewardProfile) -> list[float]:
    good = profile.verifier(score=1.0, compiles=True, tests=True, valid=True, warnings=0)
    bad = profile.verifier(score=0.0, compiles=False, tests=False, valid=False, warnings=2)
    worst = profile.verifier(score=0.5, compiles=None, tests=None, valid=None, warnings=100)
    return [
        profile.python(succeeded=True, has_stderr=False, patterns=3),
        profile.python(succeeded=True, has_stderr=True, patterns=100),
        profile.python(succeeded=False, has_stderr=True, patterns=100),
        good,
        bad,
        worst,
        profile.apply_global_scale(0.5),
    ]


def test_the_defaults() -> None:
    assert len(fields(PROFILE)) == 17
    assert RLMRewardProfile.from_mapping({}) == RLMRewardProfile.from_mapping(None) == PROFILE
    assert rewards(PROFILE) == pytest.approx([0.89, 0.9, -0.3, 1.25, -0.81, 0.25, 0.5])


@pytest.mark.parametrize("name", [one.name for one in fields(PROFILE)])
def test_each_number_matters(name: str) -> None:
    changed = RLMRewardProfile.from_mapping({name: 7})
    assert changed == replace(PROFILE, **{name: 7.0})
    assert rewards(changed) != rewards(PROFILE)
    assert RLMRewardProfile.from_mapping(changed.to_dict()) == changed


def test_a_reward_stays_between_minus_one_and_one() -> None:
    scaled = RLMRewardProfile(global_scale=2.0)
    assert [scaled.apply_global_scale(one) for one in (0.3, 0.9, -7.0)] == [0.6, 1.0, -1.0]


@pytest.mark.parametrize("value", ["0.5", None, True, [], float("nan"), float("inf"), 10**400])
def test_a_wrong_number_is_named(value: object) -> None:
    with pytest.raises(ConfigError, match=r"reward_profile\.verifier_base"):
        RLMRewardProfile.from_mapping({"verifier_base": value})


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"reward_profile\.bonus") as raised:
        RLMRewardProfile.from_mapping({"bonus": 1})
    assert "verifier_warning_penalty_cap" in str(raised.value.hint)
