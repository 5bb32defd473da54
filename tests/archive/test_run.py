"""Documents archived into a real remote: full texts first, then stubs; again, nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_ci.archive import report
from rlm_ci.text import dates
from testing.archived_shop import REGISTRY, STOCK, Shop, registry, row

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.archive.run import ArchiveOutcome
    from testing.program import Cli


def test_full_texts_go_first_then_stubs_and_rows(tmp_path: Path, cli: Cli) -> None:
    shop = Shop(tmp_path)
    oids = {path: shop.repo.sha(f"HEAD:{path}") for path in STOCK}
    outcome = shop.archive()
    assert shop.archived() == oids
    today = dates.today()
    for path in STOCK:
        assert shop.repo.read(path) == shop.stub_of(path, today)
    marked = row(STOCK[0], "archived", last_review=today, cadence_days=365)
    assert shop.repo.read(REGISTRY).decode() == registry(marked, row("README.md"))
    assert (outcome.marked, outcome.pushed) == (1, shop.bare.sha("doc-archives"))
    assert cli("check", "doc-archive", cwd=shop.repo).code == 0
    # Again, with the stubs uncommitted and committed: nothing changes.
    before = shop.repo.text("diff")
    assert shop.archive().pushed is None
    assert shop.repo.text("diff") == before
    shop.repo.commit()
    assert (shop.archive().plan.documents, shop.repo.text("status", "--porcelain")) == ((), "")


def test_only_stubs_over_the_budget_are_said_to_need_the_override(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    assert "budget" not in _told(shop.archive())
    shop.repo.run("checkout", "--quiet", ".")
    shop.repo.write("rlm-ci.toml", "[diff_budget]\nmax_files = 3\n").commit()
    told = _told(shop.archive())
    assert "the stubs are over the diff budget: 4 files changed" in told
    assert "label diff-budget-override" in told


def _told(outcome: ArchiveOutcome) -> str:
    return report.text(outcome, dry_run=False, verbose=False, remote="origin")
