"""Best of N: several answers to one request, each tried in a scratch copy, one carried out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rlm_ci.errors import RlmCiError
from rlm_ci.recursion.node_work import is_fatal
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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

    def __init__(self, complete: Complete, fact: Fact, attempt: Try, width: int) -> None:
        self._complete = complete
        self._fact = fact
        self._attempt = attempt
        self._width = width

    def __call__(self, request: ModelRequest, place: str) -> Completion:
        """Raises what ``complete`` raises for the first branch, if all fail."""
        if self._width == 1:
            return self._complete(request, place)
        request = request.replace(temperature=TEMPERATURE)
        told = self._fact(KIND, place, {"width": self._width}, lambda: self._tried(request, place))
        return self._complete(request, _branch(place, int(told["chosen"])))

    def _tried(self, request: ModelRequest, place: str) -> dict[str, Any]:
        """The scores of all branches and the best, the first of equals."""

        def score(number: int) -> float | RlmCiError:
            at = _branch(place, number)
            try:
                return self._attempt(self._complete(request, at), at)
            except RlmCiError as error:
                if is_fatal(error):
                    raise
                return error

        pool = ThreadPoolExecutor(self._width, thread_name_prefix="branch")
        try:
            found = list(pool.map(score, range(1, self._width + 1)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C waits for no model
        scores = [None if isinstance(one, RlmCiError) else one for one in found]
        standing = [one for one in scores if one is not None]
        if not standing:
            raise next(one for one in found if isinstance(one, RlmCiError))
        errors = [printable(str(one)[:300]) for one in found if isinstance(one, RlmCiError)]
        return {"chosen": scores.index(max(standing)) + 1, "scores": scores, "errors": errors}


def _branch(place: str, number: int) -> str:
    return f"{place}/branch-{number}"
