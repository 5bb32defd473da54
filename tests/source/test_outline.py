"""Outlines: of one tricky file a language, told to the letter, and of whatever else there is."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm_ci.source import PARSED, PARTLY, UNPARSED, Outline, grammars
from rlm_ci.source.cut_points import borders
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.languages import OTHER, language
from rlm_ci.source.outline import outline
from rlm_ci.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = Path(__file__).parent / "cases"
SOURCES = sorted(CASES.glob("*.txt"))


def written(found: Outline) -> str:
    """An outline as its expectation stands in a file: a row a line."""
    record = dict(zip(Outline._fields, json.loads(json.dumps(found)), strict=True))
    # A file has what an import is called only where it has another name.
    record["imports"] = [row if row[4] else row[:4] for row in record["imports"]]
    record["entries"] = [row if row[4] else row[:4] for row in record["entries"]]
    parts = [
        f" {json.dumps(key)}: "
        + (
            "[\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value) + "\n ]"
            if isinstance(value, list) and value
            else json.dumps(value, ensure_ascii=False)
        )
        for key, value in record.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_an_outline_tells_what_stands_in_the_file(source: Path) -> None:
    found = outline(source.stem, source.read_bytes())
    expected = source.with_suffix(".json").read_text(encoding="utf-8")
    assert written(found) == expected
    record = json.loads(expected)
    record["imports"] = [[*row, []][:5] for row in record["imports"]]
    record["entries"] = [[*row, ""][:5] for row in record["entries"]]
    assert Outline.of_json(list(record.values())) == found


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("**shop**\n\nSells all.\n", ("Sells all.", 3, 3)),
        ("shop\n\n:param x: what\n", ("shop", 1, 1)),
        ("Sells.\n\nMore.\n", ("Sells.", 1, 1)),
        ("shop", ("shop", 1, 1)),
    ],
)
def test_a_title_of_one_word_describes_nothing(doc: str, expected: tuple[str, int, int]) -> None:
    read = outline("shop.py", f'"""{doc}"""\n'.encode())
    assert (read.doc, read.doc_start, read.doc_end) == expected


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_what_is_told_stands_in_the_lines_that_are_told(source: Path) -> None:
    lines = source.read_text(encoding="utf-8").split("\n")
    found = outline(source.stem, source.read_bytes())
    assert found.symbols
    assert found.imports
    for one in found.symbols:
        assert 1 <= one.line_start <= one.line_end <= found.lines
        text = "\n".join(lines[one.line_start - 1 : one.line_end])
        last = one.name.rpartition(".")[2].removeprefix("operator ").removesuffix("[]")
        assert last in text or one.kind == "module"
        said = " ".join(lines[one.doc_start - 1 : one.doc_end]) if one.doc else ""
        assert one.doc.split()[-1:] == [] or one.doc.split()[-1] in said
        assert one.doc_end <= one.line_end
    for known in found.imports:
        assert known.module.rpartition("/")[2].rpartition("::")[2] in lines[known.line - 1] or (
            source.stem in ("engine.rs", "Mailer.php") or known.module == ""
        )


def test_every_language_has_a_case() -> None:
    known = {outline(one.stem, one.read_bytes()).language for one in SOURCES}
    assert known >= {*grammars.LANGUAGES}
    assert grammars.lacking(grammars.LANGUAGES) == ()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_file_with_other_line_ends_says_the_same(source: Path) -> None:
    content = source.read_bytes()
    plain, other = (
        outline(source.stem, text) for text in (content, content.replace(b"\n", b"\r\n"))
    )
    assert [one[:5] for one in other.symbols] == [one[:5] for one in plain.symbols]  # type: ignore[index]  # a row is a tuple
    assert other.imports == plain.imports
    assert other.entries == plain.entries


# -- whatever bytes there are --------------------------------------------------------------------

NAMES = [source.stem for source in SOURCES] + [
    "package.json", "pyproject.toml", "setup.cfg", "Cargo.toml", "go.mod", "Dockerfile",
    "Makefile", ".github/workflows/ci.yml", "Procfile", "README.md", "setup.py",
]  # fmt: skip
PIECES = st.sampled_from([
    b"(", b")", b"{", b"}", b"[", b"]", b"<", b">", b"\n", b"\r", b"\0", b"\xff", b"\xe2\x80\xae",
    b'"', b"'", b"`", b"/*", b"*/", b"//", b"#", b"\\", b"class A", b"def f(", b"import ", b"from ",
    b"=begin\n", b"<?php ", b"fn ", b"pub ", b"export ", b"template<", b"namespace ", b" = ",
    b"@", b":", b";", b",", b"\t", b" ", b"x", b"1", b"__all__ = ", b"# coding: utf-7\n", b"\x0c",
    b"use ", b"{a, b}", b"if ", b"then", b"end\n", b"=>", b"name", b"\xef\xbb\xbf", b"[bin]\n",
])  # fmt: skip


def sound(name: str, content: bytes) -> Outline:
    """The outline, which never raises, is JSON, and stays within the file."""
    found = outline(name, content)
    assert found == outline(name, content)
    record = json.dumps(found).encode()
    assert Outline.of_json(json.loads(record)) == found
    for one in found.symbols:
        assert 1 <= one.line_start <= one.line_end <= found.lines
        assert 0 <= one.doc_start <= one.doc_end <= found.lines
        assert printable(one.signature) == one.signature
        assert printable(one.name) == one.name
    for place in found.entries:
        assert 1 <= place.line_start <= place.line_end <= found.lines
    assert all(1 <= line <= found.lines for line in borders(name, content))
    return found


@given(st.sampled_from(NAMES), st.lists(PIECES | st.binary(max_size=12), max_size=60))
@example("setup.py", [b"setup(entry_points={'console_scripts': ['=', 'a=b']})"])
@example("a.py", [b"x = 1\r", b"def f():\r", b"  'doc'\r\n", b"class C: pass"])
@example("a.py", [b'"""\\ud800 \\x00"""'])
@example("Cargo.toml", [b"[[bin]]\nname = 'a'\n\"", b'"name" = x'])
@example("Orders.cs", [b"namespace A\n{\n    [B].C;\n}\n"])
@example("A.java", [b"package a.\n  b\xe2\x80\xae;\n"])
def test_no_bytes_are_too_strange(name: str, pieces: list[bytes]) -> None:
    sound(name, b"".join(pieces))


@given(st.sampled_from(SOURCES), st.data())
def test_a_file_that_was_cut_or_damaged_is_read_as_far_as_it_goes(
    source: Path, data: st.DataObject
) -> None:
    content = source.read_bytes()
    first = data.draw(st.integers(0, len(content)))
    last = data.draw(st.integers(0, len(content)))
    middle = data.draw(st.binary(max_size=3))
    sound(source.stem, content[:first] + middle + content[last:])


@pytest.mark.full
@settings(max_examples=1500)
@given(st.sampled_from(NAMES), st.lists(PIECES | st.binary(max_size=12), max_size=300))
def test_no_bytes_are_too_strange_however_long_one_tries(name: str, pieces: list[bytes]) -> None:
    sound(name, b"".join(pieces))


DEEP = (b"(", b"[", b"{", b"<", b"a<", b"template<", b"-", b"a+", b"if a:\n ", b"class A { ", b'"')


@pytest.mark.sample(11)
@pytest.mark.parametrize("piece", DEEP)
@pytest.mark.parametrize("name", ["a.py", "A.java", "a.cpp"])
def test_what_is_nested_too_deep_is_not_understood_and_harms_nobody(
    name: str, piece: bytes
) -> None:
    sound(name, piece * (30_000 // len(piece)))


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_parser_ends_within_its_bounds(source: Path) -> None:
    """In a process of its own, whose memory has an end: a parser's last way out is to die."""
    script = (
        "import os, resource, sys\n"
        "from rlm_ci.source.outline import outline\n"
        "for piece in map(bytes.fromhex, sys.argv[2:]):\n"
        "    if os.fork() == 0:\n"
        "        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "        outline(sys.argv[1], (piece * 131072)[:131072])\n"
        "        os._exit(0)\n"
        "    if status := os.wait()[1]:\n"
        "        sys.exit(f'{piece}: {os.waitstatus_to_exitcode(status)}')\n"
    )
    more = (b"a ", b"a?b:", b"`${", b"<?php (", b"#{", b"fn ", b"#if a\n", b"'a", b'R"(', b"int ")
    ended = subprocess.run(
        [sys.executable, "-c", script, source.stem, *(piece.hex() for piece in (*DEEP, *more))],
        capture_output=True, check=False, timeout=1200,
    )  # fmt: skip
    assert ended.returncode == 0, ended


