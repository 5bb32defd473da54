"""Packages that a change adds, removes, moves, by manifests and lock files of each ecosystem."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.overview.dependencies import dependencies
from rlm_ci.overview.sides import ChangeSides
from rlm_ci.source.packages import locked
from testing import change_sets
from testing.repositories.git_repo import History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.repositories.git_repo import Content, GitRepo

Row = tuple[str, str, str, str, bool, str, bool]


def changed(
    repo: GitRepo, old: Mapping[str, Content], new: Mapping[str, Content]
) -> tuple[list[Row], list[str]]:
    base = repo.write_all({"README": "", **old}).commit()
    change = change_sets.change_of(History(repo, base, repo.write_all(new).commit()))
    sides = ChangeSides(change)
    found = [
        (one.change, one.name, one.before, one.after, one.direct, one.group, one.script)
        for one in dependencies(sides)
    ]
    return found, list(sides.limits)


def npm(**packages: object) -> str:
    return json.dumps({"packages": {f"node_modules/{name}": one for name, one in packages.items()}})


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("pyproject.toml",
         "[project]\ndependencies = ['a>=1', 'b[x] ~= 2']\noptional-dependencies.x = ['c']\n",
         "[project]\ndependencies = ['a>=2', 'c']\n[dependency-groups]\ndev = ['d; x>\"3\"']\n",
         [("removed", "b", "~= 2", "", True, "", False), ("moved", "c", "", "", True, "", False),
          ("changed", "a", ">=1", ">=2", True, "", False),
          ("added", "d", "", '; x>"3"', True, "dev", False)]),
        ("pyproject.toml", "[tool.poetry.dependencies]\npython = '3'\na = '^1'\n",
         "[tool.poetry]\ndependencies.a.version = '^2'\ngroup.test.dependencies.b = '*'\n",
         [("changed", "a", "^1", "^2", True, "", False),
          ("added", "b", "", "*", True, "test", False)]),
        ("setup.py", "setup(install_requires=['a'])", "x = ['a', 'b>1']\nsetup(install_requires=x)",
         [("added", "b", "", ">1", True, "", False)]),
        ("setup.cfg", "[options]\ninstall_requires =\n  a\n",
         "[options]\ninstall_requires =\n  a\n  b\n",
         [("added", "b", "", "", True, "", False)]),
        ("setup.cfg", "", "[options.extras_require]\nx =\n  a>1\n[y]\nb = c\n",
         [("added", "a", "", ">1", True, "extra x", False)]),
        ("setup.py", "", "setup(install_requires=['a'] + ['b'], extras_require={'x': ['c']})",
         [("added", "a", "", "", True, "", False), ("added", "b", "", "", True, "", False),
          ("added", "c", "", "", True, "extra x", False)]),
        ("requirements.txt", "a==1\n", "# a comment more\na==1\n", []),
        ("requirements.txt", "a==1\n", "a==2\n# x\n-r y\nhttps://x/y.tar.gz\n",
         [("changed", "a", "==1", "==2", False, "", False)]),
        ("requirements/dev.in", "a\n", "a\nb @ https://x/y\n",
         [("added", "b", "", "@ https://x/y", True, "dev", False)]),
        ("package.json", '{"dependencies": {"a": "1"}}',
         '{"devDependencies": {"a": "1"}, "scripts": {"postinstall": "x", "test": "y"}}',
         [("added", "scripts.postinstall", "", "x", True, "script", True),
          ("moved", "a", "1", "1", True, "dev", False)]),
        ("Cargo.toml", "[dependencies]\na = '1'\n",
         "[dependencies]\na = {version = '2', features = []}\n",
         [("changed", "a", "1", "2", True, "", False)]),
        ("go.mod", "module x\nrequire a.b/c v1.0.0\n",
         "module x\nrequire (\n\ta.b/c v1.1.0\n\td.e/f v0.1.0 // indirect\n)\n",
         [("changed", "a.b/c", "v1.0.0", "v1.1.0", True, "", False),
          ("added", "d.e/f", "", "v0.1.0", False, "indirect", False)]),
        ("Gemfile", "gem 'a', '~> 1'\n", "gem 'a', '~> 2'\n",
         [("changed", "a", "~> 1", "~> 2", True, "", False)]),
        ("composer.json", '{"require": {"php": "8"}}', '{"require": {"a/b": "1"}}',
         [("added", "a/b", "", "1", True, "", False)]),
        ("build.rs", "", "fn main() {}\n", []),
    ],
)  # fmt: skip
def test_manifests(repo: GitRepo, path: str, old: str, new: str, expected: list[Row]) -> None:
    assert changed(repo, {path: old}, {path: new}) == (expected, [])


def test_a_lock_file_gives_the_versions_of_what_the_manifest_names(repo: GitRepo) -> None:
    found, limits = changed(
        repo,
        {"package.json": "{}", "package-lock.json": npm(old={"version": "1"})},
        {"package.json": '{"dependencies": {"a": "^1"}}',
         "package-lock.json": npm(old={"version": "2"}, a={"version": "1.4"},
                                  evil={"version": "6", "hasInstallScript": True})},
    )  # fmt: skip
    assert found == [
        ("added", "evil", "", "6", False, "", True),
        ("added", "a", "", "1.4", True, "", False),
        ("changed", "old", "1", "2", False, "", False),
    ]  # fmt: skip
    assert limits == []


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("pyproject.toml", "[", "pyproject.toml: not valid TOML"),
        ("pyproject.toml", "project = 1", "pyproject.toml: not of the form of a manifest"),
        ("package.json", "[]", "package.json: no object"),
        ("package.json", "[" * 100_000, "package.json: "),
        ("package-lock.json", '{"packages": 1}', "package-lock.json: not of the form"),
        ("bun.lock", '{"packages": {"a": []}}', "bun.lock: not of the form"),
        ("yarn.lock", " " * (locked.MAX_BYTES + 1), "yarn.lock has 16 MB (limit 16 MB)"),
        ("setup.py", "(", "setup.py: not Python"),
    ],
)
def test_what_cannot_be_read_is_told(repo: GitRepo, path: str, content: str, told: str) -> None:
    found, limits = changed(repo, {path: ""}, {path: content})
    assert [row for row in found if row[5] != "script"] == []
    assert len(limits) >= 1
    assert limits[0].startswith(told)
