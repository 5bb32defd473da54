"""References to lines: read in a fixed order, within bounds, inside of the tree, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.coding.file_references import ROOM, FileReference, LazyFileContext
from rlm_ci.system.safe_tree import Refused

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 401)))
    (tmp_path / "b.md").write_text("one\ntwo ```\nthree")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "data.bin").write_bytes(b"a\0b")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    return tmp_path


def test_each_form_names_lines(root: Path) -> None:
    files = LazyFileContext(str(root))
    found = files.resolve_many(
        ["b.md", "a.py:10-12", "a.py:3", {"path": "a.py", "start_line": 7, "reason": "the rule"}]
    )
    assert found == (
        FileReference("a.py", 3, 3),
        FileReference("a.py", 7, None, "the rule"),
        FileReference("a.py", 10, 12),
        FileReference("b.md"),
    )
    text = files.render(found)
    assert "a.py, lines 3-3 of 400:\n```\n3\tline 3\n```" in text
    assert "Wanted for: the rule\na.py, lines 7-" in text
    assert "10\tline 10\n11\tline 11\n12\tline 12\n```" in text
    assert text.endswith("````\n1\tone\n2\ttwo ```\n3\tthree\n````")
    assert files.render(reversed(found)) == text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("../a.py", "is not a path inside"),
        ("/etc/passwd", "is not a path inside"),
        (".git/config", "git's own folder"),
        ("link.py", "cannot be read"),
        ("missing.py", "missing.py cannot be read"),
        ("data.bin", "binary"),
        ("a.py:401", "a.py has 400 lines; there is no line 401"),
        ("a.py:9-3", "line 3 is before line 9"),
        ("a.py:0", "lines are numbers from 1"),
        ("", "a path has"),
        ({"path": "a.py", "start_line": "1"}, "lines are numbers"),
        ({"path": "a.py", "end_line": True}, "lines are numbers"),
        ({"path": "a.py", "lines": 3}, "has no lines"),
        ({"start_line": 1}, "is no reference"),
        ({"path": "\udcff"}, "control character"),
        (7, "is no reference"),
        (None, "is no reference"),
    ],
)
def test_a_wrong_reference_is_refused_with_the_reason(root: Path, wrong: Any, told: str) -> None:
    with pytest.raises(Refused) as raised:
        LazyFileContext(str(root)).resolve_many(["a.py", wrong, "also-missing"])
    assert told in str(raised.value)
    assert "also-missing" in str(raised.value), "all that is wrong is said at once"


def test_the_bounds_hold_and_what_is_left_out_is_named(root: Path) -> None:
    files = LazyFileContext(str(root))
    with pytest.raises(Refused, match="at most 8"):
        files.resolve_many(["a.py"] * 9)
    text = files.render(files.resolve_many([f"a.py:{first}-400" for first in range(1, 9)]))
    assert len(text) <= ROOM
    assert text.count("a.py, lines ") == 5
    assert "No room was left for: a.py:6-400, a.py:7-400" in text
    assert len(files.render([FileReference("a.py")])) <= 1400
    (root / "wide.py").write_text("\x01" * 100_000)
    assert files.render([FileReference("wide.py")]) == "No room was left for: wide.py:1-1"
    assert "empty.txt has 0 lines" in files.render([FileReference("empty.txt")])
