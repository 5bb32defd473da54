"""The judge itself: what deviates is seen, in requests and in answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from testing.loopback_github import bodies
from testing.loopback_github.description import OPENAPI, amended, draft4, load, package_file
from testing.loopback_github.operations import refused
from testing.loopback_github.routes import ROUTES, R
from testing.loopback_github.scene import NUMBER, Scene

if TYPE_CHECKING:
    from collections.abc import Callable

DESCRIPTION = load(frozenset(ROUTES))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, [None, "x"], [1]),
        ({"enum": ["a"], "nullable": True}, [None, "a"], ["b"]),
        ({"type": "string", "format": "date-time"}, ["2026-01-05T09:00:00Z"], ["yesterday"]),
        ({"type": "object", "properties": {"type": {"type": "integer"}}}, [{"type": 1}, {}], [
            {"type": "x"}, {"more": 1}
        ]),
        ({"type": "array", "items": {"properties": {"a": {}}}}, [[{"a": 1}]], [[{"b": 1}]]),
        ({"type": "object", "properties": {"description": {"type": "string"}}}, [
            {"description": "x"}
        ], [{"description": 1}]),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, [{"a": 1, "b": 2}], []),
    ],
)  # fmt: skip
def test_schemas_keep_their_meaning(schema: Any, good: list[Any], bad: list[Any]) -> None:
    validator = jsonschema_rs.Draft4Validator(draft4(schema, closed=True), validate_formats=True)
    assert all(validator.is_valid(value) for value in good)
    assert not any(validator.is_valid(value) for value in bad)


def test_paths_are_found() -> None:
    for method, path, template, params in (
        ("GET", "/repos/a/b", R, {"owner": "a", "repo": "b"}),
        ("GET", "/repos/a/b/pulls/comments/3", f"{R}/pulls/comments/{{comment_id}}", None),
        ("GET", "/repos/a/b/contents/x/y%20z", f"{R}/contents/{{path}}", {"path": "x/y z"}),
        ("GET", "/repos/a/b/commits/main", f"{R}/commits/{{ref}}", {"ref": "main"}),
        ("GET", "/repos/a/b/commits/0/check-runs", f"{R}/commits/{{ref}}/check-runs", None),
        ("GET", "/repos/a/b/compare/m...f/x", f"{R}/compare/{{basehead}}", None),
    ):
        found = DESCRIPTION.find(method, path)
        assert found is not None, path
        assert found[0].template == template
        assert params is None or params.items() <= found[1].items()
    assert DESCRIPTION.find("GET", "/repos/a/b/pulls/x") is None
    assert DESCRIPTION.find("PUT", "/repos/a/b") is None


def test_an_operation_that_github_does_not_have() -> None:
    with pytest.raises(AssertionError, match="no POST /repos"):
        load(frozenset({("POST", R)}))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda body: body | {"id": "9"}, "answer 201.id"),
        (lambda body: body | {"created_at": "now"}, "answer 201.created_at"),
        (lambda body: body | {"user": {"login": 5}}, "answer 201.user"),
        (lambda body: body | {"invented": 1}, "GitHub has no .*invented"),
    ],
)
def test_answers_that_deviate_are_remembered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any], Any], text: str
) -> None:
    right = bodies.comment
    monkeypatch.setattr(bodies, "comment", lambda *args: spoil(right(*args)))
    if "invented" in text:
        refused(500, scene.raw, "POST", f"/issues/{NUMBER}/comments", {"body": "x"})
    else:
        scene.raw("POST", f"/issues/{NUMBER}/comments", {"body": "x"})
    assert len(scene.github.violations) == 1
    scene.github.expect(text)
    assert not scene.github.unexpected()


def test_what_a_body_leaves_out_is_dull() -> None:
    """Nothing that is filled in could be taken for a fact."""
    found = DESCRIPTION.find("GET", "/repos/a/b/pulls/1")
    assert found is not None
    filled = DESCRIPTION.complete(found[0], 200, {"number": 1, "base": {"repo": {"id": 5}}})
    assert filled["number"] == 1
    assert filled["base"]["repo"]["id"] == 5
    assert filled["base"]["repo"]["stargazers_count"] == 0
    assert filled["merged_by"] is None
    assert not DESCRIPTION.response_deviations(found[0], 200, filled)


@pytest.mark.full
def test_the_amendments_are_still_needed() -> None:
    """Once GitHub's description is put right, this fails, and ours can go."""
    raw, ours = json.loads(package_file(OPENAPI)), amended()
    comments = [row["components"]["schemas"]["pull-request-review-comment"] for row in (raw, ours)]
    for name in ("line", "position", "original_line", "original_position"):
        before, after = (row["properties"][name] for row in comments)
        assert before.get("nullable") is None
        assert after == {**before, "nullable": True}
    for name in ("pull-request", "pull-request-simple"):
        heads = [
            row["components"]["schemas"][name]["properties"]["head"]["properties"]["repo"]
            for row in (raw, ours)
        ]
        assert heads[1] == {"nullable": True, "allOf": [heads[0]]}
    path = "/repos/{owner}/{repo}/issues/{issue_number}/labels"
    bodies_ = [row["paths"][path]["post"]["requestBody"] for row in (raw, ours)]
    ways = [row["content"]["application/json"]["schema"]["oneOf"] for row in bodies_]
    assert [way["type"] for way in ways[0]] == ["object"]
    assert [way["type"] for way in ways[1]] == ["object", "array"]
