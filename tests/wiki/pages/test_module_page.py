"""What a page says of a module whose source says nothing of itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from testing.wiki_pages import pages_of

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def named(repo: GitRepo, tmp_path: Path, source: str) -> list[str]:
    """The names in the row of the only file on the first page, in their order."""
    pages = pages_of(repo, tmp_path, {"shapes.py": source})
    row = re.search(r"^\| \[.*", pages["facts.md"], re.MULTILINE)
    assert row
    return re.findall(r"`(\w+)`", row[0])


def test_what_is_extended_most_is_named_and_else_what_is_large(
    repo: GitRepo, tmp_path: Path
) -> None:
    """A name within a longer one extends nothing; one that is said twice is extended once."""
    source = (
        "class Large:\n    a = 1\n    b = 2\n\n"
        "class Base: ...\nclass BaseCase: ...\n"
        "class First(lib.Base): ...\nclass Next(Base, BaseCase, Generic[BaseCase, BaseCase]): ...\n"
    )
    assert named(repo, tmp_path, source) == ["Base"]
    (repo.path / "shapes.py").unlink()
    assert named(repo, tmp_path / "large", "class Small: ...\n" + source[:30]) == ["Large"]


@pytest.mark.full
@pytest.mark.timeout(60)
def test_ten_thousand_classes_are_named_in_seconds(repo: GitRepo, tmp_path: Path) -> None:
    """They took minutes when each name was searched for in each signature."""
    classes = (f"class C{number}(Root): ...\n" for number in range(10_000))
    assert named(repo, tmp_path, "".join(["class Root: ...\n", *classes]))[0] == "Root"


@pytest.mark.parametrize(
    ("path", "test", "is_untested"),
    [
        ("shop/Till.java", "shop/TillTest.java", False),
        ("shop/till.rb", "spec/till_spec.rb", False),
        ("shop/till.js", "tests/till.prices.test.js", False),
        ("shop/till.js", "tests/desk.test.js", True),
    ],
)
def test_a_large_file_has_no_test_where_none_is_named_after_it(
    repo: GitRepo, tmp_path: Path, path: str, test: str, *, is_untested: bool
) -> None:
    head, act, end = {
        "java": ("public class Till {\n", "  public int a{}() {{\n    return 1;\n  }}\n", "}\n"),
        "rb": ("", "def a{}\n  1\nend\n", ""),
        "js": ("", "export function a{}() {{\n  return 1\n}}\n", ""),
    }[path.rpartition(".")[2]]
    text = head + "".join(map(act.format, range(120))) + end
    # Without an import by any test nothing is said.
    others = {"tests/other.test.js": "import './other.js'\n", "tests/other.js": "a = 1\n"}
    pages = pages_of(repo, tmp_path, {path: text, test: "", **others})
    assert ("Large files that no test imports" in pages["facts.md"]) is is_untested
