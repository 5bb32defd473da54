"""Review threads and minimising through GraphQL; documents judged by GitHub's schema.

GitHub answers errors with 200; PyGithub makes 400 of that, and 404 of NOT_FOUND.
"""

from __future__ import annotations

from typing import Any

import pytest

from testing.loopback_github.operations import refused
from testing.loopback_github.scene import ADA, BOT, EVE, NUMBER, READER, Scene

THREADS = """
query($o: String!, $n: String!, $p: Int!, $first: Int, $after: String) {
  viewer { login }
  repository(owner: $o, name: $n) { pullRequest(number: $p) {
    headRefOid
    reviewThreads(first: $first, after: $after) {
      totalCount
      pageInfo { hasNextPage endCursor }
      nodes {
        id isResolved isOutdated path line originalLine resolvedBy { login }
        comments(first: 10) { nodes { id databaseId body isMinimized author { __typename login } } }
      }
    }
  } }
}
"""
RESOLVE = """
mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { id isResolved } } }
"""
MINIMIZE = """
mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED}) {
  minimizedComment { isMinimized minimizedReason } } }
"""
WHERE: dict[str, Any] = {"o": "acme", "n": "shop", "p": NUMBER}


def _comment(scene: Scene, line: int = 10) -> int:
    body = {"body": "x", "commit_id": scene.state.head_sha, "path": "src/a.py", "line": line}
    made = scene.raw("POST", f"/pulls/{NUMBER}/comments", body)
    return int(made["id"])


def _threads(scene: Scene, token: str = BOT, first: int = 100, after: str | None = None) -> Any:
    data = scene.graph(THREADS, token, **WHERE, first=first, after=after)
    return data["repository"]["pullRequest"]["reviewThreads"]


@pytest.mark.full
def test_threads(scene: Scene) -> None:
    first, second = _comment(scene), _comment(scene, 40)
    scene.pull(ADA).create_review_comment_reply(first, "Why?")
    data = scene.graph(THREADS, **WHERE, first=100)
    assert data["viewer"]["login"] == "github-actions[bot]"
    threads = data["repository"]["pullRequest"]["reviewThreads"]
    assert (threads["totalCount"], threads["pageInfo"]["hasNextPage"]) == (2, False)
    one, two = threads["nodes"]
    assert [row["databaseId"] for row in two["comments"]["nodes"]] == [second]
    authors = [row["author"] for row in one["comments"]["nodes"]]
    assert authors == [
        {"__typename": "Bot", "login": "github-actions"}, {"__typename": "User", "login": "ada"},
    ]  # fmt: skip


def test_pages(scene: Scene) -> None:
    for line in (7, 8, 9, 10, 11):
        _comment(scene, line)
    lines, page = [], _threads(scene, first=2)
    while True:
        lines += [thread["line"] for thread in page["nodes"]]
        if not page["pageInfo"]["hasNextPage"]:
            break
        page = _threads(scene, first=2, after=page["pageInfo"]["endCursor"])
    assert lines == [7, 8, 9, 10, 11]
    assert len(scene.github.sent("POST", "/graphql")) == 3


def test_resolving_wants_contents(scene: Scene) -> None:
    _comment(scene)
    (thread,) = _threads(scene)["nodes"]
    most = {"pull_requests": "write", "issues": "write", "contents": "read"}
    scene.github.token("most", permissions=most)
    error = refused(400, scene.graph, RESOLVE, "most", id=thread["id"])
    assert error.data["errors"][0]["type"] == "FORBIDDEN"
    assert error.data["errors"][0]["path"] == ["resolveReviewThread"]
    assert not _threads(scene)["nodes"][0]["isResolved"]
    data = scene.graph(RESOLVE, id=thread["id"])
    assert data["resolveReviewThread"]["thread"] == {"id": thread["id"], "isResolved": True}
    again = _threads(scene)["nodes"][0]
    assert (again["isResolved"], again["resolvedBy"]["login"]) == (True, "github-actions")
    scene.graph(RESOLVE.replace("resolve", "unresolve"), id=thread["id"])
    assert not scene.state.resolved


def test_minimising(scene: Scene) -> None:
    made = scene.pull().create_issue_comment("x")
    for node in (made.raw_data["node_id"], f"PRRC_{_comment(scene)}"):
        refused(400, scene.graph, MINIMIZE, READER, id=node)
        data = scene.graph(MINIMIZE, id=node)["minimizeComment"]["minimizedComment"]
        assert data == {"isMinimized": True, "minimizedReason": "outdated"}
    assert scene.state.comments[0].minimized == "outdated"


def test_what_is_not_there(scene: Scene) -> None:
    for where in ({**WHERE, "n": "other"}, {**WHERE, "p": 99}):
        error = refused(404, scene.graph, THREADS, **where, first=1)
        assert error.data["errors"][0]["type"] == "NOT_FOUND"
    refused(404, scene.graph, RESOLVE, id="PRRT_1")
    scene.home.private = True
    refused(404, _threads, scene, EVE)
    scene.github.log.clear()
    refused(401, lambda: scene.client(None).requester.graphql_query("{viewer{login}}", {}))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{ viewer { nickname } }", "Cannot query field 'nickname'"),
        ("{ viewer { login ", "Syntax Error"),
        (THREADS.replace("$p: Int!", "$p: String!"), "used in position expecting type 'Int!'"),
        (
            MINIMIZE.replace("OUTDATED", "OLD"),
            "does not exist in 'ReportedContentClassifiers' enum",
        ),
        ("{ viewer { avatarUrl } }", "User.avatarUrl is not modelled"),
    ],
)
def test_documents_that_deviate_are_remembered(scene: Scene, document: str, text: str) -> None:
    refused(400, scene.graph, document, **WHERE, id="x", first=1)
    assert any(text in violation for violation in scene.github.violations)
    scene.github.expect("document")
    assert not scene.github.unexpected()


@pytest.mark.parametrize(("first", "kind"), [(101, "EXCESSIVE"), (None, "MISSING")])
def test_pages_have_bounds(scene: Scene, first: int | None, kind: str) -> None:
    error = refused(400, scene.graph, THREADS, **WHERE, first=first)
    assert error.data["errors"][0]["type"].startswith(kind)


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_it_is_where_pygithub_looks(scene: Scene, prefix: str) -> None:
    scene.url += prefix
    assert scene.graph("{ viewer { login } }", ADA)["viewer"]["login"] == "ada"
    assert scene.github.log[0].path == "/graphql"
    assert not scene.github.log[0].writes
