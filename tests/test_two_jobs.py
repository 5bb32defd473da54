"""Two jobs: one judges a stranger's pull request without rights, the other posts its report."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.cli.new_workflows import workflows
from rlm_ci.judge.options import artifact_name
from testing.action_runner import BIN, ROOT, bare_environment, load_yaml, put_python, ship_action
from testing.repositories.events import NAME, OWNER, from_fork, issue_comment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

PIN = "1" * 40
_BEGINS = "startsWith(github.event.comment.body, '/rlm-ci {}')"
KEY = f"({_BEGINS.format('review')} || {_BEGINS.format('ask')}) && secrets.OPENAI_API_KEY || ''"
LABEL = f"{_BEGINS.format('fix')} && secrets.RLM_LABEL_TOKEN || ''"
DEFAULT = "github.event.repository.default_branch"
#: What ``rlm-ci init --fork-safe --slash-commands`` writes.
WRITTEN = workflows(PIN, fork_safe=True, slash_commands=True)
OURS = ("dogfood.yml", "dogfood-publish.yml")
WORKFLOWS = {
    **WRITTEN,
    **{name: (ROOT / ".github/workflows" / name).read_text("utf-8") for name in OURS},
    "simple rlm-ci.yml": workflows(PIN, fork_safe=False, slash_commands=False)["rlm-ci.yml"],
}
#: Those that look at the pull request's own files, that post, and that obey comments.
JUDGES = ("rlm-ci.yml", "dogfood.yml", "simple rlm-ci.yml")
POSTS = ("rlm-ci-publish.yml", "dogfood-publish.yml")
OBEYS = ("rlm-ci-comment.yml",)


def _job(where: str) -> dict[str, Any]:
    (job,) = load_yaml(WORKFLOWS[where])["jobs"].values()
    return dict(job)


def _uses(where: str, action: str) -> dict[str, Any]:
    (step,) = [s for s in _job(where)["steps"] if s.get("uses", "").startswith(action)]
    return dict(step)


def _ours_in(where: str) -> dict[str, Any]:
    return _uses(where, "./" if where.startswith("dogfood") else "rlm-ci/rlm-ci@")


def _triggers(where: str) -> dict[str, Any]:
    return dict(load_yaml(WORKFLOWS[where])[True])


@pytest.mark.parametrize("where", JUDGES)
def test_who_judges_has_no_secret_and_may_only_read(where: str) -> None:
    assert set(_triggers(where)) == {"pull_request", "merge_group"}
    assert _job(where)["permissions"] == {"contents": "read", "pull-requests": "read"}
    # A stranger's event gives no token; that of a queue reads what overrides.
    token = "${{ github.event_name == 'merge_group' && github.token || '' }}"
    assert _ours_in(where)["with"] == {"github-token": token}
    assert _ours_in(where)["env"] == {"RLM_CI_PUBLISH_ENABLED": "false"}
    for word in ("secrets", "github.token", "GITHUB_TOKEN"):
        assert word not in WORKFLOWS[where].replace(token, "")


@pytest.mark.parametrize("where", JUDGES[:2])
def test_who_judges_leaves_the_report_alone_and_whatever_its_verdict(where: str) -> None:
    upload = _uses(where, "actions/upload-artifact@")
    report = f"steps.{_ours_in(where)['id']}.outputs.report"
    assert upload["with"]["path"] == f"${{{{ {report} }}}}"
    assert upload["if"] == f"${{{{ !cancelled() && {report} != '' }}}}"
    assert "continue-on-error" not in WORKFLOWS[where], "the job's result is the verdict"
    publisher = where.replace(".yml", "-publish.yml")
    name = load_yaml(WORKFLOWS[where])["name"]
    assert _triggers(publisher)["workflow_run"]["workflows"] == [name]
    fetch = next(step for step in _job(publisher)["steps"] if "run" in step)
    assert upload["with"]["name"] == f"${{{{ steps.{_ours_in(where)['id']}.outputs.artifact }}}}"
    assert f'startswith("{artifact_name("")}")' in fetch["run"]
    assert _ours_in(publisher)["with"]["report"] == "${{ runner.temp }}/reports"


@pytest.mark.parametrize("where", JUDGES)
def test_a_push_cancels_the_run_of_its_own_pull_request_only(where: str) -> None:
    concurrency = load_yaml(WORKFLOWS[where])["concurrency"]
    # An entry of a merge queue has a ref of its own.
    assert "-${{ github.event.pull_request.number || github.ref }}" in concurrency["group"]
    assert concurrency["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"


@pytest.mark.parametrize("where", [*POSTS, *OBEYS])
def test_who_may_write_never_sees_the_pull_requests_files(where: str) -> None:
    text = WORKFLOWS[where]
    checkout = _uses(where, "actions/checkout@")["with"]
    assert checkout["persist-credentials"] is False
    assert not {"repository", "path", "allow-unsafe-pr-checkout"} & set(checkout)
    # A review thread's event would bring the pull request's merge.
    assert checkout.get("ref") == (f"${{{{ {DEFAULT} }}}}" if where in OBEYS else None)
    # The names of the pull request's commits and branches reach no step; a group is only a name.
    for step in _job(where)["steps"]:
        for expression in re.findall(r"\$\{\{(.*?)\}\}", json.dumps(step)):
            assert expression.strip() in {
                "github.token", "github.event.workflow_run.id", "runner.temp",
                *([KEY, LABEL, DEFAULT] if where in OBEYS else []),
            }, step  # fmt: skip
    # Each secret is there for the command that needs it, and for nothing but the action.
    for word in ("secrets.", "download-artifact", "unzip", "cache"):
        assert word not in text.replace(KEY, "").replace(LABEL, "")


@pytest.mark.parametrize("where", [*POSTS, *OBEYS])
def test_who_may_write_waits_instead_of_cancelling(where: str) -> None:
    # On the job: one that its `if` skips takes no place in the queue.
    assert "concurrency" not in load_yaml(WORKFLOWS[where])
    assert _job(where)["concurrency"]["cancel-in-progress"] is False
    judges = load_yaml(WORKFLOWS["rlm-ci.yml"])["concurrency"]["group"]
    assert not _job(where)["concurrency"]["group"].startswith(judges.partition("${{")[0] + "${{")


@pytest.mark.parametrize("where", POSTS)
def test_only_what_a_pull_request_left_is_posted(where: str) -> None:
    assert _triggers(where)["workflow_run"]["types"] == ["completed"]
    condition = " ".join(_job(where)["if"].split())
    assert condition == (
        "(github.event.workflow_run.event == 'pull_request' || "
        "github.event.workflow_run.event == 'merge_group') && "
        "(github.event.workflow_run.conclusion == 'success' || "
        "github.event.workflow_run.conclusion == 'failure')"
    )


@pytest.mark.parametrize("where", OBEYS)
def test_only_comments_on_pull_requests_are_obeyed(where: str) -> None:
    events = ("issue_comment", "pull_request_review_comment")
    assert _triggers(where) == {event: {"types": ["created"]} for event in events}
    assert " ".join(_job(where)["if"].split()) == (
        "(github.event.issue.pull_request || github.event.pull_request) && "
        "startsWith(github.event.comment.body, '/rlm-ci')"
    )


def _documented_permissions() -> dict[str, dict[str, str]]:
    """The table of docs/github.md: name of the written workflow to its permissions."""
    text = (ROOT / "docs/github.md").read_text("utf-8")
    rows = re.findall(r"^\| `(rlm-ci[\w-]*\.yml)` \|.*\| ([^|]+) \|$", text, re.MULTILINE)
    return {
        name: dict(re.findall(r"`([\w-]+): (read|write)`", permissions))
        for name, permissions in rows
    }


def test_permissions_are_as_documented() -> None:
    assert _documented_permissions() == {name: _job(name)["permissions"] for name in WRITTEN}


# -- fetching a stranger's report ---------------------------------------------------------------

LIMIT = 10 << 20
#: Stands in for GitHub's command line: lists one run's artifacts, and sends the archive.
GH = """#!{python} -I
import json, os, shutil, subprocess, sys
place = os.environ["PLACE"]
assert os.environ["GH_TOKEN"] == "token" and os.environ["GH_HOST"] == "github.com"
verb, path, *options = sys.argv[1:]
assert verb == "api"
if path == "repos/acme/shop/actions/runs/77/artifacts?per_page=100":
    flag, expression = options
    assert flag == "--jq"
    with open(place + "/artifacts.json", "rb") as listing:
        sys.exit(subprocess.run(["jq", "-r", expression], stdin=listing).returncode)
