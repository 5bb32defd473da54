"""What the journals of a recursion say of each node, in whatever order its records were written."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import DamagedError
from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.journal.node_records import NODES, RESULTS
from testing.solver_cases import shop, solve

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solved") / "rlm"
    solve(folder, shop())
    return folder


def test_two_runs_of_the_same_say_the_same(solved: Path, tmp_path: Path) -> None:
    solve(tmp_path / "again", shop())
    first, second = node_records.read(str(solved)), node_records.read(str(tmp_path / "again"))
    assert first[RESULTS] == second[RESULTS]
    assert first[NODES].keys() == second[NODES].keys() == first[RESULTS].keys()
    assert {fields["status"] for fields in first[NODES].values()} == {"completed"}


def test_another_text_has_other_outcomes(solved: Path, tmp_path: Path) -> None:
    solve(tmp_path / "other", shop() | {"README.md": b"# Shop\nwhich sells\n"})
    other = node_records.read(str(tmp_path / "other"))
    assert other[RESULTS] != node_records.read(str(solved))[RESULTS]


def test_a_torn_journal_and_a_missing_record_are_damage(solved: Path, tmp_path: Path) -> None:
    torn = shutil.copytree(solved, tmp_path / "torn")
    path = torn / RESULTS
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedError, match=r"bytes are behind the last record \(results"):
        node_records.read(str(torn))
    lines = (solved / RESULTS).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(DamagedError, match=r"damaged at record 2, byte \d+: its number is 3"):
        node_records.read(str(torn))
