"""What the loopback GitHub remembers: repositories, pull requests, what was written on them.

Plain records without behaviour of the wire; ``bodies.py`` turns them into JSON. Time is a clock of
its own that moves a second with every record, so that a test reads the same times on every run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from testing.loopback_github.pulls import Side, Source

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

Kind = Literal["installation", "user"]
#: The account that GITHUB_TOKEN writes as.
ACTIONS_BOT = "github-actions[bot]"
_KNOWN_IDS = {ACTIONS_BOT: 41898282, "dependabot[bot]": 49699333, "github-actions": 15368}
FULL_ACCESS = dict.fromkeys(
    ("actions", "checks", "contents", "issues", "pull_requests", "statuses"), "write"
)


def account_id(login: str) -> int:
    """The same number for a login everywhere, in payloads too."""
    return _KNOWN_IDS.get(login) or 10_000 + sum((n + 1) * ord(c) for n, c in enumerate(login))


@dataclass(frozen=True)
class Identity:
    """Whom a token stands for, and what it may do.

    ``permissions`` maps what GitHub's App permissions are called (``contents``, ``issues``,
    ``pull_requests``, ``checks``, ``statuses``, ``actions``) to ``read`` or ``write``;
    ``repositories`` are full names, None for all.
    """

    login: str
    kind: Kind = "installation"
    permissions: Mapping[str, str] = field(default_factory=lambda: dict(FULL_ACCESS))
    repositories: frozenset[str] | None = None

    def may(self, need: str) -> bool:
        """Whether ``issues=write`` (or ``=read``) is granted; write includes read."""
        name, _, level = need.partition("=")
        return self.permissions.get(name) in ({"write"} if level == "write" else {"read", "write"})

    @property
    def app(self) -> str | None:
        """The slug of the App whose installation this is."""
        return self.login.removesuffix("[bot]") if self.kind == "installation" else None


@dataclass
class Reaction:
    id: int
    user: str
    content: str
    created_at: str


@dataclass(frozen=True)
class Edit:
    """A text as it was from ``created_at`` on, by ``editor``."""

    editor: str
    created_at: str
    text: str


@dataclass
class Comment:
    """An issue comment: on a pull request, the conversation.

    ``edits`` is empty until the first one, which brings the text before it along: so it is at
    GitHub.
    """

    id: int
    number: int
    user: str
    body: str
    app: str | None
    created_at: str
    updated_at: str
    reactions: list[Reaction] = field(default_factory=list)
    minimized: str | None = None
    edits: list[Edit] = field(default_factory=list)

    def edit(self, text: str, editor: str, now: str) -> None:
        if not self.edits:
            self.edits.append(Edit(self.user, self.created_at, self.body))
        self.edits.append(Edit(editor, now, text))
        self.body, self.updated_at = text, now


@dataclass
class ReviewComment:
    """A comment on the diff. ``original_*`` and ``commit`` stay; where it stands now is derived."""

    id: int
    review: int
    user: str
    body: str
    commit: str
    path: str
    subject: Literal["line", "file"]
    original_line: int | None
    side: Side
    original_start_line: int | None
    start_side: Side | None
    original_position: int | None
    diff_hunk: str
    in_reply_to: int | None
    created_at: str
    updated_at: str
    reactions: list[Reaction] = field(default_factory=list)
    minimized: str | None = None
    editor: str | None = None

    def edit(self, text: str, editor: str, now: str) -> None:
        self.body, self.updated_at, self.editor = text, now, editor


@dataclass
class Review:
    id: int
    user: str
    body: str
    state: str
    commit: str
    submitted_at: str | None


@dataclass
class CheckRun:
    id: int
    name: str
    head_sha: str
    app: str
    status: str
    conclusion: str | None
    started_at: str
    completed_at: str | None
    details_url: str | None
    external_id: str
    title: str | None
    summary: str | None
    text: str | None
    annotations: list[dict[str, Any]]


@dataclass
class Status:
    id: int
    sha: str
    user: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    created_at: str


@dataclass
class Artifact:
    id: int
    run: int
    name: str
    content: bytes
    expired: bool
    created_at: str


@dataclass
class WorkflowRun:
    id: int
    name: str
    event: str
    head_branch: str
    head_sha: str
    head_repository: str | None
    conclusion: str
    pulls: list[int]
    created_at: str


@dataclass
class Pull:
    """A pull request. ``head_repository`` is a full name; None when the fork was deleted."""

    id: int
    number: int
    title: str
    body: str | None
    user: str
    base: str
    base_sha: str
    head_ref: str
    head_sha: str
    head_repository: str | None
    created_at: str
    updated_at: str
    draft: bool = False
    state: str = "open"
    merged: bool = False
    locked: bool = False
    mergeable: bool | None = True
    labels: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    review_comments: list[ReviewComment] = field(default_factory=list)
    resolved: dict[int, str] = field(default_factory=dict)  # thread's first comment -> by whom


@dataclass
class Issue:
    """An issue that is no pull request. ``state`` is open or closed."""

    id: int
    number: int
    title: str
    body: str
    user: str
    state: str
    labels: list[str]
    created_at: str
    updated_at: str
    locked: bool = False
    comments: list[Comment] = field(default_factory=list)


@dataclass
class Repository:
    """``collaborators`` maps a login to admin, write, read or none.

    ``queues`` are the entries of a branch's merge queue: pull request, and head of its group.
    """

    id: int
    full_name: str
    source: Source
    private: bool
    default_branch: str
    collaborators: dict[str, str]
    created_at: str
    labels: set[str] = field(default_factory=set)
    pulls: dict[int, Pull] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    checks: list[CheckRun] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    runs: list[WorkflowRun] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    queues: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return self.full_name.split("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.split("/")[1]


class World:
    """Everything, and the counters that number it. The server's lock guards it."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.tokens: dict[str, Identity] = {}
        self._ids = itertools.count(1001)
        self._seconds = itertools.count()

    def new_id(self) -> int:
        return next(self._ids)

    def now(self) -> str:
        """The clock's time, a second later with every call, as GitHub writes it."""
        moment = datetime(2026, 1, 5, 9, tzinfo=UTC) + timedelta(seconds=next(self._seconds))
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def add_repository(
        self,
        full_name: str,
        git: os.PathLike[str] | str,
        *,
        private: bool = False,
        default_branch: str = "main",
        collaborators: Mapping[str, str] | None = None,
    ) -> Repository:
        made = Repository(
            self.new_id(), full_name, Source(git), private, default_branch,
            dict(collaborators or {}), self.now(),
        )  # fmt: skip
        self.repositories[full_name.lower()] = made
        return made

    def add_pull(
        self,
        repository: str,
        number: int,
        *,
        head: str,
        base: str = "main",
        title: str = "Add taxes",
        body: str | None = "Taxes, as the law has them.",
        user: str = "ada",
        head_ref: str = "feature",
        head_repository: str | None = "",
        draft: bool = False,
        labels: Iterable[str] = (),
    ) -> Pull:
        """A pull request of ``head`` (any revision) into the branch ``base``.

        ``head_repository`` is a fork's full name, None for a deleted fork, "" for the same one.
        """
        home = self.repositories[repository.lower()]
        now = self.now()
        source = home.full_name if head_repository == "" else head_repository
        made = Pull(
            self.new_id(), number, title, body, user, base, home.source.resolve(base), head_ref,
            home.source.resolve(head), source, now, now, draft=draft, labels=list(labels),
        )  # fmt: skip
        home.labels.update(labels)
        home.pulls[number] = made
        return made

    def add_issue(
        self, repository: str, number: int, *, state: str = "open", labels: Iterable[str] = ()
    ) -> Issue:
        """An issue of a stranger."""
        home = self.repositories[repository.lower()]
        now = self.now()
        made = Issue(
            self.new_id(), number, "Taxes are wrong", "Add them.", "eve", state, list(labels),
            now, now,
        )  # fmt: skip
        home.labels.update(labels)
        home.issues[number] = made
        return made

    def add_run(
        self,
        repository: str,
        number: int,
        *,
        name: str = "ci",
        event: str = "pull_request",
        conclusion: str = "success",
    ) -> WorkflowRun:
        """The run of a workflow for a pull request, as it stands now.

        For a fork GitHub does not say which pull request it was: ``pulls`` is empty.
        """
        home = self.repositories[repository.lower()]
        pull = home.pulls[number]
        same = pull.head_repository == home.full_name
        made = WorkflowRun(
            self.new_id(), name, event, pull.head_ref, pull.head_sha, pull.head_repository,
            conclusion, [number] if same else [], self.now(),
        )  # fmt: skip
        home.runs.append(made)
        return made
