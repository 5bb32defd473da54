"""Accepted findings: by the settings or on the line, marked and never failing."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.report import suppressions
from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import Finding, Location, Part, Severity, fingerprints

RULE = "demo/broken"


def _part(quote: str | None = None, path: str = "docs/a.md", **fields: Any) -> Part:
    place = Location(path, 1, 1 + (quote or "").count("\n"), quote=quote)
    values: dict[str, Any] = {"evidence": (place,), **fields}
    return Part("demo", "s", findings=(Finding(RULE, Severity.HIGH, "m", **values),))


def _entry(**fields: str | None) -> dict[str, str | None]:
    return {"rule": RULE, "path": None, "fingerprint": None, "reason": "known", "until": None,
            **fields}  # fmt: skip


def _reason(part: Part, *entries: dict[str, str | None], today: str = "2026-06-01") -> str | None:
    marked = suppressions.apply(part, entries, "rlm-ci.toml", lambda: today)
    return marked.findings[0].suppression


def _require(*entries: dict[str, str | None]) -> list[ConfigError]:
    return suppressions.require(entries, "rlm-ci.toml", {"demo": ("broken", "old")})


@pytest.mark.parametrize(
    ("entry", "holds"),
    [
        (_entry(), True),
        (_entry(rule="demo"), True),
        (_entry(rule="dem"), False),
        (_entry(rule="demo/brok"), False),
        (_entry(rule="other/broken"), False),
        (_entry(path="docs/*.md"), True),
        (_entry(path="docs/"), True),
        (_entry(path="a.md"), True),
        (_entry(path="src/"), False),
        (_entry(until="2026-06-01"), True),
        (_entry(until="2026-05-31"), False),
        (_entry(until="2027-01-01", path="*.py"), False),
    ],
)
def test_an_entry_covers_by_rule_or_check_path_and_day(
    entry: dict[str, str | None], holds: bool
) -> None:
    assert _reason(_part(), entry) == ("known" if holds else None)


def test_a_fingerprint_covers_one_finding_while_its_lines_stand() -> None:
    """It is that of the report: of findings in its order, without secrets."""
    lines = ["x = 1", "x  = 1", "x = 2", "token = 'hush'"]
    found = tuple(
        Finding(RULE, Severity.HIGH, "m", evidence=(Location("a.py", at, at, quote=line),))
        for at, line in enumerate(lines, 1)
    )

    def redact(one: Finding) -> Finding:
        place = one.evidence[0]
        bare = place.replace(quote=None) if "hush" in (place.quote or "") else place
        return one.replace(evidence=(bare,))

    marks = fingerprints(map(redact, found))
    for at, mark in enumerate(marks):
        part = Part("demo", "s", findings=found[::-1])
        entry = _entry(fingerprint=mark)
        marked = suppressions.apply(part, [entry], redact=redact).findings[::-1]
        assert [one.suppression for one in marked] == ["known" if n == at else None
                                                       for n in range(4)]  # fmt: skip
    edited = found[2].replace(evidence=(Location("a.py", 3, 3, quote="x = 3"),))
    (again,) = suppressions.apply(
        Part("demo", "s", findings=(edited,)), [_entry(fingerprint=marks[2])]
    ).findings
    assert again.suppression is None
    other = _entry(fingerprint=marks[0], rule="demo/old")
    assert _reason(Part("demo", "s", findings=found[:1]), other) is None


@pytest.mark.parametrize("mark", ["abc", "g" * 32, "A" * 32, "0" * 33])
def test_a_fingerprint_that_is_none_is_told(mark: str) -> None:
    with pytest.raises(ConfigError, match="has 32 hexadecimal digits, not") as raised:
        _require(_entry(fingerprint=mark))
    assert "rlm-ci suppress" in raised.value.hint
    assert _require(_entry(fingerprint="0" * 32)) == []


def test_the_first_that_covers_gives_the_reason() -> None:
    entries = (_entry(rule="x"), _entry(reason="one"), _entry(reason="two"))
    assert _reason(_part(), *entries) == "one"
    assert _reason(_part(suppression="overridden"), *entries) == "overridden"


def test_a_pattern_does_not_cover_a_finding_without_a_place() -> None:
    assert _reason(_part(evidence=()), _entry(path="*")) is None
    assert _reason(_part(evidence=()), _entry()) == "known"


def test_any_place_of_a_finding_counts() -> None:
    places = (Location("a.py"), Location("docs/b.md"))
    assert _reason(_part(evidence=places), _entry(path="docs/")) == "known"


@pytest.mark.parametrize("until", ["2026-6-1", "soon", "2026-02-30", "2026-01-01T00:00:00"])
def test_a_day_that_is_none_is_told(until: str) -> None:
    with pytest.raises(ConfigError, match=r"until .*\(rlm-ci.toml, \[\[suppressions\]\] number 2"):
        _require(_entry(), _entry(until=until))


def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match=r"pattern .*rlm-ci.toml.* number 1\)"):
        _require(_entry(path="!"))


@pytest.mark.parametrize("rule", ["demo/brokn", "demo/", "demo/broken/x", "demo/Broken"])
def test_a_rule_that_its_check_does_not_have_is_told_with_the_nearest(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown rule .*rlm-ci.toml.* number 1\)") as caught:
        _require(_entry(rule=rule))
    assert "demo/" in caught.value.hint


def test_a_rule_of_no_check_is_doubted() -> None:
    known = (_entry(), _entry(rule="demo"))
    assert _require(*known) == []
    doubts = _require(*known, _entry(rule="dmo/broken"), _entry(rule="analyzer:x"))
    assert [str(doubt).partition("(")[2] for doubt in doubts] == [
        "rlm-ci.toml, [[suppressions]] number 3)", "rlm-ci.toml, [[suppressions]] number 4)",
    ]  # fmt: skip
    assert [doubt.hint for doubt in doubts] == ["did you mean demo?", "known are: demo"]


@pytest.mark.parametrize(
    ("quote", "reason"),
    [
        (f"x = 1  # rlm-ci: ignore[{RULE}] it is meant", "it is meant"),
        ("x = 1  # rlm-ci: ignore[demo] it is meant", "it is meant"),
        (f"<!-- rlm-ci: ignore[ {RULE} ] why not -->", "why not"),
        (f"/* rlm-ci: ignore[{RULE}] why not */", "why not"),
        (f"# rlm-ci: ignore[other/x] no  # rlm-ci: ignore[{RULE}] yes", "yes"),
        (f"first\nx  # rlm-ci: ignore[{RULE}] on the second\nthird", "on the second"),
        (f"# rlm-ci: ignore[{RULE}]", None),
        (f"<!-- rlm-ci: ignore[{RULE}] -->", None),
        (f"# rlm-ci: ignore[{RULE}]\nnot a reason", None),
        ("# rlm-ci: ignore[other/broken] no", None),
        ("# rlm-ci: ignore[] no", None),
        (f"# rlm-ci: ignore[{RULE} no", None),
        ("# rlm-ci: ignore", None),
        (None, None),
    ],
)
def test_a_line_may_carry_its_own(quote: str | None, reason: str | None) -> None:
    assert _reason(_part(quote)) == reason


@pytest.mark.parametrize(
    ("quote", "why"),
    [
        (f"# rlm-ci: ignore[{RULE}]", "it gives no reason"),
        (f"first\n<!-- rlm-ci: ignore[{RULE}] -->", "it gives no reason"),
        (f"# rlm-ci: ignore[{RULE}, demo/old] both", "a comment for each rule"),
        (f"# rlm-ci: ignore[demo/old {RULE}] both", "a comment for each rule"),
        (f"# rlm-ci:ignore[{RULE}] why", "it is not written as"),
        (f"# RLM-CI : ignore[{RULE}] why", "it is not written as"),
        (f"# rlm-ci: ignore [{RULE}] why", "it is not written as"),
        ("# rlm-ci: ignore", "it is not written as"),
        (f"# rlm-ci: ignore[{RULE} why", "it is not written as"),
        ("# rlm-ci: ignore[demo/brokn] why", "it is for 'demo/brokn'"),
        ("# rlm-ci: ignore[\x1b[31m] why", "it is for '\\x1b[31m'"),
        (f"# rlm-ci: ignore[other/x] no  # rlm-ci: ignore[{RULE}]", "it gives no reason"),
    ],
)
def test_a_comment_that_does_not_hold_says_why(quote: str, why: str) -> None:
    [finding] = suppressions.apply(_part(quote, hint="Mend it."), ()).findings
    assert finding.suppression is None
    assert finding.hint is not None
    assert finding.hint.startswith("Mend it. The comment beside it is not valid: ")
    assert why in finding.hint
    [bare] = suppressions.apply(_part(quote), ()).findings
    assert bare.hint == finding.hint.removeprefix("Mend it. ")


@pytest.mark.parametrize(
    "quote", [None, "x", "rlm-ci ignores it", f"# rlm-ci: ignore[{RULE}] fine"]
)
def test_without_such_a_comment_nothing_is_said_of_one(quote: str | None) -> None:
    [finding] = suppressions.apply(_part(quote, hint="Mend it."), ()).findings
    assert finding.hint == "Mend it."
    [finding] = suppressions.apply(_part(f"# rlm-ci: ignore[{RULE}]"), [_entry()]).findings
    assert finding.hint is None


def test_a_suppressed_finding_stays_and_does_not_fail() -> None:
    marked = suppressions.apply(_part(), [_entry()])
    assert len(marked.findings) == 1
    assert marked.verdict(Severity.INFO) == "clean"
    assert marked.findings[0].message == "m"


def test_an_entry_with_a_claim_covers_its_lines_by_any_rule_of_the_check() -> None:
    def part(rule: str, severity: Severity, quote: str) -> Part:
        place = Location("a.py", 3, 4, quote=quote)
        finding = Finding(rule, severity, "m", evidence=(place,), source="model:m", subject="f")
        return Part("demo", "s", findings=(finding,))

    first = part("demo/float-money", Severity.MEDIUM, "x = price * 1.1\nreturn x")
    (mark,), claim = fingerprints(first.findings), claim_mark.of(first.findings[0])
    entry = _entry(rule="demo/float-money", fingerprint=mark, claim=claim)
    assert _require(_entry(rule="demo/old", fingerprint=mark, claim=claim)) == []
    for wrong in ({"fingerprint": mark, "claim": "x"}, {"claim": claim}):
        with pytest.raises(ConfigError, match="is not the mark of a claim with its fingerprint"):
            _require(_entry(rule="demo/old", **wrong))
    again = part("demo/money-as-float", Severity.MEDIUM, "return x\n")
    assert [_reason(one, entry) for one in (first, again)] == ["known", "known"]
    assert _reason(again, entry | {"claim": None}) is None
    assert _reason(again, entry | {"until": "2026-05-31"}) is None
    assert _reason(again, entry | {"path": "b.py"}) is None
    assert _reason(part("other/x", Severity.LOW, "return x"), entry) is None
    assert _reason(part("demo/x", Severity.MEDIUM, "return y"), entry) is None
    worse = part("demo/sql", Severity.HIGH, "return x")
    (finding,) = suppressions.apply(worse, [entry]).findings
    assert finding.suppression is None
    assert finding.hint == "It was accepted as medium, argued (known), and is worse now."
