"""Every rule that a finding can name is explained in docs/rules.md, and findings lead there."""

from __future__ import annotations

import ast
import importlib
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_architecture import PACKAGE
from test_links import TOP, anchors, fault, links, tracked

from rlm_ci import checks
from rlm_ci.report import rules
from rlm_ci.report.findings import Severity
from rlm_ci.report.rules import PAGE, address, anchor

PAGE_FILE = TOP / "docs" / "rules.md"
TEXT = PAGE_FILE.read_text("utf-8")
ANCHORS = anchors(TEXT)
TEXTS = tomllib.loads((TOP / "docs" / "rules.toml").read_text("utf-8"))
EXPLAINED = json.loads((TOP / "docs" / "rules.json").read_text("utf-8"))["rules"]
TITLES = set(EXPLAINED)
#: Tables whose look-up refuses what they do not have, with the severity or the hint of a finding.
LOOKED_UP = ("RULES[", "rules.hint(rule)", "_rule(")


def calls() -> list[tuple[Path, ast.Call]]:
    """Where the package makes a finding."""
    return [
        (path, node)
        for path in sorted(PACKAGE.rglob("*.py"))
        if "Finding(" in (text := path.read_text("utf-8")) and path.name != "findings.py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"
    ]


def rule_of(path: Path, call: ast.Call) -> str | None:
    """The rule that a call names; None where only a run can tell."""
    given = [word.value for word in call.keywords if word.arg == "rule"]
    module = importlib.import_module(
        ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__")
    )
    source = compile(ast.Expression((call.args or given)[0]), str(path), "eval")
    try:
        return str(eval(source, vars(module)))
    except NameError:
        return None


def unexplained(path: Path, call: ast.Call) -> str:
    """What is wrong with the rule of a finding that ``call`` makes; empty if it has its row."""
    rule = rule_of(path, call)
    if rule is not None:
        return "" if rule in TITLES else f"{rule} has no row"
    said = ast.unparse(call)
    if any(table in said for table in LOOKED_UP):
        return ""
    # Its rules have the names that tools and models give; their form has a row.
    return "" if re.search(r"""f['"]review/.*\{""", said) or path.name == "carry_over.py" else said


def test_every_finding_names_a_rule_that_has_a_row() -> None:
    found = calls()
    assert len(found) > 15
    assert [why for path, call in found if (why := unexplained(path, call))] == []


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("Finding('diff-budget/files', level, 'x')", ""),
        ("Finding(f'{ID}/lines', level, 'x')", ""),
        ("Finding(rule=f'{ID}/{unit}', severity=RULES[unit])", ""),
        ("Finding(f'{ID}/new', level, 'x')", "diff-budget/new has no row"),
        ("Finding(f'{ID}/{unit}', level)", "Finding(f'{ID}/{unit}', level)"),
    ],
)
def test_a_rule_without_a_row_is_found(call: str, why: str) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert unexplained(PACKAGE / "checks" / "diff_budget.py", node) == why


def recorded() -> set[str]:
    """The rules of all findings that tests of ours have on record."""
    found: set[str] = set()
    for name in tracked():
        if name.startswith("tests/") and name.endswith(".json"):
            text = (TOP / name).read_text("utf-8", "replace")
            found |= set(re.findall(r'"(?:rule|ruleId)": "([a-z-]+/[a-z0-9-]+)"', text))
        if name.startswith("tests/data/guard/") and name.endswith(".toml"):
            found |= set(tomllib.loads((TOP / name).read_text("utf-8")).get("by", []))
    return {rule for rule in found if "/" in rule and not rule.startswith("review/")}


def test_rules_on_record_have_a_row() -> None:
    found = recorded()
    assert len(found) > 15
    assert found <= TITLES


@pytest.mark.parametrize("name", checks.names())
def test_each_row_of_a_check_is_of_use(name: str) -> None:
    """A rule that nothing can find any more goes, with its row."""
    module = checks.load(name)
    text = "".join(path.read_text("utf-8") for path in (PACKAGE / "checks").rglob("*.py"))
    for rule, severity in module.RULES.items():
        assert text.count(f'"{rule}"') + text.count(f"}}/{rule}") > 1, rule
        assert isinstance(severity, Severity)
        for key in ("finds", "example", "fix"):
            assert TEXTS[f"{name}/{rule}"][key].strip()


