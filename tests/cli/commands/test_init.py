"""rlm-ci init: what it writes, what it leaves alone, and to which commit it pins."""

from __future__ import annotations

import io
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from rlm_ci import __version__
from rlm_ci.cli import main, new_config
from rlm_ci.cli.commands import init
from rlm_ci.cli.new_workflows import workflows
from rlm_ci.config.settings import parse_config
from rlm_ci.judge.options import REPORT_NAME
from rlm_ci.models.providers import PROVIDERS
from rlm_ci.system import installation

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

ALWAYS = [".github/workflows/rlm-ci.yml", ".gitignore", ".pre-commit-config.yaml", "rlm-ci.toml"]
PUBLISH = ".github/workflows/rlm-ci-publish.yml"
WIKI = ".github/workflows/rlm-ci-wiki.yml"
COMMENT = ".github/workflows/rlm-ci-comment.yml"
COMMIT = "1" * 40


def contents(repo: GitRepo) -> dict[str, bytes]:
    """Every file of the work tree by its path."""
    return {
        path.relative_to(repo.path).as_posix(): path.read_bytes()
        for path in repo.path.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(repo.path).parts
    }


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        ([], []),
        (["--fork-safe"], [PUBLISH]),
        (["--slash-commands"], [COMMENT]),
        (["--fork-safe", "--slash-commands"], [PUBLISH, COMMENT]),
        (["--wiki"], [WIKI]),
    ],
)
def test_what_is_written(cli: Cli, repo: GitRepo, flags: list[str], more: list[str]) -> None:
    ended = cli("init", *flags, cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")
    written = contents(repo)
    assert sorted(written) == sorted([*ALWAYS, *more])
    for path in written:
        assert f"written    {path}" in ended.stdout
    assert ("default branch" in ended.stdout) == bool({PUBLISH, COMMENT}.intersection(more))
    assert ("Allow GitHub Actions to create" in ended.stdout) == (WIKI in more)
    again = cli("init", *flags, cwd=repo)
    assert again.code == 0
    assert "written" not in again.stdout
    assert contents(repo) == written


def test_tests_on_broken_code_are_offered_and_named_for_a_workflow(cli: Cli, repo: GitRepo) -> None:
    offered = cli("init", cwd=repo).stdout
    assert "rlm-ci init --test-bite" in offered
    ended = cli("init", "--test-bite", "--force", cwd=repo)
    assert "rlm-ci init --test-bite" not in ended.stdout
    named = config(repo)["checks"]
    assert isinstance(named, list)
    assert "test-bite" in named
    assert "test-guard" in named
    assert "delegation-guard" not in named  # it has nothing to judge in such a repository
    repo.commit()
    judged = cli("check", "--commit", "HEAD", cwd=repo)
    assert judged.code == 0
    assert re.search(r"test-bite +no test is added or changed", judged.stdout)


@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_settings_in_pyproject_stay_the_only_ones(
    cli: Cli, repo: GitRepo, flags: list[str]
) -> None:
    repo.write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "low"\n')
    ended = cli("init", *flags, cwd=repo)
    assert ended.code == 0, ended.stderr
    assert "kept       [tool.rlm-ci] of pyproject.toml is the configuration\n" in ended.stdout
    assert not (repo.path / "rlm-ci.toml").exists()
    told = cli("config", cwd=repo)
    assert (told.code, "pyproject.toml" in told.stdout) == (0, True), told.stderr


def test_a_pyproject_without_our_settings_is_nothing_to_us(cli: Cli, repo: GitRepo) -> None:
    for text in ("[tool.ruff]\n", "[tool.rlm-ci]\n", "[tool.rlm-ci\n"):
        repo.write("pyproject.toml", text)
        assert cli("init", "--force", cwd=repo).code == 0
        assert (repo.path / "rlm-ci.toml").exists()


def test_every_line_of_the_settings_holds_without_its_hash(cli: Cli, repo: GitRepo) -> None:
    """Defaults are valid, and so are the examples of what has none."""
    from rlm_ci.config.options import PROGRAM

    text = new_config.full_config()
    wanted = {row.key for row in PROGRAM if row.file and not row.secret}
    section, seen, plain = "", set(), []
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:-1]
            plain.append(line)
        elif found := re.match(r"# ([a-z_]+) = ([^#]+)$", line):
            seen.add(f"{section}.{found[1]}".lstrip("."))
            plain.append(line[2:])
    tables = {row.key for row in PROGRAM if row.kind in ("table", "tables") and row.file}
    # TOML has either a value there or a table, so that one stands in place of the other.
    inner = {key for key in wanted if key.rpartition(".")[0] in wanted}
    assert inner == {"review.ruff.extend"}
    assert "#   ruff = { extend = [] }" in text
    assert wanted <= seen | tables | inner
    (repo.path / "rlm-ci.toml").write_text("\n".join(plain) + "\n", "utf-8")
    ended = cli("config", cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")


def test_half_of_the_two_jobs_is_not_written(cli: Cli, repo: GitRepo) -> None:
    """The first job of a plain `init` leaves no report, so that the second would only fail."""
    assert cli("init", cwd=repo).code == 0
    before = contents(repo)
    ended = cli("init", "--fork-safe", cwd=repo)
    assert ended.code == 5
    assert "uploads no report for the second job" in ended.stderr
    assert "rlm-ci init --fork-safe --force" in ended.stderr
    assert contents(repo) == before
    assert cli("init", "--fork-safe", "--force", cwd=repo).code == 0
    assert REPORT_NAME.encode() in repo.read(".github/workflows/rlm-ci.yml")
    assert PUBLISH in contents(repo)


def test_nothing_is_overwritten_without_force(cli: Cli, repo: GitRepo) -> None:
    flags = ("--fork-safe", "--slash-commands")
    own = [path for path in (*ALWAYS, PUBLISH, COMMENT) if path != ".gitignore"]
    repo.write_all(dict.fromkeys(own, f"mine, with {REPORT_NAME}\n"))
    kept = cli("init", *flags, cwd=repo)
    assert kept.code == 0
    for path in own:
        assert f"kept       {path} (it exists; --force overwrites it)" in kept.stdout
        assert repo.read(path).startswith(b"mine")
    forced = cli("init", *flags, "--force", cwd=repo)
    for path in own:
        assert f"written    {path}" in forced.stdout
        assert not repo.read(path).startswith(b"mine")
        assert repo.read(f"{path}.orig").startswith(b"mine")
    repo.write("rlm-ci.toml", "again\n")
    assert "(the previous one: rlm-ci.toml.orig1)" in cli("init", "--force", cwd=repo).stdout
    assert repo.read("rlm-ci.toml.orig1") == b"again\n"


def test_what_an_own_pre_commit_configuration_lacks_is_told(cli: Cli, repo: GitRepo) -> None:
    repo.write(".pre-commit-config.yaml", "repos: []\n")
    told = cli("init", cwd=repo).stdout
    assert "default_install_hook_types: [pre-commit, pre-push]\n" in told
    assert f"\n  - repo: {installation.URL}\n    rev: " in told
    assert "\n      - id: diff-budget\n" in told
    repo.write(".pre-commit-config.yaml", f"repos:\n  - repo: {installation.URL}\n    rev: v0\n")
    assert "- id: diff-budget" not in cli("init", cwd=repo).stdout


@pytest.mark.parametrize("linked", [".github", ".github/workflows"])
def test_a_linked_folder_is_not_followed(
    cli: Cli, repo: GitRepo, tmp_path: Path, linked: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo.path / linked).parent.mkdir(exist_ok=True)
    os.symlink(tmp_path / "elsewhere", repo.path / linked)
    ended = cli("init", "--fork-safe", cwd=repo)
    assert ended.code == 5
    assert "the folder is a link" in ended.stderr
    assert not list((tmp_path / "elsewhere").iterdir())


def test_outside_of_a_repository_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    ended = cli("init", "--fork-safe")
    assert (ended.code, list(tmp_path.iterdir())) == (5, [])
    assert "git init" in ended.stderr


def test_every_workflow_is_pinned_alike() -> None:
    made = workflows(COMMIT, fork_safe=True, slash_commands=True)
    assert set(made) == {"rlm-ci.yml", "rlm-ci-publish.yml", "rlm-ci-comment.yml"}
    for text in made.values():
        assert re.findall(r"uses: (rlm-ci/.*)", text) == [
            f"rlm-ci/rlm-ci@{COMMIT} # rlm-ci {__version__}"
        ]
        assert "@PIN@" not in text


def test_the_workflow_of_the_wiki_installs_that_commit_and_pushes(cli: Cli, repo: GitRepo) -> None:
    assert cli("init", "--wiki", "--pin", COMMIT, cwd=repo).code == 0
    (job,) = yaml.safe_load(repo.read(WIKI))["jobs"].values()
    _, install, write = job["steps"]
    assert f"rlm-ci[wiki,github,models] @ git+{installation.URL}@{COMMIT}'" in install["run"]
    assert write["run"].endswith('/rlm-ci" wiki --push --to pr')
    assert set(write["env"]) == {"GITHUB_TOKEN", "RLM_CI_MODEL", "OPENAI_API_KEY"}
    made = workflows(
        COMMIT, fork_safe=False, slash_commands=False, wiki=True, provider="groq", model="groq:m"
    )
    (job,) = yaml.safe_load(made["rlm-ci-wiki.yml"])["jobs"].values()
    assert set(job["steps"][2]["env"]) == {"GITHUB_TOKEN", "GROQ_API_KEY"}
    assert "@" not in re.sub(r"\w@[0-9a-f]{40}|\] @ git", "", made["rlm-ci-wiki.yml"])


def test_a_commit_that_is_named_is_the_one(cli: Cli, repo: GitRepo) -> None:
    assert cli("init", "--fork-safe", "--pin", COMMIT, cwd=repo).code == 0
    for path in (".github/workflows/rlm-ci.yml", PUBLISH, ".pre-commit-config.yaml"):
        assert COMMIT.encode() in repo.read(path)


@pytest.mark.parametrize("name", ["v0.1.0", "main", "1" * 39, "1" * 41, "G" * 40, "A" * 40])
def test_a_tag_or_a_branch_is_no_commit(cli: Cli, repo: GitRepo, name: str) -> None:
    before = contents(repo)
    ended = cli("init", f"--pin={name}", cwd=repo)
    assert (ended.code, contents(repo)) == (5, before)
    assert "error: no commit: " in ended.stderr
    assert "40 hex digits" in ended.stderr


def test_without_a_commit_nothing_is_written(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(init, "own_commit", lambda _environ: None)
    before = contents(repo)
    assert main(["init", "-C", str(repo.path)]) == 5
    told = capsys.readouterr().err
    assert contents(repo) == before
    assert "rlm-ci init --pin COMMIT" in told
    assert "git ls-remote https://github.com/rlm-ci/rlm-ci" in told


# -- questions -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answered(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, answers: str, *flags: str, **environ: str
) -> None:
    """Run ``rlm-ci init`` on a terminal where these lines are typed."""
    for name in ("CI", "CODEX_NON_INTERACTIVE", "CODEX_NONINTERACTIVE", "CODEX_NO_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdin", Terminal(answers))
    assert main(["init", "-C", str(repo.path), *flags]) == 0


def config(repo: GitRepo) -> dict[str, object]:
    return parse_config(repo.read("rlm-ci.toml"), "rlm-ci.toml", None)


@pytest.mark.parametrize(
    "case",
    [
        ("\n\n\n\n\n", (), "RMPWC", None, "auto", False),
        ("y\ngroq:llama\nyes\n\n\n", (), "RMPWC", "groq:llama", "auto", True),
        ("n\ny\n\n\n", (), "RPWC", None, "off", True),
        ("what\nN\n\n\n\n", (), "RPWC", None, "off", False),
        ("", (), "R", None, "auto", False),  # the end of what is typed
        ("\n\n\n", ("--model", "m"), "PWC", "m", "auto", False),
        ("\n\n\n", ("--model", "m", "--agents", "codex"), "PW", "m", "auto", False),
        ("", ("--review", "off", "--fork-safe", "--agents", "bots"), "", None, "off", True),
    ],
)
def test_the_questions_on_a_terminal(
    repo: GitRepo,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, tuple[str, ...], str, str | None, str, bool],
) -> None:
    answers, flags, asked, model, review, forks = case
    answered(repo, monkeypatch, answers, *flags)
    asks = r"Review the|Model for|Post comments|Who opens|Check a change"
    questions = re.findall(asks, capsys.readouterr().err)
    assert "".join(one[0] for one in questions) == asked
    written = config(repo)
    assert written.get("model") == model
    assert written["review"] == {"enabled": review}
    assert (repo.path / PUBLISH).exists() == forks


