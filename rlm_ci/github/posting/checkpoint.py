"""What a run leaves for the next one, in the first line of the summary comment.

Whoever may edit a comment may edit this too, and so may any workflow that posts under the
same login (``github-actions[bot]``). So nothing in it is believed for its own sake: it is
read only from a comment of our own, every field is checked, and on any doubt the next run
starts from nothing and says why. An override is a pointer to the comment of a person, and
holds only if GitHub confirms that. What was spent can be forged, and decides nothing: it is
added up and shown.
"""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.report.findings import Usage

_VERSION = 1
_OPENS, _CLOSES = "<!-- rlm-ci:report", " -->"
#: The data of a marker, in characters: the rest of the comment is for its words. What a review
#: has left makes it longer, or is left out.
_LONGEST = 8192
_LONGEST_WITH_REVIEW = 16_384
#: In place of what a review has left, where there is no room for it.
NO_ROOM = "-"
_HEX = frozenset("0123456789abcdef")
_VERDICTS = ("clean", "findings", "incomplete", "not_run")
_MOST_OVERRIDES = 10


class Override(Value):
    """Findings of ``check`` on the head ``head``, waved through by a person and for a reason.

    ``comment`` is the id of the comment that says so.
    """

    check: str
    reason: str
    person: str
    head: str
    comment: int


class Checkpoint(Value):
    """The last judged state of a pull request.

    ``config`` is the fingerprint of the settings that judged, ``run`` is that of the run,
    ``calls``, ``tokens`` and ``cost_usd`` what the models took on this pull request in all.
    ``review`` is what a review of this head has left for the next one, as that has written it,
    and ``reviewed`` its verdict, "" where there was none.
    """

    number: int
    head: str
    base: str | None
    merge_base: str | None
    verdict: str
    config: str
    run: str
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    overrides: tuple[Override, ...] = ()
    review: str = ""
    reviewed: str = ""

    def after(self, before: Checkpoint | None, usage: Usage) -> Checkpoint:
        """The same, with what was spent before and in this run; a run is counted once.

        What was overridden on this head before stays so, and what a review said of it.
        """
        overrides, reviewed = self.overrides, self.reviewed
        if before is not None and (before.number, before.head) == (self.number, self.head):
            reviewed = reviewed or before.reviewed
            ours = {one.check for one in overrides}
            overrides = (*(one for one in before.overrides if one.check not in ours), *overrides)
        calls, tokens = usage.calls, usage.prompt_tokens + usage.completion_tokens
        cost = usage.cost_usd or 0.0
        if before is not None and before.run == self.run:
            calls, tokens, cost = before.calls, before.tokens, before.cost_usd
        elif before is not None:
            calls, tokens, cost = (
                calls + before.calls,
                tokens + before.tokens,
                cost + before.cost_usd,
            )
        return self.replace(
            calls=calls,
            tokens=tokens,
            cost_usd=round(cost, 6),
            overrides=overrides,
            reviewed=reviewed,
        )

    def plus(self, usage: Usage) -> Checkpoint:
        """The same, with what another run has spent."""
        return self.replace(
            calls=self.calls + usage.calls,
            tokens=self.tokens + usage.prompt_tokens + usage.completion_tokens,
            cost_usd=round(self.cost_usd + (usage.cost_usd or 0.0), 6),
        )

    def marker(self) -> str:
        """The first line of the comment.

        It has what the review has left, or else as many of the last overrides as there is room.
        """
        import json
        from base64 import urlsafe_b64encode

        record = {name: getattr(self, name) for name in self._fields}
        record["v"] = _VERSION
        kept = [
            {name: getattr(one, name) for name in one._fields}
            for one in self.overrides[-_MOST_OVERRIDES:]
        ]
        longest = _LONGEST_WITH_REVIEW if len(self.review) > len(NO_ROOM) else _LONGEST
        while True:
            text = json.dumps({**record, "overrides": kept}, separators=(",", ":"), sort_keys=True)
            data = urlsafe_b64encode(text.encode()).decode()
            if len(data) <= longest:
                return f"{_OPENS} {data}{_CLOSES}"
            if longest > _LONGEST:
                record["review"], longest = NO_ROOM, _LONGEST
            elif kept:
                del kept[0]
            else:
                return f"{_OPENS} {data}{_CLOSES}"


def is_marked(body: str) -> bool:
    """Whether the first line of ``body`` is a marker of ours, with or without a checkpoint."""
    line = body.partition("\n")[0].rstrip("\r")
    inner = line.removeprefix(_OPENS).removesuffix(_CLOSES)
    plain = all(char.isalnum() or char in "-_=" for char in inner[1:]) and inner.isascii()
    return line == f"{_OPENS}{inner}{_CLOSES}" and inner[:1] in ("", " ") and plain


def read(body: str) -> Checkpoint | None:
    """The checkpoint in the first line of our own comment; None if it has none that holds."""
    if not is_marked(body):
        return None
    line = body.partition("\n")[0].rstrip("\r")
    data = line.removeprefix(_OPENS).removesuffix(_CLOSES).strip()
    if not data or len(data) > _LONGEST_WITH_REVIEW:
        return None
    import json
    from base64 import urlsafe_b64decode

    try:
        record = json.loads(urlsafe_b64decode(data))
        return _checked(record)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _checked(record: Any) -> Checkpoint:
    """Raises ValueError, KeyError or TypeError for a record that does not hold."""
    if record["v"] != _VERSION:
        raise ValueError("another version")
    overrides = tuple(
        Override(_text(one["check"], 64), _text(one["reason"], 500), _text(one["person"], 64),
                 _commit(one["head"]), _count(one["comment"]))
        for one in record["overrides"][-_MOST_OVERRIDES:]
    )  # fmt: skip
    verdict = record["verdict"]
    reviewed = record.get("reviewed", "")
    if verdict not in _VERDICTS or reviewed not in ("", *_VERDICTS):
        raise ValueError("no verdict")
    return Checkpoint(
        number=_count(record["number"]),
        head=_commit(record["head"]),
        base=None if record["base"] is None else _commit(record["base"]),
        merge_base=None if record["merge_base"] is None else _commit(record["merge_base"]),
        verdict=verdict,
        config=_text(record["config"], 64),
        run=_text(record["run"], 64),
        calls=_count(record["calls"]),
        tokens=_count(record["tokens"]),
        cost_usd=_money(record["cost_usd"]),
        overrides=overrides,
        review=_text(record.get("review", ""), _LONGEST_WITH_REVIEW),
        reviewed=reviewed,
    )


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError("no text")
    return value


def _commit(value: Any) -> str:
    text = _text(value, 64)
    if len(text) not in (40, 64) or not set(text) <= _HEX:
        raise ValueError("no commit")
    return text


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**15:
        raise ValueError("no count")
    return value


def _money(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 10**9:
        raise ValueError("no amount")
    return float(value)


def resume(
    last: Checkpoint | None, now: Checkpoint, is_ancestor: Callable[[str, str], bool]
) -> tuple[str | None, str]:
    """The commit from which on ``now`` has anything new, and why; None for all of it.

    ``is_ancestor(one, other)`` asks the repository. Only a run that looked at everything,
    under the same settings and from the same merge base, spares the next one anything.
    """
    if last is None:
        return None, "there is no checkpoint of an earlier run"
    doubts = (
        (last.number != now.number, "the checkpoint is of another pull request"),
        (last.verdict not in ("clean", "findings"), "the last run did not look at everything"),
        (last.config != now.config, "the settings have changed"),
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
