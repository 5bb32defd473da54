"""delegation-guard, through the real command: rules, the failure block, ids, paths, CI."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.checks.delegation_guard import owner_of, task_key
from testing.repositories.delegated_runs import (
    BAD_INDEXES,
    BAD_MANIFESTS,
    HOSTILE_TASKS,
    ODD_MANIFESTS,
    ODD_ROWS,
    TASK,
    candidate_folders,
    guard_runs,
    manifest,
    odd_manifest,
    registered,
    run_id,
    sibling_runs,
    write_index,
    write_run,
)
from testing.repositories.events import (
    actions_environment,
    merge_group,
    pull_request,
    push,
    write_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

GUARD = ("check", "delegation-guard")
FIX = f" - Fix: export MCP_RUNNER_TASK_ID={TASK} and run a subagent with {TASK}-<stream>"
OVERRIDE = ' - Override: set DELEGATION_GUARD_OVERRIDE_REASON="..." (if delegation is impossible)'
HEADING = "Delegation guard: issues detected"


def expected(task: str = TASK, runs: str = ".runs") -> str:
    return f" - Expected manifests: {runs}/{task}-*/cli/<run-id>/manifest.json"


def block(ended: Ended) -> list[str]:
    """The lines of the failure block: what stands on stdout before the first empty line."""
    return ended.stdout.split("\n\n")[0].split("\n")


def judged(ended: Ended) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, rules and metrics of a run with ``--format json``."""
    report = ended.json()
    rules = [finding["rule"].removeprefix("delegation-guard/") for finding in report["findings"]]
    return ended.code, rules, report["parts"][0]["metrics"]


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    """A repository in which TASK is registered."""
    write_index(repo.path, registered(TASK))
    return repo


def guard(cli: Cli, repo: GitRepo, *args: str, task: str | None = TASK, **env: str) -> Ended:
    return cli(*GUARD, *args, cwd=repo, env={"MCP_RUNNER_TASK_ID": task, **env})


def test_a_recorded_subagent_counts_and_is_named_as_recorded(cli: Cli, shop: GitRepo) -> None:
    recorder = {"program": "Claude Code\x1b[2J", "version": "2.1.197", "session_id": "s"}
    run = guard_runs(shop.path / ".runs", recorded_by=recorder)[0]
    ended = guard(cli, shop, "--format", "json")
    told = f"{TASK} has a subagent run: {run.relative_to(shop.path)}"
    summary = _part(ended.json())["summary"]
    assert (ended.code, summary) == (0, f"{told}, recorded by Claude Code[2J 2.1.197")


# -- the block, to the letter -------------------------------------------------------------------


def test_no_task_id(cli: Cli, shop: GitRepo) -> None:
    ended = guard(cli, shop, task=None)
    assert ended.code == 1
    # The task of the last row stands as the example.
    assert block(ended) == [
        HEADING,
        " - Missing: MCP_RUNNER_TASK_ID",
        expected("<task-id>"),
        FIX,
        OVERRIDE,
    ]
    assert ended.stderr == ""


def test_no_manifest(cli: Cli, shop: GitRepo) -> None:
    ended = guard(cli, shop)
    missing = f" - Missing: a subagent run of {TASK}"
    assert (ended.code, block(ended)) == (1, [HEADING, missing, expected(), FIX, OVERRIDE])


def test_candidates_are_sorted_and_the_first_three_shown(cli: Cli, shop: GitRepo) -> None:
    candidate_folders(shop.path / ".runs")
    ended = guard(cli, shop)
    runs = f".runs/{TASK}"
    listed = (
        f"{runs}-a-no-cli (reason: missing cli directory); "
        f"{runs}-b-no-run/cli (reason: no run directories); "
        f"{runs}-c-no-manifest/cli/{run_id(1)}/manifest.json (reason: manifest.json missing)"
    )
    assert block(ended) == [
        HEADING,
        f" - Missing: a subagent run of {TASK}",
        expected(),
        f" - Candidates (first 3): {listed}",
        FIX,
        OVERRIDE,
    ]


