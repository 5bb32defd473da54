"""A small project whose head has a fault that its base has not, for reproductions to run in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rlm_ci import sandbox
from rlm_ci.git.repository import Repository, discover
from rlm_ci.trials.trees import ProofPlace
from testing import plain_pytest
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

BASE = {
    "src/shop/__init__.py": (
        "LIMIT = 3\n\ndef total(prices):\n    return sum(prices)\n\n"
        "def password(text):\n    return text.partition(':')[2]\n"
    ),
    "tests/conftest.py": (
        "import pytest\nfrom shop import LIMIT\n\n"
        "@pytest.fixture\ndef prices():\n    return [1, 2, 3]\n"
    ),
    "tests/test_shop.py": (
        "from shop import total\n\ndef test_total():\n    assert total([1]) == 1\n"
    ),
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-ra'\npythonpath = ['src']\n",
}
HEAD = {
    "src/shop/__init__.py": (
        "LIMIT = 3\n\ndef total(prices):\n    return sum(prices)\n\n"
        "def password(text):\n    return text.rpartition(':')[2]\n\n"
        "def double(number):\n    return number + 2\n"
    ),
}


class Facts:
    """The facts of a run in memory; ``made`` counts those that were produced."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.made = 0

    def __call__(
        self,
        kind: str,
        step: str,
        key: Mapping[str, Any],
        produce: Callable[[], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        name = f"{kind} {step} {sorted(key.items())}"
        if name not in self.kept:
            self.made += 1
            self.kept[name] = produce()
        return self.kept[name]


def place_of(repo: GitRepo, base: str, head: str | None, **more: Any) -> ProofPlace:
    top, git_dir = discover(str(repo.path))
    environ = {**os.environ, "PATH": plain_pytest.search_path(), "SHOP_TOKEN": "hush-hush-hush"}
    more.setdefault("sandbox", lambda: sandbox.choose("bubblewrap", environ))
    return ProofPlace(Repository(top, git_dir, environ), base, head, environ=environ, **more)


def changed(path: Path, head: Mapping[str, str]) -> ProofPlace:
    """The project at ``path``, with a change of ``head`` on top of it."""
    repo = GitRepo(path)
    for name, text in BASE.items():
        repo.write(name, text)
    base = repo.commit()
    for name, text in head.items():
        repo.write(name, text)
    return place_of(repo, base, repo.commit())
