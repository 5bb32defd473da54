"""A GitHub as a process of its own: seeded from a file, steered by JSON, gone at the end."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import requests

from testing.loopback_github.process import GitHubProcess
from testing.loopback_github.scene import NAME, NUMBER, history

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
def test_a_process(tmp_path: Path) -> None:
    git = history(tmp_path / "shop")
    seed = {
        "repositories": [{"full_name": NAME, "git": str(git.path)}],
        "pulls": [{"repository": NAME, "number": NUMBER, "head": "feature"}],
        "tokens": [{"token": "t-bot", "permissions": {"issues": "write"}}],
        "faults": [{"method": "POST", "status": 502, "store": True}],
    }
    where = {"repository": NAME, "number": NUMBER}
    with GitHubProcess(tmp_path, seed) as github:
        url = f"{github.url}/repos/{NAME}/issues/{NUMBER}/comments"
        headers = {"Authorization": "Bearer t-bot"}
        statuses = [
            requests.post(url, json={"body": text}, headers=headers, timeout=10).status_code
            for text in ("a", "b")
        ]
        assert statuses == [502, 201]
        state = github.call("pull-state", **where)
        assert [comment["body"] for comment in state["comments"]] == ["a", "b"]
        log = github.call("log")
        assert [(row["status"], row["who"], row["writes"]) for row in log] == [
            (502, "github-actions[bot]", True), (201, "github-actions[bot]", True),
        ]  # fmt: skip
        git.write("more", "x").run("add", "-A")
        git.run("commit", "-qm", "more")
        assert github.call("push", **where, head="feature") == git.sha()
        run = github.call("workflow-run", **where)
        content = base64.b64encode(b"PK").decode()
        assert github.call("artifact", repository=NAME, run=run, name="report", content=content)
        assert github.call("violations") == []
        with pytest.raises(AssertionError, match="KeyError: 'explode'"):
            github.call("explode")
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(github.url, timeout=2)
