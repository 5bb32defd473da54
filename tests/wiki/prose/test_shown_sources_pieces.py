"""Pieces of sources: an edit is in one, and what is shown of one is its heads and what decides."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlm_ci
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.wiki.prose.shown_sources import GAP, SourcePiece, pieces, shown, with_statement

ROOT = Path(rlm_ci.__file__).parent
LONG = ROOT / "git" / "repository.py"
OVEN = '''"""An oven."""

import os

LIMIT = 300
"""How hot it may be."""


class Oven:
    """Bakes.

    At length: {filler}
    """

    def heat(self, degrees, *,
             slowly=False):
        """Heat it.

        At length: {filler}
        """
        wire = os.environ["WIRE"]
        plug = wire.strip()
        socket = plug.upper()
        if degrees > LIMIT:
            raise ValueError("too hot")
        self.log(wire, plug, socket)
        self.log(wire, plug, socket, "{filler}")
        self.log(wire, plug, socket, "{filler}")
        self.log(wire, plug, socket, "{filler}")
'''.replace("{filler}", "and so on " * 20)


def text(content: str, path: str = "a.py", line: int = 1) -> LeafText:
    return LeafText(path, "0" * 40, content.encode(), line)


def lines_of(found: list[SourcePiece]) -> list[bytes]:
    return [
        line
        for one in found
        for line in one.text.content.split(b"\n")[one.line_start - 1 : one.line_end]
    ]


@pytest.mark.parametrize("edit", ["none", "above", "inside", "below"])
def test_an_edit_is_in_one_piece_and_no_line_is_left_out(edit: str) -> None:
    source = LONG.read_text(encoding="utf-8")
    before = pieces(text(source))
    assert len(before) > 1
    changed = {
        "none": source,
        "above": source.replace('"""\n', '"""\n# more\n', 1),
        "inside": source.replace("    return", "    more = 1\n    return", 1),
        "below": f"{source}\n\ndef more():\n    return 1\n",
    }[edit]
    after = pieces(text(changed))
    assert lines_of(after) == changed.encode().rstrip(b"\n").split(b"\n")
    new = {one.digest for one in after} - {one.digest for one in before}
    assert len(new) == (edit != "none")


def test_a_line_without_an_end_and_a_long_definition_are_cut_too() -> None:
    rows = "".join(f"    {n}: 'x',\n" for n in range(4_000))
    found = pieces(text(f"TABLE = {{\n{rows}}}"))
    assert len(lines_of(found)) == 4_002
    assert max(len(b"\n".join(lines_of([one]))) for one in found) <= 16_000
    assert pieces(text("")) == []


def test_heads_and_what_decides_are_shown_first() -> None:
    [one] = shown(pieces(text(OVEN)), in_full=False)
    told = "\n".join(one.rows)
    for wanted in ("class Oven:", "Bakes.", "slowly=False):", "Heat it.", "> LIMIT", "too hot",
                   "LIMIT = 300"):  # fmt: skip
        assert wanted in told
    assert "and so on" not in told
    assert GAP in one.rows
    numbered = [row.partition("|") for row in one.rows if row != GAP]
    lines = OVEN.split("\n")
    assert all(lines[int(number) - 1] == line for number, _, line in numbered)
    [full] = shown(pieces(text(OVEN)), in_full=True)
    assert [row.partition("|")[2] for row in full.rows] == lines[:-1]
    assert full.fitted(99).cost <= 99


def test_a_slice_keeps_its_line_numbers() -> None:
    [one] = shown(pieces(text("def a():\n    return 1\n", line=70)), in_full=False)
    assert one.rows == ("70|def a():", "71|    return 1")


@pytest.mark.parametrize("room", ["checks", "recursion", "models", "wiki"])
def test_less_than_half_of_real_sources_is_shown(room: str) -> None:
    """With the words around, a prompt is to have at most six tenths of the bytes."""
    sources = [
        text(path.read_text("utf-8"), path.name) for path in sorted((ROOT / room).rglob("*.py"))
    ]
    size = sum(len(one.content) for one in sources)
    told = [piece for one in sources for piece in shown(pieces(one), in_full=False)]
    assert 0.2 * size < sum(one.size for one in told) < 0.5 * size


@pytest.mark.parametrize(
    ("code", "shown_lines"),
    [
        ("if a:\n\n    b()\n    c()", [1, 3]),
        ("if (\n    a\n    and b\n):\n    c()\n    d()", [1, 2, 3, 4, 5]),
        ("if (a &&\n    b) {\n  c();\n}", [1, 2, 3]),
        ("if (a)\n  b();\nc();", [1, 2]),
        ("if (a) { b(); }\nc();", [1]),
        ("} else {\n  b();", [1, 2]),
        ("return a\nb()", [1]),
        ("raise ValueError(\n    a\n)", [1]),
        ("if a:", [1]),
    ],
)
def test_a_condition_is_shown_with_its_first_statement(code: str, shown_lines: list[int]) -> None:
    assert with_statement(code.split("\n"), 1) == shown_lines


def test_what_is_left_out_of_a_body_is_not_what_a_condition_leads_to() -> None:
    filler = "".join(f"    step_{n} = {n} * wide  # and so on and so on\n" for n in range(60))
    body = f"def bake(wide):\n{filler}    if wide > 9:\n        burn(wide)\n{filler}"
    [one] = shown(pieces(text(body)), in_full=False)
    rows = [row.partition("|")[2] for row in one.rows]
    at = rows.index("    if wide > 9:")
    assert rows[at + 1] == "        burn(wide)"
