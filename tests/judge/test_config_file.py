"""The config file: where it is read from, what it may say, and that a change cannot edit it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import checks
from testing.repositories.events import (
    actions_environment,
    merge_group,
    pull_request,
    push,
    write_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

STRICT = "[diff_budget]\nmax_files = 1\n"
LOOSE = "[diff_budget]\nmax_files = 99\n"


def setting(ended: Ended, key: str) -> tuple[Any, str]:
    assert ended.code == 0, ended
    found = ended.json()[key]
    return found["value"], found["source"]


def config(cli: Cli, repo: GitRepo, *args: str, **env: str) -> Ended:
    return cli("config", "--format", "json", *args, cwd=repo, env=env)


def edited(ended: Ended) -> list[str]:
    """The files that the report says the change edits and was not judged by."""
    return [one["subject"] for one in ended.json()["findings"] if one["rule"] == "policy/edited"]


# -- where it comes from ------------------------------------------------------------------------


def test_the_order_of_sources(cli: Cli, repo: GitRepo) -> None:
    key = "diff_budget.max_files"
    assert setting(config(cli, repo), key) == (25, "default")
    repo.write("rlm-ci.toml", "[diff_budget]\nmax_files = 7\n")
    assert setting(config(cli, repo), key) == (7, "rlm-ci.toml")
    legacy = {"DIFF_BUDGET_MAX_FILES": "8"}
    assert setting(config(cli, repo, **legacy), key) == (8, "DIFF_BUDGET_MAX_FILES")
    ours = {**legacy, "RLM_CI_DIFF_BUDGET_MAX_FILES": "9"}
    assert setting(config(cli, repo, **ours), key) == (9, "RLM_CI_DIFF_BUDGET_MAX_FILES")
    repo.write("a", "").write("b", "").commit()
    args = ("check", "diff-budget", "--commit", "HEAD", "--format", "json")
    report = cli(*args, "--max-files", "1", cwd=repo, env=ours).json()
    assert report["parts"][0]["metrics"]["max_files"] == 1
    assert cli(*args, cwd=repo, env=ours).json()["parts"][0]["metrics"]["max_files"] == 9


def test_pyproject_serves_as_well(cli: Cli, repo: GitRepo) -> None:
    repo.write("pyproject.toml", '[project]\nname = "x"\n[tool.rlm-ci]\nfail_level = "low"\n')
    assert setting(config(cli, repo), "fail_level") == ("low", "pyproject.toml")
    base = repo.commit()
    at_base = config(cli, repo, "--base", base)
    assert setting(at_base, "fail_level") == ("low", f"pyproject.toml at {base[:12]}")


def test_both_at_once_are_refused(cli: Cli, repo: GitRepo) -> None:
    repo.write("pyproject.toml", "[tool.rlm-ci]\n").write("rlm-ci.toml", "")
    assert config(cli, repo).code == 0  # an empty table says nothing
    repo.write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "low"\n')
    for args in (("config",), ("check",), ("check", "--staged")):
        ended = cli(*args, cwd=repo)
        assert ended.code == 5
        assert "there are two configurations (rlm-ci.toml and pyproject.toml)" in ended.stderr
        assert ("Not checked" in ended.stdout) == (args != ("config",))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("= 3", "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML"),
        ("\xff", ""),
        ("max_files = 3", "did you mean diff_budget.max_files"),
        ("fail-level = 'low'", "did you mean fail_level?"),
        ("[diff_budgt]", "unknown setting 'diff_budgt'"),
        ("[diff_budget]\nmax_files = -1", "diff_budget.max_files must be a whole number"),
        ("[[suppressions]]\nrule = 'x'", "[[suppressions]] number 1)"),
        ("[[suppressions]]\nrule = 'x'\nreason = 'y'\nuntil = 'soon'", "until must be a day"),
        ("[[suppressions]]\nrule = 'x'\nreason = 'y'\npath = '!'", "pattern cannot be read"),
        (
            "[[suppressions]]\nrule = 'doc-archive/dangle'\nreason = 'y'",
            "did you mean doc-archive/dangling?",
        ),
        ("[[suppressions]]\nrule = 'policy/'\nreason = 'y'", "unknown rule 'policy/'"),
        ("templates = 'x'", "unknown setting 'templates'"),
        ("[review]\nsetup = 'make'", "write it as loop.setup"),
        ("[episode]\nmax_steps = 9", "--max-steps or RLM_CI_EPISODE_MAX_STEPS"),
        ("[wiki]\nprose = false", "--no-prose or RLM_CI_WIKI_PROSE"),
        ("checks = ['nope']", "unknown check 'nope'"),
        ("task = 'x'", "unknown setting 'task'"),
    ],
)
def test_a_bad_file_is_never_clean(cli: Cli, repo: GitRepo, text: str, said: str) -> None:
    base = repo.write("rlm-ci.toml", text).commit()
    for args in ((), ("--base", base), ("--staged",)):
        ended = cli("check", "--format", "json", *args, cwd=repo)
        report = ended.json()
        assert (ended.code, report["verdict"], report["findings"]) == (5, "not_run", []), args
        assert {part["verdict"] for part in report["parts"]} == {"not_run"}
        assert all(said in part["summary"] for part in report["parts"])
        assert ended.stderr.startswith("error: ")
        assert ended.stderr.count("error: ") == ended.stderr.count("hint: ") == 1
        assert said in ended.stderr
        assert "rlm-ci.toml" in ended.stderr
        assert len(ended.stderr) < 2000


@pytest.mark.parametrize("named", [True, False])
def test_nothing_of_a_bad_file_is_obeyed(cli: Cli, repo: GitRepo, *, named: bool) -> None:
    text = "fail_level = 'critical'\nchecks = ['doc-archive']\nmax = 3\n"
    repo.write("rlm-ci.toml", text).commit()
    repo.write(".rlm-ci/templates/comment.md.j2", "MINE")
    names = ("diff-budget",) if named else ()
    report = cli("check", *names, "--format", "json", cwd=repo).json()
    assert report["fail_level"] == "high"
    ids = [part["id"] for part in report["parts"]]
    assert ids == (["diff-budget"] if named else [*checks.names()])
    ended = cli("check", *names, "--format", "markdown", cwd=repo)
    assert (ended.code, "MINE" in ended.stdout) == (5, False)


@pytest.mark.parametrize("text", ["", "fail_level = 'low'\n"])
def test_a_variable_of_a_setting_that_is_gone_is_refused_as_its_key(
    cli: Cli, repo: GitRepo, text: str
) -> None:
    base = repo.write("rlm-ci.toml", text).commit()
    env = {"RLM_CI_PUBLISH_MAX_COMMENTS": "7"}
    for args in ((), ("--base", base), ("--staged",)):
        ended = cli("check", "--format", "json", *args, cwd=repo, env=env)
        report = ended.json()
        assert (ended.code, report["verdict"], report["findings"]) == (5, "not_run", []), args
        assert ended.stderr.startswith(
            "error: unknown setting RLM_CI_PUBLISH_MAX_COMMENTS (the environment)\n"
            "hint: unset it: it is always 50 now\n"
        )
    assert config(cli, repo, RLM_CI_PUBLISH_MAX_COMMENTS=" ").code == 0  # as all that are empty
    for name, hint in (
        ("RLM_CI_REVIEW_SETUP", "set RLM_CI_LOOP_SETUP in place of it"),
        ("RLM_MAX_SNIPPETS_PER_SUBCALL", "unset it: it is always 8 now"),
    ):
        ended = cli("check", cwd=repo, env={name: "7"})
        assert (ended.code, hint in ended.stderr) == (5, True), ended


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RLM_CI_FAIL_LEVLE", "did you mean RLM_CI_FAIL_LEVEL?"),
        ("RLM_CI_REVIEW", "did you mean RLM_CI_REVIEW_ENABLED?"),
        ("RLM_CI_API_KEY", "did you mean RLM_CI_OPENAI_API_KEY?"),
        ("RLM_CI_MAX_FILES", "did you mean RLM_CI_DIFF_BUDGET_MAX_FILES"),
        *((name, "") for name in ("RLM_CI_OUTCOMES", "RLM_CI_DELIVERY_TOKEN", "RLM_CI_CHANNEL")),
        ("RLM_CI_FRAMEWORK_OF_OURS", ""),
        ("RLM_CI_INIT_MODEL", ""),  # of another command
        ("RLM_FAIL_LEVEL", ""),
    ],
)
def test_a_misspelt_variable_is_a_warning(cli: Cli, repo: GitRepo, name: str, hint: str) -> None:
    repo.commit("empty")
    ended = cli("pr", "--base", "HEAD", cwd=repo, env={name: "low"})
    assert ended.code == 0
    assert (f"no setting reads {name}" in ended.stderr) == bool(hint), ended
    assert ended.stderr.count("warning: ") == bool(hint)
    assert hint in ended.stderr


def test_a_check_alone_knows_the_variables_of_others(cli: Cli, repo: GitRepo) -> None:
    repo.commit("empty")
    for name, doubts in (("RLM_CI_FAIL_LEVLE", 1), ("RLM_CI_LOOP_RLMS_AUTO_MAX_FILES", 0)):
        ended = cli("check", "diff-budget", cwd=repo, env={name: "9"})
        assert (ended.code, ended.stderr.count("no setting reads")) == (0, doubts), ended


def test_an_unknown_check_is_refused_whatever_is_named(cli: Cli, repo: GitRepo) -> None:
    repo.write("rlm-ci.toml", 'checks = ["diff-bugdet"]\n').commit()
    for words in (("check",), ("check", "diff-budget"), ("pr",), ("config",)):
        ended = cli(*words, cwd=repo)
        assert (ended.code, "unknown check 'diff-bugdet'" in ended.stderr) == (5, True), words
    repo.remove("rlm-ci.toml")
    ended = cli("check", "diff-budget", cwd=repo, env={"RLM_CI_CHECKS": "nope"})
    assert (ended.code, "RLM_CI_CHECKS" in ended.stderr) == (5, True)


def test_a_suppression_of_no_check_is_doubted_and_ends_nothing(cli: Cli, repo: GitRepo) -> None:
    entry = "[[suppressions]]\nrule = '{}'\nreason = 'r'\n"
    rules = ("doc-archive", "diff-budget/files", "doc-archve/dangling", "model:x/y", "policy")
    repo.write("rlm-ci.toml", "".join(map(entry.format, rules))).commit()
    for command in ("check", "config"):
        ended = cli(command, cwd=repo)
        assert ended.code == 0
        told = ended.stderr.splitlines()
        said = "it covers nothing: there is no check 'doc-archve'"
        assert told[:2] == [
            f"warning: {said} (rlm-ci.toml, [[suppressions]] number 3)",
            "hint: did you mean doc-archive?",
        ]
        assert (len(told), "'model:x'" in told[2], "number 4" in told[2]) == (4, True, True)
    ended = cli("check", cwd=repo, env={"GITHUB_ACTIONS": "true"})
    lines = [line for line in ended.stderr.splitlines() if line.startswith("::")]
    assert [line.partition("::it covers")[0] for line in lines] == ["::warning title=rlm-ci"] * 2
    repo.checkout("feature", new=True).write("a", "").commit()
    ended = cli("pr", cwd=repo, env={"DIFF_BUDGET_BASE": "main"})  # two changes, one file
    assert (ended.code, ended.stderr.count("'doc-archve'")) == (0, 1)


@pytest.mark.parametrize("kind", ["link", "folder", "large", "fifo"])
def test_a_file_that_is_none_is_refused(cli: Cli, repo: GitRepo, kind: str) -> None:

    place = repo.path / "rlm-ci.toml"
    make: dict[str, Callable[[], object]] = {
        "link": lambda: place.symlink_to("/etc/hostname"),
        "folder": place.mkdir,
        "large": lambda: place.write_text("#" * (2 << 20)),
        "fifo": lambda: os.mkfifo(place),
    }
    make[kind]()
    ended = cli("check", cwd=repo, timeout=20)
    assert (ended.code, "Not checked" in ended.stdout) == (5, True)
    assert "the config file cannot be read: " in ended.stderr


def test_a_link_at_the_base_is_refused_as_what_it_is(cli: Cli, repo: GitRepo) -> None:
    base = repo.symlink("rlm-ci.toml", "shared/rlm-ci.toml").commit()
    repo.write("a", "x\n").commit()
    ended = cli("check", "--base", base, cwd=repo)
    assert ended.code == 5
    told = "it is a link, not a regular file (rlm-ci.toml at "
    assert told in ended.stderr


def test_another_file_may_be_named(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    base = repo.write("ci/strict.toml", STRICT).write("rlm-ci.toml", LOOSE).commit()
    repo.write("ci/strict.toml", LOOSE.replace("99", "77"))
    key = "diff_budget.max_files"
    inside = str(repo.path / "ci" / "strict.toml")
    assert setting(config(cli, repo, "--config", inside), key) == (77, inside)
    at_base = config(cli, repo, "--config", inside, "--base", base)
    assert setting(at_base, key) == (1, f"ci/strict.toml at {base[:12]}")
    relative = cli("config", "--format", "json", "--config", "strict.toml", "--base", base,
                   cwd=repo.path / "ci")  # fmt: skip
    assert setting(relative, key)[0] == 1
    outside = tmp_path / "mine.toml"
    outside.write_text(LOOSE.replace("99", "55"))
    assert setting(config(cli, repo, "--config", str(outside), "--base", base), key)[0] == 55
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.rlm-ci.diff_budget]\nmax_files = 44\n")
    assert setting(config(cli, repo, "--config", str(project)), key)[0] == 44
    for name in ("no/such.toml", str(tmp_path)):
        ended = cli("check", "--config", name, "--base", base, cwd=repo)
        assert (ended.code, "Not checked" in ended.stdout) == (5, True)
        assert "the config file cannot be read" in ended.stderr
    link = repo.path / "ci" / "link.toml"
    link.symlink_to(outside)
    # Not in the base, wherever it leads.
    assert config(cli, repo, "--config", str(link), "--base", base).code == 5


# -- a change cannot judge itself ---------------------------------------------------------------


@pytest.fixture
def relaxing(repo: GitRepo) -> tuple[GitRepo, str, str]:
    """The base allows one file; the head allows 99 and has three."""
    base = repo.write("rlm-ci.toml", STRICT).commit()
    head = repo.write("rlm-ci.toml", LOOSE).write("a", "").write("b", "").commit()
    return repo, base, head


@pytest.mark.sample(4)
@pytest.mark.parametrize("way", ["--base", "--event", "pull_request", "push", "merge_group", "hook",
                                 "pre-commit", "BASE_SHA"])  # fmt: skip
def test_the_base_judges_and_the_report_says_so(
    cli: Cli, relaxing: tuple[GitRepo, str, str], tmp_path: Path, way: str
) -> None:
    repo, base, head = relaxing
    payloads = {
        "--event": pull_request(base, head),
        "pull_request": pull_request(base, head),
        "push": push(base, head),
        "merge_group": merge_group(base, head),
    }
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    stdin = ""
    if way in payloads:
        event = write_event(tmp_path, payloads[way])
        args = ("--event", str(event)) if way == "--event" else ()
        env = {} if way == "--event" else actions_environment(way, event)
    elif way == "--base":
        args = ("--base", base)
    elif way == "hook":
        args, stdin = ("--hook", "pre-push"), f"refs/heads/x {head} refs/heads/x {base}\n"
    elif way == "pre-commit":
        env = {"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": head}
    else:
        env = {"BASE_SHA": base}
    ended = cli("check", "--format", "json", *args, cwd=repo, env=env, stdin=stdin)
    rules = [finding["rule"] for finding in ended.json()["findings"]]
    assert (ended.code, rules) == (1, ["diff-budget/files", "policy/edited"])
    assert edited(ended) == ["rlm-ci.toml"]
    text = cli("check", *args, cwd=repo, env=env, stdin=stdin)
    assert "edited here, and not used: rlm-ci.toml" in text.stdout


@pytest.mark.parametrize("args", [(), ("--staged",), ("--commit", "HEAD")])
def test_a_local_change_is_judged_by_the_work_tree(
    cli: Cli, relaxing: tuple[GitRepo, str, str], args: tuple[str, ...]
) -> None:
    repo, _, _ = relaxing
    ended = cli("check", "diff-budget", "--format", "json", *args, cwd=repo)
    assert ended.json()["parts"][0]["metrics"]["max_files"] == 99
    assert edited(ended) == []


def _judge(cli: Cli, repo: GitRepo, base: str, *args: str) -> list[str]:
    ended = cli(
        "check", "diff-budget", "doc-archive", "--format", "json", "--base", base, *args, cwd=repo
    )
    assert ended.code == 0, ended
    return edited(ended)


def test_what_judges_is_told_when_it_is_edited(cli: Cli, repo: GitRepo) -> None:
    names = ["rlm-ci.toml", ".gitattributes", "a b/.gitattributes", ".rlm-ci/templates/comment.md",
             "docs/implementation-docs-archive-policy.json"]  # fmt: skip
    others = ["x.gitattributes", "sub/rlm-ci.toml", ".rlm-ci/templates.md", "templates/x.md"]
    base = repo.write("README", "").commit()
    for name in [*names, *others]:
        repo.write(name, "{}" if name.endswith(".json") else "")
    repo.write(b"caf\xe9\n/.gitattributes", "")
    added = repo.commit()
    assert sorted(_judge(cli, repo, base)) == sorted([*names, r"caf\xe9" + "\n/.gitattributes"])
    repo.remove(*names).commit()
    assert sorted(_judge(cli, repo, added)) == sorted(names)  # deleted: with nothing to point to


def test_pyproject_is_told_only_if_our_table_changed(cli: Cli, repo: GitRepo) -> None:
    table = '[tool.rlm-ci]\nfail_level = "high"\n'
    base = repo.write("pyproject.toml", f'{table}[project]\nname = "a"\n').commit()
    other = repo.write("pyproject.toml", f'{table}# said\n[project]\nname = "b"\n').commit()
    assert _judge(cli, repo, base) == []
    repo.write("pyproject.toml", table.replace("high", "critical")).commit()
    assert _judge(cli, repo, other) == ["pyproject.toml"]
    repo.write("pyproject.toml", "[broken rlm-ci").commit()
    assert _judge(cli, repo, other) == ["pyproject.toml"]


def test_what_the_base_did_since_is_not_the_changes_doing(cli: Cli, repo: GitRepo) -> None:
    fork = repo.write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "high"\n').commit()
    base = repo.write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "low"\n').commit()
    repo.checkout(fork, detach=True)
    repo.append("pyproject.toml", "[project]\nname = 'x'\n").commit()
    assert _judge(cli, repo, base) == []


def test_a_named_config_is_told_as_well(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("ci/x.toml", "").commit()
    repo.write("ci/x.toml", LOOSE).commit()
    assert _judge(cli, repo, base, "--config", "ci/x.toml") == ["ci/x.toml"]
    assert _judge(cli, repo, base) == []


def test_suppressions_of_the_head_do_not_count(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("a", "").commit()
    entry = '[[suppressions]]\nrule = "diff-budget"\nreason = "no"\n'
    repo.write("rlm-ci.toml", entry).write("b", "").commit()
    args = ("check", "diff-budget", "--max-files", "1")
    assert cli(*args, "--base", base, cwd=repo).code == 1
    shown = cli(*args, "--commit", "HEAD", "--verbose", cwd=repo)
    assert shown.code == 0
    assert "suppressed" in shown.stdout
    assert "because no" in shown.stdout


# -- rlm-ci config ------------------------------------------------------------------------------


def test_config_shows_value_and_source_of_each(cli: Cli, repo: GitRepo) -> None:
    repo.write("rlm-ci.toml", 'fail_level = "low"\nchecks = ["diff-budget", "doc-archive"]\n')
    ended = cli("config", cwd=repo, env={"DIFF_BUDGET_MAX_LINES": "9", "TASK": "x\x1b[31m##[y"})
    assert (ended.code, ended.stderr) == (0, "")
    shown = {line.split()[0]: line for line in ended.stdout.splitlines()}
    assert shown["fail_level"].split() == ["fail_level", "low", "rlm-ci.toml"]
    assert shown["diff_budget.max_lines"].split()[1:] == ["9", "DIFF_BUDGET_MAX_LINES"]
    assert "diff-budget, doc-archive" in shown["checks"]
    assert shown["diff_budget.max_files"].split()[-1] == "default"
    assert "\x1b" not in ended.stdout
    assert "##[" not in ended.stdout
    more = cli("config", "--verbose", cwd=repo)
    assert len(more.stdout.splitlines()) > len(ended.stdout.splitlines())
    assert "github.event_path" in more.stdout


def test_config_needs_no_repository(cli: Cli) -> None:
    assert cli("config").code == 0
    assert cli("config", env={"RLM_CI_HOOK": "pre-push"}).code == 0
    assert cli("config", "--base", "x").code == 5


@pytest.mark.parametrize("words", [("check",), ("check", "diff-budget"), ("pr",), ("check", "-q")])
@pytest.mark.parametrize(
    "text",
    ['fail_levell = "low"', "[review]\nenabled = true", "max = [1"],
    ids=["name", "type", "toml"],
)
def test_a_terminal_shows_what_is_wrong_once(
    cli: Cli, repo: GitRepo, text: str, words: tuple[str, ...]
) -> None:
    repo.write("a", "").write("rlm-ci.toml", text).commit()
    ended = cli(*words, "--base", "HEAD", cwd=repo)
    assert ended.code == 5
    shown = ended.stdout + ended.stderr
    assert [shown.count(one) for one in ("error: ", "hint: ", "rlm-ci.toml")] == [1, 1, 1]
    assert "delegation-guard" not in shown
    in_a_file = cli(*words, "--base", "HEAD", "--output", "report.txt", cwd=repo)
    assert "rlm-ci.toml" in in_a_file.stderr
    assert "rlm-ci.toml" in (repo.path / "report.txt").read_text()
