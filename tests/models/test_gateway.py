"""Which runs are looked into for answers: few, the newest, real, and not too large."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.models.gateway import earlier

if TYPE_CHECKING:
    from pathlib import Path

NAME = "calls.jsonl"


def made(folder: Path, number: int, size: int = 1) -> Path:
    run = folder / f"2026-01-01T00-00-{number:02d}Z-00000000"
    run.mkdir(parents=True)
    with (run / NAME).open("wb") as file:
        file.truncate(size)
    return run


def test_the_newest_five_without_the_run_itself(tmp_path: Path) -> None:
    runs = [made(tmp_path, number) for number in range(8)]
    (runs[5] / NAME).unlink()
    found = earlier(str(runs[7]), NAME)
    assert found == tuple(str(runs[number] / NAME) for number in (6, 4, 3, 2, 1))


def test_no_more_than_can_be_read_at_the_beginning(tmp_path: Path) -> None:
    runs = [made(tmp_path, number, 30 << 20) for number in range(4)]
    own = made(tmp_path, 9)
    assert earlier(str(own), NAME) == (str(runs[3] / NAME), str(runs[2] / NAME))


def test_a_link_is_no_run(tmp_path: Path) -> None:
    elsewhere = made(tmp_path / "elsewhere", 1)
    own = made(tmp_path / "cli", 9)
    os.symlink(elsewhere, tmp_path / "cli" / elsewhere.name)
    assert earlier(str(own), NAME) == ()
    assert earlier(str(tmp_path / "nowhere" / "run"), NAME) == ()
