"""The check run: the verdict where branch protection looks, with annotations on the files."""

from __future__ import annotations

from functools import partial

from rlm_ci.github.api.errors import UnreachableError, record, text
from rlm_ci.report import wording
from rlm_ci.report.findings import CLEAN, FINDINGS, Severity
from rlm_ci.report.rules import address
from rlm_ci.text import neutralise
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.report.findings import Finding, Report

NAME = "rlm-ci"
#: GitHub takes no more annotations in one request, and no longer texts.
BATCH = 50
_LONGEST_MESSAGE = 4000
_LEVELS = {
    Severity.CRITICAL: "failure", Severity.HIGH: "failure", Severity.MEDIUM: "warning",
}  # fmt: skip


def post(
    client: GitHubClient,
    repository: str,
    head: str,
    report: Report,
    *,
    summary: str,
    run: str,
    unfinished: str,
    most: int,
) -> None:
    """Post the check run of ``head``, complete with its first request, but for annotations.

    ``summary`` has at most 65,535 bytes, ``unfinished`` is the conclusion for a report that is
    incomplete or did not run, ``most`` the maximum of annotations. Raises RemoteError.
    """
    path = f"/repos/{repository}/check-runs"
    annotations, left = _annotations(report, most)
    title = wording.verdict_line(report)
    if left:
        title = f"{title} ({wording.count(left, 'finding')} not annotated)"
    output = {"title": title[:255], "summary": summary}
    body = {
        "name": NAME,
        "head_sha": head,
        "status": "completed",
        "conclusion": conclusion(report, unfinished),
        "external_id": run,
        "output": {**output, "annotations": annotations[:BATCH]},
    }

    found = partial(find, client, repository, head, run=run)
    made = record(client.write("POST", path, body, done=found), path)
    if not isinstance(made.get("id"), int):
        raise UnreachableError("GitHub's answer is not a check run", path)
    own = f"{path}/{made['id']}"
    for start in range(BATCH, len(annotations), BATCH):
        batch = annotations[start : start + BATCH]
        client.more()
        client.write(
            "PATCH", own, {"output": {**output, "annotations": batch}},
            done=partial(_with_annotations, client, own, start + len(batch)),
        )  # fmt: skip


def _with_annotations(client: GitHubClient, path: str, total: int) -> dict[str, Any] | None:
    made = client.get(path)
    has = record(made.get("output"), path).get("annotations_count") or 0
    if not isinstance(has, int):
        raise UnreachableError("GitHub does not say how many annotations there are", path)
    return made if has >= total else None


def find(
    client: GitHubClient,
    repository: str,
    head: str,
    *,
    run: str | None = None,
    author: str | None = None,
) -> dict[str, Any] | None:
    """Our latest check run of ``head``: that of the run ``run``, or one that ``author`` made."""
    path = f"/repos/{repository}/commits/{head}/check-runs"
    for one in client.pages(path, "check_runs", check_name=NAME, filter="all"):
        made = record(one, path)
        app = text(record(made.get("app"), path).get("slug"), path)
        if run in (None, made.get("external_id")) and author in (None, f"{app}[bot]"):
            return made
    return None


def conclusion(report: Report, unfinished: str) -> str:
    """GitHub's word for the verdict. ``neutral`` and ``skipped`` would let a merge through."""
    return {CLEAN: "success", FINDINGS: "failure"}.get(report.verdict(), unfinished)


def _annotations(report: Report, most: int) -> tuple[list[dict[str, Any]], int]:
    """Annotations for findings on lines of the head, and how many findings have none."""
    live, _ = wording.parted(wording.worst_first(report.findings))  # nothing is folded here
    able = [
        one
        for one in live
        for place in one.evidence[:1]
        if place.side == "new" and encodable(place.path) == place.path
    ]
    return [_annotation(one) for one in able[:most]], len(live) - len(able[:most])


def _annotation(finding: Finding) -> dict[str, Any]:
    place = finding.evidence[0]
    start = place.line_start or 1
    texts = [neutralise.one_line(text) for text in (finding.message, finding.hint) if text]
    page = address(finding.rule, finding.source)
    more = f"\n{page}" if page else ""
    return {
        "path": place.path,
        "start_line": start,
        "end_line": max(start, place.line_end or start),
        "annotation_level": _LEVELS.get(finding.severity, "notice"),
        "title": neutralise.clip(finding.rule, 255),
        "message": neutralise.clip("\n".join(texts), _LONGEST_MESSAGE - len(more)) + more,
    }
