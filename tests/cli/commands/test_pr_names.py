"""Several runs on one pull request: each has its comment and check run, and none erases another."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.github.posting import summary_comment
from testing.comment_commands_stage import NAME, NUMBER, OVERRIDE, Stage, stage
from testing.loopback_github.state import ACTIONS_BOT, Comment

__all__ = ["stage"]

RED, GREEN = {"RLM_CI_CHECKS": "diff-budget"}, {"RLM_CI_CHECKS": "doc-archive"}
JOB = {"GITHUB_JOB": "judge", "GITHUB_WORKFLOW_REF": "acme/shop/.github/workflows/rlm-ci.yml@x"}


def job(stage: Stage, **env: str) -> int:
    stage.clone.fetch("origin", "+refs/pull/12/head:refs/remotes/pull")
    return stage.run(stage.events.pull_request(), **{**JOB, **env})


def comments(stage: Stage) -> dict[str, tuple[int, str]]:
    """Name to id and verdict of our summary comments."""
    found = {}
    for one in stage.pull.comments:
        if one.user == ACTIONS_BOT and (last := summary_comment.checkpoint_of(one.body)):
            assert last.name not in found
            found[last.name] = (one.id, last.verdict)
    return found


def required(stage: Stage) -> dict[str, str]:
    """Name to conclusion of the check runs that branch protection looks at: the newest ones."""
    runs = stage.github.world.repositories[NAME].checks
    return {one.name: str(one.conclusion) for one in runs if one.head_sha == stage.head}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("red", "green", "names"),
    [
        ({}, {"GITHUB_JOB": "docs"}, ("judge (diff-budget)", "docs (doc-archive)")),
        ({}, {}, ("judge (diff-budget)", "judge (doc-archive)")),
        (
            {}, {"GITHUB_WORKFLOW_REF": "acme/shop/.github/workflows/docs.yml@x"},
            ("judge (diff-budget)", "docs/judge (doc-archive)"),
        ),
        (
            {"RLM_CI_GITHUB_MATRIX": '{"folder": "api"}'},
            {"RLM_CI_GITHUB_MATRIX": '{"folder": "web"}'},
            ("judge (api, diff-budget)", "judge (web, doc-archive)"),
        ),
        ({"RLM_CI_PUBLISH_NAME": "budget"}, {"RLM_CI_PUBLISH_NAME": "docs"}, ("budget", "docs")),
    ],
    ids=["jobs", "matrix of checks", "workflows", "matrix", "names"],
)  # fmt: skip
def test_a_clean_run_does_not_turn_another_green(
    stage: Stage, red: dict[str, str], green: dict[str, str], names: tuple[str, str]
) -> None:
    for _ in range(2):  # and the second time, in their own places
        assert job(stage, **RED, **red) == 1
        assert job(stage, **GREEN, **green) == 0
        assert {name: verdict for name, (_, verdict) in comments(stage).items()} == {
            names[0]: "findings", names[1]: "clean",
        }  # fmt: skip
        assert required(stage) == {f"rlm-ci / {names[0]}": "failure",
                                   f"rlm-ci / {names[1]}": "success"}  # fmt: skip
    assert len(stage.pull.comments) == 2


def test_folders_with_a_config_each(stage: Stage) -> None:
    stage.author.checkout("main")
    for folder, most in (("api", 1), ("web", 9)):
        text = f'checks = ["diff-budget"]\n[diff_budget]\nmax_files = {most}\n'
        stage.author.write(f"{folder}/rlm-ci.toml", text)
    stage.author.commit("Folders")
    stage.author.run("push", "-q", str(stage.remote.path), "main")
    stage.clone.fetch("origin", "+refs/heads/main:refs/remotes/origin/main")
    stage.clone.run("reset", "-q", "--hard", "origin/main")
    stage.author.checkout("feature")
    stage.author.run("rebase", "-q", "main")
    stage.publish_head()
    stage.pull.base_sha = stage.author.sha("main")
    assert job(stage, RLM_CI_CONFIG="api/rlm-ci.toml") == 1
    assert job(stage, RLM_CI_CONFIG="web/rlm-ci.toml") == 0
    assert set(required(stage).items()) == {
        ("rlm-ci / judge (api/rlm-ci.toml)", "failure"),
        ("rlm-ci / judge (web/rlm-ci.toml)", "success"),
    }


# -- the comment of an older version ------------------------------------------------------------


def older(stage: Stage) -> Comment:
    """A summary comment without a name, as an older version has left it."""
    assert stage.ordinary() == 1
    (made,) = [one for one in stage.pull.comments if one.user == ACTIONS_BOT]
    return made


def test_the_one_job_takes_it_over(stage: Stage) -> None:
    made = older(stage)
    assert list(comments(stage)) == [""]
    for _ in range(2):
        assert job(stage) == 1
        assert comments(stage) == {"judge": (made.id, "findings")}


def test_of_two_jobs_one_takes_it_over_and_both_are_there(stage: Stage) -> None:
    made = older(stage)
    assert job(stage, **GREEN) == 0
    assert job(stage, **RED) == 1
    assert comments(stage)["judge (doc-archive)"] == (made.id, "clean")
    assert len(comments(stage)) == 2


def test_two_that_take_it_over_at_the_same_time_are_both_there(stage: Stage) -> None:
    made = older(stage)
    other: list[str] = []

    def overwrite(_request: Any) -> None:
        """Another job has written to the same comment, right after ours."""
        last = summary_comment.checkpoint_of(made.body)
        assert last
        other.append(last.replace(name="docs").marker())
        made.edit(f"{other[0]}\nAll is well.", ACTIONS_BOT, stage.github.world.now())

    stage.github.fault("PATCH", f"*/issues/comments/{made.id}", after=overwrite)
    assert job(stage) == 1
    assert len(other) == 1
    assert set(comments(stage)) == {"docs", "judge"}


# -- commands -----------------------------------------------------------------------------------


def test_a_command_speaks_for_the_only_run(stage: Stage) -> None:
    assert job(stage) == 1
    assert stage.say(OVERRIDE) == 0
    assert {name: verdict for name, (_, verdict) in comments(stage).items()} == {"judge": "clean"}
    assert required(stage) == {"rlm-ci / judge": "success"}
    assert job(stage) == 0


def test_an_override_counts_for_each_of_several_runs(stage: Stage) -> None:
    assert job(stage, RLM_CI_PUBLISH_NAME="one") == job(stage, RLM_CI_PUBLISH_NAME="two") == 1
    assert stage.say(OVERRIDE) == 0
    assert "the runs one, two keep their comments and check runs" in stage.said
    assert set(comments(stage)) == {"one", "two", ""}
    assert job(stage, RLM_CI_PUBLISH_NAME="one") == job(stage, RLM_CI_PUBLISH_NAME="two") == 0
    assert required(stage) == {
        "rlm-ci": "success", "rlm-ci / one": "success", "rlm-ci / two": "success",
    }  # fmt: skip


def test_the_name_that_the_job_gives_a_command_wins(stage: Stage) -> None:
    assert job(stage, RLM_CI_PUBLISH_NAME="one") == job(stage, RLM_CI_PUBLISH_NAME="two") == 1
    event = stage.comment("/rlm-ci check")
    assert stage.run(event, RLM_CI_PUBLISH_NAME="two") == 1
    assert set(comments(stage)) == {"one", "two"}


def test_a_name_that_cannot_be_ends_before_anything_is_posted(stage: Stage) -> None:
    assert job(stage, RLM_CI_PUBLISH_NAME="a --> b") == 5
    assert "is not the name of a run" in stage.said
    assert not stage.github.writes
    assert stage.pull.number == NUMBER
