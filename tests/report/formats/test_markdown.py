"""The comment and the job summary: what is in them, what cannot be, and that they fit."""

from __future__ import annotations

import cProfile
import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from markdown_it import MarkdownIt

from rlm_ci import errors
from rlm_ci.config.core_options import FORMATS
from rlm_ci.report import suppressions, wording
from rlm_ci.report.findings import Coverage, Finding, Location, Part, Report, Severity, Subject
from rlm_ci.report.formats import markdown, summary
from rlm_ci.report.render import RenderOptions, render
from rlm_ci.report.rules import address
from rlm_ci.report.view import ICONS
from rlm_ci.text import neutralise
from testing import reports
from testing.markup_judges import LINKED, OURS, github_html, is_ours

if TYPE_CHECKING:
    from typing import Any


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def check_shape(text: str, report: Report) -> None:
    """What holds for every comment, whatever came in."""
    assert text.startswith(f"{neutralise.MARKER}\n")
    assert text.count(neutralise.MARKER) == 1
    page = github_html(text)
    assert page.comments == [" rlm-ci:report "]
    assert {element.tag for element in page.root.all()} <= OURS
    assert not page.stray
    headline = page.root.all("h2")[0].text()
    assert wording.headline(report) in headline.replace(neutralise.GAP, "")
    for link in page.root.all("a"):
        assert list(link.attributes) == ["href"]
        assert is_ours(link.attributes["href"], "acme/rocket")
    for element in page.root.all("span"):
        assert element.text() in ("$", "@")
    for node in page.root.prose():
        assert not LINKED.search(node), node


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(report=reports.reports())
def test_hostile_texts_change_nothing(report: Report) -> None:
    text = render(report, "markdown")
    check_shape(text, report)
    assert units(text) < 65_536
    page = github_html(text)
    rows = page.root.all("tr")
    listed = wording.rows(report)
    assert len(rows) == (1 + len(listed) if listed else 0)
    for row, part in zip(rows[1:], listed, strict=True):
        cells = [cell.text() for cell in row.all("td")]
        assert cells[:2] == [ICONS[wording.state(part, report.fail_level)], part.id]
    check_shape(render(report, "summary"), report)


@pytest.mark.full
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)
@given(report=reports.reports())
def test_a_second_parser_agrees(report: Report) -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(render(report, "markdown"))
    inline = [child for token in tokens for child in token.children or ()]
    assert not [token for token in inline if token.type == "image"]
    targets = [str(token.attrGet("href")) for token in inline if token.type == "link_open"]
    assert all(is_ours(target, "acme/rocket") for target in targets)
    raw = [token.content for token in inline if token.type == "html_inline"]
    assert set(raw) <= {
        "<code>",
        "</code>",
        "<span>",
        "</span>",
        "<sub>",
        "</sub>",
        "<b>",
        "</b>",
        "<summary>",
        "</summary>",
    }


def test_verdict_first_then_the_table() -> None:
    lines = render(reports.typical(), "markdown").split("\n")
    assert lines[:2] == [neutralise.MARKER, "## ❌ 3 findings fail this change"]
    assert lines[3] == "2 findings less severe than high, 1 suppressed, receipts did not run"
    assert lines[5] == "| | Check | Result |"


def test_permalinks_go_to_the_side_that_has_the_lines() -> None:
    text = render(reports.typical(), "markdown")
    blob = "https://github.com/acme/rocket/blob"
    assert f"[lines 1-4]({blob}/{reports.HEAD}/docs/plans/queue.md?plain=1#L1-L4)" in text
    assert f"({blob}/{reports.MERGE_BASE}/docs/plans/cache.md?plain=1#L14-L15)" in text
    assert f"({blob}/{reports.HEAD}/src/generated/api%20client.py#L120-L340)" in text


