"""Documents and their archive, and what doc-archive says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testing.repositories.archives import BRANCH, POLICY_PATH, document, policy
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import Change, Name


CHECK = ("check", "doc-archive")
PATH = "docs/PRD-1.md"


def archive(
    repo: GitRepo,
    stubs: dict[str, str],
    payloads: dict[Name, Change] | None = None,
    *,
    policy_text: str | None = None,
) -> GitRepo:
    """``stubs`` committed on main over a policy, ``payloads`` (default: all) on the archive."""
    full: dict[Name, Change] = {path: document(path) for path in stubs}
    with repo.bulk() as bulk:
        bulk.commit("main", {POLICY_PATH: policy_text or policy()}, "Policy", ())
        bulk.commit(BRANCH, full if payloads is None else payloads, "Payloads", ())
        bulk.commit("main", {**full}, "Documents")
        bulk.commit("main", {**stubs}, "Stubs")
    repo.run("reset", "-q", "--hard")
    return repo


def findings(ended: Ended) -> dict[str, str]:
    """Path to rule of the findings that count, of a run with ``--format json``."""
    return {
        one["evidence"][0]["path"]: one["rule"].removeprefix("doc-archive/")
        for one in ended.json()["findings"]
        if one["severity"] != "info"
    }


def metrics(ended: Ended) -> dict[str, Any]:
    return next(p["metrics"] for p in ended.json()["parts"] if p["id"] == "doc-archive")


def check(cli: Cli, repo: GitRepo, *args: str, **env: str) -> Ended:
    return cli(*CHECK, "--format", "json", *args, cwd=repo, env=env)
