"""The parts of a program of many modules, as its first page shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from testing.wiki_pages import pages_of
from testing.wiki_stage import rows

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

README = {"README.md": "It keeps what is sold.\n"}


def program(folders: int) -> dict[str, str]:
    """Folders, the first the longest; each imports the next one and ``util``."""
    files = {**README, "shop/__init__.py": "", "shop/util.py": "def pad():\n    return 1\n"}
    for number in range(folders):
        name, after = f"p{number:02}", f"p{(number + 1) % folders:02}"
        body = "".join(f"def f{n}():\n    return {n}\n" for n in range(4 + folders - number))
        files[f"shop/{name}/__init__.py"] = f'"""Part {number}."""\n'
        files[f"shop/{name}/core.py"] = f"import shop.util\nimport shop.{after}.core\n{body}"
        files[f"shop/{name}/deep/__init__.py"] = '"""Deeper."""\n'
        files[f"shop/{name}/deep/more.py"] = body
    return files


def test_many_modules_are_shown_in_nine_parts(repo: GitRepo, tmp_path: Path) -> None:
    index = pages_of(repo, tmp_path, program(14))["index.md"]
    table = [re.sub(r"\]\([^)]*\)", "]", row) for row in rows(index, "Architecture")]
    assert len(table) == 9
    assert table[0].startswith("[shop/p00] | Part 0. [`shop/p00/__init__.py#L1`] | 2 | ")
    assert table[0].endswith(" | [shop/p01] ([import]), [shop] ([import])")
    assert "Smaller parts: [shop/p09]" in index
    assert re.findall(r'n\d+\["([^"]*)"\]', index) == [f"p{number:02}" for number in range(9)]
    assert "6 parts with fewer imports, or none" in index
    assert "<summary>All 29 modules</summary>" in index


def test_a_few_modules_are_parts_themselves(repo: GitRepo, tmp_path: Path) -> None:
    index = pages_of(repo, tmp_path, program(4))["index.md"]
    assert "| part |" not in index
    assert "<details>" not in index
    assert len(rows(index, "Modules")) == 9
