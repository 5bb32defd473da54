"""The pages of rules: ``docs/rules.md``, and what ``rlm-ci explain`` says of each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci import checks
from rlm_ci.ask import run as question
from rlm_ci.fix import report as fix
from rlm_ci.guard import rules as guard_rules
from rlm_ci.judge.config_file import BUDGET, POLICY, TOGETHER, WIKI
from rlm_ci.lab.bench.compare import RULES as BENCH
from rlm_ci.lab.episodes import episode
from rlm_ci.report.findings import Severity
from rlm_ci.report.rules import anchor
from rlm_ci.report.wording import OVERRIDES
from rlm_ci.review.analyzers import ruff
from rlm_ci.validators.parsers._output import RULES as VALIDATOR
from rlm_ci.wiki import check as wiki_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DOCS = Path(__file__).resolve().parent

_RULES_INTRO = """\
Every finding names a rule: the system that found it, and what it found. Reports link to this page.
A finding fails the run when its severity is at or above the fail level (`high` by default).

`rlm-ci explain RULE` says more: an example, where the severity differs, and how to
[accept a finding](checks.md#accept-a-finding)."""
#: What analyzers and models find has the names that these give; the forms of the names.
_REVIEW = {
    "ruff-CODE": Severity.LOW,
    "ruff-invalid-syntax": Severity.HIGH,
    "TOOL-RULE": Severity.MEDIUM,
    "architecture-NAME": Severity.MEDIUM,
    "description-differs": Severity.INFO,
    "NAME": Severity.MEDIUM,
}
#: Where the rules of the built-in analyzer are weighed.
_RUFF_TABLE = "[This table](../rlm_ci/review/analyzers/ruff.py)"
_SUPPRESS = "Add a [suppression](checks.md#accept-a-finding)."


def _systems() -> Iterator[tuple[str, str, Mapping[str, Severity], str]]:
    """Each with its summary, the severities of its rules, and how they are overridden."""
    for name in checks.names():
        check = checks.load(name)
        own = OVERRIDES.get(name)
        summary = f"The [check](checks.md#{name}): {check.SUMMARY}."
        yield name, summary, check.RULES, f"{own} Or add{_SUPPRESS[3:]}" if own else _SUPPRESS
    never = f"It fails no run, unless the fail level is `info`. {_SUPPRESS}"
    yield "policy", "What a change edits of the files that judge it.", POLICY, never
    yield (
        "wiki",
        "Which pages of the [wiki](wiki.md) are stale.",
        {**WIKI, **wiki_check.RULES},
        never,
    )
    spending = "What all runs on a pull request may [spend](github.md#spend-at-most) on models."
    yield "budget", spending, BUDGET, _SUPPRESS
    beside = "What breaks when open pull requests are [all merged](github.md#green-together)."
    yield "together", beside, TOGETHER, _SUPPRESS
    yield "review", "What a [review](review.md) finds.", _REVIEW, _SUPPRESS
    summary = (
        "The [guard](fix-reference.md#what-an-agent-must-not-do): did an agent bend what decides?"
    )
    allow = "`--allow tamper/NAME`, with the name of the rule, if the goal needs it."
    yield "tamper", summary, guard_rules.RULES, allow
    other = "None: the validator decides what is green. Name another one with `--validator`."
    summary = "What the [validator](validators.md) of a fix loop reports: why the work is not done."
    yield "validator", summary, VALIDATOR, other
    summary = "What fails a [comparison of two benchmarks](benchmarks.md#compare)."
    yield "bench", summary, BENCH, "Give the gate a tolerance by the flag that it names."
    summary = "What keeps a [fix loop](fix.md) or a [question](questions.md) from its end."
    yield "rlm", summary, {**fix.RULES, **question.RULES}, "None."
    yield "run", "What keeps an [episode](runner.md) from its end.", episode.RULES, "None."


def _override(rule: str, usual: str, texts: Mapping[str, str]) -> str:
    """How to accept a finding of ``rule``; ``usual`` is the way of its whole system."""
    system, _, name = rule.partition("/")
    if system == "tamper" and name in guard_rules.OF_TESTS:
        return f"`--allow {rule}`, or `--allow-test-edits`, if the goal needs it."
    return texts.get("override", usual.replace("/NAME`", f"/{name}`"))


def rule_texts() -> str:
    """``docs/rules.json``: what ``rlm-ci explain`` says of each rule, in Markdown."""
    texts = tomllib.loads((_DOCS / "rules.toml").read_text(encoding="utf-8"))
    rules = {}
    for system, _, table, usual in _systems():
        for name, severity in table.items():
            row = texts[f"{system}/{name}"]
            paragraphs = (
                f"Severity `{severity.label}`. {row['finds']}",
                f"```text\n{row['example']}\n```",
                f"**Fix.** {row['fix']}",
                f"**Override.** {_override(f'{system}/{name}', usual, row)}",
            )
            note = texts.get(system, {}).get(severity.label, "")
            rules[f"{system}/{name}"] = "\n\n".join(
                (f"{paragraphs[0]} {note}".rstrip(), *paragraphs[1:])
            )
    content = {"rules": rules, "ruff": _ruff()}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def rules() -> str:
    """``docs/rules.md``: a row for each rule, with the first sentence of what it finds."""
    texts = tomllib.loads((_DOCS / "rules.toml").read_text(encoding="utf-8"))
    notice = "Generated by docs/generate.py: change docs/rules.toml, then `make generate`."
    lines = ["# Rules", "", f"<!-- {notice} -->", "", _RULES_INTRO, ""]
    for system, summary, table, _ in _systems():
        severities = {severity.label for severity in table.values()}
        notes = texts.get(system, {}).values()
        shared = [f"Severity `{next(iter(severities))}`."] if len(severities) == 1 else []
        lines += [f"## {system}", "", " ".join((summary, *shared, *notes)), ""]
        lines += _rule_table(system, table, texts, has_severity=not shared)
    return "\n".join(lines).rstrip("\n") + "\n"


def _rule_table(
    system: str,
    table: Mapping[str, Severity],
    texts: Mapping[str, Mapping[str, str]],
    *,
    has_severity: bool,
) -> Iterator[str]:
    """The rows of a system, each with the anchor to which reports link.

    What is to be done about most of them stands below the table, once.
    """
    actions = [texts[f"{system}/{name}"]["fix"] for name in table]
    usual = max(actions, key=actions.count)
    usual = usual if actions.count(usual) > 3 else ""
    columns = ["rule", *(["severity"] if has_severity else []), "finds", "do"]
    yield f"|{'|'.join(columns)}|"
    yield "|---" * len(columns) + "|"
    for name, severity in table.items():
        rule = f"{system}/{name}"
        row = texts[rule]
        sentence = re.match(r".+?(?:\.(?= |$)|$)", row["finds"])
        cells = [f'<a id="{anchor(rule)}"></a>`{rule}`']
        cells += [severity.label] if has_severity else []
        cells += [sentence[0] if sentence else "", "" if row["fix"] == usual else row["fix"]]
        yield f"|{'|'.join(map(cell, cells))}|"
    yield ""
    if usual:
        yield from (f"Where `do` is empty: {usual[0].lower()}{usual[1:]}", "")
    if system == "review":
        counts = Counter(weight.severity for weight in ruff.WEIGHTS.values())
        levels = (f"{counts[level]} `{level.label}`" for level in sorted(counts, reverse=True))
        yield f"The built-in analyzer has {len(ruff.WEIGHTS)} rules of ruff: {', '.join(levels)}."
        yield f"{_RUFF_TABLE} has each, and `rlm-ci explain review/ruff-CODE` says its severity."
        yield ""


def _ruff() -> dict[str, list[str]]:
    """The rules of the built-in analyzer: domain, severity, ruff's page and an example."""
    argv = [sys.executable, "-m", "ruff", "rule", "--all", "--output-format", "json"]
    listed = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    known = {row["code"]: row for row in listed}
    rows = {}
    for code in ruff.rules():
        weight, row = ruff.WEIGHTS[code], known[code]
        page = f"[{row['name']}](https://docs.astral.sh/ruff/rules/{row['name']}/)"
        example = " ".join(min(row["message_formats"], key=len).split())
        rows[code.lower()] = [weight.domain, weight.severity.label, page, example]
    return rows


def cell(text: str) -> str:
    """A text as the cell of a table in Markdown."""
    return text.replace("|", "\\|")
