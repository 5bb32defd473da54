"""Permissions that workflows get, and migrations."""

from __future__ import annotations

import pytest

from rlm_ci.overview.sides import ChangeSides
from rlm_ci.overview.workflows import levels_by_scope, migrations, permissions
from testing import change_sets
from testing.repositories.git_repo import GitRepo, History

PATH = ".github/workflows/ci.yml"
JOB = """\
jobs:
  build:
    runs-on: x
    steps:
      - run: |
          permissions:
            a: write
"""


def sides(repo: GitRepo, old: str, new: str, path: str = PATH) -> ChangeSides:
    base = repo.write("README").write(path, old).commit()
    head = repo.write(path, new).commit()
    return ChangeSides(change_sets.change_of(History(repo, base, head)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("permissions: read-all\n", {("", "all"): "read"}),
        ("permissions: {}\n", {("", "all"): "none"}),
        ("permissions: {contents: read, 'issues': write} # x\n",
         {("", "contents"): "read", ("", "issues"): "write"}),
        ("'permissions':\n  contents: write # why\n  id-token: 'write'\non: push\n",
         {("", "contents"): "write", ("", "id-token"): "write"}),
        (f"{JOB}    permissions:\n      contents: read\n", {("build", "contents"): "read"}),
        (JOB, {}),
        ("env:\n  permissions:\n    contents: write\n", {}),
    ],
)  # fmt: skip
def test_what_a_workflow_names(text: str, expected: dict[tuple[str, str], str]) -> None:
    assert levels_by_scope(text.encode()) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("permissions:\n  contents: read\n", "permissions:\n  contents: write\n",
         [("", "contents", "read", "write")]),
        ("permissions:\n  contents: write\n", "permissions:\n  contents: read\n", []),
        ("permissions: write-all\n", "permissions:\n  issues: write\n", []),
        ("permissions:\n  contents: write\n",
         f"permissions:\n  contents: write\n{JOB}    permissions:\n      contents: write\n", []),
        (f"{JOB}    permissions: {{}}\n", f"{JOB}    permissions:\n      id-token: write\n",
         [("build", "id-token", "none", "write")]),
        ("permissions: read-all\n", "on: push\n", [("", "default", "", "settings")]),
        ("on: push\n", "permissions: 'write-all'\n", [("", "all", "", "write")]),
    ],
)  # fmt: skip
def test_only_more_than_before_is_told(
    repo: GitRepo, old: str, new: str, expected: list[tuple[str, str, str, str]]
) -> None:
    found = permissions(sides(repo, old, new))
    assert [(one.job, one.scope, one.before, one.after) for one in found] == expected


@pytest.mark.parametrize("text", ['{"permissions": "write-all"}', "permissions: *all\n"])
def test_another_form_is_told_as_not_read(repo: GitRepo, text: str) -> None:
    both = sides(repo, "on: push\n", text)
    assert permissions(both) == ()
    assert list(both.limits) == [f"{PATH}: permissions in another form than a block"]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("shop/migrations/0002_price.py", True), ("db/migrate/20260101_x.rb", True),
        ("alembic/versions/ab.py", True), ("prisma/migrations/1/migration.sql", True),
        ("sql/V2__price.sql", True), ("shop/migrations/__init__.py", False),
        ("docs/migrations/guide.md", False), ("shop/migrate.py", False),
    ],
)  # fmt: skip
def test_migrations_by_their_place(repo: GitRepo, path: str, is_one: bool) -> None:
    found = migrations(sides(repo, "a\n", "b\n", path))
    assert [(one.path, one.change) for one in found] == ([(path, "changed")] if is_one else [])
