"""The grammar of archive stubs: every legal form, every flaw, and what is no stub at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.checks._doc_archive import stub as doc_archive_stub
from rlm_ci.checks._doc_archive.stub import (
    LinkTarget,
    Stub,
    StubFlaw,
    StubFormat,
    parse,
)
from rlm_ci.checks._shown_markdown import open_items
from testing.repositories.archives import BRANCH, MARKER, MENTIONS, REPO_URL, stub

PATH = "docs/PRD-1.md"
TARGET = LinkTarget("github.com", "acme/shop")
GOOD = stub(PATH)


def _parsed(text: str) -> Stub | StubFlaw | None:
    return parse(text.encode("utf-8", "surrogateescape"))


def _flaw(text: str) -> str:
    found = _parsed(text)
    assert isinstance(found, StubFlaw), found
    assert found.condition == "malformed"
    assert 1 <= found.line <= text.count("\n") + 1
    return found.message


# -- legal forms --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        "\n\n" + GOOD,
        GOOD.rstrip("\n"),
        GOOD + "\n\n",
        GOOD.replace("\n\n", "\n"),
        GOOD.replace(MARKER, f"   {MARKER}  "),
        GOOD.replace("- Archive branch", "* Archive branch"),
        GOOD.replace("- Archive path", "+ Archive path"),
        GOOD.replace(f"branch: {BRANCH}", f"branch: `{BRANCH}`"),
        GOOD.replace(f"path: {PATH}", f"path: `{PATH}`"),
        stub(PATH, form="<{url}>"),
        stub(PATH, form="[full text]({url})"),
        stub(PATH, form="[`{path}`]({url})"),
        stub(PATH, form="[{path}](<{url}>)"),
        stub(PATH, form='[full text]({url} "as it was")'),
        stub(PATH, form="[full text](<{url}> 'as it was')"),
        stub(PATH, heading="###### Six"),
        stub(PATH, last_review="2026-05-18"),
        stub(PATH, date="2024-02-29"),
        stub(PATH).replace(MARKER, f"```\n{MARKER}\n```\n\n{MARKER}"),
        stub(PATH).replace(MARKER, f"```inline `code` ```\n\n{MARKER}"),
        GOOD.replace("PRD-1.md\n\n", "PRD-1.md <!-- rlm-ci: ignore[doc-archive] lost -->\n\n"),
        GOOD.replace(f"path: {PATH}", f"path: {PATH} <!-- by hand -->"),
    ],
)  # fmt: skip
def test_a_stub(text: str) -> None:
    found = _parsed(text)
    assert isinstance(found, Stub), found
    assert (found.branch, found.path) == (BRANCH, PATH)
    assert found.url == f"{REPO_URL}/blob/{BRANCH}/{PATH}"
    lines = text.split("\n")
    assert found.url in lines[found.url_line - 1]
    assert "Archive branch" in lines[found.branch_line - 1]
    assert "Archive path" in lines[found.path_line - 1]
    assert found.flaw_at(PATH, BRANCH, TARGET) is None


# -- no stub ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(MENTIONS))
def test_a_document_that_mentions_the_marker_is_none(name: str) -> None:
    assert _parsed(MENTIONS[name]) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Title\n\nText.\n",
        f"# Title\n\n    {MARKER}\n",
        f"# Title\n\n- {MARKER}\n",
        f"# Title\n\n````\n```\n{MARKER}\n```\n````\n",
        f"# Title\n\n~~~ `x`\n{MARKER}\n~~~\n",
        f"# Title\n\n```\n{MARKER}\n",
        GOOD.replace("docs-archive:stub", "docs-archive: stub"),
    ],
)
def test_no_stub(text: str) -> None:
    assert _parsed(text) is None


# -- flaws --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD.partition("\n")[2], "does not begin with a heading"),
        (GOOD.replace("# Arch", "#Arch"), "does not begin with a heading"),
        (GOOD.replace("# Arch", "####### Arch"), "does not begin with a heading"),
        (GOOD.replace("# Arch", "  Words # Arch"), "does not begin with a heading"),
        (GOOD.replace(MARKER, f"{MARKER}\n\n{MARKER}"), "more than once"),
        (GOOD + "\nMore.\n", "4 lines follow the marker, not 3"),
        (GOOD.partition("- Archive branch")[0], "1 line follows the marker, not 3"),
        (f"# Title\n{MARKER}", "0 lines follow"),
        (GOOD.replace("> Archived", "Archived"), "the line after the marker is not"),
        (stub(PATH, date="2026-02-30"), "the line after the marker is not"),
        (stub(PATH, date="18.5.2026"), "the line after the marker is not"),
        (stub(PATH, form="docs/full.md"), "the line after the marker is not"),
        (stub(PATH, form="{url} and more"), "the line after the marker is not"),
        (stub(PATH, form="<{url}"), "the line after the marker is not"),
        (stub(PATH, form="[x]({url}) ({url})"), "the line after the marker is not"),
        (GOOD.replace("Full content", "Content"), "the line after the marker is not"),
        (GOOD.replace("- Archive branch: ", "- Branch: "), "archive branch is missing"),
        (GOOD.replace(f"branch: {BRANCH}", "branch: ``"), "archive branch is missing"),
        (GOOD.replace("- Archive branch", "Archive branch"), "archive branch is missing"),
        (GOOD.replace(f"path: {PATH}", "path:"), "archive path is missing"),
        (stub(PATH, stated_path="/etc/passwd"), "leaves the repository"),
        (stub(PATH, stated_path="docs/../../x"), "leaves the repository"),
        (stub(PATH, url=f"{REPO_URL}/a b.md", form="<{url}>"), "…': ' ' in the link"),
        (stub(PATH, url=f"{REPO_URL}/a(x).md", form="[full]({url})"), "'()' in the link"),
    ],
)
def test_a_malformed_stub(text: str, why: str) -> None:
    assert why in _flaw(text)


def test_the_flaw_points_to_its_line() -> None:
    def line(text: str) -> int:
        found = _parsed(text)
        assert isinstance(found, StubFlaw)
        return found.line

    assert line(GOOD + "\nMore.\n") == 9
    assert line(GOOD.replace("- Archive branch: ", "- Branch: ")) == 6
    assert line(GOOD.replace(MARKER, f"{MARKER}\n\n{MARKER}")) == 5


# -- where it stands and leads ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "condition", "what"),
    [
        ({"stated_path": "README.md"}, "path-mismatch", "README.md"),
        ({"stated_path": "docs/prd-1.md"}, "path-mismatch", "docs/prd-1.md"),
        ({"branch": "main"}, "wrong-target", "the branch main"),
        ({"url": f"{REPO_URL}/blob/main/{PATH}"}, "wrong-target", "another branch"),
        ({"url": f"{REPO_URL}/tree/{BRANCH}/{PATH}"}, "wrong-target", "another branch"),
        ({"url": f"{REPO_URL}/blob/{BRANCH}-2/{PATH}"}, "wrong-target", "another branch"),
        ({"url_path": "README.md"}, "wrong-target", "another path"),
        ({"url_path": f"{PATH}/x"}, "wrong-target", "another path"),
        ({"url": f"{REPO_URL}/blob/{BRANCH}/{PATH}?raw=1"}, "wrong-target", "another path"),
        ({"url": f"{REPO_URL}/blob/{BRANCH}/{PATH}#L1"}, "wrong-target", "another path"),
        ({"url": f"{REPO_URL}/blob/{BRANCH}/docs%2f..%2f{PATH}"}, "wrong-target", "another path"),
        ({"repo_url": "https://github.com/mallory/shop"}, "wrong-target", "another repository"),
        ({"repo_url": "https://github.com/acme/shopping"}, "wrong-target", "another repository"),
        ({"repo_url": "https://github.com/acme"}, "wrong-target", "another repository"),
        ({"repo_url": "https://evil.example/acme/shop"}, "wrong-target", "another host"),
        ({"repo_url": "https://github.com@evil.example/acme/shop"}, "wrong-target", "another host"),
        ({"repo_url": "https://x@github.com/acme/shop"}, "wrong-target", "another host"),
        ({"repo_url": "https://github.com.evil.example/acme/shop"}, "wrong-target", "another host"),
        ({"repo_url": "https://github.com:8443/acme/shop"}, "wrong-target", "another host"),
        ({"repo_url": "ftp://github.com/acme/shop"}, "wrong-target", "another host"),
        ({"repo_url": "javascript://github.com/acme/shop"}, "wrong-target", "another host"),
    ],
)  # fmt: skip
def test_place_and_target_must_agree(parts: dict[str, str], condition: str, what: str) -> None:
    found = _parsed(stub(PATH, **parts))
    assert isinstance(found, Stub)
    flaw = found.flaw_at(PATH, BRANCH, TARGET)
    assert flaw is not None
    assert (flaw.condition, what in flaw.message) == (condition, True), flaw
    assert flaw.hint


@pytest.mark.parametrize(
    ("path", "url_path"),
    [
        ("docs/a b.md", "docs/a%20b.md"),
        ("docs/100% (x) #2.md", "docs/100%25%20%28x%29%20%232.md"),
        ("docs/日本.md", "docs/%E6%97%A5%E6%9C%AC.md"),
        ("docs/日本.md", "docs/日本.md"),
        ("docs/\udcff.md", "docs/%FF.md"),
        ("docs/a.md", "docs%2Fa.md"),
        ("docs/100%.md", "docs/100%.md"),
    ],
)
def test_a_link_may_be_percent_encoded(path: str, url_path: str) -> None:
    found = _parsed(stub(path, url=f"{REPO_URL}/blob/{BRANCH}/{url_path}"))
    assert isinstance(found, Stub), found
    assert found.flaw_at(path, BRANCH, TARGET) is None


@pytest.mark.parametrize(
    "path",
    ["docs/a b.md", "docs/100%25.md", "docs/100% (x) #2.md", "docs/a\\b.md", "docs/\u00a0é.md",
     "docs/\udcff.md", "docs/<a>[b]?.md"],
)  # fmt: skip
def test_the_link_that_a_hint_gives_is_taken(path: str) -> None:
    """Also where the name reads like a code already, and where it cannot stand in a link."""
    found = _parsed(stub(path, url=f"{REPO_URL}/blob/{BRANCH}/docs/other.md"))
    assert isinstance(found, Stub), found
    flaw = found.flaw_at(path, BRANCH, TARGET)
    assert flaw is not None
    link = flaw.hint.split("`")[1]
    mended = stub(path, url=link).encode("utf-8", "surrogateescape")
    assert StubFormat(BRANCH, TARGET).judge(path, mended) == (True, None)


def test_what_cannot_stand_in_a_link_is_named_with_its_code() -> None:
    found = _parsed(stub(PATH, url=f"{REPO_URL}/blob/{BRANCH}/docs/a b.md"))
    assert isinstance(found, StubFlaw)
    assert "a blank as %20" in found.hint


def test_what_nobody_knows_is_not_judged() -> None:
    found = _parsed(stub(PATH, repo_url="https://anywhere.example/some/body"))
    assert isinstance(found, Stub)
    assert found.flaw_at(PATH, BRANCH, LinkTarget()) is None
    assert found.flaw_at(PATH, BRANCH, LinkTarget("", "some/body")) is None
    assert found.flaw_at(PATH, BRANCH, LinkTarget("", "other/body")) is not None


def test_host_and_owner_have_no_case_but_path_and_branch_have() -> None:
    upper = _parsed(stub(PATH, repo_url="https://GitHub.com/Acme/Shop"))
    assert isinstance(upper, Stub)
    assert upper.flaw_at(PATH, BRANCH, TARGET) is None


def test_a_repository_may_lie_in_a_group_of_groups() -> None:
    target = LinkTarget.from_url("https://git.example/a/b/c.git")
    assert target == LinkTarget("git.example", "a/b/c")
    found = _parsed(stub(PATH, repo_url="https://git.example/a/b/c"))
    assert isinstance(found, Stub)
    assert found.flaw_at(PATH, BRANCH, LinkTarget("git.example", "a/b/c")) is None
    assert found.flaw_at(PATH, BRANCH, LinkTarget("git.example", "a/b")) is not None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://github.com/acme/shop", TARGET),
        ("https://GitHub.com/Acme/Shop.git/", TARGET),
        ("http://user:pa:ss@github.com/acme/shop.git", TARGET),
        ("git@github.com:acme/shop.git", TARGET),
        ("ssh://git@github.com:22/acme/shop", TARGET),
        ("ssh://git@github.com/acme/shop.git", TARGET),
        ("git://github.com/acme/shop", TARGET),
        ("https://git.example:8443/acme/shop", LinkTarget("git.example:8443", "acme/shop")),
        ("  https://github.com/acme/shop\n", TARGET),
        ("", None),
        ("/srv/git/shop.git", None),
        ("../shop", None),
        ("C:/git/shop", None),
        ("file:///srv/git/shop", None),
        ("https://github.com/acme", None),
        ("https://github.com", None),
        ("https:///acme/shop", None),
        ("ext::sh -c x", None),
    ],
)
def test_the_target_of_a_url(url: str, target: LinkTarget | None) -> None:
    assert LinkTarget.from_url(url) == target


def test_open_items_of_lists() -> None:
    text = (
        "# T\n- [ ] a\n* [ ] b\n+ [ ]  c\n 1. [ ] d\n\t2) [ ] e\r\n- [x] done\n- [] no\n"
        "-[ ] no\n- [ ]\ntext - [ ] no\n- [ ] \udcff\n"
    )
    found = open_items(text.encode("utf-8", "surrogateescape"))
    assert [number for number, _ in found] == [2, 3, 4, 5, 6, 12]
    assert found[4][1] == "\t2) [ ] e"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1. [ ] a\n2) [ ] b\n1234567890. [ ] c\n", [1, 2]),
        ("> - [ ] a\n> > 1. [ ] b\n", [1, 2]),
        ("- - [ ] a\n1. * [ ] b\n", [1, 2]),
        ("-     [ ] code\n", []),
        ("```\n- [ ] a\n```\n- [ ] b\n", [4]),
        ("~~~~ md\n- [ ] a\n~~~\n- [ ] b\n~~~~~\n- [ ] c\n", [6]),
        ("```\n~~~\n- [ ] a\n``` not its end\n- [ ] b\n```\r\n- [ ] c\n", [7]),
        ("- x\n\n  ```sh\n  - [ ] a\n  ```\n\n  - [ ] b\n", [7]),
        ("1. ```\n   - [ ] a\n   ```\n2. [ ] b\n", [4]),
        ("> ```\n> - [ ] a\n> ```\n> - [ ] b\n", [4]),
        ("``` inline ``` code\n- [ ] a\n", [2]),
        ("<!-- - [ ] a -->\n<!--\n- [ ] b\n```\n-->\n- [ ] c\n", [6]),
        ("```\n- [ ] never closed\n", []),
    ],
)
def test_open_items_are_those_that_are_shown_as_boxes(text: str, numbers: list[int]) -> None:
    assert [number for number, _ in open_items(text.encode())] == numbers


def test_open_items_are_found_in_linear_time() -> None:
    for line in ("- " * 200_000, "> " * 200_000, "1. " * 200_000 + "x", "`" * 400_000):
        assert open_items(f"{line}\n".encode()) == []


# -- the short way of reading -------------------------------------------------------------------


FORM = StubFormat(BRANCH, TARGET)


@pytest.mark.parametrize("form", ["{url}", "<{url}>", "[full text]({url})", "[`{path}`]({url})"])
@pytest.mark.parametrize("review", [None, "2026-05-18"])
@pytest.mark.parametrize("repo_url", [REPO_URL, "https://GitHub.com/Acme/shop"])
def test_what_the_archiver_writes_is_not_parsed(
    form: str, review: str | None, repo_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doc_archive_stub, "parse", None)  # would be called, and fail
    text = stub(PATH, form=form, last_review=review, repo_url=repo_url)
    assert FORM.judge(PATH, text.encode()) == (True, None)


PIECES = st.sampled_from(
    (MARKER, "\n", "\r", " ", "#", "# ", "```", "]", ")", ">", "<", "(", "%20", "..", "/", "é", "x",
     PATH, BRANCH, "last_review: 1", "2026-02-30", "- ", "`", "blob/", "\x00", "\ufeff", "<!-- -->")
)  # fmt: skip


@given(st.data())
def test_whatever_is_changed_in_it_is_judged_as_if_it_were_parsed(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(("{url}", "<{url}>", "[the text]({url})")))
    path = data.draw(st.sampled_from((PATH, "a b.md", "café.md", "x/../y.md", "a%b.md")))
    text = stub(path, form=form)
    for _ in range(data.draw(st.integers(0, 2))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + data.draw(st.just("") | PIECES) + text[end:]
    raw = text.encode()
    parsed = doc_archive_stub.parse(raw)
    expected = (
        (True, parsed.flaw_at(path, BRANCH, TARGET))
        if isinstance(parsed, Stub)
        else (parsed is not None, parsed)
    )
    assert FORM.judge(path, raw) == expected


@pytest.mark.parametrize("branch", ["doc-archives", "docs+old", "(a|b)$", "a%20b", "caf\u00e9"])
@pytest.mark.parametrize("slug", ["acme/shop", "ac.me/sh+op"])
@pytest.mark.parametrize("form", ["{url}", "<{url}>", "[the text]({url})"])
def test_signs_of_the_target_stand_for_themselves(branch: str, slug: str, form: str) -> None:
    target = LinkTarget("git.example.org", slug)
    url = f"https://git.example.org/{slug}/blob/{branch}/{PATH}"
    good = stub(PATH, branch=branch, url=url, form=form)
    changes = (("", ""), (".", "x"), ("+", ""), ("+", "d"), ("|", ""), ("(", ""), ("%20", " "))
    for old, new in changes:
        text = good.replace(old, new).encode()
        parsed = parse(text)
        flaw = parsed.flaw_at(PATH, branch, target) if isinstance(parsed, Stub) else parsed
        assert StubFormat(branch, target).judge(PATH, text) == (parsed is not None, flaw)


def test_a_stub_is_recognized_in_linear_time() -> None:
    start, end = GOOD.split(PATH, 1)
    for text, is_sound in (
        (start + "a" * 400_000 + end, False),
        (start.replace("https", "[" * 400_000 + "https") + PATH + end, False),
        (start.replace("https", "[a](" * 100_000 + "https") + PATH + end, False),
        ("# " + "\n" * 400_000 + GOOD, False),
        ("# " + "#" * 400_000 + GOOD, True),
    ):
        is_stub, flaw = FORM.judge(PATH, text.encode())
        assert (is_stub, flaw is None) == (True, is_sound), text[:80]
