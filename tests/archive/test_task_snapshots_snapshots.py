"""The snapshots of a file of tasks: where they end, and what says that one is completed."""

from __future__ import annotations

import pytest

from rlm_ci.archive.task_snapshots import TaskNames, lines_of, snapshots, without
from rlm_ci.archive.tasks import ArchiveTask
from rlm_ci.errors import ConfigError

FILE = """\
# Tasks

# Task List Snapshot - Stock (0001-stock) - Update 2026-01-05: completed.
- [x] Count

<!-- docs-sync:begin 0001-stock -->
## Checklist Mirror
# Task List
<!-- docs-sync:end 0001-stock -->

# Task List Snapshot \u2014 Returns (see notes) (0002)
- Update \u2014 2026-02-01: planned
<!-- docs-sync:begin 0003-rates -->
- [x] Rates
<!-- docs-sync:end 0003-rates -->
In between.
<!-- tasks-archive-index:begin -->
## Old
# Task List Snapshot - in the index (x)
<!-- tasks-archive-index:end -->
# Task List Snapshot without a key
last"""


def _task(
    key: str, day: str = "2026-01-05", *, is_terminal: bool = True, named: str = ""
) -> ArchiveTask:
    return ArchiveTask(key, is_terminal, day, (named,), ())


def test_where_snapshots_begin_and_end() -> None:
    lines = lines_of(FILE)
    assert "".join(lines) == FILE
    found = [(one.key, one.start + 1, one.end) for one in snapshots(lines)]
    assert found == [("0001-stock", 3, 10), ("0002", 11, 12), ("0003-rates", 13, 15), ("", 21, 22)]
    first = snapshots(lines)[0]
    assert first.text.startswith("# Task List Snapshot - Stock")
    assert first.text.endswith("<!-- docs-sync:end 0001-stock -->")


@pytest.mark.parametrize("mark", ["docs-sync:begin a", "tasks-archive-index:begin"])
def test_a_comment_without_an_end_is_an_error(mark: str) -> None:
    with pytest.raises(ConfigError, match="nothing ends"):
        snapshots(lines_of(f"# Tasks\n<!-- {mark} -->\n# Task List Snapshot - x (a) - y\n"))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_rest_of_the_file_stays_as_it_is(ending: str) -> None:
    lines = lines_of(FILE.replace("\n", ending))
    found = snapshots(lines)
    left = "".join(without(lines, found[:1], ["- 2026: URL"]))
    assert left == "".join(lines[:2] + lines[10:16]) + "".join(
        f"{line}{ending}"
        for line in ("<!-- tasks-archive-index:begin -->", "- 2026: URL",
                     "<!-- tasks-archive-index:end -->")
    ) + "".join(lines[20:])  # fmt: skip
    # Without an index it comes before the first snapshot that is left.
    plain = list(lines[:16])
    made = without(plain, found[:1], ["x"])
    assert made[2].startswith("<!-- tasks-archive-index:begin")
    assert made[6].startswith("# Task List Snapshot")


@pytest.mark.parametrize(
    ("text", "rows", "day"),
    [
        ("# Task List Snapshot - A (a-1) - x", [_task("a-1")], "2026-01-05"),
        ("# Task List Snapshot - A (a) - x", [_task("a-1")], "2026-01-05"),
        ("# Task List Snapshot - A (a) - x", [_task("ab-1")], ""),
        ("# Task List Snapshot - A (a-1) - Update 2026-03-03: x", [_task("a-1", "")], "2026-03-03"),
        ("# Task List Snapshot - A (a-1) - x", [_task("a-1", "")], ""),
        ("# Task List Snapshot - A (a-1) - Update 2026-03-03: completed.",
         [_task("a-1", is_terminal=False)], ""),
        ("# Task List Snapshot - A (a) - x", [_task("a-1"), _task("a-2", is_terminal=False)], ""),
        ("# Task List Snapshot - A (b)", [_task("x", named="tasks/tasks-b.md")], "2026-01-05"),
        ("# Task List Snapshot - A (b) - Update 2026-03-03: completed (all)", [], "2026-03-03"),
        ("# Task List Snapshot - A (b) - Update 2026-03-03: `0001` is closed. x", [], "2026-03-03"),
        ("# Task List Snapshot - A - Update 2026-03-03: this lane is complete", [], "2026-03-03"),
        ("# Task List Snapshot - A (b)\n- **Update \u2014 2026-03-03:** done", [], "2026-03-03"),
        ("# Task List Snapshot - A (b) - Update 2026-03-03: not completed", [], ""),
        ("# Task List Snapshot - A (b) - Update 2026-03-03: completed the plan", [], ""),
        ("# Task List Snapshot - A (b) - Update 2026-02-30: completed", [], ""),
        ("# Task List Snapshot - A (b) - Update 2026-03-03: completed\n- [ ] x", [], ""),
        ("# Task List Snapshot - A (b) - Update 2026-03-03: done\n- Update 2026-03-04: again",
         [], ""),
    ],
)  # fmt: skip
def test_what_completes_a_snapshot(text: str, rows: list[ArchiveTask], day: str) -> None:
    (one,) = snapshots(lines_of(text + "\n"))
    found, why = one.completed_on(TaskNames(rows))
    assert found == day
    assert bool(why) is not bool(day)
