"""``rlm-ci doctor``: it tells what is there and what is not, and never what is secret."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.sandbox.self_test import TITLES
from testing.copilot_service import copilot_service, copilot_variables
from testing.loopback_model.replies import Answer, Call, refusal
from testing.loopback_model.server import ModelServer

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is for Linux")

SECRET = "sk-canary-0123456789abcdef"


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with git and nothing else: no sandbox, to try which takes over a second."""
    folder = tmp_path / "bin"
    folder.mkdir()
    git = next(
        place for part in os.environ["PATH"].split(":") if (place := Path(part) / "git").exists()
    )
    (folder / "git").symlink_to(git)
    return str(folder)


@pytest.mark.full
def test_a_machine_that_has_all_it_needs(cli: Cli) -> None:
    ended = cli("doctor", "--rlms")
    assert (ended.code, ended.stderr) == (0, ""), ended
    lines = ended.stdout.splitlines()
    assert lines[-1] == "✓ everything that is configured can run"
    assert "sandbox: auto" in lines
    for title in TITLES.values():
        assert any(line.startswith(f"      ✓ {title} ") for line in lines), title
    assert any(line.split()[:3] == ["✓", "python", f"{sys.version.split()[0]},"] for line in lines)
    assert any(line.startswith("  ✓ git         2.") for line in lines)
    assert any(line.startswith("  ✓ bubblewrap  ") for line in lines)
    analysis = lines[lines.index("analysis") + 1 :][:3]
    assert analysis[0].endswith("run (force_on), 2 files, 7 lines")
    assert "2 steps, 1 sub-call, sandbox bubblewrap; scripted in this process" in analysis[1]
    assert analysis[2].endswith("1 of 1 held, first shop/prices.py:2")
    assert "✗" not in ended.stdout


@pytest.mark.full
def test_the_same_as_json(cli: Cli) -> None:
    record = cli("doctor", "--format", "json").json()
    assert record["ready"] is True
    assert record["problems"] == []
    box = record["sections"]["sandbox"]["bubblewrap"]
    assert box["state"] == "ok"
    assert [(one["name"], one["passed"]) for one in box["probes"]] == [
        (name, True) for name in TITLES
    ]
    assert record["sections"]["sandbox"]["none"]["state"] == "absent"
    assert record["sections"]["model"]["key"]["detail"] == "not set (OPENAI_API_KEY)"


@pytest.mark.full
@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_set_is_told_and_never_shown(cli: Cli, bare: str, form: str) -> None:
    env = {
        "OPENAI_API_KEY": SECRET,
        "OPENAI_BASE_URL": f"https://user:{SECRET}@models.example.com/v1",
        "GITHUB_TOKEN": SECRET,
    }
    ended = cli("doctor", "--format", form, env={**env, "PATH": bare})
    assert "canary" not in ended.stdout + ended.stderr
    assert "models.example.com" not in ended.stdout + ended.stderr
    for name in env:
        assert f"set by {name}" in ended.stdout


def test_a_machine_without_a_sandbox_is_not_ready(cli: Cli, bare: str) -> None:
    ended = cli("doctor", env={"PATH": bare})
    assert ended.code == 4
    assert "  ✗ bubblewrap  does not work on this machine" in ended.stdout
    tail = ended.stdout.splitlines()[-3:]
    assert tail[0] == "✗ 1 thing that is configured cannot run"
    assert "bwrap could not be started" in tail[1]
    assert "--sandbox none" in tail[2]


def test_who_asks_for_no_sandbox_is_told_so_and_ready(cli: Cli, bare: str) -> None:
    ended = cli("doctor", "--sandbox", "none", env={"PATH": bare})
    assert ended.code == 0, ended
    assert "chosen: commands have all your rights" in ended.stdout


@pytest.mark.full
def test_an_agent_that_is_not_there_is_a_problem(cli: Cli, bare: str) -> None:
    args = ("--sandbox", "none", "--agent", "codex", "--format", "json")
    record = cli("doctor", *args, env={"PATH": bare}).json()
    assert record["ready"] is False
    assert any("codex" in one["what"] and one["hint"] for one in record["problems"])


