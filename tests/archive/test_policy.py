"""The policy of the archive: whole, or refused; what its patterns match."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.archive.policy import ArchivePolicy, matches
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository
from testing.repositories.archives import POLICY_PATH, policy

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo


def read(repo: GitRepo) -> ArchivePolicy:
    repository = Repository(str(repo.path), str(repo.path / ".git"), {})
    return ArchivePolicy.read(ChangeSet(repository, "worktree"))


def test_without_a_policy_the_remote_names_the_repository(repo: GitRepo) -> None:
    with pytest.raises(ConfigError, match="web address of the repository is not known"):
        read(repo)
    found = read(repo.remote("git@github.com:Acme/Shop.git"))
    assert (found.branch, found.retain_days, found.target.slug) == ("doc-archives", 14, "acme/shop")
    assert found.covers(".agent/task/x.md")


def test_a_policy_is_whole_or_refused(repo: GitRepo) -> None:
    whole: dict[str, Any] = json.loads(policy())
    repo.write(POLICY_PATH, json.dumps(whole))
    assert read(repo).max_lines == 300
    wrong: dict[str, list[Any]] = {
        "version": [2, True, "1"],
        "archive_branch": ["", "-x", "a..b", 1],
        "repo_url": ["", "/srv/shop", None],
        "retain_days": [-1, "14", 1.5, True],
        "stray_retain_days": [-1],
        "max_lines": [0],
        "archived_cadence_days": [0],
        "doc_patterns": [[], "docs/*", [1], [""]],
        "exclude_paths": ["x", [None]],
        "allowlist_task_keys": [{}],
        "allowlist_paths": [None],
    }
    assert wrong.keys() == whole.keys()
    for name, values in wrong.items():
        lacking = {key: value for key, value in whole.items() if key != name}
        for record in (lacking, *({**whole, name: value} for value in values)):
            repo.write(POLICY_PATH, json.dumps(record))
            with pytest.raises(ConfigError, match=name):
                read(repo)
    repo.write(POLICY_PATH, "[" * 100_000)
    with pytest.raises(ConfigError, match="not a JSON object"):
        read(repo)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("docs/PRD-*", "docs/PRD-a/b.md", True),
        ("docs/PRD-*.md", "docs/PRD-.md", True),
        ("docs/PRD-*.md", "docs/PRD.md", False),
        ("tasks/*-prd-*", "tasks/1-prd-x.md", True),
        ("tasks/*-prd-*", "tasks/-prd", False),
        ("a*a", "a", False),
        ("*ab*b*", "xabb", True),
        ("a.md", "aXmd", False),
        ("*" * 5000 + "x", "a" * 50_000, False),
        ("*a" * 500 + "b", "a" * 50_000, False),
    ],
)
def test_a_star_stands_for_anything(pattern: str, path: str, *, expected: bool) -> None:
    assert matches(pattern, path) is expected
