"""The memory that ``rlm-ci context`` takes, as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MEASURED = """
import os, sys
pid = os.fork()
if not pid:
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss, file=sys.stderr)
"""


@pytest.mark.full
def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    """50,000 files: an object of each of them took 1.2 KB of memory, and a search 0.7."""
    for folder in (tmp_path / "top" / f"package_{number:03}" / "inner" for number in range(100)):
        folder.mkdir(parents=True)
        for number in range(500):
            (folder / f"module_name_{number:03}.py").write_bytes(b"number = %d\n" % number)
    few = tmp_path / "few"
    few.mkdir()
    (few / "a.py").write_bytes(b"number = 1\n")
    program = (sys.executable, "-I", "-m", "rlm_ci", "context")
    used = {}
    for name in ("few", "top"):
        for words in (
            ("build", name), ("search", f"{name}.context", "number = 499"),
            ("read", f"{name}.context", "chunk:0"), ("info", f"{name}.context", "--verify"),
        ):  # fmt: skip
            ended = subprocess.run(
                [sys.executable, "-I", "-c", MEASURED, *program, *words], cwd=tmp_path,
                capture_output=True, check=True,
            )  # fmt: skip
            code, used[name, words[0]] = map(int, ended.stderr.split()[-2:])
            assert code == 0, words
    grown = {word: used["top", word] - used["few", word] for _, word in used}
    assert grown["build"] < 16 << 10, grown  # KiB; what tells of a file has 50 bytes of path
    assert max(grown["search"], grown["read"]) < 10 << 10, grown
    assert grown["info"] < 16 << 10, grown