def test_without_git_nothing_can_run(cli: Cli, tmp_path: Path) -> None:
    ended = cli("doctor", "--sandbox", "none", "--quiet", env={"PATH": str(tmp_path)})
    assert ended.code == 4
    assert "  ✗ git " in ended.stdout


@pytest.mark.full
def test_it_writes_to_a_file_and_leaves_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    before = sorted(home.iterdir())
    ended = cli("doctor", "-o", str(tmp_path / "out.txt"))
    assert (ended.code, ended.stdout) == (0, "")
    assert "bubblewrap" in (tmp_path / "out.txt").read_text(encoding="utf-8")
    assert sorted(home.iterdir()) == before


@pytest.mark.parametrize("args", [("extra",), ("--format", "sarif"), ("--sandbox", "docker")])
def test_wrong_use_is_told(cli: Cli, args: tuple[str, ...]) -> None:
    ended = cli("doctor", *args)
    assert ended.code in (2, 5)
    assert ended.stderr.startswith("error: ")
    assert "hint: " in ended.stderr


@pytest.mark.full
def test_a_model_is_asked_what_it_can(cli: Cli, repo: GitRepo, bare: str) -> None:
    repo.write("rlm-ci.toml", 'model = "gpt-4o-mini"\n').commit()
    answers = [Answer("ready"), Answer(calls=[Call("report_ready")]), Answer('{"state": "ready"}')]
    with ModelServer(answers) as served:
        served.listing = [{"id": "gpt-4o-mini", "context_length": 128_000}]
        environ = {"PATH": bare, "OPENAI_BASE_URL": served.url, "OPENAI_API_KEY": served.key}
        ended = cli("doctor", "--model", "--sandbox", "none", env=environ, cwd=repo)
        assert [asked.body["model"] for asked in served.completions] == ["gpt-4o-mini"] * 3
    assert ended.code == 0, ended
    assert re.search(r"✓ answer  +'ready' after \d+\.\d s, \d+ tokens, \$0\.0000", ended.stdout)
    assert re.search(r"✓ tools  +work", ended.stdout)
    assert re.search(r"✓ JSON schema  +works", ended.stdout)
    assert re.search(r"✓ context  +128,000 tokens", ended.stdout)


@pytest.mark.full
@pytest.mark.parametrize(
    ("tokens", "line", "code"),
    [
        (
            8192,
            "· context  +8,192 tokens, as its endpoint says: reviews are quick, fixes and ques",
            0,
        ),
        (
            4096,
            "· context  +4,096 tokens, as its endpoint says: reviews are quick, fixes and ques",
            0,
        ),
        (2048, "✗ context  +2,048 tokens, as its endpoint says: too small", 4),
    ],
)
def test_a_small_context_has_no_tick(
    cli: Cli, bare: str, tokens: int, line: str, code: int
) -> None:
    answers = [Answer("ready"), Answer(calls=[Call("report_ready")]), Answer('{"state": "ready"}')]
    with ModelServer(answers) as served:
        served.listing = [{"id": "mine", "meta": {"n_ctx": tokens}}]
        environ = {"PATH": bare, "OPENAI_BASE_URL": served.url, "OPENAI_API_KEY": served.key}
        ended = cli("doctor", "--model", "mine", "--sandbox", "none", env=environ)
    assert ended.code == code, ended
    assert re.search(line, ended.stdout), ended
    assert "models.context_tokens" in ended.stdout


