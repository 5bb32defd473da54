"""The answers of models that are being written: how much there is, and how fast it comes."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds without a token after which that is said.
_SILENT = 10.0


class ActiveAnswer:
    """One answer as it comes. ``tokens`` are about those that were written.

    ``limit`` is how many seconds it may take in all.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, limit: float | None = None
    ) -> None:
        self._clock = clock
        self.limit = float("inf") if limit is None else limit
        self.tokens = 0
        self.words = 0
        self.bytes = 0
        self.first: float | None = None
        self.last = clock()
        self._is_within_word = False

    def add(self, text: str, tokens: int) -> None:
        """Take the next piece; ``tokens`` is how many events have had answer so far."""
        self.last = self._clock()
        self.first = self.last if self.first is None else self.first
        self.tokens = max(tokens, self.tokens)
        if text:
            self.bytes += len(text.encode("utf-8", "surrogatepass"))
            self.words += len(text.split()) - (self._is_within_word and not text[0].isspace())
            self._is_within_word = not text[-1].isspace()

    def flowed(self) -> float:
        """Seconds from the first token to the last."""
        return 0.0 if self.first is None else self.last - self.first


class ActiveAnswers:
    """Those of a run, for all of its threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._active: set[ActiveAnswer] = set()

    def begin(self, limit: float | None) -> ActiveAnswer:
        answer = ActiveAnswer(self._clock, limit=limit)
        with self._lock:
            self._active.add(answer)
        return answer

    def end(self, answer: ActiveAnswer) -> None:
        with self._lock:
            self._active.discard(answer)

    def shown(self) -> str:
        """Tokens so far and words a second of what is being written; "" while nothing is."""
        with self._lock:
            written = [answer for answer in self._active if answer.first is not None]
        if not written:
            return ""
        now = self._clock()
        tokens = sum(answer.tokens for answer in written)
        speed = sum(answer.words / max(now - (answer.first or now), 1.0) for answer in written)
        several = f"{len(written)} answers: " if len(written) > 1 else ""
        silence = now - max(answer.last for answer in written)
        pace = f"none for {silence:.0f}s" if silence > _SILENT else f"{speed:.1f} words a second"
        return f"{several}{tokens:,} tokens so far, {pace}"
