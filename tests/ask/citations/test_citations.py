"""Answers with evidence: a citation is a place that was read, or it is marked and counted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.ask.citations.citations import (
    MOST,
    NEVER_READ,
    NO_FILE,
    NO_PLACE,
    PLACES,
    QUOTED_LINES,
    cite,
)
from rlm_ci.ask.citations.compare_files import OTHER, FileComparison, refuted_by
from rlm_ci.change import evidence
from rlm_ci.context.builder.build import build
from rlm_ci.git.repository import Repository, discover

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.context.context import Context
    from testing.repositories.git_repo import GitRepo

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


def test_a_count_of_the_run_is_a_citation(context: Context) -> None:
    answer = "Nine [count:0:1], not [count:0:2]. At count:0:1, [count:0:1:2]."
    cited = cite(answer, context, [], counts={"count:0:1": '9 hits of "x"'})
    assert cited.text == (
        'Nine [9 hits of "x"], not [[unverified: count:0:2]]. At count:0:1, [count:0:1:2].'
    )
    assert (cited.offered, cited.verified, cited.locations) == (2, 1, ())
    assert cite(answer, context, []).text == answer, "of a run from before there were counts"


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
    assert latin.quote == "café gate"
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
        f"ctx:{context.object_id}#bytes:5-5": "not part of the context",
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


@pytest.mark.full
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


# ── places that the answer writes itself ──


def test_a_place_that_the_answer_writes_is_looked_up(context: Context) -> None:
    """``path:12`` and ``path#L3-L5``: those whose path is in the table of files are citations."""
    for written in (
        "a.py:2", "a.py:2-4", "a.py#L2", "a.py#L2-L4", "a.py#L2-4", "./a.py:2", "b/wide.txt:2",
        "a.py:2:14", "a.py:2\u20134", "c/latin.txt#L1C2-L2C3",
    ):  # fmt: skip
        for around in (
            "So it is ({}).",
            "`{}`",
            "{}",
            "see\t{}, and",
            "**{}**: x",
            "见{}。",
            "[{}]",
        ):
            answer = around.format(written)
            cited = cite(answer, context, everything(context))
            assert (cited.text, cited.verified) == (answer, 1), answer
            assert cited.evidence.rejected == 0
            hold(context, answer)
    (one,) = cite("It is so, a.py:2-4.", context, everything(context)).locations
    assert (one.path, one.line_start, one.line_end, one.quote) == (
        "a.py", 2, 4, "two\nthree\nx = 1",
    )  # fmt: skip
    both = cite(f"a.py:2 and {place_of(context, 'a.py', 5, 1)}", context, everything(context))
    assert (both.text, both.verified, len(both.locations)) == ("a.py:2 and a.py:2", 2, 1)


def test_a_place_that_was_not_read_is_marked(context: Context) -> None:
    """The same rule as for pointers; what is beyond the file is told as that."""
    lines = CONTENTS["a.py"].split(b"\n")
    x = len(b"\n".join(lines[:3])) + 1  # where the lines "x = 1" begin
    seen = [(0, 3), (x, x + 18)]
    for written, text, why in (
        ("a.py:1", "a.py:1", None),
        ("a.py:2", "[unverified: a.py:2]", NEVER_READ),
        ("a.py:4-8", "a.py:4-6", None),  # narrowed to what was shown, which is most of it
        ("a.py:4-30", "[unverified: a.py:4-30]", "only 18 of 162 bytes were read in this run"),
        ("a.py:99", "[unverified: a.py:99]", "line 99 is not in the file, which has 43"),
        ("a.py#L0", "[unverified: a.py#L0]", "line 0 is not in the file, which has 43"),
        ("a.py:3-2", "[unverified: a.py:3-2]", "lines 3-2 are not in the file, which has 43"),
        ("d/empty.txt:1", "[unverified: d/empty.txt:1]", "line 1 is not in the file, which has 0"),
    ):  # fmt: skip
        cited = cite(f"It is so ({written}).", context, seen)
        assert cited.text == f"It is so ({text})."
        assert (cited.offered, cited.verified) == (1, int(why is None))
        assert cited.rejected == (() if why is None else ((written, why),))


def test_a_place_in_no_file_of_the_context_is_marked(context: Context) -> None:
    """It would go out in the very form of those that were looked up."""
    for written in (
        "src/auth.py:40", "src/auth.py#L40-L44", "/etc/passwd:1", "A.PY:2", "lib/a.py:2", "xa.py:2",
        "b\\wide.txt:2", "line 2 of lib/a.py", "lib/a.py, lines 2 and 3", "`a b.py`:2",
        "`my a.py`:2",
    ):  # fmt: skip
        cited = cite(f"So it is ({written}).", context, everything(context))
        assert cited.text == f"So it is ([unverified: {written}])."
        assert (cited.offered, cited.verified, cited.rejected) == (1, 0, ((written, NO_FILE),))
    for written in ("a.py\uff1a2", "a.py:\uff12", "https://github.com/o/r/blob/main/a.py#L2"):
        cited = cite(f"So it is ({written}).", context, everything(context))
        assert (cited.verified, cited.rejected) == (0, ((written, NO_PLACE),))


def test_several_lines_hold_together_or_not_at_all(context: Context) -> None:
    for written in ("a.py:2,4", "a.py, lines 2 and 4-6", "lines 2, 3 and 4 of a.py", "`a.py`:2"):
        cited = cite(f"See {written}.", context, everything(context))
        assert (cited.text, cited.verified) == (f"See {written}.", 1)
        hold(context, written)
    assert cite("a.py:2,99", context, everything(context)).text == "[unverified: a.py:2,99]"
    some = cite("a.py:2,4-6", context, [(0, 21)])  # of the last two lines nothing was shown
    assert some.text == "[unverified: a.py:2,4-6]"