def test_an_unregistered_task(cli: Cli, shop: GitRepo) -> None:
    ended = guard(cli, shop, task="0999-else")
    assert ended.code == 1
    assert block(ended) == [
        HEADING,
        " - Missing: 0999-else in tasks/index.json",
        (
            " - Fix: register 0999-else in tasks/index.json, or name a registered task with "
            "MCP_RUNNER_TASK_ID"
        ),
        OVERRIDE,
    ]


def test_several_things_missing_stand_on_one_line(cli: Cli, repo: GitRepo) -> None:
    ended = guard(cli, repo, task=None)
    assert ended.code == 1
    assert block(ended) == [
        HEADING,
        " - Missing: MCP_RUNNER_TASK_ID; a readable tasks/index.json (it does not exist)",
        expected("<task-id>"),
        (
            " - Fix: mend tasks/index.json, then export MCP_RUNNER_TASK_ID=<task-id> and run a "
            "subagent with <task-id>-<stream>"
        ),
        OVERRIDE,
    ]


def test_the_block_is_there_on_failure_and_in_text_only(cli: Cli, shop: GitRepo) -> None:
    for form in ("json", "markdown", "sarif", "github", "html"):
        assert HEADING not in guard(cli, shop, "--format", form).stdout, form
    assert block(guard(cli, shop, "-q"))[0] == HEADING
    assert block(guard(cli, shop, "--dry-run"))[0] == HEADING
    assert guard(cli, shop, "--dry-run").code == 0
    guard_runs(shop.path / ".runs")
    ended = guard(cli, shop)
    assert ended.code == 0
    assert HEADING not in ended.stdout
    assert guard(cli, shop, "-q").stdout == ""


# -- what counts --------------------------------------------------------------------------------


def test_one_good_manifest_is_enough(cli: Cli, shop: GitRepo) -> None:
    guard_runs(shop.path / ".runs", count=1)
    code, rules, metrics = judged(guard(cli, shop, "--format", "json"))
    assert (code, rules) == (0, [])
    assert metrics == {"task_id": TASK, "role": "top-level", "manifests": 1, "receipts": 0}


def test_it_stops_at_the_first_good_one(cli: Cli, shop: GitRepo) -> None:
    guard_runs(shop.path / ".runs", count=30)
    assert judged(guard(cli, shop, "--format", "json"))[2]["manifests"] == 1


def test_rejected_places_are_counted(cli: Cli, shop: GitRepo) -> None:
    candidate_folders(shop.path / ".runs")
    code, rules, metrics = judged(guard(cli, shop, "--format", "json"))
    assert (code, rules, metrics["manifests"]) == (1, ["no-subagent-manifest"], 4)


@pytest.mark.parametrize("kind", list(BAD_MANIFESTS))
def test_a_file_that_is_no_manifest_is_a_candidate(cli: Cli, shop: GitRepo, kind: str) -> None:
    write_run(shop.path / ".runs", f"{TASK}-docs", run_id(0), BAD_MANIFESTS[kind])
    ended = guard(cli, shop)
    place = f".runs/{TASK}-docs/cli/{run_id(0)}/manifest.json"
    assert ended.code == 1
    assert block(ended)[3].startswith(f" - Candidates (first 3): {place} (reason: ")
    assert all(line.isprintable() for line in ended.stdout.splitlines())


@pytest.mark.parametrize("kind", list(ODD_MANIFESTS))
def test_what_is_no_regular_file_is_a_candidate(cli: Cli, shop: GitRepo, kind: str) -> None:
    if kind == "unreadable" and os.geteuid() == 0:
        pytest.skip("root may read anything")
    odd_manifest(shop.path / ".runs", kind)
    ended = guard(cli, shop)
    assert ended.code == 1
    assert "Candidates" in block(ended)[3]


