"""rlm-ci pr: one report, every surface, where it is put, and what Actions is told."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci import checks
from rlm_ci.report.wording import join
from rlm_ci.resources import loader
from testing.repositories.changes import hostile_names, numbered
from testing.repositories.events import (
    HOSTILE_TITLE,
    actions_environment,
    from_fork,
    pull_request,
    schedule,
    write_event,
)
from testing.repositories.git_repo import EMPTY_TREE

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

FILES = ["comment.md", "report.html", "report.json", "report.sarif"]


@pytest.fixture
def feature(repo: GitRepo) -> tuple[GitRepo, str, str]:
    """main, and a branch with 30 files more, on which HEAD is."""
    base = repo.write("README.md", "# Shop\n").commit("Start")
    repo.checkout("feature", new=True)
    for number in range(30):
        repo.write(f"src/file {number}.py", "x\n")
    return repo, base, repo.commit("Feature")


def test_the_files_of_a_run(cli: Cli, feature: tuple[GitRepo, str, str]) -> None:
    repo, base, head = feature
    ended = cli("pr", "--review", "off", cwd=repo)
    assert ended.code == 1
    (run,) = (repo.path / ".runs" / "rlm-repo" / "cli").iterdir()
    kept = {".lock", "events.jsonl", "files.sha256", "manifest.json"}
    assert {path.name for path in run.iterdir()} == {*FILES, *kept}
    manifest = json.loads((run / "manifest.json").read_text())
    loader.validate(manifest, "manifest.schema.json", "manifest.json")
    ending = (manifest["pipeline_id"], manifest["status"], manifest["exit_code"])
    assert ending == ("pr", "failed", 1)
    assert manifest["summary"] == "findings: 1 finding"
    assert ended.stderr == f"report: {(run / 'report.html').relative_to(repo.path)}\n"
    elsewhere = cli("pr", "--review", "off", "-C", repo, cwd=repo.path / "src")
    assert Path(elsewhere.stderr.removeprefix("report: ").rstrip()).is_absolute()
    for path in run.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for folder in (run, run.parent, run.parent.parent, repo.path / ".runs"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    report = json.loads((run / "report.json").read_text())
    loader.validate(report, "report.schema.json", "report.json")
    assert report["run_id"] == run.name
    assert (report["subject"]["base"], report["subject"]["head"]) == (base, head)
    assert (report["verdict"], report["subject"]["worktree"]) == ("findings", False)
    # The runs must not be committed by accident.
    assert repo.text("status", "--porcelain") == ""
    assert cli("verify", str(run / "report.json"), cwd=repo).code == 0


def test_every_surface_says_which_agents_wrote_commits(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    base = repo.commit("Start")
    repo.write("a.py", "x = 1\n").commit("By hand")
    claude = "🤖 Generated with [Claude Code](https://claude.com/claude-code)"
    for message in (claude, f"{claude}\n\nCo-authored-by: Codex <noreply@openai.com>"):
        repo.commit(f"Change\n\n{message}")
    out, line = tmp_path / "out", "2 of 3 commits by Claude Code, 1 by Codex"
    ended = cli("pr", "--review", "off", "--base", base, "--out", str(out), cwd=repo)
    assert f"\n  {line}\n" in ended.stdout
    for name in ("comment.md", "report.html"):
        assert line in (out / name).read_text(), name
    report = json.loads((out / "report.json").read_text())
    loader.validate(report, "report.schema.json", "report.json")
    assert report["subject"]["commits"] == 3
    names = [(one["name"], one["commits"]) for one in report["subject"]["agents"]]
    assert names == [("Claude Code", 2), ("Codex", 1)]
    # Of no agent, nothing is said; nor does a hook look, which has milliseconds.
    plain = cli("check", "--base", base, "--head", f"{base}~0", "--format", "json", cwd=repo)
    assert "agents" not in json.loads(plain.stdout)["subject"]
    head = repo.sha()
    pushed = f"refs/heads/main {head} refs/heads/main {base}\n"
    hook = cli("check", "diff-budget", "--hook", "pre-push", cwd=repo, stdin=pushed)
    assert (hook.code, "Claude" in hook.stdout) == (0, False)


@pytest.mark.full
def test_the_files_of_a_folder(cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path) -> None:
    repo, _, _ = feature
    out = tmp_path / "new" / "out put"
    ended = cli("pr", "--out", str(out), "--format", "json", cwd=repo)
    assert (ended.code, sorted(os.listdir(out))) == (1, FILES)
    assert (out / "report.json").read_text() == ended.stdout
    assert ended.json()["run_id"] is None
    assert not (repo.path / ".runs").exists()
    relative = cli("pr", "--out", "../here", "-q", cwd=repo.path / "src")
    assert (relative.code, sorted(os.listdir(repo.path / "here"))) == (1, FILES)


@pytest.mark.full
def test_the_change_without_being_told(cli: Cli, feature: tuple[GitRepo, str, str]) -> None:
    repo, base, head = feature

    def judged(*args: str) -> tuple[str, str, int]:
        report = cli("pr", "--format", "json", *args, cwd=repo).json()
        files = next(p for p in report["parts"] if p["id"] == "diff-budget")["metrics"]["files"]
        return report["subject"]["merge_base"], report["subject"]["head"], files

    repo.write("untracked", "not part of it")
    assert judged() == (base, head, 30)
    repo.checkout("main")
    more = repo.write("b.md", "x").commit()
    assert judged() == (base, more, 2)  # on the default branch: its own commit
    assert judged("--base", base, "--head", "feature") == (base, head, 30)
    assert judged("--head", "feature") == (base, head, 30)
    for named in ("HEAD", "main", more):
        assert judged("--head", named) == (base, more, 2)
    first = judged("--head", repo.text("rev-list", "--max-parents=0", "HEAD"))
    assert first[0] == EMPTY_TREE
    assert first[2] > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("place", ["subfolder", "linked", "-C"])
def test_from_elsewhere_in_the_repository(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path, place: str
) -> None:
    repo, _, head = feature
    if place == "linked":
        tree = repo.worktree(tmp_path / "linked", head)
        ended = cli("pr", "--format", "json", cwd=tree)
        top = tree.path
    else:
        source = repo.path / "src"
        args, cwd = (("-C", str(source)), tmp_path) if place == "-C" else ((), source)
        ended = cli("pr", "--format", "json", *args, cwd=cwd)
        top = repo.path
    assert (ended.code, ended.json()["subject"]["head"]) == (1, head)
    assert len(list((top / ".runs").glob("rlm-*/cli/*/report.json"))) == 1


def test_outside_of_a_repository_nothing_is_clean(cli: Cli, tmp_path: Path) -> None:
    ended = cli("pr", "--out", str(tmp_path / "out"), "--format", "json")
    assert (ended.code, ended.json()["verdict"]) == (5, "not_run")
    assert ended.stderr.count("error: not a git repository") == 1
    assert sorted(os.listdir(tmp_path / "out")) == FILES


@pytest.mark.parametrize("is_bare", [False, True])
def test_outside_of_a_work_tree_no_run_is_written(
    cli: Cli, repo: GitRepo, tmp_path: Path, is_bare: bool
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if is_bare:
        repo.write("a.py", "").commit()
        repo.clone(folder, bare=True)
    before = sorted(os.listdir(folder))
    ended = cli("pr", cwd=folder)
    assert ended.code == 5
    assert "hint: " in ended.stderr
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("bad", ["= 3", "max = 3", "fail_level = 'no'", "two"])
def test_a_config_file_that_cannot_be_obeyed_is_reported(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path, bad: str
) -> None:
    repo, _, _ = feature
    repo.write("rlm-ci.toml", "" if bad == "two" else bad)
    if bad == "two":
        repo.write("pyproject.toml", "[tool.rlm-ci]\nfail_level = 'low'\n")
    base = repo.commit()
    repo.remove("rlm-ci.toml")  # the base's counts, and a change cannot fix it for itself
    head = repo.write("a", "").write(".rlm-ci/templates/comment.md.j2", "MINE").commit()
    out, output, summary = tmp_path / "out", tmp_path / "output", tmp_path / "summary"
    env = actions_environment(
        "pull_request",
        write_event(tmp_path, pull_request(base, head)),
        GITHUB_OUTPUT=str(output),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    ended = cli("pr", "--out", str(out), cwd=repo, env=env)
    assert (ended.code, sorted(os.listdir(out))) == (5, FILES)
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("hint: ") == 1
    assert f"rlm-ci.toml at {base[:12]}" in ended.stderr
    stopped = f"{join(list(checks.names())).replace(',', '%2C')} did not run"
    assert ended.stdout.count("::error title=") == ended.stdout.count(f"{stopped}::") == 1
    assert "! Not checked: no check ran\n" in ended.stdout  # the other two have the cause
    report = json.loads((out / "report.json").read_text())
    loader.validate(report, "report.schema.json", "report.json")
    assert (report["verdict"], report["subject"]["head"]) == ("not_run", head)
    assert {part["verdict"] for part in report["parts"]} == {"not_run"}
    told = _outputs(output.read_text())
    assert (told["verdict"], told["failing"], told["head-sha"]) == ("not_run", "0", head)
    for text in (summary.read_text(), (out / "comment.md").read_text()):
        assert "Not checked" in text
        assert "MINE" not in text
    assert "Not checked" in (out / "report.html").read_text()


def test_without_a_change_the_work_tree_gives_no_template(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, _, _ = feature
    repo.write(".rlm-ci/templates/comment.md.j2", "MINE")
    ended = cli("pr", "--base", "gone", "--out", str(tmp_path / "o"), cwd=repo)
    assert ended.code == 5
    assert "MINE" not in (tmp_path / "o" / "comment.md").read_text()


def test_before_the_first_commit_the_truth_is_told(cli: Cli, repo: GitRepo) -> None:
    ended = cli("pr", "--format", "json", cwd=repo)
    assert (ended.code, ended.json()["verdict"]) == (5, "not_run")
    assert "error: the branch 'main' has no commit yet" in ended.stderr
    assert "rlm-ci check --staged" in ended.stderr
    assert "git fetch" not in ended.stderr


def test_a_folder_that_cannot_be_written_is_9(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, _, _ = feature
    (tmp_path / "file").write_text("")
    ended = cli("pr", "--out", str(tmp_path / "file"), cwd=repo)
    assert (ended.code, ended.stdout) == (9, "")
    (repo.path / ".runs").symlink_to(tmp_path)
    ended = cli("pr", cwd=repo)
    assert (ended.code, ended.stdout) == (9, "")
    assert "link" in ended.stderr


@pytest.mark.full
def test_a_link_of_the_change_leads_no_report_out(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, _, _ = feature
    outside = tmp_path / "outside"
    outside.mkdir()
    repo.symlink("out-link", str(outside))
    (repo.path / "out").mkdir()
    repo.symlink("out/report.json", "/dev/null")
    for args, env in (
        (("--out", "out-link"), {}),
        (("--out", "out-link/below"), {}),
        (("--out", "out"), {}),
        ((), {"CODEX_ORCHESTRATOR_RUNS_DIR": "out-link/runs"}),
    ):
        ended = cli("pr", *args, cwd=repo, env=env)
        assert (ended.code, "a link in the repository" in ended.stderr) == (9, True), ended
    assert list(outside.iterdir()) == []
    assert cli("pr", "--out", str(outside), cwd=repo).code in (0, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_9(cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path) -> None:
    repo, base, head = feature
    event = write_event(tmp_path, pull_request(base, head))
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        env = actions_environment("pull_request", event, **{name: "/dev/full"})
        ended = cli("pr", "--out", str(tmp_path / name), cwd=repo, env=env)
        assert ended.code == 9
        assert "No space left on device (/dev/full)" in ended.stderr


# -- Actions ------------------------------------------------------------------------------------


def _outputs(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT as the runner reads it."""
    found = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, _, end = line.partition("<<")
        value = []
        for inner in lines:
            if inner == end:
                break
            value.append(inner)
        else:
            raise AssertionError(f"{name} has no end")
        found[name] = "\n".join(value)
    return found


