"""Which pages differ between two states, and why."""

from __future__ import annotations

import pytest

from rlm_ci.wiki.pages.citations import CitedPlace, HashedPlace
from rlm_ci.wiki.update.state import (
    CITED,
    COMMIT,
    GONE,
    MORE,
    MOVED,
    NEW,
    OTHER,
    PageChange,
    PageState,
    Prose,
    ProseSentence,
    QuotedLines,
    WikiState,
    lost,
    page_changes,
)

HEAD = "a" * 40
#: A cited place: path, line, hash of the quote.
Places = tuple[tuple[str, int, str], ...]
BEFORE: Places = (("a.py", 1, "one"), ("b.py", 4, "two"))


def state(
    places: Places | None,
    *,
    digest: str = "",
    sha256: str = "",
    prose: dict[str, Prose] | None = None,
) -> WikiState:
    if places is None:
        return WikiState(blobs={"b.py": "1"})
    cited = tuple(HashedPlace(CitedPlace(path, at, at), quote) for path, at, quote in places)
    page = PageState(digest or repr(places), sha256 or repr(places), HEAD, cited)
    return WikiState(
        pages={"index.md": page}, blobs={path: "1" for path, *_ in places}, prose=prose or {}
    )


@pytest.mark.parametrize(
    ("old", "new", "why", "paths"),
    [
        (None, BEFORE, NEW, ()),
        (BEFORE, None, GONE, ("a.py",)),
        (BEFORE, (("a.py", 1, "other"), BEFORE[1]), CITED, ("a.py",)),
        (BEFORE, (*BEFORE, ("c.py", 9, "three")), MORE, ("c.py",)),
        (BEFORE, (BEFORE[0], ("b.py", 40, "two")), MOVED, ("b.py",)),
    ],
)
def test_the_reason_names_the_files(
    old: Places | None, new: Places | None, why: str, paths: tuple[str, ...]
) -> None:
    assert page_changes(state(old), state(new)) == (PageChange("index.md", why, paths),)


def test_other_reasons() -> None:
    same = state(BEFORE)
    assert page_changes(same, same) == ()
    text = state(BEFORE, digest="other", sha256="other")
    assert page_changes(same, text) == (PageChange("index.md", OTHER),)
    commit = state(BEFORE, sha256="other")
    assert page_changes(same, commit) == (PageChange("index.md", COMMIT),)
    assert [one.why for one in page_changes(None, same)] == [NEW]


def test_a_reason_names_three_files() -> None:
    change = PageChange("index.md", CITED, ("a", "b", "c", "d", "e"))
    assert change.reason(str.upper) == f"{CITED}: A, B, C and 2 other files"
    assert PageChange("index.md", NEW).reason(str) == NEW


def test_what_is_lost_is_what_nobody_says_any_more() -> None:
    quote = QuotedLines("a.py", 1, 1, "one")
    first, second = (ProseSentence(text, (quote,)) for text in ("Kept.", "Gone."))
    old = state(BEFORE, prose={"a.py": Prose("", "m", (first, second))})
    moved = first.replace(quotes=(QuotedLines("c.py", 9, 9, "one"),))
    new = state(BEFORE, prose={"c.py": Prose("", "m", (moved,))})
    assert lost(old, new) == (second,)
    assert lost(None, new) == ()


def test_a_sentence_of_an_older_wiki_lacks_what_came_later() -> None:
    quote = QuotedLines("a.py", 1, 1, "one")
    row = ["Kept.", [quote.to_json()]]
    assert ProseSentence.from_dict(row) == ProseSentence("Kept.", (quote,))
