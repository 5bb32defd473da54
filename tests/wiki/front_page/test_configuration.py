"""What configures a program, on the first page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from testing.wiki_stage import facts_page, first_page, rows

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

CLI = '''"""Sells."""

DEFAULTS = {"RATE": 3, "OPEN": True, "HOST": "<b>"}


def add(parser):
    """Adds options."""
    parser.add_argument("--rate", help="What it | costs, see https://a.example")
    for name in ("shop.toml", ".shoprc", "shop.toml"):
        read(name)
'''


GUIDED = {
    "shop/__init__.py": "",
    "shop/cli.py": CLI,
    "shop/ovens.json": "{}\n",
    "tests/test_ovens.py": "def test(): ...\n",
    "CONTRIBUTING.md": "# Oven addition\n\nAll are in [the list](shop/ovens.json), `no.py`.\n\n"
    "# Tests\n\n## Example\n\nAs in `tests/test_ovens.py`.\n",
}


def test_files_that_one_function_reads_are_one_line(repo: GitRepo, tmp_path: Path) -> None:
    page = first_page(repo, tmp_path, {"shop/cli.py": CLI})
    assert "- files `.shoprc` and `shop.toml` in `add` [`shop/cli.py#L9`]\n" in page


def test_what_the_first_page_leaves_out_is_counted(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/lib.rs": "".join(
            f"#[derive(Deserialize)]\npub struct {name}Config {{\n    pub rate: u8,\n}}\n"
            f'fn {name.lower()}() {{\n    read("{file}");\n}}\n'
            for name, file in (("A", "Cargo.toml"), ("B", "shop.toml"), ("C", ".shoprc"))
        ),
    }
    page = first_page(repo, tmp_path, files)
    lines = page.split("## What configures it\n\n")[1].split("\n\n")[0].split("\n")
    facts = "(facts.md#settings-and-configuration-files)"
    assert lines == [
        "- file `.shoprc` in `c` [`src/lib.rs#L20`]",
        f"- file `shop.toml` in `b` [`src/lib.rs#L13`], and [1 more file]{facts}",
        f"- keys of `AConfig`: `rate` [`src/lib.rs#L1`], and [2 more key lists]{facts}",
    ]


def test_a_chapter_on_adding_is_a_task_with_the_files_that_it_names(
    repo: GitRepo, tmp_path: Path
) -> None:
    row = rows(first_page(repo, tmp_path, GUIDED), "To change something")[0]
    assert row == (
        "[Oven addition], as the guide says | [`shop/ovens.json`] | [`tests/test_ovens.py`]"
    )


def test_settings_files_and_options_are_listed(repo: GitRepo, tmp_path: Path) -> None:
    page = facts_page(repo, tmp_path, {"shop/cli.py": CLI})
    assert rows(page, "Settings and configuration files") == [
        "`DEFAULTS` | defaults of `RATE`, `OPEN`, `HOST` |  | [`shop/cli.py#L3`]",
        "`.shoprc` | a file | `add` | [`shop/cli.py#L9`]",
        "`shop.toml` | a file | `add` | [`shop/cli.py#L9`] and 1 more",
    ]
    (row,) = rows(page, "Options of the command line")
    name, what, within, link = re.split(r" (?<!\\)\| ", row)
    assert (name, within, link) == ("`--rate`", "`add`", "[`shop/cli.py#L8`]")
    assert "What it \\| costs" in what
