"""Counts by a regular expression, against a plain count of the same lines."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.context.builder.build import build
from rlm_ci.context.pointers import PointerError
from rlm_ci.context.scope import Scope
from rlm_ci.context.search import pattern_counts
from rlm_ci.context.search.pattern_counts import CountRow, PatternCount, count
from rlm_ci.text.patterns import PatternError

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.context.context import Context

ALL = Scope()
#: Lines of all lengths, of more bytes than characters, and of bytes that are no text.
FILES = {
    "a.log": b"".join(
        b"%04d user=u%d %s ERROR %s\n" % (n, n * n % 7, b"\xc3\xa4" * (n % 5), b"x" * (n % 90))
        for n in range(300)
    ),
    "b/one.txt": b"user=u1 ERROR at the end, no line break, user=u2",
    "b/two.txt": b"user=u3 starts here\r\nERROR user=\xff\xfe5\r\n\nlast ERROR\n",
    "empty": b"",
    "tail.txt": b"user=u1",
}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Chunks of 256 bytes, half of which are in the chunk before."""
    return made(tmp_path_factory.mktemp("context"), FILES)


def made(folder: Path, files: dict[str, bytes]) -> Context:
    for name, data in files.items():
        path = folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    tree = str(folder / "tree")
    return build(tree, str(folder / "object"), target_bytes=256, overlap_bytes=128, root=tree)


def counted(
    context: Context, pattern: str, scope: Scope = ALL, *, by: str = "", most: int = 9
) -> PatternCount:
    spans = scope.spans(context)
    return count(context, pattern, spans, fold=False, by=by, rows=most, first=most)


def plainly(context: Context, pattern: bytes) -> list[re.Match[bytes]]:
    """The hits in lines of files, at their bytes of the source."""
    source = context.raw(0, context.byte_length)
    found = re.compile(pattern)
    hits: list[re.Match[bytes]] = []
    for file in context.files:
        at = file.start
        for line in source[file.start : file.end].split(b"\n"):
            # An end for ``finditer`` is one for ``$`` as well.
            hits += found.finditer(source, at, at + len(line.removesuffix(b"\r")))
            at += len(line) + 1
    return hits


@pytest.mark.parametrize(
    "pattern", ["user=", r"user=(\w\d)", "ERROR x*", r"(\d)(\d) user=(u.)", "5|R", "here$|break$"]
)
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_it_counts_what_a_plain_count_does(
    context: Context, monkeypatch: pytest.MonkeyPatch, pattern: str, block: int
) -> None:
    monkeypatch.setattr(pattern_counts, "_BLOCK", block)
    hits = plainly(context, pattern.encode())
    for by in ("chunk", "file", *(["groups"] if "(" in pattern else [])):
        found = counted(context, pattern, by=by, most=10_000)
        assert found.first == tuple(hit.span() for hit in hits)
        assert found.hits == sum(row.hits for row in found.rows) == len(hits)
        chunks = Counter(context.layout.at(hit.start()) for hit in hits)
        assert found.chunks == len(chunks)
        by_kind: dict[str, Counter[Any]] = {
            "chunk": chunks,
            "file": Counter(context.lines(*hit.span())[0].path for hit in hits),
            "groups": Counter(hit.groups() for hit in hits),
        }
        values = by_kind[by]
        assert found.values == len(found.rows) == len(values)
        assert [row.hits for row in found.rows] == sorted(values.values(), reverse=True)
        for row in found.rows if by == "groups" else ():
            assert values[tuple(context.raw(*span) for span in row.spans)] == row.hits


def test_parts_add_up_and_a_hit_on_a_border_counts_once(context: Context) -> None:
    last = context.chunk_count
    assert counted(context, "user=").hits == 305
    for number in range(1, last, 19):
        parts = [Scope(f"c000001-c{number:06d}"), Scope(f"chunk:c{number + 1:06d}-c{last:06d}")]
        assert sum(counted(context, "user=", one).hits for one in parts) == 305
    one = counted(context, "user=", Scope("c000002"), by="chunk")
    assert one.rows == (CountRow((context.layout.bounds(1),), one.hits),)
    assert counted(context, "ERROR", Scope(files=("b/*",))).hits == 3
    assert counted(context, "ERROR", Scope(files=("b/",)), by="file").values == 2
    assert counted(context, "ERROR", Scope(files=("two.txt", "b/two.txt"))).hits == 2
    assert counted(context, "ERROR", Scope(files=("*.txt",)), by="file").values == 2
    assert counted(context, "user", Scope(files=("tail.txt", "empty"))).hits == 1
    assert counted(context, "user", Scope("c000001", ("*.log",))).hits < 10
    assert counted(context, "nothing at all") == PatternCount("chunk", 0, 0, 0, 0, (), ())


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (Scope("c000000"), "there are no chunks c000000: they go from c000001 to c0001"),
        (Scope("c000003-c000002"), "there are no chunks"),
        (Scope("c1-c999999999"), "there are no chunks"),
        (Scope("all\x1b"), r"'all\\x1b' is no range of chunks"),
        (Scope(files=("*.md", "c/d")), "no file of the context is"),
        (Scope(files=("[z-a]", "*a" * 400 + "b")), "no file of the context is"),
        (Scope(files=("empty",)), "no file of the context is"),
    ],
)
def test_a_part_that_is_not_there_is_refused(context: Context, scope: Scope, told: str) -> None:
    with pytest.raises(PointerError, match=told):
        scope.spans(context)


def test_what_cannot_be_counted_exactly_is_refused(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PatternError, match="there is no group to count by"):
        counted(context, "user=", by="groups")
    with pytest.raises(PatternError, match="capture more than 200 characters"):
        counted(made(tmp_path, {"long": b"x" * 201}), "(x+)")
    monkeypatch.setattr(pattern_counts, "_VALUES", 7)
    assert counted(context, r"user=u(\d)").values == 5
    with pytest.raises(PatternError, match="more than 7 different values"):
        counted(context, r"^(\d+)")
    monkeypatch.setattr(pattern_counts, "_LINE", 60)
    with pytest.raises(PatternError, match=r"the line at byte \d+ is longer than 60 bytes"):
        counted(context, "user=", by="file")
    monkeypatch.setattr(pattern_counts, "_BLOCK", 9)
    for chunks in ("c000040", "c000002-c000151"):
        with pytest.raises(PatternError, match="is longer than 60 bytes"):
            counted(context, "user=", Scope(chunks), by="file")
    assert counted(context, "user=", Scope(files=("b/*",))).hits == 4


def test_an_empty_context_has_no_hits(tmp_path: Path) -> None:
    context = made(tmp_path, {"empty": b""})
    assert counted(context, "x").hits == 0


def test_a_long_line_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, by any expression, and in a part of it; with lines before and behind."""
    monkeypatch.setattr(pattern_counts, "_BLOCK", 1 << 16)
    line = (b"x" * 1000 + b'{"status": 500},') * 5_000
    context = made(tmp_path, {"a.json": b"500\n" + line + b"\n500", "b.txt": b"500"})
    assert counted(context, "500").hits == 5_003
    assert counted(context, '"status": 500').lines == 1
    assert counted(context, r"^.*\}").hits == 1
    assert counted(context, r"\},$").hits == 1
    part = Scope("c000100-c000200")
    ((start, end),) = part.spans(context)
    inside = context.raw(start, end + 2).count(b"500")
    assert counted(context, "500", part).hits == inside > 10
