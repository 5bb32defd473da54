"""Analyzers of the settings: programs that print what they like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlm_ci.recursion.nodes import COMPLETED, PARTIAL
from rlm_ci.report.findings import INCOMPLETE, Severity
from rlm_ci.review.analyzer_output import sarif
from rlm_ci.review.analyzers import run, sandboxed
from rlm_ci.review.objective import options
from rlm_ci.review.results import report
from testing.analyzed_file import SHOP, rules
from testing.analyzer_programs import at, log, tool
from testing.review_leaves import reviewed, text

FILES = [text("src/a.go", "package a\nfunc A() {}\n"), text("ü b.go", "package b\nvar B = 1\n")]


def test_any_program_that_prints_sarif_takes_part(tmp_path: Path) -> None:
    uris = ["files[0]", "'file://' + files[1]", "os.path.relpath(files[0], '../files')"]
    row = tool(tmp_path, log(f"[{', '.join(at(uri) for uri in uris)}]"))
    result = reviewed(FILES, analyzers=[row], ruff="off", domains=("quality",))
    (first, second) = [one.finding for one in result.findings]
    assert first.rule == second.rule == "review/tool-big-rule-1"
    assert first.severity == Severity.HIGH
    assert first.source == "analyzer:tool"
    assert {one.evidence[0].path: one.evidence[0].quote for one in (first, second)} == {
        "src/a.go": "func A() {}", "ü b.go": "var B = 1",
    }  # fmt: skip
    assert result.counts.verified == 3  # one place was named twice
    assert result.metrics["looked"] == 2


def test_what_points_elsewhere_is_rejected_and_counted(tmp_path: Path) -> None:
    uris = ["'/etc/passwd'", "'../../etc/passwd'", "'https://x.example/a.go'", "'file:///'", "7"]
    results = [at(uri) for uri in uris]
    results += [at("files[0]", line) for line in (0, -1, 4, 10**12)]
    results += ["{}", "{'message': {'text': 'no place'}}", "7", "None"]
    row = tool(tmp_path, log(f"[{', '.join(results)}]"))
    result = reviewed(FILES, analyzers=[row], ruff="off")
    assert result.findings == ()
    assert (result.counts.verified, result.counts.rejected) == (0, 11)
    # What would fail a run if it had a place is not passed over.
    assert result.status == PARTIAL
    why = "the analyzer tool gave nothing: a result of it has no place in the files: "
    assert result.uncovered == (("src/a.go", f"{why}It is wrong"),)
    assert result.notes == ("10 results of tool have no place in the files: It is wrong",)


def test_a_minor_result_without_a_place_is_told(tmp_path: Path) -> None:
    row = tool(
        tmp_path, log("[{'level': 'warning', 'message': {'text': 'a {0}', 'arguments': ['b']}}]")
    )
    result = reviewed(FILES, analyzers=[row], ruff="off", domains=("quality",))
    assert (result.status, result.uncovered) == (COMPLETED, ())
    assert result.notes == ("1 result of tool has no place in the files: a b",)
    assert reviewed(FILES, analyzers=[row], ruff="off", domains=("docs",)).notes == ()


def test_a_place_may_be_told_by_the_number_of_an_artifact(tmp_path: Path) -> None:
    body = (
        "artifacts = [{'location': {'uri': one}} for one in files]\n"
        "file = {'artifactLocation': {'index': 1}, 'region': {'startLine': 2}}\n"
        "results = [{'message': {'text': 'x'}, 'locations': [{'physicalLocation': file}]}]\n"
        "print(json.dumps({'runs': [{'artifacts': artifacts, 'results': results}]}))"
    )
    result = reviewed(FILES, analyzers=[tool(tmp_path, body)], ruff="off")
    assert [one.finding.evidence[0].path for one in result.findings] == ["ü b.go"]


def test_the_end_of_a_file_is_its_last_line(tmp_path: Path) -> None:
    row = tool(tmp_path, log(f"[{at('files[0]', 3)}]"))
    (found,) = reviewed(FILES, analyzers=[row], ruff="off").findings
    assert found.finding.evidence[0].quote == "func A() {}"


@pytest.mark.parametrize(
    ("rule", "level", "severity", "domain"),
    [
        ("{'properties': {'security-severity': '9.8'}}", "note", "critical", "security"),
        ("{'properties': {'security-severity': '5'}}", "error", "medium", "security"),
        ("{'properties': {'security-severity': 'nan'}}", "error", "high", "docs"),
        ("{'properties': {'tags': ['security']}}", "warning", "medium", "security"),
        ("{'defaultConfiguration': {'level': 'note'}}", None, "low", "docs"),
        ("{}", None, "medium", "docs"),
    ],
)
def test_a_tools_own_words_decide_what_its_findings_weigh(
    tmp_path: Path, rule: str, level: str | None, severity: str, domain: str
) -> None:
    result = at("files[0]").replace("'level': 'error', ", f"'level': {level!r}, " if level else "")
    row = tool(
        tmp_path, log(f"[{result}]", f"[dict({rule}, id='Big.Rule_1')]"), domain="docs",
        max_severity="critical",
    )  # fmt: skip
    (found,) = reviewed(FILES, analyzers=[row], ruff="off").findings
    assert (found.finding.severity.label, found.finding.domain) == (severity, domain)


def test_a_tool_cannot_be_louder_than_it_may(tmp_path: Path) -> None:
    row = tool(tmp_path, log(f"[{at('files[0]')}]"), max_severity="low")
    (found,) = reviewed(FILES, analyzers=[row], ruff="off").findings
    assert found.finding.severity == Severity.LOW


def test_a_tool_may_write_to_a_file_and_look_at_the_folder(tmp_path: Path) -> None:
    body = (
        "out, folder = sys.argv[1].split('=')[1], files[0]\n"
        f"files = [os.path.join(folder, 'src', 'a.go')]\nresults = [{at('files[0]')}]\n"
        "open(out, 'w').write(json.dumps({'runs': [{'results': results}]}))"
    )
    row = tool(tmp_path, body, "--out={sarif}", "{folder}")
    assert len(reviewed(FILES, analyzers=[row], ruff="off").findings) == 1


def test_a_tool_starts_in_an_empty_folder_without_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "secret").write_text("of the user")
    body = (
        "there = sorted(os.listdir(os.path.dirname(files[0])))\n"
        "told = [os.listdir('.'), sorted(os.environ), there,"
        f" os.path.exists({str(tmp_path / 'secret')!r})]\n"
        + log("[{'message': {'text': json.dumps(told)}}]")
    )
    texts = [
        text("a.js", "x\n"), text("eslint.config.js", "x\n"), text(".eslintrc.json", "{}"),
        text("package.json", "{}"), text("node_modules/p/index.js", "x\n"), text(".env", "A=1\n"),
    ]  # fmt: skip
    result = reviewed(texts, analyzers=[tool(tmp_path, body)], ruff="off")
    assert result.status == COMPLETED
    hidden = ["eslint.config.js", ".eslintrc.json", "package.json", "node_modules/p/index.js"]
    *notes, told = result.notes
    assert notes == [f"tool was not shown {path}: it could command it" for path in hidden]
    assert result.metrics["looked"] == 2
    here, known, there, is_seen = json.loads(told.partition("in the files: ")[2])
    assert here == []
    assert "OPENAI_API_KEY" not in known
    assert there == [".env", "a.js"]
    assert not is_seen


def test_names_that_fit_no_command_are_parted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_NAMES", 200)
    row = tool(tmp_path, "assert len(files) < 6\n" + log(f"[{at('one', 1)} for one in files]"))
    texts = [text(f"src/module_{number}.go", "package a\n") for number in range(9)]
    result = reviewed(texts, analyzers=[row], ruff="off")
    assert result.uncovered == ()
    assert len(result.findings) == 9


@pytest.mark.full
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("print('Segmentation fault')", "Segmentation fault"),
        ("sys.exit('no such option: --sarif')", "no such option: --sarif"),
        ("sys.exit(3)", "it printed nothing and ended with 3"),
        ("print('{\"runs\":')", "its output is not JSON"),
        ("print('{\"runs\": ' + '[' * 100000)", "its output is not JSON"),
        ("print('{}')", "its output is not SARIF: it has no runs"),
        ("import time; time.sleep(60)", "it took more than 1 seconds"),
        ("print('{' + ' ' * 3000000)", "it printed more than 1 MiB"),
    ],
)
def test_a_tool_that_fails_is_told_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    monkeypatch.setattr(sandboxed, "SECONDS", 1.0)
    monkeypatch.setattr(sandboxed, "PRINTED", 1 << 20)
    if why.startswith("it took") is False:
        monkeypatch.setattr(sandboxed, "SECONDS", 60.0)
    texts = [*FILES, text("a.py", SHOP)]
    result = reviewed(texts, analyzers=[tool(tmp_path, body, files=["*.go"])])
    assert result.status == PARTIAL
    assert result.uncovered == tuple(
        (path, f"the analyzer tool gave nothing: {why}") for path in ("src/a.go", "ü b.go")
    )
    assert "ruff-s608" in rules(result)  # the others are heard all the same


def test_a_tool_that_says_that_it_did_not_finish_is_believed(tmp_path: Path) -> None:
    body = (
        "print(json.dumps({'runs': [{'invocations': [{'executionSuccessful': False, "
        "'toolExecutionNotifications': [{'message': {'text': 'out of memory'}}]}], "
        f"'results': [{at('files[0]')}]}}]}}))"
    )
    result = reviewed(FILES, analyzers=[tool(tmp_path, body)], ruff="off")
    assert len(result.findings) == 1
    assert result.uncovered[0] == ("src/a.go", "the analyzer tool gave nothing: out of memory")


def test_a_program_that_is_not_there_is_told() -> None:
    row = {"name": "gone", "command": ["no-such-tool-anywhere", "{files}"]}
    result = reviewed(FILES, analyzers=[row], ruff="off")
    assert result.uncovered[0][1] == (
        "the analyzer gone gave nothing: no-such-tool-anywhere is not on PATH"
    )
    assert result.metrics["looked"] == 0
    told = report.part(result, options(analyzers=[row], ruff="off"))
    assert told.state == INCOMPLETE
    assert told.summary.endswith(
        "2 files not looked at in full: "
        "the analyzer gone gave nothing: no-such-tool-anywhere is not on PATH"
    )


def test_too_many_results_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MOST", 10)
    row = tool(tmp_path, log(f"[{at('files[0]')}] * 11"))
    result = reviewed(FILES, analyzers=[row], ruff="off")
    assert result.uncovered[0][1].endswith("it has more than 10 results")
