"""The commands that are answered by a reply alone: no verdict, no summary, no check run.

``/rlm-ci ask``: an answer from the commit at the head, as git has it; nothing is checked out.
``/rlm-ci fix``: the label that starts the fix loop, and the goal that its job finds there.
"""

from __future__ import annotations

import os
import re
from functools import partial

from rlm_ci import errors
from rlm_ci.ask.run import AskRun
from rlm_ci.change import trigger
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings, nearest
from rlm_ci.console.messages import say
from rlm_ci.console.progress import Progress
from rlm_ci.context.builder.build import build
from rlm_ci.context.builder.sources import CommitFiles
from rlm_ci.environments.symbolic.planner.planner import BadPlanError
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.github import session
from rlm_ci.github.posting.review_threads import read_marker
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import subject_of
from rlm_ci.judge.options import reviewer_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.attempt import Mode, VerbJob, without_runs
from rlm_ci.pipelines.runner import live
from rlm_ci.pull_request import comment_commands, replies
from rlm_ci.pull_request.replies import ExplainedFinding, ReplyPlace
from rlm_ci.pull_request.slash_grammar import EXPLAIN, FIX, HELP
from rlm_ci.report import rules
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.console.output import Output
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.models.record.record import Record
    from rlm_ci.pull_request.comment_commands import CommentCommand
    from rlm_ci.report.findings import Report


LABEL = "rlm-fix"
#: Who writes with ``GITHUB_TOKEN``: nothing that it does starts a workflow.
_JOB = "github-actions[bot]"


def request(posting: PostingOptions, output: Output, command: CommentCommand) -> None:
    """Reply, then set the label; one that is there is taken away first, for only a new one starts
    a job. Raises ConfigError if it would start none, RemoteError.
    """
    way = _labeller(posting, command.way)
    to, head = command.to, command.pull["head"]["sha"]
    text = replies.fix_requested(LABEL, command.command.text)
    replies.deliver(posting, output, command.way, to, text, fix_at=head)
    labels = f"/repos/{to.repository}/issues/{to.number}/labels"
    names = [row.get("name") for row in command.pull.get("labels") or () if isinstance(row, dict)]
    try:
        if LABEL in names:
            way.write("DELETE", f"{labels}/{LABEL}")
        way.write("POST", labels, {"labels": [LABEL]})
    except RemoteError as refused:
        replies.post(posting, command.way, to, replies.refusal(refused))
        raise
    say(f"the label {LABEL} is set")


def _labeller(posting: PostingOptions, way: GitHubClient) -> GitHubClient:
    """The client whose label starts a workflow. Raises ConfigError if there is none."""
    from rlm_ci.github.posting import review_threads

    if posting.label_token:
        return session.client(posting.access.replace(token=posting.label_token))
    if review_threads.viewer(way) == _JOB:
        raise ConfigError(
            "GitHub starts no workflow for a label that is set with GITHUB_TOKEN",
            where="RLM_CI_GITHUB_LABEL_TOKEN",
            hint=f"set the label {LABEL} by hand; or store another token, which may write pull "
            "requests of this repository, as the secret RLM_LABEL_TOKEN",
        )
    return way


def goal(
    configured: str, posting: PostingOptions, change: ChangeSet | None, way: GitHubSession
) -> str:
    """The goal of the fix loop: that of the comment which set the label, else the ``configured``.

    Raises ConfigError if the comment does not count any more, RemoteError.
    """
    if not (change and _is_labelled(posting.event) and posting.access.token):
        return configured
    if change.pull_request is None or not change.name or not change.head:
        return configured
    to = ReplyPlace(change.name, change.pull_request.number, 0)
    last_request = replies.last_fix(way.client(), to, change.head)
    if last_request is None:
        return configured
    comment, is_thread = last_request
    pull = way.client().get(f"/repos/{to.repository}/pulls/{to.number}")
    command, person = comment_commands.again(
        way.client(), to.repository, pull, comment, is_thread=is_thread
    )
    if command is None or command.name != FIX or not command.text:
        return configured
    say(f"the goal is that of {person}, comment {comment}")
    return command.text


def _is_labelled(path: str) -> bool:
    """Whether the label started this job, by the event in the file ``path``."""
    if not path or path.startswith("/dev/"):
        return False
    payload = trigger.load(path)
    label = payload.get("label")
    is_ours = isinstance(label, dict) and label.get("name") == LABEL
    return payload.get("action") == "labeled" and is_ours


#: The fingerprint of a finding, or its beginning; a place of one.
_FINDING = re.compile(r"[0-9a-f]{8,32}")
_PLACE = re.compile(r"(?P<path>.+):(?P<line>[0-9]{1,7})")
_RULE = re.compile(r"`([a-z][a-z0-9-]*/[a-z0-9-]+)`")
#: Findings of one place that are explained.
_MOST = 3


def answer(
    posting: PostingOptions,
    output: Output,
    environ: Mapping[str, str],
    comment_command: CommentCommand,
) -> int:
    """Carry a command out, and reply; the exit code.

    ``environ`` are the variables of a question's settings. Raises RlmCiError, once the reply says
    why.
    """
    with replies.refusals(posting, comment_command.way, comment_command.to):
        command, code = comment_command.command, errors.OK
        if command.name == FIX:
            request(posting, output, comment_command)
            return errors.OK
        if command.name == HELP:
            text = replies.commands()
        elif command.name == EXPLAIN:
            text = replies.explained(_explained(comment_command))
        else:
            text, code = _answered(environ, output.server_url, comment_command)
    replies.deliver(posting, output, comment_command.way, comment_command.to, text)
    return code


