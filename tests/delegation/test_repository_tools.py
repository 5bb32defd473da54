"""Reviews and wikis of a repository, started and followed by tools."""

from __future__ import annotations

import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.system.lock import NAME, Lock
from testing.repositories.git_repo import GitRepo
from testing.run_store import Place
from testing.tool_calls import called, ended, refused, served


@pytest.mark.full
def test_a_wiki_from_its_start_to_its_archive(repo: GitRepo) -> None:
    repo.write("src/a.py", "def f() -> int:\n    return 1\n").commit()
    server = served(repo.path)
    begun = called(server, "repo_rlm_wiki", path="src", out="pages", prose=False, max_calls=0)
    assert begun["status"] == "queued"
    found = ended(server, begun["run_id"])
    assert (found["status"], found["exit_code"]) == ("succeeded", 0)
    assert found["recursion"]["total"] == found["recursion"]["solved"] > 0
    assert found["events"][-1]["event"] == "run_completed"
    pair = {name: begun[name] for name in ("run_id", "manifest_path")}
    assert called(server, "delegate.status", **pair)["status"] == "succeeded"
    again = called(server, "repo_rlm_wiki", path="src", out="pages", prose=False, max_calls=0)
    refreshed = ended(server, again["run_id"])["recursion"]  # nothing has changed: no tree
    assert [refreshed[name] for name in ("total", "solved", "failed", "active", "depths")] == [
        *(0, 0, 0, 0),
        [],
    ]
    assert refreshed["spent"]["calls"] == 0
    pair["run_id"] = again["run_id"]
    assert refused(server, "delegate.status", **pair) == "invalid_arguments"
    assert "a.py" in "".join(one.read_text("utf-8") for one in repo.path.glob("pages/**/*.md"))
    assert refused(server, "repo_rlm_resume", run_id=found["run_id"]) == "run_not_resumable"
    assert not called(server, "repo_rlm_cancel", run_id=found["run_id"])["cancelled"]
    kept = called(server, "repo_rlm_export", run_id=found["run_id"], out="a/kept.tar.gz")
    with tarfile.open(kept["file"]) as archive:
        assert any(name.endswith("manifest.json") for name in archive.getnames())
    assert (
        refused(server, "repo_rlm_export", run_id=found["run_id"], out="a/kept.tar.gz")
        == "file_exists"
    )
    own = called(server, "repo_rlm_export", run_id=found["run_id"])
    assert Path(own["file"]).parent.parent == repo.path / "out"
    for out in (".git/x.tar.gz", ".runs/x.tar.gz", "../x.tar.gz", "a/x.zip"):
        code = refused(server, "repo_rlm_export", run_id=found["run_id"], out=out)
        assert code == "path_not_permitted"


@pytest.mark.full
def test_a_run_is_resumed_once_its_last_process_has_let_go(repo: GitRepo) -> None:
    """One that was cancelled says so before it ends."""
    repo.write("src/a.py", "def f() -> int:\n    return 1\n").commit()
    server = served(repo.path)
    begun = called(server, "repo_rlm_wiki", prose=False)
    assert called(server, "repo_rlm_cancel", run_id=begun["run_id"])["cancelled"]
    held = Lock.wait(str(Path(begun["manifest_path"]).parent / NAME), 10.0)
    letting_go = threading.Timer(0.5, held.release)
    letting_go.start()
    called(server, "repo_rlm_resume", run_id=begun["run_id"])
    letting_go.join()
    assert ended(server, begun["run_id"])["status"] == "succeeded"


def test_a_root_may_hold_several_repositories(tmp_path: Path) -> None:
    first, second = (GitRepo(tmp_path / "roots" / name) for name in ("first", "second"))
    other = GitRepo(tmp_path / "other")
    for repo in (first, second, other):
        Place(repo.path).finished(task="t1", pipeline="wiki")
    server = served(first.path, tmp_path / "roots")
    assert refused(server, "repo_rlm_export", run_id="latest", repo=str(other.path)) == (
        "path_not_permitted"
    )
    (manifest,) = second.path.glob(".runs/*/cli/*/manifest.json")
    found = called(server, "delegate.status", manifest_path=str(manifest))
    assert found == called(server, "repo_rlm_status", run_id="latest", repo=str(second.path))
    kept = called(server, "repo_rlm_export", manifest_path=str(manifest))
    assert Path(kept["file"]).is_relative_to(second.path / "out")
    assert not called(server, "repo_rlm_cancel", manifest_path=str(manifest))["cancelled"]


