"""``rlm-ci verify RUN`` of a fix loop: its places are looked up where the result really is."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from testing.fix_stage import BUG
from testing.folders import unpack
from testing.killed_runs import facts, killed_after
from testing.run_edits import forge
from testing.tokens import TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.fix_stage import Outcome, Stage

#: Says, as mypy does, that two places are wrong: one in a file that the agent makes.
VALIDATOR = (
    "echo 'calc.py:3: error: bad  [misc]'; echo 'new.py:2: error: bad  [misc]'; "
    "echo 'Found 2 errors in 2 files (checked 2 source files)'; false"
)
AGENT = "sh -c 'cp calc.py new.py; echo >> calc.py'"


@pytest.fixture
def left(stage: Stage) -> Outcome:
    """A run that has failed, whose result is a patch; a file of it was not committed before."""
    stage.repo.write("calc.py", f"# mine\n{BUG}")
    ended, run = stage.fixed("--agent", AGENT, "--validator", VALIDATOR, "--max-iterations", "1")
    assert (ended.code, run.final) == (3, "max_iterations"), ended
    places = {place["path"] for one in run.report["findings"] for place in one["evidence"]}
    assert places == {"calc.py", "new.py"}
    return run


@pytest.mark.full
def test_what_stands_only_in_the_patch_is_looked_up(stage: Stage, left: Outcome) -> None:
    checked = stage.cli("verify", left.id)
    assert checked.code == 0, checked
    assert "2 cited places, all hold" in checked.stdout
    notes = [line for line in checked.stdout.splitlines() if line.startswith("· ")]
    assert ["new.py:2" in notes[1], "calc.py:3" in notes[0]] == [True, True]
    assert all("the run's own copy has the quote" in line for line in notes)
    _path(left.folder)
    checked = stage.cli("verify", left.id)
    assert (checked.code, "other.py:2" in checked.stdout) == (1, True), checked


def _line(folder: Path) -> None:
    _place(folder, line_start=400, line_end=400)


def _blob(folder: Path) -> None:
    _place(folder, blob="1" * 40)


def _quote(folder: Path) -> None:
    _place(folder, quote="another")


def _path(folder: Path) -> None:
    _place(folder, path="other.py")


def _place(folder: Path, **change: Any) -> None:
    record = json.loads((folder / "report.json").read_text())
    [found] = [one for one in record["findings"] if one["evidence"][0]["path"] == "new.py"]
    found["evidence"][0].update(change)
    (folder / "report.json").write_text(json.dumps(record))


def _objects(folder: Path) -> None:
    """The object of the file says something else than its name."""
    [found] = [
        place["blob"]
        for one in json.loads((folder / "report.json").read_text())["findings"]
        for place in one["evidence"]
        if place["path"] == "new.py"
    ]
    objects = folder / "rlm/git/objects/objects"
    other = next(one for one in objects.glob("??/*") if one.parent.name + one.name != found)
    target = objects / found[:2] / found[2:]
    target.unlink()
    shutil.copy(other, target)


@pytest.mark.full
@pytest.mark.parametrize("change", [_line, _blob, _quote, _path, _objects])
def test_what_does_not_hold_there_is_named(
    stage: Stage, left: Outcome, change: Callable[[Path], None]
) -> None:
    change(left.folder)
    checked = stage.cli("verify", left.id)
    assert checked.code == 1, checked
    assert "2 cited places, 1 does not hold" in checked.stdout


@pytest.mark.full
def test_what_is_in_no_tree_is_no_place(stage: Stage) -> None:
    """What was taken out of the copy can be looked up nowhere; the message names it."""
    stage.repo.write("tox.ini", "[flake8]\n").commit()
    agent = "sh -c 'git init -q inner && cp calc.py inner && rm tox.ini'"
    asked = ("--agent", agent, "--validator", "true", "--max-iterations", "1")
    ended, run = stage.fixed(*asked, goal="Tidy up")
    assert ended.code == 1, ended
    assert run.rules == {"tamper/embedded-repository", "tamper/config-weakened"}
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked
    first, last = checked.stdout.splitlines()
    assert first == "1 cited place, all hold"
    assert last.endswith(", all unchanged; 12 rebuilt from its record")


@pytest.mark.full
def test_without_its_objects_the_patch_tells_and_it_is_no_pass(stage: Stage) -> None:
    """As in an export, which has none. What cannot be looked up does not hold."""
    _, run = stage.fixed("--agent", AGENT, "--validator", VALIDATOR, "--max-iterations", "1")
    shutil.rmtree(run.folder / "rlm/git")
    checked = stage.cli("verify", run.id)
    assert (checked.code, "2 cited places, all hold" in checked.stdout) == (3, True), checked
    assert "report.json: it cannot be made again from the record of the run" in checked.stdout
    assert "its git objects are missing (rlm/git): verify the folder that" in checked.stdout
    assert checked.stdout.splitlines()[-1].endswith(
        "; NOT made again, so that a forger could have written: report.json, rlm/result.patch"
    )
    as_json = stage.cli("verify", run.id, "--format", "json")
    assert as_json.code == 3, as_json
    told = as_json.json()
    assert "verify the folder that" in told["notes"][-1]
    assert told["files"]["not_made_again"] == ["report.json", "rlm/result.patch"]
    patch = run.folder / "rlm/result.patch"
    patch.write_text(patch.read_text().replace("+def", "+deff"))
    checked = stage.cli("verify", run.id)
    assert (checked.code, "does not hold" in checked.stdout) == (1, True), checked


def exported(stage: Stage, run: Outcome, folder: Path) -> tuple[str, Path]:
    """What an export says, and the folder into which it was unpacked."""
    file = folder / "run.tar.gz"
    ended = stage.cli("export", run.id, "-o", str(file))
    assert ended.code == 0, ended
    unpack(file, folder)
    return ended.stdout, folder / run.id


def test_an_export_brings_what_makes_its_report_again(
    stage: Stage, left: Outcome, tmp_path: Path
) -> None:
    said, folder = exported(stage, left, tmp_path)
    assert re.search(r", with \d+ git objects, for verify$", said.strip()), said
    shutil.rmtree(left.folder)
    checked = stage.cli("verify", str(folder))
    assert (checked.code, "NOT made again" in checked.stdout) == (0, False), checked
    assert re.search(r"; 1\d rebuilt from its record$", checked.stdout.strip()), checked
    assert not list(folder.rglob("config")), "an export has no git configuration"
    report = json.loads((folder / "report.json").read_text())
    report["usage"]["calls"] = 7
    (folder / "report.json").write_text(json.dumps(report))
    forge(folder)
    checked = stage.cli("verify", str(folder))
    assert (checked.code, "✗ report.json: " in checked.stdout) == (1, True), checked


@pytest.mark.full
def test_an_export_gives_no_secret_away(stage: Stage, tmp_path: Path) -> None:
    stage.repo.write("notes.txt", f"key = {TOKENS['Stripe']}\n")
    _, run = stage.fixed("--agent", AGENT, "--validator", VALIDATOR, "--max-iterations", "1")
    said, folder = exported(stage, run, tmp_path)
    assert "without its git objects (one has what looks like a secret)" in said
    assert not (folder / "rlm/git").exists()
    shutil.rmtree(run.folder)
    checked = stage.cli("verify", str(folder))
    assert (checked.code, "NOT made again" in checked.stdout) == (3, True), checked


@pytest.mark.full
def test_a_record_that_breaks_off_is_no_excuse_for_a_report(stage: Stage, left: Outcome) -> None:
    """Whatever the report says of an error."""
    report = left.report
    report["parts"][0] |= {"verdict": "not_run", "summary": "the model service failed (500)"}
    report["findings"], report["verdict"] = [], "not_run"
    (left.folder / "report.json").write_text(json.dumps(report))
    killed_after(left.folder, len(facts(left.folder)) - 2, left.folder)
    forge(left.folder)
    checked = stage.cli("verify", left.id)
    assert (checked.code, "✗ report.json: " in checked.stdout) == (1, True), checked


@pytest.mark.full
def test_an_object_that_is_damaged_tells_of_its_own_place_alone(
    stage: Stage, left: Outcome
) -> None:
    folder = left.folder / "rlm/git/objects/objects"
    blob = next(
        place["blob"]
        for one in left.report["findings"]
        for place in one["evidence"]
        if place["path"] == "new.py"
    )
    loose = folder / blob[:2] / blob[2:]
    loose.chmod(0o600)
    loose.write_bytes(b"no object")
    checked = stage.cli("verify", left.id)
    assert checked.code == 1, checked
    assert "✗ new.py:2" in checked.stdout
    assert "✗ calc.py" not in checked.stdout
