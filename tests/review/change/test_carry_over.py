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

from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.review.change import carry_over
from rlm_ci.review.objective import DOMAINS

MODEL, TERMS = "model:m", "7" * 32
CONTENT = b"one\ntwo\nthree\n"
MARKS = ["a" * 32, "b" * 32]


def claim(path: str = "a.py", line: int = 2, **more: Any) -> Finding:
    quote = CONTENT.decode().split("\n")[line - 1]
    place = Location(path, line, line, blob="b1", quote=quote)
    known: dict[str, Any] = {
        "rule": "review/bad-two", "severity": Severity.HIGH, "message": "Two is bad.",
        "evidence": (place,), "domain": "quality", "confidence": 0.8, "source": MODEL,
    }  # fmt: skip
    return Finding(**{**known, **more})


def packed(*claims: Finding) -> str:
    text = carry_over.pack(claims, MARKS, TERMS, str)
    assert text
    return text


def unpacked(text: str) -> carry_over.SavedReview:
    return carry_over.unpack(text, MODEL, DOMAINS)


def opened(kept: carry_over.SavedReview, **files: bytes) -> list[Finding]:
    contents = {name.replace("_", "."): ("b1", data) for name, data in files.items()}
    found, _ = carry_over.opened(kept.claims, (), contents.keys(), contents)
    return list(found)


def test_what_is_written_is_read_and_opened() -> None:
    kept = unpacked(packed(claim(), claim(line=3, suggested_fix="x", hint="why")))
    assert (kept.asked_for, kept.marks) == (TERMS, frozenset(MARKS))
    assert opened(kept, a_py=CONTENT) == [claim(), claim(line=3, suggested_fix="x", hint="why")]


@pytest.mark.parametrize("content", [b"one\nTWO\nthree\n", b"one\n", b""])
def test_what_does_not_stand_there_any_more_is_dropped_and_counted(content: bytes) -> None:
    kept = unpacked(packed(claim()))
    found, counts = carry_over.opened(kept.claims, (), ["a.py"], {"a.py": ("b1", content)})
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

    text = carry_over.pack([claim(message="hunter2 is bad")], MARKS, TERMS, mask)
    assert text
    assert unpacked(text).claims[0].finding.message == "[redacted] is bad"
    assert carry_over.pack([claim("hunter2.py")], MARKS, TERMS, mask) is None


def test_more_than_is_kept_is_not() -> None:
    assert carry_over.pack([claim()] * 401, MARKS, TERMS, str) is None


def record(**changed: Any) -> str:
    row: dict[str, Any] = {
        "rule": "review/x", "severity": "high", "domain": "quality", "confidence": 0.5,
        "message": "m", "hint": None, "fix": None, "places": [["a.py", 1, 1, "0" * 16]],
    }  # fmt: skip
    row |= {name: value for name, value in changed.items() if name in row}
    told = {"t": TERMS, "m": "", "f": [list(row.values())]} | {
        name: value for name, value in changed.items() if name in "tmf"
    }
    return urlsafe_b64encode(compress(json.dumps(told).encode())).decode()


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
        {"places": [["a.py", 1, 1, ""]] * 21}, {"t": 1}, {"t": "x" * 33}, {"m": "ab"},
        {"m": "z" * 32}, {"m": 1}, {"f": None}, {"f": {}}, {"f": [[]]}, {"f": [[1] * 8] * 401},
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


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: urlsafe_b64encode(b).decode()))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        unpacked(text)
