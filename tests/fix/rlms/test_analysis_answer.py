"""What an analysis answers: only citations that hold are left, whatever it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.fix.rlms.analysis import CheckedAnswer, check

CONTENT = b"def add(a, b):\n    return a - b\n"
FILES = {"calc.py": CONTENT, "caf\udce9.py": b"x\n", "gone.py": None}


def checked(findings: object, *, must_cite: bool = True) -> CheckedAnswer:
    text = json.dumps({"summary": "s", "findings": findings})
    return check(text, FILES, lambda path: (FILES[path], "b" * 40), must_cite=must_cite)


def one(path: str = "calc.py", line: Any = 2, **more: Any) -> dict[str, Any]:
    return {"title": "t", "citations": [{"path": path, "start_line": line, **more}]}


def test_a_citation_is_kept_with_the_lines_of_the_file() -> None:
    found = checked(
        [one(end_line=2), one("./calc.py", 1, quote="def add(a, b):"), one("caf\\xe9.py", 1.0)]
    )
    assert (found.offered, found.verified, found.left_out, found.reanchored) == (3, 3, 0, 0)
    first, second, third = found.citations
    assert (third["path"], third["snippet"]) == ("caf\\xe9.py", "x")
    assert (first["start_line"], first["end_line"]) == (2, 2)
    assert first["snippet"] == "    return a - b"
    assert (second["path"], second["snippet"]) == ("calc.py", "def add(a, b):")


def test_a_quote_at_other_lines_moves_there() -> None:
    found = checked([one(line=9999, quote="return a - b")])
    assert (found.verified, found.reanchored) == (1, 1)
    assert found.citations[0]["start_line"] == 2


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (one("missing.py", 9999), "the context has no such file"),
        (one("../../etc/passwd", 1), "the context has no such file"),
        (one("/etc/passwd", 1), "the context has no such file"),
        (one(line=9999), "line 9999 is not in the file, which has 2"),
        (one(line=0), "line 0 is not in the file"),
        (one(line=-5), "line -5 is not in the file"),
        (one(line=2, end_line=1), "lines 2-1 are not in the file"),
        (one(line=1, end_line=10**30), "are not in the file"),
        (one(line=1.0, quote="return a + b"), "these lines do not have the quote"),
        (one("gone.py", 1), "the path is not there"),
    ],
)
def test_what_does_not_hold_is_left_out(place: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match="no citation of the answer holds") as raised:
        checked([place])
    assert why in str(raised.value)
    found = checked([place, one()])
    assert (found.offered, found.verified, found.left_out) == (2, 1, 1)
    assert why in found.rejected[0]["why"]
    assert len(found.findings) == 1
    loose = checked([place], must_cite=False)
    assert (len(loose.findings), loose.citations) == (1, [])


def test_only_so_much_of_an_answer_is_looked_at() -> None:
    found = checked([{**one(), "title": "t" * 300, "detail": "d" * 2500}] * 300)
    assert (len(found.findings), found.verified, found.left_out) == (80, 80, 220)
    assert (len(found.findings[0]["title"]), len(found.findings[0]["detail"])) == (200, 2000)
    many = checked([{"title": "t", "citations": one()["citations"] * 1000}])
    assert (many.offered, many.verified, len(many.rejected)) == (1000, 120, 20)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "{}", "[" * 100_000, '{"summary": "s"}', '{"findings": []}',
     '{"summary": 1, "findings": []}', '{"summary": "s", "findings": [1]}',
     '{"summary": "s", "findings": []}', '{"summary": "s", "findings": [{"title": "t"}]}',
     '{"summary": "s", "findings": [{"title": "t", "citations": [{"path": 1, "start_line": 1}]}]}',
     '{"summary": "s", "findings": [{"title": "t", "citations": [{"path": "calc.py"}]}]}'],
)  # fmt: skip
def test_what_is_no_answer_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check(text, FILES, lambda path: (FILES[path], ""), must_cite=True)


def test_a_summary_that_is_the_example_of_the_prompt_is_none() -> None:
    summary = "What the planner must know, in a few sentences."
    text = json.dumps({"summary": summary, "findings": []})
    with pytest.raises(ValueError, match="repeats the example"):
        check(text, FILES, lambda path: (FILES[path], ""), must_cite=False)
