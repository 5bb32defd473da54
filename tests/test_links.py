"""Every link of the documents leads somewhere: to a page, a heading, a file. No network."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

TOP = Path(__file__).resolve().parents[1]
DOCUMENTS = (*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").rglob("*.md")))
#: Our own files on GitHub, at the default branch.
OWN = re.compile(r"https://github\.com/rlm-ci/rlm-ci/(?:blob|tree)/main/")
_MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def links(text: str) -> list[str]:
    """The targets of all links and pictures of a page."""
    found = []
    for block in _MARKDOWN.parse(text):
        for token in block.children or ():
            target = token.attrGet("src" if token.type == "image" else "href")
            found += [unquote(str(target))] if target else []
    return found


@cache
def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page, each heading its own."""
    found: set[str] = set()
    blocks = _MARKDOWN.parse(text)
    for opening, inline in pairwise(blocks):
        if opening.type == "heading_open":
            said = "".join(one.content for one in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
            repeats = (f"{slug}-{number}" for number in range(1, 1_000))
            found.add(
                slug if slug not in found else next(one for one in repeats if one not in found)
            )
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@cache
def tracked() -> set[str]:
    """The files that git has, and their folders: what a clone has too."""
    argv = ["git", "-C", str(TOP), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(argv, capture_output=True, check=True).stdout.decode().split("\0")
    paths = [Path(name) for name in names if name]
    return {path.as_posix() for path in paths} | {
        folder.as_posix() for path in paths for folder in path.parents
    }


def broken(page: Path, text: str) -> list[str]:
    """The links of ``page`` that lead nowhere, with the reason."""
    return [
        f"{page.relative_to(TOP)}: {link}: {why}"
        for link in links(text)
        if (why := fault(page, text, link))
    ]


def fault(page: Path, text: str, link: str) -> str:
    """Why a link leads nowhere; empty if it does not, or if only the network could tell."""
    own = OWN.match(link)
    if not own and re.match(r"[a-z][a-z0-9+.-]*:|//", link):
        return "" if link.startswith(("https://", "http://", "mailto:")) else "no known scheme"
    path, _, anchor = link[own.end() :].partition("#") if own else link.partition("#")
    path = path.removesuffix("?plain=1").rstrip("/")
    place = Path(os.path.normpath((TOP if own else page.parent) / path)) if path else page
    if not place.is_relative_to(TOP):
        return "outside of the repository"
    name = place.relative_to(TOP).as_posix()
    if name not in tracked():
        return "no such file"
    if not anchor:
        return ""
    lines = re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)
    if lines:
        last = int(lines[2] or lines[1])
        return "" if 0 < last <= len(place.read_bytes().splitlines()) else "no such line"
    known = (
        anchors(text if not path else place.read_text("utf-8")) if name.endswith(".md") else set()
    )
    return "" if anchor in known else "no such heading"


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page, page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[x](no-such.md)", "no such file"),
        ("[x](README.MD)", "no such file"),
        ("[x](docs/checks.md#no-such)", "no such heading"),
        ("[x](#no-such)", "no such heading"),
        ("[x][y]\n\n[y]: no-such.md", "no such file"),
        ("![x](docs/no-such.png)", "no such file"),
        ("[x](../elsewhere.md)", "outside of the repository"),
        ("[x](.venv/bin/python)", "no such file"),
        ("[x](/README.md)", "outside of the repository"),
        ("[x](Makefile#L99999)", "no such line"),
        ("[x](https://github.com/rlm-ci/rlm-ci/blob/main/no-such.md)", "no such file"),
        ("[x](javascript:alert)", ""),  # no link for Markdown
        ("`[x](no-such.md)`\n\n```\n[x](no-such.md)\n```", ""),
        ("# A, b\n## A b\n[x](#a-b-1) [x](https://example.org) [x](docs) [x](Makefile#L1)", ""),
    ],
)  # fmt: skip
def test_a_broken_link_is_found(text: str, why: str) -> None:
    found = broken(TOP / "README.md", text)
    assert [one.rpartition(": ")[2] for one in found] == ([why] if why else [])