MANY = 50_000


@pytest.mark.sample(4)
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", b"[" + b" " * MANY + b"x"),
        ("setup.cfg", b"console_scripts =" + b" a" * MANY),
        ("Makefile", b"a " * MANY),
        ("Dockerfile", b" " * MANY + b"CMD"),
        ("package.json", b'{"scripts": {' + b'"\\u0061": 1,\n' * 9999 + b'"a": 1}}'),
        ("a.h", b"\n" * MANY),
        ("a.h", b"class " * 3000),
        ("a.js", b"require('x');" * (MANY // 13)),
        ("a.js", b"\n\n\nrequire('x')" * (MANY // 15)),
        ("a.cpp", b"int A::f() {}\n" * (MANY // 14)),
        ("a.rs", b"use a::{" + b"b," * MANY + b"};"),
        ("a.py", b"import " + b".".join([b"a"] * MANY)),
        ("a.py", b"# coding" * MANY),
        ("a.py", b"x = 1\n" * (MANY // 6)),
        ("a.py", b"if a: pass\n" + b"elif a: pass\n" * 2000),
        ("a.go", b"// a\n" * (MANY // 5) + b"package a\n"),
        ("A.java", b"/** <a " * (MANY // 7)),
        ("A.java", b"/** {@a" + b"a" * MANY),
    ],
)
def test_what_is_long_takes_no_longer_than_it_is(name: str, content: bytes) -> None:
    found = sound(name, content)
    ImportGraph.of([found], [name])


@pytest.mark.parametrize(
    ("head", "state"),
    [
        (b"# coding: latin-1\n", PARSED),
        (b"#!/bin/python\n# vim: set fileencoding=iso-8859-15 :\n", PARSED),
        (b"\xef\xbb\xbf# a mark\n", PARTLY),
        (b"# coding: punycode\n", PARTLY),
        (b"# coding: no-such-thing\n", PARTLY),
        (b"", PARTLY),
        (b"\0", UNPARSED),
    ],
)
def test_python_is_read_in_the_encoding_that_it_names(head: bytes, state: str) -> None:
    found = outline("a.py", head + b"def caf\xe9():\n    '''Serves.'''\n")
    assert found.state == state
    assert [one.name for one in found.symbols if state == PARSED] == ["café"] * (state == PARSED)


def test_lines_are_those_of_git_where_python_sees_more() -> None:
    found = outline("a.py", b"import os\rimport re\r\rdef f(): pass\ndef g(): pass\n")
    assert ("g", 2) in [(one.name, one.line_start) for one in found.symbols]
    assert (found.state, found.lines) == (PARTLY, 2)


def test_a_package_that_can_be_run_is_an_entry_from_its_first_line_to_its_last() -> None:
    for text in (b"import a\n\na.b()\n", b"import a\n\na.b()"):
        (entry,) = sound("shop/__main__.py", text).entries
        assert entry == ("main", "python -m shop", 1, 3, "")


def test_reading_python_leaves_the_collector_and_the_warnings_as_they_were() -> None:
    gc.enable()
    assert outline("a.py", b"x = '\\d'\n").state == PARSED  # under -W error, as all tests are
    assert gc.isenabled()


def test_python_of_another_age_is_read_around_what_is_not_understood() -> None:
    found = outline("old.py", b"import urllib2\n\nclass A:\n    def f(self):\n        print 'x'\n")
    assert (found.language, found.state) in (("Python", PARTLY), ("Python", PARSED))
    assert [one.name for one in found.symbols] == ["A", "A.f"]
    assert [one.module for one in found.imports] == ["urllib2"]


def test_without_the_grammars_all_but_python_is_merely_named() -> None:
    script = (
        "import sys\n"
        "sys.modules['tree_sitter'] = None\n"
        "from rlm_ci.source import grammars\n"
        "from rlm_ci.source.cut_points import borders\n"
        "from rlm_ci.source.outline import outline\n"
        "assert outline('a.py', b'x = 1').state == 'parsed'\n"
        "go = outline('a.go', b'package a\\n')\n"
        "assert (go.language, go.state, go.lines) == ('Go', 'unparsed', 1)\n"
        "assert borders('a.go', b'package a\\n') == ()\n"
        "assert len(grammars.lacking(grammars.LANGUAGES)) == len(grammars.LANGUAGES) - 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.full
def test_the_standard_library_is_parsed() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    every = sorted(p for p in root.rglob("*.py") if "site-packages" not in p.parts and p.is_file())
    assert len(every) > 600  # Debian packs the tests of Python apart
    # A fourth, from all folders: to hold one against its syntax tree takes a tenth of a second.
    some = every[::4]
    states = [sound(p.relative_to(root).as_posix(), p.read_bytes()).state for p in some]
    assert states.count(PARSED) >= len(states) - 5


# -- languages and manifests ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "first", "expected"),
    [
        ("a/b.PY", b"", "Python"), ("x.d.ts", b"", "TypeScript"), ("x.tsx", b"", "TSX"),
        ("Dockerfile", b"", "Dockerfile"), ("Dockerfile.dev", b"", "Dockerfile"),
        ("GNUmakefile", b"", "Makefile"), ("a.yml", b"", "YAML"), ("README", b"", "Text"),
        ("config.h.in", b"", "C"), ("run", b"#!/usr/bin/env -S python3 -u", "Python"),
        ("run", b"#!/bin/sh", "Shell"), ("run", b"#! /usr/bin/env FOO=1 node", "JavaScript"),
        ("run", b"\xff\xfe", OTHER), ("", b"", OTHER), (".py", b"", "Python"),
        ("go.mod", b"", "Go module"), ("a/BUILD", b"", "Starlark"), ("BUILD.in", b"", "Starlark"),
        ("build", b"#!/bin/sh", "Shell"), ("requirements/build.in", b"", OTHER),
        ("a.in.in.in", b"", OTHER), ("\udcff.rs", b"", "Rust"), ("CMakeLists.txt", b"", "CMake"),
    ],
)  # fmt: skip
def test_a_language_is_told_by_name_then_by_the_first_line(
    path: str, first: bytes, expected: str
) -> None:
    assert language(path, first) == expected


def test_a_header_of_cpp_is_told_from_one_of_c() -> None:
    assert outline("a.h", b"int f(void);\n").language == "C"
    assert outline("a.h", b"/*\nclass of\nusing the\n*/\nint f(void);\n").language == "C"
    assert outline("a.h", b"namespace a { class B; }\n").language == "C++"


def test_a_comment_at_the_end_of_a_line_is_of_that_line() -> None:
    found = outline("a.h", b"#ifdef A // one\nint f(void); // two\nint g(void);\n#endif\n")
    assert [(one.name, one.doc) for one in found.symbols] == [("f", ""), ("g", "")]
    found = outline("A.java", b"class A { // one\n  int a() { return 1; }\n}\n")
    assert [one.doc for one in found.symbols] == ["", ""]


def test_code_in_a_comment_is_no_documentation() -> None:
    content = b"// #[derive(Debug)]\npub struct A;\n\n// let a = 1;\npub fn b() {}\n"
    outlines = [outline("a.rs", content), outline("A.java", b"// int a;\nclass A {}\n")]
    assert [symbol.doc for each in outlines for symbol in each.symbols] == ["", "", ""]


MANIFESTS: dict[str, tuple[bytes, list[tuple[str, str, int]]]] = {
    "pyproject.toml": (
        (
            b'[project]\nname = "shop" # x\n[project.scripts]\nshop-run = "shop:main"\n'
            b'"b.c" = "d:e"\n[tool.x]\ny = 1\n'
        ),
        [("module", "shop", 2), ("script", "shop-run", 4), ("script", "b.c", 5)],
    ),
    "api/Cargo.toml": (
        (
            b'[package]\nname = "api-core"\n[[bin]]\nname = "serve"\npath = "x"\n'
            b'[dependencies]\nname = "no"\n'
        ),
        [("module", "api-core", 2), ("script", "serve", 4)],
    ),
    "package.json": (
        (
            b'{\n "name": "@a/b",\n "bin": {"b": "x.js"},\n "scripts": {\n  "build": "tsc",\n'
            b'  "name": "x"\n }\n}\n'
        ),
        [("module", "@a/b", 2), ("script", "b", 3), ("task", "build", 5), ("task", "name", 6)],
    ),
    "setup.cfg": (
        (
            b"[options.entry_points]\nconsole_scripts =\n    one = a.b:c\n    # no\n    two=d:e\n"
            b"other =\n    x = y:z\n"
        ),
        [("script", "one", 3), ("script", "two", 5)],
    ),
    "setup.py": (
        b"setup(entry_points={'console_scripts': [\n 'one = a:b',\n 'two=c:d']})\n",
        [("script", "one", 2), ("script", "two", 3)],
    ),
    "go.mod": (b"// x\nmodule example.org/shop\n\ngo 1.22\n", [("module", "example.org/shop", 2)]),
    "web/Dockerfile": (
        b'FROM a\nCMD no\nENTRYPOINT ["serve"]\ncmd ["--port", "80"]\n',
        [("main", 'ENTRYPOINT ["serve"]', 3), ("main", 'CMD ["--port", "80"]', 4)],
    ),
    "Makefile": (
        (
            b"X := 1\n.PHONY: all\nall: build \\\n  more: x\nbuild test: dep ## said\n\techo a: b\n"
            b"%.o: %.c\nout.txt: x\n"
        ),
        [("task", "all", 3), ("task", "build", 5), ("task", "test", 5)],
    ),
    "action.yml": (
        b"# x\nname: Check it\ninputs:\n  a:\nruns:\n  using: composite\n",
        [("action", "Check it", 2)],
    ),
    "deep/action.yaml": (b"name: of a board\nwho: us\n", []),
    ".github/workflows/ci.yml": (b"# x\nname: 'CI' # y\non: push\n", [("task", "workflow: CI", 2)]),
    "Procfile": (b"web: gunicorn a\n", [("main", "process: web", 1)]),
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pyproject.toml", ["shop:main", "d:e"]),
        ("package.json", ["x.js", "tsc", "x"]),
        ("setup.cfg", ["a.b:c", "d:e"]),
        ("setup.py", ["a:b", "c:d"]),
        ("Makefile", ["", "", ""]),
    ],
)
def test_an_entry_of_a_manifest_has_what_it_runs(path: str, expected: list[str]) -> None:
    assert [entry.runs for entry in sound(path, MANIFESTS[path][0]).entries] == expected


@pytest.mark.parametrize("path", MANIFESTS)
def test_a_manifest_tells_its_name_and_what_can_be_run(path: str) -> None:
    content, expected = MANIFESTS[path]
    found = sound(path, content)

    def all_of() -> Iterator[tuple[str, str, int]]:
        yield from ((one.kind, one.name, one.line_start) for one in found.symbols)
        yield from ((one.kind, one.name, one.line_start) for one in found.entries)

    assert list(all_of()) == expected
    assert not any(one.is_public or one.signature for one in found.symbols)
    assert found.state == PARSED
