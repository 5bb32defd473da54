"""Which definition a call means: where imports, types or paths lead, and nowhere else."""

from __future__ import annotations

import pytest

from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.outline import outline
from rlm_ci.source.uses.call_sites import file_calls
from rlm_ci.source.uses.call_targets import CallResolver
from rlm_ci.source.uses.references import Definition

PYTHON = {
    "shop/__init__.py": "",
    "shop/base.py": """\
class Base:
    def get(self):
        pass

    def tell(self) -> "Base":
        pass
""",
    "shop/tell.py": "def tell():\n    pass\n",
    "shop/util.py": "def get():\n    pass\n\n\ndef weigh():\n    pass\n\n\ndef keep():\n    pass\n",
    "shop/app.py": """\
from typing import Protocol

from shop import tell, util
from shop.base import Base
from shop.util import keep, weigh as heavy


class Door(Protocol):
    def enter(self): ...


class Front(Door):
    def enter(self): ...


class Back(Door):
    def enter(self): ...


def make() -> Base:
    return Base()


class App(Base):
    def __init__(self, first: Base, second):
        self.first = first
        self.second = second

    def run(self, thing, given: Base, door: Door, keep):
        heavy()
        util.get()
        App()
        self.run()
        self.get()
        super().tell()
        thing.tell()
        given.tell()
        given.tell().get()
        make().get()
        self.first.get()
        self.second.get()
        door.enter()
        keep()
        tell()
        tell.tell()
        other = make()
        other.tell()
        other2 = thing or make()
        other2.tell()
        [].get()
""",
}
GO = {
    "go.mod": "module x.y/shop\n",
    "store/store.go": """\
package store

type Store struct{ Base }

type Base struct{}

func (b *Base) Close() error { return nil }

func Open(path string) (*Store, error) { return nil, nil }

func (s *Store) Get(key string) string { return "" }
""",
    "main.go": """\
package main

import (
	"os"
	st "x.y/shop/store"
)

type Reader interface {
	Read(n int) string
	Close() error
}

type Fast struct{ store *st.Store }

func (f *Fast) Read(n int) string { return "" }
func (f *Fast) Close() error      { return nil }

type Slow struct{}

func (s Slow) Read(n int) string { return "" }
func (s Slow) Close() error      { return nil }

type Other struct{}

func (o Other) Read(n int) string { return "" }

func (f *Fast) run(r Reader, file *os.File) {
	s, err := st.Open("x")
	s.Get("a")
	s.Close()
	f.store.Get("b")
	r.Read(1)
	file.Close()
	err.Close()
	helper := func() {}
	helper()
}

func helper() {}
""",
}
RUST = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/main.rs": """\
mod key;
mod output;
use crate::key::{Key, Finder as Seeker};
use output::sarif;

struct App { key: Key, maybe: Option<Key> }

impl App {
    fn run(&self, lines: Vec<String>, finder: &dyn Seeker) -> Result<(), Error> {
        tokio::io::stdin();
        Key::stdin();
        lines.iter().any(1);
        output::sarif::build(&lines);
        sarif::build(&lines);
        self.key.any();
        self.maybe.any();
        Key::open(1)?.any();
        Key::open(1).any();
        finder.find();
        self.key.find();
        self.key.fmt();
        Key::from(1);
        reqwest::Client::builder().build();
        crate::key::make().any();
        let any = |x| x;
        any();
        assert!(true);
    }
}
""",
    "src/key.rs": """\
pub struct Key;
impl Key {
    pub fn stdin() -> Self { Key }
    pub fn any(&self) {}
    pub fn build() -> Key { Key }
    pub fn open(n: u8) -> Result<Self, Error> { Ok(Key) }
}
pub trait Finder { fn find(&self); }
impl Finder for Key { fn find(&self) {} }
impl<T> Finder for Other<T> { type A = u8; fn find(&self) {} }
impl fmt::Display for Key { fn fmt(&self) {} }
impl From<u8> for Key { fn from(n: u8) -> Self { Key } }
impl From<u16> for Key { fn from(n: u16) -> Self { Key } }
pub struct Other<T>(T);
pub fn make() -> Key { Key }
""",
    "src/output/mod.rs": "pub mod sarif;\n",
    "src/output/sarif.rs": "pub fn build(lines: &[String]) {}\n",
}
SCRIPT = {
    "src/box.ts": """\
