"""Where the facts of a run stand in its ``calls.jsonl``: the file's index, and what it cost."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from decimal import Decimal

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.models import Completion
from rlm_ci.models.budget import Charge, Spent
from rlm_ci.models.record import errors, fact_schemas
from rlm_ci.runs.journal.journal import replay
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

    from rlm_ci.errors import RlmCiError

    Identity = tuple[str, str]  # place and key
    Span = tuple[int, int]  # offset and length of a line

VERSION: Final = 1
COMPLETION: Final = "completion"


class Facts:
    """Where the facts of one journal stand in its file; of new ones, that they do."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.spent = Spent()
        self.priced = False
        self._spans: dict[Identity, Span | int] = {}  # or the number of a record, see _span
        self._anywhere: dict[str, Identity] | None = None
        self._open: dict[Identity, int] = {}
        self._failed: dict[Identity, Span] = {}  # the last failure where no fact came after it
        self._seq = 0
        self._end = 0
        try:
            self._descriptor = files.open_regular(path, os.O_RDONLY)
        except FileNotFoundError:
            raise DamagedError(
                "the record of the run's calls is missing",
                where=path,
                hint="restore it from a copy, or start a new run",
            ) from None
        except OSError as error:
            raise StorageError(
                f"cannot be read: {error.strerror}", where=path, hint="check that it is ours"
            ) from None
        try:
            # Each record is one line; replay has checked it before we look at it.
            for record, (span, _) in zip(replay(path), self._lines(), strict=False):
                self._read(record, span)
        except BaseException:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def find(self, identity: Identity) -> dict[str, Any] | None:
        span = self._span(identity)
        if span is None:
            return None
        value: dict[str, Any] = self._load(span)["value"]
        return value

    def _load(self, span: Span) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(os.pread(self._descriptor, span[1], span[0]))
        return record

    def find_anywhere(self, key: str) -> dict[str, Any] | None:
        """The first fact with ``key``, wherever it was asked."""
        if self._anywhere is None:
            self._anywhere = {}
            for identity in self._spans:
                self._anywhere.setdefault(identity[1], identity)
        found = self._anywhere.get(key)
        return None if found is None else self.find(found)

    def failure(self, identity: Identity) -> RlmCiError | None:
        """The error that a production ended in, as it was raised then."""
        span = self._failed.get(identity)
        if span is None:
            return None
        with self.shaping(identity[0]):
            return errors.from_dict(self._load(span)["error"])

    @contextmanager
    def shaping(self, place: str) -> Iterator[None]:
        """Raise DamagedError where what was asked at ``place`` cannot be taken apart."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise self.misshapen(place) from None

    def misshapen(self, place: str) -> DamagedError:
        return DamagedError(
            f"what it holds for {printable(place)} is not what a run writes",
            where=self.path,
            hint="restore it from a copy, or start a new run",
        )

    def has_place(self, place: str) -> bool:
        return any(identity[0] == place for identity in self._spans)

    def take_open(self, identity: Identity) -> int:
        """How many productions were begun by an earlier process and not ended."""
        return self._open.pop(identity, 0)

    def add(self, identity: Identity, seq: int, record: dict[str, Any]) -> None:
        """Know of a record that was just written."""
        self._spans[identity] = seq
        self._count(record)

    def charge(self, charge: Charge) -> None:
        """Count a call that was charged."""
        usage = charge.usage
        self.priced = self.priced or charge.cost is not None
        self.spent += Spent(
            1, usage.prompt_tokens, usage.completion_tokens, charge.cost or Decimal(0)
        )

    def _read(self, record: dict[str, Any], span: Span) -> None:
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
                self._failed[identity] = span
                if record["charge"] is not None:
                    fact_schemas.require("charge", record["charge"])
                    self.charge(Charge.from_dict(record["charge"]))
            elif kind == "fact" and isinstance(record["value"], dict):
                fact_schemas.require(record["kind"], record["value"])
                self._open.pop(identity, None)
                self._failed.pop(identity, None)
                self._spans.setdefault(identity, span)
                self._count(record)
            else:
                raise KeyError(kind)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise DamagedError(
                f"record {record.get('seq')} is none of a run's calls",
                where=self.path,
                hint="it was not written by rlm-ci; move it away",
            ) from None

    def _count(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == COMPLETION and not record["cached"]:
            completion = Completion.from_dict(record["value"])
            if completion.usage is not None:
                self.charge(Charge(completion.usage, completion.cost))

    def _span(self, identity: Identity) -> Span | None:
        """Where a fact stands; what was written since is looked up in the file when asked for."""
        span = self._spans.get(identity)
        if not isinstance(span, int):
            return span
        wanted = {seq: key for key, seq in self._spans.items() if isinstance(seq, int)}
        for place, seq in self._lines():
            if seq in wanted:
                self._spans[wanted[seq]] = place
        return self._span(identity)

    def _lines(self) -> Iterator[tuple[Span, int]]:
        """The lines from where it was read to before: where they stand, and their numbers."""
        with open(self._descriptor, "rb", closefd=False) as stream:
            stream.seek(self._end)
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                span = (self._end, len(line))
                self._end += len(line)
                self._seq += 1
                yield span, self._seq