def test_a_run_that_came_with_the_repository_is_none(repo: GitRepo) -> None:
    """Its request could run anything."""
    run = Place(repo.path).finished(task="t1", pipeline="wiki")
    repo.run("add", "--force", ".runs")
    repo.commit()
    server = served(repo.path)
    for tool in ("delegate.status", "repo_rlm_resume", "repo_rlm_export"):
        for named in ({"run_id": run.id}, {"manifest_path": f"{run.path}/manifest.json"}):
            assert refused(server, tool, **named) == "manifest_not_found"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"objective": "rlm"}, "invalid_arguments"),
        ({"objective": "review", "base": "--output=x"}, "invalid_arguments"),
        ({"objective": "review", "head": "-x"}, "invalid_arguments"),
        ({"objective": "review", "base": "nowhere"}, "config"),
        ({"objective": "review", "path": "/etc"}, "path_not_permitted"),
        ({"objective": "review", "path": "link"}, "path_not_permitted"),
        ({"objective": "review", "path": "missing"}, "path_not_found"),
        ({"objective": "review", "repo": "/etc"}, "path_not_permitted"),
        ({"objective": "review", "task_id": "../x"}, "invalid_arguments"),
        ({"objective": "review", "max_calls": -1}, "invalid_arguments"),
        ({"objective": "wiki", "out": ".git/hooks"}, "path_not_permitted"),
        ({"objective": "wiki", "out": "link/x"}, "path_not_permitted"),
    ],
)
def test_a_start_leads_out_of_nothing(repo: GitRepo, arguments: dict[str, Any], code: str) -> None:
    repo.write("a.txt", "1").commit()
    (repo.path / "link").symlink_to("/etc")
    assert refused(served(repo.path), "repo_rlm_start", **arguments) == code
    assert not (repo.path / ".runs").exists()


def test_an_agent_can_look_before_it_stops(repo: GitRepo) -> None:
    repo.write("rlm-ci.toml", "[diff_budget]\nmax_lines = 5\n").commit()
    head = repo.write("a.py", "a = 1\n").commit()
    server = served(repo.path)
    before = sorted(repo.path.rglob("*"))
    clean = called(server, "check")
    assert (clean["verdict"], clean["exit_code"], clean["findings"]) == ("clean", 0, [])
    assert {"diff-budget", "test-guard", "doc-archive"} <= clean["summaries"].keys()
    repo.write("a.py", "".join(f"a = {number}\n" for number in range(9)))
    told = called(server, "check")
    assert (told["verdict"], told["exit_code"]) == ("findings", 1)
    assert told["findings"][0]["rule"].startswith("diff-budget/")
    assert sorted(repo.path.rglob("*")) == before, "nothing is written"
    repo.commit()
    assert called(server, "check")["exit_code"] == 0
    assert called(server, "check", base=head)["exit_code"] == 1
    repo.write("rlm-ci.toml", "[diff-budget]\n").commit()
    broken = called(server, "check")
    assert (broken["verdict"], broken["exit_code"], broken["findings"]) == ("not_run", 5, [])
    assert "unknown setting" in broken["problems"][0]
    repo.write("rlm-ci.toml", "").commit()
    lost = called(server, "check", base="nowhere")
    assert lost["verdict"] == "not_run"
    assert "nowhere" in lost["problems"][0]
    assert refused(server, "check", base="--output=x") == "invalid_arguments"
    assert refused(server, "check", repo="/etc") == "path_not_permitted"


def test_an_agent_asks_before_it_touches_a_path(repo: GitRepo) -> None:
    repo.write("rlm-ci.toml", "[[scope]]\ngroups = ['ci']\n").write("a.py", "").commit()
    server = served(repo.path)
    workflow = ".github/workflows/ci.yml"
    told = called(server, "check", checks=["scope"], paths=[workflow, "a.py"])
    assert told["summaries"].keys() == {"scope"}
    assert [(one["rule"], one["path"]) for one in told["findings"]] == [("scope/person", workflow)]
    assert called(server, "check", checks=["scope"], paths=["a.py"])["exit_code"] == 0
    repo.write(workflow, "on: push\n")
    assert [one["rule"] for one in called(server, "check")["findings"]] == ["scope/person"]
    assert refused(server, "check", paths=["/etc/passwd"]) == "invalid_arguments"
    for wrong in ({"paths": ["../x"]}, {"checks": ["no-such"]}):
        assert refused(server, "check", **wrong)
