"""A file with its text before and after, and one way in which that makes the tests weaker."""

from __future__ import annotations

from rlm_ci.values import Value


class TextChange(Value):
    """A file with its text before and after; None where it is not there."""

    path: str
    before: str | None
    after: str | None


class Weakening(Value):
    """``rule`` is the condition; ``line`` is 1-based in the file at ``path``, on ``side``."""

    rule: str
    message: str
    path: str
    line: int | None = None
    side: str = "new"
