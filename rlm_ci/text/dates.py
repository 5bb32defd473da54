"""Days as ``YYYY-MM-DD``: they compare as texts, so a hook need not load ``datetime``."""

from __future__ import annotations

import time
from functools import lru_cache

from rlm_ci.text.printable import printable

_SHOWN = 80
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def today(now: float | None = None) -> str:
    """The day in UTC at ``now``, in seconds since the epoch (default: this moment)."""
    return time.strftime("%Y-%m-%d", time.gmtime(now))


@lru_cache(1024)
def is_day(text: str) -> bool:
    """Whether ``text`` is a day of the calendar, in exactly this form."""
    year, month, day = text[:4], text[5:7], text[8:]
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        return False
    if not (text.isascii() and (year + month + day).isdigit() and int(year)):
        return False
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= _DAYS[int(month) - 1]):
        return False
    leap = int(year) % 4 == 0 and (int(year) % 100 != 0 or int(year) % 400 == 0)
    return leap or (month, day) != ("02", "29")


def flaw_of_end(text: str, now: str) -> str | None:
    """Why the end that a reason sets itself, ``(until YYYY-MM-DD)``, does not hold on day ``now``.

    None where it does, or sets none.
    """
    start = text.lower().rfind("(until ")
    if start < 0:
        return None
    day, closed, _ = text[start + len("(until ") :].partition(")")
    day = day.strip()
    shown = repr(printable(day[:_SHOWN])[:_SHOWN])
    if not closed:
        return f"its end {shown} is not closed by a parenthesis"
    if not is_day(day):
        return f"its end {shown} is not a day YYYY-MM-DD"
    return f"it ended on {day}" if day < now else None
