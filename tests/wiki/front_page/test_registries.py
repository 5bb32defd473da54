"""How another of a kind is added, on the first page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from testing.wiki_pages import pages_of

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

MODULE = "def bake():\n    return 1\n\n\ndef cool():\n    return 2\n\n\n"
PYTHON = {
    "CONTRIBUTING.md": "# Shop\n\n## Run it\n\nSo.\n\n## Adding a new oven\n\nSo.\n",
    "shop/__init__.py": "",
    "shop/all.py": "from shop.kinds import clay, gas, steel\n\n"
    "ovens: dict[str, object] = {'clay': clay, 'gas': gas, 'steel': steel}\n",
    "shop/kinds/__init__.py": "",
    "shop/kinds/clay.py": MODULE,
    "shop/kinds/gas.py": f"{MODULE}def burn():\n    return 3\n",
    "shop/kinds/steel.py": f"{MODULE}SIZE = 3\n",
    "tests/test_clay.py": "from shop.kinds import clay\n\n\ndef test_it():\n    clay.bake()\n",
}
CLASSES = {
    "shop/__init__.py": "",
    "shop/a.py": """class A:
    def run(self):
        return 1

    def more(self):
        return 2


class B:
    def run(self):
        return 1


class C(A):
    def run(self):
        return 1
""",
    "shop/all.py": "from shop.a import A, B, C\n\nEVERY = [\n    A,\n    B,\n    C,\n]\n",
}
GO = {
    "go.mod": "module x.y/shop\n",
    "oven/oven.go": """package oven

type Oven interface {
	Bake(n int) error
}

func New(name string) Oven {
	switch name {
	case "clay":
		return NewClay()
	case "gas", "fire":
		return NewGas()
	case "steel":
		return NewSteel()
	}
	return nil
}
""",
    **{
        f"oven/{name.lower()}.go": f"package oven\n\ntype {name} struct{{}}\n\n"
        f"func New{name}() Oven {{ return &{name}{{}} }}\n\n"
        f"func (o *{name}) Bake(n int) error {{ return nil }}\n"
        for name in ("Clay", "Gas", "Steel")
    },
}
RUST = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/main.rs": "mod a;\nmod b;\nmod c;\nfn main() {\n    register_oven!(a::Clay);\n"
    "    register_oven!(b::Gas);\n    register_oven!(c::Steel);\n}\n",
    **{
        f"src/{path}.rs": f"pub struct {name};\nimpl {name} {{\n    pub fn bake(&self) {{}}\n}}\n"
        for path, name in (("a", "Clay"), ("b", "Gas"), ("c", "Steel"))
    },
}
MAP = {
    "go.mod": "module x.y/shop\n",
    "oven/ovens.go": """package oven

type Oven interface {
	Bake(n int) error
}

var ovens = map[string]Oven{
	"clay":  Clay, // the oldest
	"gas":   Gas,
	"steel": Steel,
}
""",
    **{
        f"oven/{name.lower()}.go": f"package oven\n\ntype {name.lower()} struct{{}}\n\n"
        f"var {name} Oven = {name.lower()}{{}}\n\n"
        f"func (o {name.lower()}) Bake(n int) error {{ return nil }}\n"
        for name in ("Clay", "Gas", "Steel")
    },
}
HANDLERS = {
    "package.json": '{"name": "shop"}\n',
    "lib/load.js": """import * as path from 'path'

const json = (name) => 1
const yaml = (name) => 2
const script = (name) => 3

export const loaders = {
  [NONE]: yaml,
  '.json': json,
  ".js": script,
}

