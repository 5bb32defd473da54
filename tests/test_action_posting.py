"""The composite action under act, from the event to the comment on a GitHub on loopback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from testing.action_runner import Job, run_in_act, ship_action
from testing.loopback_github.process import GitHubProcess
from testing.loopback_github.scene import history
from testing.repositories.events import NAME, OWNER, pull_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

SLUG = f"{OWNER}/{NAME}"
NUMBER = 7
#: One that may do everything, and one that may read.
TOKEN, READER = "ghs_" + "w" * 36, "ghs_" + "r" * 36


class Place:
    """A repository with a pull request, its GitHub, and the action."""

    def __init__(self, tmp: Path, github: GitHubProcess, repo: GitRepo, made: Path) -> None:
        self.github = github
        self.repo = repo
        self._tmp = tmp
        self._made = made
        self._action = ship_action(tmp / "action")
        self._jobs = 0

    def run(self, **inputs: str) -> Job:
        self._jobs += 1
        event = pull_request(self.repo.sha("main"), self.repo.sha("feature"), number=NUMBER)
        return run_in_act(
            self._tmp / f"job-{self._jobs}",
            self.repo,
            event,
            {"max-files": "1", **inputs},
            action=self._action,
            made=self._made,
            variables={"GITHUB_API_URL": self.github.url},
        )

    def state(self) -> dict[str, Any]:
        assert self.github.call("violations") == []
        found: dict[str, Any] = self.github.call("pull-state", repository=SLUG, number=NUMBER)
        return found


@pytest.fixture
def place(tmp_path: Path, made: Path) -> Iterator[Place]:
    repo = history(tmp_path / "shop")
    seed = {
        "repositories": [{"full_name": SLUG, "git": str(repo.path)}],
        "pulls": [{"repository": SLUG, "number": NUMBER, "head": "feature"}],
        "tokens": [
            {"token": TOKEN, "login": "github-actions[bot]"},
            {"token": READER, "login": "github-actions[bot]", "permissions": {
                "contents": "read", "pull_requests": "read", "checks": "read", "issues": "read"}},
        ],
    }  # fmt: skip
    with GitHubProcess(tmp_path, seed) as github:
        yield Place(tmp_path, github, repo, made)


@pytest.mark.full
def test_the_action_posts_once_and_keeps_its_comment_up_to_date(place: Place) -> None:
    first = place.run(**{"github-token": TOKEN})
    assert first.outputs["verdict"] == "findings", first.log
    (comment,) = place.state()["comments"]
    assert comment["user"] == "github-actions[bot]"
    assert comment["body"].startswith("<!-- rlm-ci:report ")
    assert "1 finding fails this change" in comment["body"]
    assert first.outputs["comment-url"].endswith(f"#issuecomment-{comment['id']}")
    report = json.loads((first.files / "report.json").read_text("utf-8"))
    assert report["publication"] == {
        "summary": "posted", "review": "skipped", "check_run": "posted", "reason": None,
        "url": first.outputs["comment-url"],
    }  # fmt: skip

    second = place.run(**{"github-token": TOKEN, "max-files": "100"})
    assert second.outputs["verdict"] == "clean", second.log
    (again,) = place.state()["comments"]
    assert again["id"] == comment["id"]
    assert "Clean" in again["body"]
    conclusions = [one["conclusion"] for one in place.github.call("checks", repository=SLUG)]
    assert conclusions == ["failure", "success"]
    assert TOKEN not in first.log.replace("***", "") + second.log


@pytest.mark.full
def test_without_the_permission_everything_else_is_there_and_it_is_named(place: Place) -> None:
    job = place.run(**{"github-token": READER})
    assert job.outputs["verdict"] == "findings"
    assert "comment-url" not in job.outputs or not job.outputs["comment-url"]
    assert "1 finding fails this change" in job.summary
    report = json.loads((job.files / "report.json").read_text("utf-8"))
    assert report["publication"]["summary"] == "failed"
    assert "issues: write or pull-requests: write" in report["publication"]["reason"]
    assert "checks: write" in report["publication"]["reason"]
    assert place.state()["comments"] == []


@pytest.mark.full
def test_without_a_token_nothing_is_asked_of_github(place: Place) -> None:
    job = place.run()
    assert job.outputs["verdict"] == "findings"
    assert place.github.call("log") == []


ORDERS = '''"""Orders."""


def add(name, seen=[]):
    """Add one."""
    seen.append(name)
    return "%d of %d" % (1,)
'''


@pytest.mark.full
def test_by_default_the_change_is_reviewed_and_findings_stand_beside_their_lines(
    place: Place,
) -> None:
    """No key, no setting: ruff, which the action brings, looks at real Python."""
    place.repo.write("shop/orders.py", ORDERS).commit("Orders")
    place.github.call("push", repository=SLUG, number=NUMBER, head="feature")
    first = place.run(**{"github-token": TOKEN, "max-files": "100"})
    assert first.outputs["verdict"] == "findings", first.log  # it raises whenever it is run
    report = json.loads((first.files / "report.json").read_text("utf-8"))
    (part,) = (one for one in report["parts"] if one["id"] == "review")
    assert part["verdict"] == "findings"
    assert [one.partition(" ")[0] for one in part["metrics"]["analyzers"]] == ["ruff"]
    beside = {
        (one["path"], one["original_line"], rule)
        for one in place.state()["review_comments"]
        for rule in ("review/ruff-b006", "review/ruff-f507")
        if rule in one["body"]
    }
    assert beside == {
        ("shop/orders.py", 4, "review/ruff-b006"), ("shop/orders.py", 7, "review/ruff-f507"),
    }  # fmt: skip

    place.repo.write("shop/orders.py", ORDERS.replace("(1,)", "(1, 2)")).commit("Mended")
    place.github.call("push", repository=SLUG, number=NUMBER, head="feature")
    second = place.run(**{"github-token": TOKEN, "max-files": "100"})
    assert second.outputs["verdict"] == "clean", second.log
    state = place.state()
    assert len(state["resolved"]) == 1
    bodies = [one["body"] for one in state["review_comments"]]
    assert sum("review/ruff-b006" in one for one in bodies) == 1
