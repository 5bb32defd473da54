"""Systems and versions that a matrix has no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.guard.collected.tree_side import TreeSide
from rlm_ci.guard.loosened.ci_matrix import narrowed
from rlm_ci.guard.weakening import RestOfTree, TextChange

if TYPE_CHECKING:
    from collections.abc import Iterable

CI = """\
jobs:
  test:
    runs-on: ${{ matrix.os }}
    strategy:
      matrix:
        os: [ubuntu-24.04, windows-2025]
        python: ["3.12", "3.13", "3.14"]  # all of them
        shard: [1, 2, 3]
        include:
          - python: pypy-3.11
            os: ubuntu-24.04
        go-version:
          - 1.24.x
          # the last
          - "1.25"
    steps:
      - run: pytest
"""
#: What is changed in it, the files beside it, and what is told.
CASES: dict[str, tuple[str, str, dict[str, str], str]] = {
    "versions": ('"3.12", "3.13", "3.14"', '"3.14"', {}, "python: 3.12, 3.13"),
    "a version of several lines": ('          - "1.25"\n', "", {}, "go-version: 1.25"),
    "one that is included": (
        "          - python: pypy-3.11\n            os: ubuntu-24.04\n", "", {},
        "python: pypy-3.11",
    ),
    "a system": ("[ubuntu-24.04, windows-2025]", "[ubuntu-24.04]", {}, "os: windows-2025"),
    "a newer image": ("ubuntu-24.04, windows-2025", "ubuntu-26.04, windows-2025", {}, ""),
    "newer versions": ('"3.12", "3.13", "3.14"', '"3.13", "3.14", "3.15"', {}, ""),
    "the oldest of Go for the newest": (
        '- 1.24.x\n          # the last\n          - "1.25"', '- "1.25"\n          - "1.26"', {},
        "",
    ),
    "a version in a job of its own": (
        '"3.12", "3.13", "3.14"', '"3.13", "3.14"', {}, "python: 3.12",
    ),
    "the newest of Go": (
        '- 1.24.x\n          # the last\n          - "1.25"', "- 1.23.x", {},
        "go-version: 1.24.x, 1.25",
    ),
    "another version of pypy, with what leaves it out": (
        "          - python: pypy-3.11\n            os: ubuntu-24.04\n",
        "          - python: pypy-3.12\n            os: ubuntu-24.04\n", {}, "",
    ),
    "shards": ("[1, 2, 3]", "[1, 2]", {}, ""),
    "another order": ('"3.12", "3.13", "3.14"', '"3.14", "3.13", "3.12"', {}, ""),
    "a list of several lines": (
        '["3.12", "3.13", "3.14"]  # all of them',
        "\n          - 3.12\n          - 3.13\n          - 3.14", {}, "",
    ),
    "unsupported": ('"3.12", ', "", {"pyproject.toml": 'requires-python = ">=3.13"'}, ""),
    "still supported": (
        '"3.12", ', "", {"pyproject.toml": 'requires-python = ">=3.12"'}, "python: 3.12",
    ),
    "unsupported by a module": ("          - 1.24.x\n", "", {"go.mod": "go 1.25\n"}, ""),
    "computed": ('["3.12", "3.13", "3.14"]', "${{ fromJSON(inputs.versions) }}", {}, ""),
}  # fmt: skip


class Tree(RestOfTree):
    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: self.files[path] for path in paths if path in self.files}


def told(changes: list[TextChange], files: dict[str, str]) -> list[str]:
    found = narrowed(changes, TreeSide(changes, Tree(files), old=False))
    return [one.message.removeprefix("CI no longer tests ") for one in found]


@pytest.mark.parametrize("case", CASES)
def test_a_matrix_that_has_less_is_found(case: str) -> None:
    old, new, files, said = CASES[case]
    assert old in CI
    changed = [TextChange(".github/workflows/ci.yml", CI, CI.replace(old, new))]
    assert told(changed, files) == ([said] if said else [])


def test_a_matrix_may_move_to_another_workflow() -> None:
    caller = "jobs:\n  test:\n    uses: ./.github/workflows/tests.yml\n"
    moved = [
        TextChange(".github/workflows/ci.yml", CI, caller),
        TextChange(".github/workflows/tests.yml", None, CI),
    ]
    assert told(moved, {}) == []


def test_a_version_may_have_a_job_of_its_own() -> None:
    path = ".github/workflows/ci.yml"
    less = CI.replace('"3.12", "3.13", "3.14"', '"3.13", "3.14"')
    alone = "  old:\n    steps:\n      - uses: us/python@v1\n"
    alone += "        with:\n          python-version: {}\n"
    for version, said in (("'3.12'", []), ("3.11", ["python: 3.12"])):
        assert told([TextChange(path, CI, less + alone.format(version))], {}) == said


def test_a_version_may_take_the_place_of_one_that_another_file_has() -> None:
    other = TextChange(".github/workflows/a.yml", CI, CI)
    old = "jobs:\n  t:\n    strategy:\n      matrix:\n        python: ['3.10', '3.11']\n"
    change = TextChange(".github/workflows/b.yml", old, old.replace("3.11", "3.14"))
    assert told([other, change], {}) == []
