"""Chance by a seed, a text written piece by piece, and what a generator returns."""

from __future__ import annotations

import os
import random

from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

#: As elsewhere: a token has about so many bytes.
BYTES_PER_TOKEN = 4
#: The context in the folder of a case, and the files that an agent edits.
CONTEXT, FILES = "context.txt", "files"


class KnownCall(Value):
    """A hidden test: ``function`` of the agent's module must return ``expected``."""

    function: str
    arguments: list[Any]
    expected: Any


class GeneratedCase(Value):
    """What a generator has made: the question, its answer, and which of the two folders it wrote.

    ``calls`` are hidden tests of the module ``module`` in the files.
    """

    task: str
    expected: Any = None
    scorer: str = "exact"
    context: bool = True
    module: str = ""
    calls: tuple[KnownCall, ...] = ()


class Chance:
    """Draws by a seed, the same in every version of Python: only ``random()`` is that."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = random.Random(f"{name}:{seed}").random  # noqa: S311 - it has to be the same

    def below(self, number: int) -> int:
        return int(self.random() * number)

    def pick(self, among: Sequence[T]) -> T:
        return among[self.below(len(among))]

    def shuffled(self, among: Sequence[T]) -> list[T]:
        left = list(among)
        for last in range(len(left) - 1, 0, -1):
            other = self.below(last + 1)
            left[last], left[other] = left[other], left[last]
        return left


class ContextFile(Closing):
    """The context of a case while it is written: at most ``tokens`` long, never all in memory."""

    def __init__(self, folder: str, tokens: int) -> None:
        self.limit = tokens * BYTES_PER_TOKEN
        self.size = 0
        self._file = open(os.path.join(folder, CONTEXT), "wb")  # noqa: SIM115 - close() does

    def add(self, piece: str, *, reserve: int = 0) -> bool:
        """Write ``piece`` if ``reserve`` bytes remain after it; whether it was written."""
        data = piece.encode()
        if self.size + len(data) + reserve > self.limit:
            return False
        self._file.write(data)
        self.size += len(data)
        return True

    def close(self) -> None:
        self._file.close()
