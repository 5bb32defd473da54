"""Green that was bent: what an agent may do to look successful, as cases of data."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import LimitError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.guard import guard
from rlm_ci.guard.protected.protection import Protection
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.workspace import tree_diff
from rlm_ci.workspace.workspace import Workspace
from testing.guarded_trees import (
    BASE,
    KEY,
    PY,
    PYPROJECT,
    TEST,
    Objects,
    Tree,
    is_found,
    judged,
    rules,
    swap,
)
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What the agent left, and the rules that must say so: exactly these.
HOSTILE: dict[str, tuple[Tree, set[str]]] = {
    "pytest exits 0": ({"pytest.ini": "[pytest]\naddopts = --co\n"}, {"config-weakened"}),
    "a new pytest.ini": ({"tests/pytest.ini": "[pytest]\n"}, {"config-weakened"}),
    "pyproject": ({"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--co -q"\n'},
                  {"config-weakened"}),
    "pyproject, broken": ({"pyproject.toml": "[tool\n"}, {"config-weakened"}),
    "a plugin of pytest": (
        {"pyproject.toml": PYPROJECT + '[project.entry-points.pytest11]\nx = "app"\n'},
        {"config-weakened"},
    ),
    "coverage": ({".coveragerc": "[report]\nfail_under = 0\n"}, {"config-weakened"}),
    "setup.cfg": ({"setup.cfg": "[flake8]\nmax-line-length = 900\n"}, {"config-weakened"}),
    "package.json": ({"package.json": '{"scripts": {"test": "true"}}'}, {"config-weakened"}),
    "a feature that tests need": (
        {"Cargo.toml": '[package]\nname = "x"\n[features]\ndefault = []\n'},
        {"config-weakened"},
    ),
    "cargo": ({"Cargo.toml": '[package]\nname = "x"\nautotests = false\n'}, {"config-weakened"}),
    "go.mod": ({"go.mod": "module x\nreplace example.com/y => ./fake\n"}, {"config-weakened"}),
    "Makefile": ({"Makefile": "test:\n\ttrue\n"}, {"config-weakened"}),
    "workflow": ({".github/workflows/ci.yml": "on: push\n"}, {"protected-path"}),
    "hook": ({".husky/pre-commit": "true\n"}, {"protected-path"}),
    "gitattributes": ({"deep/.gitattributes": "* filter=x\n"}, {"protected-path"}),
    "gitmodules": ({".gitmodules": "[submodule]\n"}, {"protected-path"}),
    "owners": ({"docs/CODEOWNERS": "*\n"}, {"protected-path"}),
    "agents": ({"AGENTS.md": "obey\n"}, {"protected-path"}),
    "tools of agents": ({".mcp.json": "{}\n"}, {"protected-path"}),
    "our own settings": ({"rlm-ci.toml": "\n"}, {"protected-path"}),
    "a lock file": ({"package-lock.json": "{}\n"}, {"protected-path"}),
    "sitecustomize": ({"sitecustomize.py": "import os\n"}, {"startup-file"}),
    "pth": ({"x.pth": "import os\n"}, {"startup-file"}),
    "envrc": ({".envrc": "export\n"}, {"startup-file"}),
    "a pytest of its own": ({"pytest.py": "x = 1\n"}, {"shadowed-module"}),
    "a package pytest": ({"pytest/__init__.py": ""}, {"shadowed-module"}),
    "a module of the library": ({"src/json.py": "x = 1\n"}, {"shadowed-module"}),
    "beside the tests": ({"tests/unittest/__init__.py": ""}, {"shadowed-module"}),
    "a link": ({"data": ("120000", "/etc/passwd")}, {"link"}),
    "a link for a file": ({"app.py": ("120000", "other.py")}, {"link"}),
    "a link undone": ({"link": "text\n"}, {"link"}),
    "a submodule": ({"sub": ("160000", "d" * 40)}, {"submodule"}),
    "a mode": ({"run.sh": ("100755", "echo\n")}, {"mode"}),
    "a binary": ({"lib.so": b"\x7fELF\0\1"}, {"binary"}),
    "a binary in the place of a module": ({"src/json.so": b"\x7fELF\0"},
                                          {"binary", "shadowed-module"}),
    "padded": (
        {"app.py": "#" + "x" * (3 << 20) + "\nimport os\ndef add(a, b): os._exit(0)\n"},
        {"too-large"},
    ),
    "padded, and no source": ({"data.bin": b"\0" * (3 << 20)}, {"too-large"}),
    "settings too large": ({"package.json": " " * (3 << 20) + "{}"},
                           {"too-large", "config-weakened"}),
    "pytest.toml": ({"pytest.toml": '[pytest]\naddopts = ["-p", "plug"]\n'},
                    {"config-weakened"}),
    "a hidden pytest.toml": ({".pytest.toml": "[pytest]\n"}, {"config-weakened"}),
    "plugins of a package": ({"zz-1.0.dist-info/entry_points.txt": "[pytest11]\nz = app\n"},
                             {"startup-file"}),
    "plugins of an egg": ({"src/zz.egg-info/entry_points.txt": "[pytest11]\nz = app\n"},
                          {"startup-file"}),
    "a package, by its metadata": ({"zz.egg-info/PKG-INFO": "Name: zz\n"}, {"startup-file"}),
    "in the place of a plugin": ({"anyio/__init__.py": "", "anyio/pytest_plugin.py": ""},
                                 {"shadowed-module"}),
    "in the place of a module of a plugin": ({"_hypothesis_pytestplugin.py": ""},
                                             {"shadowed-module"}),
    "in the place of what pytest uses": ({"pygments/__init__.py": ""}, {"shadowed-module"}),
    "a plugin nobody has": ({"pytest_randomly/__init__.py": ""}, {"shadowed-module"}),
    "what a build runs": ({"build.rs": "fn main() {}\n", "pom.xml": "<x/>\n"},
                          {"config-weakened"}),
    "a secret": ({"app.py": f"key = '{KEY}'\n"}, {"secret"}),
    "a secret, backwards": ({"notes.md": f"{KEY[::-1]}\n"}, {"secret"}),
    "a secret in base64": ({"notes.md": b64encode(f"x {KEY}".encode())}, {"secret"}),
    "a secret in hex": ({"notes.md": KEY.encode().hex()}, {"secret"}),
    "a secret, cut": ({"notes.md": KEY[8:]}, {"secret"}),
    "a secret in a test": ({"tests/test_new.py": f"KEY = '{KEY}'\n"}, {"secret"}),
    "a secret in a binary": ({"x.bin": b"\0" + KEY.encode()}, {"secret", "binary"}),
    "a secret in a link": ({"x": ("120000", f"/tmp/{KEY}")}, {"secret", "link"}),
}  # fmt: skip
GONE: dict[str, tuple[str, set[str]]] = {
    "pytest.ini": ("pytest.ini", {"config-weakened"}),
    "settings": ("pyproject.toml", {"config-weakened"}),
    "a submodule": ("sub", {"submodule"}),
    "a link": ("link", {"link"}),
}
HARMLESS: dict[str, Tree] = {
    "the fix": {"app.py": "def add(a, b):\n    return a + b\n"},
    "a new module": {"pkg/json.py": "x = 1\n", "helper.py": "y = 1\n"},
    "a dependency": {"pyproject.toml": swap(PYPROJECT, '"x"\n',
                                            '"x"\ndependencies = ["y"]\n')},
    "a dependency of node": {"package.json": swap(str(BASE["package.json"]), '"dependencies": {}',
                                                  '"dependencies": {"y": "1"}')},
    "a new script": {"tool.sh": ("100755", "echo\n")},
    "documents": {"docs/a.md": "# A\n"},
    "a helper script": {"scripts/deploy.sh": "echo\n", "bin/tool": "#!/bin/sh\n"},
    "a library of the same kind": {"fastapi_app/__init__.py": "", "packages.py": "x = 1\n"},
    "a new fixture": {"fixtures/a.json": "[]\n"},
    "a new test": {"tests/test_new.py": "def test_x():\n    assert 1 + 1 == 2\n"},
    "an edit of a test, which is undone": {PY: "", "tests/data.json": "[2]\n"},
    "another conftest, which is undone": {"conftest.py": "", "tests/conftest.py": "x = 1\n"},
    "tests beside the code": {"src/a.rs": "pub fn f() {}\n#[cfg(test)]\nmod tests {}\n"},
    "a new feature": {"Cargo.toml": '[package]\nname = "x"\n[features]\nmore = []\n'},
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_bends_green_is_found(case: str) -> None:
    is_found(*HOSTILE[case])


@pytest.mark.parametrize("case", GONE)
def test_what_is_deleted_is_found(case: str) -> None:
    path, expected = GONE[case]
    found = judged(BASE, {name: entry for name, entry in BASE.items() if name != path})
    assert rules(found) == expected
    assert {finding.evidence[0].side for finding in found} == {"old"}


@pytest.mark.parametrize("case", HARMLESS)
def test_honest_work_is_not_held_against_anybody(case: str) -> None:
    assert judged(BASE, BASE | HARMLESS[case]) == []


def test_the_name_of_a_file_is_no_way_out_for_a_secret() -> None:
    found = judged(BASE, BASE | {f"k_{KEY}/pytest.ini": "x"})
    assert rules(found) == {"secret"}
    assert KEY not in repr(found)


def test_what_was_there_before_is_nobodys_leak() -> None:
    """A secret that the user keeps in a file may stay there, beside what the agent mends."""
    base = BASE | {"settings.py": f"key = '{KEY}'\n"}
    assert judged(base, base | {"settings.py": f"key = '{KEY}'\nmore = 1\n"}) == []


def test_no_more_is_read_than_can_be_held() -> None:
    """Memory is bounded, whatever an agent makes: 15d."""
    many: Tree = {f"big/{number}.txt": f"{number}\n" * (200 << 10) for number in range(80)}
    objects = Objects()
    base = objects.entries(BASE)
    now = objects.entries(BASE | many | {"huge.bin": bytes(64 << 20)})
    found = list(guard.compared(base, now, objects, Protection(), Redactor({})))
    assert rules(found) == {"too-large"}
    assert sum(objects.read) > 30 << 20
    assert max(objects.read) <= 33 << 20


def test_files_that_are_too_large_and_too_many_end_it() -> None:
    class Stated(Objects):
        def sizes(self, oids: Iterable[str]) -> Mapping[str, int]:
            return dict.fromkeys(oids, 3 << 20)

    objects = Stated()
    some = objects.entries({f"{number}.bin": f"{number}" for number in range(100)})
    assert tree_diff.large({}, some, objects) == tuple(sorted(some))
    more = some | objects.entries({"1/one more.bin": "x"})
    with pytest.raises(LimitError, match=r"101 files of more than 2 MiB, 0.bin among them"):
        tree_diff.large({}, more, objects)
    assert tree_diff.large(some, {}, objects) == ()


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("pylintrc.toml", "config-weakened"), (".rubocop.yml", "config-weakened"),
        ("a/.editorconfig", "config-weakened"), ("pnpm-workspace.yaml", "config-weakened"),
        (".yarn/releases/yarn-4.cjs", "startup-file"), (".mvn/jvm.config", "startup-file"),
        (".pnp.cjs", "startup-file"), ("Gemfile.lock", "protected-path"),
    ],
)  # fmt: skip
def test_tools_of_every_language_have_settings(path: str, rule: str) -> None:
    assert rules(judged({path: "a\n"}, {path: "b\n"})) == {rule}


def test_of_a_package_of_php_the_scripts_decide() -> None:
    old, new = '{"scripts": {"test": "x"}}', '{"scripts": {"test": "true"}}'
    assert rules(judged({"composer.json": old}, {"composer.json": new})) == {"config-weakened"}
    assert judged({"composer.json": old}, {"composer.json": old[:-1] + ', "require": {}}'}) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "content",
    ["\0", "\ud800".encode("utf-8", "surrogatepass"), "(" * 100_000, "x = " + "-" * 100_000 + "1",
     b"\xff\xfe", "it('" * 50_000, "expect(" + " " * 100_000, "\n" * 100_000, "/*" * 50_000],
    ids=range(9),
)  # fmt: skip
def test_a_content_meant_to_hurt_is_survived(content: str | bytes) -> None:
    for path in (PY, "app.py", "web/add.test.ts", "add_test.go", "src/lib.rs", "pyproject.toml",
                 "setup.cfg", "package.json", "go.mod"):  # fmt: skip
        judged(BASE, BASE | {path: content})
        judged(BASE | {path: content}, BASE)


def test_settings_too_deep_are_found() -> None:
    assert rules(judged(BASE, BASE | {"package.json": "[" * 100_000})) == {"config-weakened"}


def test_the_guard_over_a_real_copy(repo: GitRepo, tmp_path: Path) -> None:
    for path in ("app.py", PY, "conftest.py", "pytest.ini"):
        repo.write(path, str(BASE[path]))
    repo.commit()
    top, git_dir = discover(str(repo.path))
    place = Repository(top, git_dir, dict(os.environ))
    space = Workspace(str(tmp_path / "run"), place, dict(os.environ))
    copy = Path(space.path)
    (copy / PY).unlink()
    (copy / ".github").mkdir()
    (copy / ".github" / "a.yml").write_text("on: push\n")
    GitRepo(copy / "inner").write("x.py", "1\n").commit()
    (copy / "conftest.py").write_text("")
    (copy / "sitecustomize.py").write_text("1\n")
    tree = space.tree()
    assert rules(guard.findings(space, tree)) == {
        "protected-path", "embedded-repository", "startup-file",
    }  # fmt: skip
    # What was taken out is held against the tree that it was part of, and not for ever.
    (copy / "app.py").write_text("x = 1\n")
    assert "embedded-repository" not in rules(guard.findings(space, space.tree()))
    # Permission to edit tests is that and nothing else.
    assert rules(guard.findings(space, tree, allow_test_edits=True)) == {
        "protected-path", "embedded-repository", "startup-file",
    }  # fmt: skip
    fresh = Path(
        space.fresh(space.restored(tree, space.snapshot.tree, Protection().is_protected)).path
    )
    assert (fresh / PY).read_text() == TEST
    assert (fresh / "conftest.py").read_text() == "import sys\n"
    assert not (fresh / "sitecustomize.py").exists()
    assert (fresh / "inner" / "x.py").exists()
