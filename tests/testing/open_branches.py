"""Branches of a small shop, to be merged together: one file a module, one branch a change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rlm_ci.git.repository import Repository, discover
from rlm_ci.together.compare import compare
from rlm_ci.together.open_changes import OpenChange
from rlm_ci.together.pull_requests import of_branches
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.report.findings import Part

PARSE = "def parse(text):\n    return text.split()\n"
TOTAL = "def total(items, tax):\n    return sum(items) * tax\n"
FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n',
    "shop/__init__.py": "",
    "shop/text.py": f"import re\n\n\n{PARSE}",
    "shop/till.py": f"RATE = 2\n\n\n{TOTAL}",
    "shop/page.py": "from shop.till import total\n\n\ndef show():\n    return total([1], 2)\n",
}


class Branches:
    """A repository with ``main``, and branches that are made of it."""

    def __init__(self, repo: GitRepo, files: Mapping[str, str | bytes] = FILES) -> None:
        self.repo = repo
        repo.write_all(files).commit("Start")

    def branch(
        self, name: str, files: Mapping[str, str | bytes | None], message: str = "Change"
    ) -> str:
        """A branch of main with these files, None for one that is removed."""
        self.repo.checkout("main").checkout(name, new=True)
        for path, content in files.items():
            if content is None:
                self.repo.remove(path)
            else:
                self.repo.write(path, content)
        commit = self.repo.commit(message)
        self.repo.checkout("main")
        return commit

    def opened(self) -> Repository:
        return Repository(*discover(os.fspath(self.repo)), os.environ)

    def change(self, name: str) -> OpenChange:
        subject = of_branches(self.opened(), [name, "main"], "main", "test")
        return subject.changes[0]

    def part(self, *names: str) -> Part:
        return compare(self.opened(), of_branches(self.opened(), names, "main", "test"))

    def messages(self, *names: str) -> list[str]:
        """What is found, each with its rule and severity."""
        return [
            f"{finding.rule.partition('/')[2]} {finding.severity.label}: {finding.message}"
            for finding in self.part(*names).findings
        ]

    def sides(self, **files: Any) -> list[str]:
        """What is found of two branches, ``one`` and ``two``."""
        for name, changed in files.items():
            self.branch(name, changed)
        return self.messages(*files)