@pytest.mark.parametrize(
    "subject",
    [
        Subject(),
        Subject("acme/rocket"),
        Subject("acme/rocket", head="main"),
        Subject(None, head=reports.HEAD),
        Subject("../..", head=reports.HEAD),
        Subject("acme/rocket/tree", head=reports.HEAD),
        Subject("acme/rocket", head=reports.HEAD, worktree=True),
    ],
)
def test_no_link_without_a_known_place(subject: Subject) -> None:
    report = reports.many(1).replace(subject=subject)
    text = render(report, "markdown")
    assert "docs/plan-00000.md" in text
    assert "/blob/" not in text


@pytest.mark.parametrize("path", ["a/../../b", "../b", "/etc/passwd", "a//b", "./a"])
def test_no_link_that_a_browser_would_resolve_elsewhere(path: str) -> None:
    finding = Finding("policy/edited", Severity.HIGH, "m", evidence=(Location(path, 1, 1),))
    report = Report(reports.subject(), Severity.HIGH, (Part("policy", "s", {}, (finding,)),))
    assert "/blob/" not in render(report, "markdown")


@pytest.mark.parametrize(
    ("hint", "target"),
    [
        ("F821 undefined-name: https://docs.astral.sh/ruff/rules/undefined-name",
         "https://docs.astral.sh/ruff/rules/undefined-name"),
        ("SC2086: https://www.shellcheck.net/wiki/SC2086; one more", "https://www.shellcheck.net/wiki/SC2086"),
        ("X1: https://docs.astral.sh.evil.example/a", None),
        ("X1: https://evil.example/https://docs.astral.sh/", None),
        ("[x](https://evil.example): https://docs.astral.sh/a)b", None),
    ],
)  # fmt: skip
def test_the_page_of_an_analyzers_rule_is_a_link_where_we_know_the_manual(
    hint: str, target: str | None
) -> None:
    finding = Finding("review/ruff-x", Severity.HIGH, "m", hint, source="analyzer:ruff")
    report = Report(reports.subject(), Severity.HIGH, (Part("review", "s", {}, (finding,)),))
    text = render(report, "markdown")
    links = [link.attributes["href"] for link in github_html(text).root.all("a")]
    assert [link for link in links if link and not is_ours(link, "acme/rocket")] == (
        [target] if target else []
    )
    assert (f'<a href="{target}" rel="noreferrer">' in render(report, "html")) == bool(target)


@pytest.mark.parametrize(
    "command",
    ["pip install 'rlm-ci[review] @ git+https://github.com/rlm-ci/rlm-ci@v0.2.0'",
     "uv pip install --upgrade --python '/opt/an env/python' 'rlm-ci[a,b] @ https://h/x.whl'",
     "pipx runpip rlm-ci install 'rlm-ci[review] @ git+https://h/r@c'",
     "/opt/v/bin/python -m pip install -e '/home/ada/my clone[review]'"],
)  # fmt: skip
def test_a_command_that_installs_can_be_copied(command: str) -> None:
    error = errors.UnavailableError("ruff is not installed", hint=f"{command}; or leave it out")
    report = reports.clean().replace(parts=(Part.from_error("review", error),))
    page = github_html(render(report, "markdown"))
    assert command in [one.text() for one in page.root.all("code")]


def test_another_server() -> None:
    text = render(reports.typical(), "markdown", server_url="https://git.acme.example:8443/hub/")
    assert "https://git.acme.example:8443/hub/acme/rocket/blob/" in text
    assert "github.com/acme/rocket/commit" not in text


@pytest.mark.parametrize(
    "url",
    ["", "github.com", "javascript:alert(1)", "https://", "https://a b", "https://u@h", "ftp://h",
     "https://h?q", "https://h/#f", "https://h/../x", "https://h:port", "https://h\n", "https://h)("],
)  # fmt: skip
def test_a_bad_server_is_a_config_error(url: str) -> None:
    with pytest.raises(errors.ConfigError, match="address of a GitHub server") as caught:
        render(reports.typical(), "markdown", server_url=url)
    assert "GITHUB_SERVER_URL" in caught.value.hint