def test_an_answer_that_is_none_is_asked_for_again(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answered(repo, monkeypatch, "what\nN\n\n")
    assert "Please answer y or n: " in capsys.readouterr().err


def test_a_model_of_no_provider_is_asked_for_again(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answered(repo, monkeypatch, "y\nantropic:x\nanthropic:x\n\n\n")
    assert "no provider is called 'antropic'" in capsys.readouterr().err
    assert config(repo)["model"] == "anthropic:x"


def test_people_with_agents_make_test_guard_strict(
    cli: Cli, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = cli("init", cwd=repo).stdout
    assert "test-guard fails what bots and coding agents wrote" in told
    assert config(repo)["test_guard"] == {"fail": False}
    told = cli("init", "--agents", "people", "--force", cwd=repo).stdout
    assert "only reports" not in told
    assert config(repo)["test_guard"] == {"fail": True}
    answered(repo, monkeypatch, "n\nn\npeople\n", "--force")
    assert config(repo)["test_guard"] == {"fail": True}


def test_accounts_that_agents_use_are_strict_authors(
    cli: Cli, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = {"fail": False, "strict_authors": ["our-agent", "helper[bot]"]}
    told = cli("init", "--agents", "@our-agent,@helper[bot],bots", cwd=repo).stdout
    assert config(repo)["test_guard"] == policy
    assert "it fails the pull requests of our-agent and helper[bot] as well" in told
    answered(repo, monkeypatch, "n\nn\nyes\nbots people\n@our-agent, @helper[bot]\n", "--force")
    assert config(repo)["test_guard"] == policy
    again = "Please name bots, people for everybody, or @LOGIN for an account: "
    assert capsys.readouterr().err.count(again) == 2
    assert cli("init", "--agents", "@our-agent", "--full", "--force", cwd=repo).code == 0
    assert config(repo)["test_guard"] == {"strict_authors": ["our-agent"]}
    (repo.path / "rlm-ci.toml").unlink()
    repo.write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "high"\n')
    told = cli("init", "--agents", "@our-agent", cwd=repo).stdout
    assert 'it needs: test_guard.strict_authors = ["our-agent"]' in told


def test_pre_commit_is_named_where_it_is_missing(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    git = shutil.which("git") or ""
    bare = {"PATH": os.path.dirname(git)}
    wanted = "to check each commit too: pip install pre-commit, then pre-commit install"
    assert (wanted in cli("init", cwd=repo, env=bare).stdout) == (
        not shutil.which("pre-commit", path=bare["PATH"])
    )
    program = tmp_path / "pre-commit"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    told = cli("init", cwd=repo, env={"PATH": f"{tmp_path}:{bare['PATH']}"}).stdout
    assert "to check each commit too: pre-commit install\n" in told


# -- the review of other languages ---------------------------------------------------------------


def test_the_repositorys_own_analyzer_is_found_and_switched_on(cli: Cli, repo: GitRepo) -> None:
    repo.write_all({"src/a.ts": "", "src/b.ts": "", "eslint.config.js": "", "run.py": ""})
    told = cli("init", cwd=repo, env={"PATH": "/usr/bin:/bin"}).stdout
    assert "review: eslint, which is not installed here, reads 2 TypeScript files" in told
    assert "review: ruff reads 1 Python file" in told
    assert "installs eslint: npm ci --ignore-scripts" in told
    assert config(repo)["review"] == {"enabled": "auto", "analyzers": "auto"}
    (job,) = yaml.safe_load(repo.read(ALWAYS[0]))["jobs"].values()
    assert "bubblewrap" in job["steps"][1]["run"]
    off = cli("init", "--review", "off", "--force", cwd=repo).stdout
    assert "eslint" not in off
    assert config(repo)["review"] == {"enabled": "off"}
    assert cli("init", "--full", "--force", cwd=repo).code == 0
    assert config(repo)["review"] == {"analyzers": "auto"}


def test_code_that_nothing_reads_is_told(
    cli: Cli, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write_all({"main.go": "", "lib.go": "", "src/lib.rs": "", "go.mod": "module x\n"})
    words = (
        "othing reads 2 Go files, 1 Rust file: set up staticcheck (staticcheck.conf) or clippy "
        "(clippy.toml), or name a model"
    )
    told = cli("init", cwd=repo).stdout
    assert f"review: n{words}" in told
    assert "review: go vet: set up here, and not run by a review" in told
    assert config(repo)["review"] == {"enabled": "auto"}
    answered(repo, monkeypatch, "\n", "--force")
    assert f"N{words}" in capsys.readouterr().err
    told = cli("init", "--model", "openai:m", "--force", cwd=repo).stdout
    assert "review: the model reads every changed file" in told


# -- dry runs, removal ---------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(cli: Cli, repo: GitRepo) -> None:
    before = contents(repo)
    ended = cli("init", "--dry-run", "--fork-safe", "--hooks", cwd=repo)
    assert (ended.code, contents(repo)) == (0, before)
    assert ended.stdout.splitlines() == [
        f"would write {path}" for path in (ALWAYS[0], PUBLISH, "rlm-ci.toml")
    ] + [f"would write .git/hooks/{name}" for name in ("pre-commit", "pre-push")] + [
        "would write .gitignore (.runs/ added)"
    ]  # fmt: skip
    assert not (repo.path / ".git/hooks/pre-commit").exists()


def files_of_git(repo: GitRepo) -> list[Path]:
    return sorted(path for path in (repo.path / ".git").rglob("*") if path.is_file())


@pytest.mark.parametrize("flags", [(), ("--fork-safe", "--slash-commands", "--wiki", "--hooks")])
def test_all_that_was_written_is_removed(cli: Cli, repo: GitRepo, flags: tuple[str, ...]) -> None:
    repo.write(".gitignore", "build").commit()
    before, of_git = contents(repo), files_of_git(repo)
    assert cli("init", *flags, cwd=repo).code == 0
    dry = cli("init", "--remove", "--dry-run", cwd=repo)
    assert "would remove rlm-ci.toml" in dry.stdout
    assert (repo.path / "rlm-ci.toml").exists()
    ended = cli("init", "--remove", cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")
    assert (contents(repo), (repo.path / ".github").exists()) == (before, False)
    assert [
        one
        for one in sorted((repo.path / ".git").rglob("*"))
        if one not in of_git and one.is_file()
    ] == []
    assert "nothing to remove" in cli("init", "--remove", cwd=repo).stdout


def test_what_people_changed_stays_and_what_they_had_comes_back(cli: Cli, repo: GitRepo) -> None:
    repo.write("rlm-ci.toml", 'fail_level = "low"\n')
    assert cli("init", "--force", cwd=repo).code == 0
    repo.append(".pre-commit-config.yaml", "# ours\n").append(".gitignore", "more\n")
    told = cli("init", "--remove", cwd=repo).stdout
    assert "kept       .pre-commit-config.yaml (changed since init wrote it" in told
    assert "removed    rlm-ci.toml (rlm-ci.toml.orig is back)" in told
    assert repo.read("rlm-ci.toml") == b'fail_level = "low"\n'
    assert repo.read(".gitignore") == b"more\n"
    assert (repo.path / ".pre-commit-config.yaml").exists()


def test_another_clone_removes_what_is_as_it_would_be_written(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    assert cli("init", "--fork-safe", cwd=repo).code == 0
    repo.commit()
    clone = repo.clone(tmp_path / "clone")
    told = cli("init", "--remove", cwd=clone).stdout
    assert "removed    rlm-ci.toml" in told
    assert PUBLISH in contents(clone)
    assert f"removed    {PUBLISH}" in cli("init", "--remove", "--fork-safe", cwd=clone).stdout


@pytest.mark.parametrize(("flags", "environ"), [(("--no-interactive",), {}), ((), {"CI": "true"})])
def test_nothing_is_asked_where_nobody_answers(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...], environ: dict[str, str],
) -> None:  # fmt: skip
    answered(repo, monkeypatch, "n\nn\nn\n", *flags, **environ)
    assert capsys.readouterr().err == ""
    assert config(repo)["review"] == {"enabled": "auto"}


# -- the model, the configuration --------------------------------------------------------------


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_model_gets_its_key_and_nothing_more(name: str) -> None:
    made = workflows(COMMIT, fork_safe=True, slash_commands=True, provider=name, model=f"{name}:m")
    row, text = PROVIDERS[name], made["rlm-ci.yml"]
    has_secret = not (row.local or row.by_program)
    assert set(re.findall(r"secrets\.(\w+)", text)) == ({row.keys[0]} if has_secret else set())
    assert (f"RLM_CI_MODEL: {name}:m" in text) == row.local
    assert ("vars.OPENAI_BASE_URL" in text) == (name == "azure")
    assert ("copilot-requests: write" in text) == row.by_program
    assert "timeout-minutes: 60" in text
    assert "@" not in re.sub(r"\w@[0-9a-f]{40}|@github/copilot@1", "", text)
    for one in made.values():
        assert re.findall(r"^ +(?:permissions: .*|models: .*)$", one, re.MULTILINE) == []
    assert "secrets" not in made["rlm-ci-publish.yml"]
    # A comment gets the key for a review and a question alone.
    for line in made["rlm-ci-comment.yml"].splitlines():
        is_label = "'/rlm-ci fix') && secrets.RLM_LABEL_TOKEN" in line
        assert "secrets." not in line or is_label or "'/rlm-ci ask')) && secrets." in line
    *_, last = yaml.safe_load(made["rlm-ci-comment.yml"])["jobs"]["command"]["steps"]
    assert last["env"]


def test_githubs_models_are_asked_with_the_jobs_own_token(cli: Cli, repo: GitRepo) -> None:
    ended = cli("init", "--model", "github", "--wiki", "--pin", COMMIT, cwd=repo)
    assert (ended.code, "no key is needed" in ended.stdout) == (0, True), ended
    assert config(repo)["model"] == "github:auto"
    jobs = {
        path: next(iter(yaml.safe_load(repo.read(path))["jobs"].values()))
        for path in (ALWAYS[0], WIKI)
    }
    for job in jobs.values():
        assert job["permissions"]["copilot-requests"] == "write"
        assert "@github/copilot@" in job["steps"][1]["run"]
    asks = jobs[ALWAYS[0]]["steps"][-1]["env"]["COPILOT_GITHUB_TOKEN"]
    assert asks == (  # a fork's has none
        "${{ github.event.pull_request.head.repo.full_name == github.repository "
        "&& github.token || '' }}"
    )
    assert jobs[WIKI]["steps"][-1]["env"]["COPILOT_GITHUB_TOKEN"] == "${{ github.token }}"
    assert "rlm-ci[wiki,github,copilot] @" in jobs[WIKI]["steps"][2]["run"]


def test_the_workflows_key_and_the_next_steps_are_those_of_the_model(
    cli: Cli, repo: GitRepo
) -> None:
    told = cli("init", "--model", "groq:llama-x", cwd=repo).stdout
    assert "gh secret set GROQ_API_KEY" in told
    assert "rlm-ci doctor --model groq:llama-x" in told
    assert b"GROQ_API_KEY: ${{ secrets.GROQ_API_KEY }}" in repo.read(ALWAYS[0])
    assert config(repo)["model"] == "groq:llama-x"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("groq", "no name of a model: 'groq'"),
        ("groq:", "no name of a model"),
        ('m"\nreview.enabled="off', "no name of a model"),
        ("${{ secrets.X }}", "no name of a model"),
        ("m: x", "no name of a model"),
        ("gorq:m", "no provider is called 'gorq'"),
    ],
)
def test_no_name_of_a_model(
    repo: GitRepo, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    before = contents(repo)
    assert main(["init", "-C", str(repo.path), f"--model={name}"]) == 5
    told = capsys.readouterr().err
    assert words in told
    assert "with one of openai, anthropic" in told
    assert "openai:NAME if the name has a colon" in told
    assert contents(repo) == before


def test_the_configuration_is_short_and_whole_on_demand(cli: Cli, repo: GitRepo) -> None:
    text = new_config.short({"model": "groq:llama", "review.enabled": "off"})
    assert len(text.splitlines()) <= 20
    (repo.path / "rlm-ci.toml").write_text(text, "utf-8")
    effective = cli("config", "--format", "json", cwd=repo)
    assert (effective.code, effective.stderr) == (0, "")
    # What is not chosen is the default.
    plain = parse_config(new_config.short().encode(), "f", None)
    assert plain == {
        "fail_level": "high", "review": {"enabled": "auto"},
        "diff_budget": {"max_files": 25, "max_lines": 1200, "ignore": []},
        "test_guard": {"fail": False},
    }  # fmt: skip
    whole = new_config.full_config({"model": "groq:llama", "review.enabled": "off"})
    assert parse_config(whole.encode(), "f", None)["model"] == "groq:llama"
    assert "\n# timeout = 600" in whole
    assert cli("init", "--full", "--force", cwd=repo).code == 0
    assert b"# timeout = 600" in repo.read("rlm-ci.toml")


def test_a_configuration_that_stays_is_told_what_it_needs(cli: Cli, repo: GitRepo) -> None:
    wish = ("init", "--model", "groq:m", "--review", "off")
    needs = 'it needs: model = "groq:m", review.enabled = "off"\n'
    repo.write("rlm-ci.toml", 'fail_level = "low"\n')
    told = cli(*wish, cwd=repo).stdout
    assert f"kept       rlm-ci.toml (it exists; --force overwrites it); {needs}" in told
    repo.remove("rlm-ci.toml").write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "low"\n')
    told = cli(*wish, cwd=repo).stdout
    assert f"kept       [tool.rlm-ci] of pyproject.toml is the configuration; {needs}" in told
