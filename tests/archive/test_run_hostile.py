"""A repository that wants to run something, or to lead a document elsewhere."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from testing.archived_shop import Shop
from testing.repositories.archives import POLICY_PATH, policy

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli

#: Names that stubs can carry, and names that none can.
GOOD: tuple[str | bytes, ...] = (
    "-x.md", "docs/a (1) [2]<3>.md", "docs/'q' $(id) `x`.md", 'docs/"q".md', "docs/100% é.md",
    b"docs/caf\xe9.md", "docs/tab\there.md", "docs/Case.md", "docs/case.md", "docs/:(icase)z.md",
    "docs/<!-- c --> d.md",
)  # fmt: skip
BAD = {"docs/a\nb.md": "unsupported_path", "`docs`/c.md": "unsupported_path"}


def name_of(name: str | bytes) -> str:
    return name if isinstance(name, str) else os.fsdecode(name)


def test_nothing_runs_and_every_byte_arrives(tmp_path: Path, cli: Cli) -> None:
    texts = {
        name_of(name): f"# {number} <!-- docs-archive:stub -->\n\n$Id$\n\nx\n".encode()
        for number, name in enumerate([*GOOD, *BAD])
    }
    fields = json.loads(policy())
    fields.update(doc_patterns=["*docs*", "-*"], max_lines=1)
    shop = Shop(tmp_path, {**texts, POLICY_PATH: json.dumps(fields)})
    repo = shop.repo
    repo.symlink("docs/link.md", "../README.md").submodule("docs/sub.md", "1" * 40)
    repo.write(".gitattributes", "*.md text eol=crlf ident filter=evil\n")
    repo.stage("docs/link.md", ".gitattributes").commit(stage=False)
    shop.push()
    ran = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("pre-push", "post-checkout", "reference-transaction", "post-index-change"):
        (hooks / hook).symlink_to(evil)
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "diff.external"):
        repo.run("config", key, str(evil))
    for path, text in texts.items():  # as git checks them out
        repo.write(path, text.replace(b"\n", b"\r\n"))
    made = shop.archive().plan
    assert {one.path for one in made.documents} >= {name_of(name) for name in GOOD}
    skipped = {one.path: one.reason for one in made.skipped}
    odd = {"docs/link.md": "outside_repo", "docs/sub.md": "outside_repo"}
    assert BAD.items() | odd.items() <= skipped.items()
    there = shop.archived()
    for name in GOOD:
        assert there[name_of(name)] == made_id(shop, name_of(name)), name
    assert not ran.exists()
    ended = cli("check", "doc-archive", cwd=repo)
    assert (ended.code, ran.exists()) == (0, False), ended
    assert os.readlink(repo.path / "docs" / "link.md") == "../README.md"


def made_id(shop: Shop, path: str) -> str:
    return shop.repository().tree("HEAD")[path].oid


def test_a_link_in_the_work_tree_leads_nowhere(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    outside = tmp_path / "0001-stock.md"
    text = shop.repo.read("tasks/specs/0001-stock.md")
    outside.write_bytes(text)
    shop.repo.symlink("tasks/tasks-0001-stock.md", str(outside))
    shop.repo.symlink("tasks/specs", str(tmp_path))
    skipped = {one.path: one.reason for one in shop.archive().plan.skipped}
    assert skipped == {
        "tasks/specs/0001-stock.md": "missing_on_disk",
        "tasks/tasks-0001-stock.md": "outside_repo",
    }
    assert outside.read_bytes() == text