export const given = { json, yaml, script }
""",
}
SCRIPTS = {
    "package.json": '{"name": "shop"}\n',
    "src/all.ts": "import * as clay from './clay.ts'\nimport * as gas from './gas.ts'\n"
    "import * as steel from './steel.ts'\n\nexport default { clay, gas, steel } as Ovens\n",
    **{
        f"src/{name}.ts": "export function bake() { return 1 }\n"
        for name in ("clay", "gas", "steel")
    },
}
DECORATED = {
    "shop/__init__.py": "",
    "shop/app.py": "import click\nfrom shop.base import app\n\n\n@app.command()\n"
    "def buy(n): ...\n\n\n@app.command('x')\ndef sell(n): ...\n\n\n@click.command()\n"
    "def alone(): ...\n",
    "shop/base.py": "app = App()\n",
    "shop/more.py": "from shop.base import app\n\n\n@app.command()\ndef count(n): ...\n",
}
POINTS = {
    "pyproject.toml": '[project]\nname = "shop"\n\n[project.entry-points."shop.ovens"]\n'
    'clay = "shop.clay:Clay"\ngas = "shop.gas:Gas"\nsteel = "shop.steel:Steel"\n',
    "shop/__init__.py": "",
    **{
        f"shop/{name}.py": f"class {name.title()}:\n    def bake(self): ...\n"
        for name in ("clay", "gas", "steel")
    },
}
ARMS = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/main.rs": "pub enum Oven {\n    Clay,\n    Gas,\n    Steel,\n}\n"
    "fn oven(name: &str) -> Result<Oven, ()> {\n    match name {\n"
    '        "clay" => Ok(Oven::Clay),\n        "gas" | "fire" => Ok(Oven::Gas),\n'
    '        "steel" => Ok(Oven::Steel),\n        _ => Err(()),\n    }\n}\nfn main() {}\n',
}
TABLE = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/main.rs": "macro_rules! ovens {\n    ($($a:tt)*) => {};\n}\n\novens!(\n"
    '    (clay, "clay") => 1,\n\n    (gas, "gas") => 2,\n\n    (steel, "x") => 3,\n);\n'
    "fn main() {}\n",
}
ADDED = {
    "shop/__init__.py": "",
    "shop/app.py": "from shop.base import app\nfrom shop.buy import _main as _buy\n"
    "from shop.count import main\nfrom shop.sell import _main as _sell\n\n"
    "app.add_command(_buy)\napp.add_command(_sell)\napp.add_command(main)\n",
    "shop/base.py": "app = App()\n",
    "shop/buy.py": "def _main(n): ...\n",
    "shop/count.py": "def main(n):\n    return n\n",
    "shop/sell.py": "def _main(n):\n    return n\n",
}
OBJECTS = {
    "package.json": '{"name": "shop"}\n',
    "src/all.ts": "import { Clay } from './clay'\nimport { Gas } from './gas'\n"
    "import { Steel } from './steel'\n\nexport const ovens = (open: boolean) => [\n"
    "  ...(open ? [new Clay({ open })] : []),\n  new Gas({\n    open,\n  }),\n"
    "  new Steel(),\n]\n",
    **{
        f"src/{name.lower()}.ts": f"export class {name} {{\n  bake() {{ return 1 }}\n}}\n"
        for name in ("Clay", "Gas", "Steel")
    },
}
SUBCOMMANDS = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/main.rs": "#[derive(Debug, clap::Subcommand)]\npub enum Task {\n    /// Buys.\n    Buy,\n"
    "    Sell {\n        Deep: u8,\n    },\n    Count(u8),\n}\nfn main() {}\n",
}
CALLS = {
    "pom.xml": "<project></project>\n",
    "src/main/java/a/Shop.java": "package a;\n\npublic class Shop {\n    Shop() {\n"
    '        register("clay", new Clay());\n        register("gas", new Gas());\n'
    '        register("steel", new Steel());\n    }\n}\n',
    **{
        f"src/main/java/a/{name}.java": f"package a;\n\npublic class {name} {{\n"
        "    public int bake() { return 1; }\n}\n"
        for name in ("Clay", "Gas", "Steel")
    },
}
CASES = {
    "map of Go": (MAP, (
        "`ovens`: `Clay`, `Gas`, `Steel` | `oven/ovens.go#L7-L11` | the type `Oven` with `Bake` | "
        "`oven/clay.go#L1-L7` | none found"
    )),
    "handlers": (HANDLERS, (
        "`loaders`: `yaml`, `json`, `script` | `lib/load.js#L7-L11` | the parameters `(name)` | "
        "`lib/load.js#L4` | none found"
    )),
    "modules of a script": (SCRIPTS, (
        "`export default`: `clay`, `gas`, `steel` | `src/all.ts#L5` | `bake` | "
        "`src/clay.ts#L1` | none found"
    )),
    "decorators": (DECORATED, (
        "`@app.command`: `app.buy`, `app.sell`, `more.count` | `shop/app.py#L5` | "
        "the parameters `(n)` | `shop/app.py#L5-L6` | none found"
    )),
    "entry points": (POINTS, (
        "`shop.ovens`: `shop.clay:Clay`, `shop.gas:Gas`, `shop.steel:Steel` | "
        "`pyproject.toml#L4-L7` | `bake` | `shop/clay.py#L1-L2` | none found"
    )),
    "arms": (ARMS, (
        "`match`: `Oven::Clay`, `Oven::Gas`, `Oven::Steel` | `src/main.rs#L8-L10` | "
        "a variant of `Oven` | `src/main.rs#L1-L5` | none found"
    )),
    "table of a macro": (TABLE, (
        "`ovens!`: `clay`, `gas`, `steel` | `src/main.rs#L5-L11` | a row as the others | "
        "the shortest row | none found"
    )),
    "calls of Python": (ADDED, (
        "`app.add_command(…)`: `_buy`, `_sell`, `main` | `shop/app.py#L6-L8` | "
        "the parameters `(n)` | `shop/buy.py#L1` | none found"
    )),
    "objects": (OBJECTS, (
        "`new`: `Clay`, `Gas`, `Steel` | `src/all.ts#L6-L10` | `bake` | `src/clay.ts#L1-L3` | "
        "none found"
    )),
    "subcommands": (SUBCOMMANDS, (
        "`Task, the subcommands`: `Task::Buy`, `Task::Sell`, `Task::Count` | "
        "`src/main.rs#L1-L9` | a variant of `Task` | `src/main.rs#L1-L9` | none found"
    )),
    "calls": (CALLS, (
        "`register(…)`: `Clay`, `Gas`, `Steel` | `src/main/java/a/Shop.java#L5-L7` | `bake` | "
        "`src/main/java/a/Clay.java#L1-L5` | none found"
    )),
    "modules": (PYTHON, (
        "Adding a new oven; `ovens`: `clay`, `gas`, `steel` | `shop/all.py#L3` | `bake`, `cool` | "
        "`shop/kinds/clay.py#L1-L8` | `tests/test_clay.py`"
    )),
    "classes": (CLASSES, ("`EVERY`: `A`, `B`, `C` | `shop/all.py#L3-L7` | `run` | "
                "`shop/a.py#L9-L11` | none found")),
    "switch": (GO, ("`switch`: `NewClay`, `NewGas`, `NewSteel` | `oven/oven.go#L9-L14` | `Bake` | "
               "`oven/clay.go#L1-L7` | none found")),
    "macros": (RUST, ("`register_oven!`: `a::Clay`, `b::Gas`, `c::Steel` | `src/main.rs#L5-L7` | "
               "`bake` | `src/a.rs#L1-L4` | none found")),
}  # fmt: skip


def rows(repo: GitRepo, tmp_path: Path, files: dict[str, str]) -> list[str]:
    page = pages_of(repo, tmp_path, {"README.md": "It bakes.\n"} | files)["index.md"]
    section = page.partition("\n## To add another\n")[2].partition("\n## ")[0]
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section)
    return [row.strip("| ") for row in bare.split("\n")[3:] if row.startswith("| ")]


@pytest.mark.parametrize("kind", CASES)
def test_what_is_registered_becomes_a_row(repo: GitRepo, tmp_path: Path, kind: str) -> None:
    files, expected = CASES[kind]
    assert rows(repo, tmp_path, files) == [expected]


def test_a_list_with_a_member_that_is_not_certain_is_no_row(repo: GitRepo, tmp_path: Path) -> None:
    other = "from os import path\nfrom shop.a import A, B\n\nEVERY = [A, B, path]\nFEW = [A, B]\n"
    assert rows(repo, tmp_path, CLASSES | {"shop/all.py": other}) == []
