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
FROZEN = {
    "package.json": '{"name": "shop"}\n',
    "src/all.js": "".join(
        f"import * as {name} from './{name}.js'\n" for name in ("clay", "gas", "steel")
    )
    + "\nexport const builtin = Object.freeze([\n  clay,\n  gas,\n  steel,\n]);\n",
    **{
        f"src/{name}.js": "export function bake() { return 1 }\n"
        for name in ("clay", "gas", "steel")
    },
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
NAMESAKES = ARMS | {
    "src/main.rs": "mod kinds;\n" + ARMS["src/main.rs"],
    "src/kinds.rs": "".join(
        f"pub struct {name};\nimpl {name} {{\n    pub fn bake(&self) {{}}\n}}\n"
        for name in ("Clay", "Gas", "Steel")
    ),
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
        "`oven/clay.go#L1-L7` | none by name or import"
    )),
    "handlers": (HANDLERS, (
        "`loaders`: `yaml`, `json`, `script` | `lib/load.js#L7-L11` | the parameters `(name)` | "
        "`lib/load.js#L4` | none by name or import"
    )),
    "frozen": (FROZEN, (
        "`builtin`: `clay`, `gas`, `steel` | `src/all.js#L5-L9` | `bake` | "
        "`src/clay.js#L1` | none by name or import"
    )),
    "modules of a script": (SCRIPTS, (
        "the default export: `clay`, `gas`, `steel` | `src/all.ts#L5` | `bake` | "
        "`src/clay.ts#L1` | none by name or import"
    )),
    "decorators": (DECORATED, (
        "`@app.command`: `app.buy`, `app.sell`, `more.count` | `shop/app.py#L5` | "
        "the parameters `(n)` | `shop/app.py#L5-L6` | none by name or import"
    )),
    "entry points": (POINTS, (
        "`shop.ovens`: `shop.clay:Clay`, `shop.gas:Gas`, `shop.steel:Steel` | "
        "`pyproject.toml#L4-L7` | `bake` | `shop/clay.py#L1-L2` | none by name or import"
    )),
    "arms": (ARMS, (
        "what is chosen in `oven`: `Oven::Clay`, `Oven::Gas`, `Oven::Steel` | "
        "`src/main.rs#L8-L10` | "
        "a variant of `Oven` | `src/main.rs#L1-L5` | none by name or import"
    )),
    "arms of variants that types are named like": (NAMESAKES, (
        "what is chosen in `oven`: `Oven::Clay`, `Oven::Gas`, `Oven::Steel` | "
        "`src/main.rs#L9-L11` | "
        "a variant of `Oven` | `src/main.rs#L2-L6` | none by name or import"
    )),
    "table of a macro": (TABLE, (
        "`ovens!`: `clay`, `gas`, `steel` | `src/main.rs#L5-L11` | a row as the others | "
        "the shortest row | none by name or import"
    )),
    "calls of Python": (ADDED, (
        "`app.add_command(…)`: `_buy`, `_sell`, `main` | `shop/app.py#L6-L8` | "
        "the parameters `(n)` | `shop/buy.py#L1` | none by name or import"
    )),
    "objects": (OBJECTS, (
        "what is made in `ovens`: `Clay`, `Gas`, `Steel` | `src/all.ts#L6-L10` | `bake` | "
        "`src/clay.ts#L1-L3` | "
        "none by name or import"
    )),
    "subcommands": (SUBCOMMANDS, (
        "`Task, the subcommands`: `Task::Buy`, `Task::Sell`, `Task::Count` | "
        "`src/main.rs#L1-L9` | a variant of `Task` | `src/main.rs#L1-L9` | none by name or import"
    )),
    "calls": (CALLS, (
        "`register(…)`: `Clay`, `Gas`, `Steel` | `src/main/java/a/Shop.java#L5-L7` | `bake` | "
        "`src/main/java/a/Clay.java#L1-L5` | none by name or import"
    )),
    "modules": (PYTHON, (
        "Adding a new oven; `ovens`: `clay`, `gas`, `steel` | `shop/all.py#L3` | `bake`, `cool` | "
        "`shop/kinds/clay.py#L1-L8` | `tests/test_clay.py`"
    )),
    "classes": (CLASSES, ("`EVERY`: `A`, `B`, `C` | `shop/all.py#L3-L7` | `run` | "
                "`shop/a.py#L9-L11` | none by name or import")),
    "switch": (GO, ("what is chosen in `New`: `NewClay`, `NewGas`, `NewSteel` | "
        "`oven/oven.go#L9-L14` | `Bake` | "
               "`oven/clay.go#L1-L7` | none by name or import")),
    "macros": (RUST, ("`register_oven!`: `a::Clay`, `b::Gas`, `c::Steel` | `src/main.rs#L5-L7` | "
               "`bake` | `src/a.rs#L1-L4` | none by name or import")),
}  # fmt: skip


