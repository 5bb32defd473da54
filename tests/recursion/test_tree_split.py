"""How a corpus is parted: nothing left out, nothing twice, the same every time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.recursion.nodes import FILE_GROUP, FILE_SLICE, FOLDER, MODULE, REPO
from rlm_ci.recursion.tree_split import (
    BY_LINES,
    BY_SYNTAX,
    SplitTree,
    TreeShape,
    cut,
    identity,
    offsets,
)
from testing.solver_cases import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.recursion.tree_split import Part

_NAMES = st.sampled_from(["a", "b", "é", "a b", "__init__.py", "x.py", "go.mod", "z"])
_CONTENTS = st.builds(
    lambda lines, width: b"".join(b"%*d\n" % (width, line) for line in range(lines)),
    st.integers(0, 40), st.integers(1, 60),
)  # fmt: skip


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Files by path, none of which is a folder of another."""
    found: dict[str, bytes] = {}
    for parts in draw(st.lists(st.lists(_NAMES, min_size=1, max_size=5), max_size=40)):
        path = "/".join((*(f"{part}.d" for part in parts[:-1]), parts[-1]))
        found[path] = draw(_CONTENTS)
    return found


SHAPES = st.builds(TreeShape, st.integers(1, 300), st.integers(1, 5), st.integers(2, 6))


def walk(
    one: SplitTree, part: Part, above: str, depth: int = 0
) -> Iterator[tuple[str, Part, bool]]:
    """Every node's id and part, and whether it is a leaf."""
    assert depth < 60, "it never ends"
    found = one.corpus.files
    identifier = identity(above, part, found)
    parts = [part] if one.is_small(part) else one.parts(part)
    assert len(parts) <= one.shape.most_parts
    yield identifier, part, len(parts) == 1
    if len(parts) > 1:
        assert [tuple(part[2:4])] == [(parts[0][2], parts[-1][3])]
        for left, right in pairwise(parts):
            if right[0] == FILE_SLICE:
                assert (left[2], left[5] + 1) == (right[2], right[4])
            else:
                assert left[3] == right[2]
        assert sum(inner[6] for inner in parts) == part[6]
        for inner in parts:
            yield from walk(one, inner, identifier, depth + 1)


def leaves(files: Mapping[str, bytes], shape: TreeShape) -> list[tuple[str, Part]]:
    one = SplitTree(corpus(files), shape)
    return [(found, part) for found, part, is_leaf in walk(one, one.root_part(), "") if is_leaf]


@given(trees(), SHAPES)
def test_the_leaves_of_any_tree_are_its_files(files: dict[str, bytes], shape: TreeShape) -> None:
    whole = corpus(files)
    seen: dict[str, bytes] = {}
    for _, part in leaves(files, shape):
        for file in whole.files[part[2] : part[3]]:
            content = files[file.path]
            if part[0] == FILE_SLICE:
                content = cut(content, part[4], part[5])
                assert len(content) == part[6]
            seen[file.path] = seen.get(file.path, b"") + content
    assert seen == files


@given(trees(), SHAPES)
def test_ids_are_the_same_every_time_and_no_two_are_equal(
    files: dict[str, bytes], shape: TreeShape
) -> None:
    one, other = (
        SplitTree(corpus(files), shape),
        SplitTree(corpus(dict(reversed(files.items()))), shape),
    )
    found = [identifier for identifier, _, _ in walk(one, one.root_part(), "")]
    assert found == [identifier for identifier, _, _ in walk(other, other.root_part(), "")]
    assert len(set(found)) == len(found)


@given(trees(), SHAPES)
def test_a_leaf_is_small_or_cannot_be_parted(files: dict[str, bytes], shape: TreeShape) -> None:
    one = SplitTree(corpus(files), shape)
    for _, part in leaves(files, shape):
        if not one.is_small(part):
            assert part[3] - part[2] == 1
            assert one.confidence(part) == 0.0


def shown(part: Part) -> str:
    lines = f":{part[4]}-{part[5]}" if part[4] else ""
    return f"{part[1] or '.'}{lines}"