def test_no_depth_of_a_manifest_breaks_the_message(cli: Cli, shop: GitRepo) -> None:
    # What the parser just takes, a repr of it may not.
    for number, depth in enumerate(range(400, 1000, 20)):
        text = '{"task_id": ' + "[" * depth + "]" * depth + "}"
        write_run(shop.path / ".runs", f"{TASK}-docs", run_id(number), text)
    ended = guard(cli, shop)
    assert (ended.code, ended.stderr) == (1, "")


def test_another_tasks_run_does_not_count(cli: Cli, shop: GitRepo) -> None:
    keys = sibling_runs(shop.path / ".runs")
    write_index(shop.path, registered(TASK, *keys))
    ended = guard(cli, shop)
    assert ended.code == 1
    assert (
        f".runs/{TASK}-extra (reason: belongs to the registered task {TASK}-extra)"
        in (block(ended)[3])
    )
    assert f"{TASK}2" not in ended.stdout
    # Not registered, the same folders are streams of the task.
    write_index(shop.path, registered(TASK))
    assert guard(cli, shop).code == 0


def test_a_manifest_without_task_id_counts(cli: Cli, shop: GitRepo) -> None:
    write_run(shop.path / ".runs", f"{TASK}-docs", run_id(0), "{}")
    assert guard(cli, shop).code == 0


def test_success_may_be_required(cli: Cli, shop: GitRepo) -> None:
    runs = shop.path / ".runs"
    for number, status in enumerate(("queued", "in_progress", "failed", "cancelled", 7)):
        fields = manifest(f"{TASK}-docs", run_id(number)) | {"status": status}
        write_run(runs, f"{TASK}-docs", run_id(number), json.dumps(fields))
    assert guard(cli, shop).code == 0
    ended = guard(cli, shop, "--require", "succeeded")
    assert ended.code == 1
    assert "(reason: status is 'queued', not 'succeeded')" in block(ended)[3]
    shop.write("rlm-ci.toml", '[delegation_guard]\nrequire = "succeeded"\n')
    assert guard(cli, shop).code == 1
    assert guard(cli, shop, RLM_CI_DELEGATION_GUARD_REQUIRE="exists").code == 0
    guard_runs(runs, stream="more")
    assert guard(cli, shop).code == 0
    assert guard(cli, shop, "--require", "always").code == 5


# -- the task id --------------------------------------------------------------------------------


def test_where_the_task_id_comes_from(cli: Cli, shop: GitRepo) -> None:
    names = ["--task", "RLM_CI_TASK", "MCP_RUNNER_TASK_ID", "TASK", "CODEX_ORCHESTRATOR_TASK_ID"]
    for first, name in enumerate(names):
        env = {other: f"from-{number}" for number, other in enumerate(names) if number >= first}
        flags = ["--task", env.pop("--task")] if name == "--task" else []
        ended = cli(*GUARD, *flags, "--format", "json", cwd=shop, env=env)
        assert judged(ended)[2]["task_id"] == f"from-{first}", name
    ended = cli(*GUARD, "--format", "json", cwd=shop, env={"MCP_RUNNER_TASK_ID": " ", "TASK": TASK})
    assert judged(ended)[2]["task_id"] == TASK


@pytest.mark.parametrize("task", [*HOSTILE_TASKS, "a" * 129, "CON", "nul.txt", "a.", ".a"])
def test_what_is_no_task_id_never_reaches_a_path(
    cli: Cli, shop: GitRepo, tmp_path: Path, task: str
) -> None:
    # Whatever a path with it would lead to says "succeeded".
    write_run(tmp_path, "etc-docs", run_id(0))
    ended = cli(*GUARD, f"--task={task}", cwd=shop)
    assert ended.code == 5
    assert "is not a task id (--task)" in ended.stderr
    assert "hint: use letters, digits" in ended.stderr
    for line in ended.stderr.splitlines():
        assert line.isprintable()
        assert len(line) < 300
    assert not (shop.path / "canary").exists()
    assert HEADING not in ended.stdout


