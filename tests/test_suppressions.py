"""Accepted findings: by the settings or on the line, marked and never failing."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci import suppressions
from rlm_ci.errors import ConfigError
from rlm_ci.findings import Finding, Location, Part, Severity

RULE = "demo/broken"


def _part(quote: str | None = None, path: str = "docs/a.md", **fields: Any) -> Part:
    place = Location(path, 1, 1 + (quote or "").count("\n"), quote=quote)
    values: dict[str, Any] = {"evidence": (place,), **fields}
    return Part("demo", "s", findings=(Finding(RULE, Severity.HIGH, "m", **values),))


def _entry(**fields: str | None) -> dict[str, str | None]:
    return {"rule": RULE, "path": None, "reason": "known", "until": None, **fields}


def _reason(part: Part, *entries: dict[str, str | None], today: str = "2026-06-01") -> str | None:
    marked = suppressions.apply(part, entries, "rlm-ci.toml", lambda: today)
    return marked.findings[0].suppression


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
def test_a_day_that_is_none_is_told_even_without_findings(until: str) -> None:
    clean = Part("demo", "clean")
    for part in (clean, _part()):
        with pytest.raises(ConfigError, match=r"until .*\(rlm-ci.toml, \[\[suppressions\]\] num"):
            suppressions.apply(part, [_entry(), _entry(until=until)], "rlm-ci.toml")


def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match=r"pattern .*rlm-ci.toml"):
        _reason(_part(), _entry(path="!"))


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


def test_a_suppressed_finding_stays_and_does_not_fail() -> None:
    marked = suppressions.apply(_part(), [_entry()])
    assert len(marked.findings) == 1
    assert marked.verdict(Severity.INFO) == "clean"
    assert marked.findings[0].message == "m"
