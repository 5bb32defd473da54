"""Where a change begins, what configures the program, and how it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.wiki.facts.file_facts import facts_of
from testing.wiki_stage import facts_page, first_page, rows

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

CORE = '''"""The core."""

import os

from .errors import Full


class Basket:
    """What was chosen."""

    def add(self, name: str) -> None:
        if os.environ.get("SHOP_CLOSED", "no") == "yes":
            raise Full("closed")
        if not name:
            raise ValueError(name)
        raise errors.Full(name)


def price(key: str) -> str:
    if os.getenv("SHOP_CLOSED"):
        raise Full
    return os.environ[key]
'''
FILES = {
    "pyproject.toml": '[project]\nname = "shop"\n[tool.pytest.ini_options]\n',
    "src/shop/__init__.py": "from .core import Basket\nfrom .errors import Full\n",
    "src/shop/core.py": CORE,
    "src/shop/errors.py": 'class Full(Exception):\n    """Nothing fits in. Ever."""\n\n\n'
    "class Odd(Full):\n    pass\n\n\nclass Plain(object):\n    pass\n",
    "src/shop/_util.py": "def pad(text: str) -> str:\n    return text\n",
    "tests/test_core.py": "from shop.core import Basket\n\n\ndef test() -> None: ...\n",
    "tests/test_all.py": "import shop.core\nimport shop.errors\n",
}


def test_the_first_page_says_where_to_start(repo: GitRepo, tmp_path: Path) -> None:
    page = first_page(repo, tmp_path, FILES)
    assert rows(page, "To change something") == [
        "`Full`: Nothing fits in. | [`src/shop/errors.py#L1-L2`] | [`tests/test_all.py`]",
        "The core. | [`src/shop/core.py#L1`] | [`tests/test_core.py`] and 1 more",
    ]
    assert "- variable `SHOP_CLOSED` in `Basket.add` [`src/shop/core.py#L12`]\n" in page


def test_what_configures_and_fails_is_on_the_page_of_facts(repo: GitRepo, tmp_path: Path) -> None:
    page = facts_page(repo, tmp_path, FILES)
    assert rows(page, "Environment variables") == [
        (
            '`SHOP_CLOSED` | `os.environ.get("SHOP_CLOSED", "no")` | `Basket.add` | '
            "[`src/shop/core.py#L12`] and 1 more"
        ),
    ]
    assert "- `os.environ[key]` [`src/shop/core.py#L22`]" in page
    raised = "`Basket.add` [`src/shop/core.py#L13`], `price` [`src/shop/core.py#L21`] and 1 more"
    assert rows(page, "Errors")[:2] == [
        f"`Full` | Nothing fits in. | [`src/shop/errors.py#L1-L2`] | {raised}",
        "`Odd` |  | [`src/shop/errors.py#L5`] | ",
    ]
    assert "| `ValueError` | 1 | `Basket.add` [`src/shop/core.py#L15`] |" in page
    assert "`Plain` |  |" not in page


CLICK = """\
import click


@click.command()
@click.option("--rate")
@click.option("--open")
def sell(rate, open):
    return rate


@click.command()
@click.option("--rate")
def buy(rate):
    return rate
"""


def test_commands_and_options_are_tasks(repo: GitRepo, tmp_path: Path) -> None:
    files = {"pyproject.toml": '[project]\nname = "shop"\n', "shop/cli.py": CLICK,
             "tests/test_cli.py": "import shop.cli\n"}  # fmt: skip
    tests = "[`tests/test_cli.py`]"
    assert rows(first_page(repo, tmp_path, files), "To change something") == [
        f"the command `sell` | [`shop/cli.py#L7`] | {tests}",
        f"the command `buy` | [`shop/cli.py#L13`] | {tests}",
        f"an option of the command line (3 are made there) | [`shop/cli.py#L5`] | {tests}",
    ]


def test_the_tests_of_a_go_file_may_be_elsewhere(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "go.mod": "module example.org/shop\n\ngo 1.22\n",
        "commands/run.go": "// Package commands runs.\npackage commands\n\nfunc Run() {}\n",
        "run_test.go": 'package shop\n\nimport "example.org/shop/commands"\n\n'
        "func TestRun(t *testing.T) { commands.Run() }\n",
    }
    assert rows(first_page(repo, tmp_path, files), "To change something") == [
        "Package commands runs. | [`commands/run.go#L1`] | [`run_test.go`]"
    ]


@pytest.mark.parametrize(
    ("end", "tests"),
    [
        ("#[cfg(test)]\nmod tests {\n    #[test]\n    fn runs() {}\n}\n", "[`src/lib.rs#L6`]"),
        ("mod test {\n    use super::*;\n    #[tokio::test]\n    fn runs() {}\n}\n",
         "[`src/lib.rs#L6`]"),
        ("#[test]\nfn runs() {}\n", "[`src/lib.rs#L4`]"),
        ("#[cfg(test)]\nuse shop_testing as _;\n", "none by name or import"),
    ],
    ids=["a module", "without a mark", "a function", "an import"],
)  # fmt: skip
def test_the_tests_of_a_rust_file_may_be_within_it(
    repo: GitRepo, tmp_path: Path, end: str, tests: str
) -> None:
    files = {
        "Cargo.toml": '[package]\nname = "shop"\n',
        "src/lib.rs": f"//! Sells.\npub fn sell() {{}}\n\n{end}",
    }
    assert rows(first_page(repo, tmp_path, files), "To change something") == [
        f"Sells. | [`src/lib.rs#L1`] | {tests}"
    ]


def test_a_program_without_any_of_it_has_no_such_parts(repo: GitRepo, tmp_path: Path) -> None:
    page = first_page(
        repo, tmp_path, {"a/x.py": '"""Adds."""\n\n\ndef add(a, b):\n    return a + b\n'}
    )
    assert "none by name or import" in page
    for heading in ("Run and test", "What configures it", "What `"):
        assert f"\n## {heading}" not in page


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.ts", "if (x) throw new RangeError('no');\n// throw new No()\n", ["RangeError"]),
        ("a.go", "package a\n\nfunc F() error {\n\treturn ErrClosed\n}\n", ["ErrClosed"]),
        ("A.java", "class A { void f() {\n throw new IllegalStateException(); } }\n",
         ["IllegalStateException"]),
        ("a.rb", "def f\n  raise ArgumentError, 'x'\nend\n", ["ArgumentError"]),
        ("a.py", "def f(e):\n    raise e\n    raise NotImplementedError\n    raise a.B()\n", ["B"]),
        ("test_a.py", "raise ValueError\n", []),
    ],
)  # fmt: skip
def test_what_is_raised_is_known_by_its_name(path: str, text: str, names: list[str]) -> None:
    notes = facts_of(path, text.encode()).notes
    assert [note.detail for note in notes if note.kind == "throws"] == names