assert (path.rpartition("/artifacts/")[0], options) == ("repos/acme/shop/actions", [])
with open(place + "/archive.zip", "rb") as archive:
    shutil.copyfileobj(archive, sys.stdout.buffer)
"""


def _zip(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the same name twice
        for name, content in entries:
            archive.writestr(name, content)
    return data.getvalue()


def _link(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    return entry, target.encode()


def _artifact(number: int, **changed: Any) -> dict[str, Any]:
    row = {"id": number, "name": "rlm-ci-report-judge", "created_at": "2026-01-05T09:00:00Z"}
    return {**row, "size_in_bytes": 100, **changed}


def _fetch(
    tmp_path: Path, archive: bytes, *, where: str = POSTS[0], artifacts: object = None
) -> tuple[subprocess.CompletedProcess[str], bytes | None, set[str]]:
    """Run the workflow's own script: how it ended, the report, and every file that it made."""
    assert shutil.which("jq"), "the tests need jq, please install it"
    (step,) = [step for step in _job(where)["steps"] if "run" in step]
    token = "${{ github.token }}"
    assert step["env"] == {
        "GH_TOKEN": token, "GH_ENTERPRISE_TOKEN": token,
        "RUN": "${{ github.event.workflow_run.id }}",
    }  # fmt: skip
    place, temp, bin_ = tmp_path / "place", tmp_path / "temp", tmp_path / "bin"
    for folder in (place, temp, bin_):
        folder.mkdir()
    put_python(bin_)
    (bin_ / "gh").write_text(GH.format(python=sys.executable))
    (bin_ / "gh").chmod(0o755)
    (place / "archive.zip").write_bytes(archive)
    size = _artifact(5, size_in_bytes=len(archive))
    listing = {"artifacts": [size] if artifacts is None else artifacts}
    (place / "artifacts.json").write_text(json.dumps(listing))
    environment = {
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "PLACE": str(place), "RUN": "77",
        "GH_TOKEN": "token", "GITHUB_REPOSITORY": "acme/shop", "RUNNER_TEMP": str(temp),
        "GITHUB_SERVER_URL": "https://github.com",
    }  # fmt: skip
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    made = {
        path.relative_to(tmp_path).as_posix()
        for folder in (temp, place, tmp_path)
        for path in folder.iterdir()
    } - {"place", "temp", "bin", "place/archive.zip", "place/artifacts.json"}
    reports = sorted((temp / "reports").glob("*"))
    assert not any(one.is_symlink() for one in reports)
    made |= {one.relative_to(tmp_path).as_posix() for one in reports}
    return ended, reports[-1].read_bytes() if reports else None, made - {"temp/reports"}


