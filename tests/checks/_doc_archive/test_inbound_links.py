"""Links to what is archived: what counts as a link, which anchors there are, what is reported."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from rlm_ci.checks._doc_archive.documents import LinkingTexts
from rlm_ci.checks._doc_archive.inbound_links import LinkSearch, anchors
from rlm_ci.checks._doc_archive.stub import LinkTarget
from testing.archive_stage import PATH, archive, check
from testing.repositories.archives import BRANCH, REPO_URL, stub

if TYPE_CHECKING:
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

HERE = "docs/README.md"
ODD = "docs/a (b).md"
INTO = f"{REPO_URL}/blob/{BRANCH}/docs/PRD-1.md"

LINKS = {
    "[a](PRD-1.md#one)": ["PRD-1.md#one"],
    "[a](/docs/PRD-1.md#one 'title') and [b](../docs/PRD-1.md#two)": [
        "/docs/PRD-1.md#one", "../docs/PRD-1.md#two",
    ],
    "[a](<PRD-1.md#one>) ![b](PRD-1.md#two)": ["PRD-1.md#one", "PRD-1.md#two"],
    "[a](a%20(b).md#one)": ["a%20(b).md#one"],
    "see [a]\n\n[a]: PRD-1.md#one\n": ["PRD-1.md#one"],
    '<a class="x" href="PRD-1.md#one">a</a>': ["PRD-1.md#one"],
    f"[a]({INTO}) and <{INTO}#x> and {INTO}#y.": [INTO, f"{INTO}#x", f"{INTO}#y"],
    INTO.replace("github", "GitHub").replace("acme", "Acme"): None,
    "https://raw.githubusercontent.com/acme/shop/doc-archives/docs/PRD-1.md": None,
    "`[a](PRD-1.md#one)` and ``a ` [b](PRD-1.md#two)``": [],
    "` [a](PRD-1.md#one)": ["PRD-1.md#one"],
    "```\n[a](PRD-1.md#one)\n```\n<!-- [b](PRD-1.md#two) -->": [],
    "[a](PRD-1.md) [b](PRD-2.md#one) [c](../../docs/PRD-1.md#one) [d](#one)": [],
    f"[a]({REPO_URL}/blob/main/docs/PRD-1.md#one) [b]({REPO_URL}/tree/{BRANCH})": [],
    INTO.replace("acme", "mallory"): [],
}  # fmt: skip


def _found(text: str) -> list[str]:
    linking = LinkingTexts(BRANCH)
    linking.add(HERE, text.encode())
    stubs = {PATH: b"", ODD: b""}
    search = LinkSearch(linking, LinkTarget.from_url(REPO_URL) or LinkTarget(), stubs)
    return [one.address for path in linking.texts for one in search.find(path)]


@pytest.mark.parametrize("text", LINKS)
def test_what_is_a_link_to_what_is_archived(text: str) -> None:
    expected = LINKS[text]
    assert _found(text) == ([text] if expected is None else expected)


HEADINGS = """\
# A `b_c` _em_ **bold** [x](y) __init__ `__init__`

Two lines\n---\n## Foo\n## Foo ##\n## C#\n## x & y &amp; z\n## \\_escaped\\_
> ## Quoted\n\n- ## Listed\n
```\n## In code\n```
## ![picture](p.png) Über 日本 <b>x</b>
#\n#no heading
"""


def test_the_anchors_are_those_of_the_headings() -> None:
    blocks = MarkdownIt("gfm-like", {"linkify": False}).parse(HEADINGS)
    said = [
        "".join(part.content for part in block.children or () if part.type not in
                ("image", "html_inline"))
        for number, block in enumerate(blocks)
        if block.type == "inline" and blocks[number - 1].type == "heading_open"
    ]  # fmt: skip
    kept = [
        "".join(sign for sign in one.strip().lower() if sign.isalnum() or sign in "_- ")
        for one in said
    ]
    expected = {one.replace(" ", "-") for one in kept} | {"foo-1"}
    assert anchors(HEADINGS.encode()) == expected - {""}
    assert len(expected) > 10
    written = b'<a name="Old"></a>\n<h2 id=two>Three four</h2>\n'
    assert anchors(written) == {"old", "two", "three-four"}


@pytest.mark.parametrize("text", [
    "[a](PRD-1.md#", "<a ", "[a]: PRD-1.md#\n", "](", "[", "![]", ".md#", "`` ` ", "# # ",
    "# " + "_" * 900 + "a\n", "# ![" + "[x](" * 90 + "\n", "# " + "<a " * 300 + "\n", "> [" * 200,
])  # fmt: skip
def test_hostile_texts_take_no_time(text: str) -> None:
    whole = "[x](PRD-1.md#x)\n" + text * ((1 << 17) // len(text))
    start = time.process_time()
    _found(whole)
    anchors(whole.encode())
    assert time.process_time() - start < 20  # quadratic, it would be minutes


def _informed(ended: Ended) -> set[tuple[str, str, int]]:
    assert ended.code == 0, ended
    return {
        (one["rule"].partition("/")[2], place["path"], place["line_start"])
        for one in ended.json()["findings"]
        for place in one["evidence"]
        if one["severity"] == "info"
    }


def test_links_to_lost_headings_and_into_the_archive_are_shown(cli: Cli, repo: GitRepo) -> None:
    old, new = "docs/old.md", "docs/new.md"
    text = "# Title\n\n## Rollout\n\nAll at once.\n"
    title = "# Title"
    archive(repo, {old: stub(old, heading=title)}, {old: text, new: text})
    repo.write(new, text)
    repo.write(HERE, f"[a](old.md#rollout)\n[b](old.md#title)\n[c](old.md#never)\n{INTO}\n")
    repo.write("top.md", "# Top\n[a](docs/new.md#rollout)\n").commit()
    first = {("old-anchor", HERE, 1), ("archive-link", HERE, 4)}
    assert _informed(check(cli, repo)) == first
    repo.write(new, stub(new, heading=title)).commit()
    # The change turns one document into a stub: only links to that count.
    added = {("old-anchor", "top.md", 2)}
    ended = check(cli, repo, "--commit", "HEAD")
    assert _informed(ended) == added
    (finding,) = ended.json()["findings"]
    assert finding["message"] == (
        "the link leads to #rollout, which docs/new.md had before it was archived"
    )
    assert finding["evidence"][0]["quote"] == "[a](docs/new.md#rollout)"
    assert finding["evidence"][0]["blob"] == repo.sha("HEAD:top.md")
    assert _informed(check(cli, repo, "--commit", "HEAD", "--all")) == first | added
    assert _informed(check(cli, repo, "--commit", "HEAD~1")) == first
    repo.write("src.py", "x\n").commit()
    assert _informed(check(cli, repo, "--commit", "HEAD")) == set()


def test_many_links_are_reported_in_part(cli: Cli, repo: GitRepo) -> None:
    archive(repo, {PATH: stub(PATH)})
    repo.write(HERE, "".join(f"{INTO}#{number}\n" for number in range(70)))
    assert len(_informed(check(cli, repo))) == 50
