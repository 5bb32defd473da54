"""The parts of a map cover what they are of, and keep lines whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic.map_reduce.maps import number_of_parts, parts
from testing.scripted_questions import harbour

if TYPE_CHECKING:
    from rlm_ci.context.context import Context


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return harbour(tmp_path_factory.mktemp("harbour"))


@pytest.mark.parametrize("most", [40, 300, 512, 5000])
def test_parts_cover_all_of_it_once(context: Context, most: int) -> None:
    found = parts(Scope(), context, most)
    assert [one.start for one in found] == [0, *(one.end for one in found[:-1])]
    assert found[-1].end == context.byte_length
    assert all(0 < one.end - one.start <= most or most < 60 for one in found)
    if most > context.target_bytes:
        assert [one.name for one in found] == [f"c{n:06d}" for n in range(1, len(found) + 1)]
        assert len(found) == number_of_parts(Scope(), context) == context.chunk_count
    cut = [one for one in found if one.start and context.raw(one.start - 1, one.start) != b"\n"]
    assert not cut or most < 60


def test_a_range_is_the_same_parts_as_of_the_whole(context: Context) -> None:
    whole = parts(Scope(), context, 5000)
    assert parts(Scope("c000002-c000004"), context, 5000) == whole[1:4]


def test_each_file_is_a_part_or_some(context: Context) -> None:
    gate, keeper, odd = context.files
    found = parts(Scope(files=("*.md", "odd.bin.txt")), context, 400)
    assert [one.name for one in found] == ["f000001", "f000001-2", "f000002"]
    assert (found[0].start, found[1].end) == (keeper.start, keeper.end)
    assert (found[2].start, found[2].end) == (odd.start, odd.end)
    inner = parts(Scope("c000001", ("gate.log",)), context, 5000)
    assert [(one.start, one.end) for one in inner] == [(gate.start, 512)]
