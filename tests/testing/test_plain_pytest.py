"""The Python that has pytest and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testing import plain_pytest


def test_a_start_compiles_no_module(tmp_path: Path) -> None:
    """In the sandbox it is read-only: what is not compiled would be, at each start."""
    (tmp_path / "test_sum.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n")
    argv = [f"{plain_pytest.programs()}/python", "-v", "-m", "pytest", "-q"]
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    loaded = [line for line in ended.stderr.splitlines() if line.startswith("# code object from ")]
    assert loaded
    assert [line for line in loaded if not line.endswith(".pyc'") and "site-packages" in line] == []