@pytest.mark.full
def test_githubs_models_are_asked_by_its_program(cli: Cli, tmp_path: Path) -> None:
    with copilot_service([Answer("ready")]) as served:
        environ = copilot_variables(served, tmp_path)
        ended = cli("doctor", "--model", "github:gpt-x", "--sandbox", "none", env=environ)
    assert ended.code == 0, ended
    assert re.search(r"✓ answer  +'ready' after \d+\.\d s, \d+ tokens", ended.stdout)
    assert re.search(r"· tools  +refused: the endpoint does not support tools", ended.stdout)
    assert re.search(r"✓ context  +64,000 tokens", ended.stdout)
    del environ["COPILOT_GITHUB_TOKEN"]
    unset = cli("doctor", "--model", "github:gpt-x", env=environ)
    words = "the key of github is not set: COPILOT_GITHUB_TOKEN"
    assert (unset.code, words in unset.stdout) == (4, True), unset


@pytest.mark.full
def test_a_run_leaves_no_file_of_githubs_program(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    base = repo.write("shop.py", "A = 1\n").commit()
    repo.write("shop.py", "A = 2\n").commit()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with copilot_service(lambda _asked: Answer('{"findings": []}')) as served:
        environ = {**copilot_variables(served, tmp_path), "TMPDIR": str(temporary)}
        args = ("review", "--base", base, "--model", "github:gpt-x", "--quiet")
        ended = cli(*args, env=environ, cwd=repo)
        assert served.completions
    assert ended.code == 0, ended
    assert not list(temporary.glob("rlm-ci-copilot-*"))


@pytest.mark.full
def test_what_a_model_lacks_is_no_problem_and_no_answer_is_one(cli: Cli, bare: str) -> None:
    refused = refusal(400, "tools are not supported")
    with ModelServer([Answer("ready"), refused, Answer("I am ready")]) as served:
        environ = {"PATH": bare, "OPENAI_BASE_URL": served.url, "VLLM_API_KEY": served.key}
        environ["RLM_CI_MODELS_PROVIDER"] = "vllm"
        args = ("doctor", "--model", "vllm:mine", "--sandbox", "none")
        ended = cli(*args, env=environ)
        assert {asked.body["model"] for asked in served.completions} == {"mine"}
        assert ended.code == 0, ended
        assert "its price is not known" in ended.stdout
        assert re.search(r"· tools  +refused: .*tools are not supported", ended.stdout)
        told = r"· context  +65,536 tokens, assumed: say it by models.context_tokens"
        assert re.search(told, ended.stdout)
        assert re.search(r"· JSON schema  +not used; the answer was: I am ready", ended.stdout)
        served.script([refusal(401, "no such key")])
        ended = cli(*args, env=environ)
        assert (ended.code, "no such key" in ended.stdout) == (4, True), ended
        rambling = Answer("and " * 300, finish_reason="length", usage=(20, 1000))
        served.script([rambling, refused, Answer("I am ready")])
        ended = cli(*args, env=environ)
        assert ended.code == 0, ended
        assert re.search(
            r"answer  +'and .*, cut off at 1,000 tokens: it finds no end,", ended.stdout
        )
        served.script([Answer("ready", delay=5)])
        ended = cli(*args, env={**environ, "RLM_CI_MODELS_TIMEOUT": "1"})
        assert (ended.code, "not whole after 1 seconds" in ended.stdout) == (4, True), ended
    assert cli("doctor", "mine").code == 2
    unsandboxed = ("doctor", "--sandbox", "none", "--model")
    assert cli(*unsandboxed, env={"PATH": bare}).code == 4
    unset = cli(*unsandboxed, "groq:llama", env={"PATH": bare})
    assert (unset.code, "the key of groq is not set: GROQ_API_KEY" in unset.stdout) == (4, True)


@pytest.mark.full
def test_a_dependency_that_no_validator_would_see_is_a_problem(cli: Cli, repo: GitRepo) -> None:
    repo.write("app/a.js", "1\n").write(".gitignore", "node_modules\ntarget\n").commit()
    repo.write("app/node_modules/x", "1\n").write("target/y", "1\n")
    lines = cli("doctor", "-q", "-C", str(repo.path)).stdout.splitlines()
    at = lines.index("dependencies")
    assert lines[at + 1].split() == ["✓", "seen", "app/node_modules"]
    assert lines[at + 2].split()[:4] == ["·", "left", "out", "target:"]
    (repo.path / "node_modules").symlink_to(repo.path.parent / "gone")
    ended = cli("doctor", "-q", "-C", str(repo.path))
    assert ended.code == 4
    assert "the sandbox does not show this dependency" in ended.stdout
    assert "hint: install it in the work tree" in ended.stdout


# -- the validator of a repository, and the agents ------------------------------------------------


def validator_lines(cli: Cli, repo: GitRepo, *words: str) -> tuple[int, dict[str, str], str]:
    ended = cli("doctor", "--format", "json", *words, cwd=repo)
    section = ended.json()["sections"]["validator"]
    lines = {name: one["detail"] for name, one in section.items()}
    return ended.code, lines, ended.stderr


@pytest.mark.full
def test_a_validator_that_starts_is_named(cli: Cli, repo: GitRepo) -> None:
    repo.write("Makefile", "test:\n\t@echo 2 tests passed\n").commit()
    code, lines, stderr = validator_lines(cli, repo)
    assert (code, lines) == (0, {
        "command": "make test (target test of Makefile)", "start": "it starts: it passes",
    })  # fmt: skip
    assert "starting the validator, for at most 30 s: make test" in stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("files", "what", "hint"),
    [
        ({"package.json": '{"scripts": {"test": "no-such-runner run"}}'},
         "the validator cannot start: no-such-runner was not found", "npm install"),
        ({"package.json": '{"scripts": {"test": "jest --watchAll"}}'},
         "the validator watches for changes, and never ends", "npx jest"),
        ({"Makefile": "check:\n\techo No tests executed!\n",
          "rlm-ci.toml": "[loop]\nvalidator = 'make check'\n"},
         "the validator cannot start: phpunit found no test to run", "--allow-test-edits"),
    ],
)  # fmt: skip
def test_a_validator_that_cannot_start_is_found_before_a_run(
    cli: Cli, repo: GitRepo, files: dict[str, str], what: str, hint: str
) -> None:
    for name, content in files.items():
        repo.write(name, content)
    repo.commit()
    ended = cli("doctor", "-q", cwd=repo)
    assert ended.code == 4, ended
    assert what in ended.stdout
    assert hint in ended.stdout.partition("hint: ")[2]
    assert "starting the validator" not in ended.stderr


