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
_OF_RUFF = "review/ruff-CODE"


def rule_names() -> tuple[str, ...]:
    """The rules that have a section of their own, and the kinds of those that have none."""
    return tuple(title for title in _sections() if "/" in title)


def of_check(check: str) -> list[tuple[str, str, str]]:
    """The rules of a check: each with its severity, and the first sentence of its text."""
    rules = []
    for title, text in _sections().items():
        begins = re.match(r"Severity `(\w+)`\. (.+?(?:\.(?= |$)|$))", text, re.MULTILINE)
        if title.startswith(f"{check}/") and begins:
            rules.append((title, begins[1], _plain(begins[2])))
    return rules


def markdown(rule: str) -> str | None:
    """The text of ``rule`` in Markdown, without its heading; None for an unknown rule."""
    texts = _sections()
    title = section(rule, "check")
    by_name = {name.casefold(): text for name, text in texts.items()}
    if rule.casefold() in by_name or title not in texts:
        return by_name.get(rule.casefold())
    if title == _OF_RUFF:
        return _of_ruff(rule, texts[title])
    if title == HEADINGS[0]:
        return _without_example(texts[title])
    if title == HEADINGS[1]:  # a model's, or that of an analyzer with a name of its own
        return "\n\n".join(f"{name}\n\n{_without_example(texts[name])}" for name in HEADINGS)
    return texts[title]


def plain(rule: str) -> str | None:
    """The same, without marks of Markdown."""
    text = markdown(rule)
    return None if text is None else _plain(text)


def _sections() -> Mapping[str, str]:
    """The texts of the page by their headings, each with how to override its rule."""
    texts = {}
    for system in re.split(r"^## ", loader.read_rules(), flags=re.MULTILINE)[1:]:
        introduction, *parts = re.split(r"^### (.+)$", system, flags=re.MULTILINE)
        override = re.search(r"^\*\*Override\.\*\* .+$", introduction, re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            texts[title] = text.strip()
            if override and "**Override.** " not in text:
                name = title.partition("/")[2]
                texts[title] += f"\n\n{override[0].replace('/NAME`', f'/{name}`')}"
    return texts


def _without_example(text: str) -> str:
    return re.sub(r"^```text\n.*?\n```\n\n", "", text, flags=re.MULTILINE | re.DOTALL)


def _of_ruff(rule: str, text: str) -> str:
    """The text of one of ruff's rules, by its row of the table at the end of ``text``."""
    lines = text.split("\n")
    rows = (re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines)
    row = next((cells for cells in rows if cells[0] == f"`{rule}`"), None)
    override = next(line for line in lines if line.startswith("**Override.**"))
    code = rule.removeprefix("review/ruff-")
    override = override.replace("`# noqa: CODE`", f"`# noqa: {code.upper()}`")
    override = override.replace("`review/ruff-code`", f"`{rule}`")
    if row is None:
        return (
            "Severity `low`. A rule of ruff that is not among the rules of the built-in analyzer: "
            f"`review.ruff.extend` must name it.\n\n{override}"
        )
    _, domain, severity, page, example = row
    example = example.replace("\\|", "|")
    return "\n\n".join(
        (
            f"Severity `{severity}`, {domain}; in tests less, or nothing. Ruff's page: {page}",
            f"```text\n{example}\n```",
            "**Fix.** Follow that page.",
            override,
        )
    )


def _plain(text: str) -> str:
    text = re.sub(
        r"^```text\n(.*?)\n```$",
        lambda match: "\n".join(f"    {line}" for line in match[1].split("\n")),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    text = re.sub(r"\[([^\]]+)\]\((https:[^)]+)\)", r"\1: \2", text)
    text = re.sub(r"\[([^\]]+)\]\(([\w-]+)\.md(#[\w-]+)?\)", rf"\1 ({SITE}\2.html\3)", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"\*\*([A-Z][^*\n]*)\*\*", r"\1", text)
