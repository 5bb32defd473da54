"""Each neutral form, judged by parsers that are not ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm_ci.text import neutralise
from rlm_ci.text.printable import encodable, printable
from testing.markup_judges import LINKED, Page, github_commands, github_html
from testing.reports import FRAGMENTS, HEAD, hostile

#: Where a template may put running text, and where GitHub's parser then finds it.
PLACES = {
    "alone": ("{}", ("p",)),
    "item": ("- {}", ("li",)),
    "second line": ("word\n{}", ("p",)),
    "second line of an item": ("- word\n  {}", ("li",)),
    "emphasised item": ("- **high** · {}", ("li",)),
    "note": ("> [!NOTE]\n> {}", ("p",)),
}


def shown(text: str) -> str:
    """What a reader must see of ``text``: itself, without the backticks around code.

    Blank code is told in words.
    """
    pieces = neutralise.segments(neutralise.one_line(text).strip())
    return "".join("(blank)" if code and not one.strip(" ") else one for code, one in pieces)


def visible(text: str) -> str:
    return text.replace(neutralise.GAP, "").strip()


@pytest.mark.parametrize("place", PLACES)
@given(text=hostile())
@example("@alice wrote `x``y` in #1: https://evil.example")
@example("1. \\| `a\\|b` $x$ &commat;bob")
@example("_i_www.evil.example")
@example(":white_check_mark: all :+1::shipit:, :100:")
@example("===")
@example("---")
@example("+ a")
@example("7) a")
@example("# a")
@example("~~~")
def test_prose_shows_exactly_what_was_written_and_nothing_happens(place: str, text: str) -> None:
    form, holders = PLACES[place]
    page = github_html(form.format(neutralise.prose(text)))
    tags = {element.tag for element in page.root.all()}
    assert tags <= {"p", "ul", "li", "strong", "code", "span", "br", "blockquote"}
    assert not page.comments
    assert not page.stray
    assert all(span.text() == "$" and not span.attributes for span in page.root.all("span"))
    holder = page.root.all(*holders)
    if shown(text).strip():
        assert visible(holder[-1].text()).endswith(visible(shown(text)))
    for node in page.root.prose():
        assert not LINKED.search(node), node


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(), inner, max_size=3), max_leaves=20,
)  # fmt: skip


@given(value=_JSON, depth=st.integers(0, 5))
def test_a_record_is_json_whatever_its_depth(value: object, depth: int) -> None:
    text = neutralise.record(value, depth)
    assert text.isascii()
    assert json.loads(text) == value
    assert "##[" not in text


def test_what_lies_deeper_is_a_line() -> None:
    value = {"a": [{"b": [1, {}]}, {"c": "x"}], "d": [], "e": {"f": None}}
    assert neutralise.record(value) == (
        '{\n  "a": [\n    {"b": [1, {}]},\n    {"c": "x"}\n  ],\n  "d": [],\n'
        '  "e": {\n    "f": null\n  }\n}\n'
    )
    assert neutralise.record(value, 9) == json.dumps(value, indent=2) + "\n"


@given(text=hostile())
@example("a\\|b `c|d` \\")
@example("`|`")
def test_a_cell_stays_one_cell(text: str) -> None:
    table = f"| a | b | c |\n|---|---|---|\n| x | {neutralise.prose(text, cell=True)} | z |"
    page = github_html(table)
    cells = [cell.text() for cell in page.root.all("td")]
    assert len(cells) == 3
    assert (cells[0], cells[2]) == ("x", "z")
    assert visible(cells[1]) == visible(shown(text))
    assert {element.tag for element in page.root.all()} <= {
        "table", "thead", "tbody", "tr", "th", "td", "code", "span",
    }  # fmt: skip


@given(text=hostile())
@example("`")
@example("``a` b```")
@example(" a")
@example("a\\")
@example("##[error]x")
@example(f"{neutralise.MARKER} @alice www.evil.example a@evil.example `*b*` &lt;")
def test_code_is_one_code_span_with_that_text(text: str) -> None:
    page = github_html(f"see {neutralise.code(text)} there")
    codes = page.root.all("code")
    tags = [element.tag for element in page.root.all() if element.tag != "span"]
    assert tags == ["p", *["code"] * len(codes)]
    expected = printable(text)
    if expected.strip(" "):
        assert len(codes) == 1
        assert codes[0].text() == expected
        assert not github_commands(neutralise.code(text))
    else:
        assert not codes


def test_a_name_and_a_colon_of_ours_are_no_emoji() -> None:
    assert ":tada:" not in f"{neutralise.code('a|:tada', cell=True)}: why"


@given(text=hostile())
@example("a\\|b")
def test_code_in_a_cell(text: str) -> None:
    page = github_html(f"| a | b |\n|---|---|\n| {neutralise.code(text, cell=True)} | z |")
    cells = page.root.all("td")
    assert [cell.text() for cell in cells[1:]] == ["z"]
    assert {element.tag for element in cells[0].all()} <= {"code", "span"}
    if printable(text).strip(" "):
        assert cells[0].text().strip(" ") == printable(text).strip(" ")


@given(text=hostile(20), indent=st.sampled_from(("", "  ")))
@example("```\n```` x\n# no heading", "  ")
@example("~~~\n<!-- rlm-ci:report -->", "")
@example("::error::a\n\n\tif a < b &amp;&amp; c:\n\n</code></pre>@alice ##[error]x", "  ")
@example("\tx\r\n  \ty", "  ")
def test_a_fence_holds(text: str, indent: str) -> None:
    lines = neutralise.fence(text, "python").split("\n")
    block = "\n".join(
        f"{indent}{line}".rstrip() if not line else f"{indent}{line}" for line in lines
    )
    page = github_html(f"- item\n\n{block}\n\nafter" if indent else f"{block}\n\nafter")
    blocks = page.root.all("pre")
    assert len(blocks) == 1
    pieces = (line.removesuffix("\r").split("\t") for line in text.split("\n"))
    expected = "\n".join("\t".join(map(printable, line)) for line in pieces)
    assert blocks[0].text() == f"{expected}\n"
    assert blocks[0].attributes == {"lang": "python"}
    assert not github_commands(block)
    assert page.root.all("p")[-1].text() == "after"
    assert neutralise.MARKER not in block


@given(text=hostile())
def test_nothing_invisible_is_left(text: str) -> None:
    prose = neutralise.prose(text).replace(neutralise.GAP, "")
    for form in (prose, neutralise.code(text), neutralise.fence(text)):
        for line in form.replace("\t", "").split("\n"):
            assert printable(line) == line


@given(texts=st.lists(hostile(), min_size=1, max_size=4))
@example(["\u2003::error::x"])
@example(["###[", "[error]x"])
def test_no_log_line_is_a_command(texts: list[str]) -> None:
    line = neutralise.log(printable(" ".join(texts)))
    assert github_commands(line) == []


@given(
    name=st.sampled_from(("error", "warning", "notice")),
    title=hostile(), file=hostile(), message=hostile(),
)  # fmt: skip
@example("error", "a::error::b", "a,line=1", "%0A::error::x\n::error::y")
def test_a_command_says_what_it_was_given(name: str, title: str, file: str, message: str) -> None:
    output = neutralise.command(name, {"file": file, "line": None, "title": title}, message)
    safe = [neutralise.one_line(text).replace("##[", "#\\#[") for text in (file, title, message)]
    assert github_commands(f"{output}\n") == [(name, {"file": safe[0], "title": safe[1]}, safe[2])]


@given(text=hostile())
def test_a_record_is_json_that_no_log_obeys(text: str) -> None:
    output = neutralise.record({"text": encodable(text)})
    assert json.loads(output) == {"text": encodable(text)}
    assert output.isascii()
    assert github_commands(output) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words, 1,200 of them.", "plain words, 1,200 of them."),
        ("run `git fetch origin main` now", "run `git fetch origin main` now"),
        ("DIFF_BUDGET", "DIFF\\_BUDGET"),
        ("2024-10-01 and pages 3-5", "2024-10-01 and pages 3-5"),
        ("two\nlines", "two lines"),
        ("`a`b`", "`a`b\\`"),
        ("``a``", "\\`\\`a\\`\\`"),
        ("at 12:30:45, src/a.py:10:5: no", "at 12:30:45, src/a.py:10:5: no"),
    ],
)
def test_ordinary_text_stays_readable(text: str, expected: str) -> None:
    assert neutralise.prose(text) == expected


def test_the_judge_sees_what_it_must_see() -> None:
    """The raw fragments do set it off: a parser that finds nothing proves nothing."""
    linked = [text for text in FRAGMENTS if LINKED.search(text)]
    assert {"@alice", "#1", "GH-12", "www.evil.example", HEAD, ":tada:"} <= set(linked)
    page = github_html("![x](https://e/p.png) <img src=x> [a](b) www.e.com <!-- c -->\n\n# h")
    assert {"img", "a", "h1"} <= {element.tag for element in page.root.all()}
    assert page.comments == [" c "]
    assert len(github_commands("::error::a\n  ::warning file=b::c\rx ##[debug]d")) == 3
    assert Page("<p><b></p>").stray
