"""How pages list names that stand in others, and what only says where they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.source.outline import outline
from testing.wiki_pages import pages_of

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

RUBY = """\
module Rack
  module Auth
    class MD5 < Base
      def call(env); end
      class Params
        def parse; end
      end
      class Stale < StandardError; end
    end
  end
end
"""
JAVA = """\
package com.acme.shop;
public class Order {
  public static class Failed extends Order { public int code() { return 1; } }
  public void send() {}
}
"""
PHP = "<?php\nnamespace Acme\\Shop;\nclass Order { public function a() {} }\n"
PYTHON = "class Outer:\n  class Inner:\n    def deep(self): ...\n  def flat(self): ...\n"


MODULE = "module Net\n  V = 1\n  def self.go; end\nend\n"
#: What stands in a file, what the pages say that it is, and how they list its names.
NESTED = {
    "net/md5.rb": (
        RUBY,
        "`Rack::Auth::MD5` | 11 | 5",
        """\
- `class MD5 < Base` in `Rack::Auth`
  - `def call(env)`
  - `class Stale < StandardError`
- `class Params` in `Rack::Auth::MD5`
  - `def parse`""",
    ),
    "net/Order.java": (
        JAVA,
        "`Order` | 5 | 4",
        """\
- `public class Order`
  - `public void send()`
