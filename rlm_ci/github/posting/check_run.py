"""The check run: the verdict where branch protection looks, with annotations on the files."""

from __future__ import annotations

from functools import partial

from rlm_ci.errors import RemoteError
from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record, rows, text
from rlm_ci.github.posting import summary_comment
from rlm_ci.github.posting.review_threads import bare
from rlm_ci.report import wording
from rlm_ci.report.findings import CLEAN, FINDINGS, Severity
from rlm_ci.report.rules import address
from rlm_ci.text import neutralise
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.github.posting.summary_comment import Checkpoint
    from rlm_ci.report.findings import Finding, Report

_TOOL = "rlm-ci"
#: GitHub takes no more annotations in one request, and no longer texts.
BATCH = 50
_LONGEST_MESSAGE = 4000
_LEVELS = {
    Severity.CRITICAL: "failure", Severity.HIGH: "failure", Severity.MEDIUM: "warning",
}  # fmt: skip


def name_of(run_name: str) -> str:
    """The name of the check run of the runs called ``run_name``, "" for none."""
    return f"{_TOOL} / {run_name}" if run_name not in ("", _TOOL) else _TOOL


def post(
    client: GitHubClient,
    to: Destination,
    report: Report,
    *,
    summary: str,
    run: str,
    unfinished: str,
    limit: int,
    others: Mapping[int, str] = {},
) -> None:
    """Post the check run of the head, complete with its first request, but for annotations.

    ``summary`` has at most 65,535 bytes, ``unfinished`` is the conclusion for a report that is
    incomplete or did not run, ``limit`` the maximum of annotations, ``others`` what
    :func:`other_pulls` found. Raises RemoteError.
    """
    path = f"/repos/{to.repository}/check-runs"
    annotations, left = _annotations(report, limit)
    title = wording.verdict_line(report)
    if left:
        title = f"{title} ({wording.count(left, 'finding')} not annotated)"
    if others:
        title = f"#{to.number}: {title}; {told_of(others)}"
    output = {"title": title[:255], "summary": summary}
    result = conclusion([report.verdict(), *others.values()], unfinished)
    if result == "success" and (wording.is_unread(report) or wording.reported(report.parts)):
        result = "neutral"  # no green tick, and no merge is stopped
    body = {
        "name": name_of(to.name),
        "head_sha": to.head,
        "status": "completed",
        "conclusion": result,
        "external_id": run,
        "output": {**output, "annotations": annotations[:BATCH]},
    }

    find_ours = partial(find, client, to, run=run)
    check_run = record(client.write("POST", path, body, done=find_ours), path)
    if not isinstance(check_run.get("id"), int):
        raise UnreachableError("GitHub's answer is not a check run", path)
    run_path = f"{path}/{check_run['id']}"
    for start in range(BATCH, len(annotations), BATCH):
        batch = annotations[start : start + BATCH]
        client.more()
        client.write(
            "PATCH", run_path, {"output": {**output, "annotations": batch}},
            done=partial(_with_annotations, client, run_path, start + len(batch)),
        )  # fmt: skip


def _with_annotations(client: GitHubClient, path: str, total: int) -> dict[str, Any] | None:
    check_run = client.get(path)
    has = record(check_run.get("output"), path).get("annotations_count") or 0
    if not isinstance(has, int):
        raise UnreachableError("GitHub does not say how many annotations there are", path)
    return check_run if has >= total else None


def find(
    client: GitHubClient, to: Destination, *, run: str | None = None, author: str | None = None
) -> dict[str, Any] | None:
    """Our latest check run of the head: that of the run ``run``, or one that ``author`` made."""
    for check_run in _earlier_check_runs(client, to):
        app = text(record(check_run.get("app")).get("slug"))
        if run in (None, check_run.get("external_id")) and author in (None, f"{app}[bot]"):
            return check_run
    return None


def _earlier_check_runs(client: GitHubClient, to: Destination) -> Iterator[dict[str, Any]]:
    """The check runs of this name on the head, the newest first."""
    path = f"/repos/{to.repository}/commits/{to.head}/check-runs"
    for page in client.pages(path, "check_runs", check_name=name_of(to.name), filter="all"):
        yield record(page, path)


def other_pulls(client: GitHubClient, to: Destination) -> dict[int, str]:
    """The verdicts on the other open pull requests with the same head, "" for an unknown one.

    GitHub gives a commit one check run of a name, whatever it was compared with: the newest.
    Raises RemoteError.
    """
    path = f"/repos/{to.repository}/commits/{to.head}/pulls"
    others: dict[int, str] = {}
    for page in client.pages(path):
        pull = record(page, path)
        number, is_open = pull.get("number"), pull.get("state") == "open"
        same = record(pull.get("head")).get("sha") == to.head
        if is_open and same and type(number) is int and number != to.number:
            others[number] = ""
    for check_run in _earlier_check_runs(client, to) if others else ():
        last = summary_comment.checkpoint_of(text(record(check_run.get("output")).get("summary")))
        if last and last.head == to.head and others.get(last.number) == "":
            others[last.number] = last.verdict
    return others


