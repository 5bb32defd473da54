"""Every operation of the loopback GitHub, asked for as a publisher would, by PyGithub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import github as pygithub
import pytest

from testing.loopback_github.scene import ADA, NAME, NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testing.loopback_github.scene import Scene

ANNOTATION = {
    "path": "src/a.py", "start_line": 10, "end_line": 10, "annotation_level": "failure",
    "message": "No",
}  # fmt: skip


def _about(scene: Scene) -> None:
    assert scene.client(ADA).get_user().login == "ada"
    assert scene.client().get_rate_limit().rate.limit == 5000
    repo = scene.repo()
    assert (repo.full_name, repo.default_branch, repo.private) == (NAME, "main", False)
    roles = {name: repo.get_collaborator_permission(name) for name in ("acme", "ada", "eve")}
    assert roles == {"acme": "admin", "ada": "write", "eve": "read"}


def _contents(scene: Scene) -> None:
    repo, head = scene.repo(), scene.state.head_sha
    file = repo.get_contents("new.py", ref=head)
    assert not isinstance(file, list)
    assert file.decoded_content == b"a = 1\nb = 2\nc = 3"
    folder = repo.get_contents("src")
    assert isinstance(folder, list)
    assert [entry.path for entry in folder] == ["src/a.py"]


def _commits(scene: Scene) -> None:
    repo, pull = scene.repo(), scene.pull()
    assert repo.get_commit(pull.head.sha).commit.message == "A change"
    assert [commit.sha for commit in pull.get_commits()] == [pull.head.sha]
    compared = repo.compare(pull.base.sha, pull.head.sha)
    assert (compared.status, compared.ahead_by, compared.behind_by) == ("ahead", 1, 0)
    assert compared.merge_base_commit.sha == pull.base.sha
    assert len(compared.files) == pull.changed_files
    assert [p.number for p in repo.get_commit(pull.head.sha).get_pulls()] == [NUMBER]


def _pulls(scene: Scene) -> None:
    repo, pull = scene.repo(), scene.pull()
    assert (pull.state, pull.draft, pull.mergeable, pull.merged) == ("open", False, True, False)
    assert pull.head.repo.full_name == NAME
    assert [label.name for label in pull.labels] == ["small"]
    assert [p.number for p in repo.get_pulls(head="acme:feature")] == [NUMBER]
    assert not list(repo.get_pulls(head="mallory:feature"))
    assert {file.filename: file.status for file in pull.get_files()} == {
        "edited.txt": "renamed", "gone.txt": "removed", "kind.txt": "changed",
        "logo.bin": "modified", "new.py": "added", "renamed.txt": "renamed",
        "src/a.py": "modified",
    }  # fmt: skip


def _opening(scene: Scene) -> None:
    repo, pull = scene.repo(), scene.pull()
    refused(422, repo.create_pull, base=pull.base.ref, head=pull.head.ref, title="The same again")
    assert [p.number for p in repo.get_pulls()] == [NUMBER]
    title = pull.title
    pull.edit(body="Its new text")
    assert (scene.pull().title, scene.pull().body) == (title, "Its new text")


def _conversation(scene: Scene) -> None:
    pull = scene.pull()
    made = pull.create_issue_comment("One")
    made.edit("Two")
    assert [comment.body for comment in pull.get_issue_comments()] == ["Two"]
    assert pull.get_issue_comment(made.id).user.login == "github-actions[bot]"
    reaction = made.create_reaction("eyes")
    assert made.create_reaction("eyes").id == reaction.id
    assert [given.content for given in made.get_reactions()] == ["eyes"]
    assert made.delete_reaction(reaction.id)
    assert not list(made.get_reactions())
    made.delete()
    assert not list(pull.get_issue_comments())


def _labels(scene: Scene) -> None:
    issue = scene.repo().get_issue(NUMBER)
    assert issue.pull_request is not None
    issue.add_to_labels("reviewed")
    assert {label.name for label in issue.get_labels()} == {"small", "reviewed"}
    issue.remove_from_labels("small")
    assert scene.state.labels == ["reviewed"]


def _comments_on_the_diff(scene: Scene) -> None:
    pull = scene.pull()
    commit = scene.repo().get_commit(pull.head.sha)
    made = pull.create_review_comment("Here", commit, "src/a.py", line=10, side="RIGHT")
    whole = pull.create_review_comment("All of it", commit, "logo.bin", subject_type="file")
    reply = pull.create_review_comment_reply(made.id, "Why?")
    assert reply.in_reply_to_id == made.id
    made.edit("There")
    made.create_reaction("+1")
    assert [given.content for given in made.get_reactions()] == ["+1"]
    found = {c.id: (c.path, c.raw_data["line"], c.body) for c in pull.get_review_comments()}
    assert found[made.id] == ("src/a.py", 10, "There")
    assert found[whole.id] == ("logo.bin", None, "All of it")
    assert pull.get_review_comment(reply.id).body == "Why?"
    made.delete()
    assert {comment.id for comment in pull.get_review_comments()} == {whole.id, reply.id}


def _reviews(scene: Scene) -> None:
    pull = scene.pull()
    made = pull.create_review(
        commit=scene.repo().get_commit(pull.head.sha), body="Two places", event="COMMENT",
        comments=[
            {"path": "src/a.py", "line": 10, "side": "RIGHT", "body": "New"},
            {"path": "src/a.py", "line": 40, "side": "LEFT", "body": "Old"},
        ],
    )  # fmt: skip
    assert [(c.line, c.side) for c in pull.get_review_comments()] == [(10, "RIGHT"), (40, "LEFT")]
    assert pull.get_review(made.id).state == "COMMENTED"
    people = scene.pull(ADA)
    waiting = scene.raw("POST", f"/pulls/{NUMBER}/reviews", {"body": "Later"}, ADA)
    assert waiting["state"] == "PENDING"
    assert [review.id for review in pull.get_reviews()] == [made.id]
    people.get_review(waiting["id"]).delete()
    waiting = scene.raw("POST", f"/pulls/{NUMBER}/reviews", {"body": "Later"}, ADA)
    event = {"event": "COMMENT"}
    path = f"/pulls/{NUMBER}/reviews/{waiting['id']}/events"
    assert scene.raw("POST", path, event, ADA)["state"] == "COMMENTED"
    refused = pull.create_review(body="No", event="REQUEST_CHANGES")
    refused.dismiss("Done")
    assert pull.get_review(refused.id).state == "DISMISSED"


def _check_runs(scene: Scene) -> None:
    repo, head = scene.repo(), scene.state.head_sha
    run = repo.create_check_run("rlm-ci", head, status="in_progress", external_id="7")
    output = {"title": "One finding", "summary": "It is bad", "annotations": [ANNOTATION]}
    run.edit(status="completed", conclusion="failure", output=output)
    run.edit(output=output)
    again = repo.get_check_run(run.id)
    assert (again.conclusion, again.external_id, again.output.annotations_count) == (
        "failure", "7", 2,
    )  # fmt: skip
    assert {row.message for row in run.get_annotations()} == {"No"}
    found = repo.get_commit(head).get_check_runs(check_name="rlm-ci")
    assert [row.id for row in found] == [run.id]


def _statuses(scene: Scene) -> None:
    commit = scene.repo().get_commit(scene.state.head_sha)
    commit.create_status("success", description="Fine", context="rlm-ci")
    # PyGithub lists them by an older path, which the description does not have.
    (row,) = scene.raw("GET", f"/commits/{commit.sha}/statuses")
    assert (row["state"], row["context"]) == ("success", "rlm-ci")


def _artifacts(scene: Scene) -> None:
    run = scene.github.workflow_run(NAME, NUMBER)
    scene.github.artifact(NAME, run.id, "report", b"PK..")
    remote = scene.repo().get_workflow_run(run.id)
    assert (remote.event, remote.head_sha) == ("pull_request", scene.state.head_sha)
    (found,) = remote.get_artifacts()
    assert scene.repo().get_artifact(found.id).name == "report"


def _download(scene: Scene) -> None:
    run = scene.github.workflow_run(NAME, NUMBER)
    made = scene.github.artifact(NAME, run.id, "report", b"PK..")
    status, headers, _body = scene.client().requester.requestJson(
        "GET", f"/repos/{NAME}/actions/artifacts/{made.id}/zip", follow_302_redirect=False
    )
    assert status == 302
    assert headers["location"].endswith(f"/{made.id}")


#: By what they are about. Each is for a fresh scene.
OPERATIONS: Mapping[str, Callable[[Scene], None]] = {
    "about": _about, "contents": _contents, "commits": _commits, "pulls": _pulls,
    "opening": _opening,
    "conversation": _conversation, "labels": _labels,
    "comments on the diff": _comments_on_the_diff, "reviews": _reviews,
    "check runs": _check_runs, "statuses": _statuses, "artifacts": _artifacts,
    "download": _download,
}  # fmt: skip


def refused(
    status: int, call: Callable[..., object], /, *args: Any, **more: Any
) -> pygithub.GithubException:
    """The error that a call ends with. Fails unless it has this status."""
    with pytest.raises(pygithub.GithubException) as caught:
        call(*args, **more)
    assert caught.value.status == status, caught.value
    return caught.value