@pytest.mark.parametrize("where", POSTS)
def test_a_report_is_fetched(where: str, tmp_path: Path) -> None:
    ended, report, made = _fetch(tmp_path, _zip(("report.json", b'{"a": 1}')), where=where)
    assert ended.returncode == 0, ended.stderr
    assert report == b'{"a": 1}'
    assert made == {"temp/report.zip", "temp/reports/5.json"}


def test_of_several_attempts_the_newest_report_is_fetched(tmp_path: Path) -> None:
    days = ((4, 1), (5, 3), (6, 2))
    rows = [_artifact(one, created_at=f"2026-01-0{day}T09:00:00Z") for one, day in days]
    ended, _, made = _fetch(tmp_path, _zip(("report.json", b"{}")), artifacts=rows)
    assert ended.returncode == 0, ended.stderr
    assert made == {"temp/report.zip", "temp/reports/5.json"}


def test_the_report_of_each_job_is_fetched_and_nothing_else(tmp_path: Path) -> None:
    hostile = ("rlm-ci-report-$(touch canary)", "rlm-ci-report-`touch canary`; \n9 9")
    names = ("rlm-ci-report", "rlm-ci-report-web", *hostile, "rlm-ci-patch-1", "other")
    rows = [_artifact(number, name=name) for number, name in enumerate(names)]
    ended, _, made = _fetch(tmp_path, _zip(("report.json", b"{}")), artifacts=rows)
    assert ended.returncode == 0, ended.stderr
    assert made == {"temp/report.zip", *(f"temp/reports/{number}.json" for number in range(4))}


