"""``index.json``: what we write follows the schema; what a stranger writes is read, or refused.

The reader checks by hand what the schema says, because the schema takes a second for 17,000
chunks: so both are asked about the same files here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm_ci.context import index_reader
from rlm_ci.context.builder import build
from rlm_ci.context.context import Context
from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError
from rlm_ci.resources import loader
from testing.contexts import change_index, made

SCHEMA = "context.schema.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An object of two files, with chunks of 10 bytes that overlap by 2."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "a.txt").write_bytes(b"alpha beta\n")
    (top / os.fsdecode(b"b\xff.txt")).write_bytes(b"gamma delta\n")
    (top / "image").write_bytes(b"\x89PNG\0")
    build.build(
        str(top), str(tmp_path / "object"), target_bytes=10, overlap_bytes=2, root=str(top),
        clock=lambda: 0.0,
    ).close()  # fmt: skip
    return tmp_path / "object"


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "index.json").read_text())
    return record


def test_an_index_is_what_the_spec_says(tmp_path: Path) -> None:
    """index.json v1, normative: the required keys, ids and chunks of its example."""
    context = made(tmp_path, b"x" * 126_976)
    record = record_of(Path(context.folder))
    digest = "f" * 64
    for chunk in record["chunks"]:
        assert chunk["sha256"] == context.full_index().digest(int(chunk["id"][1:]) - 1)
        chunk["sha256"] = digest
    assert record.pop("object_id") == context.object_id
    assert record.pop("created_at") == context.created_at
    assert record["source"].pop("files")[0]["path"].endswith("0.txt")
    assert record == {
        "version": 1,
        "source": {"path": "source.txt", "byte_length": 126_976},
        "chunking": {"target_bytes": 65536, "overlap_bytes": 4096, "strategy": "byte"},
        "chunks": [
            {"id": "c000001", "start": 0, "end": 65536, "sha256": digest},
            {"id": "c000002", "start": 61440, "end": 126_976, "sha256": digest},
        ],
    }


def test_what_we_write_follows_the_schema(folder: Path, tmp_path: Path) -> None:
    loader.validate(record_of(folder), SCHEMA, "index")
    empty = made(tmp_path, b"")
    loader.validate(record_of(Path(empty.folder)), SCHEMA, "index")
    with Context.open(str(folder)) as context:
        assert context.created_at == "1970-01-01T00:00:00Z"
        assert [piece.path for piece in context.files] == ["a.txt", "b\udcff.txt"]
        assert context.omitted == {"binary": 1}
        assert context.verify()


def test_an_index_of_another_program_is_read(folder: Path) -> None:
    """The directory of an existing object is used: layout and key order may be its own."""
    record = record_of(folder)
    del record["source"]["files"], record["source"]["omitted"]
    turned = dict(reversed(record.items()))
    (folder / "index.json").write_text(json.dumps({"extra": [1, 2], **turned}, indent=8))
    with Context.open(str(folder)) as context:
        assert not context.files
        assert context.chunk_count == 3
        context.verify()


WRONG: list[tuple[Any, str, type[RlmCiError]]] = [
    (lambda r: r.clear(), "it has no version 1", ConfigError),
    (lambda r: r.update(version=2), "the index has version 2", DamagedError),
    (lambda r: r.update(version=True), "it has no version 1", ConfigError),
    (lambda r: r.update(version="1"), "it has no version 1", ConfigError),
    (lambda r: r.pop("chunks"), "chunks is missing", ConfigError),
    (lambda r: r.update(chunks={}), "chunks is missing or of the wrong type", ConfigError),
    (lambda r: r.update(object_id="md5:0"), "object_id is not", ConfigError),
    (lambda r: r.update(object_id="sha256:" + "G" * 64), "object_id is not", ConfigError),
    (lambda r: r.update(object_id="sha256:" + "a" * 64 + "\n"), "object_id is not", ConfigError),
    (lambda r: r.update(created_at="x" * 101), "created_at is too long", ConfigError),
    (lambda r: r["source"].update(path="../../etc/passwd"), "source.path is not", ConfigError),
    (lambda r: r["source"].update(path="/etc/passwd"), "source.path is not", ConfigError),
    (lambda r: r["source"].update(byte_length=-1), "byte_length is negative", ConfigError),
    (lambda r: r["source"].update(byte_length=23.0), "byte_length is missing or of", ConfigError),
    (lambda r: r["source"].update(byte_length=10**30), "are more than 400,000", DamagedError),
    (lambda r: r["source"].update(files={}), "source.files is not a list", ConfigError),
    (lambda r: r["source"].update(omitted={"a": -1}), "omitted does not count", ConfigError),
    (lambda r: r["source"].update(omitted={"a" * 101: 1}), "omitted does not count", ConfigError),
    (lambda r: r["chunking"].update(strategy="line"), "chunking.strategy is not", ConfigError),
    (lambda r: r["chunking"].update(target_bytes=0), "too small", DamagedError),
    (lambda r: r["chunking"].update(overlap_bytes=10), "cannot overlap by 10", DamagedError),
    (lambda r: r["chunking"].update(overlap_bytes=3), "chunking makes", DamagedError),
    (lambda r: r["chunks"].pop(), "it lists 2 chunks, where its chunking makes 3", DamagedError),
    (lambda r: r["chunks"].append(r["chunks"][0]), "it lists 4 chunks", DamagedError),
    (lambda r: r["chunks"].reverse(), "chunk c000001: id is 'c000003'", DamagedError),
    (lambda r: r["chunks"][1].update(start=7), "chunk c000002: start is 7", DamagedError),
    (lambda r: r["chunks"][1].update(end=1 << 70), "chunk c000002: end is", DamagedError),
    (lambda r: r["chunks"][0].update(start=False), "chunk c000001: start is False", DamagedError),
    (lambda r: r["chunks"][1].update(start=8.0), "chunk c000002: start is 8.0", DamagedError),
    (lambda r: r["chunks"][2].update(sha256="zz"), "chunk c000003: sha256 is 'zz'", DamagedError),
    (lambda r: r["chunks"][2].update(sha256=7), "chunk c000003: sha256 is 7", DamagedError),
    (lambda r: r["chunks"][0].update(sha256="A" * 64), "chunk c000001: sha256 is", DamagedError),
    (lambda r: r["chunks"][0].update(sha256="a " * 32), "chunk c000001: sha256 is", DamagedError),
    (
        lambda r: r["chunks"][0].update(sha256=f"{'a' * 64}\n{'b' * 64}"),
        "chunk c000001: sha256 is 'a",
        DamagedError,
    ),
    (lambda r: r["chunks"][0].pop("id"), "a chunk does not have id", ConfigError),
    (lambda r: r["chunks"].__setitem__(0, "x"), "a chunk does not have id", ConfigError),
    (lambda r: r["chunks"].__setitem__(0, []), "a chunk does not have id", ConfigError),
    (lambda r: r["source"]["files"][0].update(path=""), "path is not a path", ConfigError),
    (lambda r: r["source"]["files"][0].update(path="a\0b"), "path is not a path", ConfigError),
    (
        lambda r: r["source"]["files"][0].update(path="\ud800"),
        "[0].path is not a path",
        ConfigError,
    ),
    (lambda r: r["source"]["files"][0].update(path="a" * 9999), "path is not a path", ConfigError),
    (lambda r: r["source"]["files"][0].update(path_b64="%"), "path_b64 is not base64", ConfigError),
    (lambda r: r["source"]["files"][0].update(path_b64=7), "path_b64 is not base64", ConfigError),
    (lambda r: r["source"]["files"][0].update(blob="x"), "blob is not an object id", ConfigError),
    (lambda r: r["source"]["files"][0].update(start=-1), "source.files[0] (a.txt)", DamagedError),
    (lambda r: r["source"]["files"][1].update(start=5), "which do not follow 11", DamagedError),
    (lambda r: r["source"]["files"][1].update(end=24), "leave the source", DamagedError),
    (lambda r: r["source"]["files"].__setitem__(0, 3), "source.files[0] is no object", ConfigError),
]


def in_lines(text: str) -> str:
    """The JSON of an index with its lines where we have them."""
    for name in ("files", "chunks"):
        before, begin, rest = text.partition(f'"{name}": [')
        rows, end, behind = rest.partition("]")
        indent = "    " if name == "files" else "  "
        lines = rows.replace("}, {", f"}},\n{indent}  {{")
        text = (
            f"{before}\n{indent}{begin}\n{indent}  {lines}\n{indent}{end}{behind}"
            if begin
            else text
        )
    return text + "\n"


@pytest.mark.parametrize(("change", "said", "kind"), WRONG, ids=[case[1] for case in WRONG])
def test_an_index_that_is_wrong_is_refused_by_name(
    folder: Path, change: Any, said: str, kind: type[RlmCiError]
) -> None:
    change_index(str(folder), change)
    with pytest.raises(kind) as caught:
        Context.open(str(folder))
    assert said in caught.value.what
    path = folder / "index.json"
    path.write_text(in_lines(path.read_text()))
    with pytest.raises(kind) as again:
        Context.open(str(folder))
    assert (again.value.what, again.value.where) == (caught.value.what, caught.value.where)
    assert caught.value.where == str(folder / "index.json")
    assert caught.value.hint


# ── the table of chunks, in the form that we write ──


@given(st.integers(0, 3000), st.integers(1, 120).flatmap(
    lambda target: st.tuples(st.just(target), st.integers(0, target - 1))
), st.data())  # fmt: skip
def test_our_own_table_is_known_by_its_length_and_its_ends(
    size: int, cut: tuple[int, int], data: st.DataObject
) -> None:
    layout = ChunkLayout(size, *cut)
    text = b"head" + "".join(index_reader.written(layout, os.urandom(32 * layout.count))).encode()
    assert looks_written(text, 4, layout)
    at = data.draw(st.integers(4, len(text) - 1))
    assert not looks_written(text[:at] + text[at + 1 :], 4, layout)
    assert not looks_written(text[:at] + b"0" + text[at:], 4, layout)
    assert not looks_written(text, 4, layout.replace(size=10 * size + 1))


def looks_written(text: bytes, at: int, layout: ChunkLayout) -> bool:
    return index_reader.looks_written(lambda at, size: text[at : at + size], at, len(text), layout)


def test_the_numbers_of_a_table_grow() -> None:
    layout = ChunkLayout(123_456_789, 65536, 4096)
    text = "".join(index_reader.written(layout, bytes(32 * layout.count))).encode()
    assert looks_written(text, 0, layout)
    assert json.loads(b'{"chunks": [' + text)["chunks"] == [
        {"id": f"c{number:06d}", "start": start, "end": end, "sha256": "0" * 64}
        for number, (start, end) in enumerate(map(layout.bounds, range(layout.count)), 1)
    ]


def _rewrite(folder: Path, old: bytes, new: bytes) -> None:
    text = (folder / "index.json").read_bytes()
    assert text.count(old) == 1
    (folder / "index.json").write_bytes(text.replace(old, new))


def test_what_reads_and_searches_never_asked_for_is_checked_by_who_asks(folder: Path) -> None:
    """``search`` and ``read`` check lengths only: a table of the right one is not looked at."""
    _rewrite(folder, b'"start": 8, "end": 18', b'"start": 7, "end": 18')
    with Context.open(str(folder)) as context:
        assert context.search(["GAMMA"])[0].hits[0].start_byte == 11
        assert context.read(context.pointer(1)).text == "ta\ngamma d"
        for ask in (context.full_index, context.verify):
            with pytest.raises(DamagedError, match="chunk c000002: start is 7"):
                ask()
    with pytest.raises(DamagedError, match="chunk c000002: start is 7"):
        build.build(str(folder), f"{folder}2", adopt=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"start": 8,', b'"start": 80,', "chunk c000002: start is 80"),
        (b'"start": 0, "end": 10,', b'"start": 1, "end": 10,', "chunk c000001: start is 1"),
        (b'"id": "c000003"', b'"id": "c000004"', "chunk c000003: id is 'c000004'"),
        (b'"start": 16,', b'"start":  1,', "chunk c000003: start is 1"),
        (b"  ]\n}\n", b"  }\n]\n", "it is not valid JSON"),
        (b'"version": 1,', b'"version": 3,', "version 3"),
    ],
)
def test_a_table_of_another_length_or_with_other_ends_is_refused(
    folder: Path, old: bytes, new: bytes, said: str
) -> None:
    _rewrite(folder, old, new)
    with pytest.raises(RlmCiError) as caught:
        Context.open(str(folder))
    assert said in caught.value.what


def test_an_index_that_is_replaced_meanwhile_is_noticed(folder: Path) -> None:
    with Context.open(str(folder)) as context:
        change_index(str(folder), lambda record: record.update(created_at="later"))
        with pytest.raises(DamagedError, match="it is another one by now"):
            context.full_index()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.floats(allow_nan=False)
    | st.sampled_from(["", "source.txt", "byte", "c000001", "0" * 64, "0" * 40, "sha256:", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner,
                                                                max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_what_the_reader_accepts_the_schema_does(data: st.DataObject) -> None:
    record: dict[str, Any] = {
        "version": 1,
        "object_id": f"sha256:{'a' * 64}",
        "created_at": "now",
        "source": {"path": "source.txt", "byte_length": 12, "omitted": {"link": 2},
                   "files": [{"path": "a", "start": 0, "end": 12, "blob": None}]},
        "chunking": {"target_bytes": 10, "overlap_bytes": 2, "strategy": "byte"},
        "chunks": [{"id": "c000001", "start": 0, "end": 10, "sha256": "0" * 64},
                   {"id": "c000002", "start": 8, "end": 12, "sha256": "0" * 64}],
    }  # fmt: skip
    index_reader._Reader("index").index(record)
    for _ in range(data.draw(st.integers(0, 2))):
        spot: Any = record
        while isinstance(spot, (dict, list)) and spot:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(spot[key], (dict, list)) or data.draw(st.booleans()):
                spot[key] = data.draw(_VALUES)
                break
            spot = spot[key]
    try:
        index_reader._Reader("index").index(record)
    except RlmCiError:
        return
    loader.validate(record, SCHEMA, "index")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        (b"\xff\xfe", "it is not valid JSON"),
        (b"[]", "it has no version 1"),
        (b'"x"', "it has no version 1"),
        (b'{"version": NaN}', "NaN is not a number"),
        (b'{"version": -Infinity}', "-Infinity is not a number"),
        (b'{"version": 1' + b"0" * 5000 + b"}", "it is not valid JSON"),
        (b"[" * 100_000, "it has too many values"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "it has too many values"),
        ((b"[" + b" " * 20) * 100_000, "it is nested too deeply"),
        (b"[" + b"[]," * 100_000 + b"[]]", "it has too many values"),
    ],
)
def test_hostile_json_ends_in_one_clear_error(folder: Path, text: bytes, said: str) -> None:
    (folder / "index.json").write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        Context.open(str(folder))
    assert said in caught.value.what
    assert len(str(caught.value)) < 600


def test_names_full_of_brackets_are_no_bomb(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for number in range(100):
        (top / f'{number}{"[,{" * 60}\\"').write_text("x\n")
    with build.build(str(top), str(tmp_path / "object"), root=str(top)) as context:
        assert len(context.files) == 100
        assert context.files[0].path == f'0{"[,{" * 60}\\"'


def test_a_huge_index_is_not_read(folder: Path) -> None:
    with (folder / "index.json").open("ab") as stream:
        stream.truncate(index_reader.LIMIT + 1)
    with pytest.raises(ConfigError, match=r"67,108,865 bytes, more than 67,108,864"):
        Context.open(str(folder))


_MEASURED = """
import resource, sys
from rlm_ci.errors import RlmCiError
from rlm_ci.context.context import Context
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Context.open(sys.argv[1])
except RlmCiError as error:
    print(error.what[:60])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "unit", [b"[],", b"1.5,", b'"ab",', b'{"a":1},', b'"a","b","c", ' + b" " * 30], ids=repr
)
def test_memory_is_bounded_by_the_length_of_the_file(folder: Path, unit: bytes) -> None:
    """A hostile index of the largest size that is read takes at most six times its size."""
    body = b'{"chunks": [' + unit * ((index_reader.LIMIT - 100) // len(unit)) + b"0]}"
    (folder / "index.json").write_bytes(body)
    ended = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(folder)], capture_output=True, check=True, text=True
    )
    assert int(ended.stdout.split()[-1]) <= 6 * index_reader.LIMIT
    assert len(ended.stdout.splitlines()) == 2