def _answered(environ: Mapping[str, str], server: str, command: CommentCommand) -> tuple[str, int]:

    if command.change is None:
        raise AssertionError("a question is about a change")
    report = answer_question(environ, command.change, _question(command), command.to.repository)
    return replies.answered(command.command.text, report, server), report.exit_code()


def _question(command: CommentCommand) -> str:
    """The question, in a thread with the lines that the thread is about."""
    text = command.command.text
    if not command.to.thread:
        return text
    first = command.way.get(command.to.edited(command.to.thread))
    path, line = first.get("path"), first.get("line") or first.get("original_line")
    if not isinstance(path, str):
        return text
    at = f"{path!r}, line {line}" if type(line) is int else repr(path)
    return f"{text}\n\n(The question stands in a thread about {at}.)"


# ── explain ──


def _explained(command: CommentCommand) -> list[ExplainedFinding]:
    """What is to be explained. Raises ConfigError for nothing that is known."""
    text = command.command.text
    rule = text.strip("`").casefold()
    if "/" in rule and rules.markdown(rule) is not None:
        return [ExplainedFinding(rule)]
    if not text and not command.to.thread:
        raise _unknown("a rule or a finding is missing", "")
    findings = list({finding.rule: finding for finding in _findings(command)}.values())[:_MOST]
    if not findings:
        what = f"no rule and no finding of a review comment is called {text[:80]!r}"
        raise _unknown(what if text else "this thread is not about a finding of ours", rule)
    return findings


def _findings(command: CommentCommand) -> Iterator[ExplainedFinding]:
    """The findings of our review comments that the command means."""
    from rlm_ci.github.posting import review_threads

    to, text = command.to, command.command.text.strip("`")
    author = review_threads.viewer(command.way)
    for record in command.way.pages(to.replace(thread=1).comments):
        user = record.get("user") if isinstance(record, dict) else None
        if not isinstance(user, dict) or user.get("login") != author:
            continue
        body = str(record.get("body") or "")
        mark = read_marker(body)
        if mark and _is_meant(text, mark, record, to.thread):
            rule = next((name for name in _RULE.findall(body) if rules.markdown(name)), None)
            if rule:
                yield ExplainedFinding(rule, _url(record))


def _is_meant(name: str, mark: str, record: dict[str, Any], thread: int) -> bool:
    if not name:
        return record.get("id") == thread
    if _FINDING.fullmatch(name):
        return mark.startswith(name)
    match = _PLACE.fullmatch(name)
    lines = (record.get("line"), record.get("original_line"))
    return bool(match and match["path"] == record.get("path") and int(match["line"]) in lines)


def _url(record: dict[str, Any]) -> str:
    url = str(record.get("html_url") or "")
    is_plain = re.fullmatch(r"https://[\w.:/#-]{1,300}", url, re.ASCII)
    return url if is_plain else ""


def _unknown(what: str, rule: str) -> ConfigError:
    hint = nearest(rule, rules.rule_names()) if "/" in rule else ""
    return ConfigError(
        what,
        where="the comment",
        hint=hint or "name a rule, such as diff-budget/files, or a finding, as src/shop.py:41",
    )


_PIPELINE = "rlm"
#: Limits of a question, unless others are set.
_DEFAULTS = (("loop.max_minutes", 20.0), ("loop.max_iterations", 12.0), ("max_calls", 60))
#: Settings that do not hold here: no agent answers, and no code runs.
_NOT_HERE = (("loop.agent", None), ("symbolic.environment", "symbolic"), ("context.source", None))


class _QuestionJob(VerbJob):
    """Answers from a commit. The text of its files is one private file of the run."""

    def __init__(self, settings: Settings, change: ChangeSet, progress: Progress) -> None:
        runs = stored_runs.StoredRuns(settings)
        super().__init__(
            settings,
            change.repository,
            progress,
            skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        )
        self._commit = change.head or ""

    def prepare(self, run: Run, goal: str | None) -> None:  # noqa: ARG002 - the files alone count
        source = CommitFiles(self.repository, self._commit)
        build(source, run.path_of("rlm", "context"), required=True).close()

    def attempt(self, run: Run, goal: str, record: Record) -> AskRun:
        mode = Mode("symbolic", "a comment asks a question")
        commit = self._commit
        ask_run = AskRun(self, run, goal, record, mode, required=True, commit=commit).carry_out()
        if isinstance(ask_run.error, BadPlanError):  # its own hint is for a run that is kept
            hint = "ask again; or take a model that keeps to JSON"
            ask_run.error = ConfigError(ask_run.error.what, where="the model", hint=hint)
        return ask_run


def answer_question(
    environ: Mapping[str, str], change: ChangeSet, question: str, repository: str
) -> Report:
    """The report with the answer to ``question``, by the model of the base's configuration.

    Raises ConfigError without a model, and what a run raises.
    """
    settings = Settings(PROGRAM, {}, environ)
    config_file.apply(settings, change)
    comment_commands.require_model(reviewer_of(settings), "question")
    for key, value in _DEFAULTS:
        if settings.sources[key] == "default":
            settings.values[key] = value
    settings.values.update(_NOT_HERE)
    process.harden()
    with (
        files.scratch("rlm-ci-ask-") as scratch,
        Progress(settings.environ, quiet=settings.quiet) as progress,
    ):
        work = _QuestionJob(settings, change, progress)
        with Run.create(
            RunStore(scratch, "ask"),
            "rlm-pr",
            pipeline_id=_PIPELINE,
            redactor=stored_runs.StoredRuns(settings).redactor,
            out=os.path.join(scratch, "out"),
        ) as run:
            live(run, partial(work, run, question))
    if work.report is None:
        raise AssertionError("a question ends with a report or an error")
    return work.report.replace(subject=subject_of([change], repository))
