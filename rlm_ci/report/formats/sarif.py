"""SARIF 2.1.0, as GitHub code scanning takes it."""

from __future__ import annotations

from itertools import repeat

from rlm_ci import __version__
from rlm_ci.report import wording
from rlm_ci.report.findings import FINDINGS, Severity, fingerprints
from rlm_ci.report.links import Links, quote_path
from rlm_ci.text import neutralise
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.report.findings import Finding, Location, Report
    from rlm_ci.report.render import RenderOptions

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

#: GitHub refuses a run with more results.
MOST = 25_000

_TOP = "%SRCROOT%"

#: The place of a finding on the change as a whole: GitHub refuses a result without one.
_NO_FILE = "no%20file,%20the%20change%20as%20a%20whole"

_LEVELS = {Severity.CRITICAL: "error", Severity.HIGH: "error", Severity.MEDIUM: "warning"}


def render(report: Report, options: RenderOptions) -> str:
    links = Links(report.subject, options)
    findings = report.findings
    # GitHub opens an alert for a suppressed result like for any other.
    live = [
        pair
        for pair in zip(findings, fingerprints(findings), strict=True)
        if pair[0].suppression is None
    ]
    live.sort(key=lambda pair: -pair[0].severity)
    # An alert is for people too: of what is only argued it has no more than they see elsewhere.
    argued = sorted(
        (pair for pair in live if pair[0].is_argued), key=lambda pair: wording.surest_first(pair[0])
    )
    marked = [pair for pair in live if not pair[0].is_argued] + argued[: wording.ARGUED_SHOWN]
    shown = marked[:MOST]
    left_out = {
        "suppressed finding": len(findings) - len(live),
        "argued finding": len(live) - len(marked),
    }
    rules = _rules([finding for finding, _mark in shown], links)
    indexes = {rule["id"]: index for index, rule in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "rlm-ci", "semanticVersion": __version__, "rules": rules}},
        "automationDetails": {"id": "rlm-ci/"},
        "columnKind": "utf16CodeUnits",
        "invocations": [_invocation(report, len(marked) - len(shown), left_out)],
        "results": (
            # Each is made when its turn comes to be written.
            map(_result, *zip(*shown, strict=True), repeat(indexes)) if shown else []
        ),
    }
    if links.repository and report.subject.head and not report.subject.worktree:
        run["versionControlProvenance"] = [
            {
                "repositoryUri": links.repository,
                "revisionId": report.subject.head,
                "mappedTo": {"uriBaseId": _TOP},
            }
        ]
    return neutralise.record({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, depth=4)


def _level(severity: Severity) -> str:
    return _LEVELS.get(severity, "note")


def _rules(findings: list[Finding], links: Links) -> list[dict[str, Any]]:
    """An entry for each rule with a result, whose first hint is its help."""
    first: dict[str, Finding] = {}
    for finding in findings:  # worst first: its severity is the rule's
        first.setdefault(finding.rule, finding)
    rules = []
    for rule, finding in first.items():
        check, _, condition = rule.partition("/")
        name = f"{check}: {condition.replace('-', ' ')}"
        page = links.rule(finding)
        rules.append({
            "id": printable(rule),
            "shortDescription": {"text": _message(name)},
            "fullDescription": {"text": _message(f"{name}, a rule of the check {check}.")},
            **({"helpUri": page} if page else {}),
            "help": {"text": _message(finding.hint or f"Reported by the check {check}.")},
            "defaultConfiguration": {"level": _level(finding.severity)},
            "properties": {"tags": [printable(check)]},
        })  # fmt: skip
    return rules


def _result(finding: Finding, mark: str, indexes: dict[str, int]) -> dict[str, Any]:
    rule = printable(finding.rule)
    properties: dict[str, Any] = {"severity": finding.severity.label, "source": finding.source}
    for name in ("domain", "confidence", "subject", "suggested_fix"):
        value = getattr(finding, name)
        if value is not None:
            properties[name] = encodable(value) if isinstance(value, str) else value
    if finding.proof is not None:
        proof = finding.proof.to_dict()  # the rest would make a large file larger still
        properties["proof"] = {name: proof[name] for name in ("level", "reason", "command")}
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": indexes[rule],
        "level": "note" if finding.is_argued else _level(finding.severity),
        "message": {"text": _message(finding.message)},
        "locations": [_location(finding.evidence[0] if finding.evidence else None)],
        "partialFingerprints": {"rlmCi/v1": mark},
        "properties": properties,
    }
    if len(finding.evidence) > 1:
        result["relatedLocations"] = [
            {"id": number, **_location(location)}
            for number, location in enumerate(finding.evidence[1:], 1)
        ]
    return result


def _location(location: Location | None) -> dict[str, Any]:
    if location is None:
        return {
            "physicalLocation": {
                "artifactLocation": {"uri": _NO_FILE},
                "region": {"startLine": 1},
            }
        }
    artifact = {"uri": quote_path(location.path), "uriBaseId": _TOP}
    if location.side == "old":  # lines of another version would mark the wrong ones of this
        where = f"{wording.spoken_lines(location) or 'the file'} before the change"
        physical = {"artifactLocation": artifact, "region": {"startLine": 1}}
        return {"physicalLocation": physical, "message": {"text": where}}
    start = location.line_start or 1  # GitHub wants a line of a whole file too
    region: dict[str, Any] = {"startLine": start}
    if location.line_start is not None:
        region["endLine"] = max(start, location.line_end or 0)
        if location.quote is not None:
            region["snippet"] = {"text": encodable(location.quote)}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _invocation(report: Report, left: int, left_out: dict[str, int]) -> dict[str, Any]:
    """Whether everything was looked at, with notifications for the rest."""
    notifications = [
        {
            "level": "error",
            "message": {"text": _message(wording.result(part, report.fail_level))},
            "descriptor": {"id": printable(part.id)},
        }
        for part in report.parts
        if part.state is not None
    ]
    if left:
        text = f"{wording.count(left, 'result')} more than a run may have; all are in report.json"
        notifications.append({"level": "warning", "message": {"text": text}})
    for noun, number in left_out.items():
        if not number:
            continue
        text = f"{wording.count(number, noun)} left out; all are in report.json"
        notifications.append({"level": "note", "message": {"text": text}})
    if report.verdict() not in ("clean", FINDINGS) and not notifications:
        notifications.append({"level": "error", "message": {"text": wording.headline(report)}})
    broken = any(item["level"] == "error" for item in notifications)
    return {
        "executionSuccessful": not broken,
        "exitCode": report.exit_code(),
        "toolExecutionNotifications": notifications,
    }


def _message(text: str) -> str:
    """Text without links, placeholders and mentions."""
    shown = neutralise.one_line(text)
    if "](" in shown:
        shown = shown.replace("[", "\\[").replace("]", "\\]")
    if "{" in shown:
        shown = shown.replace("{", "{{").replace("}", "}}")
    # No mark goes into code.
    shown = "".join(
        f"`{piece}`" if is_code else piece.replace("@", f"@{neutralise.GAP}")
        for is_code, piece in neutralise.segments(shown)
    )
    return neutralise.clip(shown, 5000) or "(no text)"
