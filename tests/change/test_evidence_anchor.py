"""A claim's pointer, opened: held, moved to where its quote stands, or rejected."""

from __future__ import annotations

import random
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, anchor, flaw
from rlm_ci.report.findings import Location

if TYPE_CHECKING:
    from rlm_ci.change.evidence import AnchoredClaim

BLOB = "b" * 40
TEXT = """\
import os\r
\r
def area(width, height):\r
    total = width * height\r
    return total\r
}\r
def again(width, height):\r
    total = width * height\r
    return total + 1\r
"""


def opened(
    start: int | None, end: int | None, quote: str | None, text: str = TEXT
) -> AnchoredClaim:
    return anchor(Location("a.py", start, end, quote=quote), text.encode(), BLOB)


def test_what_stands_there_is_verified_and_gets_its_blob() -> None:
    found = opened(4, 5, "    total = width * height\n    return total")
    assert found.outcome == VERIFIED
    assert found.location == Location(
        "a.py", 4, 5, blob=BLOB, quote="    total = width * height\n    return total"
    )


@pytest.mark.parametrize("quote", ["import os\r", "import os"])
def test_carriage_returns_are_no_difference(quote: str) -> None:
    found = opened(1, 1, quote)
    assert found.outcome == VERIFIED
    assert found.location is not None
    assert found.location.quote == "import os"


@pytest.mark.parametrize(
    ("claimed", "quote", "found"),
    [
        ((9, 9), "def again(width, height):", (7, 7)),
        ((400, 410), "def area(width, height):", (3, 3)),
        ((-3, 0), "def area(width, height):", (3, 3)),
        ((None, None), "def area(width, height):", (3, 3)),
        ((1, 1), "total = width * height", (4, 4)),  # without its indentation: the nearest
        ((9, 9), "total = width * height", (8, 8)),
        ((6, 6), "total = width * height", (4, 4)),  # as far from both: the first
        ((2, 2), "  total = width * height  \n return total", (4, 5)),
    ],
)
def test_a_quote_that_stands_elsewhere_moves_the_claim(
    claimed: tuple[int | None, int | None], quote: str, found: tuple[int, int]
) -> None:
    moved = opened(*claimed, quote)
    assert moved.outcome == REANCHORED
    assert moved.location is not None
    assert (moved.location.line_start, moved.location.line_end) == found
    assert moved.location.blob == BLOB
    assert flaw(moved.location, TEXT.encode(), BLOB) is None


@pytest.mark.parametrize(
    ("claimed", "quote"),
    [
        ((1, 9), "def area(width, height):"),  # one of many lines
        ((4, 4), "width * height"),  # part of the line that was named
        ((4, 4), "width"),  # short, and where it was said to be
        ((4, 4), "\n    total = width * height\n"),
        ((7, 9), "total = width * height"),  # it is elsewhere, too
    ],
)
def test_a_quote_among_the_named_lines_keeps_all_of_them(
    claimed: tuple[int, int], quote: str
) -> None:
    found = opened(*claimed, quote)
    assert found.outcome == VERIFIED
    assert found.location is not None
    assert (found.location.line_start, found.location.line_end) == claimed
    assert flaw(found.location, TEXT.encode(), BLOB) is None


@pytest.mark.parametrize(
    ("claimed", "quote"),
    [
        ((4, 4), "total = width / height"),
        ((1, 1), "}"),  # too short
        ((1, 1), "total"),
        ((1, 1), ""),
        ((1, 1), "  \n\t"),
        ((2, 2), "idth * heigh"),  # words are not cut
        ((12, 12), None),
        ((5, 4), None),
        ((0, 3), None),
    ],
)
def test_what_does_not_stand_there_is_rejected(claimed: tuple[int, int], quote: str | None) -> None:
    found = opened(*claimed, quote)
    assert (found.outcome, found.location) == (REJECTED, None)


def test_a_short_quote_holds_at_its_own_line_alone() -> None:
    assert opened(6, 6, "}").outcome == VERIFIED
    assert opened(6, 6, "  } ").outcome == VERIFIED
    assert opened(5, 5, "}").outcome == REJECTED


def test_a_claim_without_a_quote_gets_its_lines_as_one() -> None:
    found = opened(3, None, None)
    assert found.location == Location("a.py", 3, 3, blob=BLOB, quote="def area(width, height):")
    whole = opened(None, None, None)
    assert whole.location == Location("a.py", blob=BLOB)


def test_nothing_holds_in_a_file_that_is_not_there() -> None:
    assert anchor(Location("a.py", 1, 1, quote="import os"), None, None).outcome == REJECTED
    assert opened(1, 1, None, "").outcome == REJECTED


def test_the_lines_of_a_slice_have_their_numbers_in_the_file() -> None:
    part = b"first of the part\nsecond of the part\n"
    found = anchor(Location("a.py", 41, 41, quote="second of the part"), part, BLOB, 40)
    assert found.outcome == VERIFIED
    moved = anchor(Location("a.py", 2, 2, quote="second of the part"), part, BLOB, 40)
    assert moved.location is not None
    assert moved.location.line_start == 41
    assert anchor(Location("a.py", 39, 39), part, BLOB, 40).outcome == REJECTED


def test_bytes_that_are_no_text_are_quoted_as_they_are_shown() -> None:
    data = b"one\nname = '\xe9\xff' # latin\n"
    found = anchor(Location("a.py", 1, 1, quote=r"name = '\xe9\xff' # latin"), data, BLOB)
    assert found.outcome == REANCHORED
    assert found.location is not None
    assert found.location.line_start == 2
    assert flaw(found.location, data, BLOB) is None


LINE = st.text(alphabet=string.ascii_letters + " {}()=_\t", max_size=24)


@given(st.lists(LINE, min_size=1, max_size=12), st.data())
def test_whatever_is_anchored_holds(lines: list[str], data: st.DataObject) -> None:
    """No outcome but REJECTED leaves a pointer that does not hold; true ones are never lost."""
    text = "\n".join(lines) + "\n"
    start = data.draw(st.integers(-2, len(lines) + 2))
    end = data.draw(st.integers(-2, len(lines) + 2))
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    quote = "\n".join(lines[first : last + 1])
    found = anchor(Location("a", start, end, quote=quote), text.encode(), BLOB)
    if found.location is not None:
        assert flaw(found.location, text.encode(), BLOB) is None
    told = anchor(Location("a", first + 1, last + 1, quote=quote), text.encode(), BLOB)
    assert told.outcome == VERIFIED
    if sum(char.isalnum() or char == "_" for char in quote) >= 8:
        assert found.outcome != REJECTED


def test_many_pointers_into_one_large_file_are_no_burden() -> None:
    """Each of them reads the file's lines, which are made once."""
    draw = random.Random(7)
    lines = [f"value_{number} = {draw.random()}" for number in range(60_000)]
    text = "\n".join(lines).encode()
    for _ in range(400):
        number = draw.randrange(60_000)
        assert anchor(Location("a", number + 1, quote=lines[number]), text, BLOB).location
