"""``rlm-ci publish``: post a stored report, in the privileged job of the two-job pattern.

A pull request's own code may have made the report. So its size and schema are checked, the pull
request and its head come from the event and the API, and places from GitHub's diff.
"""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.change import change_set, trigger
from rlm_ci.cli.commands.verify import read_report
from rlm_ci.config.core_options import CHANGE, COMMON
from rlm_ci.config.options import PROGRAM, PUBLISH
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import warn
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.github.posting import publisher
from rlm_ci.github.posting.outcome import Destination
from rlm_ci.github.session import GitHubSession
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import Judgement, open_repository, read_templates
from rlm_ci.judge.options import output_of, posting_of, run_name
from rlm_ci.pull_request import answers
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Subject, Usage
from rlm_ci.text import neutralise
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.report.findings import Report

SUMMARY = "post a stored report on its pull request, or each of a folder"
USAGE = "REPORT [OPTION...]"
TAKES = ("one report, or a folder of reports", 1, 1)
EXAMPLES = ("rlm-ci publish report.json",)
FORMS = ("text", "json")
EXITS = {errors.OK: "all is posted", errors.REMOTE: "GitHub did not take all of it"}
#: Bytes of a report, the same limit as in the workflow that fetches it.
_LIMIT = 10 << 20
_HEAD = ("head", "sha")
#: The command always publishes.
ROWS = tuple(
    row
    for row in (*COMMON, *CHANGE, *PUBLISH)
    if row.key not in ("base", "head", "publish.enabled")
)


def run(arguments: Arguments) -> int:
    settings = Settings(PROGRAM, arguments.flags)
    output_of(settings).require_text_or_json("publish")
    reports = [read_report(path, _LIMIT) for path in _paths(arguments.words[0])]
    repository = open_repository(settings)
    change = change_set.from_local(repository, "worktree")
    for doubt in config_file.apply(settings, change):
        warn(doubt)
    if not settings.github.token:
        raise ConfigError(
            "there is no token to post with",
            where="GITHUB_TOKEN",
            hint="give it in the environment; in a workflow: ${{ github.token }}",
        )
    judgements = [Judgement(report, settings, repository, (change,)) for report in reports]
    lost = [judgement for judgement in judgements if not _publish(judgement)]
    if lost:
        raise RemoteError(
            "the report could not be posted completely",
            where=f"{len(lost)} of {count(len(reports), 'report')}",
            hint="see the warning above; what is there already is not posted twice",
        )
    return errors.OK


def _paths(path: str) -> list[str]:
    """The report, or those of the folder, in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.endswith(".json"))
    if not names:
        raise ConfigError(
            "the folder has no report", where=printable(path), hint="name a folder of *.json files"
        )
    return [os.path.join(path, name) for name in names]


def _publish(judgement: Judgement) -> bool:
    """Whether the report of ``judgement`` is posted completely. Raises RlmCiError."""
    settings, output = judgement.settings, output_of(judgement.settings)
    publishing = posting_of(settings)
    way = GitHubSession(publishing.access)  # its limits hold for one report
    destination, report, pull = _addressed(settings, judgement.report, way.client())
    report = Redactor(settings.environ).report(report)
    held_overrides = answers.overrides_on_head(publishing, report, destination, way)
    report = answers.apply(publishing, answers.overridden(report, held_overrides), destination, way)
    options = output.options(read_templates(judgement))
    publication = publisher.post(
        publishing, report, destination, options, way, overrides=held_overrides, pull=pull
    )
    if settings.github.actions and publication.url:
        publishing.write_outputs({"comment-url": publication.url})
    if settings.format == "json":
        output.emit(neutralise.record(publication.to_dict()))
    elif publication.url:
        output.emit(f"{publication.url}\n")
    return publication.ok


def _addressed(
    settings: Settings, report: Report, way: GitHubClient
) -> tuple[Destination, Report, dict[str, Any]]:
    """The destination, the trusted part of the report, and the pull request."""
    path = settings.event or (settings.github.actions and settings.github.event_path)
    payload = trigger.load(path) if path else {}
    if isinstance(payload.get("workflow_run"), dict):
        return _of_other_job(settings, payload, report, way)
    subject = report.subject
    event_pull = trigger.pull_request_of(payload, path) if path else None
    number = event_pull.number if event_pull else subject.pull_request
    # The report cannot name another repository: the token of this job may reach further.
    name = _at(payload, "repository", "full_name")
    if not isinstance(name, str) or name.count("/") != 1:
        name = (settings.github.actions and settings.github.repository) or subject.repository
    name = name or settings.github.repository
    if number is None or name is None or subject.head is None:
        raise ConfigError(
            "the report is not about a pull request",
            where="REPORT",
            hint="publish the report of a run with --event, or on a pull_request event",
        )
    pull = way.get(Destination(name, number, subject.head).path)
    if event_pull and subject.head not in (_at(pull, *_HEAD), _at(payload, "pull_request", *_HEAD)):
        raise ConfigError(
            f"the report is about {subject.head[:12]}, which is not the head of {name}#{number}",
            where="REPORT",
            hint="publish the report of a run on this very event",
        )
    subject = subject.replace(repository=name, pull_request=number)
    return _compared(settings, report.replace(subject=subject), pull, way)


def _at(value: Any, *keys: str) -> Any:
    """The value of a payload below these keys; None without one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _compared(
    settings: Settings, report: Report, pull: dict[str, Any], way: GitHubClient
) -> tuple[Destination, Report, dict[str, Any]]:
    """The same, with what GitHub, not the report, compares the head with. Raises RemoteError."""
    subject, target = report.subject, _at(pull, "base", "ref")
    name, number, head = subject.repository, subject.pull_request, subject.head
    if name is None or number is None or head is None:
        raise AssertionError("a report that is posted has a pull request")
    merge_base = way.merge_base(name, _at(pull, "base", "sha"), head)
    to = Destination(
        name, number, head, run_name(settings) if settings.publish.name else report.name,
        target if isinstance(target, str) else "", merge_base if is_object_id(merge_base) else None,
    )  # fmt: skip
    subject = subject.replace(merge_base=to.merge_base)
    return to, report.replace(subject=subject, name=to.name), pull


