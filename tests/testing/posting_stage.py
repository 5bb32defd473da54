"""A stage to post on: acme/shop #12 on the loopback GitHub, and our publisher in front of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.git.repository import Repository, discover
from rlm_ci.github.api.client import GitHubClient, RequestLimits
from rlm_ci.github.posting import summary_comment
from rlm_ci.github.posting.outcome import Destination, PostingOptions, Publication
from rlm_ci.github.posting.publisher import Publisher
from rlm_ci.report.findings import Finding, Location, Part, Report, Severity, Subject, Usage
from testing.loopback_github.fixture import github
from testing.loopback_github.scene import BOT, NAME, NUMBER, Scene, build
from testing.loopback_github.server import GitHub, Request

__all__ = ["github"]


class Clock:
    """Time that passes only when somebody sleeps; the limits hold by it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Stage(Scene):
    """The scene with our publisher, which reads the diff from git, or unless ``local`` GitHub's."""

    local: bool = True
    made: list[GitHubClient] = field(default_factory=list)

    def client_of(
        self, token: str = BOT, limits: RequestLimits | None = None, clock: Clock | None = None
    ) -> GitHubClient:
        """A client whose waiting takes no time."""
        clock = clock or Clock()
        client = GitHubClient(token, self.url, limits, clock=clock, sleep=clock.sleep)
        self.made.append(client)
        return client

    def close(self) -> None:
        for client in self.made:
            client.close()
        super().close()

    @property
    def head(self) -> str:
        return self.git.sha("feature")

    def change(self, head: str = "feature") -> change_set.ChangeSet:
        repository = Repository(*discover(str(self.git.path)), dict(os.environ))
        return change_set.from_range(repository, "main", head, "test")

    def finding(self, line: int, path: str = "src/a.py", **more: Any) -> Finding:
        """About one line of a file as it is on the branch, and quoted, so that it can be placed."""
        known: dict[str, Any] = {
            "rule": f"x/r{line}", "severity": Severity.HIGH, "message": f"problem {line}",
            "hint": "fix it", "evidence": (self.location(line, path),),
        }  # fmt: skip
        return Finding(**{**known, **more})

    def location(self, line: int, path: str = "src/a.py", end: int | None = None) -> Location:
        rows = self.git.text("show", f"feature:{path}").split("\n")
        last = end or line
        return Location(path, line, last, quote="\n".join(rows[line - 1 : last]))

    def report(
        self,
        *findings: Finding | int,
        head: str = "feature",
        usage: Usage | None = None,
        **part: Any,
    ) -> Report:
        """A number is the finding on that line of src/a.py."""
        found = tuple(self.finding(one) if isinstance(one, int) else one for one in findings)
        change = self.change(head)
        subject = Subject(NAME, change.base, change.head, change.merge_base, pull_request=NUMBER)
        parts = (Part("x", "what it says", {}, found, **part),)
        return Report(subject, Severity.HIGH, parts, usage=usage or Usage())

    def publisher(
        self,
        report: Report,
        run: str = "run",
        *,
        token: str = BOT,
        wishes: PostingOptions | None = None,
        client: GitHubClient | None = None,
        name: str = "",
        target: str = "",
        **more: Any,
    ) -> Publisher:
        to = Destination(NAME, NUMBER, head := report.subject.head or "", name, target)
        return Publisher(
            client or self.client_of(token), to, report, run=run,
            wishes=wishes, diff=self.change(head).diff if self.local else None, **more,
        )  # fmt: skip

    def publish(self, report: Report, run: str = "run", **more: Any) -> Publication:
        return self.publisher(report, run, **more).publish()

    # -- what is there now ------------------------------------------------------------------

    @property
    def summaries(self) -> list[str]:
        """The bodies of our summaries, whoever copied them."""
        return [one.body for one in self.state.comments if summary_comment.is_marked(one.body)]

    @property
    def summary(self) -> str:
        (only,) = self.summaries
        return only

    @property
    def last(self) -> summary_comment.Checkpoint:
        """The checkpoint in the one summary."""
        found = summary_comment.checkpoint_of(self.summary)
        assert found
        return found

    @property
    def beside(self) -> list[tuple[str, int | None]]:
        """Path and line of our review comments, in the order posted."""
        return [(one.path, one.original_line) for one in self.state.review_comments]

    def texts(self) -> Iterator[str]:
        """Every text that a request has brought here."""
        for request in self.github.writes:
            yield from _texts(request.body)


def _texts(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, dict | list):
        for value in body.values() if isinstance(body, dict) else body:
            yield from _texts(value)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stage(github: GitHub, tmp_path: Path) -> Iterator[Stage]:
    scene = build(github, tmp_path)
    staged = Stage(scene.github, scene.git, scene.url)
    yield staged
    staged.close()


def words(requests: Iterable[Request]) -> list[str]:
    """``POST reviews 200`` for each request: what was asked, without the ids."""
    return [f"{one.method} {one.path.rpartition('/')[2]} {one.status}" for one in requests]


Hook = Callable[[Request], None]


def once(act: Callable[[], object]) -> Hook:
    """A hook that acts at its first request, and not at those that this itself causes."""
    acted: list[bool] = []

    def hook(_request: Request) -> None:
        if not acted:
            acted.append(True)
            act()

    return hook
