"""The virtual environment of a change's repository has what its project imports."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.lab.planted_bugs import benchmark

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="posix folders")


def test_a_project_finds_what_it_needs_and_git_does_not_see_it(tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path))
    subprocess.run([*git, "init", "-q"], check=True)
    benchmark.make(str(tmp_path), ("mdurl", "not-there-at-all"))
    ran = subprocess.run(
        [tmp_path / ".venv/bin/python", "-I", "-c", "import mdurl, pytest; print(mdurl.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.startswith(f"{tmp_path}/.venv/")
    status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True)
    assert status.stdout == b""
