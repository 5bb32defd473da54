"""``rlm-ci review --dry-run``: the questions that read the code, and what they cost.

The recursion runs as it would, with a model that finds nothing and counts what it is sent.
"""

from __future__ import annotations

import json
from decimal import Decimal
from tempfile import TemporaryDirectory

from rlm_ci.judge.options import models_of
from rlm_ci.models import Completion, ModelRequest
from rlm_ci.models.gateway import price_of
from rlm_ci.pipelines.repository.attempt import fitted, options_of
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.scheduler import Budget, Constraints
from rlm_ci.recursion.solver import RLM
from rlm_ci.recursion.tree_split import TreeShape
from rlm_ci.review.change_prompts.prompts import part_of
from rlm_ci.review.exploration.explorer import LIMITS, QUICK
from rlm_ci.review.model.metered import CALLS, TOKENS, limit_of, times_of
from rlm_ci.review.objective import ReviewObjective
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.models import Message
    from rlm_ci.pipelines.repository.plan import RepositoryOptions
    from rlm_ci.recursion.nodes import Node
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.review.run import ReviewJob

#: Bytes of a token, in code with its line numbers.
_TOKEN = 3.5
_EMPTY = '{"findings": [], "claims": []}'


class ReviewCost(Value):
    """What reading sends, and what at most if the model looks around; no ``model``, nothing.

    ``usd`` is without answers, None where the price is not known. Claims are looked at again only
    below the limits, which count what was read.
    """

    model: str | None
    calls: int = 0
    prompt_tokens: int = 0
    usd: Decimal | None = None
    most_calls: int = 0
    most_prompt_tokens: int = 0
    most_usd: Decimal | None = None
    answer_tokens: int = 0
    limit_calls: int = 0
    limit_prompt_tokens: int = 0


class _Counter:
    """Stands in for the model, and keeps the size of each prompt."""

    def __init__(self, options: RepositoryOptions, limit: int) -> None:
        self.model = options.model or ""
        self.max_bytes, self.repair = limit, options.repair
        self.is_taught = False
        self.sizes: list[int] = []

    def __call__(
        self,
        step: str,  # noqa: ARG002 - as it is called
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        request = ModelRequest(
            self.model, tuple(messages), 0, tuple(tools), response_format=response_format
        )
        self.sizes.append(request.prompt_bytes())
        return Completion(_EMPTY, (), "stop", self.model)

    def calls_left(self) -> int | None:
        return None


def cost_of(job: ReviewJob, redactor: Redactor) -> ReviewCost:
    """What the model of ``job`` would be asked to read. Raises ConfigError, StorageError."""
    settings = job.settings
    settings.values |= {"review.ruff": "off", "review.analyzers": ()}  # they cost nothing
    agreed = fitted(job, options_of(job))
    if agreed.model is None:
        return ReviewCost(None)
    depth = LIMITS.get(agreed.options.get("depth", QUICK))
    prompt_bytes = agreed.prompt_bytes if depth is None else int(depth.prompt * agreed.prompt_bytes)
    counter = _Counter(agreed, prompt_bytes)
    _solve(job, agreed, counter, redactor)
    calls, changed = len(counter.sizes), agreed.options["changed"]
    if depth is not None and changed is not None and calls:
        # The last one asks what the change does.
        depth = depth.shared(max(1, calls - 1), times_of(changed))
    looks = [depth is not None and depth.has_room(size) for size in counter.sizes]
    pairs = list(zip(counter.sizes, looks, strict=True))
    sent = [depth.most_sent(size) if depth and look else size for size, look in pairs]
    most_calls = sum(depth.turns if depth and look else 1 for look in looks)
    price = price_of(models_of(settings))(agreed.model)
    fewest, worst = (int(sum(sizes) / _TOKEN) for sizes in (counter.sizes, sent))
    answers = agreed.max_completion_tokens

    def usd(calls: int, prompts: int, completion: int) -> Decimal | None:
        if price is None or not calls:
            return None if price is None else Decimal(0)
        return price.max_cost(prompts // calls, completion) * calls

    limit = limit_of(changed, {CALLS: calls, TOKENS: fewest})
    return ReviewCost(
        agreed.model, calls, fewest, usd(calls, fewest, 0), most_calls, worst,
        usd(most_calls, worst, answers), answers, *map(int, limit),
    )  # fmt: skip


def _solve(
    job: ReviewJob, agreed: RepositoryOptions, counter: _Counter, redactor: Redactor
) -> None:
    corpus, prompts = job.corpus(agreed), job.prompts(agreed, agreed.options, counter.max_bytes)
    files = job.affected_files(agreed.scope) if prompts else None
    parts = [part_of(prompt, files) for prompt in prompts.prompts] if prompts and files else []
    if not corpus.files and not parts:
        return

    def ask(_node: Node) -> _Counter:
        return counter

    shape = TreeShape(leaf_bytes=agreed.leaf_bytes, leaf_files=agreed.leaf_files)
    with (
        TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True) as folder,
        Journals.open(folder, redactor=redactor) as store,
    ):
        rlm = RLM(corpus, store, ask=ask, prompts=parts)
        limits = Constraints(order=agreed.order, shape=shape)
        review = ReviewObjective(agreed.options, prompts=prompts)
        rlm.solve(rlm.root, review, Budget(max_depth=agreed.max_depth), limits)


def as_json(cost: ReviewCost) -> str:
    record = cost.to_dict()
    usd = {"usd": cost.usd, "most_usd": cost.most_usd}
    texts = {name: None if value is None else f"{value:.4f}" for name, value in usd.items()}
    return json.dumps({**record, **texts}, indent=2) + "\n"


def as_text(cost: ReviewCost) -> str:
    if cost.model is None:
        return "No model is used: the review costs nothing\n"
    rows = [
        ("To read it", cost.calls, cost.prompt_tokens, cost.usd, "without the answers"),
        ("At most", cost.most_calls, cost.most_prompt_tokens, cost.most_usd,
         f"with answers of {cost.answer_tokens:,} tokens each"),
    ]  # fmt: skip
    lines = [f"Model: {cost.model}"]
    for name, calls, tokens, usd, what in rows:
        money = "price not known" if usd is None else f"${usd:.2f} {what}"
        lines.append(f"{name}: {count(calls, 'call')}, about {tokens:,} tokens of prompts, {money}")
    lines.append(
        f"What it finds is looked at again, until all has taken {count(cost.limit_calls, 'call')}"
        f" or {cost.limit_prompt_tokens:,} tokens of prompts"
    )
    return "\n".join(lines) + "\n"
