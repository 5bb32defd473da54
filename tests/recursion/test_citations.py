"""Answers with evidence: a citation is a place that was read, or it is marked and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci import evidence
from rlm_ci.recursion.context.building import build
from rlm_ci.recursion.symbolic.citations import MOST, cite
from rlm_ci.recursion.symbolic.grounds import NEVER_READ, PLACES, QUOTED_LINES

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.recursion.context import Context

CONTENTS = {
    "a.py": b"one\ntwo\r\nthree\n" + b"x = 1\n" * 40,
    "b/wide.txt": b"w" * 3000 + b"\nshort\n",
    "c/latin.txt": b"caf\xe9 gate\nno end of line",
    "d/empty.txt": b"",
    "e/last.txt": b"the end\n",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cited") / "tree"
    for name, data in CONTENTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def context(tree: Path) -> Context:
    return build(
        str(tree), str(tree.parent / "object"), target_bytes=100, overlap_bytes=10, root=str(tree)
    )


def span(context: Context, start: int, end: int) -> str:
    return f"ctx:{context.object_id}#bytes:{start}-{end}"


def place_of(context: Context, path: str, at: int, length: int) -> str:
    piece = next(piece for piece in context.files if piece.path == path)
    return span(context, piece.start + at, piece.start + at + length)


def everything(context: Context) -> list[tuple[int, int]]:
    return [(0, context.byte_length)]


def hold(context: Context, answer: str) -> None:
    """Each location is one that ``rlm-ci verify`` finds to hold."""
    for one in cite(answer, context, everything(context)).locations:
        content = CONTENTS[one.path]
        assert evidence.flaw(one, content, one.blob) is None
        assert one.blob is not None


def test_citations_become_places(context: Context) -> None:
    """Each is verified and turned into path:line where the context came from files."""
    two = place_of(context, "a.py", 5, 1)
    lines = place_of(context, "a.py", 5, 12)
    answer = f"It says so ({two}), and [{lines}]. See `{context.pointer(0)}`."
    cited = cite(answer, context, everything(context))
    assert cited.text == "It says so (a.py:2), and [a.py:2-4]. See `a.py:1-18`."
    assert (cited.offered, cited.verified, cited.rejected) == (3, 3, ())
    first, second, third = cited.locations
    assert (first.path, first.line_start, first.line_end, first.quote) == ("a.py", 2, 2, "two")
    assert second.quote == "two\nthree\nx = 1"
    assert (third.line_start, third.line_end) == (1, 18)
    assert third.quote is not None
    assert cited.evidence.verified == 3
    hold(context, answer)


def test_a_span_over_files_has_a_place_in_each(context: Context) -> None:
    """A citation across several files gives one Location for each."""
    answer = span(context, 0, context.byte_length)
    cited = cite(answer, context, everything(context))
    assert [one.path for one in cited.locations] == [
        "a.py",
        "b/wide.txt",
        "c/latin.txt",
        "e/last.txt",
    ]
    assert cited.text == "a.py:1-43, b/wide.txt:1-2, c/latin.txt:1-2, e/last.txt:1"
    assert [one.quote is None for one in cited.locations] == [True, True, False, False]
    assert cited.verified == 1
    hold(context, answer)


def test_a_span_over_many_files_has_the_first_of_them(tmp_path: Path) -> None:
    """At most 8 of them."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(PLACES + 3):
        (tree / f"{number:02d}.txt").write_text(f"{number}\n")
    context = build(str(tree), str(tmp_path / "object"), root=str(tree))
    cited = cite(span(context, 2, context.byte_length), context, everything(context))
    assert [one.path for one in cited.locations] == [f"{n:02d}.txt" for n in range(1, PLACES + 1)]
    assert cited.text.endswith("08.txt:1 and more")
    few = cite(span(context, 0, 2 * PLACES), context, everything(context))
    assert few.text.endswith(", 07.txt:1")


def test_no_quote_of_more_than_its_bounds(context: Context) -> None:
    """Quotes have at most 20 lines or 2,000 bytes, and hold whole lines."""
    for length, quoted in ((6 * QUOTED_LINES, True), (6 * QUOTED_LINES + 1, False)):
        (one,) = cite(place_of(context, "a.py", 15, length), context, [(0, 400)]).locations
        assert (one.quote is not None) is quoted
    (wide,) = cite(place_of(context, "b/wide.txt", 100, 5), context, everything(context)).locations
    assert (wide.line_start, wide.line_end, wide.quote) == (1, 1, None)
    (latin,) = cite(place_of(context, "c/latin.txt", 0, 9), context, everything(context)).locations
    assert latin.quote == "caf\udce9 gate"
    hold(context, place_of(context, "c/latin.txt", 0, 9))


@given(st.data())
def test_whatever_is_cited_holds(context: Context, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, context.byte_length - 1))
    end = data.draw(st.integers(start + 1, min(context.byte_length, start + 300)))
    hold(context, span(context, start, end))


