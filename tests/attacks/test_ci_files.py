"""An agent leaves files that CI, a build or git would run: none of them reaches the work tree."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from testing.attacker import git

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from testing.attacker import Attacker

pytestmark = pytest.mark.full

#: Lifted by --allow-test-edits: each may be the goal.
NAMED = (
    "action.yml", "sub/action.yaml", "setup.py", "Dockerfile", "flake.nix", "renovate.json",
    "compose.yaml",
)  # fmt: skip
#: Lifted by nothing.
FIRM = (".gitea/workflows/x.yml", ".github\\workflows\\x.yml", ".g\u200cithub/workflows/x.yml")
#: Taken out of the copy.
GITS = (
    ".g\u200cit/hooks/x", "git~1/hooks/x", "GIT~1/config", ".git./hooks/x", ".GIT /hooks/x",
    ".git::$INDEX_ALLOCATION/hooks/x", "sub/.\ufeffgit/hooks/x", "a\\.git\\hooks\\x",
)  # fmt: skip


@pytest.fixture
def repo(attacker: Attacker) -> Path:
    repo = attacker.folder / "repo"
    repo.mkdir()
    (repo / "app.txt").write_text("wrong\n")
    (repo / ".gitignore").write_text(".runs/\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    attacker.own()
    return repo


def fix(attacker: Attacker, repo: Path, paths: Sequence[str], *flags: str) -> tuple[int, Any]:
    """Mend ``app.txt``, and leave a file at each of ``paths``; the exit code, and the report."""
    lines = ["echo right > app.txt"]
    for path in paths:
        folder = path.rpartition("/")[0] or "."
        lines.append(f"mkdir -p {shlex.quote(folder)}; echo '{{}}' > {shlex.quote(path)}")
    script = "\n".join(lines)
    agent = f"sh -c {shlex.quote(script)}"
    ended = attacker.rlm_ci(
        "rlm", "fix it", "--validator", "grep right app.txt", "--agent", agent,
        "--max-iterations", "1", "--format", "json", *flags, cwd=repo,
    )  # fmt: skip
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def refusals(report: Any) -> dict[str, str]:
    """The rule by which each path is refused."""
    return {
        finding["evidence"][0]["path"]: finding["rule"].removeprefix("tamper/")
        for finding in report["findings"]
        if finding["rule"].startswith("tamper/") and finding["severity"] == "high"
    }


def left(repo: Path) -> set[str]:
    """What stands in the work tree, but for rlm-ci's own."""
    paths = (path.relative_to(repo) for path in repo.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] not in (".git", ".runs", "out")}


BEFORE = {"app.txt", ".gitignore"}


def test_what_ci_or_a_build_would_run_is_not_applied_unasked(
    attacker: Attacker, repo: Path
) -> None:
    code, report = fix(attacker, repo, NAMED)
    assert (code, left(repo)) == (1, BEFORE)
    assert refusals(report) == dict.fromkeys(NAMED, "build-file")
    code, report = fix(attacker, repo, NAMED, "--allow-test-edits")
    assert (code, refusals(report), left(repo)) == (0, {}, BEFORE.union(NAMED))


def test_no_other_spelling_of_a_workflow_is_applied(attacker: Attacker, repo: Path) -> None:
    code, report = fix(attacker, repo, FIRM, "--allow-test-edits")
    assert (code, left(repo)) == (1, BEFORE)
    assert refusals(report) == dict.fromkeys(FIRM, "protected-path")


def test_no_other_spelling_of_git_is_applied(attacker: Attacker, repo: Path) -> None:
    code, report = fix(attacker, repo, GITS, "--allow-test-edits")
    assert (code, left(repo)) == (1, BEFORE)
    rules = [one["rule"] for one in report["findings"]]
    assert rules == ["tamper/embedded-repository"] * len(GITS)
    patches = [path.read_bytes() for path in (repo / ".runs").rglob("*.patch")]
    assert patches
    assert not any(b"hooks" in patch or b"config" in patch for patch in patches)