- `public static class Failed extends Order` in `Order`
  - `public int code()`""",
    ),
    "net/shop.php": (PHP, "`Order` | 3 | 2", "- `class Order`\n  - `public function a()`"),
    "net/shop.py": (
        PYTHON,
        "`Outer` | 4 | 4",
        "- `class Outer`\n  - `def flat(self)`\n- `class Inner` in `Outer`\n  - `def deep(self)`",
    ),
    "net/a.rb": (MODULE, "`Net` | 4 | 3", "- `module Net`\n  - `def self.go`"),
}


@pytest.mark.parametrize("path", NESTED)
def test_a_member_keeps_its_owner_however_deep(repo: GitRepo, tmp_path: Path, path: str) -> None:
    source, told, rows = NESTED[path]
    texts = pages_of(repo, tmp_path, {"README.md": "It is for us, far away.\n", path: source})
    page = texts["modules/net.md"]
    assert "\n".join(line for line in unlinked(page) if line.lstrip().startswith("- `")) == rows
    assert f"| `{path.rpartition('/')[2]}` | largest definition: {told} |" in unlinked(page)
    main = told.partition(" |")[0]
    assert f"| [net](modules/net.md) | largest definition: {main} |" in unlinked(texts["index.md"])


def unlinked(page: str) -> list[str]:
    return [re.sub(r"\[(`[^`]*`)\]\([^)]*\)", r"\1", line) for line in page.split("\n")]


def shape(page: str) -> list[str]:
    """The lines of the list of names, without links."""
    below = page.split("### `a.py`\n\n", 1)[1].partition("\n## ")[0]
    return [line for line in unlinked(below) if line]


def test_members_are_folded_and_too_many_are_named(repo: GitRepo, tmp_path: Path) -> None:
    methods = "".join(f"  def m{number:02}(self): ...\n" for number in range(13))
    files = {"README.md": "It is for us, far away.\n", "net/a.py": f"class A:\n{methods}"}
    page = pages_of(repo, tmp_path, files)["modules/net.md"]
    assert shape(page) == [
        "- `class A`",
        "<details>",
        "<summary>13 more</summary>",
        "- `A`",
        *(f"  - `def m{number:02}(self)`" for number in range(3)),
        "  - and `m03`, `m04`, `m05`, `m06`, `m07`, `m08`, `m09`, `m10`, `m11`, `m12`",
        "</details>",
    ]
    assert "[`def m02(self)`](https://" in page
    assert page.count("](") < 20  # what is only named has no link


@pytest.mark.parametrize(("names", "far"), [(13, 0), (14, 0), (26, 0), (26, 120)])
def test_a_list_is_folded_after_a_dozen_and_as_long_as_its_file_deserves(
    repo: GitRepo, tmp_path: Path, names: int, far: int
) -> None:
    source = "".join(f"def f{number:02}(): ...\n" for number in range(names)) + "\n" * far
    page = pages_of(repo, tmp_path, {"README.md": "It is for us.\n", "net/a.py": source})
    every = [f"- `def f{number:02}()`" for number in range(names)]
    if names == 13:  # a fold of one is no shorter
        assert shape(page["modules/net.md"]) == every
        return
    most = 13 + 2 * bool(far)
    rest = ", ".join(f"`f{number:02}`" for number in range(most, names))
    assert shape(page["modules/net.md"]) == [
        *every[:12],
        "<details>",
        f"<summary>{names - 12} more</summary>",
        *every[12:most],
        *([f"- and {rest}"] if names > most else []),
        "</details>",
    ]


def test_what_is_assigned_together_is_bound_all_the_same() -> None:
    source = (
        b"(A, B) = (1, 2)\nC, *d = 3, 4\n[E, (f, _g)] = 5, (6, 7)\nG = H = 7\nx.y, z[1] = 1, 2\n"
    )
    found = outline("a.py", source)
    assert [one.name for one in found.symbols if one.is_public] == list("ABCdEfGH")


def test_what_a_script_exports_is_public_whatever_binds_it() -> None:
    source = (
        b"import axios from './lib.js';\nconst { Axios, all } = axios;\nfunction own() {}\n"
        b"function inner() {}\nexport {\n  axios as default,\n  Axios,\n  all as every, own\n};\n"
    )
    found = outline("index.js", source)
    public = [(one.name, one.line_start) for one in found.symbols if one.is_public]
    assert public == [("own", 3), ("Axios", 7), ("every", 8)]


def test_no_two_boxes_of_a_map_look_alike(repo: GitRepo, tmp_path: Path) -> None:
    far = "far/" + "/".join("abcdefghij" * 3)
    files = {"README.md": "It is for us, far away.\n", "deep/one/src/a.js": "export const a = 1;\n"}
    for folder in ("packages/a/src", "packages/b/src", "net", far):
        up = "../" * (folder.count("/") + 1)
        files[f"{folder}/index.js"] = (
            f"import '{up}deep/one/src/a.js';\nexport class More {{ all() {{}} own() {{}} }}\n"
        )
    index = pages_of(repo, tmp_path, files)["facts.md"]
    assert re.findall(r'n\d+\["([^"]*)"\]', index) == [
        "deep/one/src", f"#8230;/{'/'.join('abcdefghij' * 2)}", "net", "packages/a/src",
        "packages/b/src",
    ]  # fmt: skip


def test_what_tells_of_a_file_in_rust_is_not_told_of_what_follows() -> None:
    source = (
        b"//! Makes orders.\npub mod cart {}\n/// > Sends one.\npub fn send() {}\n"
        b"/// # Of us\npub fn all() {}\n"
    )
    found = outline("lib.rs", source)
    assert (found.doc, found.doc_start) == ("Makes orders.", 1)
    assert {one.name: one.doc for one in found.symbols} == {
        "cart": "", "send": "Sends one.", "all": "Of us",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "source", "values"),
    [
        (
            "net/a.cs",
            "public class A {\n public int B { get; set; }\n public const int C = 1;\n}\n",
            "BC",
        ),
        ("net/a.php", "<?php\nclass A {\n const B = 1;\n public $C;\n private $D;\n}\n", "BC"),
        ("net/A.java", "public interface A {\n int B = 1;\n int C = 2;\n}\n", "BC"),
        ("net/a.py", "class A(Enum):\n  B = 1\n  C = 2\n", "BC"),
    ],
)
def test_the_values_of_a_class_are_named(
    repo: GitRepo, tmp_path: Path, path: str, source: str, values: str
) -> None:
    files = {"README.md": "It is for us, far away.\n", path: source}
    page = pages_of(repo, tmp_path, files)["modules/net.md"]
    (line,) = [line for line in page.split("\n") if line.startswith("  - Values in ")]
    named = [part.lstrip("$") for part in line.split("`")]
    assert [name for name in named if name in ("B", "C", "D")] == list(values)


def test_the_fields_of_an_object_type_are_members() -> None:
    source = b"export type Options = {\n  /** Whether it throws. */\n  throws?: boolean;\n};\n"
    found = outline("a.ts", source).symbols
    assert [(one.name, one.line_start, one.doc) for one in found] == [
        ("Options", 1, ""), ("Options.throws", 3, "Whether it throws."),
    ]  # fmt: skip


def test_what_a_pattern_takes_is_exported() -> None:
    source = (
        b"export const { a, b: c, d: { e } } = {};\nexport const [f] = [1];\nconst { g } = {};\n"
    )
    found = outline("a.ts", source)
    assert [one.name for one in found.symbols if one.is_public] == ["a", "c", "e", "f"]


@pytest.mark.parametrize(
    ("path", "source", "is_one"),
    [
        ("bin/rackup", "#!/usr/bin/env ruby\nstart\n", True),
        ("bin/serve", "#!/bin/sh\nserve\n", True),
        ("bin/serve.sh", "#!/bin/sh\nserve\n", False),
        ("bin/NOTICE", "Ours.\n", False),
        ("tests/run", "#!/bin/sh\nserve\n", False),
    ],
)
def test_what_is_called_by_its_name_alone_is_where_one_begins(
    path: str, source: str, *, is_one: bool
) -> None:
    expected = [("script", path, 1, 1, "")] if is_one else []
    assert list(map(tuple, outline(path, source.encode()).entries)) == expected


def test_a_wiki_does_not_tell_of_itself_what_was_left_out() -> None:
    from rlm_ci.wiki.pages.facts_page import _omitted

    own = ["docs/wiki/index.md", "docs/wiki/wiki.json", "docs/wiki/modules/a.md"]
    others = ["docs/modules/a.md", "docs/more.md"]
    (row,) = _omitted([(path, "excluded: by a pattern") for path in (*own, *others)])
    assert (row["count"], row["names"]) == ("2", "`docs/modules/a.md`, `docs/more.md`")
