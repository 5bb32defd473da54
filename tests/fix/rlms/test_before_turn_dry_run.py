"""``rlm-ci rlm --dry-run``, and the settings of ``loop.rlms``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

#: What it says is no request: nobody has said it.
BIG = "RLMS_REQUEST\n" * 2500


def planned(cli: Cli, repo: GitRepo, *flags: str, **environ: str) -> list[tuple[str, str, str]]:
    env = {"RLM_CI_LOOP_RLMS_ENABLED": "true", **environ}
    ended = cli(
        "rlm", "mend big.txt", "--dry-run", "--format", "json", *flags, cwd=repo.path, env=env
    )
    assert (ended.code, ended.stderr) == (0, "")
    rows = ended.json()["decisions"]
    assert all(row["iteration"] == 1 for row in rows)
    figures = {"lines": 2500, "estimated_tokens": 8125, "files": 1}
    assert all(row["figures"] == figures for row in rows)
    return [(row["role"], row["decision"], row["reason"]) for row in rows]


def test_a_dry_run_shows_the_decisions_and_begins_no_run(cli: Cli, repo: GitRepo) -> None:
    repo.write("big.txt", BIG)
    repo.commit("Begin\n\nRLMS-Request: RLMS_REQUEST")
    one = [("single", "run", "hybrid_requested")]
    assert planned(cli, repo) == one
    repo.commit("Go on\n\nRLMS-Request: other")
    assert planned(cli, repo) == [("single", "skip", "hybrid_not_met")]
    repo.write("rlm-ci.toml", "[loop.rlms]\nauto.max_lines = 2499\nroles.reviewer = false\n")
    assert planned(cli, repo, "--roles", "triad") == [
        ("planner", "run", "hybrid_auto"),
        ("reviser", "run", "hybrid_auto"),
        ("critic", "skip", "role_disabled"),
    ]
    ended = cli("rlm", "mend big.txt", "--dry-run", cwd=repo.path)
    context = "Context: 1 file, 2,500 lines, about 8,125 tokens\n"
    assert ended.stdout.startswith(f"{context}single: skip (disabled)\nWith loop.rlms.enabled")
    assert not (repo.path / ".runs").exists()


def test_it_says_what_other_settings_would_change(cli: Cli, repo: GitRepo) -> None:
    repo.write("README.md", "A line\n" * 10).write("big.py", "x = 1\n" * 3000)
    repo.write("vendor/c.py", "y = 2\n" * 9).commit()
    env = {"RLM_CI_LOOP_RLMS_ENABLED": "true"}

    def told(goal: str, **more: str) -> list[str]:
        ended = cli("rlm", goal, "--dry-run", cwd=repo.path, env={**env, **more})
        assert (ended.code, ended.stderr) == (0, "")
        return ended.stdout.splitlines()

    own = "1 file, 3,000 lines, about 4,500 tokens"
    assert told("Make the tests pass") == [
        f"Context: {own}",
        "single: run (hybrid_auto)",
        "With loop.rlms.policy.force_on = true: the same roles",
        (
            'With loop.rlms.context = "changed": 0 files, 0 lines, about 0 tokens; '
            "single: skip (hybrid_not_met)"
        ),
        'With loop.rlms.context = "all": 3 files, 3,019 lines, about 4,531 tokens; the same roles',
    ]
    small = "1 file, 10 lines, about 18 tokens"
    assert told("Say more in README.md", RLM_CI_LOOP_RLMS_MODE="auto") == [
        f"Context: {small}",
        "single: skip (auto_not_met)",
        "With loop.rlms.policy.force_on = true: single: run (force_on)",
        (
            'With loop.rlms.context = "all": 3 files, 3,019 lines, about 4,531 tokens; '
            "single: run (auto_threshold)"
        ),
    ]
    env["RLM_CI_LOOP_RLMS_ENABLED"] = "false"
    assert told("Make the tests pass")[1:3] == [
        "single: skip (disabled)", "With loop.rlms.enabled = true: single: run (hybrid_auto)",
    ]  # fmt: skip
    ended = cli("rlm", "Make it", "--dry-run", "--format", "json", cwd=repo.path, env=env)
    other = ended.json()["with"][0]
    assert other["setting"] == "loop.rlms.enabled = true"
    assert other["decisions"][0]["decision"] == "run"


def test_a_label_of_the_pull_request_asks_for_an_analysis(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("a", "").commit()
    off = {"loops": [{"rlms": {"policy": {"force_off": True}}}]}  # the base decides, not the change
    repo.write("big.txt", BIG).write("codex.orchestrator.json", json.dumps(off)).commit()
    pull_request = {
        "number": 1, "title": "One", "body": "",
        "labels": [{"name": "rlms-request"}],
        "base": {"sha": base, "ref": "main", "repo": {"full_name": "o/r"}},
        "head": {"sha": repo.sha(), "ref": "topic", "repo": {"full_name": "o/r"}},
    }  # fmt: skip
    event = repo.path.parent / "event.json"
    event.write_text(json.dumps({"pull_request": pull_request}))
    env = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
    }
    assert planned(cli, repo, **env) == [("single", "run", "hybrid_requested")]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("policy.force_on = true\npolicy.force_off = true", "are both true"),
        ('request_keyword = ""', "must be one word"),
        ('request_keyword = "two words"', "must be one word"),
        ("auto.max_lines = 0", "of at least 1"),
        ("limits.max_steps = 0", "of at least 1"),
        ("limits.max_subcalls = -1", "of at least 1"),
        ("limits.timeout_seconds = 0", "of at least 1"),
        ("limits.max_depth = 9", "limits.max_depth is 9, more than 8"),
        ('policy.fail_mode = "ignore"', "must be one of"),
        ('output.format = "xml"', "must be one of"),
        ('mode = "always"', "must be one of"),
        ("limit = 3", "unknown setting"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    cli: Cli, repo: GitRepo, written: str, told: str
) -> None:
    repo.write("rlm-ci.toml", f"[loop.rlms]\n{written}\n")
    ended = cli("rlm", "mend it", "--dry-run", cwd=repo.path)
    assert (ended.code, ended.stdout) == (5, "")
    assert told in ended.stderr


def test_the_pipeline_file_says_the_same_as_the_settings(cli: Cli, repo: GitRepo) -> None:
    repo.write("big.txt", BIG).commit()
    full = {
        "enabled": True,
        "mode": "hybrid",
        "request_keyword": "RLMS_REQUEST",
        "auto": {"max_lines": 2499, "max_estimated_tokens": 120000, "max_files": 40},
        "roles": {"planner": False, "implementer": True, "tester": True, "reviewer": True},
        "limits": {"max_steps": 40, "max_depth": 2, "timeout_seconds": 240, "max_subcalls": 80},
        "output": {"format": "json", "require_citations": True},
        "policy": {"force_on": False, "force_off": False, "fail_mode": "warn_and_continue"},
    }

    def write(*rlms: object) -> None:
        loops = [{"id": "main", "rlms": one} for one in rlms]
        repo.write("codex.orchestrator.json", json.dumps({"loops": loops}))

    write(full)
    triad = ("--roles", "triad")
    found = planned(cli, repo, *triad, RLM_CI_LOOP_RLMS_ENABLED="")
    assert found == [
        ("planner", "skip", "role_disabled"),
        ("reviser", "run", "hybrid_auto"),
        ("critic", "run", "hybrid_auto"),
    ]
    repo.write("rlm-ci.toml", "[loop.rlms]\nauto.max_lines = 2500\n")
    [_, reviser, _] = planned(cli, repo, *triad, RLM_CI_LOOP_RLMS_ENABLED="")
    assert reviser == ("reviser", "skip", "hybrid_not_met")
    for wrong, told in (
        ((full, {"enabled": False}), "loops differ in their rlms"),
        (({"limits": {"max_steps": 0}},), "of at least 1"),
        (({"limit": 3},), "unknown setting"),
        (("yes",), "loops[].rlms must be an object"),
    ):
        write(*wrong)
        ended = cli("rlm", "mend it", "--dry-run", cwd=repo.path)
        assert (ended.code, told in ended.stderr) == (5, True), ended
        assert "codex.orchestrator.json" in ended.stderr


def test_a_question_has_no_roles_to_decide_on(cli: Cli, repo: GitRepo) -> None:
    repo.write("log", "x")
    ended = cli("rlm", "why?", "--context", "log", "--dry-run", cwd=repo.path)
    assert (ended.code, ended.stdout) == (2, "")
    assert "a question has no roles" in ended.stderr