def test_an_override_does_not_excuse_a_wrong_id(cli: Cli, shop: GitRepo) -> None:
    ended = guard(cli, shop, task="../x", DELEGATION_GUARD_OVERRIDE_REASON="because")
    assert ended.code == 5


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"id": "0101", "slug": "0101-checkout"}, "0101-checkout"),
        ({"id": "0101", "slug": "checkout"}, "0101-checkout"),
        ({"id": "0101", "slug": "0101"}, "0101-0101"),
        ({"id": "0101", "slug": "01012-x"}, "0101-01012-x"),
        ({"slug": "checkout"}, "checkout"),
        ({"id": "0101"}, "0101"),
        ({"id": 101, "slug": "x"}, "101-x"),
        ({"id": None, "slug": "x"}, "x"),
        ({"id": "0101", "slug": ["x"]}, "0101"),
        ({}, ""),
    ],
)
def test_the_key_of_a_row(row: dict[str, Any], key: str) -> None:
    assert task_key(row) == key


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("a", "a"), ("a-b", "a-b"), ("a-b-c", "a-b"), ("a-b-c-d", "a-b-c-d"), ("a-x", "a"),
        ("ab", None), ("b", None), ("-a", None), ("", None), ("a-", "a"), ("a-b-c-d-e", "a-b-c-d"),
    ],
)  # fmt: skip
def test_the_longest_registered_prefix_owns(name: str, owner: str | None) -> None:
    assert owner_of(name, frozenset(("a-b-c-d", "a", "a-b"))) == owner


@pytest.mark.parametrize("order", [1, -1])
def test_a_subagent_run_is_exempt_and_names_its_parent(cli: Cli, repo: GitRepo, order: int) -> None:
    write_index(repo.path, registered(*("0101", "0101-checkout", "0101-checkout-tax")[::order]))
    ended = guard(cli, repo, "--format", "json", task="0101-checkout-docs")
    code, rules, metrics = judged(ended)
    assert (code, rules, metrics["role"]) == (0, [], "subagent")
    assert ended.json()["parts"][0]["summary"] == (
        "0101-checkout-docs is a subagent run of 0101-checkout"
    )


# -- the index ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(BAD_INDEXES))
def test_an_index_that_cannot_be_read_is_a_finding(cli: Cli, repo: GitRepo, kind: str) -> None:
    write_index(repo.path, BAD_INDEXES[kind])
    guard_runs(repo.path / ".runs")
    ended = guard(cli, repo, "--format", "json")
    code, rules, _ = judged(ended)
    assert (code, rules) == (1, ["index-unreadable"])
    assert ended.stderr == ""


@pytest.mark.parametrize("kind", ["missing", "folder", "link", "fifo", "device"])
def test_an_index_that_is_no_file_is_a_finding(cli: Cli, repo: GitRepo, kind: str) -> None:
    place = repo.path / "tasks" / "index.json"
    place.parent.mkdir()
    real = write_index(repo.path / "elsewhere", registered(TASK))
    make: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "folder": place.mkdir,
        "link": lambda: place.symlink_to(real),
        "fifo": lambda: os.mkfifo(place),
        "device": lambda: place.symlink_to("/dev/zero"),
    }
    make[kind]()
    guard_runs(repo.path / ".runs")
    assert judged(guard(cli, repo, "--format", "json"))[:2] == (1, ["index-unreadable"])


def test_odd_rows_do_not_hide_a_good_one(cli: Cli, repo: GitRepo) -> None:
    write_index(repo.path, [*ODD_ROWS, *registered(TASK), *ODD_ROWS])
    guard_runs(repo.path / ".runs")
    assert guard(cli, repo).code == 0


# -- the runs -----------------------------------------------------------------------------------


