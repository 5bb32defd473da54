"""What all runs on a pull request may spend on models, and what happens when it is spent.

Two things of our own runs have what was spent: the summary comments, with all texts that they had,
and the check runs. Whoever may write under our login can lower a figure in either; the highest
counts, and the report says that they differ. If the comments cannot be read, or there are none and
not all check runs can be read, no model is asked, and the report says how to go on.
"""

from __future__ import annotations

from rlm_ci.errors import RlmCiError
from rlm_ci.github.posting.outcome import LAST_REVIEW
from rlm_ci.judge.config_file import BUDGET as RULES
from rlm_ci.recursion.coverage import BUDGET
from rlm_ci.report.findings import FINDINGS, INCOMPLETE, Finding, Part
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rlm_ci.github.posting.check_run import CheckRunStates
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.github.posting.summary_comment import WrittenState
    from rlm_ci.github.session import GitHubSession

PART = "budget"
STOP = "stop"
_KEY = "budget.pull_request_usd"


class PullRequestBudget(Value):
    """USD that all runs may spend, and that earlier ones have; ``doubt`` is why that is not known.

    ``way_on`` is what to do about it, ``note`` what else to know of what was spent. ``stops``: once
    it is spent, a run ends as incomplete; else the checks go on alone. ``is_short``: what is left
    is less than the next question may cost. ``has_findings``: so the last review by a model ended,
    which checks alone cannot take back.
    """

    limit: float
    spent: float = 0.0
    doubt: str = ""
    way_on: str = ""
    note: str = ""
    stops: bool = False
    is_short: bool = False
    has_findings: bool = False

    @property
    def is_reached(self) -> bool:
        return not self.left

    @property
    def left(self) -> float:
        return 0.0 if self.doubt or self.is_short else max(0.0, self.limit - self.spent)

    def lets_ask(self, review: Part) -> bool:
        """Whether a review had room for a question about any file that the model was to read."""
        metrics = review.metrics
        files = int(metrics.get("files") or 0)
        unread = files - int(metrics.get("looked") or 0)
        is_out = f"{BUDGET}: no room in budget_usd" in review.summary
        return not (is_out and unread >= int(metrics.get("asked") or files))

    def part(self) -> Part:
        """What the report says of it."""
        text = f"${self.spent:.2f} of ${self.limit:.2f} spent by earlier runs on this pull request"
        text += f": {printable(self.note)}" if self.note else ""
        metrics: dict[str, Any] = {
            "limit_usd": self.limit,
            "spent_usd": None if self.doubt else self.spent,
        }
        if not self.is_reached:
            return Part(PART, text, metrics)
        way_on = (
            f"raise {_KEY} in the base's configuration, or review what is there without a model"
        )
        if self.doubt:
            text = f"what earlier runs have spent is not known: {self.doubt}"
            way_on = f"{self.way_on}; or unset {_KEY}"
        elif self.is_short:
            text += "; what is left is less than the next question may cost"
        if self.has_findings:
            text += "; the last review by a model has findings, and no model has looked since"
            metrics[LAST_REVIEW] = FINDINGS
        message = f"no model is asked: {printable(text)}"
        finding = Finding(f"{PART}/pull-request", RULES["pull-request"], message, hint=way_on)
        state = INCOMPLETE if self.stops or self.has_findings else None
        return Part(PART, text, metrics, (finding,), state)


def read(
    limit: float, to: Destination | None, way: GitHubSession, *, stops: bool
) -> PullRequestBudget:
    """The budget of the pull request ``to``, None if this run posts nothing on it."""
    budget = PullRequestBudget(limit, stops=stops)
    if to is None:
        doubt = "this run posts nothing that could say it to the next one"
        return budget.replace(doubt=doubt, way_on="let it post, with a token")
    from rlm_ci.github.posting import check_run, summary_comment

    client = way.client()
    try:
        login, comments = summary_comment.written_states(client, to)
    except RlmCiError as error:
        doubt = f"the summary comments cannot be read: {error}"
        return budget.replace(doubt=doubt, way_on=printable(error.hint or "run it again later"))
    checks = check_run.states_of(client, to, login)
    doubt = way_on = ""
    if not all(comment.all for comment in comments):
        doubt = "the state of a summary comment cannot be read"
        way_on = "delete the summary comment: the check runs are counted too"
        if checks.unread:  # or what was spent would be forgotten with it
            way_on = f"{checks.way_on}; then delete the summary comment"
    elif checks.unread and not comments:
        doubt = "there is no summary comment"
        way_on = f"{checks.way_on}, or let a run post its summary comment"
    if doubt:
        doubt = ", and ".join(filter(None, (doubt, checks.unread)))
        return budget.replace(doubt=doubt, way_on=printable(way_on))
    return _added_up(budget, comments, checks)


def _added_up(
    budget: PullRequestBudget, comments: Sequence[WrittenState], checks: CheckRunStates
) -> PullRequestBudget:
    """The budget with the highest figure, and a note if others are lower or missing."""
    by_comments = _by_run((state.run, state.run_usd) for each in comments for state in each.all)
    by_checks = _by_run((state.run, state.cost_usd) for state in checks.states)
    figures = {}
    if comments:
        before = sum(max(state.cost_usd for state in each.all) for each in comments)
        figures = {
            "summary comments": sum(each.last.cost_usd if each.last else 0 for each in comments),
            "what they said before": max(before, sum(by_comments.values())),
        }
    if checks.states:
        figures["check runs"] = sum(by_checks.values())
    runs = _by_run((*by_comments.items(), *by_checks.items()))
    spent = round(max((*figures.values(), sum(runs.values()))), 6)
    notes = [checks.unread] if checks.unread else []
    if not figures:
        notes.append("none has left a figure")
    elif not comments:
        notes.append("by their check runs, as there is no summary comment")
    elif any(round(usd, 6) != spent for usd in figures.values()):
        shown = ", ".join(f"{name} ${usd:.2f}" for name, usd in figures.items())
        notes.append(f"the highest counts of {shown}")
    has_findings = any(each.all[0].reviewed == FINDINGS for each in comments)
    return budget.replace(spent=spent, note="; ".join(notes), has_findings=has_findings)


def _by_run(amounts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The highest amount of each run."""
    highest: dict[str, float] = {}
    for run, usd in amounts:
        highest[run] = max(usd, highest.get(run, 0.0))
    return highest
