"""``rlm-ci archive`` as a user runs it: what it prints, and the files that it leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rlm_ci.archive.report import VERSION
from rlm_ci.cli.commands.archive import REPORT
from testing.archived_shop import STOCK, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli


def test_a_plan_changes_nothing_and_a_run_leaves_its_report(tmp_path: Path, cli: Cli) -> None:
    shop = Shop(tmp_path, {"docs/PRD-open.md": "# Open\n\n" + "- [ ] x\n" * 400})
    planned = cli("archive", "--dry-run", "--task", "t-1", cwd=shop.repo)
    assert planned.code == 0
    assert "3 documents would be archived on doc-archives\n" in planned.stdout
    assert "1  with open items" in planned.stdout
    assert (shop.archived(), shop.repo.text("status", "--porcelain")) == ({}, "")
    ended = cli("archive", "--format", "json", "--task", "t-1", cwd=shop.repo)
    record = ended.json()
    assert (ended.code, record["version"], record["dry_run"]) == (0, VERSION, False)
    assert [one["path"] for one in record["archived"]] == list(STOCK)
    assert {one["task"] for one in record["archived"]} == {"0001-stock"}
    assert record["archive_commit"] == shop.bare.sha("doc-archives")
    assert json.loads(shop.repo.read(f"out/t-1/{REPORT}")) == record


def test_a_remote_that_does_not_answer_costs_no_document(tmp_path: Path, cli: Cli) -> None:
    shop = Shop(tmp_path)
    shop.repo.run("remote", "set-url", "origin", str(tmp_path / "none"))
    ended = cli("archive", cwd=shop.repo)
    assert ended.code == 8
    assert "the remote refuses" in ended.stderr
    assert shop.repo.text("status", "--porcelain") == ""
