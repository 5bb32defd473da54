"""What the model of a run reads, agreed on when the run begins."""

from __future__ import annotations

from rlm_ci.judge.options import models_of
from rlm_ci.models import context_length
from rlm_ci.models.gateway import context_of
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.models import Model
    from rlm_ci.models.gateway import ModelContext
    from rlm_ci.pipelines.attempt import PipelineJob

_ANSWER, _SIZE = "models.max_completion_tokens", "recursion.prompt_bytes"
#: Bytes of a prompt that no context makes shorter.
_PROMPT = 120_000


class AgreedContext(Value):
    """The context of a model, and the tokens that an answer may have in it."""

    context: ModelContext
    answer: int

    def prompt_bytes(self, limit: int = _PROMPT) -> int:
        """``limit``, or what a prompt has room for beside the answer."""
        context = self.context
        ratio = context.bytes_per_token
        return context_length.prompt_bytes(context.tokens, self.answer, limit, ratio)

    def terms(self) -> dict[str, Any]:
        """As the options of a run have it."""
        return {"context_tokens": self.context.tokens, "max_completion_tokens": self.answer}


def agreed_context(job: PipelineJob, model: str, connector: Model | None = None) -> AgreedContext:
    """What ``model`` reads, see ``context_of``, and how long its answers may be.

    A number that is set stays. Says it where it is little.
    """
    settings = job.settings
    context = context_of(models_of(settings), model, connector, job.runs)
    limit = answer = settings.models.max_completion_tokens
    if settings.sources[_ANSWER] == "default":
        answer = context_length.answer_tokens(context.tokens, limit)
    agreed = AgreedContext(context, answer)
    size = agreed.prompt_bytes()
    is_own = settings.sources.get(_SIZE, "default") != "default"
    if answer < limit or (size < _PROMPT and not is_own):
        job.progress.say(context.summary(size, answer))
    return agreed
