"""Which documents go, for which reasons, and each reason for which one stays."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from rlm_ci.archive import report
from rlm_ci.archive.run import ArchiveOutcome
from rlm_ci.errors import ConfigError
from rlm_ci.text import dates
from testing.archived_shop import DONE, INDEX, REGISTRY, STOCK, Shop, index, registry, row
from testing.repositories.archives import POLICY_PATH, document, policy, stub

LONG = "# Long\n" + "x\n" * 301
OPEN = document("Open", open_items=True)
RECENT = (date.fromisoformat(dates.today()) - timedelta(days=13)).isoformat()
TASKS = (
    {**DONE, "paths": {"prd": "docs/PRD-stock.md", "docs": ["docs/shared.md", "../x.md", 1]}},
    {"id": "0002", "slug": "till", "status": "in_progress", "paths": {"docs": "docs/shared.md"}},
    {"slug": "3-new", "status": " Completed ", "completed_at": RECENT, "relates_to": "docs/new.md",
     "paths": {"prd": "docs/PRD-3-new.md", "findings": "docs/findings/3.md", "spec": "src/a.py",
               "task": "docs/gone.md"}},
    {"slug": "4-kept", "status": "done", "paths": {"prd": "docs/PRD-kept.md"}},
    {"slug": "5-open", "completed_at": "2026-01-01T08:00:00Z", "paths": {"prd": "docs/PRD-5.md"}},
    {"slug": "6-base", "status": "done", "completed_at": "2026-01-01", "path": "docs/PRD-6.md"},
    {"slug": "7-prd", "status": "done", "paths": {"prd": "docs/PRD-7.md", "spec": "docs/PRD-7b.md",
                                                  "docs": "docs/TASKS.md"}},
    {"slug": ["x"], "status": ["done"], "paths": "x", "completed_at": 5},
)  # fmt: skip
ROWS = (
    row("docs/PRD-3-new.md", "terminal_pending_archive"), row("docs/new.md", "active"),
    row("docs/PRD-old.md", "active"), row("docs/PRD-fresh.md", last_review=dates.today()),
    row("docs/PRD-deprecated.md", "deprecated", last_review=dates.today()),
    row("docs/PRD-hist.md", "preserved_historical_stub"), row("docs/findings/3.md", "archived"),
    row("docs/PRD-packet.md", "retained_terminal_packet"), row("docs/PRD-stub.md"),
)  # fmt: skip
FILES = {
    "docs/PRD-7.md": OPEN, "docs/PRD-7b.md": LONG, "docs/TASKS.md": OPEN,
    "docs/shared.md": LONG, "docs/new.md": "# New\n", "docs/PRD-3-new.md": "# New\n",
    "docs/findings/3.md": LONG, "src/a.py": LONG, "docs/PRD-kept.md": LONG,
    "docs/PRD-5.md": document("Five"), "tasks/tasks-5-open.md": OPEN, "docs/PRD-6.md": OPEN,
    "tasks/specs/0001-stock.md": "docs/PRD_stock.md docs/PRD-other.md docs/PRD-live-stock.md\n",
    "docs/PRD_stock.md": "# Cited\n", "docs/PRD-live-stock.md": "# Other\n",
    "docs/PRD-other.md": "# Other\n",
    "docs/PRD-old.md": "# Old\n", "docs/PRD-fresh.md": "# Fresh\n", "docs/PRD-long.md": LONG,
    "docs/PRD-deprecated.md": "# Deprecated\n", "docs/PRD-hist.md": LONG,
    "docs/PRD-packet.md": LONG,
    "docs/PRD-stub.md": stub("docs/PRD-stub.md"), "docs/PRD-bent.md": stub("docs/PRD-stub.md"),
    "docs/PRD-listed.md": LONG, "docs/PRD.md": LONG, "docs/PRD-empty.md": "", "README.md": LONG,
    "docs/PRD-edited.md": LONG, "docs/PRD-removed.md": LONG, "docs/PRD-notes.txt": LONG,
}  # fmt: skip
GOING = {
    "docs/PRD-stock.md": ("retention_age",), "docs/PRD_stock.md": ("retention_age",),
    "tasks/specs/0001-stock.md": ("retention_age",), "docs/PRD-old.md": ("retention_age",),
    "tasks/tasks-0001-stock.md": ("retention_age",), "docs/PRD-long.md": ("line_threshold",),
    "docs/PRD-3-new.md": ("terminal_task_lifecycle",),
    "docs/PRD-deprecated.md": ("registry_status",),
}  # fmt: skip
STAYING = {
    "docs/shared.md": "active_lifecycle_not_archive_ready", "../x.md": "outside_repo",
    "docs/new.md": "not_eligible", "docs/findings/3.md": "already_archived_preserved_findings",
    "src/a.py": "not_markdown", "docs/gone.md": "missing_on_disk",
    "docs/PRD-kept.md": "allowlist_task_key", "docs/PRD-listed.md": "allowlist_path",
    "docs/PRD-5.md": "linked_unchecked_checklist_items",
    "docs/PRD-7b.md": "linked_unchecked_checklist_items", "docs/TASKS.md": "not_eligible",
    "docs/PRD-7.md": "not_eligible", "tasks/tasks-5-open.md": "unchecked_checklist_items",
    "docs/PRD-6.md": "base_unchecked_checklist_items", "docs/PRD-other.md": "not_eligible",
    "docs/PRD-live-stock.md": "not_eligible",
    "docs/PRD-fresh.md": "not_eligible", "docs/PRD-hist.md": "preserved_historical_stub",
    "docs/PRD-packet.md": "retained_terminal_packet", "docs/PRD-stub.md": "already_stubbed",
    "docs/PRD-bent.md": "invalid_archive_stub_metadata", "docs/PRD-empty.md": "empty",
    "docs/PRD-edited.md": "uncommitted_changes", "docs/PRD-removed.md": "missing_on_disk",
}  # fmt: skip


def test_every_reason_to_go_and_to_stay(tmp_path: Path) -> None:
    fields = json.loads(policy())
    fields["doc_patterns"].append("docs/PRD_*")
    fields.update(
        allowlist_task_keys=["4-kept"], allowlist_paths=["*listed*"], exclude_paths=["docs/PRD.md"]
    )
    made = {POLICY_PATH: json.dumps(fields), INDEX: index(*TASKS), REGISTRY: registry(*ROWS)}
    shop = Shop(tmp_path, FILES | made)
    shop.repo.write("docs/PRD-6.md", document("Six")).commit()  # not pushed: open at the base
    shop.repo.append("docs/PRD-edited.md", "y\n").remove("docs/PRD-removed.md")
    plan = shop.plan()
    assert {one.path: one.reasons for one in plan.documents} == GOING
    assert {one.path: one.reason for one in plan.skipped} == STAYING
    assert plan.candidates == len(GOING) + len(STAYING)
    told = report.text(ArchiveOutcome(plan), dry_run=True, verbose=False, remote="origin")
    assert "  docs/PRD-3-new.md  to be archived, says the registry\n" in told
    assert "      1  with open items at the base\n" in told
    assert not [one for one in report.STAYS if "_" in one and one in told]
    # The work tree is not looked at for branches.
    split = {one.path for one in shop.plan(split=True).documents}
    assert split == {*GOING, "docs/PRD-edited.md", "docs/PRD-removed.md"}


def test_every_reason_has_its_words() -> None:
    assert {reason for reasons in GOING.values() for reason in reasons} == set(report.GOES)
    assert set(STAYING.values()) <= set(report.STAYS)


def test_without_tasks_and_registry_long_documents_go(tmp_path: Path) -> None:
    shop = Shop(tmp_path, {"docs/PRD-long.md": LONG})
    shop.repo.remove(INDEX, REGISTRY).commit()
    shop.push()
    plan = shop.plan()
    assert [one.path for one in plan.documents] == ["docs/PRD-long.md"]
    assert {one.path for one in plan.skipped} == set(STOCK)


@pytest.mark.parametrize(
    ("path", "data", "what"),
    [
        (INDEX, "[" * 100_000, "index of tasks is not JSON"),
        (INDEX, '{"items": {}}', "index of tasks is not JSON"),
        (REGISTRY, "{}", "registry of documents is not JSON"),
        (POLICY_PATH, "{}", "version is missing"),
        (POLICY_PATH, policy(branch="main"), "which gets the stubs"),
    ],
)
def test_what_cannot_be_read_ends_it(tmp_path: Path, path: str, data: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        Shop(tmp_path, {path: data}).plan()


def test_without_a_base_nothing_goes(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.repo.run("update-ref", "-d", "refs/remotes/origin/main")
    shop.repo.run("checkout", "-q", "-b", "work").decode()
    shop.repo.run("branch", "-q", "-D", "main")
    with pytest.raises(ConfigError, match="default branch is not in this clone"):
        shop.plan()
