"""A small file, or one message, that is to keep a job busy for its whole time, or to outlive it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.attacker import git

if TYPE_CHECKING:
    from testing.attacker import Attacker

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

DOTS = ".".join(["a"] * 20_000)
IMPORTS = "".join(f"import module_{number}\n" for number in range(3_000))
QUERIES = "".join(f'F{number} = "SELECT * FROM t WHERE a = " + b\n' for number in range(3_000))
TESTS = "".join(f"\n\ndef test_{number}():\n    assert {number}\n" for number in range(20_000))


FILES = {
    "settings of ruff": {
        "pyproject.toml": f"[tool.ruff]\n{DOTS} = 1\n", "ruff.toml": f"[{DOTS}]\n",
    },
    "a manifest": {
        "Cargo.toml": f"x = {{ {DOTS} = 1 }}\n", "a.py": "'" * 40_000 + "  # noqa\n",
    },
    "findings": {"a.py": IMPORTS, "b.py": QUERIES},
    "tests": {
        "tests/test_a.py": TESTS, "tests/a/test_b.py": "def test_b():\n    assert 1\n",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("pr", name) for name in FILES),  # which runs the checks and the review, too
        ("review", "settings of ruff"),
        ("review", "findings"),
        ("check", "tests"),
    ],
)
def test_no_small_change_takes_long(attacker: Attacker, command: str, name: str) -> None:
    repo = attacker.folder / "repo"
    repo.mkdir()
    (repo / "pyproject.toml").write_text("[tool.ruff]\nlint.select = ['F', 'S']\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    git(repo, "checkout", "-qb", "theirs")
    for path, content in FILES[name].items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(content)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Theirs")
    attacker.own()
    ended = attacker.rlm_ci(command, "--base", "main", "--format", "json", cwd=repo)
    assert json.loads(ended.stdout)["verdict"], ended.stderr


@pytest.mark.parametrize("name", ["HEAD", "config", "index", "packed-refs", "refs/heads/main"])
def test_a_pipe_of_a_tarball_is_not_waited_for(attacker: Attacker, name: str) -> None:
    repo = attacker.folder / "repo"
    repo.mkdir()
    (repo / "a.py").write_text("x = 1\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    place = repo / ".git" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    attacker.own()
    ended = attacker.rlm_ci("check", cwd=repo)
    assert ended.returncode == 6
    assert f"git cannot read a pipe, a socket or a device ({place})" in ended.stderr


def test_a_message_of_half_a_character_is_answered_and_the_server_ends(attacker: Attacker) -> None:
    repo = attacker.folder / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    attacker.own()
    lines = [
        '{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}',
        '{"jsonrpc":"2.0","id":7,"method":"ping"}',
    ]
    ended = attacker.rlm_ci("mcp", cwd=repo, input="\n".join(lines) + "\n")
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, ended.stderr
    assert [(one["id"], "error" in one) for one in answers] == [(None, True), (7, False)]


def test_a_run_of_sparse_files_is_not_exported(attacker: Attacker) -> None:
    repo = attacker.folder / "repo"
    repo.mkdir()
    (repo / "a.py").write_text("x = 1\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    attacker.own()
    assert attacker.rlm_ci("review", cwd=repo).returncode == 0
    [run] = [one.parent for one in repo.glob(".runs/*/cli/*/manifest.json")]
    for number in range(4):
        with Path(run, f"more{number}.jsonl").open("wb") as file:
            file.truncate(3 << 30)
    attacker.own()
    ended = attacker.rlm_ci("export", "latest", cwd=repo)
    assert ended.returncode == 5
    assert "the run has 12.0 GiB of files, and an export takes 2 GiB at most" in ended.stderr
