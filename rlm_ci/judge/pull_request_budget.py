"""What all runs on a pull request may spend on models, and what happens when it is spent.

The summary comments of our own runs have what was spent. Anybody who may write to the repository
can edit them: on any doubt no model is asked, and the report says why and how to go on.
"""

from __future__ import annotations

from rlm_ci.errors import RlmCiError
from rlm_ci.judge.config_file import BUDGET as RULES
from rlm_ci.report.findings import INCOMPLETE, Finding, Part
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.github.session import GitHubSession

PART = "budget"
STOP = "stop"
_KEY = "budget.pull_request_usd"


class PullRequestBudget(Value):
    """USD that all runs may spend, and that earlier ones have; ``doubt`` is why that is not known.

    ``stops``: once it is spent, a run ends as incomplete; else the checks go on alone.
    """

    limit: float
    spent: float = 0.0
    doubt: str = ""
    stops: bool = False

    @property
    def is_reached(self) -> bool:
        return not self.left

    @property
    def left(self) -> float:
        return 0.0 if self.doubt else max(0.0, self.limit - self.spent)

    def part(self) -> Part:
        """What the report says of it."""
        text = f"${self.spent:.2f} of ${self.limit:.2f} spent by earlier runs on this pull request"
        metrics = {"limit_usd": self.limit, "spent_usd": None if self.doubt else self.spent}
        if not self.is_reached:
            return Part(PART, text, metrics)
        way_on = (
            f"raise {_KEY} in the base's configuration, or review what is there without a model"
        )
        if self.doubt:
            text = f"what earlier runs have spent is not known: {self.doubt}"
            way_on = "delete the summary comment to begin anew, or unset budget.pull_request_usd"
        message = f"no model is asked: {printable(text)}"
        finding = Finding(f"{PART}/pull-request", RULES["pull-request"], message, hint=way_on)
        return Part(PART, text, metrics, (finding,), INCOMPLETE if self.stops else None)


def read(
    limit: float, to: Destination | None, way: GitHubSession, *, stops: bool
) -> PullRequestBudget:
    """The budget of the pull request ``to``, None if this run posts nothing on it."""
    budget = PullRequestBudget(limit, stops=stops)
    if to is None:
        return budget.replace(doubt="this run posts no summary comment that could say it")
    from rlm_ci.github.posting.summary_comment import spending

    try:
        spent, doubt = spending(way.client(), to)
    except RlmCiError as error:
        return budget.replace(doubt=f"the summary comments cannot be read: {error}")
    return budget.replace(spent=spent, doubt=doubt)