def test_why_a_file_was_left_out_is_in_words() -> None:
    omitted = (("a.bin", "too_large: 3,000,000 bytes, more than 2,000,000"),)
    report = Report(reports.subject(), Severity.HIGH, (), coverage=Coverage(1, 1, omitted))
    assert "`a.bin`: too large: 3,000,000 bytes" in render(report, "markdown")


def test_what_was_not_looked_at_is_said() -> None:
    text = render(reports.typical(), "markdown")
    unseen = text.partition("Ignored, or not looked at")[2].partition("</details>")[0]
    for told in (
        "receipts`: not run: the branch receipts",
        "2 files with 5,120 lines ignored",
        "1 binary file",
        "assets/logo.png`: binary",
        "big.json`: over 1 MiB",
    ):
        assert told in unseen


def test_how_to_override_names_every_way() -> None:
    text = render(reports.typical(), "markdown").partition("How to override")[2]
    for way in (
        "DIFF_BUDGET_OVERRIDE_REASON", "diff-budget-override", "Diff budget override: <reason>",
        "[[suppressions]]", 'path = "/docs/plans/queue.md"',
    ):  # fmt: skip
        assert way in text
    assert "DELEGATION_GUARD_OVERRIDE_REASON" not in text
    assert "DELEGATION_GUARD_OVERRIDE_REASON" in render(reports.guarded(), "markdown")
    assert "How to override" not in render(reports.clean(), "markdown")


@pytest.mark.parametrize(
    "path",
    ["docs/a [x] *?.md", "docs/bad\udcff\udcfe.md", "docs/new\nline .md ", "#a", "!a",
     "docs/\u202eb\\.md", f"docs/{'long/' * 60}a.md", f"docs/{'b' * 250}.md", "c" * 200],
)  # fmt: skip
def test_what_to_paste_covers_the_finding(path: str) -> None:
    finding = Finding("policy/edited", Severity.HIGH, "m", evidence=(Location(path),))
    report = Report(reports.subject(), Severity.HIGH, (Part("policy", "s", {}, (finding,)),))
    text = render(report, "markdown").partition("```toml\n")[2].partition("```")[0]
    [entry] = tomllib.loads(text)["suppressions"]
    entries = ({"until": None, **entry},)
    marked = suppressions.apply(report.parts[0], entries, "rlm-ci.toml")
    assert marked.findings[0].suppression == "why this may stay"
    other = finding.replace(evidence=(Location(f"x{path}"),))
    apart = suppressions.apply(report.parts[0].replace(findings=(other,)), entries)
    assert apart.findings[0].suppression is None


def test_how_to_fix_counts_findings_that_there_is_no_room_for() -> None:
    report = reports.many(3000)
    [part] = report.parts
    last = Finding("policy/edited", Severity.HIGH, "m", "Ask the owner.")
    report = report.replace(parts=(part.replace(findings=(*part.findings, last)),))
    text = " ".join(render(report, "markdown").partition("### How to fix")[2].split())
    assert "(3,000 times): Restore the payload." in text
    assert f"[`policy/edited`]({address('policy/edited')}): Ask the owner." in text


def test_how_to_fix_leaves_the_room_to_the_findings() -> None:
    report = reports.many(3000)
    [part] = report.parts
    each = [one.replace(hint=f"Restore the payload {at}.") for at, one in enumerate(part.findings)]
    text = render(report.replace(parts=(part.replace(findings=tuple(each)),)), "markdown")
    assert text.count("The stub points to nothing.") >= 50
    assert "of 3,000 ways to fix them" in text


def test_suppressed_findings_carry_their_justification() -> None:
    text = render(reports.typical(), "markdown")
    folded = text.partition("1 suppressed finding</b>")[2].partition("</details>")[0]
    assert "911" in folded
    assert "Suppressed: Regenerated from the new OpenAPI description" in folded


