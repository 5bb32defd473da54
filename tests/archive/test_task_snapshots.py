"""Snapshots of tasks, archived into a real remote: appended, never overwritten, never twice."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.archive.task_snapshots import TasksOutcome, TasksPolicy, archive_tasks, plan_tasks
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.git.remote_clone import RemoteUser
from testing.archived_shop import INDEX, Shop, index
from testing.killed_steps import run_until
from testing.repositories.archives import REPO_URL
from testing.repositories.git_repo import SYMLINK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import Change, GitRepo, Name

TASKS, POLICY, BRANCH = "docs/TASKS.md", "docs/tasks-archive-policy.json", "task-archives"
LAST, THIS = "docs/TASKS-archive-2025.md", "docs/TASKS-archive-2026.md"


def _row(number: int, year: int, status: str = "done") -> dict[str, object]:
    return {"id": f"{number:04}", "slug": "x", "status": status,
            "completed_at": None if status == "open" else f"{year}-01-{number:02}"}  # fmt: skip


def _snapshot(number: int) -> str:
    items = "".join(f"- [x] Step {step} of {number}\n" for step in range(7))
    return f"# Task List Snapshot - Task {number} ({number:04}-x) - Docs Packet\n{items}\n"


def _policy(**fields: object) -> str:
    record = {
        "version": 1,
        "max_lines": 40,
        "reserve_lines": 10,
        "archive_branch": BRANCH,
        "archive_file_pattern": "docs/TASKS-archive-YYYY.md",
        "repo_url": REPO_URL,
    }
    return json.dumps(record | fields)  # fmt: skip


def _shop(folder: Path, **policy: object) -> Shop:
    numbers = range(1, 7)
    rows = [_row(one, 2025 + (one > 2), "open" if one == 5 else "done") for one in numbers]
    return Shop(folder, {
        TASKS: "# Tasks\n\n" + "".join(map(_snapshot, numbers)),
        POLICY: _policy(**policy),
        INDEX: index(*rows),
    })  # fmt: skip


def _archive(shop: Shop, *, dry_run: bool = False) -> TasksOutcome:
    user = RemoteUser(None, "https://github.com", os.environ, "test")
    return archive_tasks(shop.repository(), user, dry_run=dry_run)


def _held(bare: GitRepo, path: str) -> str:
    return bare.attempt("show", f"{BRANCH}:{path}").stdout.decode()


def test_the_oldest_go_to_the_files_of_their_years(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    whole = shop.repo.read(TASKS)
    planned = _archive(shop, dry_run=True)
    assert (shop.repo.read(TASKS), _held(shop.bare, LAST)) == (whole, "")
    outcome = _archive(shop)
    assert [one.key for one, _ in outcome.plan.taken] == ["0001-x", "0002-x", "0003-x", "0004-x"]
    assert planned.plan == outcome.plan
    assert outcome.pushed == shop.bare.sha(BRANCH)
    left = shop.repo.read(TASKS).decode()
    assert left == (
        "# Tasks\n\n<!-- tasks-archive-index:begin -->\n## Archive index\n"
        f"Completed snapshots are on the branch `{BRANCH}`.\n"
        f"- 2025: {REPO_URL}/blob/{BRANCH}/{LAST}\n- 2026: {REPO_URL}/blob/{BRANCH}/{THIS}\n"
        f"<!-- tasks-archive-index:end -->\n\n{_snapshot(5)}{_snapshot(6)}"
    )
    assert left.count("\n") == outcome.left <= 30
    assert _held(shop.bare, LAST) == (
        f"# Task archive 2025\n\nCompleted snapshots of `{TASKS}`, as they were.\n\n"
        f"{_snapshot(1)}{_snapshot(2)}"
    ).removesuffix("\n")
    assert _held(shop.bare, THIS).endswith(f"\n{_snapshot(3)}{_snapshot(4)}".removesuffix("\n"))
    # Nothing is left to do, and it needs no remote to say so.
    shop.repo.run("remote", "set-url", "origin", "/nowhere")
    assert (_archive(shop).plan.taken, shop.repo.read(TASKS).decode()) == ((), left)


def test_later_snapshots_are_appended_and_earlier_ones_not_twice(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    whole = shop.repo.read(TASKS).decode()
    _archive(shop)
    first = {path: _held(shop.bare, path) for path in (LAST, THIS)}
    # Killed behind the push: the work tree still has all.
    shop.repo.write(TASKS, whole)
    again = _archive(shop)
    assert (again.pushed, shop.repo.read(TASKS).decode().count("# Task List")) == (None, 2)
    assert {path: _held(shop.bare, path) for path in (LAST, THIS)} == first
    # Others append meanwhile, and new tasks are completed: both stay.
    other = f"{first[THIS]}\n{_snapshot(77)}"
    with shop.bare.bulk() as bulk:
        bulk.commit(BRANCH, {THIS: other}, "Theirs", [shop.bare.sha(BRANCH)])
    rows = [_row(number, 2026) for number in range(5, 11)]
    shop.repo.write(INDEX, index(*rows))
    shop.repo.write(TASKS, "# Tasks\n\n" + "".join(map(_snapshot, range(5, 11))))
    outcome = _archive(shop)
    assert outcome.plan.taken[0][0].key == "0005-x"
    held = _held(shop.bare, THIS)
    assert held.startswith(other)
    for number in (3, 4, 77, 5, 6):
        assert held.count(f"({number:04}-x)") == 1
    assert f"- 2025: {REPO_URL}" in shop.repo.read(TASKS).decode()
    assert _held(shop.bare, LAST) == first[LAST]


@pytest.mark.parametrize(
    ("fields", "rows", "said", "stays"),
    [
        ({"max_lines": 15, "reserve_lines": 1}, None, "are left without every snapshot", "0005-x:"),
        ({}, range(1, 7), "no snapshot that may go", "0001-x: the task 0001-x is not completed; "),
        ({}, (), "no snapshot that may go", "0001-x, 0002-x, 0003-x, 0004-x, 0005-x, 0006-x: "),
    ],
)
def test_a_limit_that_cannot_be_reached_changes_nothing(
    tmp_path: Path, fields: dict[str, object], rows: Iterable[int] | None, said: str, stays: str
) -> None:
    shop = _shop(tmp_path, **fields)
    if rows is not None:
        shop.repo.write(INDEX, index(*(_row(one, 2026, "open") for one in rows)))
    whole = shop.repo.read(TASKS)
    with pytest.raises(ConfigError, match=said) as caught:
        _archive(shop)
    assert f"these stay: {stays}" in (caught.value.hint or "")
    assert (shop.repo.read(TASKS), _held(shop.bare, LAST)) == (whole, "")


def test_a_remote_that_refuses_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    whole = shop.repo.read(TASKS)
    hook = shop.bare.path / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(RemoteError):
        _archive(shop)
    assert shop.repo.read(TASKS) == whole


@pytest.mark.parametrize(
    "held", [{f"{LAST}/inner": "x\n"}, {LAST: (SYMLINK, "x")}, {"docs": "x\n"}]
)
def test_what_stands_in_the_place_of_a_file_stays(tmp_path: Path, held: dict[Name, Change]) -> None:
    shop = _shop(tmp_path)
    with shop.bare.bulk() as bulk:
        bulk.commit(BRANCH, held, "In the way", ())
    before = shop.bare.sha(BRANCH)
    with pytest.raises(ConfigError, match="something else than a regular file") as caught:
        _archive(shop)
    assert (caught.value.where, shop.bare.sha(BRANCH)) == (LAST, before)


@pytest.mark.parametrize("fields", [
    {"version": 2}, {"max_lines": "450"}, {"reserve_lines": 40}, {"archive_branch": "-x"},
    {"archive_file_pattern": "docs/x.md"}, {"archive_file_pattern": "../YYYY.md"},
    {"repo_url": "here"},
])  # fmt: skip
def test_a_wrong_policy_is_an_error(tmp_path: Path, fields: dict[str, object]) -> None:
    shop = Shop(tmp_path, {POLICY: _policy(**fields)})
    with pytest.raises(ConfigError) as caught:
        TasksPolicy.read(shop.repository())
    assert caught.value.where == POLICY


def test_what_a_policy_leaves_out_is_as_without_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path, {POLICY: json.dumps({"repo_url": REPO_URL})})
    own = TasksPolicy.read(shop.repository())
    assert (own.address, own.branch, own.max_lines) == (REPO_URL, BRANCH, 450)


@pytest.mark.full
def test_the_command_says_what_it_did(cli: Cli, tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    ended = cli("archive", "--tasks", cwd=shop.repo)
    assert (ended.code, ended.stderr) == (0, "")
    assert "4 snapshots archived on task-archives (pushed " in ended.stdout
    assert f"{TASKS}: 56 lines, 27 left, 40 allowed" in ended.stdout
    ended = cli("archive", "--tasks", "--format", "json", cwd=shop.repo)
    record = ended.json()
    assert (record["archived"], record["lines"], record["max_lines"]) == ([], 27, 40)
    assert cli("archive", "--tasks", "--repair", cwd=shop.repo).code == 2


def test_thousands_of_snapshots_are_planned_in_no_time() -> None:
    policy = TasksPolicy(BRANCH, 400, 10, "docs/TASKS-archive-YYYY.md", REPO_URL)
    texts = [
        f"# Task List Snapshot - x (k-{n}) - Update 2026-01-01: completed\n" for n in range(20_000)
    ]
    plan = plan_tasks("".join(texts).encode(), (), policy, ())
    assert len(plan.taken) > 19_000
    assert plan.after(policy, ["2026"]).count("\n") <= policy.target


@pytest.mark.full
def test_killed_anywhere_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    whole = shop.repo.read(TASKS)
    names = [f"({number:04}-x)" for number in range(1, 7)]

    def places() -> list[tuple[int, int]]:
        """How often each snapshot is in the archive, and in the file."""
        held = _held(shop.bare, LAST) + _held(shop.bare, THIS)
        left = shop.repo.read(TASKS).decode()
        return [(held.count(name), left.count(name)) for name in names]

    last = 10  # what is before changes nothing
    while run_until(lambda: _archive(shop), last):
        assert all(sum(one) >= 1 for one in places()), (last, places())
        _archive(shop)
        assert places() == [(1, 0)] * 4 + [(0, 1)] * 2
        shop.repo.write(TASKS, whole)
        shop.bare.attempt("update-ref", "-d", f"refs/heads/{BRANCH}")
        last += 1
    assert last > 16
