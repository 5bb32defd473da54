"""``rlm-ci rlm``: fix until green, or answer a question from a long text."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, LOOP, MODEL, SYMBOLIC
from rlm_ci.errors import UsageError
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.run_context import STDIN
from rlm_ci.solve import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "fix until green, or answer a question from a long text"
USAGE = '"GOAL" [OPTION...]'
TAKES = ("one goal", 0, 1)
EXAMPLES = (
    'rlm-ci rlm "make the tests pass" --agent codex --max-iterations 10',
    'rlm-ci rlm "Which request failed first?" --context build.log',
)
EXITS = {
    errors.OK: "the validator passes, or the question is answered; without a validator, a "
    "budget is used up",
    errors.FINDINGS: "the guard refuses the result, or the question cannot be answered",
    errors.USAGE: "there is no validator, or there are several",
    errors.LIMIT: "a budget is used up, or nothing changed",
}
PIPELINE = "rlm"
ROWS = (*COMMON, *LOOP, *SYMBOLIC, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    flags = dict(arguments.flags)
    if arguments.words:
        flags["loop.goal"] = arguments.words[0]
    settings = stored_runs.settings_of(flags)
    source = settings.context.source
    if source and source != STDIN:  # a resumed run may be in another folder
        flags["context.source"] = os.path.abspath(source)
    goal = settings.loop.goal
    if not goal or not goal.strip():
        raise UsageError("there is no goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    return foreground.conduct(PIPELINE, settings, flags, goal)