export class Box {
  open(): Promise<Box> { return this.fill(); }
  async fill(): Promise<Box> { return this; }
  static of(n: number): Box { return new Box(); }
}
export default function pack(n: number): Box { return new Box(); }
export interface Lid { close(): void }
export class Flat implements Lid { close() {} }
""",
    "src/later.js": "const later = (n) => n\n\nexport default later\n",
    "src/later.d.ts": "declare const later: (n: number) => number;\nexport default later;\n",
    "src/app.ts": """\
import after from './later.js';
import wrap, { Box as Case, type Lid } from './box';
import * as all from './box';
export class App {
  constructor(private readonly box: Case, other: Unknown) {}
  async run(lid: Lid, any: unknown, pack: () => void) {
    wrap(1).fill();
    this.box.open();
    const first = await this.box.open();
    first.fill();
    const second = this.box.open();
    second.fill();
    all.Box.of(1);
    lid.close();
    any.open();
    pack();
    [1].fill(2);
    new Case();
    after(3);
  }
}
""",
}
JAVA = {
    "src/main/java/a/b/Box.java": """\
package a.b;
public class Box {
    public Box open(int n) { return this; }
    public Box open(String s, int n) { return this; }
    public void fill(String s) {}
    public void fill(Integer n) {}
}
""",
    "src/main/java/a/c/App.java": """\
package a.c;
import a.b.Box;
public class App {
    private Box box = new Box();
    void run(Box given, Object other, java.util.List<Box> many) {
        given.open(1).open("a", 2);
        box.open(1);
        given.fill(other);
        other.open(1);
        for (Box one : many) { one.open(1); }
        many.open(1);
        helper();
        var made = new Box();
        made.open("a", 1);
    }
    void helper() {}
}
""",
}
CASES = {
    "Python": (PYTHON, "shop/app.py", "App.run", [
        ".heavy → weigh", "util.get → get", ".App → App.__init__", "self.run → App.run",
        "self.get → Base.get", "super.tell → Base.tell", "Base.tell → Base.tell",
        "Base.tell → Base.tell", ".make → make", "?.get → Base.get", "?.get → Base.get",
        "self.first.get → Base.get",
        "Door.enter → Door.enter by Front.enter, Back.enter", ".make → make",
        "tell.tell → tell", "other.tell → Base.tell", ".make → make",
    ]),
    "Go": (GO, "main.go", "Fast.run", [
        "st.Open → Open", "s.Get → Store.Get", "s.Close → Base.Close",
        "f.store.Get → Store.Get", "Reader.Read → Reader.Read by Fast.Read, Slow.Read",
    ]),
    "Rust": (RUST, "src/main.rs", "App.run", [
        "Key.stdin → Key.stdin", "output.sarif.build → build", "sarif.build → build",
        "self.key.any → Key.any", "?.any → Key.any", "Key.open → Key.open", "Key.open → Key.open",
        "Seeker.find → Finder.find by Key.find, Other.find",
        "self.key.find → Key.find", "self.key.fmt → Key.fmt", "?.any → Key.any",
        "crate.key.make → make",
    ]),
    "TypeScript": (SCRIPT, "src/app.ts", "App.run", [
        "?.fill → Box.fill", ".wrap → pack", "this.box.open → Box.open",
        "this.box.open → Box.open", "first.fill → Box.fill", "this.box.open → Box.open",
        "all.Box.of → Box.of", "Lid.close → Lid.close by Flat.close", ".Case → Box",
        ".after → later",
    ]),
    "Java": (JAVA, "src/main/java/a/c/App.java", "App.run", [
        "?.open → Box.open", "Box.open → Box.open", "box.open → Box.open",
        "Box.fill → Box.fill, Box.fill", "Box.open → Box.open", ".helper → App.helper",
        ".Box → Box", "Box.open → Box.open",
    ]),
}  # fmt: skip


def resolved(files: dict[str, str], path: str, name: str) -> list[str]:
    """The calls of a definition that lead somewhere, with where."""
    outlines = {path: outline(path, text.encode()) for path, text in files.items()}
    graph = ImportGraph.of(list(outlines.values()), list(files))

    calls = {path: file_calls(path, text.encode()) for path, text in files.items()}
    resolver = CallResolver(outlines, graph, calls.__getitem__)
    symbol = next(one for one in outlines[path].symbols if one.name == name)
    found = []
    for site in calls[path].calls:
        targets = resolver.targets(Definition(path, symbol), site)
        if targets.definitions and symbol.line_start <= site.line <= symbol.line_end:
            names = ", ".join(one.symbol.name for one in targets.definitions)
            if targets.interface is not None:
                names = f"{targets.interface.symbol.name} by {names}"
            found.append(f"{site.base}.{site.name} → {names}")
    return found


@pytest.mark.parametrize("language", CASES)
def test_what_the_calls_of_a_method_mean(language: str) -> None:
    files, path, name, expected = CASES[language]
    assert sorted(resolved(files, path, name)) == sorted(expected)


GO_SHAPES = """\
package a