def test_what_only_looks_like_a_place_is_left_alone(context: Context) -> None:
    """Times, versions, addresses; see ``tests/text/cases/line_references.toml`` for all of them."""
    for prose in (
        "at 11:33:20 on 2026-03-03T11:33, ratio 3:1, python:3.12, redis:7, localhost:8080",
        "http://a.py:80/x a.py:2x a.py:2.5 a.py:x a.py: 2 a.py#2 a.py#L :2, #L2, a.py",
    ):
        cited = cite(prose, context, everything(context))
        assert (cited.text, cited.offered) == (prose, 0)


def test_names_that_are_hard_to_read_are_found(tmp_path: Path) -> None:
    """Blanks, brackets and the like in paths; the longest name counts; words alone are no files."""
    tree = tmp_path / "tree"
    (tree / "[slug]").mkdir(parents=True)
    names = ("my notes.txt", "notes.txt", "[slug]/page (2).tsx", "Makefile", "redis", "11", ".env",
             "__init__.py", "\u6587\u4ef6.md")  # fmt: skip
    for number, name in enumerate(names):
        (tree / name).write_text(f"{number}\n" * 20)
    context = build(str(tree), str(tmp_path / "object"), root=str(tree))
    for name in names:
        for line in (":3", "#L3"):
            cited = cite(f"See {name}{line}, and so on.", context, everything(context))
            is_word = name in ("redis", "11") and line == ":3"
            assert cited.verified == int(not is_word), name + line
            if not is_word:
                assert [one.path for one in cited.locations] == [name]
    assert cite("(my notes.txt:3)", context, everything(context)).locations[0].path == names[0]
    assert cite("they notes.txt:3", context, everything(context)).locations[0].path == names[1]


@given(st.data(), SEEN)
def test_a_written_place_is_as_good_as_its_pointer(
    context: Context, data: st.DataObject, seen: list[tuple[int, int]]
) -> None:
    """Lines by name and by bytes: verified alike, with the same locations."""
    path = data.draw(st.sampled_from([name for name, held in CONTENTS.items() if held]))
    ends = [0]
    for line in CONTENTS[path].splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    first = data.draw(st.integers(1, len(ends) - 1))
    last = data.draw(st.integers(first, len(ends) - 1))
    pointer = place_of(context, path, ends[first - 1], ends[last] - ends[first - 1])
    by_bytes = cite(pointer, context, seen)
    by_name = cite(f"{path}:{first}-{last}", context, seen)
    assert by_name.verified == by_bytes.verified
    assert by_name.locations == by_bytes.locations
    assert [why for _, why in by_name.rejected] == [why for _, why in by_bytes.rejected]


@pytest.mark.parametrize("size", [1, pytest.param(10, marks=pytest.mark.full)])
def test_hostile_places_end(context: Context, size: int) -> None:
    """What is not linear would take longer than a test may."""
    n = 10_000 * size
    for answer in (
        ":1" * n, "a:1 " * n, "#L1" * n, "x" * n * 9 + ":1", "a.py" * n + ":1", ". " * n + "a:1",
        "a.py:1-" * n,
    ):  # fmt: skip
        assert cite(answer, context, everything(context)).text
    many = cite("a.py:1 " * n, context, everything(context))
    assert (many.offered, many.verified) == (n, MOST)


# ── files that are not what a context says ──


def test_a_file_that_holds_something_else_refutes(tmp_path: Path, repo: GitRepo) -> None:
    """An object from elsewhere may name any file: where that is there, its lines are compared."""
    held = {"a.py": "one\ntwo\nthree\n", "b.py": "four\nfive\n", "gone.py": "six\n", "c.py": "7\n"}
    for name, text in held.items():
        repo.write(name, text)
    context = build(str(repo.path), str(tmp_path / "object"), root=str(repo.path))
    repo.commit()
    repo.write("a.py", "one\nTWO\nthree\nand more\n")  # changed, and the old one in git
    repo.write("b.py", "before\nfour\nfive\n").commit()
    repo.write("b.py", "four!\nfive\n")
    repo.remove("gone.py").commit(stage=False)
    (repo.path / "c.py").unlink()
    (repo.path / "c.py").symlink_to("/etc/passwd")  # in git it is what it was
    (repo.path / "far").symlink_to(tmp_path)

    repository = Repository(*discover(str(repo.path)), os.environ)

    def flaws(*paths: str, object_of: Context = context) -> dict[str, bool]:
        standing = FileComparison(object_of, repository, repo.sha())
        answer = ", ".join(paths)
        cited = cite(answer, object_of, everything(object_of), refute=standing)
        kept = cite(answer, object_of, everything(object_of), refute=refuted_by(standing.refuted))
        assert kept == cited
        refuted = {told for told, why in cited.rejected if why == OTHER}
        assert len(refuted) == len(cited.rejected)
        return {path: path in refuted for path in paths}

    assert flaws("a.py:1", "a.py:2", "a.py:3", "b.py:1", "b.py:2", "gone.py:1", "c.py:1") == {
        "a.py:1": False, "a.py:2": True, "a.py:3": False, "b.py:1": True, "b.py:2": False,
        "gone.py:1": False, "c.py:1": False,
    }  # fmt: skip
    standing = FileComparison(context, repository, None)
    assert cite(context.pointer(0), context, everything(context), refute=standing).verified == 0
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "x.txt").write_text("x\n")
    from_far = build(str(odd), str(tmp_path / "far-object"))
    assert not any(flaws(f"{odd}/x.txt:1", object_of=from_far).values())
