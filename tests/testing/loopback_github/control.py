"""The remote control of a GitHub that runs as a process of its own; JSON in, JSON out.

``POST /__control/CALL`` takes the keywords of one of the methods below. Faults come without hooks:
a hook is a Python function.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from testing.loopback_github.routes import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.loopback_github.server import GitHub


def _log(github: GitHub) -> list[dict[str, Any]]:
    return [
        {
            "method": request.method, "path": request.path, "query": request.query,
            "body": None if isinstance(request.body, bytes) else request.body,
            "who": request.who, "status": request.status, "at": request.at, "done": request.done,
            "writes": request.writes,
        }
        for request in list(github.log)
    ]  # fmt: skip


def _pull_state(github: GitHub, repository: str, number: int) -> dict[str, Any]:
    pull = github.world.repositories[repository.lower()].pulls[number]
    return {
        "head": pull.head_sha, "labels": pull.labels,
        "comments": [
            vars(made) | {"reactions": len(made.reactions), "edits": len(made.edits)}
            for made in pull.comments
        ],
        "review_comments": [
            vars(made) | {"reactions": len(made.reactions)} for made in pull.review_comments
        ],
        "reviews": [vars(made) for made in pull.reviews],
        "resolved": sorted(pull.resolved),
    }  # fmt: skip


def _checks(github: GitHub, repository: str) -> list[dict[str, Any]]:
    return [vars(made) for made in github.world.repositories[repository.lower()].checks]


def _artifact(
    github: GitHub, repository: str, run: int, name: str, content: str, **more: Any
) -> int:
    """``content`` is base64."""
    return github.artifact(repository, run, name, base64.b64decode(content), **more).id


_CALLS: dict[str, Callable[..., Any]] = {
    "log": _log,
    "violations": lambda github: github.unexpected(),
    "pull-state": _pull_state,
    "checks": _checks,
    "fault": lambda github, **how: github.fault(**how) and None,
    "clear-faults": lambda github: github.faults.clear(),
    "push": lambda github, **how: github.push(**how).head_sha,
    "repository": lambda github, **how: github.repository(**how).id,
    "pull": lambda github, **how: github.pull(**how).id,
    "token": lambda github, **how: github.token(**how),
    "workflow-run": lambda github, **how: github.workflow_run(**how).id,
    "artifact": _artifact,
    "expect": lambda github, pattern: github.expect(pattern),
}


def answer(github: GitHub, call: str, raw: bytes) -> Answer:
    """Do what was asked. An error is a 400 that says which."""
    try:
        given = json.loads(raw) if raw else {}
        return Answer({"result": _CALLS[call](github, **given)})
    except Exception as error:  # noqa: BLE001 - whoever asked must see it
        return Answer({"error": f"{type(error).__name__}: {error}"}, 400)


def seed(github: GitHub, plan: dict[str, list[dict[str, Any]]]) -> None:
    """Fill a GitHub: ``repositories``, ``pulls``, ``tokens``, ``faults`` are lists of keywords."""
    for key, call in (
        ("repositories", "repository"), ("pulls", "pull"), ("tokens", "token"), ("faults", "fault")
    ):  # fmt: skip
        for row in plan.get(key, ()):
            _CALLS[call](github, **row)
