"""``rlm-ci review``, and the runs that it leaves: as processes, in real repositories."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testing.killed_runs import recursion_killed_after
from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

HOLE = "import subprocess\n\n\ndef run(word):\n    return subprocess.call(word, shell=True)\n"
#: Has the form of a token.
TOKEN = "ghp_" + "1a2B3c4D5e6F" * 3
FINE = '"""Fine."""\n\n\ndef double(number):\n    """Twice."""\n    return 2 * number\n'


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("src/hole.py", HOLE).write("src/fine.py", FINE).write("notes.txt", "x\n").commit()
    yield found
    found.clean()


def artifacts(stage: Stage, run_id: str) -> Path:
    return stage.folder(run_id) / "rlm" / "artifacts" / "review"


def cut(folder: Path, last: int) -> None:
    """As if the process had been killed behind that record."""
    recursion_killed_after(folder / "rlm", last, folder / "rlm")
    events = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(events[:-1]))  # the last one tells the end
    record = json.loads((folder / "manifest.json").read_text())
    record |= {"status": "in_progress", "exit_code": None, "completed_at": None, "commands": []}
    (folder / "manifest.json").write_text(json.dumps(record))


def rules(report: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in report["findings"]}


def test_a_repository_without_a_key(stage: Stage) -> None:
    ended = stage.cli("review", "--format", "json", "--fail-level", "medium")
    report = ended.json()
    assert ended.code == 1
    assert report["verdict"] == "findings"
    assert "review/ruff-s602" in rules(report)
    assert report["coverage"]["eligible"] == 5
    assert {one["path"] for one in report["findings"][0]["evidence"]} == {"src/hole.py"}
    run_id = stage.only()
    found = artifacts(stage, run_id)
    assert {path.name for path in found.iterdir()} == {
        "report.md", "findings.json", "clusters.json", "codequality.json", "review.sarif",
    }  # fmt: skip
    assert ended.stderr.splitlines()[-1].startswith("report: ")
    assert ended.stderr.endswith(f"/{run_id}/rlm/artifacts/review/report.md\n")
    head = stage.repo.sha()
    assert json.loads((found / "findings.json").read_text())["subject"]["head"] == head
    checked = stage.cli("verify", run_id)
    assert (checked.code, "all hold" in checked.stdout) == (0, True)
    assert "rebuilt from its record" in checked.stdout
    again = stage.cli("replay", run_id, "--check")
    assert again.code == 0, again.stderr
    assert "the report is the same" in again.stderr
    told = stage.cli("status", run_id, "--format", "json").json()["recursion"]
    assert (told["objective"], told["solved"], told["active"]) == ("review", told["total"], 0)
    assert " solved, 0 active" in stage.cli("status", run_id).stdout


@pytest.mark.full
def test_a_folder_of_it_and_the_work_tree(stage: Stage) -> None:
    stage.repo.write("docs/new.py", HOLE)
    named = stage.cli("review", "src/fine.py", "--format", "json").json()
    assert named["coverage"]["eligible"] == 1
    nothing = stage.cli("review", "docs")
    assert (nothing.code, nothing.stderr.count("there are no files to read")) == (5, 1)
    there = stage.cli("review", "docs", "--worktree", "--format", "json").json()
    assert {one["evidence"][0]["path"] for one in there["findings"]} == {"docs/new.py"}
    assert there["subject"]["worktree"]


def test_a_folder_outside_of_git(stage: Stage, tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "hole.py").write_text(HOLE)
    report = stage.cli("review", str(folder), "--format", "json").json()
    assert report["subject"]["head"] is None
    assert "review/ruff-s602" in rules(report)
    assert cli("verify", "latest", cwd=folder).code == 0
    assert stage.ids() == []  # the run belongs to the folder that it is about


def test_a_change_in_its_context(stage: Stage) -> None:
    base = stage.repo.sha()
    stage.repo.append("src/hole.py", "\n\ndef more(word):\n    return eval(word)\n").commit()
    report = stage.cli("review", "--base", base, "--format", "json").json()
    open_ones = {one["rule"] for one in report["findings"] if one["suppression"] is None}
    waved = {one["rule"]: one["suppression"] for one in report["findings"] if one["suppression"]}
    assert "review/ruff-s307" in open_ones
    assert "not touch" in waved["review/ruff-s602"]
    assert report["subject"]["base"] == base
    stage.repo.write("notes.txt", "y\n").commit()
    nobody = stage.cli("review", "--base", "HEAD~1", "--format", "json")
    assert (nobody.code, nobody.json()["verdict"]) == (5, "not_run")
    assert nobody.json()["coverage"]["covered"] == 0
    nothing = stage.cli("review", "src", "--base", "HEAD~1")
    assert (nothing.code, "the change has no file" in nothing.stdout) == (0, True)
    wrong = stage.cli("review", "--base", base, "--worktree")
    assert (wrong.code, "a change is between commits" in wrong.stderr) == (2, True)


def test_a_commit_that_is_named_is_the_one_that_is_looked_at(stage: Stage) -> None:
    first = stage.repo.sha()
    stage.repo.write("src/later.py", HOLE).commit()
    report = stage.cli("review", "--head", "HEAD~1", "--format", "json").json()
    assert report["subject"]["head"] == first
    assert {one["path"] for one in report["findings"][0]["evidence"]} == {"src/hole.py"}
    both = stage.cli("review", "--head", "HEAD~1", "--worktree")
    assert (both.code, "--head names a commit" in both.stderr) == (2, True)
    assert stage.cli("review", "--head", "gone").code == 5


@pytest.mark.full
def test_a_fault_that_a_change_makes_elsewhere_in_a_file_is_its_own(stage: Stage) -> None:
    used = "import os\nimport sys\n\nlost\n\n\ndef g():\n    return os.getcwd(), sys.path\n"
    broken = "def f(:\n    pass\n\n\ndef h():\n    return gone\n"
    stage.repo.write("src/a.py", used).write("src/b.py", broken).write("src/c.py", "import os\n")
    base = stage.repo.write("src/c.py", f"{used}\n\n{FINE}").commit()
    stage.repo.write("src/a.py", used.removeprefix("import os\n"))
    stage.repo.write("src/b.py", broken.replace("(:", "():"))  # what it held, nobody could tell
    stage.repo.run("mv", "src/c.py", "src/d.py")
    stage.repo.write("src/d.py", f"{used}\n\n{FINE}".replace("import sys\n", "")).commit()
    ended = stage.cli("review", "--base", base, "--fail-level", "medium", "--format", "json")
    told = {
        (one["message"], *[(place["path"], place["line_start"]) for place in one["evidence"]])
        for one in ended.json()["findings"]
        if "f821" in one["rule"] and one["suppression"] is None
    }
    assert told == {
        (
            "Undefined name `os` (at line 7, because of this change)",
            ("src/a.py", 1),
            ("src/a.py", 7),
        ),
        (
            "Undefined name `sys` (at line 7, because of this change)",
            ("src/d.py", 2),
            ("src/d.py", 7),
        ),
    }
    assert ended.code == 1
    waved = [
        one["message"]
        for one in ended.json()["findings"]
        if one["suppression"] and "f821" in one["rule"]
    ]
    assert sorted(waved) == ["Undefined name `gone`", *["Undefined name `lost`"] * 2]
    assert stage.cli("verify", stage.only()).code == 0
    assert stage.cli("replay", stage.only(), "--check").code == 0


def test_programs_that_a_repository_names_run_in_the_sandbox_or_not_at_all(
    stage: Stage, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "theirs"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/owned\n"
        """printf '{"runs": [{"results": [{"message": {"text": "it ran"}}]}]}'"""
    )
    program.chmod(0o755)
    row = f'[[review.analyzers]]\nname = "theirs"\ncommand = ["{program}", "{{folder}}"]\n'
    stage.repo.write("rlm-ci.toml", row).commit()
    told = "1 result of theirs has no place in the files: it ran"
    ended = stage.cli("review", "--format", "json")
    notes = (artifacts(stage, stage.only()) / "findings.json").read_text()
    assert (told in notes, (tmp_path / "owned").exists()) == (True, False)
    assert stage.manifest(stage.only())["sandbox"] == "bubblewrap"

    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("git", "sh", "ruff"):
        found = shutil.which(name, path=f"{os.path.dirname(sys.executable)}:/usr/bin:/bin")
        (bare / name).symlink_to(str(found))
    ended = stage.cli("review", "--format", "json", env={"PATH": str(bare)})
    assert (ended.code, ended.json()["verdict"]) == (3, "incomplete")
    left = {one["reason"] for one in ended.json()["coverage"]["omitted"]}
    assert (
        "the analyzer theirs gave nothing: there is no sandbox: bwrap could not be started: "
        "there is no such executable program (--sandbox none runs it as you)"
    ) in left
    assert "review/ruff-s602" in rules(ended.json())  # ruff needs none
    assert not (tmp_path / "owned").exists()

    ended = stage.cli("review", "--format", "json", "--sandbox", "none")
    [part] = ended.json()["parts"]
    assert part["summary"].endswith("; ran without a sandbox: theirs")
    assert stage.manifest(ended.json()["run_id"])["sandbox"] == "none"
    assert (tmp_path / "owned").exists()


@pytest.mark.full
def test_in_the_background_and_resumed(stage: Stage) -> None:
    begun = stage.start("review", "--path", "src")
    stage.cli("wait", begun["run_id"])
    manifest = stage.manifest(begun["run_id"])
    assert (manifest["pipeline_id"], manifest["status"]) == ("review", "succeeded")
    # Killed between two records, it goes on to the same bytes.
    whole = stage.cli("review", "--format", "json", "--path", "src")
    done = stage.ids()[-1]
    folder = stage.folder(done)
    before = (folder / "rlm/artifacts/review/findings.json").read_bytes()
    cut(folder, 4)
    resumed = stage.cli("resume", done)
    assert resumed.code == whole.code, resumed.stderr
    assert (folder / "rlm/artifacts/review/findings.json").read_bytes() == before


@pytest.mark.full
def test_cancelled_and_taken_up_again(stage: Stage) -> None:
    whole = stage.cli("review", "--format", "json")
    run_id = stage.only()
    folder = stage.folder(run_id)
    cut(folder, 4)
    assert stage.cli("cancel", run_id).code == 0
    told = stage.cli("status", run_id, "--format", "json").json()
    assert (told["status"], told["recursion"]["status"]) == ("cancelled", "cancelled")
    assert "had ended already" in stage.cli("cancel", run_id).stdout
    resumed = stage.cli("resume", run_id)
    assert resumed.code == whole.code, resumed
    told = stage.cli("status", run_id, "--format", "json").json()
    assert (told["recursion"]["status"], told["exit_code"]) == ("completed", whole.code)
    report = json.loads((folder / "report.json").read_bytes())
    assert report["findings"] == whole.json()["findings"]
    assert stage.cli("verify", run_id).code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("a", "b"), "review takes one folder"),
        (("nowhere",), "there is no 'nowhere'"),
        (("--scheduler", "round-robin"), "there is no scheduler 'round-robin'"),
        (("--scheduler", "dask://nowhere"), "there is no scheduler"),
    ],
)
def test_wrong_use(stage: Stage, args: tuple[str, ...], said: str) -> None:
    ended = stage.cli("review", *args)
    assert ended.code in (2, 5)
    assert said in ended.stderr


def test_a_change_cannot_hide_what_it_changes(stage: Stage) -> None:
    base = stage.repo.sha()
    stage.repo.write(".gitattributes", "*.py linguist-generated\n")
    stage.repo.append("src/hole.py", "\n\ndef more(word):\n    return eval(word)\n")
    stage.repo.write("src/blob.py", b"x = 1\0").commit()
    report = stage.cli("review", "--base", base, "--format", "json").json()
    assert "review/ruff-s307" in rules(report)
    omitted = {one["path"]: one["reason"] for one in report["coverage"]["omitted"]}
    assert omitted["src/blob.py"].startswith("binary")


@pytest.mark.parametrize(
    "names",
    [
        (b"\xff.py",),  # JSON has no such bytes
        (f"{TOKEN}a.py".encode(),),  # a record keeps no secret
        (f"{TOKEN}a.py".encode(), f"{TOKEN}b.py".encode(), b"\xfe\xff.py"),
    ],
    ids=["bytes", "token", "several"],
)
def test_a_name_that_a_record_writes_otherwise_hides_no_finding(
    stage: Stage, names: tuple[bytes, ...]
) -> None:
    base = stage.repo.sha()
    for name in names:
        stage.repo.write(name, "def more(word):\n    return eval(word)\n")
    stage.repo.commit()
    report = stage.cli("review", "--base", base, "--format", "json").json()
    marks = [row["suppression"] for row in report["findings"] if row["rule"] == "review/ruff-s307"]
    assert marks == [None] * len(names)


@pytest.mark.full
def test_files_that_nobody_looks_at_are_not_covered(stage: Stage) -> None:
    stage.repo.write("c/a.c", "int main() { gets(0); }\n").commit()
    report = stage.cli("review", "--format", "json").json()
    coverage = report["coverage"]
    omitted = {one["path"] for one in coverage["omitted"]}
    assert (coverage["eligible"], coverage["covered"]) == (6, 2)
    assert omitted == {"c/a.c", "notes.txt", ".gitignore", "README.md"}
    assert stage.cli("review", "c").code == 5


def test_a_bare_repository_is_none_to_look_at(stage: Stage, tmp_path: Path, cli: Cli) -> None:
    bare = stage.repo.clone(tmp_path / "bare.git", "--bare")
    for command in ("review", "wiki"):
        ended = cli(command, cwd=bare.path)
        assert (ended.code, "a bare repository has no work tree" in ended.stderr) == (5, True)
    assert not (bare.path / ".runs").exists()


def test_what_was_left_out_of_a_folder_is_told(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "plain" / "sub"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(FINE)
    (folder / "b.py").write_bytes(b"\0")
    (folder.parent / "c.py").write_bytes(b"\0")
    report = cli("review", "sub", "--format", "json", cwd=folder.parent).json()
    assert [one["path"] for one in report["coverage"]["omitted"]] == ["sub/b.py"]


def test_a_run_without_a_report_is_verified_by_its_journals(stage: Stage) -> None:
    stage.cli("review")
    folder = stage.folder(stage.only())
    cut(folder, 4)
    (folder / "report.json").unlink()
    ended = stage.cli("verify", "latest")
    assert (ended.code, "there is no report" in ended.stdout) == (0, True)
    nodes = folder / "rlm/nodes.jsonl"
    nodes.write_bytes(b"".join(nodes.read_bytes().splitlines(keepends=True)[1:]))
    ended = stage.cli("verify", "latest")
    assert ended.code == 1
    told = "✗ rlm: the journal is damaged at record 1, byte 0: its number is 2, behind 0"
    assert told in ended.stdout, ended


def test_the_result_of_the_whole_names_its_files(stage: Stage) -> None:
    stage.cli("review")
    folder = stage.folder(stage.only()) / "rlm"
    results = list(map(json.loads, (folder / "results.jsonl").read_text().splitlines()))
    artifacts = results[-1]["artifacts"]
    assert artifacts == [
        one["path"] for one in json.loads((folder / "run.json").read_text())["output_index"]
    ]
    assert all((folder / name).is_file() for name in artifacts)
    assert stage.cli("verify", "latest").code == 0


def test_a_change_cannot_be_too_large_to_be_looked_at(stage: Stage) -> None:
    base = stage.repo.sha()
    stage.repo.write("huge.py", HOLE + "# " + "x" * (2 << 20) + "\n").commit()
    out = stage.repo.path.parent / "out"
    ended = stage.cli("pr", "--base", base, "--out", str(out), "--format", "json")
    parts = {part["id"]: part for part in ended.json()["parts"]}
    assert (ended.code, parts["review"]["verdict"]) == (3, "incomplete")
    assert "huge.py" in parts["review"]["summary"]
