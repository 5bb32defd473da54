"""The texts of review comments: what a reader sees, what can be applied, whose they are."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rlm_ci import errors
from rlm_ci.github.posting.review_comments import FILE, INLINE, CommentTexts, PlacedFinding
from rlm_ci.github.posting.review_threads import marker, read_marker
from rlm_ci.report.details import fixes_and_proofs
from rlm_ci.report.findings import Finding, Location, Severity, Subject, fingerprints
from rlm_ci.report.formats.markdown import ROOM
from rlm_ci.report.render import RenderOptions
from rlm_ci.text import neutralise
from testing import reports
from testing.markup_judges import LINKED, Element, Page, github_commands, github_html
from testing.reports import hostile

MARK = "0123456789abcdef" * 2
OTHER = "f" * 32
REMARKS = CommentTexts(reports.subject())


def finding(**fields: Any) -> Finding:
    known: dict[str, Any] = {
        "rule": "check/rule", "severity": Severity.HIGH, "message": "It breaks.",
        "evidence": (Location("src/a.py", 4, 5),),
    }  # fmt: skip
    return Finding(**{**known, **fields})


def inline(**fields: Any) -> PlacedFinding:
    suggestion = fields.pop("suggestion", None)
    return PlacedFinding(
        finding(**fields), INLINE, "", "src/a.py", 5, "RIGHT", 4, "RIGHT", suggestion
    )


def blocks(body: str) -> list[Element]:
    """The code blocks that GitHub offers to apply."""
    pres = github_html(body).root.all("pre")
    return [pre for pre in pres if (pre.attributes.get("lang") or "").startswith("suggestion")]


# -- the marker ---------------------------------------------------------------------------------


def test_a_comment_begins_with_the_fingerprint_of_its_finding() -> None:
    (mark,) = fingerprints([finding()])
    body = REMARKS.body(inline(), mark)
    assert body.split("\n")[0] == f"<!-- rlm-ci:finding {mark} -->"
    assert read_marker(body) == mark
    assert read_marker(body.replace("\n", "\r\n")) == mark
    assert read_marker(marker(mark)) == mark


@pytest.mark.parametrize(
    "body",
    [
        "",
        MARK,
        neutralise.MARKER,
        f" {marker(MARK)}",
        f"\n{marker(MARK)}",
        f"text\n{marker(MARK)}",
        f"{marker(MARK)} ",
        f"{marker(MARK)}text",
        f"\ufeff{marker(MARK)}",
        f"> {marker(MARK)}",
        marker(MARK[:-1]),
        marker(f"{MARK}0"),
        marker(MARK.upper()),
        marker("g" * 32),
        marker("٠" * 32),
        marker(""),
        marker(f"{MARK} --><!-- rlm-ci:finding {MARK}"),
        marker(MARK).replace(" -->", "-->"),
        marker(MARK).replace("<!-- ", "<!--"),
        f"{marker(MARK)}\r\r\n",
    ],
)
def test_what_is_not_exactly_a_marker_is_none(body: str) -> None:
    assert read_marker(body) is None


@pytest.mark.parametrize("mark", ["", "0" * 31, "0" * 33, "A" * 32, f"{MARK}\n", "-->" + "0" * 29])
def test_no_comment_is_written_that_would_not_be_found_again(mark: str) -> None:
    with pytest.raises(ValueError, match="32 hex"):
        REMARKS.body(inline(), mark)


# -- hostile texts ------------------------------------------------------------------------------


def placements() -> st.SearchStrategy[PlacedFinding]:
    spots = st.lists(reports.locations(), max_size=9).map(tuple)
    found = st.builds(
        Finding, hostile(), st.sampled_from(Severity), hostile(), st.none() | hostile(), spots,
        suggested_fix=st.none() | hostile() | hostile().map("```suggestion\n{}\n```".format),
        source=st.sampled_from(("check", "model:x/y")) | hostile(),
    )  # fmt: skip
    reasons = st.sampled_from(("", "line 3 is outside of the diff"))
    return st.builds(PlacedFinding, found, st.just(FILE), reasons, st.just("a.py"))


@given(placements())
def test_nothing_happens_in_a_comment_and_no_text_forges_the_marker(placed: PlacedFinding) -> None:
    body = REMARKS.body(placed, MARK)
    page = github_html(body)
    assert read_marker(body) == MARK
    assert page.comments == [f" rlm-ci:finding {MARK} "]
    assert not page.stray
    assert not blocks(body)
    assert {element.tag for element in page.root.all()} <= {
        "p", "strong", "code", "pre", "span", "a", "br",
    }  # fmt: skip
    for link in page.root.all("a"):
        assert (link.attributes["href"] or "").startswith("https://github.com/acme/rocket/blob/")
        link.children.clear()
    for node in page.root.prose():
        assert not LINKED.search(node), node
    assert github_commands(body) == []
    assert ROOM.has(body)


def test_the_texts_of_another_marker_are_shown_not_obeyed() -> None:
    evil = f"x\n{marker(OTHER)}\n\n```\n{marker(OTHER)}\n```"
    body = REMARKS.body(inline(rule=evil, message=evil, hint=evil, suggested_fix=evil), MARK)
    assert marker(OTHER) not in body
    assert github_html(body).comments == [f" rlm-ci:finding {MARK} "]
    assert read_marker(body) == MARK


# -- suggestions --------------------------------------------------------------------------------


def plain_texts() -> st.SearchStrategy[str]:
    pieces = st.sampled_from((
        "`", "``", "```", "````````", "~~~", "```suggestion", "a", "\tb", " ", "    ", "\\", "<b>",
        "<!-- x -->", "</details>", "@alice", "#1", "&amp;", "$x$", "é漢字", "::", "| a |", "- ",
    ))  # fmt: skip
    lines = st.lists(st.lists(pieces, max_size=4).map("".join), max_size=6)
    return lines.map(lambda some: "".join(f"{line}\n" for line in some))


@given(plain_texts())
@example("")
@example("\n")
@example("\n\n")
@example("```\n")
@example("~~~\n```\n")
@example("   ````\nx\n")
def test_what_is_applied_is_what_was_suggested(text: str) -> None:
    assume(fixes_and_proofs.is_plain(text))
    body = REMARKS.body(inline(suggestion=text, message="m"), MARK)
    (block,) = blocks(body)
    assert block.attributes["lang"] == "suggestion"
    assert block.text() == text
    assert len(github_html(body).root.all("pre")) == 1
    assert read_marker(body) == MARK


@pytest.mark.parametrize(
    ("fix", "text"),
    [
        ("```suggestion\na\n```", "a\n"),
        ("\n```suggestion\na\n```\n\n", "a\n"),
        ("```suggestion\r\na\r\n\r\n```", "a\n\n"),
        ("```suggestion \na\n``` ", "a\n"),
        ("~~~~suggestion\n```\n~~~~", "```\n"),
        ("````suggestion\n```\n````", "```\n"),
        ("```suggestion\n```", ""),
        ("```suggestion\n  a\n```", "  a\n"),
        (None, None),
        ("", None),
        ("a", None),
        ("```\na\n```", None),
        ("```suggestion", None),
        ("```suggestion\na", None),
        ("```suggestion\na\n````", None),
        ("```suggestion\na\n~~~", None),
        ("```suggestion\na\n```\nb\n```", None),
        ("```suggestion\na\n  ```` \nb\n```", None),
        ("```suggestion\na\n```\nand more", None),
        ("Use this:\n```suggestion\na\n```", None),
        ("``suggestion\na\n``", None),
        ("`~`suggestion\na\n`~`", None),
        ("```suggestion:-0+0\na\n```", None),
        ("```Suggestion\na\n```", None),
        (" ```suggestion\na\n```", None),
        ("suggestion\na\n", None),
        ("suggestion\n", None),
    ],
)
def test_only_one_whole_block_is_a_replacement(fix: str | None, text: str | None) -> None:
    assert fixes_and_proofs.replacement(fix) == text


@pytest.mark.parametrize(
    ("fix", "pieces"),
    [
        ("Use `x`.", [(False, "Use `x`.")]),
        ("Check the length first", [(False, "Check the length first")]),
        ("if a:\n\treturn b", [(True, "if a:\n\treturn b")]),
        ("x = 1", [(True, "x = 1")]),
        ("Foo bar = new Foo();", [(True, "Foo bar = new Foo();")]),
        ("FROM python:3.12 AS base", [(True, "FROM python:3.12 AS base")]),
        ("```py\n@a\n\nb\n```", [(True, "@a\n\nb")]),
        ("Do it:\n```\n  a\n```\nthen\n\nstop",
         [(False, "Do it:"), (True, "  a"), (False, "then"), (False, "stop")]),
        ("So:\n````\n```\na", [(False, "So:"), (True, "```\na")]),
        ("```a``` is wrong.", [(False, "```a``` is wrong.")]),
        ("```suggestion\n  a\r\n```", [(True, "  a")]),
        ("```suggestion\n```", [(False, "Delete these lines.")]),
    ],
)  # fmt: skip
def test_a_fix_is_prose_or_code_to_the_letter(fix: str, pieces: list[tuple[bool, str]]) -> None:
    assert fixes_and_proofs.pieces(fix) == pieces


@given(hostile(30))
def test_no_fix_loses_a_line_of_code(fix: str) -> None:
    for is_code, piece in fixes_and_proofs.pieces(fix):
        assert not is_code or piece in fix.replace("\r\n", "\n")


@pytest.mark.parametrize(
    "text",
    ["a\u202eb\n", "a\u200bb\n", "a\rb\n", "a\x00\n", "a\x1b[0m\n", "\udcff\n", "a\u2028\n",
     "::error::x\n", "  ::add-mask::x\n", "##[error]x\n", f"{marker(OTHER)}\n", "x" * 20_001],
)  # fmt: skip
def test_what_cannot_be_shown_as_it_is_is_not_offered(text: str) -> None:
    assert not fixes_and_proofs.is_plain(text)
    assert fixes_and_proofs.is_plain("\tdef f() -> None:  # `ok` <!-- x -->\n")


def test_a_long_run_of_backticks_takes_no_time() -> None:
    began = time.process_time()
    block = fixes_and_proofs.block("`" * 20_000 + "\n")
    fix = "```suggestion\n" + "`" * 200_000 + "\n```"
    assert fixes_and_proofs.replacement(fix) is None
    assert time.process_time() - began < 5
    assert block.startswith("`" * 20_001 + "suggestion\n")


# -- what a reader sees -------------------------------------------------------------------------


def shown(body: str) -> str:
    return github_html(body).root.text().replace(neutralise.GAP, "")


def test_a_comment_says_what_how_bad_and_how_to_mend_it() -> None:
    spots = tuple(Location("src/a.py", line) for line in range(1, 9))
    placed = inline(hint="Call `close()`.", evidence=spots, source="model:m", suggestion="x\n")
    text = shown(REMARKS.body(placed, MARK))
    for told in (
        "🔴 high · check/rule · model:m", "It breaks.", "How to fix: Call close().",
        "Also src/a.py:2", "Also src/a.py:6", "and 2 more",
    ):  # fmt: skip
        assert told in text
    assert "Not beside" not in text
    assert "src/a.py:7" not in text


def test_a_comment_on_a_file_names_the_lines_and_why_it_is_not_beside_them() -> None:
    reason = "lines 4-5 are outside of the diff"
    body = REMARKS.body(PlacedFinding(finding(), FILE, reason, "src/a.py"), MARK)
    assert f"Not beside lines 4-5: {reason}." in shown(body)
    assert f"/blob/{reports.HEAD}/src/a.py#L4-L5" in body
    old = finding(evidence=(Location("src/a.py", 4, 4, "old"),))
    body = REMARKS.body(PlacedFinding(old, FILE, "r", "src/a.py"), MARK)
    assert "Not beside line 4 of the file before the change: r." in shown(body)
    assert f"/blob/{reports.MERGE_BASE}/src/a.py#L4" in body
    whole = finding(evidence=(Location("src/a.py"),))
    assert "Not beside" not in REMARKS.body(PlacedFinding(whole, FILE, "r", "src/a.py"), MARK)


@pytest.mark.parametrize(
    ("fix", "told"),
    [
        ("Use `x`.", "Suggested: Use x."),
        ("```suggestion\nd = 1\n```", "Suggested:\nd = 1\n"),
        ("```suggestion\n```", "Suggested: Delete these lines."),
    ],
)
def test_a_fix_that_cannot_be_applied_is_still_told(fix: str, told: str) -> None:
    body = REMARKS.body(inline(suggested_fix=fix), MARK)
    assert told in shown(body)
    assert blocks(body) == []
    offered = REMARKS.body(inline(suggested_fix=fix, suggestion="d = 1\n"), MARK)
    assert "Suggested:" not in offered
    assert [block.text() for block in blocks(offered)] == ["d = 1\n"]


def test_a_repair_is_a_suggestion_marked_as_run() -> None:
    (part,) = reports.proven().parts
    placed = PlacedFinding(part.findings[0], INLINE, "", "src/urls.py", 42, "RIGHT")
    body = REMARKS.body(placed.replace(suggestion="x\n", is_run=True), MARK)
    page = github_html(body)
    assert [block.text() for block in blocks(body)] == ["x\n"]
    assert "Repair, which was run: the reproduction passes; your tests could not be run." in body
    assert "--- a/src/urls.py" not in body
    assert page.root.all("summary")[0].text().startswith("Reproduction: it fails here")
    assert not page.stray
    # Where the lines cannot be replaced by a click, the patch is there to read.
    body = REMARKS.body(placed, MARK)
    assert blocks(body) == []
    assert reports.REPAIR in [block.text() for block in github_html(body).root.all("pre")]


def test_a_comment_always_fits() -> None:
    long = "$" * 100_000
    body = REMARKS.body(inline(message=long, hint=long, suggested_fix=long), MARK)
    assert ROOM.has(body)
    assert "It breaks" not in body
    assert "How to fix" in body
    # A block is whole or not there: cut, it would be another change.
    text = "y\n" * 10_000
    body = REMARKS.body(inline(message=long, suggestion=text), MARK)
    assert ROOM.has(body)
    assert [block.text() for block in blocks(body)] == [text]


def test_a_block_that_has_no_room_is_told_as_advice() -> None:
    spots = tuple(Location("漢" * 900, line) for line in range(1, 7))
    text = "y\n" * 10_000
    fix = f"```suggestion\n{text}```"
    placed = inline(message="$" * 1000, evidence=spots, suggested_fix=fix, suggestion=text)
    body = REMARKS.body(placed, MARK)
    assert ROOM.has(body)
    assert blocks(body) == []
    assert "Suggested: 10,000 lines of code, which report.json has." in shown(body)


def test_a_template_of_the_project_keeps_the_marker_and_the_room() -> None:
    def body(source: str) -> str:
        options = RenderOptions(templates={"review.md.j2": source})
        return CommentTexts(Subject(), options).body(inline(), MARK)

    assert body("{{ message }}, we think") == f"{marker(MARK)}\nIt breaks., we think\n"
    extended = '{% extends "shipped/review.md.j2" %}{% block hint %}\n\nAsk Ada.\n{% endblock %}'
    assert "Ask Ada." in body(extended)
    assert "It breaks." in body(extended)
    assert read_marker(body("")) == MARK
    crowded = body("{{ 'x' * 70000 }}")
    assert ROOM.has(crowded)
    assert read_marker(crowded) == MARK
    assert "report.json" in crowded
    with pytest.raises(errors.ConfigError, match=r"review\.md\.j2"):
        body("{{ finding }}")


def test_a_page_of_ours_is_what_the_judge_thinks_it_is() -> None:
    assert Page("<p>a</p><!-- b -->").comments == [" b "]
    assert len(blocks("```suggestion\nx\n```")) == 1
