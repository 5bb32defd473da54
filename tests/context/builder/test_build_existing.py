"""An object that is there already is verified in full, and shared."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.context.builder import build, gather
from rlm_ci.context.context import Context
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError
from testing.contexts import change_index, names, nothing_left

if TYPE_CHECKING:
    from typing import BinaryIO


def _object(top: Path, source: bytes = b"alpha beta gamma delta\n" * 20) -> str:
    path = top / "text.txt"
    path.write_bytes(source)
    folder = str(top / "theirs")
    with build.build(str(path), folder, target_bytes=100, overlap_bytes=10, root=str(top)):
        pass
    return folder


def test_an_existing_object_is_shared(top: Path, out: str) -> None:
    """RLM_CONTEXT_PATH may point to an existing context object directory (used directly)."""
    theirs = _object(top)
    with build.build(theirs, out, adopt=True) as ours, Context.open(theirs) as other:
        assert os.path.samefile(ours.source_path, other.source_path)
        assert not os.path.samefile(f"{ours.folder}/index.json", f"{other.folder}/index.json")
        assert ours.full_index() == other.full_index()
        assert ours.target_bytes == 100
        assert ours.stamp() == ours.verify()


def test_anything_else_is_built(top: Path, out: str) -> None:
    (top / "a.txt").write_text("alpha\n")
    with build.build(
        str(top), out, root=str(top), target_bytes=3, overlap_bytes=1, adopt=True
    ) as ours:
        assert names(ours) == ["a.txt"]
        assert ours.chunk_count == 3
    stream: BinaryIO = io.BytesIO(b"x")
    with build.build(stream, f"{out}2", adopt=True) as ours:
        assert ours.byte_length == 1


@pytest.mark.parametrize("what", ["source", "length", "index", "missing", "link"])
def test_an_object_that_was_tampered_with_is_not_taken_in(top: Path, out: str, what: str) -> None:
    """Verified in full when a run takes it in; a tampered one is refused by name."""
    theirs = _object(top)
    source = Path(theirs, "source.txt")
    said = "chunk c000002 (bytes 90-190)"
    if what == "source":
        data = bytearray(source.read_bytes())
        data[150] ^= 1
        source.write_bytes(data)
    elif what == "length":
        source.write_bytes(source.read_bytes()[:-1])
        said = "the source has 459 bytes, but its index says 460"
    elif what == "index":
        change_index(theirs, lambda record: record["chunks"][1].update(sha256="0" * 64))
        said = "the sha256 of chunk c000002 (bytes 90-190) is not its own"
    elif what == "missing":
        source.unlink()
        source.symlink_to("gone")
        said = "it is not a context object"
    else:
        source.rename(top / "moved")
        source.symlink_to(top / "moved")
        said = "it is not a context object"
    with pytest.raises(RlmCiError) as caught:
        build.build(theirs, out, adopt=True)
    assert said in str(caught.value)
    assert theirs in caught.value.where
    assert isinstance(caught.value, ConfigError if "not a context" in said else DamagedError)
    assert nothing_left(out)


def test_a_source_that_is_swapped_after_it_was_verified_is_noticed(
    tmp_path: Path, top: Path
) -> None:
    theirs = _object(top)
    with Context.open(theirs) as context:
        verified = context.verify()
    (tmp_path / "other").write_bytes(b"z" * 460)
    os.replace(tmp_path / "other", os.path.join(theirs, "source.txt"))
    descriptor = os.open(os.path.join(theirs, "source.txt"), os.O_RDONLY)
    assert gather.looks(descriptor)[0] != verified["inode"]
    os.close(descriptor)
    with pytest.raises(DamagedError, match="chunk c000001"):
        build.build(theirs, str(tmp_path / "ours"), adopt=True)
