"""What is read off single files: notes, introductions, manifests."""

from __future__ import annotations

import pytest

from rlm_ci.recursion.nodes import LeafTask, LeafText, Node, NodeScope
from rlm_ci.wiki.facts.dependencies import declared
from rlm_ci.wiki.facts.file_facts import facts_of, pack, unpack
from rlm_ci.wiki.facts.note import other_notes
from rlm_ci.wiki.facts.python_notes import python_notes
from rlm_ci.wiki.facts.readme import heading, introduction, plain
from rlm_ci.wiki.objective import analyse
from rlm_ci.wiki.pages.layout import public
from rlm_ci.wiki.pages.paths import is_beside, is_test

PYTHON = b"""\
import os
import subprocess as sp
from pickle import loads as read
from yaml import load, SafeLoader
import threading

assert os.sep

def run(cmd, size: int):
    if size < 0:
        raise ValueError(f"size {size} is too small")
    if not cmd:
        log(cmd)
        raise KeyError
    sp.run(cmd, shell=True)
    sp.run(cmd)
    read(b"")
    load("", Loader=SafeLoader)
    os.environ["HOME"]
    os.getenv("USER", "x")
    threading.Thread(target=run)
    os.remove("x")
    mine.eval("x")
    try:
        pass
    except:
        size = 0
    except_ = "# TODO: not one"

class Shape:
    def area(self):
        raise NotImplementedError

def _inner(a):
    if a:
        raise ValueError("nobody is told")
"""


def test_python_is_read_for_what_it_demands_and_dares() -> None:
    found = [(note.kind, note.line_start, note.text, note.detail) for note in python_notes(PYTHON)]
    assert found == [
        ("asserts", 7, "os.sep", ""),
        ("raises", 10, "ValueError: size < 0", "size … is too small"),
        ("message", 11, "ValueError", "size … is too small"),
        ("throws", 11, 'raise ValueError(f"size {size} is too small")', "ValueError"),
        ("raises", 12, "KeyError: not cmd", ""),
        ("throws", 14, "raise KeyError", "KeyError"),
        ("shell", 15, "sp.run(cmd, shell=True)", ""),
        ("program", 16, "sp.run(cmd)", ""),
        ("objects", 17, 'read(b"")', ""),
        ("environment", 19, 'os.environ["HOME"]', "HOME"),
        ("environment", 20, 'os.getenv("USER", "x")', "USER"),
        ("threads", 21, "threading.Thread(target=run)", ""),
        ("deletes", 22, 'os.remove("x")', ""),
        ("swallows", 26, "except:", ""),
        ("abstract", 31, "Shape.area", ""),
        ("message", 36, "ValueError", "nobody is told"),
        ("throws", 36, 'raise ValueError("nobody is told")', "ValueError"),
    ]


@pytest.mark.parametrize(
    ("language", "line", "kinds"),
    [
        ("JavaScript", 'const a = process.env.HOME; child.exec("ls")', ["environment"]),
        ("JavaScript", 'import "ws"; new WebSocket(a)', ["network"]),
        ("TypeScript", "import type { Server } from 'node:http'", []),
        ("JavaScript", "// eval(x)", []),
        ("TypeScript", "try { a() } catch (e) {}", ["swallows"]),
        ("Go", 'cmd := exec.Command("ls")', ["program"]),
        ("Rust", "unsafe { *p = 1 }", ["memory"]),
        ("C", "  strcpy(a, b); /* FIXME: size */", ["marker", "memory"]),
        ("Java", "c = SocketChannel.open(); url.openConnection();", ["network"]),
        ("Java", "Runtime.getRuntime().exec(x);", ["program"]),
        ("C#", 'Process.Start("x");', ["program"]),
        ("Ruby", 'ENV["HOME"]', ["environment"]),
        ("Go", 'os.Getenv("HOME"); os.Getenv()', ["environment"]),
        ("Go", "v := os.Getenv(name(here))", ["environment"]),
        ("PHP", "<?php eval($x);", ["code"]),
        ("Shell", "curl -s x | sh", ["network"]),
        ("Haskell", "unsafePerformIO", []),
    ],
)
def test_other_languages_are_read_line_by_line(language: str, line: str, kinds: list[str]) -> None:
    assert [note.kind for note in other_notes(language, line.encode())] == kinds


