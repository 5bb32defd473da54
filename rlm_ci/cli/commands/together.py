"""``rlm-ci together``: what breaks when all open pull requests are merged."""

from __future__ import annotations

import sys

from rlm_ci import errors
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.config.core_options import CHANGE, COMMON, REPORT
from rlm_ci.config.options import TOGETHER
from rlm_ci.console import output
from rlm_ci.console.messages import warn
from rlm_ci.github.session import GitHubSession
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import open_repository, repository_name
from rlm_ci.judge.options import access_of, output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Report, Severity, Subject
from rlm_ci.together.compare import compare
from rlm_ci.together.pull_requests import PullRequestSource, of_branches, of_pull_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository

SUMMARY = "what breaks when the open pull requests are all merged"
USAGE = "[--base BRANCH] [OPTION...] | BRANCH BRANCH... [--base REF] [OPTION...]"
TAKES = ("branches", 0, sys.maxsize)
EXAMPLES = (
    "rlm-ci together",
    "rlm-ci together feature/cart feature/tax --base main",
)
EXITS = errors.REPORT_EXITS
_BASE = tuple(row for row in CHANGE if row.key == "base")
ROWS = (*COMMON, *_BASE, *(row for row in REPORT if row.key != "checks"), *TOGETHER)


def run(arguments: Arguments) -> int:
    settings = stored_runs.settings_of(arguments.flags)
    shown = output_of(settings)
    shown.require_place()
    repository = open_repository(settings)
    name = repository_name((), settings, repository, look=True)
    base, source = settings.base or "", settings.sources["base"]
    if arguments.words:
        subject = of_branches(repository, arguments.words, base, source)
    else:
        access, limit = access_of(settings), settings.together.max_changes
        origin = PullRequestSource(access, name or "", limit, GitHubSession(access))
        subject = of_pull_requests(repository, origin, base)
    _configure(settings, repository, subject.base)
    part = config_file.accepted(compare(repository, subject), settings)
    level = Severity.from_label(settings.fail_level)
    report = Report(Subject(name, base=subject.base), level, (part,))
    report = Redactor(settings.environ).report(report)
    shown.show(report)
    output.explain_parts(report)
    return report.exit_code()


def _configure(settings: Settings, repository: Repository, base: str) -> None:
    """Let the configuration of the base decide, whatever is checked out."""
    change = ChangeSet(repository, "range", base=base, head=base, merge_base=base)
    for doubt in config_file.apply(settings, change):
        warn(doubt)
