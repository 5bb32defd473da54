"""A receipt in a file, checked again offline, in either form."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.receipts import statement
from rlm_ci.receipts.receipt import FOLDER, Receipt
from rlm_ci.receipts.verify_file import VerifiedReceipt, is_receipt, verify
from testing.repositories.delegated_runs import TASK

if TYPE_CHECKING:
    from pathlib import Path

    from testing.receipts_stage import Scene


def written(scene: Scene, folder: Path, receipt: Receipt | None = None) -> tuple[str, str]:
    """Both files of a receipt that a job made."""
    key = statement.new_key()
    made = receipt or scene.receipt()
    made = made.replace(workflow=scene.made_by_job(), public_key=key.public, token="e.f.g")
    paths = (folder / FOLDER / "x.json", folder / FOLDER / "x.intoto.jsonl")
    paths[0].parent.mkdir()
    paths[0].write_bytes(made.to_bytes())
    paths[1].write_bytes(statement.signed(made, key))
    return os.fspath(paths[0]), os.fspath(paths[1])


def checked(scene: Scene, path: str) -> VerifiedReceipt:
    assert is_receipt(path)
    return verify(path, scene.opened)


def test_both_forms_say_the_same(scene: Scene, tmp_path: Path) -> None:
    by_form = [checked(scene, path) for path in written(scene, tmp_path)]
    assert by_form[0] == by_form[1]
    assert by_form[0].problems == ()
    assert by_form[0].summary.startswith(f"1 run of {TASK}, 1 succeeded, on ")
    assert "made by run 77 of acme/shop/.github/workflows/agents.yml" in by_form[0].summary
    assert "GitHub's signature needs GitHub's keys" in by_form[0].notes[0]


def test_a_statement_stands_alone(scene: Scene, tmp_path: Path) -> None:
    receipt, envelope = written(scene, tmp_path)
    os.unlink(receipt)
    assert checked(scene, envelope).problems == ()


@pytest.mark.parametrize("which", [0, 1])
def test_forms_that_differ_are_a_problem(scene: Scene, tmp_path: Path, which: int) -> None:
    paths = written(scene, tmp_path)
    other = scene.receipt(scene.work, scene.run(number=5))
    (tmp_path / "other").mkdir()
    others = written(scene, tmp_path / "other", other)
    os.replace(others[which], paths[which])
    (problem,) = checked(scene, paths[which]).problems
    assert problem.endswith("its in-toto statement says something else")


def test_a_changed_tree_is_a_problem_and_an_unknown_commit_a_note(
    scene: Scene, tmp_path: Path
) -> None:
    for name, receipt in (
        ("tree", scene.receipt().replace(tree="0" * 40)),
        ("commit", scene.receipt().replace(commit="0" * 40)),
    ):
        (tmp_path / name).mkdir()
        result = checked(scene, written(scene, tmp_path / name, receipt)[1])
        if name == "tree":
            assert "has another tree than 000000000000" in result.problems[0]
        else:
            assert result.problems == ()
            assert "is not in this clone: its tree is not compared" in result.notes[0]


def test_one_that_no_job_made_is_evidence_of_its_author(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / FOLDER / "x.json"
    path.parent.mkdir()
    path.write_bytes(scene.receipt().to_bytes())
    result = checked(scene, os.fspath(path))
    assert (result.problems, result.notes[0][:15]) == ((), "no CI job made ")


def test_what_is_not_there_is_an_error(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the receipt cannot be read"):
        verify(os.fspath(tmp_path / "x.intoto.jsonl"), scene.opened)


def test_other_files_are_no_receipts() -> None:
    assert not any(map(is_receipt, ("report.json", "latest", ".delegation/x", "x.jsonl")))