ENVIRONMENTS = {
    "a.py": (
        (
            "import os\n\ndef read(name, or_else=None):\n    return os.environ.get(name, 1)\n\n"
            "def run(environ):\n    read('SHOP_RATE')\n    environ.get('SKIP', '')\n"
            "    environ['SET'] = '1'\n    if 'SHOP_OFF' in os.environ or 'x' in environ:\n"
            "        return environ['SHOP_ON']\n    other.get('NOT')\n"
        ),
        ["SHOP_RATE", "SKIP", "SHOP_OFF", "x", "SHOP_ON"],
    ),
    "a.go": (
        (
            "package a\nfunc nonEmpty(env string) (string, error) {\n\tv := os.Getenv(env)\n}\n"
            'func f() {\n\tnonEmpty("SHOP_TOKEN")\n\tother("NOT")\n}\n'
        ),
        ["", "SHOP_TOKEN"],
    ),
    "a.rs": (
        (
            "fn from_env(name: &str) -> Option<String> {\n    env::var(name).ok()\n}\n"
            'fn f() {\n    from_env("SHOP_TOKEN");\n}\n'
        ),
        ["SHOP_TOKEN"],
    ),
}


@pytest.mark.parametrize("path", ENVIRONMENTS)
def test_variables_are_read_by_wrappers_and_parameters_too(path: str) -> None:
    text, expected = ENVIRONMENTS[path]
    notes = facts_of(path, text.encode()).notes
    assert [one.detail for one in notes if one.kind == "environment"] == expected


SCRIPT = """\
import { exec as run, fork } from "node:child_process"
const cp = require('child_process'), { join } = require('path')
const spawned = require("child_process").spawn
const later = promisify(cp.exec)
word.exec(text); exec(text); own.spawn(text)
run("ls")
cp.execFile("ls")
later("ls")
spawned("ls")
require('child_process').execSync("ls")
"""
RUST = """\
use std::{io, process::{self, Command as Program}};
use crate::builder::Command;
fn a() { Command::new("test") }
fn b() { Program::new("ls") }
fn c() { std::process::Command::new("ls") }
#[cfg(test)]
#[allow(unused)]
mod tests {
    fn d() { Program::new("ls") }
}
#[cfg(test)]
mod more;
fn e() { process::Command::new("ls") }
"""


@pytest.mark.parametrize(
    ("language", "source", "told"),
    [
        ("JavaScript", SCRIPT, {6: "shell", 7: "program", 8: "shell", 9: "program", 10: "shell"}),
        ("Rust", RUST, dict.fromkeys((4, 5, 13), "program")),
    ],
)
def test_programs_are_started_by_what_comes_from_where_they_are(
    language: str, source: str, told: dict[int, str]
) -> None:
    notes = other_notes(language, source.encode())
    assert {note.line_start: note.kind for note in notes} == told


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("JavaScript", "import a " * 40_000 + "child_process"),
        ("JavaScript", "from 'child_process' " * 40_000),
        ("Rust", "#[cfg(test)]\nmod a {\n" * 20_000),
    ],
)
def test_long_files_are_read_in_a_time_that_grows_as_they_do(language: str, source: str) -> None:
    assert other_notes(language, source.encode()) == []


@pytest.mark.parametrize(
    ("language", "source", "kinds"),
    [
        ("JavaScript", "x = `process.exit(0) ${process.env.A}` // eval(x)\n", ["environment"]),
        ("JavaScript", "class A { fetch() { return 'fetch(x)' } }\n", []),
        ("JavaScript", 'a = "http://b TODO c" // TODO: d\n', ["marker"]),
        ("TSX", "a = <p>process.exit(1)</p>\n", []),
        ("Go", 'package a\nvar b = "os.RemoveAll()" + `os.Exit(1)`\n', []),
        ("Rust", 'fn a() { b!("unsafe {{ }}") /* process::exit(1) */ }\n', []),
        ("Java", 'class A { String b = "System.exit(1)"; /* System.exit(1) */ }\n', []),
        ("Ruby", 'def system(a)\n  "system(a) #{eval(a)}"\nend\n', ["code"]),
        ("PHP", "<p>eval(1)</p><?php function exec($a) { return 'exec(1)'; }\n", []),
        ("C#", 'class A { string b = "Environment.Exit(1)"; /* File.Delete(x) */ }\n', []),
        ("C++", 'A::A() : unlink(unlink) { Throw("The bind() method"); }\n', []),
        ("C", "int accept(int a);\nint b(void) { return accept(1); }\n", ["network"]),
    ],
)
def test_what_a_text_or_a_comment_says_is_not_done(
    language: str, source: str, kinds: list[str]
) -> None:
    assert [note.kind for note in other_notes(language, source.encode())] == kinds