@pytest.mark.full
def test_no_more_than_20_reports_are_fetched(tmp_path: Path) -> None:
    rows = [_artifact(number, name=f"rlm-ci-report-{number}") for number in range(30)]
    ended, _, made = _fetch(tmp_path, _zip(("report.json", b"{}")), artifacts=rows)
    assert (ended.returncode, len(made)) == (0, 21), ended.stderr


def test_nothing_else_comes_out_of_the_archive(tmp_path: Path) -> None:
    archive = _zip(
        ("../report.json", b"up"), ("/tmp/report.json", b"absolute"), ("a/report.json", b"below"),
        ("report.json", b"{}"), ("REPORT.JSON", b"other"), _link("link", "/etc/passwd"),
        ("gh", b"#!/bin/sh"), ("-rf", b"option"), ("$(touch canary)", b"canary"),
    )  # fmt: skip
    ended, report, made = _fetch(tmp_path, archive)
    assert (ended.returncode, report) == (0, b"{}"), ended.stderr
    assert made == {"temp/report.zip", "temp/reports/5.json"}


def test_a_link_is_read_as_the_text_that_it_is(tmp_path: Path) -> None:
    ended, report, _ = _fetch(tmp_path, _zip(_link("report.json", "/etc/passwd")))
    assert (ended.returncode, report) == (0, b"/etc/passwd"), ended.stderr


@pytest.mark.full
def test_no_more_than_the_limit_is_unpacked(tmp_path: Path) -> None:
    bomb = _zip(("report.json", b"[" + b" " * (20 * LIMIT)))
    assert len(bomb) < LIMIT
    ended, report, _ = _fetch(tmp_path, bomb)
    assert ended.returncode == 0, ended.stderr
    assert report is not None
    assert len(report) == LIMIT
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(report)


@pytest.mark.parametrize(
    "artifacts",
    [
        pytest.param([], id="none"),
        pytest.param([_artifact(5, name="other")], id="another name"),
        pytest.param([_artifact(5, size_in_bytes=LIMIT + 1)], id="too large"),
    ],
)
def test_without_a_report_of_that_size_nothing_is_fetched(
    artifacts: object, tmp_path: Path
) -> None:
    ended, _, made = _fetch(tmp_path, _zip(("report.json", b"{}")), artifacts=artifacts)
    assert ended.returncode == 1
    assert "::error title=Nothing to post::run 77 left no report" in ended.stdout
    assert not made


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(lambda: b"not a zip", id="no archive"),
        pytest.param(lambda: _zip(("other.json", b"{}")), id="another name"),
        pytest.param(lambda: _zip(("report.json", b"{}"))[:-30], id="cut"),
        pytest.param(
            lambda: _zip(("report.json", os.urandom(LIMIT + 100_000))),
            id="larger than it was said to be",
        ),
    ],
)
def test_an_archive_that_cannot_be_read_ends_the_job(
    archive: Callable[[], bytes], tmp_path: Path
) -> None:
    ended, report, made = _fetch(tmp_path, archive(), artifacts=[_artifact(5)])
    assert ended.returncode != 0
    assert not report
    assert made <= {"temp/report.zip", "temp/reports/5.json"}
    assert (tmp_path / "temp/report.zip").stat().st_size <= LIMIT


