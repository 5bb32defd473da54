"""The rules of the parts that ``pr`` adds to the checks."""

from __future__ import annotations

from rlm_ci.report.findings import Severity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.report.rules import Rule

POLICY: Mapping[str, Rule] = {
    "edited": {
        "severity": Severity.INFO,
        "finds": "A change from outside edits a file that decides how it is checked: the "
        "configuration, `.gitattributes`, a template, the archive policy. rlm-ci used the "
        "file of its base.",
        "example": "the change edits rlm-ci.toml; rlm-ci used the version of its base",
        "fix": "Nothing to do. Review the edit with care: it applies to later changes.",
    },
}
WIKI: Mapping[str, Rule] = {
    "stale": {
        "severity": Severity.INFO,
        "finds": "The change edits lines that a page of the wiki cites.",
        "example": "the wiki's page modules/shop.md cites lines that this change edits",
        "fix": "Run `rlm-ci wiki`, or leave it to the next refresh.",
    },
}
