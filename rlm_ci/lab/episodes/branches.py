"""Best of N: several answers to one request, each tried in a scratch copy, one carried out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import count

from rlm_ci.errors import RlmCiError
from rlm_ci.recursion.node_work import is_fatal
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.turn_loop import Complete
    from rlm_ci.models import Completion, ModelRequest
    from rlm_ci.runs import Fact

    #: ``(completion, place)``: the score of an answer whose calls were tried in a scratch copy.
    Try = Callable[[Completion, str], float]

KIND = "branches"
#: The temperature of branches: the one that every endpoint takes.
TEMPERATURE = 1.0


class BestOf:
    """A ``Complete`` that asks ``width`` times at once, and answers with the best of these.

    Which one is a fact, so a resumed run tries nothing again. An answer that fails does not end
    the run while another one is there.
    """

    def __init__(
        self,
        complete: Complete,
        fact: Fact,
        attempt: Try,
        width: int,
        spent: Callable[[Mapping[str, int]], None],
    ) -> None:
        """``spent`` is told what each request used, the same when the run is resumed."""
        self._spent = spent
        self._complete = complete
        self._fact = fact
        self._attempt = attempt
        self._width = width

    def __call__(self, request: ModelRequest, step: str) -> Completion:
        """Raises what ``complete`` raises for the first branch, if all fail."""
        if self._width == 1:
            completion = self._complete(request, step)
            self._spent(_usage([completion]))
            return completion
        request = request.replace(temperature=TEMPERATURE)
        choice = self._fact(KIND, step, {"width": self._width}, lambda: self._tried(request, step))
        self._spent(choice["usage"])
        return self._complete(request, _branch(step, int(choice["chosen"])))

    def _tried(self, request: ModelRequest, step: str) -> dict[str, Any]:
        """The scores of all branches and the best, the first of equals."""
        answers: list[Completion] = []

        def score(number: int) -> float | RlmCiError:
            at = _branch(step, number)
            try:
                completion = self._complete(request, at)
                answers.append(completion)
                return self._attempt(completion, at)
            except RlmCiError as error:
                if is_fatal(error):
                    raise
                return error

        pool = ThreadPoolExecutor(self._width, thread_name_prefix="branch")
        try:
            contexts = [copy_context() for _ in range(self._width)]
            outcomes = list(
                pool.map(lambda context, number: context.run(score, number), contexts, count(1))
            )
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C waits for no model
        scores = [None if isinstance(outcome, RlmCiError) else outcome for outcome in outcomes]
        standing = [figure for figure in scores if figure is not None]
        if not standing:
            raise next(outcome for outcome in outcomes if isinstance(outcome, RlmCiError))
        errors = [
            printable(str(outcome)[:300]) for outcome in outcomes if isinstance(outcome, RlmCiError)
        ]
        chosen = scores.index(max(standing)) + 1
        return {"chosen": chosen, "scores": scores, "errors": errors, "usage": _usage(answers)}


def _usage(answers: Sequence[Completion]) -> dict[str, int]:
    used = [answer.usage for answer in answers if answer.usage is not None]
    return {
        "total_calls": len(answers),
        "prompt_tokens": sum(usage.prompt_tokens for usage in used),
        "completion_tokens": sum(usage.completion_tokens for usage in used),
    }


def _branch(step: str, number: int) -> str:
    return f"{step}/branch-{number}"
