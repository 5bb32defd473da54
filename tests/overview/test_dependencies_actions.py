"""What workflows use: actions, reusable workflows, images, in which versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.overview.dependencies import dependencies, used
from rlm_ci.overview.sides import ChangeSides
from testing import change_sets
from testing.repositories.git_repo import History

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

WORKFLOW = """\
jobs:
  call:
    uses: acme/ci/.github/workflows/test.yml@main
  build:
    steps:
      - uses: "actions/checkout@v4" # the sources
      - name: more
        uses: actions/cache/restore@0123abc # v4.2.0
      - run: |
          uses: not/this@v1
      - uses: ./.github/actions/own
      - uses: docker://alpine:3.20
      - uses: actions/checkout@v3
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WORKFLOW, {
            "acme/ci/.github/workflows/test.yml": "main", "actions/checkout": "v3, v4",
            "actions/cache/restore": "0123abc", "docker://alpine": "3.20",
        }),
        ("uses: docker://alpine\nsteps:\n- uses: @v1\n- uses: a/b\n", {}),
        ("steps:\r\n- if: >\r\n    uses: a/b@v1\r\n  uses: c/d@v2\r\n", {"c/d": "v2"}),
    ],
)  # fmt: skip
def test_what_a_workflow_uses(text: str, expected: dict[str, str]) -> None:
    assert used(text.encode()) == expected


def test_other_versions_are_told_and_other_manifests_are_told_as_not_read(repo: GitRepo) -> None:
    old, new = (
        "steps:\n- uses: a/b@v1\n- uses: c/d@v1\n",
        "steps:\n- uses: a/b@v2\n- uses: e/f@v1\n",
    )
    path, gone = ".github/workflows/ci.yml", ".github/workflows/gone.yml"
    repo.write_all({path: old, "tool/action.yml": "", "pom.xml": "<a/>", "ci.yml": old, gone: old})
    base = repo.commit()
    texts = {path: new, "tool/action.yml": new, "pom.xml": "<b/>", "ci.yml": new}
    head = repo.remove(gone).write_all({**texts, "app/build.gradle.kts": "x"}).commit()
    sides = ChangeSides(change_sets.change_of(History(repo, base, head)))
    found = [(one.path, one.change, one.name, one.before, one.after) for one in dependencies(sides)]
    assert sorted(found) == [
        (path, "added", "e/f", "", "v1"), (path, "changed", "a/b", "v1", "v2"),
        (path, "removed", "c/d", "v1", ""),
        (gone, "removed", "a/b", "v1", ""), (gone, "removed", "c/d", "v1", ""),
        ("tool/action.yml", "added", "a/b", "", "v2"),
        ("tool/action.yml", "added", "e/f", "", "v1"),
    ]  # fmt: skip
    assert list(sides.limits) == [
        "app/build.gradle.kts: nothing here reads its dependencies",
        "pom.xml: nothing here reads its dependencies",
    ]