@pytest.mark.full
def test_several_validators_are_no_problem_of_the_machine(cli: Cli, repo: GitRepo) -> None:
    repo.write("go.mod", "module s\n").write("Cargo.toml", "[package]\n").commit()
    code, lines, _ = validator_lines(cli, repo)
    assert code == 0
    assert "more than one validator is possible" in lines["none"]
    code, lines, _ = validator_lines(cli, repo, "--validator", "true")
    assert (code, lines["start"]) == (0, "it starts: it passes")


@pytest.mark.full
def test_the_agents_on_path_are_named(cli: Cli, tmp_path: Path, bare: str) -> None:
    program = tmp_path / "agents" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n[ $1 = --version ] && echo codex-cli 1.2.3\n")
    program.chmod(0o755)
    broken = program.with_name("gemini")
    broken.write_text("#!/bin/sh\necho 'Error: no package'; echo Node.js v20; exit 3\n")
    broken.chmod(0o755)
    args = ("doctor", "--sandbox", "none", "--format", "json")
    environ = {"PATH": os.pathsep.join((str(program.parent), bare))}
    sections = cli(*args, env=environ).json()["sections"]
    agents = {name: one["detail"] for name, one in sections["agents"].items()}
    assert agents["codex"] == f"{program}, codex-cli 1.2.3"
    assert agents["gemini"] == "it ends with 3: Error: no package"
    assert "codex" not in agents.get("not on PATH", "")
    assert "validator" not in sections or not sections["validator"]
    ended = cli(*args, "--agent", "gemini", env=environ)
    assert ended.code == 4, "the one that is chosen must start"
