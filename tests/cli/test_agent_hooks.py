"""rlm-ci init --agents: hooks go into files of other people, and come out to the byte."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks import hook_files
from rlm_ci.agent_hooks.hook_files import AGENTS
from rlm_ci.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

PATHS = [file.path for file in AGENTS.values()]
ALL = ("init", "--agents", ",".join(AGENTS))
SETTINGS = '{\r\n    // mine\r\n    "model": "x",\r\n    "hooks": {"Stop": []},\r\n}'


def files_of(repo: GitRepo) -> dict[str, bytes]:
    paths = (path for path in repo.path.rglob("*") if path.is_file())
    return {
        path.relative_to(repo.path).as_posix(): path.read_bytes()
        for path in paths
        if ".git" not in path.relative_to(repo.path).parts
    }


def test_each_agent_gets_its_file_once(cli: Cli, repo: GitRepo) -> None:
    ended = cli(*ALL, cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")
    for agent, path in zip(AGENTS, PATHS, strict=True):
        assert f"written    {path} (hooks added)\n" in ended.stdout
        assert repo.read(path).decode() == hook_files.added(agent, "")
    assert "Codex skips hooks until you trust them" in ended.stdout
    assert "trust this folder: claude, gemini, cursor, copilot\n" in ended.stdout
    before = files_of(repo)
    again = cli(*ALL, cwd=repo)
    assert (again.code, files_of(repo)) == (0, before)
    assert all(f"unchanged  {path}\n" in again.stdout for path in PATHS)


@pytest.mark.parametrize(
    "text",
    [
        SETTINGS,
        "{}",
        "{\n}\n",
        "",
        '\ufeff{\n\t"hooks": {\n\t}\n}\n',
        '{"hooks": {}, "a": 1}\n',
        '{"hooks": {"Stop": [ ]\n}}',
    ],
)
def test_a_file_that_was_there_comes_back_to_the_byte(cli: Cli, repo: GitRepo, text: str) -> None:
    path = repo.path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    path.chmod(0o600)
    before = files_of(repo)
    assert cli("init", "--agents", "claude", cwd=repo).code == 0
    assert b"rlm-ci agent-hook stop --agent claude" in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert cli("init", "--agents", "claude,codex", cwd=repo).code == 0
    dry = cli("init", "--remove", "--dry-run", cwd=repo).stdout
    assert "would write .claude/settings.json (what rlm-ci added is gone)\n" in dry
    assert "would remove .codex/hooks.json\n" in dry
    output = cli("init", "--remove", cwd=repo).stdout
    assert "written    .claude/settings.json (what rlm-ci added is gone)\n" in output
    assert files_of(repo) == before
    assert not (repo.path / ".codex").exists()
    assert not (repo.path / ".git/rlm-ci-init.json").exists()


def test_what_people_add_since_stays(cli: Cli, repo: GitRepo) -> None:
    repo.write(".codex/hooks.json", '{"hooks": {}}')
    assert cli("init", "--agents", "claude,codex,cursor", cwd=repo).code == 0
    for path in (".claude/settings.json", ".codex/hooks.json"):
        text = repo.read(path).decode()
        repo.write(path, text.replace("{", '{ "mine": 1, // yes\n', 1))
    # Ours came out by hand, and come in again.
    repo.write(".cursor/hooks.json", '{"version": 1}')
    assert cli("init", "--agents", "claude,codex,cursor", cwd=repo).code == 0
    assert cli("init", "--remove", cwd=repo).code == 0
    assert repo.read(".claude/settings.json") == b'{ "mine": 1 // yes\n}\n'
    assert repo.read(".codex/hooks.json") == b'{ "mine": 1 // yes\n}'
    assert not (repo.path / ".cursor").exists()


def test_another_clone_takes_them_out_too(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    repo.write(".claude/settings.json", SETTINGS)
    assert cli(*ALL, cwd=repo).code == 0
    repo.commit()
    clone = repo.clone(tmp_path / "clone")
    assert cli("init", "--remove", cwd=clone).code == 0
    left = {path: data for path, data in files_of(clone).items() if path in PATHS}
    assert left == {PATHS[0]: SETTINGS.replace('    "hooks": {"Stop": []},\r\n', "").replace(
        '"x",', '"x",').encode()}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"hooks": ', "it is not JSON: no value, line 1"),
        (b"model = 1", "it is not JSON: 'model' is no value, line 1"),
        (b"[]", "the whole is not an object"),
        (b'{"hooks": {"AfterAgent": "x"}}', "hooks.AfterAgent is not a list"),
        (b"\xff{}", "it is not UTF-8"),
        (b"{}".ljust(2_000_000), "more than 1,048,576"),
        (None, "regular file"),
    ],
)
def test_where_one_file_cannot_be_changed_none_is(
    repo: GitRepo, capsys: pytest.CaptureFixture[str], text: bytes | None, why: str
) -> None:
    path = repo.path / ".gemini/settings.json"
    path.parent.mkdir()
    if text is None:
        path.mkdir()
    else:
        path.write_bytes(text)
    before = files_of(repo)
    assert main([*ALL, "-C", str(repo.path)]) == 5
    output = capsys.readouterr().err
    assert why in output
    assert "(.gemini/settings.json)" in output
    assert "leave gemini out of --agents" in output
    assert files_of(repo) == before


@pytest.mark.parametrize("linked", [".claude", ".claude/settings.json", ".github/hooks"])
def test_a_link_is_not_followed(
    cli: Cli, repo: GitRepo, tmp_path: Path, linked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    text = hook_files.added("claude", '{"mine": 1}')
    (elsewhere / "settings.json").write_text(text)
    (repo.path / linked).parent.mkdir(exist_ok=True)
    target = elsewhere / "settings.json" if linked.endswith(".json") else elsewhere
    os.symlink(target, repo.path / linked)
    assert main([*ALL, "-C", str(repo.path)]) == 5
    assert "it is a link, or its folder is one" in capsys.readouterr().err
    assert not (repo.path / "rlm-ci.toml").exists()
    assert cli("init", "--remove", cwd=repo).code == 0
    assert (elsewhere / "settings.json").read_text() == text
    assert len([*elsewhere.iterdir()]) == 1


def test_what_a_sparse_checkout_leaves_out_stays_out(cli: Cli, repo: GitRepo) -> None:
    repo.write(".claude/settings.json", "{}").commit()
    repo.run("sparse-checkout", "set", "--no-cone", "/*", "!/.claude/")
    output = cli("init", "--agents", "claude", cwd=repo).stdout
    assert "kept       .claude/settings.json (your sparse checkout leaves it out)\n" in output
    assert not (repo.path / ".claude").exists()


def test_a_file_that_is_broken_since_is_named(cli: Cli, repo: GitRepo) -> None:
    assert cli("init", "--agents", "claude", cwd=repo).code == 0
    repo.append(".claude/settings.json", "}")
    output = cli("init", "--remove", cwd=repo).stdout
    assert "kept       .claude/settings.json (it is no JSON; take rlm-ci's hooks out" in output


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("claud", "no agent is called 'claud'"),
        ("claude,bot", "no agent is called 'bot'"),
        ("@two words", "no agent is called '@two words'"),
        ("bots,people", "either bots or people"),
    ],
)
def test_a_name_that_is_none_is_an_error(
    repo: GitRepo, capsys: pytest.CaptureFixture[str], value: str, why: str
) -> None:
    assert main(["init", "--agents", value, "-C", str(repo.path)]) == 5
    output = capsys.readouterr().err
    assert f"error: {why}" in output
    assert "--agents claude,people" in output
    assert not (repo.path / "rlm-ci.toml").exists()


def test_who_opens_pull_requests_and_who_gets_hooks_are_one_list(cli: Cli, repo: GitRepo) -> None:
    output = cli("init", "--agents", "people", "--agents", "cursor", cwd=repo).stdout
    assert b"fail = true" in repo.read("rlm-ci.toml")
    assert "only reports" not in output
    assert json.loads(repo.read(".cursor/hooks.json"))["version"] == 1
    assert not (repo.path / ".claude").exists()


def test_a_program_that_is_missing_is_said(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    os.symlink(shutil.which("git") or "", tmp_path / "bin/git")
    bare = {"PATH": str(tmp_path / "bin")}
    output = cli("init", "--agents", "claude", cwd=repo, env=bare).stdout
    assert "rlm-ci is not on PATH: the agents' hooks fail until it is\n" in output
    assert "Codex" not in output


def test_edits_are_hooked_on_demand_and_stay_so(cli: Cli, repo: GitRepo) -> None:
    assert cli("init", "--agents", "codex", "--after-edit", cwd=repo).code == 0
    assert "PostToolUse" in json.loads(repo.read(".codex/hooks.json"))["hooks"]
    assert b"[agent_hooks]\nafter_edit = true\n" in repo.read("rlm-ci.toml")
    ended = cli("config", cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")
    again = cli("init", "--agents", "codex,claude", cwd=repo)
    assert "unchanged  .codex/hooks.json\n" in again.stdout
    assert "PostToolUse" not in json.loads(repo.read(".claude/settings.json"))["hooks"]
    output = cli("init", "--agents", "claude", "--after-edit", cwd=repo).stdout
    assert "written    .claude/settings.json (hooks added)\n" in output
    assert "PostToolUse" in json.loads(repo.read(".claude/settings.json"))["hooks"]


def test_a_file_that_its_program_does_not_read_is_told(cli: Cli, repo: GitRepo) -> None:
    repo.write(".claude/settings.json", "{} // mine\n")
    repo.write(".gemini/settings.json", "{} // mine\n")
    output = cli("init", "--agents", "claude,gemini", cwd=repo).stdout
    doubt = "claude reads no file with comments or trailing commas"
    assert f".claude/settings.json (hooks added); {doubt}\n" in output
    assert ".gemini/settings.json (hooks added)\n" in output
    again = cli("init", "--agents", "claude", cwd=repo).stdout
    assert f"unchanged  .claude/settings.json; {doubt}\n" in again
