"""The surfaces that machines read: report.json, SARIF, workflow commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import compress
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from rlm_ci import errors
from rlm_ci.report.findings import Finding, Location, Part, Report, Severity, Subject, fingerprints
from rlm_ci.report.render import render
from rlm_ci.resources import loader
from testing import markup_judges, reports
from testing.markup_judges import github_commands, official_sarif_schema

ANY = settings(deadline=None, suppress_health_check=list(HealthCheck))
SUBSET = json.loads((Path(__file__).parent / "sarif-subset.schema.json").read_text("utf-8"))


def sarif(report: Report) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(render(report, "sarif"))
    return log


@ANY
@given(report=reports.reports())
def test_report_json_is_valid_and_comes_back(report: Report) -> None:
    text = render(report, "json")
    record = json.loads(text)
    jsonschema.Draft202012Validator(loader.read_schema("report.schema.json")).validate(record)
    loader.validate(record, "report.schema.json", "report.json")
    again = Report.from_dict(record)
    assert render(again, "json") == text
    assert again.verdict() == record["verdict"]
    assert github_commands(text) == []
    assert text.endswith("}\n")


def test_report_json_keeps_the_order_of_the_contract() -> None:
    record = json.loads(render(reports.typical(), "json"))
    assert list(record) == [
        "schema_version", "tool", "subject", "verdict", "fail_level", "parts", "findings",
        "documents", "coverage", "evidence", "usage", "publication", "run_id",
    ]  # fmt: skip


def changed(path: str, value: object) -> dict[str, Any]:
    """The typical report.json with one value replaced, or, by ``...``, removed."""
    record: dict[str, Any] = json.loads(render(reports.typical(), "json"))
    *way, last = path.split(".")
    place: Any = record
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return record


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 2), ("verdict", "green"), ("fail_level", None), ("run_id", "../x"),
        ("extra", 1), ("subject.extra", 1), ("tool.name", "other"), ("subject.head", "main"),
        ("subject.head", "a" * 41), ("subject.head", reports.HEAD + "\n"), ("subject.base", 1),
        ("subject.repository", "a/b/c"), ("subject.pull_request", 0), ("subject.worktree", None),
        ("parts.0.verdict", "off"), ("parts.0.id", "Diff Budget"), ("parts.0.metrics", []),
        ("parts.0.extra", 1), ("findings.0.rule", "files"), ("findings.0.severity", "error"),
        ("findings.0.fingerprint", "0" * 31), ("findings.0.fingerprint", "0" * 32 + "\n"),
        ("findings.0.source", "me"), ("findings.0.confidence", 1.5), ("findings.0.extra", 1),
        ("findings.2.evidence.0.side", "left"), ("findings.2.evidence.0.line_start", 0),
        ("findings.2.evidence.0.path_b64", "?"), ("findings.2.evidence.0.blob", "x"),
        ("coverage.omitted.0.reason", None), ("coverage.eligible", -1), ("usage.cost_usd", "1"),
        ("evidence.offered", 1.5), ("publication", "posted"), ("findings.0.hint", ...),
        ("subject.merge_base", ...), ("documents", ...),
    ],
)  # fmt: skip
def test_the_schema_is_strict(path: str, value: object) -> None:
    with pytest.raises(errors.ConfigError):
        loader.validate(changed(path, value), "report.schema.json", "report.json")


def test_the_schema_leaves_metrics_and_publication_open() -> None:
    for path, value in (
        ("parts.0.metrics.deep", {"a": [1]}),
        ("publication", {"summary": "posted"}),
    ):
        loader.validate(changed(path, value), "report.schema.json", "report.json")


@ANY
@given(report=reports.reports())
def test_sarif_follows_the_standard(report: Report) -> None:
    text = render(report, "sarif")
    log = json.loads(text)
    jsonschema.Draft202012Validator(SUBSET).validate(log)
    (run,) = log["runs"]
    shown = [one.suppression is None for one in report.findings]
    assert len(run["results"]) == sum(shown)
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            parts = urlsplit(uri)
            assert parts._replace(path="") == urlsplit("")
            assert uri.isascii()
    marks = sorted(result["partialFingerprints"]["rlmCi/v1"] for result in run["results"])
    assert marks == sorted(compress(fingerprints(report.findings), shown))
    assert github_commands(text) == []


@settings(ANY)
@given(report=reports.reports())
def test_sarif_follows_the_official_schema(report: Report) -> None:
    schema = official_sarif_schema()
    if schema is None:
        assert sys.platform != "linux", "run `make test`, which installs it"
        pytest.skip("@microsoft/sarif-multitool-linux is not in tests/tools/node_modules")
    validator = jsonschema.validators.validator_for(schema)(schema)
    validator.validate(sarif(report))


@pytest.mark.full
def test_sarif_pleases_the_reference_validator(tmp_path: Path) -> None:
    """With the rules of GitHub's code scanning."""
    tool = markup_judges.TOOLS / "Sarif.Multitool"
    if not tool.is_file():
        assert sys.platform != "linux", "run `make test`, which installs it"
        pytest.skip("@microsoft/sarif-multitool-linux is not in tests/tools/node_modules")
    file = tmp_path / "report.sarif"
    file.write_text(render(reports.typical(), "sarif"), "utf-8")
    tool.chmod(0o755)
    run = subprocess.run(
        [tool, "validate", file, "--rule-kind", "Sarif;Ghas"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert "Analysis completed successfully" in run.stdout
    assert ": error " not in run.stdout


def test_sarif_uris_are_the_bytes_of_the_path() -> None:
    raw = "d/ü#?%:[]\n\udcff ..x".encode("utf-8", "surrogateescape")
    path = raw.decode("utf-8", "surrogateescape")
    finding = Finding("a/b", Severity.HIGH, "m", evidence=(Location(path, 3, 5),))
    log = sarif(Report(Subject(), Severity.HIGH, (Part("a", "s", {}, (finding,)),)))
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    uri = place["artifactLocation"]["uri"]
    assert unquote_to_bytes(uri) == raw
    assert urljoin("file:///top/", uri) == f"file:///top/{uri}"
    assert place["region"] == {"startLine": 3, "endLine": 5}


def test_sarif_levels_and_provenance_and_no_suppressed_result() -> None:
    log = sarif(reports.typical())
    (run,) = log["runs"]
    levels = [(one["ruleId"], one["level"]) for one in run["results"]]
    assert levels == [
        ("diff-budget/files", "error"), ("diff-budget/lines", "error"),
        ("doc-archive/dangling", "error"), ("doc-archive/open-items", "warning"),
        ("policy/edited", "note"),
    ]  # fmt: skip
    (left,) = [
        one["message"]["text"]
        for one in run["invocations"][0]["toolExecutionNotifications"]
        if one["level"] == "note"
    ]
    assert left == "1 suppressed finding left out; all are in report.json"
    assert run["versionControlProvenance"][0]["revisionId"] == reports.HEAD
    assert run["versionControlProvenance"][0]["repositoryUri"] == "https://github.com/acme/rocket"


def test_sarif_marks_no_line_of_the_new_side_for_the_old() -> None:
    results = sarif(reports.typical())["runs"][0]["results"]
    (place,) = next(one for one in results if one["ruleId"] == "doc-archive/open-items")[
        "locations"
    ]
    assert place["physicalLocation"]["region"] == {"startLine": 1}
    assert place["message"]["text"] == "lines 14-15 before the change"


@pytest.mark.parametrize("state", ["not_run", "incomplete"])
def test_sarif_says_that_not_everything_was_looked_at(state: str) -> None:
    part = Part("doc-archive", "the branch is not here", state=state)
    invocation = sarif(Report(Subject(), Severity.HIGH, (part,)))["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert (
        "the branch is not here" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    )
    clean = sarif(reports.clean())["runs"][0]["invocations"][0]
    assert clean == {"executionSuccessful": True, "exitCode": 0, "toolExecutionNotifications": []}
    empty = sarif(Report(Subject(), Severity.HIGH, ()))["runs"][0]["invocations"][0]
    assert empty["executionSuccessful"] is False


@pytest.mark.full
def test_sarif_has_no_more_results_than_github_takes() -> None:
    (run,) = sarif(reports.many(25_003))["runs"]
    assert len(run["results"]) == 25_000
    assert (
        "3 results more"
        in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    )
    assert run["invocations"][0]["executionSuccessful"] is True


@ANY
@given(report=reports.reports())
def test_commands_are_ours_only(report: Report) -> None:
    output = render(report, "github")
    commands = github_commands(output)
    assert len(commands) == output.count("\n")
    assert {name for name, _, _ in commands} <= {"error", "warning", "notice"}
    rules = {finding.rule for finding in report.findings if finding.suppression is None}
    for _name, properties, _message in commands:
        assert set(properties) <= {"file", "line", "endLine", "title"}
        title = properties["title"]
        assert title in {*rules, "rlm-ci"} or title.endswith((" did not run", " did not finish"))


@pytest.mark.parametrize(
    ("errors_", "warnings", "notices"), [(25, 0, 0), (10, 10, 10), (3, 40, 40)]
)
def test_at_most_ten_of_a_level(errors_: int, warnings: int, notices: int) -> None:
    findings = [
        Finding("a/b", severity, f"message {index}")
        for severity, number in (
            (Severity.HIGH, errors_), (Severity.MEDIUM, warnings), (Severity.INFO, notices),
        )
        for index in range(number)
    ]  # fmt: skip
    report = Report(Subject(), Severity.HIGH, (Part("a", "s", {}, tuple(findings)),))
    commands = github_commands(render(report, "github"))
    names = [name for name, _, _ in commands]
    assert max(names.count(name) for name in ("error", "warning", "notice")) <= 10
    assert names.count("error") == min(errors_, 10)
    assert names.count("warning") == min(warnings, 10)
    if len(findings) > len(commands):
        name, _properties, message = commands[-1]
        assert name == "notice"
        told = sum(int(word) for word in message.split() if word.isdigit())
        assert told == len(findings) - (len(commands) - 1)


def test_a_message_and_its_cure_are_two_lines() -> None:
    findings = (
        Finding("a/b", Severity.HIGH, "It is\nwrong", "fix it,\nnow 100%"),
        Finding("a/c", Severity.HIGH, "It is so", "fix it", suppression="we know"),
        Finding("a/d", Severity.LOW, "It is"),
    )
    report = Report(Subject(), Severity.HIGH, (Part("a", "s", {}, findings),))
    output = render(report, "github")
    assert "::It is wrong%0Afix it, now 100%25\n" in output
    assert [message for _, _, message in github_commands(output)] == [
        "It is wrong\nfix it, now 100%", "It is",
    ]  # fmt: skip


def test_commands_of_the_old_side_mark_no_line_of_the_new() -> None:
    commands = github_commands(render(reports.typical(), "github"))
    open_items = next(two for _, two, _ in commands if two["title"] == "doc-archive/open-items")
    assert open_items == {"file": "docs/plans/cache.md", "title": "doc-archive/open-items"}


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(errors.UsageError) as caught:
        render(reports.clean(), "yaml")
    assert "github, html, json, markdown, sarif, summary, text" in caught.value.hint
