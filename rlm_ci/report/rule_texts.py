"""What ``docs/rules.json`` says of a rule: what it finds, and what to do."""

from __future__ import annotations

import re

from rlm_ci.report.rules import SITE, section
from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Rules of a review, by the rule that stands for them.
HEADINGS = ("review/TOOL-RULE", "review/NAME")
_OF_RUFF = "review/ruff-CODE"


def rule_names() -> tuple[str, ...]:
    """The rules that have a text of their own, and the kinds of those that have none."""
    return tuple(_texts())


def of_check(check: str) -> list[tuple[str, str, str]]:
    """The rules of a check: each with its severity, and the first sentence of its text."""
    rules = []
    for rule, text in _texts().items():
        begins = re.match(r"Severity `(\w+)`\. (.+?(?:\.(?= |$)|$))", text, re.MULTILINE)
        if rule.startswith(f"{check}/") and begins:
            rules.append((rule, begins[1], _plain(begins[2])))
    return rules


def markdown(rule: str) -> str | None:
    """The text of ``rule`` in Markdown; None for an unknown rule."""
    texts = _texts()
    title = section(rule, "check")
    by_name = {name.casefold(): text for name, text in texts.items()}
    if rule.casefold() in by_name or title not in texts:
        return by_name.get(rule.casefold())
    if title == _OF_RUFF:
        return _of_ruff(rule, texts[title], loader.read_rules()["ruff"])
    if title == HEADINGS[0]:
        return _without_example(texts[title])
    if title == HEADINGS[1]:  # a model's, or that of an analyzer with a name of its own
        return "\n\n".join(f"{name}\n\n{_without_example(texts[name])}" for name in HEADINGS)
    return texts[title]


def plain(rule: str) -> str | None:
    """The same, without marks of Markdown."""
    text = markdown(rule)
    return None if text is None else _plain(text)


def _texts() -> Mapping[str, str]:
    """The texts by their rules."""
    texts: Mapping[str, str] = loader.read_rules()["rules"]
    return texts


def _without_example(text: str) -> str:
    return re.sub(r"^```text\n.*?\n```\n\n", "", text, flags=re.MULTILINE | re.DOTALL)


def _of_ruff(rule: str, text: str, rows: Mapping[str, Sequence[str]]) -> str:
    """The text of one of ruff's rules, by its row; ``text`` says how to override any of them."""
    override = text[text.index("**Override.**") :]
    code = rule.removeprefix("review/ruff-")
    override = override.replace("`# noqa: CODE`", f"`# noqa: {code.upper()}`")
    override = override.replace("`review/ruff-code`", f"`{rule}`")
    if code not in rows:
        return (
            "Severity `low`. A rule of ruff that is not among the rules of the built-in analyzer: "
            f"`review.ruff.extend` must name it.\n\n{override}"
        )
    domain, severity, page, example = rows[code]
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
