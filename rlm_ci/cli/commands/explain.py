"""``rlm-ci explain``: what a rule finds and what to do, as the page of rules says it."""

from __future__ import annotations

import re

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.settings import nearest
from rlm_ci.console.messages import write
from rlm_ci.errors import UsageError
from rlm_ci.report.rules import address, section
from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "explain a rule: what it finds, and what to do"
USAGE = "RULE"
TAKES = ("one rule, such as diff-budget/files", 1, 1)
EXAMPLES = ("rlm-ci explain diff-budget/files", "rlm-ci explain review/ruff-S602")
EXITS = {errors.OK: "done"}
ROWS = COMMON

#: Rules of a review, by the heading of the page that explains them.
_HEADINGS = ("review/TOOL-RULE", "review/NAME")


def run(arguments: Arguments) -> int:
    rule = arguments.words[0].casefold()
    texts = _sections(loader.read_rules())
    title = section(rule, "check")
    if rule.startswith("review/") and title in _HEADINGS:  # a tool's own, or a model's
        shown = "\n\n".join(f"{one}\n\n{texts[one]}" for one in _HEADINGS)
    elif title in texts:
        shown = f"{rule}\n\n{_own_row(rule, texts[title])}"
    else:
        known = [one for one in texts if "/" in one]
        raise UsageError(
            f"unknown rule {rule[:80]!r}", where="rlm-ci explain", hint=nearest(rule, known)
        )
    write(f"{shown}\n\n{address(rule)}\n")
    return errors.OK


def _sections(page: str) -> dict[str, str]:
    """The texts of the page by their headings, without marks of Markdown."""
    parts = re.split(r"^### (.+)$", page, flags=re.MULTILINE)
    return {
        title: _plain(text.partition("\n## ")[0].strip())
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _own_row(rule: str, text: str) -> str:
    """``text`` with only this rule's row of a table, where it has one."""
    lines = text.split("\n")
    rows = [line for line in lines if line.startswith("|")]
    own = [line.strip("| ").replace(" | ", ", ") for line in rows if f"`{rule}`" in line]
    told = "\n".join(line for line in lines if line not in rows).rstrip()
    if not rows:
        return told
    more = own[0] if own else "It is not among the rules that the built-in analyzer runs by itself."
    return f"{told.replace('The table below has the severity of each. ', '')}\n\n{more}"


def _plain(text: str) -> str:
    text = re.sub(
        r"^```text\n(.*?)\n```$",
        lambda found: "\n".join(f"    {line}" for line in found[1].split("\n")),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    text = re.sub(r"\[([^\]]+)\]\((https:[^)]+)\)", r"\1: \2", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"\1", text)
