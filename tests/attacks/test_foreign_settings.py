"""A change chooses by its files which settings ruff reads; a clone makes it read other files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from testing.attacker import git

if TYPE_CHECKING:
    from pathlib import Path

    from testing.attacker import Attacker

pytestmark = pytest.mark.full

SHELL = 'import subprocess\n\n\ndef f(a):\n    subprocess.call("x " + a, shell=True)\n'
ODD = ("pkg/hélper.py", "pkg/a b.py", "pkg/x+(1).py", "pkg/a\nb.py", f"pkg/{'d/' * 120}x.py")
SECRET = "hunter2value"


def start(attacker: Attacker, settings: dict[str, str]) -> Path:
    repo = attacker.folder / "repo"
    for path, content in {"pkg/ruff.toml": "lint.select = ['S']\n", **settings}.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(content)
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    git(repo, "checkout", "-qb", "theirs")
    return repo


def found(repo: Path, attacker: Attacker, *words: str) -> tuple[list[str], str]:
    """The paths of what ruff finds, and all that is printed and kept."""
    attacker.own()
    ended = attacker.rlm_ci(*words, "--format", "json", cwd=repo)
    kept = [one.read_text(errors="replace") for one in repo.rglob(".runs/**/*") if one.is_file()]
    report: dict[str, Any] = json.loads(ended.stdout)
    paths = [
        one["evidence"][0]["path"]
        for one in report["findings"]
        if one["rule"] == "review/ruff-s602" and not one["suppression"]
    ]
    return sorted(paths), "\n".join([ended.stdout, ended.stderr, *kept])


@pytest.mark.parametrize("command", ["pr", "review"])
@pytest.mark.parametrize("sandbox", ["auto", "none"])
def test_no_name_and_no_settings_of_a_change_hide_what_the_base_asks_for(
    attacker: Attacker, command: str, sandbox: str
) -> None:
    repo = start(attacker, {})
    for path in ODD:
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(SHELL)
    for path in ("ruff.toml", ".ruff.toml", "pkg/.ruff.toml", "pkg/d/ruff.toml"):
        (repo / path).write_text("lint.select = []\nexclude = ['*']\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Theirs")
    paths, _ = found(repo, attacker, command, "--base", "main", "--sandbox", sandbox)
    assert paths == sorted(ODD)


@pytest.mark.parametrize("sandbox", ["auto", "none"])
@pytest.mark.parametrize(
    "target",
    ["{secret}", "~/secret.toml", "${{HOME}}/secret.toml", "a/${{NOPE:-..}}/{up}{secret}",
     "link.toml", "home/secret.toml"],
)  # fmt: skip
def test_a_clone_makes_ruff_read_no_other_file(
    attacker: Attacker, target: str, sandbox: str
) -> None:
    secret = attacker.home / "secret.toml"
    secret.write_text(f"lint.select = ['{SECRET}']\n")
    shown = target.format(secret=secret, up="../" * 20)
    repo = attacker.folder / "repo"
    repo.mkdir()
    (repo / "link.toml").symlink_to(secret)
    (repo / "home").symlink_to(attacker.home)
    settings = f"extend = {json.dumps(shown)}\n"
    start(attacker, {"ruff.toml": settings, "pkg/ruff.toml": settings, "pkg/a b.py": SHELL})
    paths, told = found(repo, attacker, "review", "--sandbox", sandbox)
    assert paths == ["pkg/a b.py"]
    assert SECRET not in told
    assert "ruff settings cannot be used: pkg/ruff.toml" in told