def rows(repo: GitRepo, tmp_path: Path, files: dict[str, str]) -> list[str]:
    page = pages_of(repo, tmp_path, {"README.md": "It bakes.\n"} | files)["index.md"]
    section = page.partition("\n## To add another\n")[2].partition("\n## ")[0]
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section)
    return [row.strip("| ") for row in bare.split("\n")[3:] if row.startswith("| ")]


BASE = """class Oven:
    def bake(self):
        \"\"\"Heats.\"\"\"
        raise NotImplementedError

    def cool(self):
        raise NotImplementedError

    def both(self):
        self.bake()


class Gas(Oven):
    def bake(self):
        return 1

    def cool(self):
        return 2


class Warm(Oven):
    def cool(self):
        return 2


class Steel(Warm):
    pass


class Clay(Warm):
    pass


class Late(Warm):
    def bake(self):
        pass
"""
BELOW = (
    "from shop.base import Oven\nfrom other import Warm\n\n\nclass Clay(Oven):\n"
    "    def bake(self):\n        return 1\n\n\nclass Foreign(Warm):\n    pass\n"
)
RUBY = {
    "lib/shop/base.rb": "module Shop\n  class Base\n    def bake\n      raise "
    "NotImplementedError, 'bake it'\n"
    "    end\n\n    def name\n      1\n    end\n  end\nend\n",
    "lib/other.rb": "module Other\n  class Base\n  end\n\n  class Steel < Base\n    def bake\n "
    "   end\n  end\nend\n",
    **{
        f"lib/shop/{name.lower()}.rb": f"module Shop\n  class {name} < Base\n    def bake\n    "
        f"  1\n"
        "    end\n  end\nend\n"
        for name in ("Clay", "Gas", "Tin")
    },
}
TYPED = {
    "package.json": '{"name": "shop"}\n',
    "src/oven.ts": "export interface Oven {\n  bake(n: number): void;\n  cool(): void;\n}\n",
    **{
        f"src/{name.lower()}.ts": f"import {{ Oven }} from './oven';\n\nexport class {name} "
        f"implements Oven "
        "{\n  bake(n: number) {}\n  cool() {}\n}\n"
        for name in ("Clay", "Gas", "Tin")
    },
}
JAVA = {
    "src/shop/Oven.java": "package shop;\n\npublic abstract class Oven {\n  public abstract "
    "void bake(int n);\n\n"
    "  public void cool() {}\n}\n",
    **{
        f"src/shop/{name}.java": f"package shop;\n\npublic class {name} extends Oven {{\n"
        "  public void bake(int n) {}\n}\n"
        for name in ("Clay", "Gas", "Tin")
    },
}
TRAIT = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/lib.rs": "pub mod oven;\npub mod all;\n",
    "src/oven.rs": "pub trait Oven {\n    fn bake(&self);\n    fn cool(&self) {}\n}\n",
    "src/all.rs": "use crate::oven::Oven;\n"
    + "".join(
        f"pub struct {name};\nimpl Oven for {name} {{\n    fn bake(&self) {{}}\n}}\n"
        "impl Clone for " + name + " {\n    fn clone(&self) -> Self {}\n}\n"
        for name in ("Clay", "Gas", "Tin")
    ),
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"shop/__init__.py": "", "shop/base.py": BASE, "shop/more.py": BELOW},
            [
                ("`Warm`: `Steel`, `Clay`, `Late` | made from `shop/base.py#L21` | `bake` | "
                "`shop/base.py#L34-L36` | none by name or import")
            ],
        ),
        (RUBY, [
            ("`Shop::Base`: `Clay`, `Gas`, `Tin` | made from `lib/shop/base.rb#L2` | `bake` | "
            "`lib/shop/clay.rb#L1-L7` | none by name or import")
        ]),
        (TYPED, [
            ("`Oven`: `Clay`, `Gas`, `Tin` | made from `src/oven.ts#L1` | `bake`, `cool` | "
            "`src/clay.ts#L1-L6` | none by name or import")
        ]),
        (JAVA, [
            ("`Oven`: `Clay`, `Gas`, `Tin` | made from `src/shop/Oven.java#L3` | `bake` | "
            "`src/shop/Clay.java#L1-L5` | none by name or import")
        ]),
        (TRAIT, [
            ("`Oven`: `Clay`, `Gas`, `Tin` | made from `src/oven.rs#L1` | `bake` | "
            "`src/all.rs#L2` | none by name or import")
        ]),
    ],
    ids=["Python", "Ruby", "TypeScript", "Java", "Rust"],
)  # fmt: skip
def test_classes_that_are_made_from_one_become_a_row(
    repo: GitRepo, tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    assert rows(repo, tmp_path, files) == expected


MANY = {
    "shop/__init__.py": "",
    "shop/all.py": "class Item:\n    pass\n\n\n"
    + "".join(f"class Item{n}(Item):\n    def go{n}(self):\n        pass\n\n\n" for n in range(8)),
}


def test_many_classes_of_one_base_become_a_row(repo: GitRepo, tmp_path: Path) -> None:
    table = rows(repo, tmp_path, MANY)
    assert [row.partition(" | `shop/all.py#L5")[0] for row in table] == [
        "`Item`: "
        + ", ".join(f"`Item{n}`" for n in range(8))
        + " | made from `shop/all.py#L1` | each is a class"
    ]


IN_CLASS = {
    "shop/__init__.py": "",
    "shop/a.py": "class Item:\n    def run(self):\n        pass\n\n\nclass A(Item):\n    pass\n\n\n"
    "class B(Item):\n    pass\n\n\nclass C(Item):\n    pass\n",
    "shop/all.py": "from shop import a\n\n\nclass Shop:\n    every = (\n        a.A,\n        "
    "a.B,\n        a.C,\n    )\n"
    "    made = [a.A(), a.B(), a.C()]\n",
}
CHOSEN = {
    "go.mod": "module x.y/shop\n",
    "out/out.go": "package out\n\nfunc Pick(t Kind) Out {\n\tswitch t {\n\tcase Plain:\n"
    "\t\treturn plainOut{a: 1}\n"
    "\tcase Long:\n\t\treturn &longOut{}\n\tcase *x:\n\t\treturn 3\n\t}\n\treturn nil\n}\n\n"
    "type plainOut struct{ a int }\n\nfunc (p plainOut) Say() {}\n\ntype longOut struct{}\n\n"
    "func (l *longOut) Say() {}\n",
}
SAME_TYPE = {
    "package.json": '{"name": "shop"}\n',
    "src/index.ts": "".join(
        f"import {{ {name} }} from './{name}.js';\n" for name in ("a", "b", "c")
    )
    + "export default {\n  'x-a': a,\n  'x-b': b,\n  'x-c': c,\n};\n",
    **{
        f"src/{name}.ts": f"import {{ Rule }} from 'rules';\nexport const {name}: Rule<string> "
        f"= ({name}, when) => {{\n"
        "  return [true];\n};\n"
        for name in ("a", "b", "c")
    },
}
PLAIN = {
    "shop/__init__.py": "",
    "shop/kinds.py": "ONE = 1\nTWO = 2\nTHREE = 3\nKINDS = (ONE, TWO, THREE)\n",
    "shop/use.py": "from shop.kinds import ONE, TWO, THREE\n\nOF = (ONE, TWO, THREE)\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (IN_CLASS, [("`Shop.every`: `a.A`, `a.B`, `a.C` | `shop/all.py#L5-L9` | `run` | "
                    "`shop/a.py#L6-L7` | none by name or import")]),
        (CHOSEN, [("what is chosen in `Pick`: `plainOut`, `longOut` | `out/out.go#L5-L8` | `Say` | "
                  "`out/out.go#L15` | none by name or import")]),
        (SAME_TYPE, [("the default export: `a`, `b`, `c` | `src/index.ts#L4-L8` | the type "
            "`Rule` | "
                     "`src/a.ts#L1-L4` | none by name or import")]),
        (PLAIN, []),
    ],
    ids=["in a class", "two cases", "one type", "values"],
)  # fmt: skip
def test_what_a_class_lists_or_a_text_chooses(
    repo: GitRepo, tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    assert rows(repo, tmp_path, files) == expected


@pytest.mark.parametrize("kind", CASES)
def test_what_is_registered_becomes_a_row(repo: GitRepo, tmp_path: Path, kind: str) -> None:
    files, expected = CASES[kind]
    assert rows(repo, tmp_path, files) == [expected]


@pytest.mark.parametrize("guide", ["docs/contributing/ovens.md", "DEVELOPING.md"])
def test_a_guide_may_have_any_name_of_one(repo: GitRepo, tmp_path: Path, guide: str) -> None:
    files = {**PYTHON, guide: PYTHON["CONTRIBUTING.md"]}
    del files["CONTRIBUTING.md"]
    assert rows(repo, tmp_path, files) == [CASES["modules"][1]]


def test_a_list_with_a_member_that_is_not_certain_is_no_row(repo: GitRepo, tmp_path: Path) -> None:
    other = "from os import path\nfrom shop.a import A, B\n\nEVERY = [A, B, path]\nFEW = [A, B]\n"
    assert rows(repo, tmp_path, CLASSES | {"shop/all.py": other}) == []
