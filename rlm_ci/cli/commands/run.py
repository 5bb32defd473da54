"""``rlm-ci run``: one episode of a model in an environment."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, EPISODE, LOOP, MODEL, SYMBOLIC
from rlm_ci.errors import UsageError
from rlm_ci.pipelines import definition, stored_runs
from rlm_ci.pipelines.run_context import STDIN
from rlm_ci.pipelines.stored_runs import OUT_DIR, SANDBOX
from rlm_ci.solve import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "let a model solve a task in an environment, step by step"
USAGE = '"TASK" [OPTION...]'
TAKES = ("one task", 0, 1)
EXAMPLES = (
    'rlm-ci run "What is the 1000th prime number?" --model gpt-5-mini',
    'rlm-ci run "How many failed?" --environment pure_rlm --context orders.log',
)
EXITS = {
    errors.OK: "the model says that the task is done",
    errors.FINDINGS: "the episode ended without that",
    errors.LIMIT: "the steps or another budget are used up",
}
_CONTEXT = tuple(row for row in SYMBOLIC if row.key in ("context.source", "context.encoding"))
_CODE = tuple(row for row in LOOP if row.key in ("loop.validator", "loop.apply"))
ROWS = (*COMMON, *EPISODE, *_CONTEXT, *_CODE, *SANDBOX, *OUT_DIR, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    flags = dict(arguments.flags)
    settings = stored_runs.settings_of(flags)
    source = settings.context.source
    if source and source != STDIN:  # a resumed run may be in another folder
        flags["context.source"] = os.path.abspath(source)
    if settings.episode.mcp_config:
        flags["episode.mcp_config"] = os.path.abspath(settings.episode.mcp_config)
    task = arguments.words[0] if arguments.words else ""
    if not task.strip():
        raise UsageError("there is no task", where="rlm-ci run", hint=f"rlm-ci run {USAGE}")
    return foreground.conduct(definition.EPISODE, settings, flags, task)
