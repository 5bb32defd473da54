"""Rules: the page that explains each, what it finds, and what to do.

Each check, the guard and others have a table of their rules with the severities; with the texts of
docs/rules.toml, ``docs/generate.py`` makes docs/rules.md and docs/rules.json of them.
"""

from __future__ import annotations

import re

from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SITE = "https://rlm-ci.github.io/rlm-ci/"
PAGE = f"{SITE}rules.html"
_RULE = re.compile(r"[a-z][a-z0-9-]{0,40}/[a-z0-9-]{1,120}")
#: The sections of what a review finds, by the beginning of a rule; the names are its tools'.
_TOOLS = (
    "repository-ruff", "shellcheck", "actionlint", "hadolint", "mypy", "pyright", "eslint",
    "clippy", "golangci-lint", "staticcheck", "semgrep",
)  # fmt: skip
_REVIEW = {
    "review/ruff-invalid-syntax": "review/ruff-invalid-syntax",
    "review/ruff-": "review/ruff-CODE",
    "review/architecture-": "review/architecture-NAME",
    "review/description-differs": "review/description-differs",
    **{f"review/{tool}-": "review/TOOL-RULE" for tool in _TOOLS},
}


def address(rule: str, source: str = "check") -> str | None:
    """Where ``rule`` is explained; None for what is no rule.

    ``source`` is the finding's: a review calls what a tool or a model finds by their own names.
    """
    if not _RULE.fullmatch(rule):
        return None
    return f"{PAGE}#{anchor(section(rule, source))}"


def section(rule: str, source: str) -> str:
    """The row of ``rule`` on the page."""
    if not rule.startswith("review/"):
        return rule
    titles = (title for start, title in _REVIEW.items() if rule.startswith(start))
    others = "review/TOOL-RULE" if source.startswith("analyzer:") else "review/NAME"
    return next(titles, others)


def anchor(title: str) -> str:
    """The anchor of the row of a rule."""
    return title.lower().replace("/", "").replace(" ", "-")


def kebab(text: str, limit: int) -> str:
    """A text from outside as part of a rule: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")[:limit].strip("-") or "unnamed"


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