def test_what_ends_deletes_and_loads_is_told_by_what_it_is() -> None:
    source = (
        b"import yaml\nfrom pathlib import Path\ndef f(x):\n    yaml.load(x, yaml.CSafeLoader)\n"
        b"    yaml.load(x, yaml.Loader)\n    Path(x).unlink()\n    x.unlink()\n"
        b"    raise SystemExit\n    raise SystemExit(1)\n    raise ValueError\n"
    )
    assert [(note.kind, note.line_start) for note in python_notes(source)] == [
        ("objects", 5), ("deletes", 6), ("ends", 8), ("ends", 9), ("exit", 9),
        ("throws", 10),
    ]  # fmt: skip


def test_whose_a_file_is_does_not_tell_what_it_is() -> None:
    head = b"<?php\n/*\n * This file is part of it.\n */\nnamespace A;\n"
    source = head + b"/** {@inheritdoc} */\nclass B {}\n"
    found = facts_of("a.php", source).outline
    assert [found.doc, *(one.doc for one in found.symbols)] == ["", "", ""]
    assert facts_of("a.rb", b"# AUTHOR: blink ; of far away\n\nclass B; end\n").outline.doc == ""


def test_what_a_package_imports_of_itself_is_none_that_speaks_to_a_network() -> None:
    source = b"import redis\nfrom redis.client import x\nimport requests\n"
    for path in ("redis/a.py", "src/redis/inner/a.py"):
        assert [note.line_start for note in python_notes(source, path)] == [3]
    assert [note.line_start for note in python_notes(source, "shop/redis/a.py")] == [1, 3]


@pytest.mark.parametrize(
    ("readme", "said"),
    [
        ("# Name\n\nA tool that does things.\n", ("A tool that does things.", 3, 3)),
        (
            "Name\n====\n\n.. image:: x\n\nIt is :class:`~a.B` and ``c``.\n",
            ("It is `B` and `c`.", 6, 6),
        ),
        (
            "[![b](i)](l)\n![x](y)\n\nA **bold** [link](u) here\nand there.\n",
            ("A bold link here and there.", 4, 5),
        ),
        (
            "<p align=center>\n<b>x</b>\n</p>\n\n```\nsome code here\n```\n\nA tool for us all.\n",
            ("A tool for us all.", 9, 9),
        ),
        ("Too short.\n", None),
        ("# X\n\n[CI]: https://a/b\n[x]: https://c\n\nA tool for us.\n", ("A tool for us.", 6, 6)),
        ("---\ntitle: X of them all\n---\n# X\n\nA tool for us.\n", ("A tool for us.", 6, 6)),
        ("# X\n\n> A tool for us.\n\nMore of it is there.\n", ("A tool for us.", 3, 3)),
        ("# X\n\n> [!NOTE]\n> It is elsewhere now.\n\nA tool for us.\n", ("A tool for us.", 6, 6)),
        ("Dual-licensed under Apache 2.0 or MIT.\n\nA tool for us.\n", ("A tool for us.", 3, 3)),
        ("# X\n\n一个解析器。\n", ("一个解析器。", 3, 3)),
        (":rocket: **Fast** &amp; small,\\\na tool.\n", ("Fast & small, a tool.", 1, 2)),
        (
            "> These docs are in [Chinese](x), too.\n\nA tool for us all.\n",
            ("A tool for us all.", 3, 3),
        ),
        (
            "[English readme](a) • [中文 readme](b) • [Lengua](c)\n\nA tool for us all.\n",
            ("A tool for us all.", 3, 3),
        ),
        ("* one of some\n* two of them\n\nA tool for us.\n", ("A tool for us.", 4, 4)),
        ("<!-- made by a script,\nas all is -->\n\nA tool for us.\n", ("A tool for us.", 4, 4)),
        ("X\n===\n> A tool _for us_ all.\n", ("A tool for us all.", 3, 3)),
        (
            "A [tool] for us all.\n" + "```\n" * 201 + "\n[tool]: https://a/b\n",
            ("A tool for us all.", 1, 1),
        ),
        (
            "<br>\n<div>\n  A tool for\n  us <a href=x>all</a>.\n</div>\n",
            ("A tool for us all.", 1, 5),
        ),
        ("", None),
    ],
)
def test_a_readme_introduces_its_project(readme: str, said: tuple[str, int, int] | None) -> None:
    found = introduction(readme.encode(), "README.md")
    assert (None if found is None else tuple(found)) == said


