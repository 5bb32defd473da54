"""What a package is to others: of Go, whose files need not import each other, and of npm."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.source.outline import outline
from testing.wiki_pages import pages_of

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

README = {"README.md": "It is for us, far away.\n"}


def test_the_files_of_a_package_of_go_are_one_box(repo: GitRepo, tmp_path: Path) -> None:
    many = "".join(f"func F{n}() {{}}\n" for n in range(210))
    pages = pages_of(repo, tmp_path, README | {
        "go.mod": "module x.org/web\n",
        "web.go": "package web\nfunc A() {}\n",
        "context.go": f'package web\nimport "x.org/web/render"\n{many}',
        "render/render.go": "package render\nfunc B() {}\nfunc C() {}\nfunc D() {}\nfunc E() {}\n",
        "cmd/main.go": 'package main\nimport "x.org/web"\nfunc main() {}\nvar G, H, I = 1, 2, 3\n',
    })  # fmt: skip
    index = pages["facts.md"]
    assert re.findall(r'n\d+\["([^"]*)"\]', index) == ["top level", "cmd", "render"]
    assert re.findall(r"(n\d) --> (n\d)", index) == [("n0", "n2"), ("n1", "n0")]
    used = {row[1]: row[6].strip() for row in (
        line.split("|") for line in index.split("\n") if line.startswith("| [")
    ) if len(row) > 7}  # fmt: skip
    assert used == {
        " [top level](modules/top-level.md) ": "1",
        " [cmd](modules/cmd.md) ": "0",
        " [context.go](modules/context.go.md) ": "",
        " [render](modules/render.md) ": "1",
    }
    assert "[context.go](context.go.md)" in pages["modules/render.md"]


def test_what_a_doc_folder_of_go_gives_is_of_the_program(repo: GitRepo, tmp_path: Path) -> None:
    manual = 'package doc\nimport "gopkg.in/yaml.v3"\nfunc A() {}\nfunc B() {}\nfunc C() {}\n'
    manual += "func D() {}\n"
    index = pages_of(repo, tmp_path, README | {
        "go.mod": "module x.org/web\nrequire gopkg.in/yaml.v3 v3.0.1\n",
        "web.go": "package web\nfunc A() {}\nfunc B() {}\nfunc C() {}\nfunc D() {}\n",
        "doc/man.go": manual,
        "docs/tool/gen.go": "package main\nfunc Own() {}\nfunc main() {}\n",
        "docs/tool/more.go": "package main\nfunc More() {}\n",
    })["facts.md"]  # fmt: skip
    assert "[doc](modules/doc.md)" in index
    assert "| `gopkg.in/yaml.v3` | 1 | yes |" in index
    assert "| `docs/tool/` | 2 |" in index.partition("## Beside the program")[2]
    assert "gen.go" not in index.partition("## Beside the program")[0]


@pytest.mark.parametrize(
    ("record", "names"),
    [
        ({"main": "./index.js", "module": "x.mjs"}, ["cart"]),
        ({"types": "./index.d.ts"}, ["cart"]),
        ({"exports": "./index.js"}, ["cart"]),
        ({"exports": {"import": "./a.mjs", "require": "./a.cjs"}, "main": "a.cjs"}, ["cart"]),
        (
            {"exports": {".": "./a.js", "./b": {"types": "./b.d.ts"}, "./in/*": None,
                         "./package.json": "./package.json", "./c/*": "./lib/*"}},
            ["cart", "cart/b", "cart/c/*"],
        ),
        ({"main": 1}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_an_npm_package_is_entered_by_what_it_exports(
    record: dict[str, object], names: list[str]
) -> None:
    text = json.dumps({"name": "cart", **record, "scripts": {"lint:fix": "x"}}, indent=1)
    found = outline("packages/cart/package.json", text.encode())
    lines = text.split("\n")
    assert [(one.kind, one.name) for one in found.entries] == [
        *(("package", name) for name in names), ("task", "lint:fix"),
    ]  # fmt: skip
    for one in found.entries:
        name = one.name.removeprefix("cart")
        assert f'"{name and f".{name}"}"' in lines[one.line_start - 1] or not name or (
            one.kind == "task"
        )  # fmt: skip


def test_doors_stand_before_tasks(repo: GitRepo, tmp_path: Path) -> None:
    root = {"name": "all", "private": True, "scripts": {"lint": "x"}}
    inner = {"name": "@all/cart", "main": "./cart.js", "scripts": {"test": "x"}}
    index = pages_of(repo, tmp_path, README | {
        "package.json": json.dumps(root, indent=1),
        "packages/cart/package.json": json.dumps(inner, indent=1),
        "packages/cart/cart.js": "exports.a = function () {}\nexports.b = function () {}\n",
    })["facts.md"]  # fmt: skip
    found = re.findall(r"^- (package|task) `([^`]*)`", index, re.MULTILINE)
    assert found == [("package", "@all/cart"), ("task", "test")]
    assert "| `npm run lint` |" in index


def test_what_an_example_needs_is_not_declared_by_the_program(
    repo: GitRepo, tmp_path: Path
) -> None:
    index = pages_of(repo, tmp_path, README | {
        "examples/dj/requirements.txt": "django\n",
        "tests/requirements.txt": "left\n",
        "requirements/default.txt": "kombu>=5\nidle\n",
        "requirements/extras/redis.txt": "redis\n",
        "requirements/test.txt": "right\n",
        "p/cli.py": "import django, kombu, redis, left\ndef a(): ...\ndef b(): ...\ndef c(): ...\n",
    })["facts.md"]  # fmt: skip
    rows = dict(re.findall(r"^\| `(\w+)` \| 1 \| (\w*) ?\|", index, re.MULTILINE))
    assert rows == {"django": "", "kombu": "yes", "left": "", "redis": "yes"}
    assert "`idle`" in index
    assert "`right`" not in index


def test_a_door_gives_what_it_passes_on(repo: GitRepo, tmp_path: Path) -> None:
    script = "export function go() {}\nexport class Kept { a() {} b() {} }\nfunction own() {}\n"
    rust = "pub fn inner() {}\npub struct Two {}\npub fn three() {}\nfn own() {}\n"
    pages = pages_of(repo, tmp_path, README | {
        "web/index.ts": "export { go as start } from './x';\nexport * from './all/index';\n"
        "export { default as Line } from './line';\n"
        "import * as y from './y';\nexport const own = y.own;\n",
        "web/x.ts": script,
        "web/line.ts": "export default class Queue {}\n",
        "web/y.ts": script.replace("go", "stay").replace("Kept", "Left"),
        "web/all/index.ts": "export { run } from './run'\n",
        "web/all/run.ts": script.replace("go", "run").replace("Kept", "Running"),
        "src/lib.rs": "mod m;\npub use m::inner as renamed;\npub use crate::m::{Two, own};\n",
        "src/m.rs": rust,
        "Cargo.toml": '[package]\nname = "m"\n',
    })  # fmt: skip

    def given(page: str) -> list[str]:
        (line,) = [
            one
            for one in page.split("\n")
            if one.startswith("From files within, the package gives")
        ]
        return re.findall(r"\[`(\w+)`\]", line)

    assert given(pages["modules/web.md"]) == ["Line", "run", "start"]
    assert given(pages["modules/src.md"]) == ["Two", "own", "renamed"]
