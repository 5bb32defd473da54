"""Where names are defined, called and used, in real files of each language."""

from __future__ import annotations

import pytest

from rlm_ci.source.uses.references import ReferenceIndex

FILES = {
    "pkg/__init__.py": "from .core import *\n",
    "pkg/core.py": (
        "class Store:\n    def close(self):\n        return flush(self)\n\n\n"
        "def flush(store):\n    # close in a comment\n    return 'close'\n"
    ),
    "app.py": (
        "from pkg.core import Store as Shop\n\n\ndef main():\n    Shop().close()\n    close = 1\n"
    ),
    "other.py": "import socket\n\nsocket.socket().close()\n",
    "README.md": "Call close when done.\nclosed\n",
}


def index(files: dict[str, str]) -> ReferenceIndex:
    return ReferenceIndex(files, lambda path: files[path].encode())


def uses(files: dict[str, str], name: str) -> list[tuple[str, int, str, str, bool]]:
    return [
        (one.path, one.line, one.kind, one.within, one.connected)
        for one in index(files).references(name)
    ]


@pytest.mark.parametrize(
    "name", ["close", "Store.close", "core.Store.close", "pkg.core.Store.close()"]
)
def test_a_definition_is_found_by_as_much_of_its_name_as_is_given(name: str) -> None:
    [one] = index(FILES).definitions(name)
    assert (one.path, one.symbol.name, one.symbol.line_start) == ("pkg/core.py", "Store.close", 2)


@pytest.mark.parametrize("name", ["", ".", "clos", "Other.close", "core.close", "$(x)", "a" * 5000])
def test_what_is_not_defined_is_not_found(name: str) -> None:
    assert index(FILES).definitions(name) == []


def test_uses_come_with_their_kind_and_what_is_connected_first() -> None:
    assert uses(FILES, "Store.close") == [
        ("app.py", 5, "call", "main", True),
        ("app.py", 6, "use", "main", True),
        ("other.py", 3, "call", "", False),
        ("README.md", 1, "text", "", False),
    ]
    assert uses(FILES, "Store") == [("app.py", 1, "import", "", True)]
    assert uses(FILES, "flush")[0] == ("pkg/core.py", 3, "call", "Store.close", True)


def test_a_package_that_passes_names_on_connects_their_users() -> None:
    files = FILES | {"user.py": "import pkg\n\npkg.Store()\n"}
    assert ("user.py", 3, "call", "", True) in uses(files, "Store")


CALLEES = {
    "app.py": (
        "class Context(Base):\n    def push(self):\n        later(lambda: here(1))\n"
        "        _current.get(None)\n        self.pop()\n        self.match()\n"
        "        super().push()\n        tools.load(self)\n        Store.make()\n"
        "        self.store.save_all()\n        pop()\n        vars(self).copy()\n"
        "        (self\n         .drop_all())\n\n"
        "    def pop(self):\n        pass\n\n\ndef here(one):\n    pass\n\n\n"
        "class Globals:\n    def get(self):\n        pass\n\n    def pop(self):\n        pass\n\n"
        "    def copy(self):\n        pass\n\n    def later(self):\n        pass\n"
    ),
    "base.py": (
        "class Base:\n    def push(self):\n        pass\n\n    def match(self):\n        pass\n"
    ),
    "tools.py": "def load(one):\n    pass\n",
    "other.py": "def load(one):\n    pass\n\n\nclass Other:\n    def make(self):\n        pass\n",
    "store.py": (
        "class Store:\n    def make(self):\n        pass\n\n"
        "    def save_all(self):\n        pass\n\n    def drop_all(self):\n        pass\n"
    ),
}


def test_callees_come_in_order_and_are_of_what_they_are_called_on() -> None:
    known = index(CALLEES)
    [push] = known.definitions("Context.push")
    assert [(one.path, one.symbol.name) for one in known.callees(push)] == [
        ("app.py", "here"), ("app.py", "Context.pop"), ("base.py", "Base.match"),
        ("base.py", "Base.push"), ("tools.py", "load"), ("store.py", "Store.make"),
        ("store.py", "Store.save_all"), ("store.py", "Store.drop_all"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "a.js",
            (
                "class A {\n  f() { this.g(); h(); this.h(); m.get(1) }\n  g() {}\n  get() {}\n}\n"
                "function h() {}\n"
            ),
        ),
        ("A.java", "class A {\n void f() { g(); m.get(1); }\n void g() {}\n void get() {}\n}\n"),
    ],
)
def test_callees_in_other_languages(path: str, text: str) -> None:
    known = index({path: text})
    [own] = known.definitions("A.f")
    names = [one.symbol.name for one in known.callees(own)]
    assert names == (["A.g", "h"] if path == "a.js" else ["A.g"])


