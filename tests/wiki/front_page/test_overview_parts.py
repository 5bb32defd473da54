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
    made = pages_of(repo, tmp_path, program(14))
    index, facts = made["index.md"], made["facts.md"]
    table = [re.sub(r"\]\([^)]*\)", "]", row) for row in rows(index, "The parts")]
    assert len(table) == 9
    assert table[0] == "[shop/p00] | Part 0. [`shop/p00/__init__.py#L1`]"
    assert "Smaller: [shop/p09]" in index
    assert re.findall(r'n\d+\["([^"]*)"\]', facts) == [f"p{number:02}" for number in range(9)]
    assert "6 other parts with fewer imports, or none" in facts
    assert "<summary>All 29 modules</summary>" in facts


def test_a_few_modules_are_parts_themselves(repo: GitRepo, tmp_path: Path) -> None:
    made = pages_of(repo, tmp_path, program(4))
    assert len(rows(made["index.md"], "The parts")) == 9
    assert "Smaller" not in made["index.md"]
    assert "<details>" not in made["facts.md"]
    assert len(rows(made["facts.md"], "Modules")) == 9


def test_a_part_without_a_text_says_what_its_files_have_in_common(
    repo: GitRepo, tmp_path: Path
) -> None:
    hook = "def install():\n    return 1\n\n\ndef {0}(lines):\n    return lines\n"
    files = {**README, "shop/__init__.py": ""}
    for name in ("go", "node", "ruby"):
        files[f"shop/languages/{name}.py"] = hook.format(f"of_{name}")
        files[f"shop/commands/{name}.py"] = f"def {name}(lines):\n    return lines\n" * 2
        files[f"shop/things/{name}.py"] = f"def a_{name}():\n    return 1\n" * 2
    files["shop/things/ruby.py"] += "class Thing:\n    def a(self): ...\n    def b(self): ...\n"
    index = pages_of(repo, tmp_path, files)["index.md"]
    table = [re.sub(r"\]\([^)]*\)", "]", row) for row in rows(index, "The parts")]
    named = "3 of 3 files define what they are named after: [`go`], [`node`], [`ruby`]"
    assert table == [
        "[shop/languages] | 3 of 3 files define [`install`]",
        "[shop/things] | largest definition: [`Thing`]",
        f"[shop] | {named}",
    ]


def test_a_part_of_one_file_names_it(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        **README,
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/lib.rs": "//! Sells.\nmod quirks;\n",
        "src/quirks/mod.rs": "// TODO: more\npub(crate) fn odd() -> u8 {\n    1\n}\n" * 9,
    }
    table = rows(pages_of(repo, tmp_path, files)["index.md"], "The parts")
    assert "| 1 file of Rust without public names: [`src/quirks/mod.rs`](" in "\n".join(table)
