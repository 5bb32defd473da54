"""One issuer for all tests of receipts: a key takes a tenth of a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.receipts_stage import Scene
from testing.repositories.git_repo import GitRepo
from testing.token_issuer import TokenIssuer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def issuer() -> Iterator[TokenIssuer]:
    with serving() as started:
        yield started


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer) -> Scene:
    return Scene(GitRepo(tmp_path_factory.mktemp("shop")), issuer)