def _of_other_job(
    settings: Settings, payload: Mapping[str, Any], report: Report, way: GitHubClient
) -> tuple[Destination, Report, dict[str, Any]]:
    """For a ``workflow_run`` event: only the event and the API name the pull request."""
    run = payload["workflow_run"]
    name = _at(payload, "repository", "full_name")
    head = run.get("head_sha")
    if not is_object_id(head) or not isinstance(name, str) or name.count("/") != 1:
        raise ConfigError(
            "the event names no repository and commit",
            where="workflow_run",
            hint="give the payload as GitHub writes it to GITHUB_EVENT_PATH",
        )
    if report.subject.head != head:
        raise ConfigError(
            f"the report is about another commit than the run that made it, {head[:12]}",
            where="REPORT",
            hint="publish the report of this very run",
        )
    if run.get("event") == "merge_group":
        return _of_group(settings, name, head, report)
    pull = _only_pull(name, head, run, way, report.subject.pull_request)
    base = pull["base"].get("sha")
    subject = report.subject.replace(
        repository=name, base=base if is_object_id(base) else None, head=head, merge_base=None,
        worktree=False, pull_request=pull["number"],
    )  # fmt: skip
    # The costs of another job do not count here, and its id is not trusted.
    believed = report.replace(subject=subject, usage=Usage(), publication=None, run_id=None)
    return _compared(settings, believed, pull, way)


def _of_group(
    settings: Settings, name: str, head: str, report: Report
) -> tuple[Destination, Report, dict[str, Any]]:
    """The commit of a merge group: it gets a check run, and no pull request gets anything."""
    called = run_name(settings) if settings.publish.name else report.name
    believed = report.replace(
        subject=Subject(name, None, head), usage=Usage(), publication=None, run_id=None, name=called
    )
    return Destination(name, 0, head, called, is_group=True), believed, {}


def _only_pull(
    name: str, head: str, run: Mapping[str, Any], way: GitHubClient, number: int | None
) -> dict[str, Any]:
    """The only open pull request with exactly this head; of several, the one in the report.

    Raises RemoteError.
    """
    owner = _at(run, "head_repository", "owner", "login")
    branch = run.get("head_branch")
    if isinstance(owner, str) and isinstance(branch, str):
        listed = way.pages(f"/repos/{name}/pulls", state="open", head=f"{owner}:{branch}")
    else:  # the fork is gone
        listed = way.pages(f"/repos/{name}/commits/{head}/pulls")
    pulls = [pull for pull in listed if _is_open_pull(pull, name, head)]
    chosen = pulls if len(pulls) == 1 else [pull for pull in pulls if pull["number"] == number]
    if len(chosen) == 1:
        pull: dict[str, Any] = chosen[0]
        return pull
    why, hint = "it has new commits, or is closed", "the run of its newest commit will post"
    if pulls:
        why = "the report belongs to none of them"
        hint = "run rlm-ci for each pull request, on its own event"
    raise RemoteError(
        f"{count(len(pulls), 'open pull request')} with the head {head[:12]}: {why}",
        where=printable(name),
        hint=hint,
    )


def _is_open_pull(pull: Any, name: str, head: str) -> bool:
    is_open = _at(pull, "state") == "open" and _at(pull, *_HEAD) == head
    is_ours = _at(pull, "base", "repo", "full_name") == name
    return is_open and is_ours and type(pull.get("number")) is int
