"""Each attack is tried by root and by another user, wherever the machine can switch to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.attacker import USERS, attackers, missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.attacker import Attacker


@pytest.fixture(params=USERS)
def attacker(request: pytest.FixtureRequest) -> Iterator[Attacker]:
    """The user who attacks: real processes of theirs, and a folder that is theirs."""
    if reason := missing(request.param):
        pytest.skip(reason)
    yield from attackers(request.param)