def test_actions_is_told_everything(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, base, head = feature
    event = write_event(tmp_path, pull_request(base, head))
    output, summary = tmp_path / "output", tmp_path / "summary"
    output.write_text("earlier<<x\nkept\nx\n")
    summary.write_text("# Earlier\n")
    env = actions_environment(
        "pull_request", event, GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary)
    )
    out = tmp_path / "a\nverdict<<b"
    ended = cli("pr", "--out", str(out), cwd=repo, env=env)
    assert ended.code == 1
    told = _outputs(output.read_text())
    assert told == {
        "earlier": "kept", "verdict": "findings", "findings": "1", "failing": "1",
        "report": str(out / "report.json"), "sarif": str(out / "report.sarif"),
        "head-sha": head, "run-id": "", "cost-usd": "", "patch": "",
        "artifact": "rlm-ci-report",
    }  # fmt: skip
    assert summary.read_text().startswith("# Earlier\n")
    assert "diff-budget/files" in summary.read_text()
    assert "::error title=diff-budget/files::" in ended.stdout
    report = json.loads((out / "report.json").read_text())
    assert report["subject"]["pull_request"] == 12
    assert report["subject"]["repository"] == "acme/shop"
    assert f"https://github.com/acme/shop/blob/{head}/" in (out / "comment.md").read_text() or (
        report["findings"][0]["evidence"] == []
    )


