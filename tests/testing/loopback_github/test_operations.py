"""Every operation works with PyGithub and keeps to GitHub's description, by two judges."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from testing.loopback_github import GitHub
from testing.loopback_github.description import load
from testing.loopback_github.operations import OPERATIONS, refused
from testing.loopback_github.prism import in_front_of
from testing.loopback_github.routes import ROUTES
from testing.loopback_github.scene import NUMBER, Scene, build

if TYPE_CHECKING:
    from pathlib import Path


def clear(scene: Scene) -> None:
    """Make the pull request as it was."""
    for written in (scene.state.comments, scene.state.reviews, scene.state.review_comments):
        written.clear()
    scene.state.labels[:] = ["small"]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("prefix", ["", pytest.param("/api/v3", marks=pytest.mark.full)])
def test_every_operation_works(scene: Scene, name: str, prefix: str) -> None:
    scene.url += prefix
    OPERATIONS[name](scene)


def test_no_operation_is_left_out(scene: Scene) -> None:
    for operation in OPERATIONS.values():
        operation(scene)
        clear(scene)
    found = [scene.github.description.find(r.method, r.path) for r in scene.github.log]
    seen = {(row[0].method, row[0].template) for row in found if row}
    assert seen == set(ROUTES)


@pytest.mark.full
def test_prism_agrees(tmp_path: Path) -> None:
    with GitHub() as github:
        scene = build(github, tmp_path)
        with in_front_of(github, tmp_path) as url:
            scene.url = url
            for name, operation in OPERATIONS.items():
                if name != "download":  # prism follows the redirect itself
                    operation(scene)
                    clear(scene)
            assert scene.graph("{ viewer { login } }")["viewer"]
            # It does judge: what deviates does not get through.
            before = len(github.log)
            body = {"body": "x", "commit_id": scene.state.head_sha, "path": "a", "line": "ten"}
            refused(422, scene.raw, "POST", f"/pulls/{NUMBER}/comments", body)
            assert len(github.log) == before
        scene.close()
    assert not github.unexpected()


def test_nobody_outside_can_reach_it(scene: Scene) -> None:
    assert scene.github._server is not None
    assert scene.github._server.server_address[0] == "127.0.0.1"


def test_it_starts_in_no_time() -> None:
    start = time.process_time()
    load.__wrapped__(frozenset(ROUTES))  # as in a fresh process
    with GitHub():
        assert time.process_time() - start < 10


def test_no_request_waits_for_an_acknowledgement(scene: Scene) -> None:
    """Answers in two packets cost the client 40 ms each; the fastest of many tells."""
    repo = scene.repo()
    took = []
    for _ in range(20):
        start = time.monotonic()
        repo.get_pull(NUMBER)
        took.append(time.monotonic() - start)
    assert min(took) < 0.03
