"""The small project of ``proofs_stage``, and a runner for reproductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.review.proofs.runner import ProofRunner
from testing.proofs_stage import HEAD, Facts, changed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.trials.trees import ProofPlace


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ProofPlace:
    return changed(tmp_path_factory.mktemp("shop"), HEAD)


@pytest.fixture
def runner(shop: ProofPlace) -> Iterator[ProofRunner]:
    with ProofRunner(shop, Facts()) as made:
        yield made