SEEN = st.lists(st.tuples(st.integers(0, 3400), st.integers(1, 200)), max_size=8).map(
    lambda found: [(start, start + size) for start, size in found]
)


@given(st.data(), SEEN)
def test_every_line_of_a_place_was_shown(
    context: Context, data: st.DataObject, seen: list[tuple[int, int]]
) -> None:
    """A citation is verified for what was read in this run, and for no line beside it."""
    start = data.draw(st.integers(0, context.byte_length - 1))
    end = data.draw(st.integers(start + 1, context.byte_length))
    number = data.draw(st.integers(0, context.chunk_count - 1))
    for pointer in (span(context, start, end), context.pointer(number)):
        cited = cite(pointer, context, seen)
        assert cited.offered == 1
        shown = {byte for first, last in seen for byte in range(first, last)}
        for one in cited.locations:
            piece = next(piece for piece in context.files if piece.path == one.path)
            at, lines = piece.start, []
            for line in CONTENTS[one.path].splitlines(keepends=True):
                lines.append(range(at, at + len(line)))
                at += len(line)
            assert one.line_start
            assert one.line_end
            for line_bytes in lines[one.line_start - 1 : one.line_end]:
                assert shown & set(line_bytes)
            assert evidence.flaw(one, CONTENTS[one.path], one.blob) is None


def test_what_was_never_read_is_marked(context: Context) -> None:
    """Unverifiable citations are counted and marked."""
    seen = [(100, 130), (10, 20)]
    cases = {
        (0, 10): NEVER_READ, (0, 11): "only 1 of 11 bytes were read in this run",
        (9, 11): None, (19, 20): None, (20, 100): NEVER_READ, (130, 131): NEVER_READ,
        (20, 101): "only 1 of 81 bytes were read in this run", (129, 135): None,
        (0, 20): None, (0, 31): "only 10 of 31 bytes were read in this run",
        (5, 300): "only 40 of 295 bytes were read in this run",
    }  # fmt: skip
    for (start, end), flaw in cases.items():
        pointer = span(context, start, end)
        cited = cite(f"x {pointer}.", context, seen)
        assert cited.verified == (flaw is None), (start, end)
        if flaw:
            assert cited.text == f"x [unverified: bytes {start}-{end}]."
            assert cited.rejected == ((f"bytes {start}-{end}", flaw),)
            assert cited.locations == ()
            assert (cited.evidence.offered, cited.evidence.rejected) == (1, 1)
    assert cite(span(context, 0, 9), context, []).verified == 0


def test_a_citation_is_narrowed_to_what_was_shown(context: Context) -> None:
    """The whole of a source is not verified because one byte of it was shown."""
    lines = CONTENTS["a.py"].split(b"\n")
    x = len(b"\n".join(lines[:3])) + 1  # where the lines "x = 1" begin
    seen = [(0, 3), (x + 6, x + 18), (x + 26, x + 28), (x + 60, x + 61)]
    whole = cite(span(context, 0, context.byte_length), context, seen)
    assert (whole.verified, whole.locations) == (0, ())
    assert whole.rejected[0][1] == f"only 18 of {context.byte_length:,} bytes were read in this run"
    cited = cite(context.pointer(0), context, seen)
    assert cited.text == "a.py:1, a.py:5-6, a.py:8, a.py:14"
    assert [one.quote for one in cited.locations] == ["one", "x = 1\nx = 1", "x = 1", "x = 1"]
    mostly = cite(span(context, x, x + 24), context, seen)
    assert (mostly.text, mostly.verified) == ("a.py:5-6", 1)
    # One byte of a line is shown: the line may be cited, not the one after it.
    line = cite(span(context, x + 60, x + 66), context, seen)
    assert (line.text, line.verified) == ("a.py:14", 1)
    assert cite(span(context, x + 60, x + 67), context, seen).verified == 0
    wide = place_of(context, "b/wide.txt", 0, 3001)
    piece = next(piece for piece in context.files if piece.path == "b/wide.txt")
    assert cite(wide, context, [(piece.start + 2500, piece.start + 2600)]).verified == 0


def test_a_chunk_of_which_much_was_shown_has_a_few_places(context: Context) -> None:
    seen = [(at, at + 1) for at in range(0, 100, 4) if at % 12 == 0]
    cited = cite(context.pointer(0), context, [*seen, (99, 100)])
    assert len(cited.locations) <= PLACES
    many = cite(context.pointer(0), context, [(21 + 12 * n, 22 + 12 * n) for n in range(7)])
    assert many.text == "a.py:5, a.py:7, a.py:9, a.py:11, a.py:13, a.py:15, a.py:17"