def said_elsewhere(example: str, text: str) -> bool:
    """Whether two words in a row of an example stand in the sources."""
    return any(" ".join(pair) in text for pair in pairwise(example.split()))


def test_examples_are_what_the_program_says() -> None:
    """Of our own messages; the examples of validators are the words of their tools."""
    text = "".join(
        path.read_text("utf-8")
        for room in ("checks", "guard", "canary", "judge", "pull_request", "fix")
        for path in (PACKAGE / room).rglob("*.py")
    )
    own = (*checks.names(), "tamper", "policy", "wiki")
    examples = {
        rule: row["example"] for rule, row in TEXTS.items() if rule.startswith(own) and "/" in rule
    }
    assert len(examples) > 30
    for rule, example in examples.items():
        if rule not in ("tamper/more", "tamper/tests-shrunk"):  # a number parts their words
            assert said_elsewhere(example, text), rule
    assert not said_elsewhere("colourless green ideas sleep", text)


def test_each_rule_is_told_with_all_that_a_reader_needs() -> None:
    assert {rule for rule in TEXTS if "/" in rule} == TITLES
    for rule, text in EXPLAINED.items():
        for part in ("Severity `", "```text\n", "**Fix.** ", "**Override.** "):
            assert part in text, rule
        assert [link for link in links(text) if fault(PAGE_FILE, TEXT, link)] == [], rule


def test_the_page_has_a_row_for_each_rule() -> None:
    rows = re.findall(r'^\|<a id="([^"]+)"></a>`([^`]+)`\|(.+)\|$', TEXT, re.MULTILINE)
    assert {rule for _, rule, _ in rows} == TITLES
    for mark, rule, cells in rows:
        assert mark == anchor(rule)
        sentence = TEXTS[rule]["finds"].partition(". ")[0].rstrip(".")
        assert sentence.replace("|", r"\|") in cells, rule


def test_a_sentence_for_a_severity_is_about_rules_of_that_severity() -> None:
    for system, notes in TEXTS.items():
        for severity, note in notes.items() if "/" not in system else ():
            texts = [text for rule, text in EXPLAINED.items() if rule.startswith(f"{system}/")]
            noted = [text for text in texts if note in text]
            assert noted
            assert noted == [text for text in texts if text.startswith(f"Severity `{severity}`")]


def test_explain_says_how_to_override_each_rule() -> None:
    for rule in rules.rule_names():
        assert (rules.markdown(rule) or "").count("**Override.** ") == 1, rule
    assert "`--allow tamper/exit`" in (rules.markdown("tamper/exit") or "")


@pytest.mark.parametrize(
    ("rule", "source", "title"),
    [
        ("diff-budget/files", "check", "diff-budget/files"),
        ("tamper/disarmed", "check", "tamper/disarmed"),
        ("validator/pytest-failure", "analyzer:pytest", "validator/pytest-failure"),
        ("review/ruff-f821", "analyzer:ruff", "review/ruff-CODE"),
        ("review/ruff-invalid-syntax", "analyzer:ruff", "review/ruff-invalid-syntax"),
        ("review/shellcheck-sc2086", "analyzer:shellcheck", "review/TOOL-RULE"),
        ("review/repository-ruff-f401", "analyzer:repository-ruff", "review/TOOL-RULE"),
        ("review/lost-update", "model:some-model", "review/NAME"),
        ("review/description-differs", "model:some-model", "review/description-differs"),
        ("review/architecture-cycle", "model:some-model", "review/architecture-NAME"),
    ],
)
def test_the_address_of_a_rule_is_a_row_of_the_page(rule: str, source: str, title: str) -> None:
    found = address(rule, source)
    assert found == f"{PAGE}#{anchor(title)}"
    assert anchor(title) in ANCHORS


@pytest.mark.parametrize(
    "rule", ["", "x", "x/", "/x", "a/b/c", "a/b#c", "a/b c", "A/b", "a/" + "b" * 200, "a/b\n"]
)
def test_what_is_no_rule_has_no_address(rule: str) -> None:
    assert address(rule) is None


def test_the_page_is_one_of_the_site() -> None:
    config: Any = tomllib.loads((TOP / "docs" / "zensical.toml").read_text("utf-8"))["project"]
    assert f"{config['site_url']}rules.html" == PAGE
    assert "rules.md" in json.dumps(config["nav"])