type Reader interface {
	error
	Read(path []string) (ok bool, err error)
}

type Known struct{}

func (k Known) Error() string                        { return "" }
func (k Known) Read(names []string) (bool, error)    { return true, nil }

type Other struct{}

func (o Other) Error() string             { return "" }
func (o Other) Read(path []string) Result { return 1 }

type Silent struct{}

func (s Silent) Read(path []string) (bool, error) { return true, nil }

type Foreign interface {
	fmt.Stringer
	Read(path []string) (ok bool, err error)
}

func run(r Reader, f Foreign) {
	r.Read(nil)
	f.Read(nil)
}
"""


def test_only_types_with_methods_of_that_shape_implement_an_interface_of_go() -> None:
    files = {"go.mod": "module x\n", "a.go": GO_SHAPES}
    assert resolved(files, "a.go", "run") == [
        "Reader.Read → Reader.Read by Known.Read",
        "Foreign.Read → Foreign.Read",
    ]


#: Methods of one name and as many parameters, of which only some take what the interface says.
GO_TAKES = """\
package a

import "time"

type Report interface {
	Add(*Result, ...string)
	Each(a, b int, f func(int) error)
}
type Known struct{}

func (k *Known) Add(r *Result, names ...string)           {}
func (k *Known) Each(a int, b int, f func(x int) error)   {}

type Other struct{}

func (o Other) Add(d time.Duration, names ...string)      {}
func (o Other) Each(a, b int, f func(int) error)          {}

type Third struct{}

func (t Third) Add(r *Result, names ...string)            {}
func (t Third) Each(a int, b string, f func(int) error)   {}

func run(r Report) {
	r.Add(nil)
}
"""


def test_a_method_of_go_implements_one_that_takes_the_same_types() -> None:
    files = {"go.mod": "module x\n", "a.go": GO_TAKES}
    assert resolved(files, "a.go", "run") == ["Report.Add → Report.Add by Known.Add"]


def test_a_form_of_a_platform_is_one_of_all() -> None:
    main = "mod a;\nuse crate::a::go;\nfn main() {\n    go();\n}\n"
    both = "#[cfg(unix)]\npub fn go() {}\n#[cfg(windows)]\npub fn go() {}\n"
    files = {"Cargo.toml": '[package]\nname = "x"\n', "src/main.rs": main, "src/a.rs": both}
    assert resolved(files, "src/main.rs", "main") == [".go → go, go"]


def test_classes_and_fields_that_are_made_of_themselves_end() -> None:
    files = {
        "a.py": "class A(A.B):\n    def __init__(self):\n        self.x = self.x.go()\n\n"
        "    def run(self):\n        self.x.go()\n        self.go()\n",
    }
    assert resolved(files, "a.py", "A.run") == []


def test_paths_of_rust_in_a_circle_end() -> None:
    a = "pub use crate::b::*;\npub use crate::a::*;\nuse log::log;\n"
    files = {
        "Cargo.toml": '[package]\nname = "x"\n',
        "src/main.rs": "mod a;\nmod b;\nuse a::*;\nfn main() {\n    log();\n    end();\n}\n",
        "src/a.rs": a,
        "src/b.rs": "pub use crate::a::*;\npub fn end() {}\n",
    }
    assert resolved(files, "src/main.rs", "main") == [".end → end"]


def test_a_crate_of_the_workspace_is_entered_by_its_name() -> None:
    files = {
        "Cargo.toml": "[workspace]\n",
        "crates/a/Cargo.toml": '[package]\nname = "yaml-path"\n',
        "crates/a/src/lib.rs": "pub struct Doc;\nimpl Doc {\n    pub fn new() -> Self { Doc }\n}\n",
        "crates/b/Cargo.toml": '[package]\nname = "b"\n',
        "crates/b/src/lib.rs": "fn go() {\n    yaml_path::Doc::new();\n    serde::Doc::new();\n}\n",
    }
    assert resolved(files, "crates/b/src/lib.rs", "go") == ["yaml_path.Doc.new → Doc.new"]
