"""The analyses of a run: what it agrees on at its start, and what carries them out."""

from __future__ import annotations

import os
from contextlib import closing

from rlm_ci.environments.repl.pool import Sessions
from rlm_ci.fix.rlms.analysis import AnalysisContext
from rlm_ci.fix.rlms.before_turn import Analyses
from rlm_ci.fix.rlms.options import RlmsOptions
from rlm_ci.fix.rlms.requests import Requests
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import require_endpoint
from rlm_ci.pipelines import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.fix.options import FixContext
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.job import PipelineJob
    from rlm_ci.runs.run import Run


def agreed(job: PipelineJob, sandbox: str) -> dict[str, Any]:
    """What the options of a new run say of analyses; they need a model and ``sandbox``.

    Raises ConfigError, UnavailableError.
    """
    settings, repository = job.settings, job.repository
    options = RlmsOptions.of(settings.values, settings.sources)
    if not options.enabled or job.settings.loop.agent == "autofix":  # which reads no prompt
        return {}
    require_endpoint(models_of(settings), "set one of them, or leave out loop.rlms.enabled")
    with closing(Sessions(sandbox, settings.environ, replay=False)) as sessions:
        sessions.pool()  # it is found out before anything is paid
    changes = load.changes_of(settings, repository)
    labels = [
        name for change in changes if change.pull_request for name in change.pull_request.labels
    ]
    requests = Requests.of(options.request_keyword, repository, labels).standing
    return {"rlms": {**options.to_dict(), "roles": list(options.roles)}, "asked": requests}


def analyses_of(
    job: PipelineJob,
    run: Run,
    record: Record,
    context: FixContext,
    gateway: Gateway | None,
) -> Analyses | None:
    """What carries out the analyses of a run; None if it has none."""
    fix_options, options = context.options, context.options.analyses
    if options is None or gateway is None:
        return None
    shared = AnalysisContext(
        options,
        gateway,
        fix_options.max_completion_tokens,
        fix_options.max_minutes,
        record,
        context.clock,
        context.redactor,
        context.commands.workspace,
        fix_options.sandbox,
        job.settings.environ,
        run.path,
        context.on_step,
        fix_options.context_tokens,
    )
    return Analyses(
        shared,
        run,
        Requests(options.request_keyword, standing=fix_options.asked),
        options=fix_options,
        original=os.path.dirname(job.replay) if job.replay else None,
    )
