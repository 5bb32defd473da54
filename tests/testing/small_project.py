"""The fixture ``project``: a small repository with a script, a link and an ignore list."""

from __future__ import annotations

import os

import pytest

from testing.repositories.git_repo import GitRepo


@pytest.fixture
def project(repo: GitRepo) -> GitRepo:
    repo.write("app.py", "x = 1\n").write("run.sh", "echo\n").write("docs/a.md", "# A\n")
    (repo.path / "run.sh").chmod(0o755)
    repo.write(".gitignore", "*.log\nbuild/\n")
    os.symlink("docs/a.md", repo.path / "link")
    repo.commit()
    return repo
