"""What a text says of lines of files is found whatever its form, and nothing else is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rlm_ci.source.languages import is_known
from rlm_ci.text.line_references import ReferenceReader

CASES = tomllib.loads(
    (Path(__file__).parent / "cases" / "line_references.toml").read_text(encoding="utf-8")
)
READER = ReferenceReader(
    dict.fromkeys(("a.py", "src/log.txt", "my notes.txt", "Makefile")), is_known
)
AROUND = ("{}", "See {}.", "({})", "[{}]", "**{}**: so", "said {}, and")


@pytest.mark.parametrize(("text", "told"), CASES["references"].items())
def test_a_reference_is_read_as_a_whole(text: str, told: list[str]) -> None:
    for around in AROUND:
        written = around.format(text)
        (found,) = READER.find(written)
        assert written[found.start : found.end] == text
        assert found.name == told[0]
        assert [f"{first}-{last}" for first, last in found.spans] == told[1:]


@pytest.mark.parametrize(("text", "told"), CASES["within"].items())
def test_references_are_found_in_a_text(text: str, told: list[str]) -> None:
    assert [text[one.start : one.end] for one in READER.find(text)] == told


@pytest.mark.parametrize("kind", CASES["alike"])
def test_what_only_looks_alike_is_none(kind: str) -> None:
    for text in CASES["alike"][kind]:
        for around in AROUND:
            assert list(READER.find(around.format(text))) == [], text
