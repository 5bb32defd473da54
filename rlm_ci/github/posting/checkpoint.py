"""What a run leaves for the next one, in the first line of the summary comment.

Anybody who may edit a comment can forge it, and any workflow that posts under the same login
(``github-actions[bot]``). So it is read only from our own comment, every field is checked, and on
any doubt the next run starts from nothing and says why. An override is a pointer to a person's
comment, and counts only if GitHub confirms that. What was spent decides nothing.
"""

from __future__ import annotations

import re

from rlm_ci.decoding import Kind, number, one_of, text
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rlm_ci.decoding import ObjectId
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.report.findings import Usage

_VERSION = 1
_OPENS, _CLOSES = "<!-- rlm-ci:report", " -->"
#: Characters of a marker's data, without and with the state of a review.
_LONGEST = 8192
_LONGEST_WITH_REVIEW = 16_384
#: In place of the state of a review that is too long.
NO_ROOM = "-"
_MARKER = re.compile(rf"{_OPENS}(?: ([\w=-]*))?{_CLOSES}\r*(?:\n|$)", re.ASCII)
_VERDICTS = ("clean", "findings", "incomplete", "not_run")
_MOST_OVERRIDES = 10
#: Characters of the name of a run.
LONGEST_NAME = 80

if TYPE_CHECKING:
    Name = str
    Reason = str
    Branch = str
    RunName = str
    State = str
    Verdict = str
    ReviewVerdict = str
    Total = int
    Amount = float
else:
    Name, Reason, Branch, RunName = (text(size, 0) for size in (64, 500, 255, LONGEST_NAME))
    State = text(_LONGEST_WITH_REVIEW, 0)
    Verdict, ReviewVerdict = one_of(*_VERDICTS), one_of("", *_VERDICTS)
    Total = number(0, 10**15 - 1)
    Amount = Kind(
        lambda value: type(value) in (int, float) and 0 <= value < 10**9,
        "an amount",
        {"type": "number", "minimum": 0, "exclusiveMaximum": 10**9},
        float,
    )


class Override(Value):
    """Findings of ``check`` that a person overrides by the comment with this id.

    It holds for ``head`` beyond ``merge_base``, on its way to the branch ``target``.
    """

    _ignores = True

    check: Name
    reason: Reason
    person: Name
    head: ObjectId
    comment: Total
    target: Branch = ""
    merge_base: ObjectId | None = None


