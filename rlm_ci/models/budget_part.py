"""A part of a run's budgets, with limits of its own."""

from __future__ import annotations

from rlm_ci.errors import LimitError
from rlm_ci.models.budget import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.models import ModelRequest, TokenUsage
    from rlm_ci.models.budget import BudgetUse, Charge, Reservation


class PartLedger(Ledger):
    """The budgets of a part: a call needs room in them and in ``whole``, and is charged to both.

    ``messages`` says what is used up, by budget. Other arguments are those of ``Ledger``.
    """

    def __init__(self, ledger: Ledger, messages: Mapping[str, str], **fields: Any) -> None:
        super().__init__(**fields)
        self._whole = ledger
        self._told = messages
        #: By the identity of the reservation in ``whole``: the one here.
        self._pairs: dict[int, Reservation] = {}

    def seconds_left(self) -> float | None:
        left = [limit for limit in (super().seconds_left(), self._whole.seconds_left())
                if limit is not None]  # fmt: skip
        return min(left, default=None)

    def out_of_time(self) -> LimitError | None:
        seconds = super().seconds_left()
        return super().out_of_time() if seconds == 0 else self._whole.out_of_time()

    def reserve(self, request: ModelRequest) -> Reservation:
        reservation = super().reserve(request)
        try:
            outer = self._whole.reserve(
                request.replace(max_tokens=reservation.ceiling.completion_tokens)
            )
        except BaseException:
            super().release(reservation)
            raise
        self._pairs[id(outer)] = reservation
        return outer

    def commit(
        self, reservation: Reservation, usage: TokenUsage | None, *, size: int | None = None
    ) -> Charge:
        super().commit(self._pairs.pop(id(reservation)), usage, size=size)
        return self._whole.commit(reservation, usage, size=size)

    def release(self, reservation: Reservation) -> None:
        super().release(self._pairs.pop(id(reservation)))
        self._whole.release(reservation)

    def _refusal(self, budget: str, use: BudgetUse) -> LimitError:
        if budget not in self._told:
            return super()._refusal(budget, use)
        return LimitError(self._told[budget], budget=budget)
