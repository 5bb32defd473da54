"""Texts made visible, fingerprints, verdicts, exit codes, the report's JSON form."""

from __future__ import annotations

import itertools
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci import errors
from rlm_ci.report.findings import (
    CLEAN,
    FINDINGS,
    INCOMPLETE,
    NOT_RUN,
    Coverage,
    Document,
    Evidence,
    Finding,
    Location,
    Part,
    RefutedClaim,
    Report,
    Severity,
    Subject,
    Usage,
    fingerprints,
)
from rlm_ci.report.proof import ARGUED, PROVEN, REPRODUCED, Proof
from rlm_ci.resources import loader
from rlm_ci.text import dates
from rlm_ci.text.error_text import explain
from rlm_ci.text.printable import encodable, printable

# -- printable ----------------------------------------------------------------------------------

#: Format characters that have a shape of their own: signs that stand before digits.
_VISIBLE_FORMAT = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def test_no_character_that_cannot_be_seen_is_left() -> None:
    for code in range(0x110000):
        char = chr(code)
        hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        if hidden and code not in _VISIBLE_FORMAT:
            shown = printable(f"a{char}b")
            assert shown.isascii(), hex(code)
            assert shown.startswith("a\\"), hex(code)


@given(st.text(st.characters(codec=None, categories=None)))
def test_printable_is_one_line_that_utf8_can_carry(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("café 日本 ✓", "café 日本 ✓"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31m\x00\x9b", r"\x1b[31m\x00\x9b"),
        ("a\u202eb\u2066", r"a\u202eb\u2066"),
        ("\udcff\udc80", r"\xff\x80"),
        ("\ud800", r"\ud800"),
        ("\u200b\ufeff\U000e0041", r"\u200b\ufeff\U000e0041"),
    ],
)
def test_printable_writes_out_what_is_hidden(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_encodable_keeps_all_but_surrogates() -> None:
    assert encodable("a\n\u202e\udcff\ud800é") == "a\n\u202e\\xff\\ud800é"


# -- dates --------------------------------------------------------------------------------------


def test_days_of_the_calendar() -> None:
    assert dates.today(0) == "1970-01-01"
    for day in ("2026-01-31", "2024-02-29", "2000-02-29", "0001-01-01"):
        assert dates.is_day(day), day
    for text in (
        "2026-02-29", "1900-02-29", "2026-13-01", "2026-00-10", "2026-01-00", "2026-04-31",
        "0000-01-01", "2026-1-01", "2026-01-01 ", "2026/01/01", "", "٢٠٢٦-٠١-٠١", "-026-01-01",
        "2026-01-01T00", "2026-+1-01",
    ):  # fmt: skip
        assert not dates.is_day(text), text


# -- fingerprints -------------------------------------------------------------------------------


def _finding(**fields: Any) -> Finding:
    place = Location("a.py", 3, 4, blob="1" * 40, quote="x = 1\ny = 2")
    values: dict[str, Any] = {
        "rule": "demo/one",
        "severity": Severity.HIGH,
        "message": "wrong",
        "evidence": (place,),
    }
    return Finding(**{**values, **fields})


def _print(finding: Finding) -> str:
    return fingerprints([finding])[0]


def test_a_moved_line_or_a_reworded_message_is_the_same_finding() -> None:
    moved = Location("a.py", 90, 91, blob="2" * 40, quote="  x  =  1\n\n y = 2")
    first = _finding()
    assert len(_print(first)) == 32
    assert _print(first) == _print(_finding(evidence=(moved,), message="no", hint="fix it"))
    assert _print(first) == _print(_finding(severity=Severity.LOW, suppression="known"))


@pytest.mark.parametrize(
    "fields",
    [
        {"rule": "demo/two"},
        {"subject": "other"},
        {"evidence": (Location("b.py", 3, 4, quote="x = 1\ny = 2"),)},
        {"evidence": (Location("a.py", 3, 4, quote="x = 1\ny = 3"),)},
        {"evidence": ()},
    ],
)
def test_another_rule_path_subject_or_text_is_another_finding(fields: dict[str, Any]) -> None:
    assert _print(_finding()) != _print(_finding(**fields))


def test_equals_in_one_file_are_told_apart_by_their_order() -> None:
    prints = fingerprints([_finding(), _finding(), _finding()])
    assert len(set(prints)) == 3
    assert prints[:2] == fingerprints([_finding(), _finding()])
    elsewhere = _finding(evidence=(Location("b.py", 3, 4, quote="x = 1\ny = 2"),))
    assert fingerprints([_finding(), elsewhere, _finding()])[::2] == prints[:2]


# -- verdict and exit code ----------------------------------------------------------------------


def _part(kind: str, severity: Severity = Severity.HIGH) -> Part:
    if kind == FINDINGS:
        return Part("demo", "s", findings=(_finding(severity=severity),))
    return Part("demo", "s", state=None if kind == CLEAN else kind)


_ORDER = (FINDINGS, NOT_RUN, INCOMPLETE, CLEAN)
_CODES = {FINDINGS: 1, NOT_RUN: 5, INCOMPLETE: 3, CLEAN: 0}


@pytest.mark.parametrize(
    "kinds", [kinds for n in (1, 2, 3) for kinds in itertools.product(_ORDER, repeat=n)]
)
def test_the_verdict_is_the_worst_of_any_part(kinds: tuple[str, ...]) -> None:
    report = Report(Subject(), Severity.HIGH, tuple(_part(kind) for kind in kinds))
    worst = next(kind for kind in _ORDER if kind in kinds)
    assert (report.verdict(), report.exit_code()) == (worst, _CODES[worst])


@pytest.mark.parametrize("level", list(Severity))
@pytest.mark.parametrize("severity", list(Severity))
def test_a_finding_fails_at_or_above_the_fail_level(severity: Severity, level: Severity) -> None:
    report = Report(Subject(), level, (_part(FINDINGS, severity),))
    assert report.verdict() == (FINDINGS if severity >= level else CLEAN)
    assert len(report.failing()) == (severity >= level)
    waved = Part("demo", "s", findings=(_finding(severity=severity, suppression="known"),))
    assert Report(Subject(), level, (waved,)).verdict() == CLEAN


@pytest.mark.parametrize("level", list(Severity))
def test_what_is_only_argued_fails_at_no_level(level: Severity) -> None:
    for proof, fails in ((PROVEN, True), (REPRODUCED, True), (ARGUED, False)):
        finding = _finding(severity=Severity.CRITICAL, proof=Proof(proof, "why"))
        report = Report(Subject(), level, (Part("demo", "s", findings=(finding,)),))
        assert report.verdict() == (FINDINGS if fails else CLEAN)
        assert Report.from_dict(report.to_dict()).verdict() == report.verdict()


_ERRORS = (
    errors.UsageError, errors.LimitError, errors.UnavailableError, errors.ConfigError,
    errors.DamagedError, errors.LockedError, errors.RemoteError, errors.StorageError,
)  # fmt: skip
_OWN = {4, 6, 7, 8, 9}


@pytest.mark.parametrize("state", [NOT_RUN, INCOMPLETE])
@pytest.mark.parametrize("kind", _ERRORS)
def test_one_cause_gives_its_own_code(kind: type[errors.RlmCiError], state: str) -> None:
    limit = kind is errors.LimitError
    error = errors.LimitError("x", budget="max_calls") if limit else kind("x")
    part = Part("demo", "s", state=state, error=error)
    expected = kind.code if kind.code in _OWN else _CODES[state]

    def code(*parts: Part) -> int:
        return Report(Subject(), Severity.HIGH, parts).exit_code()

    assert code(part) == code(part, part) == code(part, _part(CLEAN)) == expected
    assert code(part, _part(FINDINGS)) == 1
    # A second cause: nobody can say which one it was.
    assert code(part, _part(state)) == _CODES[state]
    other = errors.RemoteError if kind is not errors.RemoteError else errors.StorageError
    assert code(part, Part("demo", "s", state=state, error=other("y"))) == _CODES[state]


def test_a_report_of_nothing_is_not_clean() -> None:
    report = Report(Subject(), Severity.HIGH, ())
    assert (report.verdict(), report.exit_code()) == (NOT_RUN, 5)


def test_the_table_of_exit_codes_has_every_error() -> None:
    listed = [code for code, _, _ in errors.EXIT_CODES]
    assert listed == sorted(set(listed))
    kinds = [one for one in errors.RlmCiError.__subclasses__() if one.__module__ == errors.__name__]
    assert {kind.code for kind in kinds} == {2, 3, 4, 5, 6, 7, 8, 9}
    assert set(listed) == {*range(11), 130, 141, 143}


def test_an_error_tells_what_where_and_what_to_do() -> None:
    error = errors.ConfigError("it is\nbad", where="a.toml", hint="fix it")
    assert str(error) == "it is\nbad (a.toml)"
    assert explain(error) == r"it is\nbad (a.toml): fix it"
    part = Part.from_error("demo", error)
    assert (part.state, part.verdict(Severity.HIGH)) == (NOT_RUN, NOT_RUN)


# -- the report's form --------------------------------------------------------------------------


_PROOF = Proof(PROVEN, "it fails at head\udcff", "pytest x", "p", "code\ud800", "h", "b", "-a\n+b")


def _report() -> Report:
    odd = Location("caf\udce9\n.md", 1, 2, "old", "3" * 40, "a\udcffb\nc")
    findings = (
        _finding(severity=Severity.LOW, subject="s\udcff", confidence=0.5, domain="security"),
        _finding(evidence=(odd, Location("b")), hint="h\udcff", suppression="why\ud800"),
        _finding(evidence=(), suggested_fix="x"),
        _finding(evidence=(odd,), message="m\udcff", proof=_PROOF),
    )
    return Report(
        Subject(
            "acme/shop", "a" * 40, "b" * 40, "c" * 40, False, 12, 5, (("Codex", 2), ("Amp", 1))
        ),
        Severity.MEDIUM,
        (
            Part("demo", "s\udcff", {"files": 3}, findings),
            Part("other", "x", state=NOT_RUN),
            Part("third", "off", {"enabled": False}, enabled=False),
        ),
        documents=(Document("d\udcff", "t\udcff", (odd,)),),
        coverage=Coverage(2, 1, (("p\udcff", "r"),)),
        evidence=Evidence(3, 2, 0, 1),
        usage=Usage(1, 2, 3, 4, 0.5),
        run_id="r1",
        refuted=(RefutedClaim(_finding(proof=_PROOF), "its reproduction passes at head\udcff"),),
    )


def test_a_report_is_valid_json_and_comes_back_the_same() -> None:
    record = json.loads(json.dumps(_report().to_dict()))
    loader.validate(record, "report.schema.json", "test")
    again = Report.from_dict(record)
    assert again.to_dict() == record
    paths = [place.path for finding in again.findings for place in finding.evidence]
    assert "caf\udce9\n.md" in paths
    assert [part.enabled for part in again.parts] == [True, True, False]
    assert record["verdict"] == FINDINGS


def test_a_report_without_proofs_is_written_and_read_as_before() -> None:
    plain = Report(Subject(), Severity.HIGH, (Part("demo", "s", findings=(_finding(),)),))
    record = plain.to_dict()
    assert "refuted" not in record
    assert "proof" not in record["findings"][0]
    assert Report.from_dict(record) == plain


def test_a_proof_is_bounded_as_it_is_written_and_its_code_is_whole_or_not_there() -> None:
    proof = Proof(PROVEN, *("x" * 4_100 + end for end in "abcdefgh"))
    record = proof.to_dict()
    finding = _finding(proof=proof)
    report = Report(Subject(), Severity.HIGH, (Part("demo", "s", findings=(finding,)),))
    loader.validate(report.to_dict(), "report.schema.json", "test")
    assert {name: len(text) for name, text in record.items()} == {
        "level": 6, "reason": 500, "command": 500, "path": 500, "reproduction": 0,
        "head": 2000, "base": 2000, "repair": 0, "repair_reason": 500,
    }  # fmt: skip
    assert record["head"].endswith("xe")
    assert Proof.from_dict(record).to_dict() == record


def test_findings_come_part_by_part_worst_first() -> None:
    severities = [finding.severity for finding in _report().findings]
    assert severities == [Severity.HIGH, Severity.HIGH, Severity.HIGH, Severity.LOW]
    second = Part("a", "s", findings=(_finding(rule="a/b", severity=Severity.CRITICAL),))
    report = _report().replace(parts=(*_report().parts, second))
    assert report.findings[-1].rule == "a/b"


def test_two_parts_of_one_id_keep_their_findings_once() -> None:
    # A push of two refs runs each check twice.
    parts = (_part(CLEAN), _part(FINDINGS), _part(FINDINGS))
    record = Report(Subject(), Severity.HIGH, parts).to_dict()
    again = Report.from_dict(record)
    assert again.to_dict()["findings"] == record["findings"]
    assert len(again.findings) == 2
    assert again.verdict() == FINDINGS


def test_a_report_that_contradicts_itself_is_refused() -> None:
    record = _report().to_dict()
    with pytest.raises(ValueError, match="verdict clean"):
        Report.from_dict({**record, "verdict": "clean"})
    with pytest.raises(ValueError, match="no part demo"):
        Report.from_dict({**record, "parts": record["parts"][1:]})
    place = {**_finding().evidence[0].to_dict(), "path_b64": "no base64"}
    finding = {**record["findings"][0], "evidence": [place]}
    with pytest.raises(ValueError, match="base64"):
        Report.from_dict({**record, "findings": [finding]})
