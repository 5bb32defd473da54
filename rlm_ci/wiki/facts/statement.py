"""What a file of a repository says, and where."""

from __future__ import annotations

from rlm_ci.values import Row


class Statement(Row):
    """A text of the repository, and the lines where it stands."""

    text: str
    line_start: int
    line_end: int
