"""A verdict belongs to what it compared: nobody carries one over to another base."""

from __future__ import annotations

from collections.abc import Callable

from testing.comment_commands_stage import NAME, NUMBER, OVERRIDE, Stage, stage
from testing.loopback_github.events import Events

__all__ = ["stage"]


def branch(stage: Stage, name: str, start: str, files: int) -> str:
    """A branch of the repository with so many commits of one file beyond ``start``."""
    stage.author.run("checkout", "-q", "-B", name, start)
    for number in range(files):
        stage.author.write(f"{name}/{number}.py", "x = 1\n").commit(f"{name} {number}")
    stage.author.run("push", "-q", "-f", str(stage.remote.path), name)
    stage.clone.fetch("origin", f"+refs/heads/{name}:refs/remotes/origin/{name}")
    stage.author.checkout("feature")
    return stage.author.sha(name)


def retarget(stage: Stage, name: str) -> None:
    stage.pull.base, stage.pull.base_sha = name, stage.author.sha(name)


def suppressed(stage: Stage) -> list[str | None]:
    return [one["suppression"] for one in stage.report["findings"]]


def test_an_override_does_not_follow_a_pull_request_to_another_branch(stage: Stage) -> None:
    branch(stage, "near", "main", 3)
    stage.author.run("rebase", "-q", "near", "feature")
    stage.publish_head()
    retarget(stage, "near")
    assert stage.say(OVERRIDE) == 0, stage.said
    assert stage.ordinary() == 0
    retarget(stage, "main")  # the same head, and the files of near besides
    assert stage.ordinary() == 1
    assert suppressed(stage) == [None]
    assert "on another base does not count" in stage.said
    assert stage.conclusions[-1] == "failure"
    retarget(stage, "near")  # what is over is over
    assert stage.ordinary() == 1


def test_a_job_that_names_base_and_head_sees_the_same_override(stage: Stage) -> None:
    assert stage.say(OVERRIDE) == 0
    event = stage.events.pull_request()
    flags = ("--base", "origin/main", "--head", stage.head)
    assert stage.run(event, *flags) == 0, stage.said
    stage.pull.base = "release"
    assert stage.run(stage.events.pull_request(), *flags) == 1


def test_a_branch_of_the_same_merge_base_is_another_one(stage: Stage) -> None:
    assert stage.say(OVERRIDE) == 0
    branch(stage, "release", "main", 0)
    retarget(stage, "release")
    assert stage.ordinary() == 1


def test_an_event_of_before_the_retargeting_is_no_way_around(stage: Stage) -> None:
    assert stage.say(OVERRIDE) == 0
    event = stage.events.pull_request()
    branch(stage, "release", "main", 1)
    retarget(stage, "release")
    assert stage.run(event) == 1, "its run is started again"
    assert "goes to another branch now" in stage.said


def test_new_commits_on_the_base_do_not_end_an_override(stage: Stage) -> None:
    assert stage.say(OVERRIDE) == 0
    branch(stage, "main", "main", 1)
    stage.pull.base_sha = stage.author.sha("main")
    assert stage.ordinary() == 0, "new commits on the base change nothing of the pull request"


def test_a_moved_merge_base_ends_an_override(stage: Stage) -> None:
    stage.author.write("src/d.py", "x = 1\n").commit("More")
    for name in "efg":
        stage.author.write(f"src/{name}.py", "x = 1\n").commit("More")
    stage.publish_head()
    assert stage.say(OVERRIDE) == 0
    first = stage.author.sha("feature~3")
    stage.author.run("push", "-q", "-f", str(stage.remote.path), f"{first}:refs/heads/main")
    stage.author.run("branch", "-f", "main", first)
    stage.clone.fetch("origin", "+refs/heads/main:refs/remotes/origin/main")
    stage.pull.base_sha = first  # a part of it is merged
    assert stage.ordinary() == 1
    assert suppressed(stage) == [None]


# -- two pull requests with one head ------------------------------------------------------------


def beside(stage: Stage, number: int = 13) -> Callable[[], int]:
    """Another pull request of the same head, onto a branch that is near to it; its job."""
    branch(stage, "near", "feature~0", 0)
    stage.github.pull(NAME, number, head="feature", head_ref="second", base="near")

    def run() -> int:
        stage.clone.fetch("origin", "+refs/pull/12/head:refs/remotes/pull")
        return stage.run(Events(stage.github, NAME, number).pull_request())

    return run


def newest(stage: Stage) -> tuple[str, str]:
    """What branch protection looks at: the conclusion and the title of the newest check run."""
    made = stage.github.world.repositories[NAME].checks[-1]
    return str(made.conclusion), str(made.title)


def test_the_check_run_of_a_commit_is_the_worst_of_its_pull_requests(stage: Stage) -> None:
    assert stage.ordinary() == 1
    other = beside(stage)
    assert other() == 0, "this one has no files"
    conclusion, title = newest(stage)
    assert conclusion == "failure"
    assert title.startswith("#13: ")
    assert "#12 has findings" in title
    # An override of the first one is for both.
    assert stage.say(OVERRIDE) == 0
    assert newest(stage)[0] == "success"
    assert other() == 0
    assert newest(stage)[0] == "success"


def test_one_that_nobody_has_checked_yet_is_not_green(stage: Stage) -> None:
    other = beside(stage)
    assert other() == 0
    conclusion, title = newest(stage)
    assert conclusion == "action_required"
    assert "#12 is not checked yet" in title
    assert stage.ordinary() == 1
    assert newest(stage)[0] == "failure"
    stage.pull.state = "closed"
    assert other() == 0
    assert newest(stage)[0] == "success"


def test_a_pull_request_that_has_moved_on_holds_nobody_up(stage: Stage) -> None:
    assert stage.ordinary() == 1
    other = beside(stage)
    head = stage.head
    stage.push()
    stage.github.world.repositories[NAME].pulls[13].head_sha = head
    assert other() == 0
    assert newest(stage)[0] == "success"
    assert stage.pull.number == NUMBER