@pytest.mark.sample(5)
@pytest.mark.parametrize("number", [1, 20, 21, 150, 300, 1000, 20_000])
def test_many_findings_fit_and_what_is_missing_is_counted(number: int) -> None:
    report = reports.many(number)
    text = render(report, "markdown")
    check_shape(text, report)
    assert units(text) < 65_536
    shown = text.count("The stub points to nothing.")
    assert shown >= min(number, 150)
    assert "Restore the payload." in text
    assert "How to override" in text
    if shown < number:
        assert f"{number - shown:,} of {number:,} findings" in text
        assert "report.json" in text
    else:
        assert "findings," not in text.partition("There was no room here")[2].partition("quoted")[0]


def test_quotes_go_before_findings_do() -> None:
    assert "line 11 of it" in render(reports.many(3), "markdown")
    text = render(reports.many(250), "markdown")
    assert "line 0 of it" not in text
    assert text.count("The stub points to nothing.") == 250
    assert "There was no room here for quoted lines." in text


@pytest.mark.full
def test_the_summary_has_more_room() -> None:
    report = reports.many(3000)
    text = render(report, "summary")
    assert text.count("The stub points to nothing.") == 3000
    assert len(text.encode()) <= summary.ROOM.limit
    assert len(render(reports.many(20_000), "summary").encode()) <= summary.ROOM.limit


@pytest.mark.full
def test_the_work_grows_with_the_findings_and_no_faster() -> None:
    # Calls, not seconds: they are the same on every machine, busy or not.
    def calls(report: Report, surface: str) -> int:
        profile = cProfile.Profile()
        profile.runcall(render, report, surface)
        return sum(entry.callcount for entry in profile.getstats())

    for surface in FORMATS:
        render(reports.many(1), surface)  # what is imported and compiled once is no part of it
        # From 3,000 on a summary leaves texts out, for which it is rendered more than once.
        some, many = (calls(reports.many(number), surface) for number in (3000, 12_000))
        assert many < 6 * some, surface  # a square would be 16
        assert many < 12_000 * 1000, surface


def test_of_too_many_checks_some_are_shown_and_the_rest_is_counted() -> None:
    """A stranger's report can have 150,000 of them: to write each took half a minute."""
    parts = tuple(Part(f"x{number}", "fine") for number in range(1_000))
    text = render(Report(Subject(), Severity.HIGH, parts), "markdown")
    assert text.count("| fine |") == 200
    assert "There was no room here for 800 of the checks." in text


@pytest.mark.sample(2)
@pytest.mark.parametrize("char", ["x", "$", "`", "|", "@", "🙂", "\u202e", "\n", "\udcff"])
@pytest.mark.full
def test_one_text_of_any_size_fits(char: str) -> None:
    long = char * 400_000
    place = Location(long, 1, 1, "new", None, long)
    finding = Finding("policy/edited", Severity.HIGH, long, long, (place,) * 50, suppression=None)
    hushed = finding.replace(suppression=long)
    part = Part("policy", long, {}, (finding, hushed) * 2, "not_run")
    omitted = ((long, long),) * 50
    report = Report(reports.subject(), Severity.HIGH, (part,) * 20, long,
                    coverage=Coverage(1, 1, omitted))  # fmt: skip
    text = render(report, "markdown")
    check_shape(text, report)
    assert units(text) < 65_536


def test_a_user_template_wins_and_is_fitted_too() -> None:
    template = (
        "{% for group in groups + folded %}{% for f in group.findings %}{{ f.message }}\n"
        "{% endfor %}{% endfor %}"
    )
    text = render(reports.many(9000), "markdown", templates={"comment.md.j2": template})
    assert units(text) < 65_536
    assert text.startswith(f"{neutralise.MARKER}\n## 9,000 findings fail this change\n")
    assert text.count("The stub points to nothing.") > 2000