class Checkpoint(Value):
    """The last judged state of a pull request.

    ``config`` is the fingerprint of the settings; ``calls``, ``tokens`` and ``cost_usd`` are the
    models' on this pull request in all. ``review`` is the state that a review of this head leaves
    for the next one, ``reviewed`` its verdict, "" without one, ``round`` the number of heads that a
    model has reviewed. ``name`` is that of the run,
    ``target`` the branch that the pull request goes to.
    """

    _ignores = True
    _optional = ()
    _recent = ("review", "reviewed", "name", "target", "round")

    number: Total
    head: ObjectId
    base: ObjectId | None
    merge_base: ObjectId | None
    verdict: Verdict
    config: Name
    run: Name
    calls: Total = 0
    tokens: Total = 0
    cost_usd: Amount = 0.0
    overrides: tuple[Override, ...] = ()
    review: State = ""
    reviewed: ReviewVerdict = ""
    name: RunName = ""
    target: Branch = ""
    round: Total = 0

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """With the last overrides alone."""
        if record["v"] != _VERSION:
            raise ValueError("another version")
        return {**record, "overrides": record["overrides"][-_MOST_OVERRIDES:]}

    def is_of(self, to: Destination) -> bool:
        """Whether it judged the same commit of the same pull request, on the same base."""
        mine = (self.number, self.head, self.target, self.merge_base)
        return mine == (to.number, to.head, to.target, to.merge_base)

    def after(self, before: Checkpoint | None, usage: Usage) -> Checkpoint:
        """The same, with what was spent before and in this run; a run is counted once.

        Earlier overrides of this head and the verdict of its review stay, if the base is the same.
        """
        if before is None:
            return self.plus(usage)
        now = self
        same = ("number", "head", "target", "merge_base")
        if all(getattr(before, name) == getattr(self, name) for name in same):
            checks = {override.check for override in self.overrides}
            earlier = (override for override in before.overrides if override.check not in checks)
            now = self.replace(
                overrides=(*earlier, *self.overrides), reviewed=self.reviewed or before.reviewed
            )
        now = now.replace(round=max(now.round, before.round))
        now = now.replace(calls=before.calls, tokens=before.tokens, cost_usd=before.cost_usd)
        return now if before.run == self.run else now.plus(usage)

    def plus(self, usage: Usage) -> Checkpoint:
        """The same, with what another run has spent."""
        return self.replace(
            calls=self.calls + usage.calls,
            tokens=self.tokens + usage.prompt_tokens + usage.completion_tokens,
            cost_usd=round(self.cost_usd + (usage.cost_usd or 0.0), 6),
        )

    def marker(self) -> str:
        """The first line of the comment: with the review's state, or else the last overrides."""
        import json
        from base64 import urlsafe_b64encode

        record = self.to_dict()
        overrides = record["overrides"][-_MOST_OVERRIDES:]
        longest = _LONGEST_WITH_REVIEW if len(self.review) > len(NO_ROOM) else _LONGEST
        while True:
            record |= {"v": _VERSION, "overrides": overrides}
            text = json.dumps(record, separators=(",", ":"), sort_keys=True)
            data = urlsafe_b64encode(text.encode()).decode()
            if longest > _LONGEST and len(data) > longest:
                record["review"], longest = NO_ROOM, _LONGEST
            elif overrides and len(data) > longest:
                del overrides[0]
            else:
                return f"{_OPENS} {data}{_CLOSES}"


def is_marked(body: str) -> bool:
    """Whether the first line of ``body`` is a marker of ours, with or without a checkpoint."""
    return _MARKER.match(body) is not None


def of_name(name: str, comments: Iterable[tuple[Checkpoint | None, Any]]) -> list[Any]:
    """The comments of the runs called ``name``; if there is none, those without a name.

    An older version gave none: the first run to come takes its comment over.
    """
    by_name: dict[str, list[Any]] = {}
    for last, comment in comments:
        by_name.setdefault(last.name if last else "", []).append(comment)
    return by_name.get(name) or by_name.get("", [])


def read(body: str) -> Checkpoint | None:
    """The checkpoint in the first line of our own comment; None if there is no valid one."""
    marked = _MARKER.match(body)
    if not marked or not marked[1] or len(marked[1]) > _LONGEST_WITH_REVIEW:
        return None
    import json
    from base64 import urlsafe_b64decode

    try:
        return Checkpoint.from_dict(json.loads(urlsafe_b64decode(marked[1])))
    except (ValueError, RecursionError):
        return None


def resume(
    last: Checkpoint | None, now: Checkpoint, is_ancestor: Callable[[str, str], bool]
) -> tuple[str | None, str]:
    """The commit since which ``now`` has anything new, and why; None for all of it.

    Only a run that looked at everything, under the same settings and from the same merge base,
    spares the next one anything. ``is_ancestor(one, other)`` asks the repository.
    """
    if last is None:
        return None, "there is no checkpoint of an earlier run"
    doubts = (
        (last.number != now.number, "the checkpoint is of another pull request"),
        (last.verdict not in ("clean", "findings"), "the last run did not look at everything"),
        (last.config != now.config, "the settings have changed"),
        (last.target != now.target, "the base branch has changed"),
        (last.merge_base != now.merge_base, "the merge base has changed"),
    )
    for holds, doubt in doubts:
        if holds:
            return None, doubt
    if last.head == now.head:
        return last.head, "this commit was checked before"
    if not is_ancestor(last.head, now.head):
        return None, "the branch was rewritten"
    return last.head, f"what was checked at {last.head[:12]} is unchanged"