# -- under act ----------------------------------------------------------------------------------


def _act(tmp_path: Path, repo: GitRepo, event: str, *options: str | Path) -> tuple[int, str]:
    """Run ``workflow.yml`` with ``event.json``, both in ``tmp_path``: exit code and log."""
    repo.remote(f"https://github.com/{OWNER}/{NAME}.git")
    argv: list[str | Path] = [
        BIN / "act", event, "--workflows", tmp_path / "workflow.yml",
        "--eventpath", tmp_path / "event.json", "--actor", "mallory",
        "--platform", "ubuntu-24.04=-self-hosted", "--action-offline-mode",
        "--action-cache-path", tmp_path / "cache", "--no-cache-server",
        "--artifact-server-addr", "127.0.0.1", "--cache-server-addr", "127.0.0.1", *options,
    ]  # fmt: skip
    ended = subprocess.run(
        argv, cwd=repo.path, env=bare_environment(tmp_path / "home"), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def _workflow_run(event: str, conclusion: str) -> dict[str, Any]:
    run = {"id": 77, "event": event, "conclusion": conclusion, "head_sha": PIN}
    source = {"head_branch": "feature", "head_repository": {"id": 2}}
    return {"action": "completed", "workflow_run": {**run, **source}}


def _review_comment(body: str) -> dict[str, Any]:
    comment = {"id": 9, "body": body, "in_reply_to_id": 8}
    return {"action": "created", "comment": comment, "pull_request": {"number": 12}}


STARTS = [
    pytest.param(POSTS[0], _workflow_run("pull_request", "success"), True, id="green"),
    pytest.param(POSTS[0], _workflow_run("pull_request", "failure"), True, id="red"),
    pytest.param(POSTS[0], _workflow_run("pull_request", "cancelled"), False, id="cancelled"),
    pytest.param(POSTS[0], _workflow_run("pull_request", "action_required"), False, id="waiting"),
    pytest.param(POSTS[0], _workflow_run("push", "success"), False, id="push"),
    pytest.param(POSTS[0], _workflow_run("pull_request_target", "success"), False, id="target"),
    pytest.param(OBEYS[0], issue_comment("/rlm-ci check"), True, id="command"),
    pytest.param(OBEYS[0], issue_comment("try /rlm-ci check"), False, id="mentioned"),
    pytest.param(OBEYS[0], issue_comment("> /rlm-ci check"), False, id="quoted"),
    pytest.param(
        OBEYS[0], issue_comment("/rlm-ci check", on_pull_request=False), False, id="on an issue"
    ),
    pytest.param(OBEYS[0], _review_comment("/rlm-ci ask Why?"), True, id="in a thread"),
    pytest.param(OBEYS[0], _review_comment("Why?"), False, id="a reply", marks=pytest.mark.full),
]


@pytest.mark.parametrize(("where", "event", "starts"), STARTS)
def test_what_starts_a_job_that_may_write(
    where: str, event: dict[str, Any], starts: bool, repo: GitRepo, tmp_path: Path
) -> None:
    repo.write("README.md", "# Shop\n").commit("Begin")
    document = load_yaml(WORKFLOWS[where])
    (job,) = document["jobs"].values()
    job["steps"] = [{"run": f"touch '{tmp_path}/started'"}]
    document["on"] = document.pop(True)  # the key, as YAML 1.1 reads it
    name = "pull_request_review_comment" if "issue" not in event else "issue_comment"
    name = next(iter(document["on"])) if where in POSTS else name
    (tmp_path / "workflow.yml").write_text(json.dumps(document))
    (tmp_path / "event.json").write_text(json.dumps(event))
    code, log = _act(tmp_path, repo, name)
    assert code == 0, log
    assert (tmp_path / "started").exists() == starts, log


#: In place of the upload, which needs GitHub: keeps what it is given.
UPLOAD = """
name: upload
inputs:
  {name: {}, path: {}, include-hidden-files: {}, overwrite: {}, if-no-files-found: {},
   retention-days: {}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {FILE: "${{ inputs.path }}", NAME: "${{ inputs.name }}"}
      run: mkdir "$PROBE/$NAME" && cp "$FILE" "$PROBE/$NAME/"
"""


def _judge_under_act(
    tmp_path: Path, repo: GitRepo, event: dict[str, Any], action: Path | None = None
) -> tuple[int, str, Path]:
    """Run the first job as ``init`` writes it: act's exit code, its log, and the artifact."""
    action = action or ship_action(tmp_path / "action")
    probe, stub = tmp_path / "probe", tmp_path / "upload"
    for folder in (probe, stub):
        folder.mkdir()
    (stub / "action.yml").write_text(UPLOAD)
    (tmp_path / "workflow.yml").write_text(WRITTEN["rlm-ci.yml"])
    (tmp_path / "event.json").write_text(json.dumps(event))
    upload = _uses("rlm-ci.yml", "actions/upload-artifact@")["uses"]
    code, log = _act(
        tmp_path, repo, "pull_request",
        "--local-repository", f"rlm-ci/rlm-ci@{PIN}={action}",
        "--local-repository", f"{upload}={stub}", "--env", f"PROBE={probe}",
    )  # fmt: skip
    return code, log, probe / "rlm-ci-report-judge"


@pytest.mark.full
@pytest.mark.parametrize("files", [1, 30])
def test_the_first_job_leaves_its_report_whether_it_is_green_or_red(
    repo: GitRepo, tmp_path: Path, files: int
) -> None:
    base = repo.write("README.md", "# Shop\n").commit("Begin")
    repo.write_all({f"src/part_{number}.py": "x = 1\n" for number in range(files)})
    head = repo.commit("Add parts")
    code, log, artifact = _judge_under_act(tmp_path, repo, from_fork(base, head))
    assert [path.name for path in artifact.iterdir()] == ["report.json"], log
    report = json.loads((artifact / "report.json").read_text("utf-8"))
    assert report["subject"]["head"] == head
    assert report["verdict"] == ("clean" if files == 1 else "findings")
    assert code == (0 if files == 1 else 1), log
    assert not report["publication"]


@pytest.mark.full
def test_a_change_that_cannot_be_judged_leaves_a_report_that_says_so(
    repo: GitRepo, tmp_path: Path
) -> None:
    base = repo.write("README.md", "# Shop\n").commit("Begin")
    head = repo.write("a", "a").commit("Change")
    code, log, artifact = _judge_under_act(tmp_path, repo, from_fork(base[::-1], head))
    assert code == 1, log
    report = json.loads((artifact / "report.json").read_text("utf-8"))
    assert report["verdict"] == "not_run"


@pytest.mark.full
def test_where_nothing_could_run_no_report_is_left(repo: GitRepo, tmp_path: Path) -> None:
    base = repo.write("README.md", "# Shop\n").commit("Begin")
    head = repo.write("a", "a").commit("Change")
    action = ship_action(tmp_path / "action")
    (action / "requirements.lock").unlink()
    code, log, artifact = _judge_under_act(tmp_path, repo, from_fork(base, head), action)
    assert code == 1, log
    assert "rlm-ci could not be installed" in log
    assert not artifact.exists()


@pytest.mark.full
def test_each_job_of_a_matrix_leaves_a_report_of_its_own(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "    runs-on: ubuntu-24.04\n"
    matrix = f"    strategy:\n      matrix:\n        folder: [api, web]\n{line}"
    monkeypatch.setitem(WRITTEN, "rlm-ci.yml", WRITTEN["rlm-ci.yml"].replace(line, matrix))
    base = repo.write("README.md", "# Shop\n").commit("Begin")
    head = repo.write("a", "a").commit("Change")
    code, log, artifact = _judge_under_act(tmp_path, repo, from_fork(base, head))
    assert code == 0, log
    names = {
        json.loads((path / "report.json").read_text("utf-8"))["name"]: path.name
        for path in artifact.parent.iterdir()
    }
    assert names == {f"judge ({one})": f"rlm-ci-report-judge ({one})" for one in ("api", "web")}
