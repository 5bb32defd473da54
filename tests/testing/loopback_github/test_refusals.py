"""Each refusal of GitHub that a client must live with: its status and its words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import requests

from testing.loopback_github.operations import ANNOTATION, refused
from testing.loopback_github.scene import ADA, BOT, EVE, NAME, NUMBER, READER, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TALK = "issues=write; pull_requests=write"


def _write(scene: Scene, token: str | None) -> Mapping[str, tuple[str, Callable[[], object]]]:
    """Each kind of write, with the permission that it wants."""
    head, pull = scene.state.head_sha, f"/pulls/{NUMBER}"
    review = {"body": "x", "event": "COMMENT"}
    comment = {"body": "x", "commit_id": head, "path": "src/a.py", "line": 10}

    def send(method: str, path: str, body: Any) -> Callable[[], object]:
        return lambda: scene.raw(method, path, body, token)

    return {
        "comment": (_TALK, send("POST", f"/issues/{NUMBER}/comments", {"body": "x"})),
        "label": (_TALK, send("POST", f"/issues/{NUMBER}/labels", {"labels": ["x"]})),
        "review": ("pull_requests=write", send("POST", f"{pull}/reviews", review)),
        "on a line": ("pull_requests=write", send("POST", f"{pull}/comments", comment)),
        "check": ("checks=write", send("POST", "/check-runs", {"name": "x", "head_sha": head})),
        "status": ("statuses=write", send("POST", f"/statuses/{head}", {"state": "success"})),
    }


_OUTPUT = {"title": "x", "summary": "x"}
_KINDS = ("comment", "label", "review", "on a line", "check", "status")


@pytest.mark.parametrize("kind", _KINDS)
def test_without_the_permission_it_is_named(scene: Scene, kind: str) -> None:
    need, call = _write(scene, READER)[kind]
    error = refused(403, call)
    assert error.data["message"] == "Resource not accessible by integration"
    assert error.headers is not None
    assert error.headers["x-accepted-github-permissions"] == need


@pytest.mark.parametrize("kind", _KINDS)
def test_one_permission_is_enough(scene: Scene, kind: str) -> None:
    need = _write(scene, None)[kind][0]
    for position, row in enumerate(need.split("; ")):
        name, level = row.split("=")
        token = scene.github.token(f"one-{position}", "app[bot]", permissions={name: level})
        _write(scene, token)[kind][1]()
        scene.github.token(f"read-{position}", "app[bot]", permissions={name: "read"})
        refused(403, _write(scene, f"read-{position}")[kind][1])


@pytest.mark.parametrize("kind", _KINDS)
def test_strangers_are_asked_who_they_are(scene: Scene, kind: str) -> None:
    assert refused(401, _write(scene, None)[kind][1]).data["message"] == "Requires authentication"


def test_tokens(scene: Scene) -> None:
    assert refused(401, scene.repo, "wrong").data["message"] == "Bad credentials"
    error = refused(403, lambda: scene.client(BOT).get_user().login)
    assert error.data["message"] == "Resource not accessible by integration"
    assert scene.repo(None).full_name == NAME  # what is public, anybody reads


def test_what_may_not_be_seen_is_not_there(scene: Scene) -> None:
    refused(404, lambda: scene.client().get_repo("acme/other"))
    refused(404, lambda: scene.repo().get_pull(99))
    scene.home.private = True
    for token in (EVE, None):
        refused(404, scene.repo, token)
    assert scene.repo(ADA).private
    scene.github.token("elsewhere", repositories=["acme/other"])
    refused(404, scene.repo, "elsewhere")
    # Inside a private repository reading is a permission, too.
    refused(403, scene.pull, READER)


def test_only_authors_and_writers_change_a_comment(scene: Scene) -> None:
    made = scene.pull(ADA).create_issue_comment("Mine")
    path = f"/issues/comments/{made.id}"
    refused(403, scene.raw, "PATCH", path, {"body": "x"}, EVE)
    refused(403, scene.raw, "DELETE", path, None, EVE)
    strange = scene.pull(EVE).create_issue_comment("Hers")
    assert scene.raw("PATCH", f"/issues/comments/{strange.id}", {"body": "x"}, ADA)["body"] == "x"
    assert [c.user for c in scene.state.comments] == ["ada", "eve"]
    scene.state.locked = True
    refused(403, lambda: scene.pull(EVE).create_issue_comment("Again"))
    scene.pull(ADA).create_issue_comment("Still")


@pytest.mark.parametrize("place", ["issue", "edit", "line", "review"])
def test_65536_characters(scene: Scene, place: str) -> None:
    pull, commit = scene.pull(), scene.repo().get_commit(scene.state.head_sha)
    made = pull.create_issue_comment("x")

    def write(text: str) -> object:
        if place == "issue":
            return pull.create_issue_comment(text)
        if place == "edit":
            made.edit(text)
            return None
        if place == "line":
            return pull.create_review_comment(text, commit, "src/a.py", line=10)
        return pull.create_review(body=text, event="COMMENT")

    write("ü" * 65_536)
    data = refused(422, write, "ü" * 65_537).data
    assert "Body is too long (maximum is 65536 characters)" in json.dumps(data)
    data = refused(422, write, " ").data if place != "review" else None
    assert data is None or data["errors"][0]["code"] == "missing_field"


def test_reviews(scene: Scene) -> None:
    def create(token: str, **asked: Any) -> Callable[[], object]:
        return lambda: scene.raw("POST", f"/pulls/{NUMBER}/reviews", asked, token)

    def says(call: Callable[[], object], text: str) -> None:
        assert text in refused(422, call).data["errors"][0]

    says(create(BOT, event="APPROVE"), "GitHub Actions is not permitted to approve")
    scene.state.user = "ada"
    says(create(ADA, event="APPROVE"), "Can not approve your own pull request")
    says(create(ADA, event="REQUEST_CHANGES", body="x"), "Can not request changes on your own")
    says(create(BOT, event="REQUEST_CHANGES"), "can't be blank")
    says(create(BOT, event="COMMENT"), "can't be blank")
    create(BOT, body="waiting")()
    says(create(BOT, body="waiting"), "only have one pending review")
    made = scene.pull(ADA).create_review(body="x", event="COMMENT")
    refused(422, made.dismiss, "x")
    refused(422, made.delete)


def test_check_runs(scene: Scene) -> None:
    head = scene.state.head_sha

    def create(token: str = BOT, **asked: Any) -> Any:
        return scene.raw("POST", "/check-runs", {"name": "x", "head_sha": head} | asked, token)

    def output(**more: Any) -> Any:
        return {"title": "x", "summary": "x"} | more

    assert "GitHub App" in refused(403, create, ADA).data["message"]
    assert "conclusion" in refused(422, create, status="completed").data["message"]
    refused(422, create, head_sha="0" * 40)
    back = {**ANNOTATION, "start_line": 11}
    refused(422, lambda: create(output=output(annotations=[back])))
    assert not scene.home.checks
    refused(422, lambda: create(output=output(summary="é" * 32_768)))
    assert create(output=output(summary="x" * 65_535, annotations=[ANNOTATION] * 50))
    assert create(conclusion="success")["status"] == "completed"
    run = create()
    scene.github.token("other", "other[bot]")
    path = f"/check-runs/{run['id']}"
    refused(403, scene.raw, "PATCH", path, {"conclusion": "success"}, "other")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/check-runs", {"output": {**_OUTPUT, "annotations": [ANNOTATION] * 51}}),
        ("/check-runs", {"output": {**_OUTPUT, "summary": "x" * 65_536}}),
        ("/check-runs", {"conclusion": "fine"}),
        (f"/pulls/{NUMBER}/comments", {"body": "x", "path": "src/a.py", "line": "10"}),
        (f"/pulls/{NUMBER}/comments", {"body": "x", "line": 10}),
        (f"/pulls/{NUMBER}/comments", {"body": "x", "path": "src/a.py", "side": "MIDDLE"}),
        (f"/pulls/{NUMBER}/reviews", {"event": "PRAISE"}),
        (f"/pulls/{NUMBER}/reviews", {"comments": [
            {"path": "src/a.py", "line": 1, "body": "x", "subject_type": "file"}
        ]}),
        (f"/issues/{NUMBER}/comments", {}),
        (f"/issues/{NUMBER}/comments", {"body": 5}),
    ],
)  # fmt: skip
def test_what_the_description_forbids_is_refused_and_remembered(
    scene: Scene, path: str, body: Any
) -> None:
    head = scene.state.head_sha
    extra: dict[str, Any] = {
        "/check-runs": {"name": "x", "head_sha": head},
        f"/pulls/{NUMBER}/comments": {"commit_id": head},
    }
    refused(422, lambda: scene.raw("POST", path, extra.get(path, {}) | body))
    assert len(scene.github.violations) == 1
    scene.github.expect("body")
    assert not scene.github.unexpected()


def test_unknown_parameters_and_operations_are_remembered(scene: Scene) -> None:
    scene.raw("GET", f"/issues/{NUMBER}/comments?per_pgae=100")
    refused(404, scene.raw, "GET", "/milestones")
    scene.github.expect("no parameter 'per_pgae'")
    scene.github.expect("no such operation")
    scene.github.expect("a violation that never comes")
    assert scene.github.unexpected() == ["expected, but not seen: a violation that never comes"]
    scene.github._expected.pop()


def test_a_body_that_is_no_json(scene: Scene) -> None:
    url = f"{scene.url}/repos/{NAME}/issues/{NUMBER}/comments"
    headers = {"Authorization": f"token {BOT}"}
    answered = requests.post(url, data=b"{", headers=headers, timeout=10)
    assert (answered.status_code, answered.json()["message"]) == (400, "Problems parsing JSON")


def test_artifacts(scene: Scene) -> None:
    run = scene.github.workflow_run(NAME, NUMBER)
    made = scene.github.artifact(NAME, run.id, "report", b"PK..")
    path = f"/repos/{NAME}/actions/artifacts/{made.id}/zip"

    def status(token: str | None = BOT) -> Any:
        requester = scene.client(token).requester
        return requester.requestJson("GET", path, follow_302_redirect=False)

    code, headers, _ = status()
    assert code == 302
    assert requests.get(headers["location"], timeout=10).content == b"PK.."
    # The storage is another host, and does not take GitHub's token.
    assert headers["location"].startswith("http://localhost:")
    with_token = {"Authorization": f"token {BOT}"}
    assert requests.get(headers["location"], headers=with_token, timeout=10).status_code == 400
    assert status(READER)[0] == 403
    assert status(None)[0] == 401
    made.expired = True
    assert status()[0] == 410


def test_a_page_has_at_most_100(scene: Scene) -> None:
    pull = scene.pull()
    for number in range(205):
        pull.create_issue_comment(str(number))
    path = f"/repos/{NAME}/issues/{NUMBER}/comments"
    requester = scene.client().requester
    headers, page = requester.requestJsonAndCheck("GET", f"{path}?per_page=500&page=2")
    assert [row["body"] for row in page] == [str(number) for number in range(100, 200)]
    relations = {part.split('rel="')[1].rstrip('"') for part in headers["link"].split(", ")}
    assert relations == {"prev", "next", "first", "last"}
    assert [c.body for c in pull.get_issue_comments()] == [str(n) for n in range(205)]
    headers, page = requester.requestJsonAndCheck("GET", path)
    assert len(page) == 30
