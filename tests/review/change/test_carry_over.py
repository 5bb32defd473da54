"""What a review leaves for the next one: written, read back, and believed in nothing."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any
from zlib import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.git.patches import Hunk
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.review.change import carry_over
from rlm_ci.review.model.reproduce import EarlierClaim, EarlierTrial
from rlm_ci.review.objective import DOMAINS
from rlm_ci.review.proofs.reproduction import Reproduction

MODEL, TERMS = "model:m", "7" * 32
CONTENT = b"one\ntwo\nthree\n"
MARKS = ["a" * 32, "b" * 32]
CODE = Reproduction("test_two.py", "def test_two():\n    assert two() == 2\n", "test", "assert")
TRIAL = EarlierTrial(CODE, "two is one", "high", "", repair="--- a/a.py\n")


def claim(path: str = "a.py", line: int = 2, **more: Any) -> Finding:
    quote = CONTENT.decode().split("\n")[line - 1]
    place = Location(path, line, line, blob="b1", quote=quote)
    known: dict[str, Any] = {
        "rule": "review/bad-two", "severity": Severity.HIGH, "message": "Two is bad.",
        "evidence": (place,), "domain": "quality", "confidence": 0.8, "source": MODEL,
    }  # fmt: skip
    return Finding(**{**known, **more})


def packed(*claims: Finding) -> str:
    text = carry_over.pack([EarlierClaim(one) for one in claims], MARKS, TERMS, str).text
    assert text
    return text


def unpacked(text: str) -> carry_over.SavedReview:
    return carry_over.unpack(text, MODEL, DOMAINS)


def opened(kept: carry_over.SavedReview, **files: bytes) -> list[Finding]:
    contents = {name.replace("_", "."): ("b1", data) for name, data in files.items()}
    found, _ = carry_over.opened(kept.claims, (), contents.keys(), contents, {})
    return [one.finding for one in found]


def test_what_is_written_is_read_and_opened() -> None:
    kept = unpacked(packed(claim(), claim(line=3, suggested_fix="x", hint="why")))
    assert (kept.asked_for, kept.marks) == (TERMS, frozenset(MARKS))
    assert opened(kept, a_py=CONTENT) == [claim(), claim(line=3, suggested_fix="x", hint="why")]


@pytest.mark.parametrize("content", [b"one\nTWO\nthree\n", b"one\n", b""])
def test_what_does_not_stand_there_any_more_is_dropped_and_counted(content: bytes) -> None:
    kept = unpacked(packed(claim()))
    found, counts = carry_over.opened(kept.claims, (), ["a.py"], {"a.py": ("b1", content)}, {})
    assert (found, counts.offered, counts.rejected) == ((), 1, 1)


def test_a_claim_on_several_files_goes_with_each_of_them() -> None:
    both = claim(evidence=(*claim("a.py").evidence, *claim("b.py").evidence))
    kept = unpacked(packed(both, claim("c.py")))
    known = {"a.py", "b.py", "c.py"}
    assert carry_over.stale(kept.claims, ["b.py"], known) == {"a.py", "b.py"}
    assert carry_over.stale(kept.claims, [], known) == set()
    # What it said of a file that is gone, it said of the other one too.
    assert carry_over.stale(kept.claims, [], {"a.py", "c.py"}) == {"a.py"}


def test_secrets_are_masked_and_a_name_that_is_one_is_not_kept() -> None:
    def mask(text: str) -> str:
        return text.replace("hunter2", "[redacted]")

    text = carry_over.pack([EarlierClaim(claim(message="hunter2 is bad"))], MARKS, TERMS, mask).text
    assert text
    assert unpacked(text).claims[0].finding.message == "[redacted] is bad"
    assert carry_over.pack([EarlierClaim(claim("hunter2.py"))], MARKS, TERMS, mask).text is None


def test_more_than_is_kept_is_not() -> None:
    assert carry_over.pack([EarlierClaim(claim())] * 401, MARKS, TERMS, str).text is None


def record(**changed: Any) -> str:
    row: dict[str, Any] = {
        "rule": "review/x", "severity": "high", "domain": "quality", "confidence": 0.5,
        "message": "m", "hint": None, "fix": None, "places": [["a.py", 1, 1, "0" * 16]],
        "trial": None,
    }  # fmt: skip
    row |= {name: value for name, value in changed.items() if name in row}
    told = {"t": TERMS, "m": "", "f": [list(row.values())]} | {
        name: value for name, value in changed.items() if name in "tmfw"
    }
    return urlsafe_b64encode(compress(json.dumps(told).encode())).decode()


ROW = [True, "It waits.", ["a.py"], "0" * 40, [["a.py", 1, 1, "new", "0" * 16]]]


def test_sentences_on_the_change_are_read_back_and_go_first_without_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims = [EarlierClaim(claim(), TRIAL)]
    full = carry_over.pack(claims, MARKS, TERMS, str, sentences=[ROW]).text or ""
    assert unpacked(full).sentences == (ROW,)
    monkeypatch.setattr(carry_over, "_ROOM", len(full) - 1)
    less = carry_over.pack(claims, MARKS, TERMS, str, sentences=[ROW])
    assert (unpacked(less.text or "").sentences, less.left_out) == ((), 0)
    assert unpacked(less.text or "").claims[0].trial == TRIAL


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": "diff-budget/files"}, {"rule": "review/"}, {"rule": "review/\u0660"},
        {"rule": "review/a b"}, {"rule": 7}, {"severity": "none"}, {"severity": None},
        {"domain": "else"}, {"domain": []}, {"confidence": True}, {"confidence": 2},
        {"confidence": "1"}, {"message": None}, {"message": "x" * 1001}, {"hint": 1},
        {"fix": "x" * 2001}, {"places": []}, {"places": None}, {"places": [["a.py", 1, 1]]},
        {"places": [["a.py", 1, None, ""]]}, {"places": [["a.py", 0, 1, ""]]},
        {"places": [["a.py", True, 1, ""]]}, {"places": [[None, 1, 1, ""]]},
        {"w": [ROW] * 9}, {"w": [ROW[:4]]}, {"w": [["yes", *ROW[1:]]]}, {"w": "x"},
        {"w": [[True, "x" * 501, *ROW[2:]]]}, {"w": [[*ROW[:3], "main", ROW[4]]]},
        {"w": [[*ROW[:4], []]]}, {"w": [[*ROW[:4], [["a.py", 0, 1, "new", ""]]]]},
        {"w": [[*ROW[:4], [["a.py", 1, 1, "both", ""]]]]},
        {"places": [["a.py", 1, 1, ""]] * 21}, {"trial": 1}, {"trial": {"level": "proven"}},
        {"trial": {"verdict": "proven"}}, {"trial": {"severity": "none"}},
        {"trial": {"reason": "x" * 401}}, {"trial": {"repair": 7}},
        {"trial": {"reproduction": {"kind": "test", "path": "t.py", "content": "x"}}},
        {"trial": {"reproduction": {**CODE.to_dict(), "kind": "shell"}}},
        {"trial": {"reproduction": {**CODE.to_dict(), "content": "x" * 8001}}},
        {"t": 1}, {"t": "x" * 33}, {"m": "ab"}, {"m": "z" * 32}, {"m": 1}, {"f": None}, {"f": {}},
        {"f": [[]]},
        {"f": [[1] * 9] * 401},
    ],
)  # fmt: skip
def test_what_is_out_of_form_is_none(changed: dict[str, Any]) -> None:
    assert unpacked(record()).claims
    with pytest.raises(ValueError, match=r".*"):
        unpacked(record(**changed))


@pytest.mark.parametrize(
    "text",
    ["", "-", "!", "AAAA", urlsafe_b64encode(compress(b"[" * 100_000)).decode(),
     urlsafe_b64encode(compress(b" " * (2 << 20))).decode(),
     urlsafe_b64encode(compress(b"null")).decode()],
    ids=range(7),
)  # fmt: skip
def test_bytes_that_are_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        unpacked(text)


@pytest.mark.parametrize(
    ("content", "hunk", "lines"),
    [
        (b"zero\none\ntwo\nthree\n", Hunk(0, 0, 1, 1, ()), (3, 3)),
        (b"one\ntwo\nmore\nthree\n", Hunk(2, 0, 3, 1, ()), (2, 2)),
        (b"two\nthree\n", Hunk(1, 1, 0, 0, ()), (1, 1)),
        (b"one\n2\n2\nthree\n", Hunk(2, 1, 2, 2, ()), (2, 3)),
        (b"one\nthree\n", Hunk(2, 1, 1, 0, ()), (1, 1)),
        (b"", Hunk(1, 3, 0, 0, ()), (None, None)),
    ],
)
def test_a_claim_with_a_reproduction_follows_its_lines_through_an_edit(
    content: bytes, hunk: Hunk, lines: tuple[int | None, int | None]
) -> None:
    some = [EarlierClaim(claim(), TRIAL), EarlierClaim(claim(message="Argued."))]
    kept = unpacked(carry_over.pack(some, MARKS, TERMS, str).text or "")
    edit = carry_over.EditedFile(CONTENT, "b.py", "b2", content, (hunk,))
    (one,), counts = carry_over.opened(kept.claims, ["a.py"], ["a.py"], {}, {"a.py": edit})
    place = one.finding.evidence[0]
    assert (place.path, place.blob, place.line_start, place.line_end) == ("b.py", "b2", *lines)
    assert (one.trial, counts.rejected) == (TRIAL, 0)
    other = edit.replace(before=b"one\nelse\nthree\n")  # not what was claimed about
    found, counts = carry_over.opened(kept.claims, ["a.py"], ["a.py"], {}, {"a.py": other})
    assert (found, counts.rejected) == ((), 1)


def test_what_has_no_room_is_left_out_repairs_first_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low = EarlierClaim(claim(line=3, severity=Severity.LOW), TRIAL.replace(repair="x" * 3000))
    some = [EarlierClaim(claim(), TRIAL), low]

    def trials(room: int) -> tuple[list[EarlierTrial | None], int]:
        monkeypatch.setattr(carry_over, "_ROOM", room)
        packed = carry_over.pack(some, MARKS, TERMS, str)
        return [one.trial for one in unpacked(packed.text or "").claims], packed.left_out

    full = len(carry_over.pack(some, MARKS, TERMS, str).text or "")
    assert trials(full) == ([TRIAL, low.trial], 0)
    assert trials(full - 1) == ([TRIAL, TRIAL.replace(repair="")], 1)
    assert trials(1) == ([None, None], 2)
    long = EarlierClaim(claim(), TRIAL.replace(repair="x" * 9000))
    assert carry_over.pack([long], MARKS, TERMS, str).left_out == 1


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: urlsafe_b64encode(b).decode()))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        unpacked(text)
