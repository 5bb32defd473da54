"""What says the same becomes one, what does not stays apart, and no order matters."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rlm_ci.recursion.nodes import TracedFinding
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.review.results import merge as results_merge
from rlm_ci.review.results.json_lists import clusters
from rlm_ci.review.results.merge import gathered, merge, rank, without_count


def said(message: str, line: int = 10, end: int | None = None, **more: Any) -> Finding:
    fields: dict[str, Any] = {
        "rule": "review/sql-injection", "severity": Severity.HIGH, "domain": "security",
        "confidence": 0.8, "source": "model:m-1", **more,
    }  # fmt: skip
    path = fields.pop("path", "shop.py")
    quote = fields.pop("quote", f"line {line}")
    place = Location(path, line, end or line, blob="b" * 40, quote=quote)
    return Finding(message=message, evidence=(place,), **fields)


RUFF = said(
    "Possible SQL injection vector through string-based query construction",
    rule="review/ruff-s608", severity=Severity.MEDIUM, confidence=0.5, source="analyzer:ruff",
    hint="S608 hardcoded-sql-expression: https://docs.astral.sh/ruff/rules/x",
)  # fmt: skip


def merged(*found: Finding) -> list[TracedFinding]:
    return list(merge(TracedFinding(one, (f"n{number}",)) for number, one in enumerate(found)))


def test_a_suggestion_for_other_lines_is_not_taken_over() -> None:
    fix = "```suggestion\npass\n```"
    words = "SQL injection: `name` goes into the query unescaped"
    for line, taken in ((10, fix), (9, None)):
        (one,) = merged(RUFF, said(words, line=line, end=10, suggested_fix=fix))
        assert one.finding.suggested_fix == taken


@pytest.mark.parametrize(
    "other",
    [
        said("The query is built by concatenating strings, which lets SQL be injected"),
        said("An attacker can inject SQL through the name, since the query is formatted"),
        said("SQL injection: `name` goes into the query unescaped", line=9, end=12),
        said("String formatting in a SQL query", rule="review/unsafe-query"),
        said("Anything at all", rule="review/ruff-s608"),
    ],
)
def test_an_analyzer_and_a_model_say_the_same(other: Finding) -> None:
    (one,) = merged(RUFF, other)
    found = one.finding
    assert found.rule == "review/ruff-s608"  # an analyzer's name for it lasts
    assert found.severity == Severity.HIGH  # the worse of the two
    assert found.confidence == 0.9  # two that do not know each other
    assert found.source == "analyzer:ruff"
    assert found.hint is not None
    assert found.hint.endswith(f"; `model:m-1` says too: {other.message}")
    assert one.nodes == ("n0", "n1")
    if other.evidence[0].line_start != 10:
        assert found.evidence == (*RUFF.evidence, *other.evidence)


@pytest.mark.parametrize(
    "other",
    [
        said("SQL injection through the query string", line=40),
        said("SQL injection through the query string", path="other.py"),
        said("The connection is never closed", rule="review/leak", domain="quality"),
        said("No timeout is set for the lock", rule="review/no-timeout", domain="quality", line=9,
             end=30),
        said("Each row asks the database once more", rule="review/n-plus-one",
             domain="performance"),
        said("Undefined name", rule="review/ruff-f821", source="analyzer:ruff", domain="quality"),
    ],
)  # fmt: skip
def test_what_says_something_else_stays_apart(other: Finding) -> None:
    assert len(merged(RUFF, other)) == 2


def test_the_number_of_a_rule_is_no_word() -> None:
    tool = said(
        "Use of `exec` detected", rule="review/ruff-s102", source="analyzer:ruff",
        hint="S102 exec-builtin: https://docs.astral.sh/ruff/rules/exec-builtin",
    )  # fmt: skip
    assert len(merged(tool, said("exec of built code runs what came in", rule="review/x"))) == 1
    assert len(merged(tool, said("The path is not checked", rule="review/traversal"))) == 2


def test_a_model_may_miss_the_line_by_a_few_and_joins_the_nearest() -> None:
    again = RUFF.replace(evidence=(RUFF.evidence[0].replace(line_start=12, line_end=12),))
    injected = "SQL injection through the query that is formatted"
    found = merged(RUFF, again, said(injected, line=11), said(injected, line=12))
    assert [(one.finding.evidence[0].line_start, one.nodes) for one in found] == [
        (10, ("n0", "n2")), (12, ("n1", "n3")),
    ]  # fmt: skip
    assert len(merged(RUFF, said(injected, line=13))) == 2
    assert len(merged(said(injected, line=12), said(injected, line=13))) == 2


def test_a_model_that_repeats_itself_is_not_surer_for_it() -> None:
    found = merged(
        said("User input reaches `eval`", rule="review/eval", confidence=0.7),
        said("`eval` runs what the user typed in", rule="review/code-injection", confidence=0.6),
        said("Calling eval on untrusted input executes code", rule="review/eval", line=9, end=10),
    )
    assert len(found) == 1
    assert found[0].finding.confidence == 0.8
    assert found[0].nodes == ("n0", "n1", "n2")


def test_a_tool_knows_what_it_tells_apart() -> None:
    some = [
        said(f"Undefined name `{name}`", rule="review/ruff-f821", source="analyzer:ruff")
        for name in ("a", "b", "a")
    ]
    assert [one.finding.message for one in merged(*some)] == [
        "Undefined name `a`", "Undefined name `b`",
    ]  # fmt: skip


def test_what_one_accepted_and_the_other_did_not_counts() -> None:
    (one,) = merged(RUFF.replace(suppression="noqa"), said("SQL injection in the query"))
    assert one.finding.suppression is None
    (one,) = merged(*[RUFF.replace(suppression="noqa")] * 2)
    assert one.finding.suppression == "noqa"


def test_the_order_in_which_they_came_decides_nothing() -> None:
    some = [
        TracedFinding(RUFF, ("a",)),
        TracedFinding(said("SQL is injected by the query's string"), ("b",)),
        TracedFinding(said("The query string lets SQL in", line=9, end=11, confidence=0.3), ("c",)),
        TracedFinding(said("The connection leaks", rule="review/leak", domain="quality"), ("d",)),
    ]
    first = merge(some)
    assert len(first) == 2
    for order in itertools.permutations(some):
        assert merge(order) == first


def test_merged_once_more_nothing_changes() -> None:
    first = merge(
        [TracedFinding(RUFF, ("a",)), TracedFinding(said("SQL injection by string"), ("b",))]
    )
    assert merge(first) == first
    assert merge((*first, *first)) == first


def test_the_gravest_and_surest_come_first_and_what_counts_not_last() -> None:
    some = [
        said("a", severity=Severity.LOW, confidence=0.9),
        said("b", severity=Severity.CRITICAL, confidence=0.1, line=2),
        said("c", severity=Severity.HIGH, confidence=0.2, line=3),
        said("d", severity=Severity.HIGH, confidence=0.9, line=4),
        said("e", severity=Severity.CRITICAL, suppression="accepted", line=5),
    ]
    assert [one.message for one in sorted(some, key=rank)] == ["b", "d", "c", "a", "e"]


def test_thousands_on_one_line_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Finding] = []
    real = results_merge._is_same

    def counting(one: Finding, other: Finding) -> bool:
        compared.append(one)
        return real(one, other)

    monkeypatch.setattr(results_merge, "_is_same", counting)
    some = [
        said(f"Result {number}", 1, rule=f"review/tool-{number}", source=f"analyzer:{name}")
        for number in range(300)
        for name in ("a", "b")
    ]
    assert len(merged(*some)) > 250
    assert len(compared) < 70_000  # not all of 90,000, and not the square of more


def test_thousands_in_one_file_are_compared_with_their_neighbours_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[Finding, Finding]] = []
    real = results_merge._is_same

    def counting(one: Finding, other: Finding) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(results_merge, "_is_same", counting)
    some = [
        said(f"Fault {number} of the kind", line=number, end=number + 2, rule=f"review/r{number}")
        for number in range(1, 3001, 3)
    ]
    assert len(merged(*some)) == 1000
    assert len(compared) < 3000  # not a million


def test_trifles_of_a_kind_are_gathered_and_grave_ones_never() -> None:
    trifles = [said("Trifle", line, severity=Severity.LOW) for line in range(1, 26)]
    (one,) = gathered(trifles)
    assert one.message == "Trifle (and 24 more of the kind in this file)"
    assert without_count(one.message) == "Trifle"
    assert len(one.evidence) == 20
    assert len(gathered(trifles[:2])) == 2
    assert len(gathered([one.replace(severity=Severity.MEDIUM) for one in trifles])) == 25


@pytest.mark.parametrize("accepted", [1, 3, 5])
def test_a_comment_accepts_the_trifle_beside_it_and_no_other(accepted: int) -> None:
    lines = {accepted: "x = 1  # rlm-ci: ignore[review/r] it is meant"}
    trifles = [
        said("Trifle", line, severity=Severity.LOW, rule="review/r", quote=lines.get(line, "x"))
        for line in range(1, 6)
    ]
    open_ones, one = sorted(gathered(trifles), key=rank)
    assert (one.suppression, one.evidence[0].line_start) == ("it is meant", accepted)
    assert (open_ones.suppression, len(open_ones.evidence)) == (None, 4)


def test_clusters_weigh_what_is_grave_above_what_is_frequent() -> None:
    some = [said("SQL", line=3), said("SQL", path="b.py"), said("SQL", path="c.py")]
    some += [
        said("Docs", line, rule="review/docs", domain="docs", severity=Severity.INFO)
        for line in range(100)
    ]
    some += [said("Accepted", rule="review/x", suppression="why")]
    found = clusters(sorted(some, key=rank))
    assert [one["rule"].partition("/")[2] for one in found] == ["sql-injection", "docs", "x"]
    assert (found[0]["places"], found[0]["files"]) == (3, 3)
    assert (found[2]["score"], found[2]["accepted"]) == (0, 1)