HOSTILE = {
    "images": b"![" * 900 + b"](b)" * 900,
    "no_unicode": b"[a](\x80 '\xed\xb2\x80')\n[b]: <\xff>",
    "roles": b":" * 16384,
    "definitions": b"\n[a]: b" * 4000,
    "quotes": b"> " * 4000,
    "ticks": b"a`" * 8000,
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.full
def test_a_hostile_readme_introduces_nothing(case: str) -> None:
    for path in ("README.md", "README.rst"):
        assert introduction(HOSTILE[case], path) is None
        assert heading(HOSTILE[case], path) == ""


def test_a_readme_of_restructuredtext_is_read_too() -> None:
    written = "====\nShop\n====\n\nPart\n~~~~\n\nIt `sells\n<https://a/b>`_ many things.\n"
    assert heading(written.encode(), "README.rst") == "Shop"
    assert introduction(written.encode(), "README.rst") == ("It sells many things.", 8, 9)


def test_a_comment_of_restructured_text_introduces_nothing() -> None:
    written = (
        "..\n  Copyright of the makers of this shop\n\n  License: see below\n\n"
        ".. Please keep this file short and true.\n\n====\nShop\n====\n\n"
        ".. image:: shop.png\n    :alt: what it looks like from outside\n\n"
        "It_ sells `many things`__ for PyPI_.\n"
    )
    assert heading(written.encode(), "README.rst") == "Shop"
    assert introduction(written.encode(), "README.rst") == (
        "It sells many things for PyPI.", 15, 15,
    )  # fmt: skip


def test_marks_are_taken_off() -> None:
    assert plain("See :meth:`Session.get <requests.Session.get>` now") == "See `Session.get` now"


MANIFESTS = {
    "pyproject.toml": (
        (
            '[project]\nname = "a-b"\ndependencies = ["x>=1; extra", \'y[z]\']\n'
            '[project.optional-dependencies]\ntest = [\n  "pytest",\n]\n[tool.x]\nname = "no"\n'
        ),
        "a-b",
        [("x", 3), ("y", 3), ("pytest", 6)],
    ),
    "package.json": (
        (
            '{\n  "name": "@s/web",\n  "dependencies": {\n    "react": "^1"\n  },\n'
            '  "scripts": {"a": "b"}\n}\n'
        ),
        "@s/web",
        [("react", 4)],
    ),
    "Cargo.toml": (
        (
            '[package]\nname = "eng"\n[dependencies]\nserde = "1"\ntokio.workspace = true\n'
            '[dev-dependencies]\nx = "1"\n'
        ),
        "eng",
        [("serde", 4), ("tokio", 5)],
    ),
    "go.mod": (
        (
            "module example.com/a/store\n\nrequire (\n\tgolang.org/x/net v0.1.0\n"
            "\tx.y/z v1 // indirect\n)\n"
        ),
        "store",
        [("golang.org/x/net", 4)],
    ),
    "setup.cfg": (
        "[metadata]\nname = old\n[options]\ninstall_requires =\n    six\n\nx = 1\n",
        "old",
        [("six", 5)],
    ),
    "requirements.txt": ("# no\n-r other.txt\nflask==1\n", "", [("flask", 3)]),
}


@pytest.mark.parametrize("path", MANIFESTS)
def test_manifests_say_what_is_needed(path: str) -> None:
    text, name, needed = MANIFESTS[path]
    assert facts_of(path, text.encode()).project == name
    found = declared(path, text.encode())
    assert [(package, place.line_start) for package, place in found] == needed


TOKEN = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"


def test_what_looks_like_a_secret_is_in_no_fact() -> None:
    source = f'''"""Uses {TOKEN} here."""

def go(token="{TOKEN}"):
    """A key.
    {KEY}
    """
    if token == "{TOKEN}":
        raise ValueError("no {TOKEN}")
    eval(token + "{TOKEN}")  # TODO: {TOKEN}
'''
    one = facts_of("a.py", source.encode())
    readme = facts_of("README.md", f"A tool with {TOKEN} in it.\n".encode())
    told = repr((one, readme))
    assert TOKEN not in told
    assert "MIIEvQ" not in told
    assert [symbol.name for symbol in one.outline.symbols] == ["go"]
    assert [note.line_start for note in one.notes] == [9, 10, 10, 11, 11]
    assert readme.about is not None
    assert readme.about.text == "A tool with [redacted] in it."


def test_a_manifest_on_one_line_names_its_packages() -> None:
    text = b'{"name":"tiny","dependencies":{"lodash":"^4","left-pad":"1"}}'
    found = [(name, place.text, place.line_start) for name, place in declared("package.json", text)]
    assert found == [("lodash", "lodash", 1), ("left-pad", "left-pad", 1)]


def test_a_package_is_on_the_line_that_asks_for_it() -> None:
    text = (
        b'[build-system]\nrequires = ["a"]\n[project]\nkeywords = ["b"]\ndependencies = [\n'
        b'  "b>=1; x",\n  "b>=2; y",\n  "a",\n]\noptional-dependencies.more = [ "c" ]\n'
        b'[dependency-groups]\ndev = ["d"]\n'
    )
    found = [(name, place.line_start) for name, place in declared("pyproject.toml", text)]
    assert found == [("b", 6), ("b", 7), ("a", 8), ("c", 10)]
    poetry = b"[tool.poetry.dependencies]\npython = '3'\na = '^1'\n[tool.poetry.group.b]\n"
    found = [(name, place.line_start) for name, place in declared("pyproject.toml", poetry)]
    assert found == [("a", 3)]
    assert declared("pyproject.toml", b"[project\n") == ()


def test_facts_travel_packed() -> None:
    one = facts_of("a.py", b'"""Doc."""\nimport os\n\ndef f():\n    """F."""\n    os.system("a")\n')
    assert unpack(pack([one])) == [one]
    with pytest.raises(ValueError, match="facts"):
        unpack("AAAA")


def test_a_file_in_slices_is_read_once_and_whole() -> None:
    source = b'"""Doc."""\n\nclass A:\n    def f(self):\n        eval("")\n'
    texts = (
        LeafText("a.py", "0" * 40, source[:20], 1, source),
        LeafText("a.py", "0" * 40, source[20:], 4),
        LeafText("b.py", "0" * 40, b"x = 1\n"),
    )
    node = Node("0", None, 0, NodeScope("folder", "", 0, 2))
    packed = analyse(LeafTask(node, texts, {}))["packed"]
    assert unpack(packed) == [facts_of("a.py", source), facts_of("b.py", b"x = 1\n")]


def test_lines_that_only_python_counts_are_not_cited() -> None:
    one = facts_of("a.py", b"x = 1\rdef f():\r    eval('')\r")
    assert one.outline.symbols == one.notes == ()


def test_a_licence_does_not_tell_what_a_file_is() -> None:
    one = facts_of("a.py", b'"""Copyright (c) 2020 Somebody. All rights."""\nx = 1\n')
    assert (one.outline.doc, one.outline.doc_start) == ("", 0)


def test_paths_tell_tests_and_what_stands_beside() -> None:
    assert all(
        map(is_test, ("tests/a.py", "a/test_b.py", "x_test.go", "b/c.spec.ts", "idle_test/x.py"))
    )
    assert not any(map(is_test, ("latest.py", "contest/a.py", "src/testing/a.py", "attest.go")))
    assert all(
        map(
            is_beside,
            ("lib/benchmarks/a.js", "docs/conf.py", "setup.py", "Examples/a.py", "vite.config.ts"),
        )
    )
    assert not any(map(is_beside, ("src/docs/a.py", "app/setup.py", "config.py")))


@pytest.mark.parametrize(
    ("path", "head", "is_generated"),
    [
        ("api.pb.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\npackage api\n", True),
        ("api_pb2.py", "# -*- coding: utf-8 -*-\n# Generated by protoc.  DO NOT EDIT!\n", True),
        (
            "Api.java",
            "/**\n * Autogenerated by Thrift\n *\n * DO NOT EDIT UNLESS SURE\n */\n",
            True,
        ),
        ("api.ts", "/** @generated by a tool */\n", True),
        ("api.go", '// DO NOT EDIT the next line.\npackage api\n\nvar x = "generated"\n', False),
        ("api.py", 'HEAD = "Code generated by x. DO NOT EDIT."\n', False),
        ("late.py", "x = 1\n" * 60 + "# Generated. DO NOT EDIT.\n", False),
    ],
)
def test_what_a_program_has_written_is_no_api(path: str, head: str, *, is_generated: bool) -> None:
    bodies = {"go": "// Say says.\nfunc Say() {}\n", "py": "def say():\n    '''Says.'''\n"}
    found = facts_of(path, (head + bodies.get(path.rpartition(".")[2], "")).encode())
    assert found.is_generated is is_generated
    assert unpack(pack([found]))[0] == found
    if path.endswith(".py"):
        assert [one.name for _, one in public(found) if one.name == "say"] == (
            [] if is_generated else ["say"]
        )


SHELL = b"""\
#!/bin/sh
# Keeps the shop.
set -eu

# Opens the door,
# and the shutters.
open_door() {
  cat <<-'END'
\tfake() {
\tEND
  [ -e key ] || exit 3
}
function _inner
{
  true
}

one() { true; }
other () (
  cd x
)
open_door "$@"
called() || true
cat <<END
late() {
}
END
"""


def test_a_script_of_a_shell_is_read_for_its_functions() -> None:
    found = facts_of("bin/shop.sh", SHELL)
    rows = [(one.name, one.line_start, one.line_end, one.doc) for one in found.outline.symbols]
    assert rows == [
        ("open_door", 7, 12, "Opens the door, and the shutters."),
        ("_inner", 13, 16, ""),
        ("one", 18, 18, ""),
        ("other", 19, 21, ""),
    ]
    assert found.outline.doc == "Keeps the shop."
    assert [one.name for _, one in public(found)] == ["open_door", "one", "other"]
    assert [(one.text, one.detail, one.within) for one in found.notes if one.kind == "exit"] == [
        ("exit 3", "3", "open_door")
    ]
    assert facts_of("a.sh", b"a() {\0}\n").outline.symbols == ()


@pytest.mark.parametrize(
    ("path", "content", "text", "lines"),
    [
        ("pyproject.toml", '[a]\ndescription = "A b"\n[project]\ndescription = "Sells bread."\n',
         "Sells bread.", (4, 4)),
        ("Cargo.toml", '[package]\ndescription = """\nSells bread,\nand cake."""\n[lib]\n',
         "Sells bread, and cake.", (2, 4)),
        ("lib/package.json", '{\n  "name": "a",\n  "description": "Sells bread",\n}\n',
         "Sells bread", (3, 3)),
        ("setup.cfg", "[metadata]\ndescription = Sells bread\n", "Sells bread", (2, 2)),
        ("setup.py", "from setuptools import setup\nsetup(\n    description='Sells bread',\n)\n",
         "Sells bread", (3, 3)),
        ("shop.gemspec", 'Gem.new do |s|\n  s.summary = "Sells bread"\nend\n',
         "Sells bread", (2, 2)),
    ],
)  # fmt: skip
def test_a_manifest_describes_its_project(
    path: str, content: str, text: str, lines: tuple[int, int]
) -> None:
    about = facts_of(path, content.encode()).about
    assert about is not None
    assert (about.text, (about.line_start, about.line_end)) == (text, lines)


@pytest.mark.parametrize(
    "text", ['[project]\nname = "a"\n', '[project]\ndescription = "Bread"\n', ""]
)
def test_a_manifest_without_a_description_says_nothing(text: str) -> None:
    assert facts_of("pyproject.toml", text.encode()).about is None


@pytest.mark.parametrize(
    "line", ["frozen-string-literal: true", "encoding: utf-8", "warn_indent: true"]
)
def test_what_a_file_tells_ruby_is_no_documentation(line: str) -> None:
    text = f"# {line}\n\nmodule Shop\n  class Till\n  end\nend\n"
    assert facts_of("lib/till.rb", text.encode()).outline.doc == ""
