"""How deep a review goes, and what it looks around with."""

from __future__ import annotations

from rlm_ci.recursion.prompt_windows import LEAST
from rlm_ci.review.analyzers.sandboxed import AnalyzerUnavailableError, available
from rlm_ci.review.exploration.explorer import (
    DEEP,
    LIMITS,
    NORMAL,
    QUICK,
    Explorer,
    ReviewTools,
    ReviewTrees,
)
from rlm_ci.review.guidelines import Guidelines
from rlm_ci.review.model.finder import room_for_change
from rlm_ci.trials.trees import BASE, HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository
    from rlm_ci.pipelines.repository.plan import RepositoryOptions
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.review.proofs.runner import ProofRunner
    from rlm_ci.runs import Fact

_WITHOUT = "the model read without looking around"
#: Bytes of a prompt for tools, and for two results of them.
_LOOKS = 9_000
_NO_GUIDELINES = Guidelines(())


def depth_of(
    requested: str,
    sandbox: str,
    *,
    by_default: bool,
    is_change: bool,
    is_git: bool,
    may_write: bool,
) -> tuple[str, str]:
    """The depth of a review, and why it is less than ``requested``; "" if it is not.

    ``by_default``: nobody has said what is wanted.
    """
    if requested == QUICK:
        return QUICK, ""
    if by_default and not is_change:  # its many prompts would each become a conversation
        return QUICK, ""
    if not is_git:
        return QUICK, f"{_WITHOUT}: the folder is in no git repository"
    if not may_write:
        return QUICK, f"{_WITHOUT}: a comment asked for the review"
    try:
        has_sandbox = available(sandbox) != "none"
    except AnalyzerUnavailableError:
        has_sandbox = False
    if by_default and not has_sandbox:
        return QUICK, f"{_WITHOUT}: there is no sandbox"
    return requested, ""


def with_room(
    requested: str,
    prompt_bytes: int,
    repair: int,
    guidelines: Guidelines = _NO_GUIDELINES,
    description: str = "",
) -> str:
    """The depth ``requested``, or a lesser one that has room in prompts; "" where none has.

    Beside the ``guidelines``, the ``description`` and the change, a conversation needs room for
    what tools say.
    """
    depths = (DEEP, NORMAL, QUICK)
    for depth in depths[depths.index(requested) :]:
        limits = LIMITS.get(depth)
        size = prompt_bytes if limits is None else int(limits.prompt * prompt_bytes)
        is_wide = limits is None or prompt_bytes - size >= _LOOKS
        if is_wide and room_for_change(size, repair, guidelines, description) >= LEAST:
            return depth
    return ""


def explorer_of(
    agreed: RepositoryOptions,
    repository: Repository,
    fact: Fact,
    corpus: Corpus,
    runner: ProofRunner | None = None,
) -> Explorer:
    """What the conversations of a review share; ``corpus`` is what there is at the head."""
    where = agreed.scope
    sides = {HEAD: where.commit}
    if where.merge_base is not None:
        sides[BASE] = where.merge_base
    limits = LIMITS[agreed.options["depth"]]
    trees = ReviewTrees(repository, sides)
    tools = ReviewTools(trees, repository, where.head, runner, limits.seconds)
    return Explorer(fact, tools, limits, corpus)
