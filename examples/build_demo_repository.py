#!/usr/bin/env python3
"""Builds the example repository of ``make demo``: real commits, a branch that breaks every rule.

    python examples/build_demo_repository.py FOLDER

makes ``FOLDER/shop`` and ``FOLDER/pull_request.json``, GitHub's event of the pull request,
and prints both paths. Needs git and Python, nothing else. The same commits every time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import demo_shop as shop

#: 2026-01-12 09:00 UTC; each commit comes an hour after the one before.
_START = 1_768_208_400


class Repository:
    """A new repository at ``path``, written to by git itself with a fixed identity and clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._commits = 0
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--template=", "--initial-branch=main")

    def git(self, *args: str, **environment: str) -> str:
        """The output of ``git ARGS``. Raises CalledProcessError."""
        ambient = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        fixed = {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Wile E. Coder",
            "GIT_AUTHOR_EMAIL": "wile@acme.example",
            "GIT_COMMITTER_NAME": "Wile E. Coder",
            "GIT_COMMITTER_EMAIL": "wile@acme.example",
        }
        ended = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=ambient | fixed | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            encoding="utf-8",
        )
        return ended.stdout.strip()

    def commit(self, message: str, files: dict[str, str]) -> str:
        """Write ``files`` and commit them; returns the commit's id."""
        for name, text in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode())
        date = f"{_START + 3600 * self._commits} +0000"
        self._commits += 1
        self.git("add", "--all")
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        self.git("commit", "--quiet", "--no-gpg-sign", f"--message={message}", **dates)
        return self.git("rev-parse", "HEAD")


def build(path: Path) -> tuple[str, str]:
    """Make the repository; returns the ids of main's tip and of the pull request's head."""
    repository = Repository(path)
    repository.git("remote", "add", "origin", f"https://github.com/{shop.REPOSITORY}.git")
    repository.commit("Open the shop", shop.SHOP)

    # The archive is forked from main, so it has every plan of that day under its own path.
    # The newsletter was archived twice: its stub has replaced its full text.
    repository.git("checkout", "--quiet", "-b", shop.ARCHIVE_BRANCH)
    archived = {"docs/PRD-newsletter.md": shop.STUBS["docs/PRD-newsletter.md"]}
    repository.commit("Update archive payload", archived)

    repository.git("checkout", "--quiet", "main")
    repository.commit("Plan the gift cards", shop.LATE_PLAN)
    repository.git("branch", "ship-to-europe")
    # Main goes on: what it gained since the fork is no part of the pull request.
    news = shop.README + "\nNew: we are closed on Sundays.\n"
    base = repository.commit("Say when we are closed", {"README.md": news})

    repository.git("checkout", "--quiet", "ship-to-europe")
    repository.commit("Compute the taxes of every country", shop.TAXES)
    repository.commit("Quote shipping by zone", shop.SHIPPING)
    head = repository.commit(
        "Archive old plans, make room in the budget", shop.STUBS | shop.RELAXED
    )
    return base, head


def event(base: str, head: str) -> dict[str, object]:
    """The ``pull_request`` event that GitHub would send, as far as anybody reads it."""
    owner, name = shop.REPOSITORY.split("/")
    web = f"https://github.com/{shop.REPOSITORY}"
    author = {"login": "wile", "type": "User"}
    repository = {
        "name": name, "full_name": shop.REPOSITORY, "html_url": web, "fork": False,
        "default_branch": "main", "owner": {"login": owner, "type": "Organization"},
    }  # fmt: skip
    return {
        "action": "opened",
        "number": 57,
        "pull_request": {
            "number": 57, "state": "open", "draft": False, "html_url": f"{web}/pull/57",
            "title": shop.TITLE, "body": shop.BODY, "user": author,
            "labels": [{"name": label} for label in shop.LABELS],
            "base": {"ref": "main", "sha": base, "repo": repository},
            "head": {"ref": "ship-to-europe", "sha": head, "repo": repository},
        },
        "repository": repository,
        "sender": author,
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: build_demo_repository.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).resolve()
    if (folder / "shop").exists():
        print(f"error: {folder / 'shop'} is already there", file=sys.stderr)
        return 1
    base, head = build(folder / "shop")
    path = folder / "pull_request.json"
    path.write_text(json.dumps(event(base, head), indent=2) + "\n", encoding="utf-8")
    print(folder / "shop")
    print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
