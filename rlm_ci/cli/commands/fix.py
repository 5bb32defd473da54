"""``rlm-ci fix``: let an agent edit until the validator passes."""

from __future__ import annotations

from rlm_ci.cli.commands import rlm
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, LOOP, MODEL, RLMS_DRY_RUN
from rlm_ci.solve import pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "let an agent edit until your tests pass"
USAGE = '"GOAL" [OPTION...]'
TAKES = ("one goal", 0, 1)
EXAMPLES = (
    'rlm-ci fix "make the tests pass"',
    'rlm-ci fix "mend the parser" --agent claude --validator "pytest tests/test_parser.py"',
)
EXITS = rlm.FIX_EXITS
ROWS = (*COMMON, *LOOP, *RLMS_DRY_RUN, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    goal, *_ = (*arguments.words, None)
    return rlm.start({**arguments.flags, "mode": pipeline.ITERATIVE}, goal, "fix")
