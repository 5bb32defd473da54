"""Counts the calls of a review, and ends them at its own limit."""

from __future__ import annotations

from rlm_ci.errors import LimitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.models import Completion, Message
    from rlm_ci.models.json_question import Ask

#: The budget that a LimitError of this limit names.
OWN = "review"
#: The names of its counts among a result's metrics.
CALLS, TOKENS = "calls", "prompt_tokens"
#: Calls and tokens of prompts of a review of so many changed lines; of more, in proportion. With
#: the question about architecture, which a large change gets last, there are 60 calls and 400,000.
_CALLS, _TOKENS, _LINES = 58, 370_000, 500
#: Lines that a file counts for that is new as a whole.
_FILE = 500
#: Bytes of a token, at least, in a prompt that is not counted yet.
_BYTES = 3


class MeteredAsk:
    """An ``Ask`` that counts. After ``limit`` it raises LimitError, whose budget is OWN."""

    def __init__(
        self,
        ask: Ask,
        spent: Mapping[str, float] | None = None,
        limit: tuple[float, float] | None = None,
    ) -> None:
        self.model = ask.model
        self._ask = ask
        self._before = {name: (spent or {}).get(name, 0) for name in (CALLS, TOKENS)}
        self._limit = limit
        self._calls = self._tokens = 0

    def __call__(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        size = sum(len(str(part).encode("utf-8", "replace")) for part in (*messages, *tools))
        if self._limit is not None:
            calls = self._before[CALLS] + self._calls + 1
            tokens = self._before[TOKENS] + self._tokens + size // _BYTES
            if calls > self._limit[0] or tokens > self._limit[1]:
                raise LimitError("the review has asked enough", budget=OWN)
        completion = self._ask(step, messages, response_format=response_format, tools=tools)
        self._calls += 1
        self._tokens += completion.usage.prompt_tokens if completion.usage else size // _BYTES
        return completion

    @property
    def is_taught(self) -> bool:
        return self._ask.is_taught

    @property
    def max_bytes(self) -> int:
        return self._ask.max_bytes

    @property
    def repair(self) -> int:
        return self._ask.repair

    def calls_left(self) -> int | None:
        return self._ask.calls_left()

    def spent(self) -> dict[str, float]:
        """What this one has counted, as metrics."""
        return {CALLS: self._calls, TOKENS: self._tokens}


def limit_of(
    changed: Mapping[str, Sequence[Sequence[int]]] | None, spent: Mapping[str, float]
) -> tuple[float, float]:
    """The calls, and the tokens of prompts, of a whole review.

    A review without a change may ask once more as much as reading took.
    """
    if changed is None:
        read = spent.get(CALLS, 0), spent.get(TOKENS, 0)
        return max(_CALLS, 2 * read[0]), max(_TOKENS, 2 * read[1])
    times = times_of(changed)
    return _CALLS * times, _TOKENS * times


def times_of(changed: Mapping[str, Sequence[Sequence[int]]]) -> int:
    """How often what a change of 500 lines may take is there for this one, at least once."""
    return max(1, -(-lines_of(changed) // _LINES))


def lines_of(changed: Mapping[str, Sequence[Sequence[int]]]) -> int:
    """The changed lines that count for limits."""
    return sum(min(_FILE, last - first + 1) for spans in changed.values() for first, last in spans)
