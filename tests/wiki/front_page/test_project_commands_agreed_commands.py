"""The commands on which guide, manifests and CI agree, and how one test is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.wiki_stage import first_page, rows

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

GUIDE = """\
# Contributing

## Tests

Run all tests with `tox -e py` or:

    $ make test   # slow

One of them: `pytest tests -k NAME`. Never `pytest <path>`.

```sh
tox --devenv venv
```
"""
TOX = "[testenv]\ncommands =\n    coverage erase\n    coverage run -m pytest {posargs:tests}\n"
CI = "steps:\n  - run: tox run\n  - run: make lint\n"
PROGRAM = {"shop/__init__.py": "", "shop/till.py": '"""Counts."""\n\n\ndef count(): ...\n'}


def test_what_most_kinds_of_files_say_is_shown_with_a_link_to_each(
    repo: GitRepo, tmp_path: Path
) -> None:
    files = {
        **PROGRAM, "CONTRIBUTING.md": GUIDE, "tox.ini": TOX, ".github/workflows/ci.yml": CI,
        "Makefile": "test:\n\tpytest\nlint:\n\truff check\n",
    }  # fmt: skip
    assert rows(first_page(repo, tmp_path, files), "Run and test") == [
        "set up | `tox --devenv venv` | [`CONTRIBUTING.md#L12`]",
        (
            "test | `tox -e py` (runs `coverage run -m pytest {posargs:tests}`) | "
            "[`CONTRIBUTING.md#L5`], [`tox.ini#L1`], [`.github/workflows/ci.yml#L2`]"
        ),
        "one test | `pytest tests -k NAME` | [`CONTRIBUTING.md#L9`]",
        (
            "check | `make lint` (runs `ruff check`) | "
            "[`Makefile#L3`], [`.github/workflows/ci.yml#L3`]"
        ),
    ]


def test_an_environment_of_tox_is_not_all_of_its_tests(repo: GitRepo, tmp_path: Path) -> None:
    guide = (
        "# Contributing\n\n    tox -e py\n    tox -e py -- tests/test_a.py::test_b\n"
        "    tox -e integration\n    tox\n    tox -e changelog -- --version $VERSION\n"
    )
    tox = "[testenv]\ncommands =\n    pytest\n\n[testenv:integration]\ncommands = pytest slow\n"
    files = {
        **PROGRAM, "CONTRIBUTING.md": guide, "tox.ini": tox,
        ".github/workflows/ci.yml": "steps:\n  - run: tox -e integration\n",
    }  # fmt: skip
    assert rows(first_page(repo, tmp_path, files), "Run and test") == [
        "test | `tox` (runs `pytest`) | [`CONTRIBUTING.md#L6`], [`tox.ini#L1`]",
        "one test | `tox -e py -- tests/test_a.py::test_b` | [`CONTRIBUTING.md#L4`]",
    ]


PYTEST = "def test_count():\n    import shop.till\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_till.py": PYTEST},
            "`python -m pytest tests/test_till.py -k test_count` (usual) | [`tests/test_till.py`]",
        ),
        (
            {"go.mod": "module x.org/a\n", "a.go": "package a\n\nfunc A() {}\n",
             "a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\n"},
            "`go test . -run TestA` (usual) | [`a_test.go`]",
        ),
        (
            {"Cargo.toml": "[package]\nname = 'a'\n", "src/lib.rs": "pub fn a() {}\n"},
            "`cargo test NAME` (usual) | [`Cargo.toml#L1`]",
        ),
        (
            {"package.json": '{"scripts": {\n"test": "vitest"}}\n',
             "src/a.ts": "export function a() {}\n",
             "test/a.test.ts": "import { a } from '../src/a'\n"},
            "`npx vitest run test/a.test.ts` (usual) | [`test/a.test.ts`]",
        ),
        *(
            (
                {"package.json": f'{{"scripts": {{\n"test": "{script}"}}}}\n',
                 "src/a.ts": "export function a() {}\n",
                 "README.md": "Use it:\n\n```js\njest.useFakeTimers();\n```\n",
                 "test/a.test.ts": "import { a } from '../src/a'\n"},
                f"`{single}` (usual) | [`test/a.test.ts`]",
            )
            for script, single in (
                ("lint && node --import=tsx/esm --test test/*.ts && build",
                 "node --import=tsx/esm --test test/a.test.ts"),
                ("node --test", "node --test test/a.test.ts"),
                ("node --test --import tsx 'test/**/*.test.ts'",
                 "node --test --import tsx test/a.test.ts"),
                ("c8 node --test test", "node --test test/a.test.ts"),
            )
        ),
        ({"Makefile": "test:\n\t./all\n"}, "not found | "),
    ],
)  # fmt: skip
def test_one_test_is_run_as_its_runner_usually_does(
    repo: GitRepo, tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    table = rows(first_page(repo, tmp_path, PROGRAM | files), "Run and test")
    assert [row for row in table if row.startswith("one test")] == [f"one test | {expected}"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"runtests.py": "import unittest\n\nif __name__ == '__main__':\n    unittest.main()\n",
             "shop/tests/__init__.py": "",
             "shop/tests/test_till.py": "import unittest\n\nfrom shop import till\n\n\n"
             "class TestTill(unittest.TestCase):\n    def test_count(self):\n"
             "        till.count()\n"},
            ["test | `python runtests.py` (usual for such a file) | [`runtests.py#L3`]",
             ("one test | `python -m unittest shop.tests.test_till` (usual) | "
              "[`shop/tests/test_till.py`]")],
        ),
        (
            {"package.json": '{"scripts": {\n"test": "vitest",\n"start": "tsc -b --watch"}}\n',
             "@shop/a/a.ts": "export function a() {}\n",
             "@shop/a/a.test.ts": "import { a } from './a'\n"},
            ["one test | `npx vitest run @shop/a/a.test.ts` (usual) | [`@shop/a/a.test.ts`]"],
        ),
        (
            {"Cargo.toml": "[package]\nname = 'a'\n", "src/lib.rs": "pub fn a() {}\n",
             "CONTRIBUTING.md": "# Contributing\n\n## Tests\n\n    cargo test --workspace\n"
             "    cargo test --test gui\n"},
            ["one test | `cargo test NAME` (usual) | [`CONTRIBUTING.md#L5`]"],
        ),
        (
            {"docs/contributing/tests.md": "# Tests\n\n    pytest tests/test_a.py::test_b\n"},
            ["one test | `pytest tests/test_a.py::test_b` | [`docs/contributing/tests.md#L3`]"],
        ),
        (
            {".github/workflows/ci.yml": "steps:\n  - run: bash ci/test.sh --ci\n",
             "tests/test_till.py": "import pytest\n\n\ndef test_count():\n    assert 1\n"},
            ["test | `bash ci/test.sh --ci` | [`.github/workflows/ci.yml#L2`]",
             ("one test | `python -m pytest tests/test_till.py -k test_count` (usual) | "
              "[`tests/test_till.py`]")],
        ),
    ],
    ids=["a program that runs them", "a path with @", "a target of cargo", "a guide in a folder",
         "a script of the project"],
)  # fmt: skip
def test_how_one_test_is_run_is_found_elsewhere(
    repo: GitRepo, tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    table = rows(first_page(repo, tmp_path, PROGRAM | files), "Run and test")
    assert [row for row in table if row.startswith(expected[0][:8])][:1] == expected[:1]
    assert set(expected) <= set(table)
    assert not [row for row in table if row.startswith("run ")]


def test_the_tools_of_the_main_language_come_first(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "Cargo.toml": "[package]\nname = 'a'\n",
        "src/lib.rs": "pub fn a() {\n" + "    b();\n" * 40 + "}\n",
        "web/a.js": "export function a() {}\n" * 5,
        "package.json": '{"scripts": {\n"lint": "eslint ."}}\n',
        "CONTRIBUTING.md": "# Guide\n\n    npm install\n    npm run lint\n    cargo clippy\n",
    }
    table = rows(first_page(repo, tmp_path, files), "Run and test")
    assert table[0].startswith("set up | `npm install` (for JavaScript) | ")
    assert [row for row in table if row.startswith("check")] == [
        "check | `cargo clippy` | [`CONTRIBUTING.md#L5`]"
    ]


def test_a_container_of_the_program_is_no_build_of_it_where_there_is_another(
    repo: GitRepo, tmp_path: Path
) -> None:
    files = {"README.md": "It bakes.\n\n    docker build . -t shop\n    make\n"}
    table = rows(first_page(repo, tmp_path, PROGRAM | files), "Run and test")
    assert "build | `make` | [`README.md#L4`]" in table
    files = {"README.md": "It bakes.\n\n    docker build . -t shop\n"}
    table = rows(first_page(repo, tmp_path, PROGRAM | files), "Run and test")
    assert "build | `docker build . -t shop` (for Docker) | [`README.md#L3`]" in table


def test_what_helps_tests_is_no_example_of_one(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "Gemfile": "gem 'rspec'\n",
        ".github/workflows/ci.yml": "steps:\n  - run: bundle exec rspec\n",
        "lib/till.rb": "# Counts.\nclass Till\n  def count\n    1\n  end\nend\n",
        "spec/spec_helper.rb": "require_relative '../lib/till'\n",
        "spec/till_spec.rb": "require_relative '../lib/till'\ndescribe Till do\nend\n",
    }
    table = rows(first_page(repo, tmp_path, files), "Run and test")
    assert (
        "one test | `bundle exec rspec spec/till_spec.rb` (usual) | [`spec/till_spec.rb`]" in table
    )


def test_a_project_that_does_not_say_how_it_is_tested_says_so(
    repo: GitRepo, tmp_path: Path
) -> None:
    table = rows(first_page(repo, tmp_path, PROGRAM | {"setup.py": "setup(\n"}), "Run and test")
    assert table[-1] == "test | not found | "


def test_a_rakefile_says_how_tests_run(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "Rakefile": 'require "rake/testtask"\nRake::TestTask.new(:test) do |t|\nend\n'
        "task default: :test\n",
        "lib/shop/till.rb": "# Counts.\nclass Till\n  def count\n    1\n  end\nend\n",
        "test/test_shop_till.rb": "class TestTill\n  def test_count\n  end\nend\n",
    }
    page = first_page(repo, tmp_path, files)
    assert rows(page, "Run and test") == [
        "test | `rake test` | [`Rakefile#L2`]",
        ("one test | `rake test TEST=test/test_shop_till.rb` (usual) | [`test/test_shop_till.rb`]"),
    ]
    assert rows(page, "To change something")[0].endswith("| [`test/test_shop_till.rb`]")
