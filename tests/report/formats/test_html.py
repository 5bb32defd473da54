"""The page: the whole report, and nothing that reaches out or runs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from rlm_ci.report import wording
from rlm_ci.report.findings import Report
from rlm_ci.report.render import render
from rlm_ci.resources import loader
from rlm_ci.runs.checksums import VIEW
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable
from testing import reports
from testing.markup_judges import Page, is_ours

#: Attributes by which a page can load, run or lead somewhere.
REACHING = {
    "src",
    "srcset",
    "action",
    "formaction",
    "data",
    "poster",
    "background",
    "ping",
    "style",
}


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(report=reports.reports())
def test_hostile_texts_stay_texts(report: Report) -> None:
    source = render(report, "html")
    page = Page(source)
    assert not page.stray
    assert not page.comments
    tags = {element.tag for element in page.root.all()}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "form", "svg", "base"}
    for element in page.root.all():
        assert not set(element.attributes) & REACHING
        assert not [name for name in element.attributes if name.startswith("on")]
    for link in page.root.all("a"):
        target = link.attributes["href"]
        assert target == VIEW or is_ours(target, "acme/rocket")
    for line in source.split("\n"):
        assert printable(line.replace("\t", "")) == line.replace("\t", "")
    assert page.root.all("h1")[0].text().endswith(wording.headline(report))
    messages = [
        element.text() for element in page.root.all("p") if "message" in element.attributes.values()
    ]
    assert len(messages) == len(report.findings)
    expected = [
        "".join(piece for _, piece in neutralise.segments(neutralise.one_line(finding.message)))
        for finding in report.findings
    ]
    assert sorted(messages) == sorted(expected)


@pytest.mark.full
def test_nothing_is_shed() -> None:
    page = Page(render(reports.many(2000), "html"))
    assert len(page.root.all("article")) == 2000
    assert len(page.root.all("table")) == 2001  # the checks, and each finding's lines
    assert page.root.all("article")[1999].text().count("of it") == 20


def test_the_page_forbids_every_request() -> None:
    page = Page(render(reports.typical(), "html"))
    policy = next(
        element.attributes["content"]
        for element in page.root.all("meta")
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "style-src", "base-uri", "form-action"}
    assert "url(" not in page.root.all("style")[0].text()
    assert "@import" not in page.root.all("style")[0].text()


def test_light_dark_print_and_structure() -> None:
    page = Page(render(reports.typical(), "html"))
    style = page.root.all("style")[0].text()
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert page.root.all("html")[0].attributes["lang"] == "en"
    assert page.root.all("title")[0].text() == "3 findings fail this change · rlm-ci"
    assert len(page.root.all("h1")) == 1
    assert all(cell.attributes.get("scope") for cell in page.root.all("th"))
    assert "Regenerated from the new OpenAPI description" in page.root.text()


@pytest.mark.full
@pytest.mark.parametrize("own", ['{% extends "shipped/report.html.j2" %}', None])
def test_a_user_template_has_room_for_the_largest_page(own: str | None) -> None:
    report = reports.many(5_000)
    source = own or loader.read_template("report.html.j2")
    assert render(report, "html", templates={"report.html.j2": source}) == render(report, "html")


@pytest.mark.full
def test_what_no_browser_would_open_is_counted_and_said() -> None:
    report = reports.many(6000)
    source = render(report, "html")
    page = Page(source)
    assert len(page.root.all("article")) == 5000
    assert "no room on this page for 1,000 of 6,000 findings" in source
    comment = render(report, "markdown")
    assert "All of it is in `report.json` of this run." in comment
    assert "`report.html`" in render(reports.many(2000), "markdown")
