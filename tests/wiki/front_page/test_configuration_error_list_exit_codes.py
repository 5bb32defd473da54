"""How a program ends for an error, on the first page, and its messages on the module's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.wiki_stage import commit_all, corpus_of, judge, opened, rows, wiki

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

CLI = '''"""Sells."""

import sys


class Refused(Exception):
    """The shop refuses."""

    exit_code = 3


class Full(Refused):
    """Nothing fits in."""


class Odd(Exception):
    """It is odd."""


def main():
    try:
        raise Full("no room for <b>more</b>")
    except Odd:
        sys.exit(4)


def price(net):
    """What it costs."""
    if net < 0:
        raise ValueError("less than nothing")
'''


def test_errors_have_exit_codes_and_messages(repo: GitRepo, tmp_path: Path) -> None:
    corpus = corpus_of(repo, commit_all(repo, {"shop/cli.py": CLI, "shop/run.sh": "exit 4\n"}))
    pages, _, _ = wiki(corpus, tmp_path / "wiki", tmp_path)
    judge(pages, corpus, tmp_path / "wiki", opened(repo))
    texts = {page.name: page.text for page in pages.pages}
    first, module = texts["facts.md"], texts["modules/shop.md"]
    ends = {row.split(" | ")[0]: row.split(" | ")[-1] for row in rows(first, "Errors")}
    assert ends["`Full`"].startswith("code 3, by `Refused.exit_code` [`shop/cli.py#L9`]")
    assert ends["`Refused`"] == ends["`Full`"]
    assert ends["`Odd`"].startswith("code 4, by `main` [`shop/cli.py#L24`]")
    assert "| code 4 | `Odd` is caught | `main` | [`shop/cli.py#L24`]" in first
    said = module.split("## Messages\n", 1)[1].split("## ", 1)[0]
    assert r"“no room for \<b\>more\</b\>”: `Full` in `main` [`shop/cli.py#L22`]" in said
    assert "less than nothing" not in said  # which stands among the invariants
    assert "“less than nothing”" in module


ERRORS = {
    "src/shop.ts": (
        (
            "export class ShopError extends Error {}\nexport class Refusal extends ShopError {}\n"
            "export class Closed extends Refusal {}\nexport class Till extends Array {}\n"
        ),
        ["Closed", "Refusal", "ShopError"],
    ),
    "lib/shop.rb": (
        (
            "module Shop\n  class Refusal < StandardError\n  end\n"
            "  class Till < Shop::Desk\n  end\n"
            "  def self.sell\n    raise Shop::Refusal, 'no'\n  end\nend\n"
        ),
        ["Shop::Refusal"],
    ),
    "src/Shop.php": (
        (
            "<?php\nnamespace Shop;\nclass Refusal extends \\Exception {}\nclass Shop {\n"
            "  function sell() { throw new \\Shop\\Refusal('no'); }\n}\n"
        ),
        ["Refusal"],
    ),
}


@pytest.mark.parametrize("path", ERRORS)
def test_what_is_made_from_an_error_is_one_in_any_language(
    path: str, repo: GitRepo, tmp_path: Path
) -> None:
    text, expected = ERRORS[path]
    corpus = corpus_of(repo, commit_all(repo, {path: text}))
    pages, _, _ = wiki(corpus, tmp_path / "wiki", tmp_path)
    facts = next(page.text for page in pages.pages if page.name == "facts.md")
    assert sorted(row.split(" | ")[0].strip("`") for row in rows(facts, "Errors")) == expected