#: Of each language: a file that defines ``make``, one that uses it, and the uses.
LANGUAGES = {
    "JavaScript": (
        {"lib.js": "export function make(a) { return a }\n",
         "use.js": "import { make } from './lib.js'\nconst b = make(1)\nrun(make)\n// make\n"},
        [("use.js", 2, "call"), ("use.js", 3, "use"), ("use.js", 1, "import")],
    ),
    "TSX": (
        {"lib.tsx": "export const make = (p: {a: number}) => <b>{p.a}</b>\n",
         "use.tsx": "import { make } from './lib'\nconst M = make\nconst C = () => make({a: 1})\n"},
        [("use.tsx", 3, "call"), ("use.tsx", 2, "use"), ("use.tsx", 1, "import")],
    ),
    "Go": (
        {"go.mod": "module x\n", "a.go": "package x\n\nfunc make2(a int) int { return a }\n",
         "b.go": "package x\n\nvar f = make2\nvar g = make2(1)\n"},
        [("b.go", 4, "call"), ("b.go", 3, "use")],
    ),
    "Rust": (
        {"src/lib.rs": "mod a;\nuse a::make;\nfn f() { make::<i32>(1); let g = make; }\n",
         "src/a.rs": "pub fn make<T>(t: T) -> T { t }\n"},
        [("src/lib.rs", 3, "call"), ("src/lib.rs", 3, "use"), ("src/lib.rs", 2, "import")],
    ),
    "Java": (
        {"x/Make.java": "package x;\nclass Make { static int make(int a) { return a; } }\n",
         "x/Use.java": "package x;\nclass Use { int b = Make.make(1); }\n"},
        [("x/Use.java", 2, "call")],
    ),
    "C": (
        {"m.h": "int make(int a);\n", "m.c": '#include "m.h"\nint make(int a) { return a; }\n',
         "use.c": '#include "m.h"\nint b(void) { int c = make(1); return c + (long)make; }\n'},
        [("use.c", 2, "call"), ("use.c", 2, "use")],
    ),
    "C#": (
        {"Make.cs": "class Make { public static T make<T>(T a) => a; }\n",
         "Use.cs": "class Use { int b = Make.make<int>(1); }\n"},
        [("Use.cs", 1, "call")],
    ),
    "Ruby": (
        {"lib/make.rb": "def make(a)\n  a\nend\n",
         "use.rb": "require_relative 'lib/make'\nb = make 1\n"},
        [("use.rb", 2, "call")],
    ),
    "PHP": (
        {"make.php": "<?php\nfunction make($a) { return $a; }\n",
         "use.php": "<?php\nrequire 'make.php';\n$b = make(1);\n"},
        [("use.php", 3, "call")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_uses_in_each_language(language: str) -> None:
    files, expected = LANGUAGES[language]
    name = "make2" if language == "Go" else "make"
    assert index(files).definitions(name)
    assert [
        (path, line, kind) for path, line, kind, _, connected in uses(files, name) if connected
    ] == expected


def test_hostile_files_are_searched_as_text_or_not_at_all() -> None:
    files = {
        "deep.js": "make(" * 3000,
        "bad.py": "def make(:\n",
        "nul.c": "make\0()",
        "big.go": "make" * 200_000,
        "empty.rs": "",
    }
    assert {path for path, *_ in uses(files, "make")} <= {"deep.js", "bad.py", "nul.c"}
    assert ReferenceIndex(["gone.py"], lambda _: None).references("make") == []


@pytest.mark.parametrize("name", ["f\udcff", "\ud800", "é", "f\0"])
def test_any_name_may_be_asked_for(name: str) -> None:
    known = index({"a.py": "def f():\n    f()\n", "b.py": "f()\r\rf()\r"})
    assert known.definitions(name) == []
    assert known.references(name) == []
    assert known.references("f")[0].path == "a.py"
