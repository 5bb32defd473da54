"""``calls.jsonl``: every answer is written down before anybody acts on it.

A fact is what a model answered or a command printed, found again by its kind, the place in the
run that asked, and all that it depends on. So resume is to run again and find the facts; replay
the same with nobody to ask; a cache over runs the same lookup without the place.
"""

from __future__ import annotations

import json
import threading
from hashlib import sha256

from rlm_ci.errors import ConfigError
from rlm_ci.models import Completion, SpentError, failures
from rlm_ci.models.facts import COMPLETION, VERSION, Facts
from rlm_ci.runs.journal import Journal
from rlm_ci.texts import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Final, Self

    from rlm_ci.errors import RlmCiError
    from rlm_ci.models import Model, Request
    from rlm_ci.models.facts import Identity
    from rlm_ci.models.ledger import Charge, Ledger, Spent

    #: Makes a fact; it calls what it is given when it begins in earnest.
    Produce = Callable[[Callable[[], None]], Mapping[str, Any]]

#: How often an answer that was lost on the way is asked for.
_TRIES: Final = 2


class Record:
    """The facts of a run, for all of its threads; in memory are only their places in the file.

    ``calls`` are the completions that were asked for now, ``replayed`` those that were found,
    ``repeated`` the facts of any kind whose production an earlier process had begun and not
    ended. ``spent`` is what all completions of the run cost, earlier processes included: where
    its ledger begins.
    """

    def __init__(
        self,
        facts: Facts,
        journal: Journal | None,
        redact: Callable[[str], str],
        cache: tuple[Facts, ...],
    ) -> None:
        self.calls = 0
        self.replayed = 0
        self.repeated = 0
        self._facts = facts
        self._journal = journal
        self._redact = redact
        self._cache = cache
        self._lock = threading.Lock()
        self._busy: dict[Identity, threading.Event] = {}

    @classmethod
    def open(
        cls,
        path: str,
        *,
        redact: Callable[[str], str],
        replay_only: bool = False,
        cache: Iterable[str] = (),
    ) -> Record:
        """The facts at ``path``, which is made where it is not there.

        ``redact`` takes the secrets out of a text. With ``replay_only`` nothing is produced and
        nothing written; ``cache`` are journals of other runs to look into. Raises DamagedError,
        StorageError.
        """
        journal = None if replay_only else Journal.open(path)
        opened: list[Facts] = []
        try:
            for name in (path, *cache):
                opened.append(Facts(name))  # noqa: PERF401 - those opened so far must be closed
        except BaseException:
            for facts in opened:
                facts.close()
            if journal is not None:
                journal.close()
            raise
        return cls(opened[0], journal, redact, tuple(opened[1:]))

    @property
    def spent(self) -> Spent:
        with self._lock:
            return self._facts.spent

    def usage(self) -> dict[str, Any]:
        """What the report says of it; see ``usage`` in report.json."""
        with self._lock:
            spent, priced = self._facts.spent, self._facts.priced
        return {
            "calls": spent.calls,
            "replayed": self.replayed,
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "cost_usd": float(spent.usd) if priced else None,
        }

    def fact(
        self,
        kind: str,
        place: str,
        key: Mapping[str, Any],
        produce: Callable[[], Mapping[str, Any]],
    ) -> dict[str, Any]:
        """What ``produce`` returned when this was first asked, as it is stored.

        ``place`` is where in the run it is asked, ``key`` all that it depends on, as JSON. Who
        asks for the same at the same time waits. Raises what ``produce`` raises; ConfigError
        for what a replay does not find; StorageError.
        """

        def begun(begin: Callable[[], None]) -> Mapping[str, Any]:
            begin()
            return produce()

        return self._fact(kind, (place, _digest(kind, key)), begun)

    def complete(self, model: Model, ledger: Ledger, request: Request, place: str) -> Completion:
        """The answer of ``model``: found, or reserved in ``ledger``, asked for, and paid.

        An answer that was lost on the way may have been paid for: it is charged as if it had
        been whole, and asked for once more on a reservation of its own. Raises RemoteError,
        LimitError, ConfigError, StorageError.
        """
        identity = (place, _digest(COMPLETION, {"provider": model.name, **request.to_dict()}))

        def produce(begin: Callable[[], None]) -> Mapping[str, Any]:
            return _ask(model, ledger, request, begin).to_dict()

        tries = _TRIES
        while True:
            tries -= 1
            try:
                return Completion.from_dict(self._fact(COMPLETION, identity, produce))
            except _LostError as lost:
                if not (lost.error.again and tries):
                    raise lost.error from None

    def close(self) -> None:
        """Close the files. Raises StorageError."""
        for facts in (self._facts, *self._cache):
            facts.close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fact(self, kind: str, identity: Identity, produce: Produce) -> dict[str, Any]:
        while True:
            with self._lock:
                busy = self._busy.get(identity)
                if busy is None:
                    self._busy[identity] = threading.Event()
                    break
            busy.wait()
        try:
            value = self._found(kind, identity)
            return self._produced(kind, identity, produce) if value is None else value
        finally:
            with self._lock:
                self._busy.pop(identity).set()

    def _found(self, kind: str, identity: Identity) -> dict[str, Any] | None:
        """The fact from this run's journal, or from another's, which is kept here then."""
        with self._lock:
            value = self._facts.find(identity)
            if value is None:
                found = (facts.find_anywhere(identity[1]) for facts in self._cache)
                value = next((one for one in found if one is not None), None)
                is_new = value is not None
            else:
                is_new = False
            if value is not None and kind == COMPLETION:
                self.replayed += 1
        if is_new and value is not None and self._journal is not None:
            self._keep(self._journal, kind, identity, value, cached=True)
        return value

    def _produced(self, kind: str, identity: Identity, produce: Produce) -> dict[str, Any]:
        place, key = identity
        journal = self._journal
        if journal is None:
            raise self._missing(identity)
        intent = {"v": VERSION, "type": "intent", "kind": kind, "place": place, "key": key}

        def begin() -> None:
            with self._lock:
                self.repeated += self._facts.take_open(identity)
            # Not synced: it is there after a kill, and after a power cut nobody counts calls.
            journal.append(intent, durable=False)

        try:
            value = produce(begin)
        except Exception as error:
            charge = error.charge if isinstance(error, _LostError) else None
            cause = error.error if isinstance(error, _LostError) else error
            failed = {
                **intent,
                "type": "failed",
                "error": failures.to_dict(cause, self._redact),
                "charge": None if charge is None else charge.to_dict(),
            }
            journal.append(failed, durable=charge is not None)
            if charge is not None:
                with self._lock:
                    self._facts.charge(charge)
            raise
        if kind == COMPLETION:
            with self._lock:
                self.calls += 1
        kept: dict[str, Any] = _told(dict(value), self._redact)
        self._keep(journal, kind, identity, kept, cached=False)
        return kept

    def _keep(
        self,
        journal: Journal,
        kind: str,
        identity: Identity,
        value: dict[str, Any],
        *,
        cached: bool,
    ) -> None:
        """Write a fact down; it is on the disk when this returns."""
        record = {
            "v": VERSION, "type": "fact", "kind": kind, "place": identity[0], "key": identity[1],
            "cached": cached, "value": value,
        }  # fmt: skip
        seq = journal.append(record)
        with self._lock:
            self._facts.add(identity, seq, record)

    def _missing(self, identity: Identity) -> RlmCiError:
        """Why a replay goes no further: as the run did, where it is known."""
        place = identity[0]
        with self._lock:
            failure = self._facts.failure(identity)
            is_other = self._facts.has_place(place)
        if failure is not None:
            return failure
        if is_other:
            return ConfigError(
                f"something else was asked at {printable(place)} when it ran",
                where=self._facts.path,
                hint="replay with the version and the settings that it ran with",
            )
        return ConfigError(
            f"the run ended before {printable(place)} was answered",
            where=self._facts.path,
            hint="resume the run first, then replay it",
        )


