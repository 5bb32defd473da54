"""What a review leaves behind: the part, the page, and the files for other programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from rlm_ci.recursion.nodes import TracedFinding
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report import suppressions
from rlm_ci.report.findings import (
    INCOMPLETE,
    NOT_RUN,
    Coverage,
    Report,
    Severity,
    Subject,
    fingerprints,
)
from rlm_ci.report.render import render
from rlm_ci.resources import loader
from rlm_ci.review.objective import ReviewObjective, _summary, analyse, options
from rlm_ci.review.results import report as results_report
from rlm_ci.review.results.json_lists import clusters
from rlm_ci.review.results.merge import rank
from testing import reports
from testing.markup_judges import github_html
from testing.review_leaves import (
    GRAVE,
    SHOP,
    TEXTS,
    TOTAL,
    Asking,
    answering,
    by_file,
    claim,
    closing,
    leaf,
    reviewed,
    text,
    verdict,
)

if TYPE_CHECKING:
    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.report.findings import Location
    from testing.loopback_model.server import ModelServer

__all__ = ["closing"]

CASES = Path(__file__).parent / "cases"
COMMIT = "c" * 40


def reported(result: NodeResult, chosen: dict[str, Any] | None = None, **more: Any) -> Report:
    part = results_report.part(result, chosen or options(), more.pop("model", None))
    part = suppressions.apply(part, more.pop("entries", ()))
    return Report(
        Subject("acme/shop", head=COMMIT),
        Severity.HIGH,
        (part,),
        coverage=Coverage(3, 2, (("logo.png", "binary"), ("dist/x.js", "generated"))),
        evidence=result.counts,
    )


def link(place: Location) -> str | None:
    return f"https://git.example/acme/shop/blob/{COMMIT}/x#L{place.line_start}"


def files(result: NodeResult, report: Report | None = None) -> dict[str, str]:
    made = results_report.artifacts(
        result, report or reported(result), title="acme/shop", link=link,
        sarif=lambda one: render(one, "sarif"),
    )  # fmt: skip
    return {name: "".join(pieces) for name, pieces in made.items()}


def test_the_files_are_there_and_follow_their_schemas() -> None:
    result = by_file({"shop.py": SHOP, "b.py": "exec('1')\nexec('2')  # noqa: S102\n"})
    report = reported(result)
    made = files(result, report)
    assert set(made) == {
        "report.md", "findings.json", "clusters.json", "codequality.json", "review.sarif",
    }  # fmt: skip
    found = json.loads(made["findings.json"])
    assert loader.misfit(found, "findings.schema.json") == ""
    in_report = {one["fingerprint"] for one in report.to_dict()["findings"]}
    assert {one["fingerprint"] for one in found["findings"]} == in_report
    assert in_report == set(fingerprints(report.findings))
    assert all(one["nodes"] == ["leaf"] for one in found["findings"])
    groups = json.loads(made["clusters.json"])
    assert {one["cluster"] for one in found["findings"]} == {one["id"] for one in groups}
    for group in groups:
        for number in group["findings"]:
            assert found["findings"][number]["cluster"] == group["id"]
    log = json.loads(made["review.sarif"])
    waved = [one for one in found["findings"] if one["suppression"]]
    assert waved
    assert len(log["runs"][0]["results"]) == len(found["findings"]) - len(waved)
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))).to_dict() == report.to_dict()


def test_gitlab_gets_its_own_words_and_nothing_that_was_accepted() -> None:
    result = by_file({"b.py": "exec('1')\nexec('2')  # noqa: S102\nprint('%d' % (1, 2))\n"})
    rows = json.loads(files(result)["codequality.json"])
    assert [(one["check_name"], one["severity"], one["location"]) for one in rows] == [
        ("review/ruff-f507", "critical", {"path": "b.py", "lines": {"begin": 3, "end": 3}}),
        ("review/ruff-s102", "major", {"path": "b.py", "lines": {"begin": 1, "end": 1}}),
    ]
    assert len({one["fingerprint"] for one in rows}) == 2
    assert all(one["description"] for one in rows)


def test_nobody_who_looked_is_not_a_clean_bill() -> None:
    go = {"main.go": "package main\n"}
    result = by_file(go)
    part = results_report.part(result, options(), unseen=[("main.go", "no analyzer")])
    assert (part.state, part.findings) == (NOT_RUN, ())
    assert part.summary.startswith("nothing reads 1 Go file: no analyzer for it is set up")
    # Of a change that no analyzer knows, there is nothing to say.
    changed = options(changed={"main.go": [[1, 1]]})
    assert results_report.part(by_file(go, changed={"main.go": [[1, 1]]}), changed).state is None
    assert results_report.part(by_file({}), options()).state is None


def test_a_reason_ends_with_a_word() -> None:
    words = " ".join(f"word{number}," for number in range(90))
    others = tuple((f"{number}.py", f"other {number}") for number in range(3))
    for reason in (f"remote: {words} (http://127.0.0.1/v1)", "remote: (http://127.0.0.1/v1)"):
        result = by_file({"a.py": "x = 1\n"})
        result = result.replace(uncovered=(("a.py", reason), ("b.py", reason), *others))
        told = results_report.part(result, options()).summary.partition("in full: ")[2]
        first, _, more = told.rpartition(", and ")
        assert more == "3 other reasons"
        assert 0 < len(first) <= 400
        assert set(first.removesuffix(" …").split()) <= set(reason.split())


def test_files_that_nobody_looks_at_are_told_and_not_covered(llm: ModelServer) -> None:
    some = {"a.py": "x = 1\n", "c/1.c": "int x;\n", "c/2.c": "int y;\n", "README": "Read me\n"}
    result = by_file(some)
    nobody = results_report.unseen(list(some), options(), None)
    part = results_report.part(result, options(), unseen=nobody)
    told = "0 findings in 1 of 4 files; 3 files not looked at (2 .c, 1 other)"
    assert (part.summary, part.state) == (told, None)
    assert [path for path, _ in nobody] == ["c/1.c", "c/2.c", "README"]
    assert {why for _, why in nobody} == {results_report.NOBODY}
    assert results_report.unseen(list(some), options(), "m-1") == ()
    beside = result.replace(data={"unread": ["README", "gone"]})
    unread = results_report.unseen(list(some), options(), "m-1", beside)
    assert unread == (("README", results_report.UNREAD),)
    llm.script(lambda _asked: answering())
    result = reviewed([text(path, content) for path, content in some.items()], Asking(llm))
    assert results_report.part(result, options(), "m-1").summary == "0 findings in 4 files"


def test_what_was_not_looked_at_makes_it_incomplete(llm: ModelServer) -> None:
    llm.script(["no", "no"])
    result = reviewed(TEXTS, Asking(llm))
    report = reported(result, model="m-1")
    assert report.parts[0].state == INCOMPLETE
    assert report.exit_code() == 3
    page = files(result, report)["report.md"]
    assert "`shop.py`: the model's answer could not be read, twice" in page
    assert "1 file: binary" in page


def test_suppressions_of_the_settings_are_shown() -> None:
    result = by_file({"b.py": "exec('1')\n"})
    entry = {"rule": "review/ruff-s102", "path": "*.py", "reason": "a sandbox", "until": None}
    report = reported(result, entries=[entry])
    made = files(result, report)
    (found,) = json.loads(made["findings.json"])["findings"]
    assert found["suppression"] == "a sandbox"
    assert found["nodes"] == ["leaf"]
    assert "| `ruff-s102` | 1 | a sandbox |" in made["report.md"]
    assert json.loads(made["codequality.json"]) == []


HOSTILE = (
    "<script>alert(1)</script> [click](https://evil.example) ![x](https://evil.example/p.png) "
    "@maintainer #1 `code` | cell\n\n# heading\n```\nfence\n<!-- rlm-ci:report -->\x1b[31m\u202e"
)


def test_nothing_from_outside_is_more_than_text(llm: ModelServer) -> None:
    path = "a|b`c](https://evil.example)<img src=x>\n# h.py"
    code = f"value = 1\nother = '''{HOSTILE}'''\n"
    wrong = claim(
        1, "value = 1", HOSTILE, path=path.replace("\n", "\\n"), suggested_fix=HOSTILE,
        severity="medium",
    )  # fmt: skip
    minor = {**wrong, "line_start": 2, "quote": code.split("\n")[1], "severity": "low"}
    llm.script([answering(wrong, minor)])
    result = reviewed([text(path, code)], Asking(llm), ruff="off")
    assert len(result.findings) == 2
    page = files(result, reported(result, model="m<b>"))["report.md"]
    html = cmarkgfm.github_flavored_markdown_to_html(page, Options.CMARK_OPT_UNSAFE)
    for tag in ("<script", "<img", "<b>", 'evil.example"', "<h1>heading", "<!--"):
        assert tag not in html, tag
    running = re.sub(r"<(pre|code)>.*?</\1>", "", html, flags=re.DOTALL)
    assert "@maintainer" not in running
    assert "@\u200bmaintainer" in running
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert html.count("<a href=") == html.count('<a href="https://git.example/')


def test_a_large_review_is_still_a_page_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results_report, "_MOST", 10)
    code = "".join(f"exec('{number}')\n" for number in range(30))
    result = by_file({"a.py": code})
    made = files(result)
    assert made["report.md"].count("### ") == 10
    assert "20 more findings are in `findings.json`." in made["report.md"]
    assert len(json.loads(made["findings.json"])["findings"]) == 30


def test_gathered_trifles_are_listed_once_a_file() -> None:
    code = "".join(f"def f{number}(x=[]):\n    return x\n\n\n" for number in range(30))
    page = files(by_file({"a.py": code, "b.py": code}, domains=("quality",)))["report.md"]
    assert page.count("### `ruff-b006`") == 1
    assert page.count("Do not use mutable data structures for argument defaults.") == 1
    assert "- and 20 more places" in page


def test_a_minor_finding_of_many_files_names_each(llm: ModelServer) -> None:
    also = {"path": "CONTRIBUTING.md", "line_start": 1, "line_end": 1, "quote": "# Contributing"}
    llm.script([answering({**TOTAL, "severity": "low", "also": [also]})])
    page = files(reviewed(TEXTS, Asking(llm), ruff="off"))["report.md"]
    assert "### low: [`shop.py:16`](<" in page
    assert f"```\n{TOTAL['quote']}\n```" in page
    assert "Also at [`CONTRIBUTING.md:1`](<" in page


def test_the_page_of_a_rule_is_a_link() -> None:
    page = files(by_file({"b.py": "exec('1')\n"}))["report.md"]
    address = "https://docs.astral.sh/ruff/rules/exec-builtin"
    assert f"[S102 exec-builtin](<{address}>)" in page


def test_secrets_are_taken_out_before_anything_is_escaped(llm: ModelServer) -> None:
    token = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    content = f"go('{token}', '@*_#')\nother_line_here()\n"
    wrong = claim(
        1, content.split("\n", maxsplit=1)[0], f"The token {token} is in the code", path="a.py"
    )
    minor = claim(2, "other_line_here()", f"Also {token}", path="a.py", severity="low")
    lost = claim(2, "not there at all", f"Lost {token}", path="a.py", severity="critical")
    llm.script([answering(wrong, minor, lost)])
    result = reviewed([text("a.py", content)], Asking(llm), ruff="off")
    redactor = Redactor({})
    made = results_report.artifacts(
        result.replace(notes=(f"a note on {token}",)), reported(result), title="t",
        sarif=lambda one: render(one, "sarif"), redact=redactor.report, mask=redactor.text,
    )  # fmt: skip
    shown = {name: "".join(pieces) for name, pieces in made.items()}
    for name, text_of in shown.items():
        assert "A1b2" not in text_of, name
    found = json.loads(shown["findings.json"])["findings"]
    assert [one["nodes"] for one in found] == [["leaf"], ["leaf"]]


def test_proofs_are_shown_and_all_are_in_the_list() -> None:
    (part,) = reports.proven().parts
    result = by_file({"src/urls.py": "x = 1\n"})
    result = result.replace(findings=tuple(TracedFinding(one, ("leaf",)) for one in part.findings))
    report = reported(result, model="m-1").replace(refuted=reports.proven().refuted)
    made = files(result, report)
    found = json.loads(made["findings.json"])
    assert loader.misfit(found, "findings.schema.json") == ""
    levels = [one["proof"]["level"] for one in found["findings"]]
    assert sorted(levels) == ["argued"] * 5 + ["proven"] + ["reproduced"] * 2
    assert [one["reason"] for one in found["refuted"]] == ["its reproduction passes at head"]
    page = github_html(made["report.md"])
    assert not page.stray
    blocks = [one.text() for one in page.root.all("pre")]
    assert {reports.HOSTILE_CODE, reports.REPAIR} <= set(blocks)
    assert blocks.count("if a:\n\treturn `b`\n") == 3
    text = page.root.text()
    assert "3 of 5 findings argued only: nothing that ran shows them. All are in" in text
    assert set(re.findall(r"Argument number \d", text)) == {
        f"Argument number {n}" for n in range(5)
    }
    assert text.count("nothing can run here") == 3  # the others in a line
    assert "join loses the port. Refuted: its reproduction passes at head." in text
    assert "model:m-1, 90 % sure (proven)" in text
    assert "Suggested: Name ValueError, which is what it raises." in text
    rows = [one["severity"] for one in json.loads(made["codequality.json"])]
    assert sorted(rows) == ["critical", "info", "info", "info", "major", "minor"]


def test_the_page_names_what_was_looked_for() -> None:
    """Only a model looks at the architecture."""
    result = by_file({"shop.py": SHOP})
    row = "| for | security, quality, performance, docs"
    assert f"{row} |" in files(result)["report.md"]
    asked = reported(result, model="m-1")
    assert f"{row}, architecture |" in files(result, asked)["report.md"]


def test_golden(llm: ModelServer) -> None:
    """The same texts and answers give these bytes, on any machine."""
    llm.script([
        answering(
            {**TOTAL, "line_start": 3, "line_end": 3}, GRAVE,
            claim(1, "no such line stands anywhere"),
            claim(5, "def query(db, name):", "SQL injection through the name that is formatted",
                  domain="security", rule="sql-injection"),
        ),
        verdict("upheld", "the name is not escaped"),
    ])  # fmt: skip
    chosen = options(domains=("security", "quality"))
    task = leaf(TEXTS, chosen)
    result = ReviewObjective(chosen).judge(task.node, task, analyse(task), Asking(llm))
    for row in chosen["analyzers"]:
        row["version"] = "1"  # what this version of it finds here, others find too
    made = files(result, reported(result, chosen, model="m-1"))
    del made["review.sarif"]  # has its own tests
    for name, content in made.items():
        expected = CASES / "expected" / name
        assert content == expected.read_text(encoding="utf-8"), name


def test_a_kind_whose_findings_say_different_things_goes_by_its_rule() -> None:
    result = by_file({"a.py": "import os\nimport sys\n"}, domains=("quality",))
    found = [one.finding for one in result.findings]
    several = [*found, *(one.replace(message="`re` unused") for one in found)]
    assert [one["title"] for one in clusters(sorted(several, key=rank))] == ["F401 unused-import"]
    assert [one["title"] for one in clusters(found[:1])] != ["F401 unused-import"]


def test_a_prompt_of_a_change_has_no_files_of_its_own_to_count() -> None:
    assert _summary((), {"files": 0, "looked": 0}) == "0 findings"
    assert _summary((), {"files": 2, "looked": 1}) == "0 findings in 1 of 2 files"
