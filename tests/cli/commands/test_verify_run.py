"""``rlm-ci verify RUN``: every byte that a run has left counts, also where its sums are forged."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.report.rules import PAGE
from rlm_ci.runs.journal import reader
from rlm_ci.runs.journal.journal import replay
from testing.folders import unpack
from testing.pipelines_stage import Stage
from testing.run_edits import append, evidence_of, forge, unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

HOLE = '"""Calls."""\n\nimport requests\n\n\ndef run(word):\n    """Ask."""\n    return {}\n'
FIX = ("rlm", "Mend it", "--agent", "cp good.py calc.py", "--validator", "grep -q good calc.py")
#: By name the commands that make a run.
RUNS: dict[str, tuple[str, ...]] = {
    "review": ("review",),
    "change": ("review", "--base", "HEAD~1"),
    "wiki": ("wiki", "--out", "pages"),
    "pr": ("pr", "--base", "HEAD~1"),
    "fix": FIX,
}


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("src/hole.py", HOLE.format("requests.get(word)")).commit()
    repo.write("src/hole.py", HOLE.format("requests.get(word, verify=False)"))
    repo.write("good.py", "good = 1\n").write("calc.py", "bad = 1\n").commit()
    yield found
    found.clean()


def made(stage: Stage, name: str) -> Path:
    ended = stage.cli(*RUNS[name])
    assert ended.code in (0, 1), ended
    [run] = stage.ids()
    folder = stage.folder(run)
    checked = stage.cli("verify", str(folder))
    assert checked.code == 0, checked
    assert "all unchanged" in checked.stdout
    assert "rebuilt from its record" in checked.stdout
    return folder


@pytest.mark.full
@pytest.mark.parametrize("name", RUNS)
def test_every_byte_counts(stage: Stage, name: str) -> None:
    """Flipped, longer, shorter or gone: no file of a run changes without a word."""
    folder = made(stage, name)
    assert len(evidence_of(folder)) > 7

    def verified() -> Ended:
        return stage.cli("verify", str(folder))

    assert unseen(folder, verified) == []
    (folder / "rlm").mkdir(exist_ok=True)
    (folder / "rlm" / "APPROVED.md").write_text("yes\n")
    ended = stage.cli("verify", str(folder))
    assert (ended.code, "rlm/APPROVED.md: no run has written it" in ended.stdout) == (1, True)


def clean(report: dict[str, Any]) -> None:
    report |= {"verdict": "clean", "findings": []}
    for part in report["parts"]:
        part["verdict"] = "clean"


def verified(stage: Stage, folder: Path, *, forged: bool) -> Ended:
    if forged:
        forge(folder)
    return stage.cli("verify", str(folder))


@pytest.mark.full
@pytest.mark.parametrize("forged", [True, False])
def test_a_review_says_what_its_record_gives(stage: Stage, *, forged: bool) -> None:
    folder = made(stage, "change")
    path = folder / "report.json"
    before = path.read_bytes()
    report = json.loads(before)
    clean(report)
    path.write_text(json.dumps(report))
    ended = verified(stage, folder, forged=forged)
    assert (ended.code, "✗ report.json: it is not what the" in ended.stdout) == (1, True), ended
    path.write_bytes(before)
    inner = "rlm/artifacts/review"
    for name in (f"{inner}/report.md", f"{inner}/findings.json", "comment.md", "report.sarif"):
        held = (folder / name).read_bytes()
        append(folder / name)
        ended = verified(stage, folder, forged=forged)
        assert (ended.code, f"✗ {name}: it is not what the" in ended.stdout) == (1, True), ended
        (folder / name).write_bytes(held)
    assert verified(stage, folder, forged=True).code == 0


@pytest.mark.full
@pytest.mark.parametrize("name", ["review", "wiki", "fix"])
def test_what_is_made_again_is_made_without_the_sums(stage: Stage, name: str) -> None:
    folder = made(stage, name)
    others = ("files.sha256", "manifest.json", ".jsonl", "request.json", "run.json",
              "snapshot.json")  # fmt: skip
    inner = ("rlm/iteration-", "rlm/logs/", "commands/")
    for one in evidence_of(folder):
        if one.endswith(others) or one.startswith(inner):
            continue  # recorded: what was asked for, and what happened
        held = (folder / one).read_bytes()
        (folder / one).write_bytes(held + b"\n")
        ended = verified(stage, folder, forged=True)
        assert (ended.code, f"✗ {one}: " in ended.stdout) == (1, True), (one, ended)
        (folder / one).write_bytes(held)


@pytest.mark.full
def test_nobody_talks_it_out_of_making_it_again(stage: Stage) -> None:
    """Neither by another kind of run, nor by an error, nor by taking the record away."""
    folder = made(stage, "change")
    path, events = folder / "report.json", folder / "events.jsonl"
    calls = folder / "calls.jsonl"
    kept = {one: one.read_bytes() for one in (path, events, calls, folder / "manifest.json")}

    def fails(ended: Ended) -> None:
        assert ended.code in (1, 5, 6), ended
        for one, data in kept.items():
            one.write_bytes(data)

    report = json.loads(kept[path])
    clean(report)
    report["parts"][0]["metrics"]["mode"] = "symbolic"
    path.write_text(json.dumps(report))
    fails(verified(stage, folder, forged=True))
    del report["parts"][0]["metrics"]["mode"]
    path.write_text(json.dumps(report))
    run = json.loads(kept[folder / "manifest.json"])
    (folder / "manifest.json").write_text(json.dumps({**run, "exit_code": 8}))
    found = list(replay(str(events)))
    found[-1]["payload"] |= {"exit_code": 8, "version": "0.0.1"}
    events.write_bytes(b"".join(map(reader.to_line, found)))
    fails(verified(stage, folder, forged=True))
    path.write_text(json.dumps(report))
    calls.unlink()
    fails(verified(stage, folder, forged=True))
    found[-1]["payload"].pop("rests_on")
    path.write_text(json.dumps(report))
    events.write_bytes(b"".join(map(reader.to_line, found)))
    fails(verified(stage, folder, forged=True))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("version", "code"), [("0.1.0", 0), ("0.0.9", 1), ("9.0.0", 1)])
def test_an_earlier_release_worded_its_reports_differently(
    stage: Stage, version: str, code: int
) -> None:
    """Its checksums must hold; what today's templates would make of the record is no proof."""
    folder = made(stage, "change")
    view, events = folder / "comment.md", folder / "events.jsonl"
    view.write_text(view.read_text().replace("rlm-ci", "rlm_ci"))
    forge(folder)
    found = list(replay(str(events)))
    found[-1]["payload"] |= {"version": version}
    events.write_bytes(b"".join(map(reader.to_line, found)))
    ended = verified(stage, folder, forged=False)
    assert (ended.code, f"rlm-ci {version} wrote this run" in ended.stdout) == (
        code,
        not code,
    ), ended
    view.write_text("another")
    assert verified(stage, folder, forged=False).code == 1