def test_a_user_template_may_change_one_block() -> None:
    template = (
        '{% extends "shipped/comment.md.j2" %}{% block hints %}Ask the queue team.\n{% endblock %}'
    )
    text = render(reports.typical(), "markdown", templates={"comment.md.j2": template})
    assert "Ask the queue team." in text
    assert "How to fix" not in text
    assert "## ❌ 3 findings fail this change" in text


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "template",
    ["{{ headline }}\n" + "long line\n" * 30_000, "x" * 200_000,
     "<details>\n" + "a\n" * 99_000, "```\n" + "a\n" * 99_000, "{{ tool }}\n\n" * 20_000],
)  # fmt: skip
def test_a_user_template_that_knows_no_limit_is_cut(template: str) -> None:
    report = reports.typical()
    text = render(report, "markdown", templates={"comment.md.j2": template})
    assert units(text) < 65_536
    assert text.startswith(f"{neutralise.MARKER}\n")
    assert wording.headline(report) in text
    assert "did not fit" in text
    page = github_html(text)
    assert "did not fit" in page.root.all("blockquote")[-1].text()
    assert not page.stray


def test_a_user_template_cannot_forge_a_second_marker() -> None:
    template = f"{neutralise.MARKER}\n{neutralise.MARKER}\n{{{{ headline }}}}"
    text = render(reports.typical(), "markdown", templates={"comment.md.j2": template})
    assert text.count(neutralise.MARKER) == 1


def test_limits_are_those_of_github() -> None:
    assert markdown.ROOM.has("x" * 65_535)
    assert not markdown.ROOM.has("x" * 65_536)
    assert not markdown.ROOM.has("🙂" * 40_000)
    assert not summary.ROOM.has("é" * 600_000)


def test_the_template_gets_no_raw_text() -> None:
    """Even one that prints everything it can reach."""
    finding = Finding("policy/edited", Severity.HIGH, "@alice <img src=x>", "#1 @bob",
                      (Location("@carol", 1, 1),))  # fmt: skip
    report = Report(reports.subject(), Severity.HIGH, (Part("policy", "@dave", {}, (finding,)),))
    template = (
        "{% for g in groups %}{% for f in g.findings %}{{ f.message }} {{ f.hint }}{% endfor %}"
        "{{ g.path }}{% endfor %}{% for p in parts %}{{ p.result }}{% endfor %}"
    )
    text = render(report, "markdown", RenderOptions(templates={"comment.md.j2": template}))
    check_shape(text, report)


@pytest.mark.parametrize(
    ("fix", "shown", "hidden"),
    [
        ("```suggestion\nnew = 1\n```", "  ```python\n  new = 1\n  ```", "suggestion"),
        ("```suggestion\n```", "Suggested: Delete these lines", "```"),
        ("Use `new`", "Suggested: Use `new`", "```"),
    ],
)
def test_a_suggested_fix_is_shown_as_what_it_is(fix: str, shown: str, hidden: str) -> None:
    """In the summary nobody can apply it, so it is no suggestion block there."""
    finding = Finding("x/y", Severity.LOW, "message", evidence=(Location("a.py", 1, 1),),
                      suggested_fix=fix)  # fmt: skip
    report = Report(Subject(), Severity.CRITICAL, (Part("x", "one", {}, (finding,)),))
    text = render(report, "markdown")
    assert shown in text
    assert hidden not in text


@pytest.mark.parametrize(
    ("part", "metrics", "about"),
    [
        ("rlm", {"mode": "symbolic"}, "the question"),
        ("rlm", {}, "the run"),
        ("wiki", {}, "the wiki"),
        ("diff-budget", {}, "the change as a whole"),
    ],
)
def test_a_finding_without_a_place_is_about_what_was_asked(
    part: str, metrics: dict[str, Any], about: str
) -> None:
    finding = Finding(f"{part}/failed", Severity.HIGH, "It is not there.")
    report = Report(Subject(), Severity.HIGH, (Part(part, "no", metrics, (finding,)),))
    assert f"\n{about}  " in f"\n{render(report, 'text')}"
    for form in ("markdown", "html"):
        assert about.capitalize() in render(report, form), form
