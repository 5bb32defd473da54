"""What the page of rules says of a rule: what it finds, and what to do."""

from __future__ import annotations

import re

from rlm_ci.report.rules import SITE, section
from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Rules of a review, by the heading of the page that explains them.
HEADINGS = ("review/TOOL-RULE", "review/NAME")


def known() -> tuple[str, ...]:
    """The rules that have a section of their own, and the kinds of those that have none."""
    return tuple(title for title in _sections() if "/" in title)


def markdown(rule: str) -> str | None:
    """The text of ``rule`` in Markdown, without its heading; None for an unknown rule."""
    texts = _sections()
    title = section(rule, "check")
    if rule.startswith("review/") and title in HEADINGS:  # a tool's own, or a model's
        return "\n\n".join(f"{one}\n\n{texts[one]}" for one in HEADINGS)
    return _own_row(rule, texts[title]) if title in texts else None


def plain(rule: str) -> str | None:
    """The same, without marks of Markdown."""
    text = markdown(rule)
    return None if text is None else _plain(text)


def _sections() -> Mapping[str, str]:
    """The texts of the page by their headings."""
    parts = re.split(r"^### (.+)$", loader.read_rules(), flags=re.MULTILINE)
    return {
        title: text.partition("\n## ")[0].strip()
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
    text = re.sub(r"\[([^\]]+)\]\(([\w-]+)\.md(#[\w-]+)?\)", rf"\1 ({SITE}\2.html\3)", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"\*\*([A-Z][^*\n]*)\*\*", r"\1", text)
