"""What the agent's questions about code are answered with, over real files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.coding.tools import CodeTools
from rlm_ci.environments.quoting import OUTPUT_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

SHOP = """\
class Basket:
    def total(self, tax):
        return price(self) + tax


def price(basket):
    return 1
"""


@pytest.fixture
def tools(tmp_path: Path) -> CodeTools:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "use.py").write_text("from shop import price\n\n\ndef main():\n    price(None)\n")
    (tmp_path / "notes.txt").write_text("the price\n")
    (tmp_path / "odd.bin").write_bytes(b"\0price\xff")
    return CodeTools(str(tmp_path))


def test_an_outline_lists_definitions_by_their_lines(tools: CodeTools) -> None:
    assert tools.act("outline", {"path": "shop.py"}).text == (
        "shop.py, Python, 7 lines:\n```\n1-3\tclass class Basket\n"
        "2-3\t  method def total(self, tax)\n6-7\tfunction def price(basket)\n```"
    )
    assert tools.act("outline", {"path": "notes.txt"}).text == (
        "notes.txt cannot be parsed (Text): read it."
    )
    assert tools.act("outline", {"path": "../x"}).text.startswith("Refused: ")


def test_a_definition_is_shown_with_its_lines(tools: CodeTools) -> None:
    said = tools.act("definition", {"name": "Basket.total"}).text
    assert said.startswith("shop.py, lines 2-3 of 7:\n```\n2\t    def total(self, tax)")
    missing = tools.act("definition", {"name": "gone`\n"}).text
    assert missing.startswith("No file that can be parsed defines gone`")
    assert "\n" not in missing


def test_definitions_beyond_the_first_are_rows(tools: CodeTools, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"m{number}.py").write_text("def twin():\n" + "    x = 1\n" * 4000)
    said = tools.act("definition", {"name": "twin"}).text
    assert "2 more definitions:" in said
    assert "m4.py:1: def twin()" in said
    assert len(said) < OUTPUT_LIMIT + 1000


def test_references_name_place_kind_and_surroundings(tools: CodeTools) -> None:
    assert tools.act("references", {"name": "price"}).text == (
        "4 uses of price:\n```\nshop.py:3: call in Basket.total: return price(self) + tax\n"
        "use.py:5: call in main: price(None)\nuse.py:1: import: from shop import price\n"
        "elsewhere, perhaps another of this name:\nnotes.txt:1: text: the price\n```"
    )


def test_many_references_are_clipped_with_their_number(tools: CodeTools, tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text("import shop\n" + "shop.price(0)\n" * 500)
    said = tools.act("references", {"name": "price"}).text
    assert said.startswith("504 uses of price; the first 100:")
    assert len(said) < OUTPUT_LIMIT + 1000
