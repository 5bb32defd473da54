"""The rules of a review: what its analyzers and its model find, by the headings of their names."""

from __future__ import annotations

from rlm_ci.report.findings import Severity
from rlm_ci.review.analyzers import ruff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.report.rules import Rule

RULES: Mapping[str, Rule] = {
    "ruff-CODE": {
        "severity": Severity.LOW,
        "finds": "What the built-in analyzer finds in Python: a rule of ruff, by its code in small "
        "letters, such as `review/ruff-f821`. The table below has the severity of each. In tests, "
        "rules of security do not apply, and most others have severity `low`. Rules that only "
        "`review.ruff.extend` names have severity `low`.",
        "example": "Undefined name `totl`",
        "fix": "Follow the page of ruff that the table links to.",
        "override": "Write `# noqa: CODE` on the line, or add a "
        "[suppression](#accept-a-finding) of `review/ruff-code`. Where the repository has settings "
        "of ruff, what they do not select is not reported, but for findings of severity `high`.",
    },
    f"{ruff.NAME}-{ruff.SYNTAX}": {
        "severity": Severity.HIGH,
        "finds": "A Python file that does not parse, also because of a merge conflict. Severity "
        "`medium` where it looks like a template or like Python 2, `low` for data of tests.",
        "example": "SyntaxError: Expected an expression",
        "fix": "Fix the file. Exclude a file that is not Python with `recursion.exclude`.",
    },
    "TOOL-RULE": {
        "severity": Severity.MEDIUM,
        "finds": "What another analyzer finds: one of `[[review.analyzers]]`, or a tool that the "
        'repository sets up (`review.analyzers = "auto"`). Its name and its rule make the name, '
        "such as `review/shellcheck-sc2086`. An error has severity `high`, a warning `medium`, a "
        "note `low`; tools of the repository `medium` at most.",
        "example": "Double quote to prevent globbing and word splitting.",
        "fix": "Fix what the tool reports. The hint has the address of its documentation, where "
        "the tool gives one.",
        "override": "Add a [suppression](#accept-a-finding), or use the tool's own comment. Limit "
        "an analyzer with `max_severity`.",
    },
    "architecture-NAME": {
        "severity": Severity.MEDIUM,
        "finds": "What a model concludes from all findings together. Each claim rests on two "
        "findings or more, and is not more severe than they are.",
        "example": "Three modules parse the same header, each in its own way",
        "fix": "Open the findings that it rests on, and decide.",
    },
    "NAME": {
        "severity": Severity.MEDIUM,
        "finds": "What a model finds, under a name that it chooses. Each place that it points to "
        "was opened, and has the quote. The severity is the model's; a second "
        "question tries to refute findings of severity `high` or more.",
        "example": "The lock is released before the file is synced",
        "fix": "Read the quoted lines. Apply the suggested fix if it is right.",
    },
}
