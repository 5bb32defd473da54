"""``rlm-ci receipt`` and the guard in CI, each as a process of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.receipts.receipt import FOLDER, path_of
from rlm_ci.redaction import token_forms
from rlm_ci.resources import loader
from testing.mcp_client import McpClient
from testing.repositories.delegated_runs import (
    TASK,
    guard_runs,
    registered,
    run_id,
    sibling_runs,
    write_index,
    write_run,
)
from testing.repositories.events import actions_environment, from_fork, pull_request, write_event
from testing.token_issuer import BEARER, TokenIssuer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

WORKFLOW = ".github/workflows/agents.yml"


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    """A branch with one commit; the runs are there, and git does not see them."""
    write_index(repo.path, registered(TASK, f"{TASK}-extra"))
    repo.write(".gitignore", ".runs/\n").write(WORKFLOW, "on: pull_request\n").commit("Index")
    repo.checkout("feature", new=True).write("a", "x").commit("Work")
    return repo


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with serving() as started:
        yield started


def test_runs_become_a_receipt_that_the_guard_takes_in_ci(
    cli: Cli, shop: GitRepo, tmp_path: Path
) -> None:
    runs = shop.path / ".runs"
    guard_runs(runs, count=2)
    guard_runs(runs, stream="tests", status="failed")
    sibling_runs(runs)  # of another registered task
    write_run(runs, f"{TASK}-late", run_id(9), status="in_progress")
    write_run(runs, f"{TASK}-odd", "a b")
    shop.write("a", "not committed")
    ended = cli("receipt", "--task", TASK, cwd=shop)
    work = shop.sha()[:12]
    assert ended.code == 0, ended
    assert ended.stdout.splitlines() == [
        f"{path_of(TASK)}: 3 runs, 2 succeeded, on {work}, not signed",
        f"commit it with the change: git add {path_of(TASK)}",
    ]
    assert [line.partition(" is left out: ")[2] for line in ended.stderr.splitlines()] == [
        f"belongs to the registered task {TASK}-extra",
        f"belongs to the registered task {TASK}-extra",
        "it has not ended",
        "the name of the run is not safe",
        "",
    ]
    assert f"note: the receipt names the tree of {work}" in ended.stderr
    data = shop.read(path_of(TASK))
    assert loader.misfit(json.loads(data), "receipt.schema.json") == ""
    assert os.fsencode(shop.path) not in data
    shop.run("add", FOLDER)
    shop.write(path_of(TASK), "{}")
    again = cli("receipt", "--task", TASK, "--format", "json", cwd=shop)
    assert shop.read(path_of(TASK)) == data
    assert [one["status"] for one in again.json()["runs"]] == ["succeeded"] * 2 + ["failed"]

    (shop.path / ".runs").rename(tmp_path / "runs")
    base, head = shop.sha("main"), shop.commit("Receipt")
    event = write_event(tmp_path, pull_request(base, head, body=f"Task: {TASK}"))
    env = actions_environment("pull_request", event)
    judged = cli("check", "delegation-guard", "--format", "json", cwd=shop, env=env).json()
    part = judged["parts"][0]
    assert (part["verdict"], part["metrics"]["receipts"]) == ("clean", 1)
    assert part["summary"] == (
        f"{TASK} has a receipt: 3 runs, 2 succeeded, on the commit {work}; author's "
        "evidence, not proof: no CI job made it"
    )
    refused = cli("check", "delegation-guard", "--receipts", "off", cwd=shop, env=env)
    assert "no-subagent-manifest" not in refused.stdout
    assert f"{TASK} has no subagent run in .runs" in " ".join(refused.stdout.split())


def test_where_there_is_nothing_to_say_it_is_an_error(cli: Cli, shop: GitRepo) -> None:
    wrong = {
        (): "no task id is given",
        ("--task", "../x"): "'../x' is not a task id",
        ("--task", "0999"): "0999 is not registered",
        ("--task", f"{TASK}-docs"): f"{TASK}-docs is a subagent run of {TASK}",
        ("--task", TASK): f"{TASK} has no subagent run that has ended",
    }
    for args, what in wrong.items():
        ended = cli("receipt", *args, cwd=shop)
        assert (ended.code, ended.stdout) == (5, "")
        assert ended.stderr.startswith(f"error: {what} (")
    guard_runs(shop.path / ".runs")
    shop.symlink(FOLDER, "elsewhere").write("elsewhere/x")
    ended = cli("receipt", "--task", TASK, cwd=shop)
    assert (ended.code, os.listdir(shop.place("elsewhere"))) == (9, [b"x"])
    shop.write("tasks/index.json", "[")
    assert cli("receipt", "--task", TASK, cwd=shop).code == 5


def in_job(issuer: TokenIssuer, event: Path, name: str, sha: str, ref: str) -> dict[str, str]:
    """The variables of a job with ``id-token: write``, which GitHub will vouch for."""
    told = {
        "repository": "acme/shop", "run_id": "77", "run_attempt": "1", "sha": sha, "ref": ref,
        "workflow_ref": f"acme/shop/{WORKFLOW}@{ref}",
    }  # fmt: skip
    at = 1_767_604_000
    issuer.claims = {**told, "job_workflow_ref": told["workflow_ref"], "iat": at, "exp": at + 300}
    return actions_environment(name, event) | {
        "GITHUB_SERVER_URL": issuer.server_url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": BEARER,
        "ACTIONS_ID_TOKEN_REQUEST_URL": issuer.request_url,
        **{f"GITHUB_{key.upper()}": value for key, value in told.items()},
    }  # fmt: skip


@pytest.mark.parametrize("name", ["push", "pull_request"])
def test_a_job_s_receipt_is_verified_in_ci(
    cli: Cli, shop: GitRepo, tmp_path: Path, issuer: TokenIssuer, name: str
) -> None:
    base, work = shop.sha("main"), shop.sha()
    guard_runs(shop.path / ".runs")
    event = write_event(tmp_path, pull_request(base, work, body=f"Task: {TASK}"))
    sha, ref = work, "refs/heads/feature"
    if name == "pull_request":
        sha = shop.commit_tree(shop.text("rev-parse", "HEAD^{tree}"), [base, work], "Merge")
        ref = "refs/pull/12/merge"
    env = in_job(issuer, event, name, sha, ref)
    ended = cli("receipt", "--task", TASK, cwd=shop, env=env)
    assert ended.code == 0, ended
    assert f"on {work[:12]}, signed by GitHub" in ended.stdout
    written = shop.read(path_of(TASK)).decode()
    assert BEARER not in written
    assert token_forms.redact(written) == written, "a scanner for secrets would find it"
    statement = f"{FOLDER}/{TASK}.intoto.jsonl"
    assert f"{statement}: the same for other programs" in ended.stdout
    verified_again = cli("verify", statement, cwd=shop)
    assert (verified_again.code, verified_again.stdout[:2]) == (0, "✓ "), verified_again
    data = shop.read(statement)
    shop.write(statement, data.replace(b'"sig": "', b'"sig": "MEUC'))
    forged = cli("verify", statement, cwd=shop)
    assert (forged.code, forged.stdout.partition(": ")[2]) == (
        1, "the signature of its in-toto statement is not valid\n"
    )  # fmt: skip
    shop.write(statement, data)

    (shop.path / ".runs").rename(tmp_path / "runs")
    head = shop.commit("Receipt")
    verified = f"verified: {WORKFLOW} made it in run 77, on {work[:12]}"
    for payload, flag, says in (
        (pull_request(base, head, body=f"Task: {TASK}"), "verified", verified),
        (from_fork(base, head, body=f"Task: {TASK}"), "verify", verified),
        (pull_request(base, head, body=f"Task: {TASK}"), "accept",
         "author's evidence, not proof: its signature is not checked (delegation_guard.receipts)"),
    ):  # fmt: skip
        write_event(tmp_path, payload)
        told = {**env, "RLM_CI_DELEGATION_GUARD_RECEIPTS": flag}
        report = cli("check", "delegation-guard", "--format", "json", cwd=shop, env=told).json()
        assert report["parts"][0]["summary"].endswith(f"; {says}"), report


def test_the_base_says_which_receipts_count(cli: Cli, shop: GitRepo, tmp_path: Path) -> None:
    def config(value: str) -> GitRepo:
        return shop.write("rlm-ci.toml", f'[delegation_guard]\nreceipts = "{value}"\n')

    shop.checkout("main")
    base = config("verified").commit()
    shop.checkout("feature", new=True)
    config("accept").commit()
    guard_runs(shop.path / ".runs")
    assert cli("receipt", "--task", TASK, cwd=shop).code == 0
    (shop.path / ".runs").rename(tmp_path / "runs")
    guard_runs(shop.path / ".runs")
    shop.run("add", "--force", ".runs")
    head = shop.commit()
    # Neither runs in the change nor another word in the body get around it.
    for named in (TASK, f"{TASK}-docs"):
        event = write_event(tmp_path, pull_request(base, head, body=f"Task: {named}"))
        env = actions_environment("pull_request", event)
        report = cli("check", "delegation-guard", "--format", "json", cwd=shop, env=env).json()
        assert report["findings"][0]["message"] == (
            f"{path_of(TASK)} does not count: it is not verified: no CI job made it"
        )


def test_a_new_receipt_without_a_job_takes_an_old_statement_away(cli: Cli, shop: GitRepo) -> None:
    guard_runs(shop.path / ".runs")
    statement = f"{FOLDER}/{TASK}.intoto.jsonl"
    shop.write(statement, "{}")
    assert cli("verify", statement, cwd=shop).code == 1
    assert cli("receipt", "--task", TASK, cwd=shop).code == 0
    assert os.listdir(shop.place(FOLDER)) == [os.fsencode(f"{TASK}.json")]
    assert cli("verify", path_of(TASK), cwd=shop).code == 0
    assert cli("verify", statement, cwd=shop).code == 5


def test_a_job_that_gets_no_token_writes_nothing(
    cli: Cli, shop: GitRepo, tmp_path: Path, issuer: TokenIssuer
) -> None:
    guard_runs(shop.path / ".runs")
    event = write_event(tmp_path, pull_request(shop.sha("main"), shop.sha()))
    env = in_job(issuer, event, "push", shop.sha(), "refs/heads/feature")
    env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] = "wrong"
    ended = cli("receipt", "--task", TASK, cwd=shop, env=env)
    assert (ended.code, ended.stdout) == (8, "")
    assert not os.path.lexists(shop.place(FOLDER))
    del env["GITHUB_RUN_ID"]
    assert cli("receipt", "--task", TASK, cwd=shop, env=env | {"GITHUB_RUN_ID": ""}).code == 5


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="runs in the background")
def test_from_a_delegated_run_to_a_green_pull_request(
    cli: Cli, shop: GitRepo, tmp_path: Path
) -> None:
    """The way of docs/checks.md: an agent delegates, its author commits, CI looks."""
    base, task = shop.sha("main"), {"MCP_RUNNER_TASK_ID": TASK}
    shop.write("cart.py", "def total(prices):\n    return sum(prices)\n").commit("Work")
    assert cli("check", cwd=shop, env=task).code == 1
    with McpClient(shop.path, "--mode", "full", env=task) as client:
        client.hello()
        run = client.call("delegate.spawn", pipeline="review", task_id=f"{TASK}-review")
        assert run["status"] == "succeeded", run
        assert client.close() == 0
    assert cli("check", cwd=shop, env=task).code == 0
    written = cli("receipt", cwd=shop, env=task)
    assert (written.code, written.stderr) == (0, "")
    shop.run(*written.stdout.rpartition("git ")[2].split())
    head = shop.commit("Receipt", stage=False)
    assert shop.text("show", "--name-only", "--format=", head) == path_of(TASK)

    clone = shop.clone(tmp_path / "ci")
    event = write_event(tmp_path, pull_request(base, head, body=f"Taxes.\n\nTask: {TASK}"))
    env = actions_environment("pull_request", event)
    told = "1 run, 1 succeeded, on the head; author's evidence, not proof: no CI job made it"
    out = tmp_path / "out"
    judged = cli("pr", "--no-publish", "--out", out, cwd=clone, env=env)
    assert judged.code == 0, judged
    assert told in " ".join(judged.stdout.split())
    shown = (out / "comment.md").read_text("utf-8").replace("\u200b", "")
    assert f"{TASK} has a receipt: {told}" in shown
    assert cli("pr", "--no-publish", "--out", out, cwd=clone, env={
        **env, "RLM_CI_DELEGATION_GUARD_RECEIPTS": "off",
    }).code == 1  # fmt: skip
