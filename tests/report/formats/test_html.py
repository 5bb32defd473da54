"""The page: the whole report, and nothing that reaches out or runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from rlm_ci.report import wording
from rlm_ci.report.findings import Finding, Location, Part, Report, Severity, Usage
from rlm_ci.report.render import render
from rlm_ci.resources import loader
from rlm_ci.runs.checksums import VIEW
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable
from testing import reports
from testing.browser import chromium
from testing.markup_judges import Page, github_html, is_ours

if TYPE_CHECKING:
    from pathlib import Path

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
    refuted = [one.finding for one in wording.refuted_high(report)[: wording.ARGUED_SHOWN]]
    expected = [
        "".join(piece for _, piece in neutralise.segments(neutralise.one_line(finding.message)))
        for finding in (*report.findings, *refuted)
    ]
    assert sorted(messages) == sorted(expected)


def test_it_says_what_it_is_of_and_sums_up_by_rule() -> None:
    page = Page(render(reports.typical(), "html"))
    about = next(one for one in page.root.all("p") if one.attributes.get("class") == "about")
    assert about.text() == (
        "acme/rocket · pull request #12 · Rework the queue · 2026-11-20 12:45 UTC"
    )
    shown = {
        label.text(): label.all("input")[0].attributes["id"] for label in page.root.all("label")
    }
    assert shown == {
        "all 5": "show-all", "high 3": "show-high", "medium 1": "show-medium",
        "info 1": "show-info", "diff-budget/files": "show-0", "diff-budget/lines": "show-1",
        "doc-archive/dangling": "show-2", "doc-archive/open-items": "show-3",
        "policy/edited": "show-4",
    }  # fmt: skip
    assert not Page(render(reports.clean(), "html")).root.all("label")


def test_without_a_run_it_has_the_time_at_which_it_was_made() -> None:
    now = "2026-11-24 14:12 UTC"
    alone = reports.typical().replace(run_id=None)
    assert f"<time>{now}</time>" in render(alone, "html", time=now)
    assert now not in render(reports.typical(), "html", time=now)
    assert "<time>" not in render(alone, "html")


def test_quoted_code_loses_what_all_of_it_is_indented_by() -> None:
    page = Page(render(reports.proven(), "html"))
    quotes = [one for one in page.root.all("table") if one.attributes.get("class") == "quote"]
    assert quotes[0].all("td")[0].text() == 'return self.username + ":" + self.password'
    place = Location("a.py", 7, 9, "new", None, "    if a:\n\n\tb\n")
    odd = Finding("review/odd", Severity.HIGH, "m", evidence=(place,))
    report = Report(reports.subject(), Severity.HIGH, (Part("review", "s", {}, (odd,)),))
    cells = [one.text() for one in Page(render(report, "html")).root.all("td")]
    assert cells[-3:] == ["    if a:", "", "\tb"]


@pytest.mark.full
def test_a_browser_shows_only_what_is_picked(tmp_path: Path) -> None:
    """Without a script of its own: the one here reads what the style sheet shows."""
    source = re.sub(r"<meta http-equiv=[^>]*>", "", render(reports.typical(), "html"))
    script = """<script>
    const seen = what => [...document.querySelectorAll(what)].filter(one => one.offsetParent).length
    const told = [...document.querySelectorAll("input")].map(one => {
      one.checked = true
      return `${one.id} ${seen(".found .finding")} ${seen(".found .file")}`
    })
    document.body.textContent = told.join("; ")
    </script></body>"""
    (tmp_path / "page.html").write_text(source.replace("</body>", script), "utf-8")
    shown = chromium((tmp_path / "page.html").as_uri(), tmp_path, "--dump-dom")
    assert (
        "show-all 5 4; show-high 3 2; show-medium 1 1; show-info 1 1; show-0 1 1; show-1 1 1; "
        "show-2 1 1; show-3 1 1; show-4 1 1"
    ) in shown


@pytest.mark.full
def test_nothing_is_shed() -> None:
    page = Page(render(reports.many(2000), "html"))
    assert len(page.root.all("article")) == 2000
    assert len(page.root.all("table")) == 2001  # the checks, and each finding's lines
    assert page.root.all("article")[1999].text().count("of it") == 20


def test_a_verdict_is_not_said_twice_in_a_row() -> None:
    off = Part("guard", "off: no task id", {"enabled": False}, enabled=False)
    page = Page(render(reports.clean().replace(parts=(off,)), "html"))
    assert [cell.text() for cell in page.root.all("tr")[1].all("th", "td")] == [
        "guard", "– off", "no task id",
    ]  # fmt: skip


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
    assert page.root.all("title")[0].text() == (
        "3 findings fail this change · acme/rocket #12 · rlm-ci"
    )
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


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(), ""),
        (Usage(2, 0, 30, 4, 0.5), "2 calls, 34 tokens, $0.5000"),
        (
            Usage(2, 0, 3_000, 4, 0.5, cached_tokens=2_000, uncached_cost_usd=0.75),
            "2 calls, 3,004 tokens (2,000 of them cached), $0.5000 ($0.7500 without the cache)",
        ),
        (Usage(1, 0, 3_000, 4, cached_tokens=2_000), "1 call, 3,004 tokens (2,000 of them cached)"),
        (Usage(0, 0, 3, 4, None, ("calls",)), "7 tokens"),
    ],
)
def test_page_and_comment_say_what_the_models_cost_with_and_without_a_cache(
    usage: Usage, told: str
) -> None:
    report = Report(reports.subject(), Severity.HIGH, (), usage=usage)
    assert wording.spent(usage) == told
    rows = [one.text() for one in Page(render(report, "html")).root.all("dd")]
    assert (told in rows) is bool(told)
    footer = github_html(render(report, "markdown")).root.text().rpartition(" · fails at ")[2]
    assert (f" · models: {told}" in footer) is bool(told)