@pytest.mark.full
def test_a_report_of_pr_is_that_of_its_review(stage: Stage) -> None:
    """Its checks are recorded; the review in it is a run whose report is made again."""
    folder = made(stage, "pr")
    path = folder / "report.json"
    report = json.loads(path.read_text())
    clean(report)
    path.write_text(json.dumps(report))
    ended = verified(stage, folder, forged=True)
    assert (ended.code, "✗ comment.md: it does not show" in ended.stdout) == (1, True), ended
    assert "✗ report.json: its part review is not that of the run within" in ended.stdout


@pytest.mark.full
def test_a_run_can_be_moved_exported_and_named_by_its_report(stage: Stage, tmp_path: Path) -> None:
    folder = made(stage, "change")
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    for place in (moved, moved / "report.json", moved / "manifest.json"):
        ended = stage.cli("verify", str(place), env={"RLM_CI_FAIL_LEVEL": "low"})
        assert (ended.code, "rebuilt from its record" in ended.stdout) == (0, True), ended
    told = stage.cli("export", folder.name, "-o", str(tmp_path / "a.tar.gz"))
    assert told.code == 0
    unpack(tmp_path / "a.tar.gz", tmp_path)
    ended = stage.cli("verify", str(tmp_path / folder.name))
    assert (ended.code, "all unchanged" in ended.stdout) == (0, True), ended
    shutil.copy(folder / "report.json", tmp_path / "report.json")
    ended = stage.cli("verify", str(tmp_path / "report.json"))
    assert ended.code == 0
    assert "files of the run" not in ended.stdout


