"""The overview of real changes: names, who can reach them, who calls them, where files lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.overview import sides
from rlm_ci.overview.overview import overview
from rlm_ci.report.overview.shown import callers_told, sentence
from testing import change_sets
from testing.repositories.git_repo import History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.report.overview.changes import Overview
    from testing.repositories.git_repo import Content, GitRepo

PROJECT = {"pyproject.toml": "[project]\nname = 'shop'\n"}
CLIENT = """\
class Client:
    def send(self, body, timeout=3): ...
    def close(self): ...

def connect(host): ...
"""
USES = """\
from shop.client import Client

def first():
    Client().send(1)
    Client().send(2)

def second():
    return Client().send(2, timeout=5)

class Third:
    def run(self):
        Client().send(3, timeout=1)
"""


def made(repo: GitRepo, old: Mapping[str, Content], new: Mapping[str, Content | None]) -> Overview:
    base = repo.write_all({**PROJECT, **old}).commit()
    repo.write_all({path: content for path, content in new.items() if content is not None})
    for path in [path for path, content in new.items() if content is None]:
        repo.remove(path)
    return overview(change_sets.change_of(History(repo, base, repo.commit())))


def names(found: Overview) -> set[tuple[str, str, bool]]:
    return {(one.change, one.name, one.breaking) for one in found.names}


def test_a_lost_parameter_and_its_callers_in_and_outside_of_the_change(repo: GitRepo) -> None:
    found = made(
        repo,
        {"shop/__init__.py": "", "shop/client.py": CLIENT, "app.py": USES,
         "other.py": "def send(): ...\n"},
        {"shop/client.py": CLIENT.replace(", timeout=3", ""),
         "app.py": USES.replace(", timeout=5", "")},
    )  # fmt: skip
    (one,) = found.names
    assert (one.change, one.name, one.line, one.breaking) == ("changed", "Client.send", 2, True)
    callers = [tuple(caller.to_dict().values()) for caller in one.callers]
    assert callers == [
        ("app.py", 4, "first", False), ("app.py", 12, "Third.run", False),
        ("app.py", 8, "second", True),
    ]  # fmt: skip
    assert sentence(one) == (
        "`Client.send` (`shop/client.py`) lost `timeout`; up to 3 callers, 2 not in this change"
    )
    assert found.counts == {"changed": 1, "breaking": 1}


def test_an_import_that_a_removal_leaves_behind_is_a_caller(repo: GitRepo) -> None:
    kept = {"shop/__init__.py": "from .a import f\nfrom .a import g\n"}
    uses = {"app.py": "from shop.a import f\n\ndef first():\n    f()\n"}
    old = "def f(x): ...\n\ndef g(x): ...\n"
    found = made(repo, {**kept, **uses, "shop/a.py": old}, {"shop/a.py": "def g(y): ...\n"})
    callers = {one.name: [(each.path, each.line) for each in one.callers] for one in found.names}
    assert callers == {"f": [("app.py", 4), ("shop/__init__.py", 1)], "g": []}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"shop/__init__.py": "", "shop/a.py": "def f(): ...\n"}, {"shop/a.py": ""},
                     {("removed", "f", True)}, id="removed"),
        pytest.param({"shop/__init__.py": "", "shop/_a.py": "def f(): ...\n"}, {"shop/_a.py": ""},
                     {("removed", "f", False)}, id="a private module"),
        pytest.param({"shop/__init__.py": "from ._a import f\n", "shop/_a.py": "def f(): ...\n"},
                     {"shop/_a.py": "", "shop/__init__.py": ""},
                     {("removed", "f", True)}, id="exported by the package, told once"),
        pytest.param({"shop/__init__.py": "from ._a import f\n", "shop/_a.py": "def f(): ...\n"},
                     {"shop/_a.py": "", "shop/_b.py": "def f(): ...\n",
                      "shop/__init__.py": "from ._b import f\n"},
                     {("moved", "f", False)}, id="moved between private modules"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "def f(): ...\n"},
                     {"shop/a.py": "from .b import f\n", "shop/b.py": "def f(): ...\n"},
                     {("added", "f", False)}, id="moved, and imported where it was"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "def f(): ...\n"},
                     {"shop/a.py": "", "shop/b.py": "def f(): ...\n"},
                     {("moved", "f", True)}, id="moved"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "def f(x): ...\n\nclass A: ...\n" * 9},
                     {"shop/a.py": None, "shop/b.py": "def f(x): ...\n\nclass A: ...\n" * 9},
                     {("moved", "shop.a", True)}, id="a module of another name"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "def f(x): ...\n\nclass A: ...\n" * 9},
                     {"shop/a.py": None, "shop/a/__init__.py": "def f(x): ...\nclass A: ...\n"},
                     set(), id="a module that became a package"),
        pytest.param({"shop/__init__.py": "from .a import f\n", "shop/a.py": "def f(): ...\n"},
                     {"shop/__init__.py": None, "shop/a.py": None,
                      "src/shop/__init__.py": "from .a import f\nx = 1\n",
                      "src/shop/a.py": "import os\ndef f(): ...\n"},
                     {("added", "x", False)}, id="a package that went to src"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "class A:\n def m(self): ...\n"},
                     {"shop/a.py": "from .b import B\nclass A(B): ...\n",
                      "shop/b.py": "class B:\n def m(self): ...\n"},
                     {("added", "B", False)}, id="inherited now"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "class B: ...\nclass A(B): ...\n"},
                     {"shop/a.py": "class B: ...\nclass C(B): ...\nclass A(C): ...\n"},
                     {("added", "C", False)}, id="derives through another class"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "class A:\n def m(self): ...\n"},
                     {"shop/a.py": ""}, {("removed", "A", True)}, id="a class without its members"),
        pytest.param({"shop/__init__.py": "", "shop/a.py": "def f(): ...\n"},
                     {"shop/a.py": "def f() -> int: ...\n"}, set(), id="annotations"),
        pytest.param({"shop/__init__.py": "", "tests/test_a.py": "def helper(): ...\n",
                      "docs/conf.py": "def f(): ...\n"},
                     {"tests/test_a.py": "", "docs/conf.py": ""}, set(), id="no interface"),
        pytest.param({"tool.py": "def f(): ...\n", "pyproject.toml": "[tool.x]\n"},
                     {"tool.py": ""}, {("removed", "f", False)}, id="no package"),
        pytest.param({"go.mod": "module x\n", "a.go": "package x\n\nfunc Sum(a int) int {}\n"},
                     {"a.go": "package x\n\nfunc Sum(a, b int) int {}\n"},
                     {("changed", "Sum", True)}, id="Go"),
        pytest.param({"package.json": '{"name":"x"}', "index.ts": "export type F = (a: A) => B;\n"},
                     {"index.ts": "export type F = (\n  a: A,\n) => B;\n"},
                     set(), id="a type on several lines"),
        pytest.param({"package.json": '{"name":"x"}', "index.ts": "export type F = (a: A) => B;\n"},
                     {"index.ts": "export type F = (\n  a: A,\n  b: B,\n) => B;\n"},
                     {("changed", "F", True)}, id="a type on several lines, and another one"),
        pytest.param({"package.json": '{"name":"x"}', "index.ts": "export type F = {a: A;b: B};\n"},
                     {"index.ts": "export type F = {\n  a: A;\n  b: B;\n};\n"},
                     set(), id="a record on several lines"),
        pytest.param({"package.json": '{"name": "x"}', "index.js": "export function f(a) {}\n"},
                     {"index.js": "export function g(a) {}\n"},
                     {("removed", "f", True), ("added", "g", False)}, id="JavaScript"),
    ],
)  # fmt: skip
def test_what_becomes_of_names(
    repo: GitRepo, old: dict[str, Content], new: dict[str, Content], expected: set[object]
) -> None:
    found = made(repo, old, new)
    assert names(found) == expected
    assert found.limits == ()


def test_long_signatures_are_shown_where_they_differ(repo: GitRepo) -> None:
    start = "export type Hook = (state: State, one: First, two: Second) => Answer | Marker"
    old, new = f"{start} | Promise<Old | Marker>;\n", f"{start} | Promise<New | Marker>;\n"
    found = made(repo, {"package.json": '{"name": "x"}', "a.ts": old}, {"a.ts": new})
    (note,) = found.names[0].notes
    assert note == (
        "is `…| Marker | Promise<New | Marker>`, was `…| Marker | Promise<Old | Marker>`"
    )
    other = f"export type Hook = {'A | ' * 40}B;\n"
    found = made(repo, {"a.ts": new}, {"a.ts": other})
    (note,) = found.names[0].notes
    assert len(note) <= 150
    assert note.count("`") == 4


def test_files_by_folder_largest_first(repo: GitRepo) -> None:
    found = made(repo, {}, {"a/b/x.txt": "1\n2\n", "a/y.bin": b"\0", "z.txt": "1\n2\n3\n"})
    assert [(one.path, one.files, one.added, one.deleted) for one in found.areas] == [
        ("", 1, 3, 0), ("a/b", 1, 2, 0), ("a", 1, 0, 0),
    ]  # fmt: skip


def test_what_is_too_large_or_no_source_is_told(repo: GitRepo) -> None:
    big = "x = 1\n" * (sides.MAX_BYTES // 6 + 1)
    found = made(repo, {"a.py": "def f(): ...\n"}, {"a.py": big, "b.py": "def f(:\n"})
    assert found.names == ()
    assert found.limits == ("a.py has 1 MB (limit 1 MB)", "b.py: no reader of its syntax")


def test_hostile_names_and_files_cost_little_and_break_nothing(repo: GitRepo) -> None:
    long = "a" * 5000
    chain = "".join(
        f"class C{n}(C{n + 1}, C{n + 2}, C{n + 3}): ...\n" for n in reversed(range(300))
    )
    old = {
        "shop/__init__.py": "from . import *\nfrom .a import *\n",
        "shop/a.py": f"def {long}(): ...\nclass C0:\n def m(self): ...\n",
        "shop/-e.py": "def f(): ...\n",
        "shop/:(top)x.py": "def g(): ...\nf()\n",
        "shop/\n.py": "from shop.a import C0\nC0().m()\n",
    }
    found = made(repo, old, {"shop/a.py": chain, "shop/-e.py": "", "shop/:(top)x.py": "g()\n"})
    removed = {one.name[:10] for one in found.names if one.change == "removed"}
    assert removed == {"a" * 10, "f", "g", "C0.m"}
    assert max(len(one.name) for one in found.names) == 300
    by_name = {one.name: one for one in found.names}
    assert [caller.path for caller in by_name["C0.m"].callers] == ["shop/\n.py"]
    assert callers_told(by_name["C0.m"]) == "1 caller, not in this change"
