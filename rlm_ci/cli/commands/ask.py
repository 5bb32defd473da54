"""``rlm-ci ask``: answer a question from a long text, with citations."""

from __future__ import annotations

from rlm_ci.cli.commands import rlm
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, LOOP, MODEL, SYMBOLIC
from rlm_ci.errors import UsageError
from rlm_ci.pipelines import stored_runs
from rlm_ci.solve import pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "answer a question from a long text, with citations"
USAGE = '"QUESTION" PATH [OPTION...]'
TAKES = ("a question, and a file, a folder, a glob, or - for standard input", 1, 2)
EXAMPLES = (
    'rlm-ci ask "Which request failed first?" build.log',
    'rlm-ci ask "Where is the cache cleared?" src --model gpt-5',
)
EXITS = rlm.ASK_EXITS
_OF_LOOP = ("loop.max_iterations", "loop.max_minutes", "sandbox")
ROWS = (
    *COMMON,
    *(row for row in SYMBOLIC if row.key not in ("mode", "context.source")),
    *(row for row in LOOP if row.key in _OF_LOOP),
    *MODEL,
    *BUDGET,
)


def run(arguments: Arguments) -> int:
    question, *paths = arguments.words
    flags = {**arguments.flags, "mode": pipeline.SYMBOLIC}
    if paths:
        flags["context.source"] = paths[0]
    elif not stored_runs.settings_of(flags).context.source:
        raise UsageError(
            "there is no text to ask about",
            where="rlm-ci ask",
            hint=f"name a file, a folder, or - for standard input: rlm-ci ask {USAGE}",
        )
    return rlm.start(flags, question, "ask")
