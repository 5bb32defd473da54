"""What the built-in agent's tools need of a run of the fix loop."""

from __future__ import annotations

from functools import partial

from rlm_ci.environments.coding.tools import Services
from rlm_ci.environments.coding.workspace_services import WorkspaceServices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.verdict import ResultJudge
    from rlm_ci.git.repository import Repository


def services_of(context: FixContext, judge: ResultJudge, repository: Repository) -> Services:
    """The services that the options of the run allow."""
    seconds = context.options.command_seconds
    copy = WorkspaceServices(
        context.commands,
        context.fact,
        context.redactor,
        path_of=judge.next_step,
        seconds=lambda: context.seconds_left(seconds),
    )
    has_commits = context.commands.workspace.snapshot.head
    return Services(
        tests=judge.tests if context.validator else None,
        run=copy.run if seconds else None,
        diff=copy.diff,
        restore=copy.restore,
        variables=tuple(sorted(context.commands.env)),
        history=partial(copy.history, repository) if has_commits else None,
    )
