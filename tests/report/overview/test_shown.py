"""The overview in each format: what is seen first, what is folded, and nothing that is obeyed."""

from __future__ import annotations

import json

import pytest

from rlm_ci.report.findings import Report, Severity
from rlm_ci.report.overview.changes import (
    Area,
    Caller,
    DependencyChange,
    Dependent,
    Migration,
    NameChange,
    Overview,
    PermissionChange,
)
from rlm_ci.report.overview.shown import callers_told
from rlm_ci.report.render import render
from rlm_ci.resources import loader
from testing import reports
from testing.markup_judges import LINKED, OURS, Page, github_commands, github_html, is_ours

EVIL = "a|b`</details><script>alert(1)</script>\n::error::x ##[group] @all <!-- rlm-ci:report -->"


def report(overview: Overview) -> Report:
    return Report(reports.subject(), Severity.HIGH, (), overview=overview)


def large(text: str = "send") -> Overview:
    callers = tuple(Caller(text, number + 1, text) for number in range(12))
    names = tuple(
        NameChange("removed", f"{text}{number}", "method", text, 3, (text,), exported=True,
                   breaking=True, callers=callers, caller_count=40, outside=20)
        for number in range(300)
    )  # fmt: skip
    areas = tuple(Area(f"{text}/{number}", 1, 2, 3) for number in range(300))
    return Overview(
        names, {"removed": 300, "breaking": 300},
        tuple(DependencyChange("added", f"{text}{number}", text, text, "", text, group=text,
                               script=True) for number in range(300)),
        tuple(PermissionChange(text, text, text, "", text) for _ in range(90)),
        tuple(Migration(text, "changed") for _ in range(90)),
        areas,
        tuple(Dependent(f"{text}{number}", text, number + 1) for number in range(12)),
        (text,),
    )  # fmt: skip


def test_at_most_twelve_lines_come_before_the_fold() -> None:
    text = render(report(large()), "markdown")
    begins = text.index("### What changes")
    fold = text.index("<details>", begins)
    assert len([line for line in text[begins:fold].splitlines() if line]) <= 12
    assert "- **breaking** `send0` (`send`) is removed; 40 callers, 20 not in this change" in text
    assert "300 files; 300 public names: 300 removed; 300 breaking" in text
    assert len(text) < 65_536


def test_json_carries_all_of_it_and_is_valid() -> None:
    made = report(large("\udcff`"))
    record = json.loads(render(made, "json"))
    loader.validate(record, "report.schema.json", "test")
    again = Report.from_dict(record)
    assert again.overview is not None
    assert len(again.overview.names) == 300
    assert again.overview == Overview.from_dict(record["overview"])
    assert "overview" not in json.loads(render(made.replace(overview=None), "json"))


@pytest.mark.parametrize("name", ["markdown", "summary"])
def test_hostile_texts_stay_texts_in_markdown(name: str) -> None:
    text = render(report(large(EVIL)), name)
    page = github_html(text)
    assert page.comments == [" rlm-ci:report "]
    assert not page.stray
    assert {element.tag for element in page.root.all()} <= OURS
    for link in page.root.all("a"):
        assert is_ours(link.attributes["href"], "acme/rocket")
    for node in page.root.prose():
        assert not LINKED.search(node), node
    assert not github_commands(text)
    rows = page.root.all("table")[0].all("tr")
    assert {len(row.all("td")) for row in rows[1:]} == {3}


def test_hostile_texts_stay_texts_on_the_page() -> None:
    page = Page(render(report(large(EVIL)), "html"))
    assert not page.stray
    assert not page.comments
    assert not {one.tag for one in page.root.all()} & {"script", "svg", "img"}
    assert len(page.root.all("tr")) > 300


@pytest.mark.parametrize(
    ("count", "outside", "by_name", "expected"),
    [
        (None, 0, False, ""),
        (0, 0, True, "no callers"),
        (1, 0, False, "1 caller, in this change"),
        (1, 1, False, "1 caller, not in this change"),
        (4, 2, False, "4 callers, 2 not in this change"),
        (4, 4, True, "up to 4 callers, none in this change"),
        (4, 0, False, "4 callers, all in this change"),
    ],
)
def test_callers_in_words(count: int | None, outside: int, by_name: bool, expected: str) -> None:
    one = NameChange(
        "removed", "f", "function", "a.py", 1, caller_count=count, outside=outside, by_name=by_name
    )
    assert callers_told(one) == expected
