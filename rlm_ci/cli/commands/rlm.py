"""``rlm-ci rlm``: fix until green, or answer a question from a long text."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.ask.run import STDIN
from rlm_ci.config.options import BUDGET, COMMON, LOOP, MODEL, SYMBOLIC
from rlm_ci.errors import UsageError
from rlm_ci.pipelines import stored_runs
from rlm_ci.solve import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Setting, Settings

SUMMARY = "fix until green, or answer a question from a long text"
USAGE = '"GOAL" [OPTION...]'
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


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return (*COMMON, *LOOP, *SYMBOLIC, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    goal = _goal(arguments)
    flags = {**arguments.flags, **({"loop.goal": goal} if goal else {})}
    settings = stored_runs.settings_of(flags)
    flags |= kept(settings)
    goal = settings.loop.goal
    if not goal or not goal.strip():
        raise UsageError("there is no goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    return foreground.conduct(PIPELINE, settings, flags, goal)


def kept(settings: Settings) -> dict[str, str]:
    """The flag that names the context from anywhere, for whoever carries the run out later."""
    source = settings.context.source
    if not source or source == STDIN:
        return {}
    return {"context.source": os.path.abspath(source)}


def _goal(arguments: Arguments) -> str | None:
    """The goal on the command line: one text, or nothing."""
    words = (*arguments.positionals, *arguments.rest)
    if len(words) > 1:
        raise UsageError("rlm takes one goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    return words[0] if words else None
