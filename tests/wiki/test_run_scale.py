"""A wiki of very many files: what is held of each of them is bounded, and small."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

#: Runs a command, and writes down the most memory that it, or a process of its, had.
_MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)
with open(sys.argv[1], "w") as stream:
    stream.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code)
"""
FILES = 20_000
#: Bytes that the program has by itself, and for each file, its page and its line in wiki.json.
_ITSELF, _EACH = 40 << 20, 2_200


@pytest.mark.long
@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_what_is_held_of_each_file_is_bounded(repo: GitRepo, tmp_path: Path) -> None:
    rows = ["blob", "mark :1", "data 19", '"""A part of it."""', "commit refs/heads/main"]
    rows += ["committer Ada <ada@example.com> 1700000000 +0000", "data 4", "all"]
    rows += [f"M 100644 :1 src/p{n // 1000:03}/q{n // 50 % 20:02}/m{n:06}.py" for n in range(FILES)]
    repo.run("fast-import", "--quiet", "--force", stdin="\n".join((*rows, "")).encode())
    note, out = tmp_path / "peak", tmp_path / "out"
    program = (sys.executable, "-I", "-m", "rlm_ci", "wiki", "--out", str(out))
    for turn in range(2):
        subprocess.run(
            [sys.executable, "-I", "-c", _MEASURED, str(note), *program],
            cwd=repo, env={**os.environ, "RLM_CI_RUNS_DIR": str(tmp_path / "runs")},
            check=True, stderr=subprocess.DEVNULL, timeout=600,
        )  # fmt: skip
        assert int(note.read_text()) < _ITSELF + FILES * _EACH, (turn, note.read_text())
        assert sum(1 for _ in (out / "modules").iterdir()) == FILES // 50
        repo.run("read-tree", "HEAD")
        blob = repo.sha("HEAD:src/p000/q00/m000000.py")
        repo.run("update-index", "--add", "--cacheinfo", f"100644,{blob},src/p000/q00/n{turn}.py")
        repo.run("commit", "-q", "-m", "one more")
