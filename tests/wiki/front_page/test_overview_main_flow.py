"""What the project is, the life of the main command, and how long the first page is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from testing.wiki_stage import first_page

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

#: Lines and words that two screens have room for.
LINES, WORDS = 110, 900


def program(number: int) -> dict[str, str]:
    """A program whose command calls so many steps, in as many files."""
    names = [f"step_{n:02}" for n in range(number)]
    imports = "".join(f"from shop.{name} import {name}\n" for name in names)
    calls = "".join(f"    {name}()\n" for name in names)
    body = 'import os\n\n\ndef {0}():\n    """Does {0}."""\n    return os.environ["SHOP_{0}"]\n'
    return {
        "README.md": "# Shop\n\nIt sells what is there. " + "It has much to say. " * 60,
        "pyproject.toml": '[project]\nname = "shop"\n[project.scripts]\nshop = "shop.cli:main"\n',
        "shop/__init__.py": "",
        "shop/cli.py": f'{imports}\n\ndef main():\n    """Sells."""\n{calls}',
        **{f"shop/{name}.py": body.format(name) for name in names},
        **{f"shop/p{n}/core.py": f"class C{n}:\n    def a(self): ...\n    def b(self): ...\n"
           "    def c(self): ...\n" for n in range(number)},
    }  # fmt: skip


def test_the_main_command_is_told_in_seven_lines(repo: GitRepo, tmp_path: Path) -> None:
    page = first_page(repo, tmp_path, program(9))
    life = page.split("\n## What `shop` does\n\n")[1].split("\n\n")[0].split("\n")
    assert life[0] == "1. `main` [`shop/cli.py#L12-L13`] — Sells."
    assert life[1] == ("2. `step_00`, called by `main` [`shop/step_00.py#L4-L5`] — Does step\\_00.")
    assert len(life) == 7
    assert "[Step by step](flows.md), with 2 more steps, conditions and diagrams: `shop`" in page


def test_the_first_page_is_two_screens_long_however_large_the_program_is(
    repo: GitRepo, tmp_path: Path
) -> None:
    page = first_page(repo, tmp_path, program(40))
    assert len(page.split("\n")) <= LINES
    assert len(page.split()) <= WORDS
    assert "> It sells what is there. It has much to say." in page
    assert page.count("- variable ") == 6
    assert "- [34 more variables](facts.md#environment-variables)" in page


MANIFEST = '[project]\nname = "counter"\ndescription = "Sells bread over HTTP."\n'
GO = "// Package counter sells bread.\npackage counter\n\n// Sell sells.\nfunc Sell() {}\n"
SELLS, IN_MANIFEST, IN_README = "Sells bread over HTTP.", "pyproject.toml#L3", "README.md#L3"


@pytest.mark.parametrize(
    ("readme", "other", "beginning"),
    [
        # README begins with something else; it has a sentence on it only then.
        ("People are hungry. So we sell bread.", MANIFEST, (SELLS, [IN_MANIFEST, IN_README])),
        ("People eat at six.", GO, ("Package counter sells bread.", ["counter.go#L1", IN_README])),
        # It has the project's name, or a word of the description.
        ("The Counter is open at six.", MANIFEST, ("The Counter is open at six.", [IN_README])),
        ("People buy bread at six.", MANIFEST, ("People buy bread at six.", [IN_README])),
        ("", MANIFEST, (SELLS, [IN_MANIFEST])),
    ],
)  # fmt: skip
def test_the_page_begins_with_what_the_project_is(
    repo: GitRepo, tmp_path: Path, readme: str, other: str, beginning: tuple[str, list[str]]
) -> None:
    files = {"src/counter/till.py": "def sell() -> None:\n    ...\n"}
    files["counter.go" if other == GO else "pyproject.toml"] = other
    if readme:
        files["README.md"] = f"# Shop\n\n{readme}\n"
    page = first_page(repo, tmp_path, files)
    quote, links = page.split("\n> ", 1)[1].split("\n\n")[:2]
    assert (quote, re.findall(r"[\w.]+#L\d+", links)) == beginning


def test_no_function_stands_for_a_program_whose_beginning_leads_nowhere(
    repo: GitRepo, tmp_path: Path
) -> None:
    files = {
        "bin/shop": "#!/usr/bin/env ruby\nrequire 'shop'\nShop.method(:run).call\n",
        "lib/shop.rb": "# Sells.\nmodule Shop\n  def self.sell(x)\n    count(x)\n  end\n\n"
        "  def self.count(x)\n    x\n  end\nend\n",
        "lib/other.rb": "require 'shop'\n\nclass Other\n  def go\n    sell(1)\n  end\nend\n",
    }
    library = first_page(repo, tmp_path, {"lib/shop.rb": files["lib/shop.rb"]})
    assert "What runs first" not in library
    page = first_page(repo, tmp_path, files)
    assert "## What `" not in page
    assert "What runs first leads to no definition that could be resolved." in page
