"""The files of a REPL stay in the folder of its run, whatever lies there already."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.repl.host.options import RunFiles
from rlm_ci.errors import DamagedError, StorageError

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_written_or_read_by_way_of_a_link(tmp_path: Path) -> None:
    outside, run = tmp_path / "outside", tmp_path / "run"
    (run / "rlm/repl").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_text("mine")
    (run / "rlm/repl/turn-1").symlink_to(outside)
    (run / "rlm/repl/link").symlink_to(outside / "kept")
    files = RunFiles(str(run), str(run))
    for path in ("rlm/repl/turn-1/prompt.txt", "rlm/repl/link"):
        with pytest.raises(StorageError):
            files.tracked().write(path, b"theirs")
    with pytest.raises(StorageError):
        files.remove("rlm/repl/turn-1/kept")
    for path in ("rlm/repl/turn-1/kept", "rlm/repl/link", "../outside/kept"):
        with pytest.raises(DamagedError):
            files.restore(path, sha256(b"mine").hexdigest())
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("kept", "mine")]
    kept = files.tracked()
    kept.write("rlm/repl/block-1/a", b"1")
    kept.save("rlm/repl/block-1/state", b"2")
    assert kept.written == {"rlm/repl/block-1/a": sha256(b"1").hexdigest()}
    assert kept.saved("rlm/repl/block-1/state", sha256(b"2").hexdigest()) == b"2"
