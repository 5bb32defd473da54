"""The index of a run's ``calls.jsonl``, and what its calls cost."""

from __future__ import annotations

from contextlib import contextmanager
from decimal import Decimal

from rlm_ci.decoding import DecodeError
from rlm_ci.errors import DamagedError
from rlm_ci.models.budget import BudgetUse, Charge
from rlm_ci.models.record import errors, fact_schemas
from rlm_ci.runs.journal.journal import Journal
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

    from rlm_ci.errors import RlmCiError

    Identity = tuple[str, str]  # place and key

VERSION: Final = 1
COMPLETION: Final = "completion"


class FactIndex:
    """The facts of one journal, by the numbers of their records; ``journal`` takes new ones."""

    def __init__(self, path: str, *, writes: bool = False) -> None:
        """Raises DamagedError, StorageError."""
        self.path = path
        self.spent = BudgetUse()
        #: USD that the endpoints' caches have saved.
        self.saved = Decimal(0)
        #: Tokens of answers that broke off, and were paid for again.
        self.lost_tokens = 0
        self.priced = False
        self._numbers: dict[Identity, int] = {}
        self._anywhere: dict[str, Identity] | None = None
        self._open: dict[Identity, int] = {}
        self._failed: dict[Identity, int] = {}  # the last failure where no fact came after it
        if writes:
            self.journal = Journal.open(path, take=self._take, places=True)
        else:
            reader = JournalReader(path, places=True)
            reader.read(self._take, is_needed=True)
            self.journal = Journal.behind(reader, writes=False)

    def close(self) -> None:
        """Raises StorageError."""
        self.journal.close()

    def find(self, identity: Identity) -> dict[str, Any] | None:
        number = self._numbers.get(identity)
        if number is None:
            return None
        value: dict[str, Any] = self.journal.record(number)["value"]
        return value

    def find_anywhere(self, key: str) -> dict[str, Any] | None:
        """The first fact with ``key``, at any place."""
        if self._anywhere is None:
            self._anywhere = {}
            for identity in self._numbers:
                self._anywhere.setdefault(identity[1], identity)
        match = self._anywhere.get(key)
        return None if match is None else self.find(match)

    def failure(self, identity: Identity) -> RlmCiError | None:
        """The error that the production of a fact raised."""
        number = self._failed.get(identity)
        if number is None:
            return None
        with self.shaping(identity[0]):
            return errors.from_dict(self.journal.record(number)["error"])

    @contextmanager
    def shaping(self, step: str) -> Iterator[None]:
        """Raise DamagedError for a fact at ``step`` of another shape."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise self.misshapen(step) from None

    def misshapen(self, step: str) -> DamagedError:
        return DamagedError(
            f"its record for {printable(step)} is not what a run writes",
            where=self.path,
            hint="restore it from a copy, or start a new run",
        )

    def has_place(self, step: str) -> bool:
        return any(identity[0] == step for identity in self._numbers)

    def places(self, prefix: str) -> list[str]:
        return [place for place, _ in self._numbers if place.startswith(prefix)]

    def take_open(self, identity: Identity) -> int:
        """How many productions an earlier process began and did not end."""
        return self._open.pop(identity, 0)

    def add(self, identity: Identity, seq: int, record: dict[str, Any]) -> None:
        """Index a record that was just written."""
        self._numbers[identity] = seq
        self._count(record)

    def charge(self, charge: Charge) -> None:
        """Count a call that was charged."""
        usage, cost = charge.usage, charge.cost
        self.priced = self.priced or cost is not None
        tokens = usage.prompt_tokens, usage.completion_tokens
        if cost is not None and charge.uncached_cost is not None:
            self.saved += charge.uncached_cost - cost
        self.spent += BudgetUse(1, *tokens, cost or Decimal(0), usage.cached_tokens)

    def _take(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            self._read(record)

    def _read(self, record: dict[str, Any]) -> None:
        if record.get("v") != VERSION:
            raise DamagedError(
                f"the journal is of version {str(record.get('v'))[:20]}, not {VERSION}",
                where=self.path,
                hint="use the version of rlm-ci that wrote it",
            )
        try:
            identity = (record["place"], record["key"])
            kind = record["type"]
            if kind == "intent":
                self._open[identity] = self._open.get(identity, 0) + 1
            elif kind == "failed":
                fact_schemas.require("failed", record["error"])
                self._open.pop(identity, None)
                self._failed[identity] = record["seq"]
                if record["charge"] is not None:
                    fact_schemas.require("charge", record["charge"])
                    self.charge(Charge.from_dict(record["charge"]))
            elif kind == "fact" and isinstance(record["value"], dict):
                fact_schemas.require(record["kind"], record["value"])
                self._open.pop(identity, None)
                self._failed.pop(identity, None)
                self._numbers.setdefault(identity, record["seq"])
                self._count(record)
            else:
                raise KeyError(kind)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            why = f": {error}" if isinstance(error, DecodeError) else ""
            raise DamagedError(
                f"record {record.get('seq')} is not one of a run's calls{why}",
                where=self.path,
                hint="it was not written by rlm-ci; move it away",
            ) from None

    def _count(self, record: Mapping[str, Any]) -> None:
        is_paid = record["kind"] == COMPLETION and not record["cached"]
        self.lost_tokens += record["value"].get("lost_tokens", 0) if is_paid else 0
        if is_paid and record["value"]["usage"] is not None:
            self.charge(Charge.from_dict(record["value"]))
