"""The address of the page that explains a rule.

Each check, the guard and others have a table of their rules with the severities; with the texts of
docs/rules.toml, ``docs/generate.py`` makes docs/rules.md and docs/rules.json of them.
"""

from __future__ import annotations

import re

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
