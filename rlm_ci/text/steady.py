"""What programs print, without what differs by chance: a cache knows a prompt by its bytes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

#: Where an object lies, as its repr says it; how long tests took; a folder with a name by chance.
_BY_CHANCE = re.compile(
    r"(?<= at )0x[0-9a-fA-F]{6,16}\b|(?<= in )[0-9]{1,9}\.[0-9]{2,9}s\b|(?<=/)tmp[a-z0-9_]{8}\b"
)
#: A time at the beginning of a line, as logs have it; elsewhere it may be what a program computes.
_STAMP = re.compile(
    r"^([\t \[(]{0,20})([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?",
    re.MULTILINE,
)


def steady(text: str, now: datetime | None = None) -> str:
    """``text`` without addresses, durations of tests, names by chance, and the times of its log."""
    now = now or datetime.now(UTC)
    days = {(now + timedelta(days=number)).date().isoformat() for number in (-1, 0, 1)}

    def without(stamp: re.Match[str]) -> str:
        return f"{stamp[1]}<time>" if stamp[2] in days else stamp[0]

    return _STAMP.sub(without, _BY_CHANCE.sub("…", text))