@pytest.mark.full
def test_ten_million_chunks_are_refused(folder: Path) -> None:
    line = b'{"id": "c0000001", "start": 0, "end": 1, "sha256": "' + b"0" * 64 + b'"},\n'
    with (folder / "index.json").open("wb") as stream:
        stream.write(b'{"version": 1, "chunks": [')
        for _ in range(100):
            stream.write(line * 100_000)
    with pytest.raises(ConfigError, match="more than 67,108,864"):
        Context.open(str(folder))


PIECES_OF_LINES = (
    b"\n", b",", b"]", b"[", b"{", b"}", b'"files": [', b'    "files": [\n', b"    ]\n",
    b"    ],\n",    b'  "chunks": [\n', b'"source": {', b"0", b'"', b" ", b"null", b'"x": 1, ',
)  # fmt: skip


@pytest.mark.full
@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_lines_are_read_as_the_json_that_they_are(folder: Path, data: st.DataObject) -> None:
    """Of an index that was changed anywhere, the reader of lines tells the same, or nothing."""
    path = folder / "index.json"
    kept = path.read_bytes()
    lines = kept.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(lines) - 1))
        way = data.draw(st.sampled_from(["drop", "repeat", "swap", "put"]))
        if way == "drop":
            lines[at] = b""
        elif way == "repeat":
            lines[at] *= 2
        elif way == "swap":
            lines[at - 1], lines[at] = lines[at], lines[at - 1]
        else:
            place = data.draw(st.integers(0, len(lines[at])))
            new = data.draw(st.sampled_from(PIECES_OF_LINES))
            lines[at] = lines[at][:place] + new + lines[at][place:]
    changed = b"".join(lines)
    try:
        path.write_bytes(changed)
        head = index_reader._look_in_own_layout(str(folder), index_reader._checked_head)
        whole = index_reader._look_in_own_layout(str(folder), index_reader._full_index)
        if changed == kept:
            assert head is not None
            assert whole is not None
        reader = index_reader._Reader("")
        if whole is not None:
            assert whole == reader.index(json.loads(changed))
        if head is not None:
            assert head == reader.head(json.loads(changed))
    finally:
        path.write_bytes(kept)


FILES = '    "files": [\n      {"path": "a", "start": 0, "end": 1}\n    ]'
CHUNKS = '  "chunks": [\n  ]\n}\n'


@pytest.mark.parametrize(
    "text",
    [
        f'{{\n  "other": {{\n{FILES}\n  }},\n{CHUNKS}',
        f'{{\n  "source": [{{\n{FILES}\n  }}],\n{CHUNKS}',
        f"{{\n{FILES},\n{CHUNKS}",
        f"[{{\n{FILES},\n{CHUNKS[:-1]}]\n",
    ],
)
def test_files_of_something_else_are_none(folder: Path, text: str) -> None:
    (folder / "index.json").write_text(text)
    with pytest.raises(ConfigError, match="it is not an index of a context: it has no version 1"):
        Context.open(str(folder))