class Absent:
    """The model of a replay: its name is known, and it is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, request: Request) -> Completion:
        raise ConfigError(f"a replay asks no model, and {printable(request.model)} was to be asked")


class _LostError(Exception):
    """A call that was charged without an answer."""

    def __init__(self, error: SpentError, charge: Charge) -> None:
        super().__init__(str(error))
        self.error = error
        self.charge = charge


def _ask(model: Model, ledger: Ledger, request: Request, begin: Callable[[], None]) -> Completion:
    """One call, reserved before and charged after. Raises _LostError, or what the model raised."""
    reservation = ledger.reserve(request)
    try:
        begin()
        completion = model.complete(request)
    except SpentError as error:
        raise _LostError(error, ledger.commit(reservation, error.usage)) from None
    except BaseException:
        ledger.release(reservation)
        raise
    charge = ledger.commit(reservation, completion.usage)
    return completion.replace(usage=charge.usage, cost=charge.cost)


def _digest(kind: str, key: Mapping[str, Any]) -> str:
    """SHA-256 over the kind and the canonical JSON of ``key``."""
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return sha256(f"{kind}\0{text}".encode("ascii")).hexdigest()


def _told(value: Any, redact: Callable[[str], str]) -> Any:
    """``value`` as JSON gives it back, each of its texts without secrets."""
    if isinstance(value, str):
        return redact(encodable(value))
    if isinstance(value, dict):
        return {_told(name, redact): _told(inner, redact) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_told(inner, redact) for inner in value]
    return value
