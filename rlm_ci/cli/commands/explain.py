"""``rlm-ci explain``: what a rule finds and what to do, as the page of rules says it."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.settings import Settings, nearest
from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.report import rules
from rlm_ci.report.rules import PAGE, address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "explain a rule: what it finds, and what to do"
USAGE = "RULE"
TAKES = ("one rule, such as diff-budget/files, or a check, for its rules", 1, 1)
EXAMPLES = (
    "rlm-ci explain diff-budget/files",
    "rlm-ci explain review/ruff-S602",
    "rlm-ci explain test-guard",
)
FORMS = ("text",)
EXITS = {errors.OK: "done"}
ROWS = COMMON


def run(arguments: Arguments) -> int:
    rule = arguments.words[0].casefold()
    output = output_of(Settings(ROWS, arguments.flags)).require_text("explain")
    if of_check := rules.of_check(rule):
        width = max(len(name) for name, _, _ in of_check)
        rows = (f"{name:<{width}}  {severity:<8}  {text}" for name, severity, text in of_check)
        output.emit("\n".join([*rows, "", f"{PAGE}#{rule}", ""]))
        return errors.OK
    text = rules.plain(rule)
    if text is None:
        raise UsageError(
            f"unknown rule {rule[:80]!r}",
            where="rlm-ci explain",
            hint=_hint(rule),
        )
    heading = "" if text.startswith(rules.HEADINGS) else f"{rule}\n\n"
    output.emit(f"{heading}{text}\n\n{address(rule)}\n")
    return errors.OK


def _hint(rule: str) -> str:
    """The rules that may be meant, by a last part or a similar name; else the page of all."""
    names = rules.rule_names()
    matches = [name for name in names if name.partition("/")[2].casefold() == rule]
    if matches:
        return f"did you mean {' or '.join(matches)}?"
    similar = nearest(rule, names)
    return similar if similar.startswith("did you mean") else f"all rules: {PAGE}"
