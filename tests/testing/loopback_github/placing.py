"""Where a review comment may stand, and where it stands after a push.

The texts of the refusals are GitHub's own, as users report them; `POST .../comments` names fields,
`POST .../reviews` writes the same as one sentence and never says which comment it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from testing.repositories.git_repo import GitError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.loopback_github.pulls import ChangedFile, Side
    from testing.loopback_github.state import Pull, Repository, ReviewComment

_RESOURCE = "PullRequestReviewComment"


@dataclass(frozen=True)
class Place:
    """Where a comment stands in today's diff."""

    line: int | None
    start_line: int | None
    position: int | None
    outdated: bool


class MisplacedError(Exception):
    """A comment that the diff has no place for; ``faults`` are GitHub's rows, in its order."""

    def __init__(self, *faults: tuple[str, str, str | None]) -> None:
        super().__init__(str(faults))
        self.faults = faults

    def rows(self) -> list[dict[str, Any]]:
        """As ``POST .../comments`` says it."""
        rows = []
        for code, field, text in self.faults:
            row = {"resource": _RESOURCE, "code": code, "field": field}
            rows.append(row | ({"message": f"{field} {text}"} if text else {}))
        return rows

    def sentence(self) -> str:
        """As ``POST .../reviews`` says it."""
        words = {"missing_field": "can't be blank", "invalid": "is invalid"}
        parts = []
        for code, field, text in self.faults:
            name = field.replace("_", " ").replace(".", " ")
            parts.append(f"{name[0].upper()}{name[1:]} {text or words[code]}")
        if len(parts) < 3:
            return " and ".join(parts)
        return ", ".join(parts[:-1]) + f", and {parts[-1]}"


@dataclass(frozen=True)
class Wanted:
    """What a client asks for, checked: where a new comment goes."""

    path: str
    subject: Literal["line", "file"]
    line: int | None
    side: Side
    start_line: int | None
    start_side: Side | None
    position: int | None
    diff_hunk: str


def _thread(field: str) -> str:
    return f"pull_request_review_thread.{field}"


_NO_HUNK = ("missing_field", _thread("diff_hunk"), None)


def belongs(repo: Repository, pr: Pull, commit: str) -> bool:
    """Whether ``commit`` is one of the pull request's commits today."""
    fork = repo.source.merge_base(pr.base_sha, pr.head_sha)
    return commit in repo.source.commits_between(fork, pr.head_sha)


def _file(repo: Repository, pr: Pull, commit: str, path: str) -> ChangedFile | None:
    files = repo.source.diff(pr.base_sha, commit)
    return next((file for file in files if file.path == path), None)


def place_new(repo: Repository, pr: Pull, commit: str, asked: Mapping[str, Any]) -> Wanted:
    """Where a comment that a client sends would stand. Raises MisplacedError."""
    path = asked["path"]
    file = _file(repo, pr, commit, path)
    if file is None:
        raise MisplacedError(("invalid", _thread("path"), None), _NO_HUNK)
    if asked.get("subject_type") == "file":
        return Wanted(path, "file", None, "RIGHT", None, None, None, "")
    if asked.get("line") is None and asked.get("position") is not None:
        return _by_position(file, asked["position"])
    side: Side = asked.get("side") or "RIGHT"
    line, start = asked.get("line"), asked.get("start_line")
    faults: list[tuple[str, str, str | None]] = []
    end = file.anchors.get((side, line)) if line is not None else None
    if end is None:
        faults.append(("custom", _thread("line"), "must be part of the diff"))
    start_side: Side | None = None
    if start is not None:
        start_side = asked.get("start_side") or side
        begin = file.anchors.get((start_side, start))
        if begin is None or end is None or begin.hunk != end.hunk:
            text = "must be part of the same hunk as the line."
            faults.append(("custom", _thread("start_line"), text))
        elif begin.position >= end.position:
            faults.append(("custom", _thread("start_line"), "must precede the end line."))
    if end is None:
        faults.append(_NO_HUNK)
    if faults or end is None:
        raise MisplacedError(*faults)
    hunk = file.hunk_until(end)
    return Wanted(path, "line", line, side, start, start_side, end.position, hunk)


def _by_position(file: ChangedFile, position: int) -> Wanted:
    """The deprecated way: rows below the first ``@@``."""
    for (side, line), anchor in sorted(file.anchors.items(), reverse=True):
        if anchor.position == position:
            hunk = file.hunk_until(anchor)
            return Wanted(file.path, "line", line, side, None, None, position, hunk)
    raise MisplacedError(("invalid", _thread("position"), None), _NO_HUNK)


def place_now(repo: Repository, pr: Pull, made: ReviewComment) -> Place:
    """Where a comment stands in the diff of today's head: followed through git, or outdated."""
    gone = Place(None, None, None, outdated=True)
    source = repo.source
    file = _file(repo, pr, pr.head_sha, made.path)
    if file is None:
        return gone
    if made.subject == "file":
        return Place(None, None, 1, outdated=False)
    try:
        ends = {
            "RIGHT": (made.commit, pr.head_sha),
            "LEFT": (
                source.merge_base(pr.base_sha, made.commit),
                source.merge_base(pr.base_sha, pr.head_sha),
            ),
        }
    except GitError:  # no common history any more
        return gone

    def follow(line: int | None, side: Side | None) -> int | None:
        if line is None or side is None:
            return None
        old, new = ends[side]
        return line if old == new else source.moved_line(old, new, made.path, line)

    line = follow(made.original_line, made.side)
    anchor = file.anchors.get((made.side, line)) if line is not None else None
    if anchor is None:
        return gone
    start = follow(made.original_start_line, made.start_side)
    return Place(line, start, anchor.position, outdated=False)
