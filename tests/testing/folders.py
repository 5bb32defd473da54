"""Folders: where something is built and of what, and the files of an archive."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["out", "top", "unpack"]


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "made" / "object")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Unpack as a user does: the filter of tarfile is not in every Python 3.11."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
