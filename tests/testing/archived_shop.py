"""A repository whose documents are ready for the archive, and its real, bare remote."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from rlm_ci.archive import run
from rlm_ci.archive.run import ArchiveOptions
from rlm_ci.git.remote_clone import RemoteUser
from rlm_ci.git.repository import Repository, discover
from testing.repositories.archives import BRANCH, POLICY_PATH, REPO_URL, document, policy
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rlm_ci.archive.plan import ArchivePlan
    from rlm_ci.archive.run import ArchiveOutcome
    from testing.repositories.git_repo import Content

REGISTRY = "docs/docs-freshness-registry.json"
INDEX = "tasks/index.json"
DONE = {"id": "0001", "slug": "stock", "status": "done", "completed_at": "2026-01-05"}
#: The documents of the task that is done.
STOCK = ("docs/PRD-stock.md", "tasks/specs/0001-stock.md", "tasks/tasks-0001-stock.md")


def row(path: str, status: str = "active", **more: object) -> dict[str, object]:
    fields = {"owner": "Ada", "status": status, "last_review": "2026-01-05", "cadence_days": 30}
    return {"path": path, **fields, **more}


def registry(*rows: Mapping[str, object]) -> str:
    return (
        json.dumps({"version": 1, "generated_at": "2026-01-05", "entries": rows}, indent=2) + "\n"
    )


def index(*items: Mapping[str, object]) -> str:
    return json.dumps({"items": items}) + "\n"


class Shop:
    """``repo`` with a task that is done, pushed to ``bare``."""

    def __init__(self, folder: Path, more: Mapping[str, Content] | None = None) -> None:
        self.bare = GitRepo(folder / "up.git", bare=True)
        self.repo = GitRepo(folder / "shop")
        self.repo.write_all({
            POLICY_PATH: policy(),
            INDEX: index({**DONE, "paths": {"prd": STOCK[0]}}),
            REGISTRY: registry(row(STOCK[0]), row("README.md")),
            **{path: document(path) for path in STOCK},
            **(more or {}),
        }).commit()  # fmt: skip
        self.repo.remote("../up.git")
        self.push()

    @classmethod
    def again(cls, folder: Path) -> Shop:
        """The shop that was made in ``folder``, or copied to it."""
        shop = cls.__new__(cls)
        shop.bare, shop.repo = GitRepo(folder / "up.git"), GitRepo.again(folder / "shop", 1)
        return shop

    def push(self) -> None:
        self.repo.run("push", "-q", "origin", "main:main")
        self.repo.run("fetch", "-q", "origin")

    def repository(self) -> Repository:
        root, git_dir = discover(str(self.repo.path))
        return Repository(root, git_dir, os.environ)

    def options(self, *, split: bool = False, dry_run: bool = False) -> ArchiveOptions:
        user = RemoteUser(None, "https://github.com", os.environ, "test")
        return ArchiveOptions(user, split=split, dry_run=dry_run)

    def plan(self, *, split: bool = False) -> ArchivePlan:
        return run.plan(self.repository(), self.options(split=split, dry_run=True))

    def archive(self, *, split: bool = False) -> ArchiveOutcome:
        return run.archive(self.repository(), self.options(split=split))

    def archived(self) -> dict[str, str]:
        """The object ids on the archive branch of the remote, by path."""
        ended = self.bare.attempt("ls-tree", "-r", "-z", BRANCH)
        rows = ended.stdout.decode("utf-8", "surrogateescape").split("\0")
        split = (one.partition("\t") for one in rows if one)
        return {path: head.split()[2] for head, _, path in split}

    def stub_of(self, path: str, day: str) -> bytes:
        """The stub that the archiver writes for a document of :func:`document`."""
        review = f"last_review: {day}\n\n" if path.startswith("tasks/specs/") else ""
        return (
            f"# {path}\n\n{review}<!-- docs-archive:stub -->\n> Archived on {day}. Full content: "
            f"{REPO_URL}/blob/{BRANCH}/{path}\n\n"
            f"- Archive branch: {BRANCH}\n- Archive path: {path}\n"
        ).encode()
