"""Who imports the changed files, drawn on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.report.findings import Report, Severity
from rlm_ci.report.overview.changes import Area, DependencyChange, Dependent, Overview
from rlm_ci.report.overview.shown import drawing
from rlm_ci.report.render import render
from testing import reports
from testing.browser import chromium
from testing.markup_judges import Page

if TYPE_CHECKING:
    from pathlib import Path

FOUND = (
    Dependent("shop/till.py", "shop/price.py", 3),
    Dependent("shop/till.py", "shop/cart.py", 1),
    Dependent("shop/cart.py", "shop/price.py", 1),
    Dependent("</text><script>alert(1)</script>", "shop/cart.py", 1),
)


def page_of(*found: Dependent) -> str:
    overview = Overview(areas=(Area("shop", 1, 2, 3),), dependents=found)
    return render(Report(reports.subject(), Severity.HIGH, (), overview=overview), "html")


def test_importers_stand_left_and_changed_files_right() -> None:
    made = drawing(FOUND, str)
    sides: dict[int, list[str]] = {}
    for box in made["boxes"]:
        sides.setdefault(box["x"], []).append(box["text"])
    left, right = sides.values()
    assert right == ["shop/price.py", "shop/cart.py"]
    assert left == ["shop/cart.py", "shop/till.py", "</text><script>alert(1)</script>"]
    assert [box["changed"] for box in made["boxes"]] == [True, False, False, True, True]
    assert len(made["lines"]) == 4
    assert all(0 <= box["y"] <= made["height"] - made["box"]["height"] for box in made["boxes"])
    assert all(box["x"] + made["box"]["width"] <= made["width"] for box in made["boxes"])


def test_a_long_path_keeps_its_end() -> None:
    made = drawing((Dependent("a/" * 60 + "b.py", "c.py"),), str)
    assert made["boxes"][0]["text"].startswith("…")
    assert made["boxes"][0]["text"].endswith("/b.py")


def test_the_page_draws_it_and_has_it_as_a_table_too() -> None:
    page = Page(page_of(*FOUND))
    assert not page.root.all("script")
    (picture,) = (one for one in page.root.all("svg") if one.attributes.get("role") == "img")
    assert "shop/till.py" in picture.text()
    rows = [[cell.text() for cell in row.all("th", "td")] for row in page.root.all("tr")]
    assert ["Changed", "Imported by"] in rows
    assert ["shop/price.py", "shop/till.py, shop/cart.py"] in rows
    assert not Page(page_of()).root.all("svg")


@pytest.mark.full
@pytest.mark.parametrize(("width", "shown"), [(1280, "svg"), (500, "table")])
def test_a_browser_shows_what_fits(tmp_path: Path, width: int, shown: str) -> None:
    wide = tuple(Dependent(f"{'W' * 40}/{number}.py", "shop/till.py") for number in range(12))
    source = page_of(*wide).replace("<details", "<details open")
    script = """<script>
    const seen = what => document.querySelector(`.importers ${what}`).getClientRects().length > 0
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth
    document.body.textContent = `svg ${seen("svg")} table ${seen("table")} over ${over}`
    </script></body>"""
    source = source.replace("default-src 'none'", "default-src 'unsafe-inline'")
    (tmp_path / "page.html").write_text(source.replace("</body>", script), "utf-8")
    url = (tmp_path / "page.html").as_uri()
    found = chromium(url, tmp_path, "--dump-dom", f"--window-size={width},900")
    is_svg = "true" if shown == "svg" else "false"
    is_table = "true" if shown == "table" else "false"
    assert f"svg {is_svg} table {is_table} over 0" in found


@pytest.mark.full
@pytest.mark.parametrize("width", [560, 840, 1280])
def test_long_names_of_packages_fit_the_page(tmp_path: Path, width: int) -> None:
    long = DependencyChange(
        "changed", "x" * 100, "npm", "y" * 100, "1" * 100, "2" * 100, script=True
    )
    overview = Overview(areas=(Area("shop", 1, 2, 3),), dependencies=(long,))
    source = render(Report(reports.subject(), Severity.HIGH, (), overview=overview), "html")
    script = """<script>
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth
    document.body.textContent = `over ${over}`
    </script></body>"""
    source = source.replace("<details", "<details open")
    source = source.replace("default-src 'none'", "default-src 'unsafe-inline'")
    (tmp_path / "page.html").write_text(source.replace("</body>", script), "utf-8")
    url = (tmp_path / "page.html").as_uri()
    assert "over 0" in chromium(url, tmp_path, "--dump-dom", f"--window-size={width},900")