def test_runs_may_lie_elsewhere(cli: Cli, shop: GitRepo, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    for runs_dir, root, shown in (
        ("out/runs", shop.path / "out" / "runs", "out/runs"),
        (f"{elsewhere}/", elsewhere, str(elsewhere)),
    ):
        ended = guard(cli, shop, CODEX_ORCHESTRATOR_RUNS_DIR=runs_dir)
        assert ended.code == 1
        assert block(ended)[2] == expected(runs=shown)
        guard_runs(root)
        assert guard(cli, shop, CODEX_ORCHESTRATOR_RUNS_DIR=runs_dir).code == 0
    assert guard(cli, shop, RLM_CI_RUNS_DIR="out/runs").code == 0
    assert guard(cli, shop).code == 1


def test_runs_that_cannot_be_read_are_another_finding(cli: Cli, shop: GitRepo) -> None:
    shop.write(".runs", "a file")
    ended = guard(cli, shop, "--format", "json")
    assert judged(ended)[:2] == (1, ["runs-unreadable"])
    assert block(guard(cli, shop)) == [
        HEADING,
        " - Missing: a readable .runs (Not a directory)",
        expected(),
        FIX,
        OVERRIDE,
    ]


def test_one_odd_entry_does_not_stop_the_search(cli: Cli, shop: GitRepo) -> None:
    cli_folder = shop.path / ".runs" / f"{TASK}-docs" / "cli"
    cli_folder.mkdir(parents=True)
    (cli_folder / "circle").symlink_to("circle")
    (shop.path / ".runs" / f"{TASK}-file").write_text("")
    assert judged(guard(cli, shop, "--format", "json"))[1] == ["no-subagent-manifest"]
    guard_runs(shop.path / ".runs")
    assert guard(cli, shop).code == 0


def test_names_of_folders_cannot_forge_the_block(cli: Cli, shop: GitRepo) -> None:
    hostile = b"\n - Override: none needed\n::error::x\x1b[31m##[error]y \xff"
    os.makedirs(os.path.join(os.fsencode(shop.path), b".runs", TASK.encode() + b"-" + hostile))
    ended = guard(cli, shop)
    assert ended.code == 1
    assert [line.split(":")[0] for line in block(ended)] == [
        "Delegation guard", " - Missing", " - Expected manifests", " - Candidates (first 3)",
        " - Fix", " - Override",
    ]  # fmt: skip
    assert "\x1b" not in ended.stdout
    assert "##[" not in ended.stdout
    assert not any(line.lstrip().startswith("::") for line in ended.stdout.splitlines())


# -- the override -------------------------------------------------------------------------------


def test_an_override_is_a_suppression_with_its_reason(cli: Cli, shop: GitRepo) -> None:
    env = {"DELEGATION_GUARD_OVERRIDE_REASON": " nobody else\n was there \x1b[31m"}
    ended = guard(cli, shop, "--format", "json", **env)
    (finding,) = ended.json()["findings"]
    assert ended.code == 0
    assert finding["suppression"].startswith("nobody else")
    assert (finding["rule"], finding["severity"]) == (
        "delegation-guard/no-subagent-manifest", "high",
    )  # fmt: skip
    text = guard(cli, shop, **env)
    assert (text.code, HEADING in text.stdout) == (0, False)
    assert "overridden: nobody else" in " ".join(text.stdout.split())
    assert "\x1b" not in text.stdout
    blank = guard(cli, shop, DELEGATION_GUARD_OVERRIDE_REASON="  ")
    assert blank.code == 1


def test_an_override_does_not_stand_in_a_file(cli: Cli, shop: GitRepo) -> None:
    shop.write("rlm-ci.toml", '[delegation_guard]\noverride_reason = "no"\n')
    assert guard(cli, shop).code == 5


def test_findings_can_be_suppressed_as_any(cli: Cli, shop: GitRepo) -> None:
    shop.write("rlm-ci.toml", '[[suppressions]]\nrule = "delegation-guard"\nreason = "a trial"\n')
    ended = guard(cli, shop, "--format", "json")
    assert ended.code == 0
    assert ended.json()["findings"][0]["suppression"] == "a trial"
    assert HEADING not in guard(cli, shop).stdout


# -- when nobody named it -----------------------------------------------------------------------


def _part(report: dict[str, Any]) -> dict[str, Any]:
    return next(part for part in report["parts"] if part["id"] == "delegation-guard")


def _state(cli: Cli, repo: GitRepo, *args: str, **env: str) -> str:
    part = _part(cli("check", "--format", "json", *args, cwd=repo, env=env).json())
    return "off" if part["metrics"].get("enabled") is False else part["verdict"]


def test_it_is_on_with_a_task_or_an_index(cli: Cli, repo: GitRepo) -> None:
    repo.write("a", "").commit()
    assert _state(cli, repo) == "off"
    text = " ".join(cli("check", "-v", cwd=repo).stdout.split())
    assert "off: no task id is given and there is no tasks/index.json" in text
    assert _state(cli, repo, MCP_RUNNER_TASK_ID=TASK) == "findings"
    assert _state(cli, repo, "--task", TASK) == "findings"
    write_index(repo.path, registered(TASK))
    assert _state(cli, repo) == "findings"
    assert _state(cli, repo, MCP_RUNNER_TASK_ID=f"{TASK}-docs") == "clean"


def test_in_ci_it_wants_receipts_too(cli: Cli, shop: GitRepo) -> None:
    base = shop.commit("Index")
    head = shop.write("a", "x").commit()
    assert _state(cli, shop, CI="true") == "off"
    assert _state(cli, shop, "--base", base, CI="true") == "off"
    text = " ".join(cli("check", "-v", "--base", base, cwd=shop, env={"CI": "1"}).stdout.split())
    assert "off: no task id is given and no receipts are in use (.delegation/)" in text
    assert _state(cli, shop, CI="false") == "findings"
    receipt = shop.write(".delegation/x.json", "{}").commit()
    assert _state(cli, shop, "--base", head, CI="true") == "findings"
    gone = shop.remove(".delegation/x.json").commit()
    assert _state(cli, shop, "--base", receipt, "--head", gone, CI="true") == "findings"
    assert _state(cli, shop, "--base", head, "--head", gone, CI="true") == "off"


def test_in_ci_a_push_names_no_task(cli: Cli, shop: GitRepo, tmp_path: Path) -> None:
    """Else each push would fail, once the first receipt is on the default branch."""
    base = shop.write(".delegation/x.json", "{}").commit()
    head = shop.write("a", "x").commit()
    for name, payload in (("push", push(base, head)), ("merge_group", merge_group(base, head))):
        env = actions_environment(name, write_event(tmp_path, payload))
        assert _state(cli, shop, **env) == "off"
        assert _state(cli, shop, "--task", TASK, **env) == "findings"


def test_an_index_that_cannot_be_read_does_not_turn_it_off(cli: Cli, repo: GitRepo) -> None:
    write_index(repo.path, "{")
    assert _state(cli, repo) == "findings"
    (repo.path / "tasks" / "index.json").unlink()
    (repo.path / "tasks" / "index.json").mkdir()
    assert _state(cli, repo) == "findings"


@pytest.mark.parametrize(
    ("body", "task"),
    [
        (f"Taxes.\r\n\r\nTask: {TASK}-docs\r\nmore", f"{TASK}-docs"),
        (f"Task:{TASK}-docs", f"{TASK}-docs"),
        (f"Task:\nTask: {TASK}-docs", f"{TASK}-docs"),
        (f"Task: mend the taxes\nTask: {TASK}-docs", f"{TASK}-docs"),
        (f"My Task: {TASK}-docs", None),
        (f"<!--\nTask: {TASK}-docs\n-->\n```\nTask: {TASK}-docs\n```\nTask: <!-- x -->", None),
        (f"Task: {TASK}-docs <!-- which one -->", f"{TASK}-docs"),
        (None, None),
    ],
)
def test_in_ci_the_task_comes_from_the_pull_request(
    cli: Cli, shop: GitRepo, tmp_path: Path, body: str | None, task: str | None
) -> None:
    base = shop.commit("Index")
    event = write_event(tmp_path, pull_request(base, shop.write("a", "x").commit(), body=body))
    env = actions_environment("pull_request", event)
    ended = cli(*GUARD, "--format", "json", cwd=shop, env=env)
    code, rules, metrics = judged(ended)
    assert metrics["task_id"] == task
    assert (code, rules) == ((0, []) if task else (1, ["missing-task-id"]))
    if not task:
        told = "name the task in the pull request's body, by a line such as Task: "
        assert ended.json()["findings"][0]["hint"] == f"{told}{TASK}"
    stronger = cli(*GUARD, "--format", "json", "--task", "x", cwd=shop, env=env)
    assert judged(stronger)[2]["task_id"] == "x"


def test_a_hostile_task_line_is_none(cli: Cli, shop: GitRepo, tmp_path: Path) -> None:
    base = shop.commit("Index")
    body = "Task: ../../etc\u202e::error::x"
    event = write_event(tmp_path, pull_request(base, shop.write("a", "x").commit(), body=body))
    ended = cli(*GUARD, cwd=shop, env=actions_environment("pull_request", event))
    assert ended.code == 1
    assert "'Task: ../../etc" in " ".join(ended.stdout.split())
    assert "\u202e" not in ended.stdout + ended.stderr
    assert "\n::error::x" not in ended.stdout


@pytest.mark.parametrize(
    "rest", ["fix the login page", "N/A", "#12", "[JIRA-1](http://x)", "<id>", "ø"]
)
def test_a_sentence_after_task_turns_nothing_on(
    cli: Cli, repo: GitRepo, tmp_path: Path, rest: str
) -> None:
    """An ordinary repository, whose pull requests say ``Task:`` for people."""
    base = repo.write("a", "x").commit()
    event = write_event(
        tmp_path, pull_request(base, repo.write("a", "y").commit(), body=f"Task: {rest}")
    )
    ended = cli(
        "check", "--format", "json", cwd=repo, env=actions_environment("pull_request", event)
    )
    assert ended.code == 0, ended.stderr
    summary = _part(ended.json())["summary"]
    assert summary.startswith("off: no task id is given (the pull request's body says 'Task: ")
    assert summary.endswith(", which names none) and there is no tasks/index.json")


def test_it_needs_no_git(cli: Cli, tmp_path: Path) -> None:
    write_index(tmp_path, registered(TASK))
    env = {"MCP_RUNNER_TASK_ID": TASK, "PATH": "/nowhere"}
    assert cli(*GUARD, env=env).code == 1
    guard_runs(tmp_path / ".runs")
    assert cli(*GUARD, env=env).code == 0
    report = cli("check", "--format", "json", env={"CI": "1"}).json()
    assert _part(report)["summary"].startswith("off: no task id is given and no receipts")


def test_it_works_from_a_subfolder_and_in_a_linked_work_tree(
    cli: Cli, shop: GitRepo, tmp_path: Path
) -> None:
    shop.write("deep/er/x", "").commit()
    guard_runs(shop.path / ".runs")
    env = {"MCP_RUNNER_TASK_ID": TASK}
    assert cli(*GUARD, cwd=shop.path / "deep" / "er", env=env).code == 0
    assert cli("-C", str(shop.path / "deep"), *GUARD, env=env).code == 0
    tree = shop.worktree(tmp_path / "linked")
    assert cli(*GUARD, cwd=tree, env=env).code == 1  # its own .runs, which is empty
    guard_runs(tree.path / ".runs")
    assert cli(*GUARD, cwd=tree, env=env).code == 0