def test_whatever_else_looks_like_a_pointer_is_marked(context: Context) -> None:
    """Nothing that looks like evidence is left standing as if it were some."""
    own = f"ctx:{context.object_id}"
    for written in (
        f"{own}#bytes:0\u20133", f"{own}#bytes:0-3x", f"{own}#line:3", own, "ctx:…#bytes:0-3",
        "ctx:sha256:87d1…", "ctx:bytes:0-3", "ctx:#chunk:c000001", "subcall:0:sc0001", "subcall:7",
    ):  # fmt: skip
        cited = cite(f"So it is ({written}).", context, everything(context))
        told = written.removeprefix(f"{own}#").replace(":", " ", 1) if "#" in written else written
        told = told if written.startswith(f"{own}#") else written.rstrip("…")
        assert cited.text in (f"So it is ([unverified: {told}]).",
                              f"So it is ([unverified: {told}]…)."), written  # fmt: skip
        assert (cited.offered, cited.verified, len(cited.rejected)) == (1, 0, 1)
    for prose in ("the parameter ctx: a context", "f(ctx:Context)", "a subcall: no", "myctx:#x"):
        assert cite(prose, context, everything(context)).offered == 0


def test_short_forms_are_citations_in_brackets(context: Context) -> None:
    """``bytes:`` and ``chunk:`` inside square brackets, as a plan writes them."""
    for answer, text in {
        "[bytes:0-3]": "[a.py:1]",
        "[see bytes:0-3, chunk:c000001]": "[see a.py:1, a.py:1-18]",
        "[bytes:0-99999]": "[[unverified: bytes 0-99999]]",
        "[chunk:c999999]": "[[unverified: chunk c999999]]",
    }.items():
        cited = cite(answer, context, everything(context))
        assert cited.text == text
        assert cited.offered == answer.count(":")
    for prose in ("bytes:0-3", "[a] bytes:0-3 [b]", "[bytes:0-3", "bytes:0-3]", "(chunk:c000001)"):
        cited = cite(prose, context, everything(context))
        assert (cited.text, cited.offered) == (prose, 0)


def test_what_leads_nowhere_is_marked(context: Context) -> None:
    other = "ctx:sha256:" + "0" * 64 + "#chunk:c000001"
    for pointer, why in {
        other: "another context object",
        f"ctx:{context.object_id}#chunk:c999999": "there is no chunk",
        f"ctx:{context.object_id}#bytes:5-5": "no part of the context",
        f"ctx:{context.object_id}#bytes:0-99999999999999999999": "not a pointer",
    }.items():
        cited = cite(f"({pointer})", context, everything(context))
        short = pointer.removeprefix(f"ctx:{context.object_id}#")
        told = pointer if short == pointer else short.replace(":", " ")
        assert cited.text == f"([unverified: {told}])"
        ((_, reason),) = cited.rejected
        assert why in reason


def test_without_files_it_is_bytes(tmp_path: Path) -> None:
    """Where the context came from no files, a citation becomes its bytes."""
    import io

    context = build(io.BytesIO(b"one\ntwo\n"), str(tmp_path / "object"))
    cited = cite(f"See {span(context, 0, 3)}!", context, [(0, 8)])
    assert (cited.text, cited.locations, cited.verified) == ("See bytes 0-3!", (), 1)


def test_the_same_place_is_evidence_once(context: Context) -> None:
    pointer = span(context, 0, 3)
    cited = cite(f"{pointer} {pointer}", context, everything(context))
    assert (cited.offered, cited.verified, len(cited.locations)) == (2, 2, 1)


def test_hostile_answers_take_no_time(context: Context) -> None:
    """At most 200 citations looked at, the rest counted as rejected; no catastrophic regex."""
    for answer in (
        "ctx:" * 500_000,
        "ctx:" + "a" * 2_000_000,
        ("ctx:" + "a:." * 30) * 20_000,
        "[unverified: " * 100_000,
        "[" * 100_000 + "bytes:0-1" * 100_000,
        "bytes:0-1 " * 100_000,
    ):
        cited = cite(answer, context, everything(context))
        assert (cited.text, cited.offered) == (answer, 0)
    for answer in (
        "ctx:x#bytes:" + "1" * 2_000_000,
        "ctx:x#bytes:" * 100_000,
        "subcall:1" * 100_000,
        "[bytes:0-1]" * 100_000,
    ):
        assert cite(answer, context, everything(context)).offered
    many = " ".join(span(context, n % 400, n % 400 + 1) for n in range(50_000))
    cited = cite(many, context, everything(context))
    assert cited.offered == 50_000
    # Only the first are followed: what stands in place of one may be far longer than it.
    assert cited.verified == MOST
    assert cited.text.count("[unverified: bytes ") == 50_000 - MOST
    assert len(cited.rejected) == 1
    assert len(cited.locations) <= MOST * PLACES


def test_a_name_from_a_stranger_is_told_in_one_line(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a\n## evil\x1b[0m").write_text("x\n")
    context = build(str(tree), str(tmp_path / "object"), root=str(tree))
    cited = cite(span(context, 0, 1), context, [(0, 1)])
    assert cited.text == "a\\n## evil\\x1b[0m:1"
    assert cited.locations[0].path == "a\n## evil\x1b[0m"