def shapes(files: Mapping[str, bytes], shape: TreeShape) -> list[tuple[str, str]]:
    one = SplitTree(corpus(files), shape)
    return [(part[0], shown(part)) for part in one.parts(one.root_part())]


def test_folders_are_kept_whole_and_chains_of_folders_are_one() -> None:
    files = {
        "README.md": b"x" * 90,
        "src/app/__init__.py": b"",
        "src/app/main.py": b"x" * 200,
        "docs/guide/en/start.md": b"x" * 200,
        "tools/a": b"x" * 150,
        "tools/go.mod": b"x" * 100,
    }
    assert shapes(files, TreeShape(250, 4, 8)) == [
        (FILE_GROUP, "."),
        (FOLDER, "docs/guide/en"),
        (MODULE, "src/app"),
        (MODULE, "tools"),
    ]


def test_small_neighbours_are_looked_at_together() -> None:
    files = {f"p{number}/a.py": b"x" * 20 for number in range(10)} | {"q/large": b"x" * 300}
    assert shapes(files, TreeShape(400, 16, 8)) == [(FILE_GROUP, "."), (FOLDER, "q")]


def test_a_file_elsewhere_changes_no_id() -> None:
    files = {f"{folder}/{name}": b"x" * 100 for folder in "abc" for name in "12345"}
    before = dict(leaves(files, TreeShape(200, 2, 8)))
    after = dict(leaves(files | {"a/0": b"x", "d/1": b"x" * 100}, TreeShape(200, 2, 8)))
    kept = [part[1] for found, part in before.items() if found in after]
    assert kept.count("b") == kept.count("c") == 3


@pytest.mark.parametrize("count", [257, 1000])
def test_a_wide_folder_has_groups_of_groups(count: int) -> None:
    files = {f"wide/f{number:05}": b"x" for number in range(count)}
    one = SplitTree(corpus(files), TreeShape(1000, 4, 8))
    found = list(walk(one, one.root_part(), ""))
    assert sum(is_leaf for _, _, is_leaf in found) == -(-count // 4)
    assert {part[0] for _, part, _ in found} == {REPO, FILE_GROUP}


def test_a_large_file_is_cut_at_its_definitions() -> None:
    lines = []
    for number in range(30):
        lines += [f"def f{number}():", *("    pass" for _ in range(number % 5)), ""]
    content = "\n".join(lines).encode()
    one = SplitTree(corpus({"large.py": content, "b.py": b""}), TreeShape(200, 4, 64))
    large = one.parts(one.root_part())[1]
    assert large[:2] == (FILE_GROUP, "large.py")
    assert one.confidence(large) == BY_SYNTAX
    slices = one.parts(large)
    assert len(slices) > 3
    for part in slices:
        assert part[6] <= 200
        assert cut(content, part[4], part[5]).startswith(b"def ")


def test_a_large_text_is_cut_between_its_lines() -> None:
    content = b"".join(b"line %d\n" % number for number in range(100))
    one = SplitTree(corpus({"large.txt": content}), TreeShape(200, 4, 64))
    assert one.confidence(one.root_part()) == BY_LINES
    assert b"".join(cut(content, p[4], p[5]) for p in one.parts(one.root_part())) == content
    assert all(part[6] <= 200 for part in one.parts(one.root_part()))


def test_one_long_line_cannot_be_parted() -> None:
    one = SplitTree(corpus({"min.js": b"x" * 5000}), TreeShape(200, 4, 64))
    assert one.confidence(one.root_part()) == 0.0
    assert one.parts(one.root_part()) == [one.root_part()]


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\nb", b"\n\n", b"a\r\nb\r"])
def test_lines_are_counted_as_git_does(content: bytes) -> None:
    starts = offsets(content)
    lines = [content[a:b] for a, b in pairwise(starts)]
    assert lines == content.splitlines(keepends=True) or b"\r" in content
    assert b"".join(lines) == content


@pytest.mark.full
def test_a_folder_of_twenty_thousand_files() -> None:
    files = {f"wide/f{number}": b"x" for number in range(20_000)}
    one = SplitTree(corpus(files), TreeShape())
    found = list(walk(one, one.root_part(), ""))
    assert sum(is_leaf for _, _, is_leaf in found) == 1250