_ON_COMMITS = """\
commit {
  oid
  checkSuites(first: 30) {
    totalCount
    nodes {
      app { slug databaseId }
      checkRuns(first: 100, filterBy: {checkType: ALL}) { totalCount nodes { summary } }
    }
  }
}"""
#: Requests for the check runs of commits that have more than the query lists, of a hundred each.
_MOST_PAGES = 30
#: GitHub lists the check runs of so many suites of a commit, the newest.
_MOST_SUITES = 1000


class CheckRunStates(Value):
    """What our check runs on the commits of a pull request say of it.

    ``unread`` is why not all were read, "" if all were; ``way_on`` is what to do about it.
    """

    states: tuple[Checkpoint, ...]
    unread: str = ""
    way_on: str = ""


def states_of(client: GitHubClient, to: Destination, author: str) -> CheckRunStates:
    """What ``author``'s check runs say, as far as they can be read.

    Nobody can delete a check run. The commits that a forced push has removed are not looked at.
    """
    states: list[Checkpoint] = []
    unread = way_on = ""
    try:
        for summary in _summaries(client, to, bare(author)):
            state = summary_comment.checkpoint_of(summary)
            states += [state] if state and state.number == to.number else []
    except RemoteError as error:
        unread = f"the check runs cannot all be read: {error}"
        way_on = error.hint if isinstance(error, GitHubRefusedError) else "run it again later"
    return CheckRunStates(tuple(states), unread, way_on)


def _summaries(client: GitHubClient, to: Destination, app: str) -> Iterator[str]:
    """The texts of the check runs of ``app``, some of them twice. Raises RemoteError after some."""
    commits = client.of_pull_request(
        to.repository, to.number, "commits", fields=_ON_COMMITS, what="commits"
    )
    unlisted: list[str] = []
    by_app: dict[str, str] = {}
    largest = 0
    for row in commits.rows:
        commit = record(record(row).get("commit"))
        suites, total = _nodes(commit.get("checkSuites"))
        largest, is_whole = max(largest, total), total == len(suites)
        for suite in suites:
            owner = record(suite.get("app"))
            if text(owner.get("slug")) == app:
                app_id = owner.get("databaseId")
                by_app = {"app_id": str(app_id)} if type(app_id) is int else {}
                check_runs, total = _nodes(suite.get("checkRuns"))
                is_whole = is_whole and total == len(check_runs)
                yield from (text(check_run.get("summary")) for check_run in check_runs)
        if not is_whole:
            unlisted.append(text(commit.get("oid")))
    before = client.requests
    for oid in reversed(unlisted):
        path = f"/repos/{to.repository}/commits/{oid}/check-runs"
        client.more()
        for check_run in map(record, client.pages(path, "check_runs", filter="all", **by_app)):
            if client.requests - before > _MOST_PAGES:
                raise UnreachableError(f"{_MOST_PAGES} pages were not enough", f"GET {path}")
            if text(record(check_run.get("app")).get("slug")) == app:
                yield text(record(check_run.get("output")).get("summary"))
    if largest > _MOST_SUITES:
        raise UnreachableError(f"GitHub lists those of {_MOST_SUITES:,} suites alone", "REST")


def _nodes(connection: Any) -> tuple[list[dict[str, Any]], int]:
    """The nodes of a connection that are listed, and how many it has; -1 for null."""
    listed = record(connection)
    total = listed.get("totalCount")
    return list(map(record, rows(listed.get("nodes")))), total if type(total) is int else -1


def told_of(others: Mapping[int, str]) -> str:
    """What the other pull requests with the same head have to do with this one."""
    texts = {FINDINGS: "has findings", CLEAN: "is clean", "": "is not checked yet"}
    words = (f"#{pull} {texts.get(word, 'is not fully checked')}" for pull, word in others.items())
    return f"with the same commit, {', '.join(words)}"


def conclusion(verdicts: Sequence[str], unfinished: str) -> str:
    """GitHub's word for the worst. ``neutral`` and ``skipped`` would let a merge through."""
    if FINDINGS in verdicts:
        return "failure"
    return "success" if set(verdicts) == {CLEAN} else unfinished


def _annotations(report: Report, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Annotations for findings on lines of the head, and how many findings have none."""
    live, _ = wording.parted(wording.worst_first(report.findings))  # nothing is folded here
    able = [
        finding
        for finding in live
        for location in finding.evidence[:1]
        if location.side == "new" and encodable(location.path) == location.path
    ]
    return [_annotation(finding) for finding in able[:limit]], len(live) - len(able[:limit])


def _annotation(finding: Finding) -> dict[str, Any]:
    location = finding.evidence[0]
    start = location.line_start or 1
    texts = [neutralise.one_line(text) for text in (finding.message, finding.hint) if text]
    page = address(finding.rule, finding.source)
    more = f"\n{page}" if page else ""
    return {
        "path": location.path,
        "start_line": start,
        "end_line": max(start, location.line_end or start),
        "annotation_level": _LEVELS.get(finding.severity, "notice"),
        "title": neutralise.clip(finding.rule, 255),
        "message": neutralise.clip("\n".join(texts), _LONGEST_MESSAGE - len(more)) + more,
    }
