"""Requests for an analysis: from the pull request, from HEAD's commit, from the role itself."""

from __future__ import annotations

import re

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from rlm_ci.git.repository import Repository

#: The label of a pull request that asks for all roles.
LABEL = "rlms-request"
_TRAILER = "--format=%(trailers:key=RLMS-Request,valueonly)"


class Requests(Value):
    """Who may ask. ``standing`` is whether label or trailer ask for all roles of the run."""

    keyword: str
    standing: bool

    @classmethod
    def of(cls, keyword: str, repository: Repository, labels: Collection[str]) -> Requests:
        """Those of the run that begins now."""
        return cls(keyword, LABEL in labels or _in_trailer(keyword, repository))

    def is_requested(self, text: str) -> bool:
        """Whether ``text``, which the role said last, has a request.

        Its keyword counts at the beginning of a line, alone or before a colon: an agent's output
        may hold whatever the agent has read, such as a page that explains the keyword.
        """
        pattern = rf"^[ \t]*{re.escape(self.keyword)}[ \t]*(:.*)?\r?$"
        return self.standing or re.search(pattern, text, re.MULTILINE) is not None


def _in_trailer(keyword: str, repository: Repository) -> bool:
    head = repository.head_commit() if repository.git_dir else None
    if head is None:
        return False
    values = repository.run("log", "-1", "--no-show-signature", _TRAILER, head).decode(
        "utf-8", "replace"
    )
    return keyword in (line.strip() for line in values.split("\n"))
