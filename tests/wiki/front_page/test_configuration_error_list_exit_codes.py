"""How a program ends for an error, on the first page, and its messages on the module's."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
