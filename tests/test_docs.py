"""The documents tell the truth: generated files are current, every rule is explained."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rlm_ci import checks

TOP = Path(__file__).resolve().parents[1]
RULES = {
    "delegation-guard": {
        "missing-task-id", "unregistered-task", "no-subagent-manifest", "index-unreadable",
        "runs-unreadable",
    },
    "diff-budget": {"files", "lines", "path-budget", "unmeasurable", "override-incomplete"},
    "doc-archive": {
        "dangling", "malformed", "path-mismatch", "wrong-target", "payload-is-stub", "open-items",
    },
    "policy": {"edited"},
}  # fmt: skip


def test_generated_files_are_current() -> None:
    argv = [sys.executable, str(TOP / "docs" / "generate.py"), "--check"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_rule_has_its_heading() -> None:
    text = (TOP / "docs" / "checks.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^### (\S+)$", text, re.MULTILINE))
    assert told == {f"{check}/{rule}" for check, rules in RULES.items() for rule in rules}
    own = {name: set(checks.load(name).RULES) for name in checks.names()}
    assert own | {"policy": {"edited"}} == RULES


def test_links_between_documents_lead_somewhere() -> None:
    for document in (*TOP.glob("*.md"), *(TOP / "docs").glob("*.md")):
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
