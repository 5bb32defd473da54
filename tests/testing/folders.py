"""The fixtures ``out`` and ``top``: where something is built, and of what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["out", "top"]


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "made" / "object")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    folder.mkdir()
    return folder