def test_outputs_count_what_is_suppressed_apart(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, base, head = feature
    output = tmp_path / "output"
    event = write_event(tmp_path, pull_request(base, head))
    env = actions_environment("pull_request", event, GITHUB_OUTPUT=str(output))
    env["DIFF_BUDGET_OVERRIDE_REASON"] = "generated"
    assert cli("pr", cwd=repo, env=env).code == 0
    told = _outputs(output.read_text())
    assert (told["verdict"], told["findings"], told["failing"]) == ("clean", "0", "0")
    assert told["run-id"] in told["report"]


@pytest.mark.full
def test_annotations_come_in_text_only(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, base, head = feature
    event = write_event(tmp_path, pull_request(base, head))
    env = actions_environment("pull_request", event)
    ended = cli("pr", "--format", "json", cwd=repo, env=env)
    assert ended.json()["verdict"] == "findings"
    ended = cli("pr", "-o", str(tmp_path / "x"), cwd=repo, env=env)
    assert ended.stdout == ""
    assert "::error" not in cli("pr", cwd=repo).stdout


def test_a_hostile_pull_request_forges_nothing(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    made = hostile_names(repo)
    hostile = {"title": HOSTILE_TITLE, "body": HOSTILE_TITLE, "head_ref": "::error::x"}
    payload = from_fork(made.base, made.head, labels=["a\n::error::b"], **hostile)
    event = write_event(tmp_path, payload)
    output, summary = tmp_path / "output", tmp_path / "summary"
    env = actions_environment(
        "pull_request", event, GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary)
    )
    ended = cli("pr", "--max-files", "0", "--max-lines", "0", cwd=repo, env=env)
    assert ended.code == 1
    for line in (ended.stdout + ended.stderr).split("\n"):
        assert line == "" or line.isprintable(), repr(line)
        assert "##[" not in line
        if line.lstrip().startswith("::"):
            title = line.partition("title=")[2]
            assert title.startswith(("diff-budget/", "policy/", "rlm-ci::")), line
    assert set(_outputs(output.read_text())) == {
        "verdict", "findings", "failing", "report", "sarif", "head-sha", "run-id", "cost-usd",
        "patch", "artifact",
    }  # fmt: skip
    run = next((repo.path / ".runs").glob("*/cli/*"))
    assert (run / "comment.md").read_text().count("<!-- rlm-ci:report -->") == 1
    loader.validate(json.loads((run / "report.json").read_text()), "report.schema.json", "")


def test_a_schedule_carries_no_change(
    cli: Cli, feature: tuple[GitRepo, str, str], tmp_path: Path
) -> None:
    repo, base, head = feature
    env = actions_environment("schedule", write_event(tmp_path, schedule()))
    subject = cli("pr", "--format", "json", cwd=repo, env=env).json()["subject"]
    assert (subject["merge_base"], subject["head"]) == (base, head)


# -- templates ----------------------------------------------------------------------------------


@pytest.mark.full
def test_a_template_of_the_base_is_obeyed_and_one_of_the_head_is_not(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    mine = ".rlm-ci/templates/comment.md.j2"
    base = repo.write(mine, "{% extends 'shipped/comment.md.j2' %}").commit()
    head = repo.write(mine, "{{ nothing.here }}").write("a", numbered(3)).commit()
    ended = cli("pr", "--base", base, "--out", str(tmp_path / "o"), "--format", "json", cwd=repo)
    assert ended.code == 0
    assert [one["subject"] for one in ended.json()["findings"]] == [mine]
    # Now it stands in the base: the fault is told, the report itself is there.
    repo.write("b", "x").commit()
    out = tmp_path / "p"
    ended = cli("pr", "--base", head, "--out", str(out), cwd=repo)
    assert ended.code == 5
    assert "comment.md" in ended.stderr
    assert sorted(os.listdir(out)) == ["report.json", "report.sarif"]


def test_templates_are_no_links(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET")
    repo.write("a", "").commit()
    repo.symlink(".rlm-ci/templates/comment.md.j2", str(tmp_path / "secret"))
    ended = cli("check", "--format", "markdown", cwd=repo)
    assert (ended.code, "SECRET" in ended.stdout + ended.stderr) == (5, False)
