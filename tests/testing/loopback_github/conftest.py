from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.loopback_github.fixture import github
from testing.loopback_github.scene import Scene, build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.loopback_github.server import GitHub

__all__ = ["github", "scene"]


@pytest.fixture
def scene(github: GitHub, tmp_path: Path) -> Iterator[Scene]:
    built = build(github, tmp_path)
    yield built
    built.close()
