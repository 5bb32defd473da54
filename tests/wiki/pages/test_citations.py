"""Where a citation leads: to a commit on a server, or to a file."""

from __future__ import annotations

import pytest

from rlm_ci.wiki.pages.citations import CitationRegister, LinkDestination, gitlab_project

HUB = LinkDestination("https://github.com", "acme/shop")
LAB = LinkDestination("https://gitlab.acme.org", "far/deep/shop", is_gitlab=True)
HERE = LinkDestination(base="../..")


@pytest.mark.parametrize(
    ("target", "path", "lines", "url"),
    [
        (HUB, "a/b.py", (3, 9), "https://github.com/acme/shop/blob/\0/a/b.py#L3-L9"),
        (HUB, "a/b.py", (3, 3), "https://github.com/acme/shop/blob/\0/a/b.py#L3"),
        # A rendered page has no lines.
        (HUB, "READ me.md", (3, 4), "https://github.com/acme/shop/blob/\0/READ%20me.md?plain=1#L3-L4"),
        (LAB, "a/b.py", (3, 9), "https://gitlab.acme.org/far/deep/shop/-/blob/\0/a/b.py#L3-9"),
        (LAB, "README.md", (3, 3), "https://gitlab.acme.org/far/deep/shop/-/blob/\0/README.md?plain=1#L3"),
        (HERE, "a/b.py", (3, 9), "../../../a/b.py#L3-L9"),
        (HERE, "README.md", (3, 3), "../../../README.md#L3"),
        (LinkDestination(base=""), "a/b.py", (3, 9), ""),
    ],
)  # fmt: skip
def test_a_link_leads_to_the_lines(
    target: LinkDestination, path: str, lines: tuple[int, int], url: str
) -> None:
    register = CitationRegister(target, deep=True)
    text = f"`{path}#L{lines[0]}{f'-L{lines[1]}' * (lines[1] > lines[0])}`"
    assert register.link(path, *lines) == (f"[{text}]({url})" if url else text)
    assert register.linked_name("`B`", path, *lines) == (f"[`B`]({url})" if url else f"`B` {text}")
    assert [tuple(place) for place in register.cited()] == [(path, *lines)]


def test_files_of_one_name_are_told_apart() -> None:
    register = CitationRegister(HERE, deep=False)
    assert register.file("a/util.py") == "[`a/util.py`](../../a/util.py#L1)"
    assert register.file("b/util.py") == "[`b/util.py`](../../b/util.py#L1)"


@pytest.mark.parametrize(
    ("remote", "found"),
    [
        ("https://gitlab.com/acme/shop.git", ("https://gitlab.com", "acme/shop")),
        ("https://gitlab.acme.org/far/deep/shop", ("https://gitlab.acme.org", "far/deep/shop")),
        ("git@gitlab.com:acme/shop.git", ("https://gitlab.com", "acme/shop")),
        ("ssh://git@code.gitlab.acme.org/a/b/", ("https://code.gitlab.acme.org", "a/b")),
        ("https://user:secret@gitlab.com/acme/shop", None),
        ("https://gitlab.com:8443/acme/shop", None),
        ("https://github.com/gitlab.com/shop", None),
        ("https://evil.example/gitlab.com/acme/shop", None),
        ("https://gitlab.com/acme/../shop", None),
        ("/srv/gitlab.com/acme/shop", None),
        ("", None),
    ],
)
def test_a_gitlab_is_known_by_its_host(remote: str, found: tuple[str, str] | None) -> None:
    assert gitlab_project(remote) == found
