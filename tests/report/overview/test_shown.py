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
    ModelWords,
    NameChange,
    Overview,
    PermissionChange,
    SaidLines,
    SaidSentence,
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
    lines = (SaidLines(text, 3, 4, "new", text), SaidLines(text, 7, 7, "old", text))
    said = SaidSentence(f"It sends {text}.", lines, (text, text))
    return Overview(
        names, {"removed": 300, "breaking": 300},
        tuple(DependencyChange("added", f"{text}{number}", text, text, "", text, group=text,
                               script=True) for number in range(300)),
        tuple(PermissionChange(text, text, text, "", text) for _ in range(90)),
        tuple(Migration(text, "changed") for _ in range(90)),
        areas,
        tuple(Dependent(f"{text}{number}", text, number + 1) for number in range(12)),
        (text,),
        ModelWords(text, (said, said), (said,) * 6, 2),
    )  # fmt: skip


def test_at_most_twelve_lines_come_before_the_fold() -> None:
    text = render(report(large()), "markdown")
    begins = text.index("### What changes")
    fold = text.index("<details>", begins)
    assert len([line for line in text[begins:fold].splitlines() if line]) <= 12
    assert "- **breaking** `send0` (`send`) is removed; 40 callers, 20 not in this change" in text
    assert "300 files; 300 public names: 300 removed; 300 breaking" in text
    assert text.index("The model `send` says: It sends send. ([`send:3-4`](") < fold
    assert text.count("\n- `send`, `send`: It sends send. ") == 6  # no room for them above
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


SAID = SaidSentence("It waits.", (SaidLines("a.py", 3, 3, "old", "x = 1"),), ("a.py",))
PLACE = "([`a.py:3`](https://github.com/acme/rocket/blob/{base}/a.py#L3) at the base)"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            ModelWords("m", (SAID,), (SAID,), 1),
            (
                "The model `m` says: It waits. PLACE (1 sentence dropped: its quote was not "
                "found)\n\n- `a.py`: It waits. PLACE\n\n"
            ),
        ),
        (
            ModelWords("m", (SAID,), (SAID.replace(since="a" * 40),)),
            (
                "The model `m` says: It waits. PLACE (1 sentence carried from `aaaaaaaaaaaa`, as "
                "what it rests on is unchanged)\n\n- `a.py`: It waits. PLACE\n\n"
            ),
        ),
        (ModelWords("m", (), (SAID,)), "The model `m` says:\n\n- `a.py`: It waits. PLACE\n\n"),
        (
            ModelWords("m", dropped=2),
            "No words of a model: 2 sentences dropped: their quotes were not found\n\n",
        ),
        (ModelWords("m"), "No words of a model: it said nothing\n\n"),
        (ModelWords("", note="no <b>"), "No words of a model: no \\<b\\>\n\n"),
    ],
)
def test_the_words_of_a_model_stand_alone_and_behind_the_facts(
    said: ModelWords, expected: str
) -> None:
    subject = reports.subject()
    words = expected.replace("PLACE", PLACE.format(base=subject.merge_base or subject.base))
    alone = render(report(Overview(said=said)), "markdown")
    assert f"### What changes\n\n{words}" in alone
    facts = Overview(migrations=(Migration("m.sql", "added"),), areas=(Area("", 1, 2, 3),))
    both = render(report(facts.replace(said=said)), "markdown")
    assert f"\n\n1 file\n\n- migrations: `m.sql`\n\n{words}<details>" in both
    page = render(report(Overview(said=said)), "html")
    assert ("No words of a model: it said nothing</p>" in page) == ("said nothing" in words)
    assert '<span class="note">()</span>' not in page


def test_long_words_of_a_model_leave_room_for_the_report() -> None:
    lines = (SaidLines("p" * 4_000, 3, 4, "new", "q"),) * 4
    said = SaidSentence("w" * 400, lines, ("p" * 4_000,) * 8)
    made = report(Overview(said=ModelWords("m" * 4_000, (said, said), (said,) * 6)))
    assert len(render(made, "markdown")) < 65_536


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
    assert not {one.tag for one in page.root.all()} & {"script", "img"}
    assert len(page.root.all("svg")) == 1 + 12 + 1  # the picture, importers, the changed file
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
