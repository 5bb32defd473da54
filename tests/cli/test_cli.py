"""The command line: words, help, exit codes, streams, and what may stand on them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rlm_ci
from rlm_ci import checks
from rlm_ci.cli import COMMANDS, GROUPS, _help, load, options
from rlm_ci.config.arguments import parse, split_command
from rlm_ci.config.core_options import CHANGE, COMMON, LOCAL_CHANGE
from rlm_ci.config.core_options import FORMATS as EVERY_FORM
from rlm_ci.config.option_help import describe
from rlm_ci.config.settings import Setting
from rlm_ci.errors import EXIT_CODES, UsageError
from testing.repositories.changes import HOSTILE_NAMES, hostile_names, small_change

if TYPE_CHECKING:
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

ROWS = (*COMMON, *CHANGE, *LOCAL_CHANGE)
PROGRAM = [sys.executable, "-I", "-m", "rlm_ci"]


def complaint(ended: Ended, code: int) -> tuple[str, str]:
    """What and hint of a failure that said nothing else."""
    assert ended.code == code, ended
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["error", "hint"], ended.stderr
    assert all(line.isprintable() for line in lines)
    return lines[0].removeprefix("error: "), lines[1].removeprefix("hint: ")


# -- reading words ------------------------------------------------------------------------------


def test_flags_stand_before_and_behind_the_command() -> None:
    for words in (
        ["-C", "/x", "--quiet", "check", "a", "--format=json"],
        ["check", "a", "-C", "/x", "--quiet", "--format", "json"],
        ["--format=json", "-C=/x", "check", "-q", "a"],
    ):
        name, rest = split_command(words, COMMON)
        found = parse(rest, ROWS, "rlm-ci check")
        assert (name, found.positionals) == ("check", ("a",))
        assert found.flags == {"repo": "/x", "quiet": True, "format": "json"}


def test_a_value_is_never_taken_for_a_word() -> None:
    name, rest = split_command(["--task", "check", "pr"], COMMON)
    assert (name, parse(rest, ROWS, "").flags) == ("pr", {"task": "check"})
    found = parse(["--base", "-x", "--head=--staged", "--", "-y", "--base"], ROWS, "")
    assert found.flags == {"base": "-x", "head": "--staged"}
    assert found.trailing_paths == ("-y", "--base")
    assert parse(["--config=a=b"], ROWS, "").flags == {"config": "a=b"}
    assert parse(["--no-color", "--no-staged"], ROWS, "").flags == {"color": False, "staged": False}
    assert parse(["-"], ROWS, "").positionals == ("-",)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--bsae", "x"], "unknown option '--bsae'"),
        (["--bsae=x"], "unknown option '--bsae'"),
        (["-z"], "unknown option '-z'"),
        (["-qv"], "unknown option '-qv'"),
        (["--base"], "--base needs a value"),
        (["--base="], "--base needs a value"),
        (["--base", ""], "--base needs a value"),
        (["--base", "--staged"], "--base needs a value"),
        (["--base", "--", "x"], "--base needs a value"),
        (["--quiet=yes"], "--quiet takes no value"),
        (["--no-base"], "unknown option '--no-base'"),
    ],
)
def test_wrong_words(words: list[str], what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        parse(words, ROWS, "here")
    assert caught.value.where == "here"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (["chek"], "unknown command 'chek'", "did you mean check?"),
        (
            ["zzz"],
            "unknown command 'zzz'",
            "rlm-ci --help lists the commands",
        ),
        (["a\x1b[31m\n::error::x"], r"unknown command 'a\x1b[31m\n::error::x'", ""),
        (["x" * 5000], "unknown command 'xxxx", ""),
        (["--qiet", "check"], "unknown option '--qiet'", "did you mean --quiet?"),
        (["--staged", "check"], "unknown option '--staged'", "options of a command after it"),
        (["-q"], "a command is missing", "check, pr"),
        (["--", "check"], "a command is missing", ""),
        (["check", "dif-budget"], "unknown check 'dif-budget'", "did you mean diff-budget?"),
        (["check", "--stagd"], "unknown option '--stagd'", "did you mean --staged?"),
        (["wiki", "--base", "x"], "unknown option '--base'", "rlm-ci wiki --help lists"),
        (["check", "--base"], "--base needs a value", "--base REF"),
        (["check", "diff-budget", "--require", "x"], "unknown option '--require'", ""),
        (["pr", "x"], "pr takes no arguments", "rlm-ci pr"),
        (["pr", "--", "x"], "pr takes no arguments", ""),
        (["pr", "--staged"], "unknown option '--staged'", ""),
        (["config", "x"], "config takes no arguments", ""),
        (["config", "--format", "sarif"], "config has no form 'sarif'", "text or json"),
        (["init", "x"], "init takes no arguments", ""),
        (["init", "--format", "json"], "init has no form 'json'", "text"),
        (["verify"], "verify takes one report, run or receipt", "REPORT"),
        (["verify", "a", "b"], "verify takes one report, run or receipt", ""),
        (["verify", "a", "--format", "html"], "verify has no form 'html'", ""),
        (["help", "chek"], "unknown command 'chek'", ""),
        (["bench"], "bench takes list, run PACK, review, or compare", ""),
        (["version"], "unknown command 'version'", "did you mean rlm-ci --version?"),
        (["lint"], "unknown command 'lint'", "did you mean rlm-ci check?"),
        (["scan"], "unknown command 'scan'", "did you mean rlm-ci check?"),
        (["setup"], "unknown command 'setup'", "did you mean rlm-ci init?"),
        (["prune"], "unknown command 'prune'", "did you mean rlm-ci list --prune?"),
        (["list", "--json"], "unknown option '--json'", "did you mean --format json?"),
        (["--json", "list"], "unknown option '--json'", "did you mean --format json?"),
        (["check", "--sarif"], "unknown option '--sarif'", "did you mean --format sarif?"),
        (["list", "--sarif"], "unknown option '--sarif'", "rlm-ci list --help"),
        (["check", "."], "unknown check '.'", "did you mean rlm-ci check -- .?"),
    ],
)
def test_wrong_use_is_2_with_nothing_on_stdout(
    cli: Cli, repo: GitRepo, words: list[str], what: str, hint: str
) -> None:
    said = complaint(cli(*words, cwd=repo), 2)
    assert what in said[0]
    assert hint in said[1]
    assert len(said[0]) < 200


def test_a_wrong_value_is_5_and_names_its_source(cli: Cli, repo: GitRepo) -> None:
    for words, env, source in (
        (["check", "--format", "pdf"], {}, "(--format)"),
        (["check"], {"RLM_CI_FORMAT": "pdf"}, "(RLM_CI_FORMAT)"),
        (["check", "--max-files", "-1"], {}, "(--max-files)"),
        (["check"], {"DIFF_BUDGET_MAX_LINES": "many"}, "(DIFF_BUDGET_MAX_LINES)"),
        (["check", "--fail-level", "worst"], {}, "(--fail-level)"),
        (["check"], {"RLM_CI_CHECKS": "diff-budget,nope"}, "(RLM_CI_CHECKS)"),
        (["check", "-C", "/no/such"], {}, "(--repo)"),
        (["check"], {"CODEX_ORCHESTRATOR_ROOT": "/no/such"}, "(CODEX_ORCHESTRATOR_ROOT)"),
    ):
        assert complaint(cli(*words, cwd=repo, env=env), 5)[0].endswith(source)


def test_the_options_of_a_check_follow_its_name_and_not_other_words(
    cli: Cli, repo: GitRepo
) -> None:
    repo.write("a", "x\n").commit()
    # The task is called like a check; so is a path. All checks run, with all options.
    for words in (
        ["--task", "doc-archive", "--max-files", "3"],
        ["delegation-guard", "--task", "x", "diff-budget", "--max-files", "3"],
        ["diff-budget", "--max-files", "3", "--", "doc-archive"],
    ):
        ended = cli("check", *words, cwd=repo)
        assert ended.code in (0, 1), (words, ended)


# -- help and version ---------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"], ["-q", "--help"]])
def test_help_of_the_program(cli: Cli, words: list[str]) -> None:
    ended = cli(*words)
    assert (ended.code, ended.stderr) == (0, "")
    _, _, listed = ended.stdout.partition("\ncommands:\n")
    assert [line.split()[0] for line in listed.splitlines()[:8]] == [
        "check", "pr", "review", "fix", "ask", "wiki", "init", "doctor",
    ]  # fmt: skip
    assert "rlm-ci help --all lists all commands" in ended.stdout
    for code, name, _ in EXIT_CODES:
        assert f"\n  {code:<5}{name}" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


def test_help_of_all_commands(cli: Cli) -> None:
    ended = cli("help", "--all")
    assert cli("--help", "--all").stdout == ended.stdout
    assert cli("check", "--help", "--all").stdout == cli("help", "--all", "check").stdout
    for name in COMMANDS:
        assert f"\n  {name} " in ended.stdout
    for title in ("pull requests", "runs", "delegation", "lab"):
        assert f"\n{title}:\n" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(cli: Cli, name: str) -> None:
    texts = {
        cli(*words).stdout
        for words in ([name, "--help"], ["help", name], ["--help", name], [name, "-h", "--x"])
    }
    assert len(texts) == 1
    (text,) = texts
    lines = text.splitlines()
    assert lines[2].startswith(f"usage: rlm-ci {name} ")
    assert max(map(len, lines)) <= 80 or any("rlm-ci" in line for line in lines if len(line) > 80)
    assert len(lines) <= (40 if name in GROUPS["for every day"] else 60)
    assert not any(line != line.rstrip() or line.endswith("…") for line in lines)
    full = cli("help", "--all", name).stdout
    assert "\n  -V, --version " in full
    assert "\n  -h, --help " in full
    for row in options(load(name), ()):
        if row.flag:
            flag = f"--no-{row.flag[2:]}" if row.default is True else row.flag
            is_named = f" {flag}" in text or f" --[no-]{row.flag[2:]}" in text
            assert is_named or f" {row.short}" in text, flag
            assert f" {flag}" in full or f" --[no-]{row.flag[2:]}" in full, flag


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_in_the_help_and_is_understood(name: str) -> None:
    command = load(name)
    assert command.EXAMPLES
    for example in command.EXAMPLES:
        for is_full in (False, True):
            text = _help(name, command, options(command, ()), is_full=is_full)
            assert f"\n  {example}\n" in text
        words = shlex.split(example)
        ends = [at for at, word in enumerate(words) if word in {"<", ">"}]
        program, *given = words[: ends[0] if ends else None]
        found, rest = split_command(given, COMMON)
        assert (program, found) == ("rlm-ci", name)
        _, fewest, most = command.TAKES
        read = parse(rest, options(command, rest), example)
        assert fewest <= len(read.words) <= most


def test_help_of_checks_shows_their_options(cli: Cli) -> None:
    every = cli("help", "--all", "check").stdout
    one = cli("help", "--all", "check", "diff-budget").stdout
    for name in checks.names():
        for row in checks.load(name).OPTIONS:
            if row.flag:
                off = row.kind == "boolean" and row.default is True
                flag = f" --no-{row.flag[2:]}" if off else f" {row.flag}"
                assert flag in every
                assert (flag in one) == (name == "diff-budget")
        assert (f"\noptions of {name}:\n" in every) == any(
            row.flag for row in checks.load(name).OPTIONS
        )


def test_options_are_wrapped_at_the_width() -> None:
    row = Setting("x", "word " * 40, "d", flag="--a-rather-long-option", metavar="VALUE")
    lines = describe([row], 80).splitlines()
    assert lines[0] == "      --a-rather-long-option VALUE"
    assert all(line.startswith(" " * 28) and len(line) <= 80 for line in lines[1:])
    assert lines[-1].endswith("(default: d)")


@pytest.mark.parametrize(
    "words", [["--version"], ["check", "--version"], ["--version", "pr"], ["-q", "--version"]]
)
def test_version(cli: Cli, words: list[str]) -> None:
    ended = cli(*words)
    assert (ended.code, ended.stdout) == (0, f"rlm-ci {rlm_ci.__version__}\n")


# -- quiet, verbose, output, dry run ------------------------------------------------------------


@pytest.fixture
def over(repo: GitRepo) -> GitRepo:
    """A repository whose last commit has more than one file."""
    repo.write("start", "").commit()
    repo.write("a.txt", "1\n2\n").write("b.txt", "3\n").commit()
    return repo


BUDGET = ("check", "diff-budget", "--commit", "HEAD", "--max-files", "1")


def test_quiet_and_verbose(cli: Cli, over: GitRepo) -> None:
    normal, quiet, verbose = (
        cli(*BUDGET, *flags, cwd=over) for flags in ([], ["-q"], ["--verbose"])
    )
    assert [one.code for one in (normal, quiet, verbose)] == [1, 1, 1]
    assert 0 < len(quiet.stdout) < len(normal.stdout) <= len(verbose.stdout)
    assert "diff-budget/files" in quiet.stdout
    clean = cli("check", "diff-budget", "-q", cwd=over)
    assert (clean.code, clean.stdout, clean.stderr) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
@pytest.mark.parametrize(
    ("changed", "coloured"),
    [({}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False), ({"TERM": None}, True)],
)
def test_colour_is_for_terminals_that_have_it(
    over: GitRepo, changed: dict[str, str | None], *, coloured: bool
) -> None:
    env = {**os.environ, "TERM": "xterm-256color", **changed}
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        [*PROGRAM, *BUDGET],
        cwd=over,
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in env.items() if value is not None},
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # so Linux tells the end of a terminal
        while block := os.read(ours, 1 << 16):
            said += block
    os.close(ours)
    assert child.wait(timeout=30) == 1
    assert (b"\x1b[" in said) == coloured


def test_output_to_a_file(cli: Cli, over: GitRepo, tmp_path: Path) -> None:
    target = tmp_path / "out put.json"
    ended = cli(*BUDGET, "--format", "json", "-o", str(target), cwd=over)
    assert (ended.code, ended.stdout, ended.stderr) == (1, "", f"written: {target}\n")
    assert cli(*BUDGET, "-q", "-o", str(target.with_name("q")), cwd=over).stderr == ""
    assert target.read_text() == cli(*BUDGET, "--format", "json", cwd=over).stdout
    bad = cli(*BUDGET, "--output", str(tmp_path / "no" / "such" / "x"), cwd=over)
    assert complaint(bad, 9)[0].startswith("cannot be written: No such file or directory")


def test_a_file_called_dash_is_standard_output(cli: Cli, over: GitRepo) -> None:
    for words in (BUDGET, ("list", "--format", "json")):
        ended = cli(*words, "-o", "-", cwd=over)
        assert ended.stdout == cli(*words, cwd=over).stdout != "", words
    assert not (over.path / "-").exists()


def test_output_to_a_pipe_does_not_replace_it(over: GitRepo, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = [*PROGRAM, *BUDGET, "--output", str(pipe)]
    child = subprocess.Popen(words, cwd=over, stdout=subprocess.DEVNULL)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert child.wait(timeout=30) == 1
    assert b"diff-budget/files" in os.read(reader, 1 << 16)
    os.close(reader)
    assert pipe.is_fifo()


def test_a_dry_run_reports_the_same_and_ends_with_0(cli: Cli, over: GitRepo) -> None:
    for args in (BUDGET, ("check", "diff-budget", "--base", "nope")):
        real, dry = cli(*args, cwd=over), cli(*args, "--dry-run", cwd=over)
        assert real.code in (1, 5)
        assert (dry.code, dry.stdout, dry.stderr) == (0, real.stdout, real.stderr)


def test_the_fail_level(cli: Cli, over: GitRepo) -> None:
    codes = [
        cli(*BUDGET, "--fail-level", level, cwd=over).code
        for level in ("info", "low", "medium", "high", "critical")
    ]
    assert codes == [1, 1, 1, 1, 0]
    over.write("rlm-ci.toml", 'fail_level = "critical"\n').commit()
    over.write("c.txt", "").write("d.txt", "").commit()
    assert cli("check", "diff-budget", "--base", "HEAD~1", "--max-files", "1", cwd=over).code == 0


# -- the other exit codes -----------------------------------------------------------------------


def test_4_a_program_is_missing(cli: Cli, over: GitRepo, tmp_path: Path) -> None:
    ended = cli(*BUDGET, "--format", "json", cwd=over, env={"PATH": str(tmp_path)})
    assert (ended.code, ended.json()["verdict"]) == (4, "not_run")
    assert "error: git could not be started" in ended.stderr
    assert "hint: install git" in ended.stderr


def test_5_a_base_that_is_not_there(cli: Cli, over: GitRepo) -> None:
    ended = cli("check", "--base", "no such", "--format", "json", cwd=over)
    assert (ended.code, ended.json()["verdict"]) == (5, "not_run")
    assert {part["verdict"] for part in ended.json()["parts"]} == {"not_run"}
    # One cause, told once.
    assert ended.stderr.count("error: ") == 1
    assert "the base 'no such' is not in this clone (--base)" in ended.stderr


def test_5_the_current_folder_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir '{gone}'; exec \"$@\""
    ended = subprocess.run(
        ["sh", "-c", script, "sh", *PROGRAM, "check"],
        cwd=gone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 5
    assert "error: the current folder has been removed" in ended.stderr


def test_5_or_6_a_git_marker_that_leads_nowhere(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /no/such\n")
    assert cli("check", "diff-budget").code == 5
    (tmp_path / ".git").write_bytes(b"\xff\0garbage")
    assert cli("check", "diff-budget").code == 6


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [BUDGET, ("--help",), ("config",), ("--version",)])
def test_9_standard_output_is_full(over: GitRepo, words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*PROGRAM, *words], cwd=over, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 9
    assert ended.stderr.startswith(b"error: the result cannot be written: No space left on device")
    assert b"Traceback" not in ended.stderr
    assert b"Exception" not in ended.stderr


def test_9_standard_output_is_closed(over: GitRepo) -> None:
    for redirect in (">&-", ">&- 2>&-", "<&- >&- 2>&-"):
        ended = subprocess.run(
            ["sh", "-c", f'exec "$@" {redirect}', "sh", *PROGRAM, *BUDGET],
            cwd=over, capture_output=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 9, (redirect, ended)
        assert b"Traceback" not in ended.stderr
    without_input = ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "check", "--hook", "pre-push"]
    assert subprocess.run(without_input, cwd=over, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        " ".join(BUDGET),
        "--help",
        "check --format json",
        "check --output /dev/stdout",
        "config",
        "list",
        "pr --base HEAD --format sarif --quiet",
    ],
)
def test_141_the_reader_has_gone(line: str, over: GitRepo) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [*PROGRAM, *line.split()], cwd=over, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_141_the_reader_goes_while_a_large_result_is_written(over: GitRepo) -> None:
    name = "x" * 200
    for number in range(600):  # more than a pipe holds
        over.write(f"docs/{name}{number}.md", "<!-- docs-archive:stub -->\n")
    over.commit("Add stubs")
    over.branch("doc-archives")
    reads = 'set -o pipefail; "$@" | head -c 100'
    words = ["check", "doc-archive", "--base", "HEAD~1", "--format", "json"]
    ended = subprocess.run(
        ["bash", "-c", reads, "bash", *PROGRAM, *words], cwd=over, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (141, b"")
    assert len(ended.stdout) == 100


def test_a_run_whose_reader_has_gone_ends_as_it_would(over: GitRepo) -> None:
    ended = subprocess.run(
        ["bash", "-c", '"$@" | true', "bash", *PROGRAM, "pr", "--max-lines", "1"],
        cwd=over, capture_output=True, check=False,
    )  # fmt: skip
    assert b"error" not in ended.stderr
    (manifest,) = over.path.glob(".runs/*/cli/*/manifest.json")
    assert json.loads(manifest.read_text())["status"] == "failed"


@pytest.fixture
def broken_copy(tmp_path: Path) -> list[str]:
    """The program from a copy of the package in which one check is broken."""
    source = Path(rlm_ci.__file__).parent
    copy = tmp_path / "copy" / "rlm_ci"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("templates", "schemas"):
        shutil.copytree(source.parent / folder, copy.parent / folder)
    (copy / "checks" / ".a_check.py.swp").write_text("an editor's file")
    (copy / "checks" / "notes.md").write_text("# no check\n")
    (copy / "checks" / "drop_in.py").write_text(
        'ID = "drop-in"\nSUMMARY = "breaks"\nOPTIONS = ()\nHOOKS = {}\n'
        "def run(changes, options, runs):\n"
        '    raise ZeroDivisionError("::error::x\\x1b[31m ##[error] \\ud800")\n'
    )
    code = f"import sys; sys.path.insert(0, {str(copy.parent)!r}); from rlm_ci.cli import main; "
    return [sys.executable, "-I", "-c", f"{code}sys.exit(main())"]


def test_10_a_bug_leaves_its_traceback_in_the_state_folder(
    broken_copy: list[str], over: GitRepo, tmp_path: Path
) -> None:
    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*broken_copy, *words], cwd=over, env={**os.environ, **env},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    state = tmp_path / "state"
    ended = run("check", "drop-in", XDG_STATE_HOME=str(state))
    assert (ended.returncode, ended.stdout) == (10, "")
    (log,) = (state / "rlm-ci").iterdir()
    first, second = ended.stderr.splitlines()
    assert first.startswith("error: internal error: ZeroDivisionError: ")
    assert first.endswith(f"(the traceback is in {log})")
    assert second.startswith("hint: this is a bug in rlm-ci")
    assert "\x1b" not in ended.stderr
    assert "##[" not in ended.stderr
    assert "ZeroDivisionError" in log.read_text()
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    # Without a place for it, the line of the code is told.
    (tmp_path / "file").write_text("")
    ended = run("check", "drop-in", XDG_STATE_HOME=str(tmp_path / "file"))
    assert ended.returncode == 10
    assert "(at drop_in.py:6)" in ended.stderr
    # The other checks are not harmed by it, nor by what editors leave behind.
    assert run("check", "diff-budget").returncode == 0
    known = ", ".join(sorted((*checks.names(), "drop-in")))
    assert f"known are: {known}" in run("check", "zzz").stderr


def _slow_git(folder: Path) -> dict[str, str]:
    """A PATH whose git says that it is there, and then takes its time."""
    folder.mkdir()
    script = folder / "git"
    script.write_text(f"#!/bin/sh\ntouch '{folder}/started'\nexec sleep 30\n")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_130_and_143_a_signal_ends_it_and_its_children(
    over: GitRepo, tmp_path: Path, number: int, code: int, said: str
) -> None:
    bin_folder = tmp_path / "bin"
    child = subprocess.Popen(
        [*PROGRAM, *BUDGET], cwd=over, env=_slow_git(bin_folder),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(500):
        if (bin_folder / "started").exists():
            break
        time.sleep(0.02)
    began = time.monotonic()
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (code, "", f"{said}\n")
    assert time.monotonic() - began < 10


# -- what may stand on the streams --------------------------------------------------------------


def test_no_name_can_forge_or_hide_a_line(cli: Cli, repo: GitRepo) -> None:
    made = hostile_names(repo)
    assert len(HOSTILE_NAMES) > 10
    for args in (["--max-files", "0"], ["--max-files", "0", "-v"], ["--max-lines", "0", "-q"]):
        ended = cli("check", "--base", made.base, *args, cwd=repo)
        assert ended.code == 1
        for line in (ended.stdout + ended.stderr).split("\n"):
            assert line == "" or line.isprintable(), repr(line)
            assert not line.lstrip().startswith("::")
            assert "##[" not in line


def test_hostile_arguments_are_told_harmlessly(cli: Cli, repo: GitRepo) -> None:
    small_change(repo)
    hostile = "::error::x\r\n##[error]y\x1b]0;t\x07\u202e\udcff"
    for words in (
        [hostile], ["check", hostile], ["check", f"--{hostile}"], ["check", "--base", hostile],
        ["check", "--format", hostile], ["check", "-C", hostile], ["verify", hostile],
        ["check", "--config", hostile], ["check", "--event", hostile], ["pr", "--head", hostile],
        ["check", "--task", hostile], ["check", "--", hostile],
    ):  # fmt: skip
        ended = cli(*words, cwd=repo)
        assert ended.code in (2, 5), words
        for line in ended.stderr.splitlines():
            assert line.isprintable()
            assert "##[" not in line
            assert not line.startswith("::")


def test_no_secret_of_the_environment_is_told(cli: Cli, over: GitRepo, tmp_path: Path) -> None:
    secrets = {
        "OPENAI_API_KEY": "sk-verysecret", "GITHUB_TOKEN": "ghs_verysecret",
        "AWS_SECRET_ACCESS_KEY": "verysecret",
    }  # fmt: skip
    for words in (["config", "-v"], ["config", "--format", "json"], ["check", "--base", "x"],
                  ["pr", "--out", str(tmp_path / "out")], [*BUDGET, "-v"]):  # fmt: skip
        ended = cli(*words, cwd=over, env=secrets)
        assert "verysecret" not in ended.stdout + ended.stderr
    for path in (tmp_path / "out").iterdir():
        assert "verysecret" not in path.read_text()


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["review", "HEAD~1"], 5, "did you mean --base HEAD~1?"),
        (["review", "main..HEAD"], 5, "did you mean --base main --head HEAD?"),
        (["review", "nothing"], 5, "name a folder that is there"),
        (["wiki", "HEAD"], 5, "a wiki is that of the commit that is checked out, or of --worktree"),
        (["pr", "main"], 2, "did you mean rlm-ci pr --base main?"),
        (["pr", "nothing"], 2, "rlm-ci pr [--base REF] [--head REF] [--event FILE] [OPTION...]"),
        (["check", "main"], 2, "did you mean rlm-ci check --base main?"),
        (["check", "HEAD~1...main"], 2, "did you mean rlm-ci check --base HEAD~1 --head main?"),
        (["check", "a"], 2, "did you mean rlm-ci check -- a?"),
    ],
)
def test_a_ref_in_the_place_of_another_word(
    cli: Cli, repo: GitRepo, words: list[str], code: int, hint: str
) -> None:
    repo.write("a", "").commit()
    repo.write("a", "a").commit()
    assert complaint(cli(*words, cwd=repo), code)[1] == hint


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_the_formats_that_a_command_has(cli: Cli, name: str) -> None:
    module = load(name)
    forms = getattr(module, "FORMS", EVERY_FORM)
    shown = " ".join(cli("help", "--all", name).stdout.split())
    (line,) = [text for text in cli(name, "--help").stdout.splitlines() if "--format NAME" in text]
    assert ", ".join(forms) in line
    assert f"format of the result: {', '.join(forms)} (default: text)" in shown
    source = Path(str(module.__file__)).read_text()
    refused = ("require_text_or_json" in source, 'require_text("' in source)
    if refused[0] and forms == EVERY_FORM:  # of a part of it alone
        assert name in ("bench", "review", "rlm")
    if refused[1]:
        assert forms == ("text",)
