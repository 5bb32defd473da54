"""Every surface, whole, as a reader gets it."""

from __future__ import annotations

import pytest

from rlm_ci.report import render as surfaces
from rlm_ci.report.rules import PAGE
from testing import golden_reports, reports


@pytest.mark.parametrize("name", golden_reports.FILES)
def test_surface_is_as_recorded(name: str) -> None:
    expected = (golden_reports.CASES / name).read_text("utf-8")
    assert golden_reports.render(name) == expected, (
        "if that was meant, see testing/golden_reports.py"
    )


def test_every_case_is_used() -> None:
    assert {path.name for path in golden_reports.CASES.iterdir()} == set(golden_reports.FILES)


@pytest.mark.parametrize("surface", ["markdown", "summary", "html", "sarif"])
def test_rules_link_to_their_page_where_a_surface_has_links(surface: str) -> None:
    """Views of runs of earlier versions have none: they are made again as they were."""
    assert f"{PAGE}#diff-budgetfiles" in surfaces.render(reports.typical(), surface)
    before = surfaces.RenderOptions(rule_pages=False)
    assert PAGE not in surfaces.render(reports.typical(), surface, before)