@pytest.mark.full
def test_a_fix_without_its_git_objects_shows_what_its_report_says(stage: Stage) -> None:
    folder = made(stage, "fix")
    shutil.rmtree(folder / "rlm" / "git")
    ended = verified(stage, folder, forged=True)
    assert (ended.code, "cannot be made again" in ended.stdout) == (3, True), ended
    for name in ("comment.md", "report.html", "report.sarif"):
        before = (folder / name).read_bytes()
        append(folder / name)
        ended = verified(stage, folder, forged=True)
        message = f"✗ {name}: it does not show what report.json says"
        assert (ended.code, message in ended.stdout) == (1, True), ended
        (folder / name).write_bytes(before)


@pytest.mark.full
@pytest.mark.parametrize("journal", ["nodes.jsonl", "results.jsonl"])
def test_a_forged_node_is_named(stage: Stage, journal: str) -> None:
    """Also where its checksum, the sums of the run and all other files agree with it."""
    folder = made(stage, "change")
    path = folder / "rlm" / journal
    records = list(map(json.loads, path.read_text().splitlines()))
    records[-1]["status"] = "failed"
    for record in records:
        del record["crc"]
    path.write_bytes(b"".join(map(reader.to_line, records)))
    ended = verified(stage, folder, forged=True)
    message = f"✗ rlm/{journal}: node {records[-1]['node_id']}: it is not what the record"
    assert (ended.code, message in ended.stdout) == (1, True), ended


@pytest.mark.full
def test_a_run_of_an_older_version_is_not_called_whole(stage: Stage) -> None:
    folder = made(stage, "review")
    path = folder / "events.jsonl"
    found = list(replay(str(path)))
    for name in ("files", "manifest", "version", "rests_on"):
        del found[-1]["payload"][name]
    path.write_bytes(b"".join(map(reader.to_line, found)))
    os.unlink(folder / "files.sha256")
    ended = stage.cli("verify", str(folder))
    assert ended.code == 1
    assert "an older rlm-ci made this run, without a list of its files" in ended.stdout


@pytest.mark.full
def test_a_run_whose_rules_had_no_pages_yet_is_made_again_without_them(stage: Stage) -> None:
    folder = made(stage, "change")
    path = folder / "events.jsonl"
    found = list(replay(str(path)))
    assert found[-1]["payload"]["rests_on"].pop("rule_pages")
    path.write_bytes(b"".join(map(reader.to_line, found)))
    assert verified(stage, folder, forged=True).code == 1
    in_json = rf'"helpUri": "{PAGE}[^"]*", '
    in_html = rf'<a href="{PAGE}[^"]*"[^>]*>(<code>[^<]*</code>)</a>'
    for view in (*folder.rglob("*.sarif"), folder / "report.html", folder / "comment.md"):
        text = re.sub(rf"\[(`[^`]+`)\]\({PAGE}[^)]*\)", r"\1", view.read_text())
        view.write_text(re.sub(in_html, r"\1", re.sub(in_json, "", text)))
    ended = verified(stage, folder, forged=True)
    assert (ended.code, "rebuilt from its record" in ended.stdout) == (0, True), ended


@pytest.mark.full
def test_what_is_gone_from_the_work_tree_is_not_made_again(stage: Stage) -> None:
    ended = stage.cli("review", "--worktree")
    assert ended.code == 1
    folder = stage.folder(stage.only())
    assert stage.cli("verify", str(folder)).code == 0
    stage.repo.write("good.py", "good = 2\n")
    ended = stage.cli("verify", str(folder))
    assert ended.code == 1
    assert "rlm/run.json: the files have changed since the run; restore them" in ended.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", ["change", "pr"])
def test_a_run_that_has_ended_cannot_be_called_a_running_one(stage: Stage, name: str) -> None:
    """Its files would be held against nothing; so would those of a run within."""
    folder = made(stage, name)
    for path in sorted(folder.rglob("manifest.json")):
        held = path.read_bytes()
        run = {**json.loads(held), "status": "in_progress", "exit_code": None, "completed_at": None}
        path.write_text(json.dumps(run))
        ended = stage.cli("verify", str(folder))
        assert (ended.code, "✗" in ended.stdout) == (1, True), (path, ended)
        path.write_bytes(held)
