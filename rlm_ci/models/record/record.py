"""``calls.jsonl``: every answer is written down before anybody acts on it.

A fact is what a model answered or a command printed, found again by its kind, the place in the
run that asked, and all that it depends on. So resume is to run again and find the facts; replay
the same with nobody to ask; a cache over runs the same lookup without the place.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from hashlib import sha256

from rlm_ci.errors import ConfigError, DamagedError, RemoteError, StorageError
from rlm_ci.models import Completion, SpentError, concurrency
from rlm_ci.models.record import errors
from rlm_ci.models.record.index import COMPLETION, VERSION, FactIndex
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Final, NoReturn, TypeVar

    from rlm_ci.errors import RlmCiError
    from rlm_ci.models import Model, ModelRequest
    from rlm_ci.models.budget import BudgetUse, Charge, Ledger
    from rlm_ci.models.record.index import Identity
    from rlm_ci.runs.journal.journal import Journal

    Shaped = TypeVar("Shaped")
    #: Makes a fact; it calls what it is given when it begins in earnest.
    Produce = Callable[[Callable[[], None]], Mapping[str, Any]]

#: Its name in the folder of a run.
FILE: Final = "calls.jsonl"
#: How often an answer that was lost on the way is asked for.
_TRIES: Final = 2


class Record(Closing):
    """The facts of a run, for all of its threads; in memory are only their places in the file.

    ``calls`` are the completions that were asked for now, ``replayed`` those that were found,
    ``repeated`` the completions whose production an earlier process had begun and not ended.
    ``spent`` is what all completions of the run cost, earlier processes included: where
    its ledger begins.
    """

    def __init__(
        self,
        facts: FactIndex,
        redact: Callable[[str], str],
        *,
        replay_only: bool = False,
        cache: tuple[FactIndex, ...] = (),
    ) -> None:
        self.calls = 0
        self.replayed = 0
        self.repeated = 0
        self._facts = facts
        self._journal = None if replay_only else facts.journal
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
        nothing written. ``cache`` are journals of other runs, in which completions are looked
        up as well; one that cannot be read has none. Raises DamagedError, StorageError.
        """
        opened = [FactIndex(path, writes=not replay_only)]
        try:
            for name in cache:
                with suppress(DamagedError, StorageError):
                    opened.append(FactIndex(name))
        except BaseException:
            for facts in opened:
                facts.close()
            raise
        return cls(opened[0], redact, replay_only=replay_only, cache=tuple(opened[1:]))

    @property
    def spent(self) -> BudgetUse:
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
        for what a replay does not find; StorageError. A name that is not in it raises
        DamagedError when it is looked up there: somebody else has written it.
        """

        def begun(begin: Callable[[], None]) -> Mapping[str, Any]:
            begin()
            return produce()

        return _Told.of(self._fact(kind, (place, _digest(kind, key)), begun), self._facts, place)

    def find(self, kind: str, place: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """A fact of this run, if there is one by now; nothing is produced."""
        with self._lock:
            return self._facts.find((place, _digest(kind, key)))

    @property
    def path(self) -> str:
        return self._facts.path

    def shaped(
        self,
        kind: str,
        place: str,
        key: Mapping[str, Any],
        produce: Callable[[], Mapping[str, Any]],
        shape: Callable[[dict[str, Any]], Shaped],
    ) -> Shaped:
        """What ``shape`` makes of ``fact``. Raises DamagedError where it cannot, and as that."""
        told = self.fact(kind, place, key, produce)
        with self._facts.shaping(place):
            return shape(told)

    def complete(
        self,
        model: Model,
        ledger: Ledger,
        request: ModelRequest,
        place: str,
        *,
        seconds: float | None = None,
    ) -> Completion:
        """The answer of ``model``: found, or reserved in ``ledger``, asked for, and paid.

        An answer that was lost on the way may have been paid for: it is charged as if it had
        been whole, and asked for once more on a reservation of its own. The model may take
        ``seconds`` for both, and what is left of the ledger's minutes at most. Raises
        RemoteError, LimitError, also when the minutes ended the call, ConfigError, StorageError.
        """
        identity = (place, _digest(COMPLETION, {"provider": model.name, **request.to_dict()}))
        patience = _Patience(seconds)

        def produce(begin: Callable[[], None]) -> Mapping[str, Any]:
            return _ask(model, ledger, request, patience, begin).to_dict()

        tries = _TRIES
        while True:
            tries -= 1
            concurrency.take()  # before anything is held that another might wait for in its own
            try:
                value = self._fact(COMPLETION, identity, produce)
                with self._facts.shaping(place):
                    return Completion.from_dict(value)
            except _LostError as lost:
                if not (lost.again and tries and patience.left != 0):
                    raise lost.error from None

    def close(self) -> None:
        """Close the files. Raises StorageError."""
        for facts in (self._facts, *self._cache):
            facts.close()

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
            is_new = value is None
            if value is None and kind == COMPLETION:
                value = self._cached(identity)
            if value is not None and kind == COMPLETION:
                self.replayed += 1
        if is_new and value is not None and self._journal is not None:
            self._keep(self._journal, kind, identity, value, cached=True)
        return value

    def _cached(self, identity: Identity) -> dict[str, Any] | None:
        """What another run was answered, at the same place if it can be; the lock is held."""
        for facts in self._cache:
            value = facts.find(identity) or facts.find_anywhere(identity[1])
            if value is not None:
                return value
        return None

    def _produced(self, kind: str, identity: Identity, produce: Produce) -> dict[str, Any]:
        place, key = identity
        journal = self._journal
        if journal is None:
            raise self._missing(identity)
        intent = {"v": VERSION, "type": "intent", "kind": kind, "place": place, "key": key}

        def begin() -> None:
            with self._lock:
                open_before = self._facts.take_open(identity)
                self.repeated += open_before if kind == COMPLETION else 0
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
                "error": errors.to_dict(cause, self._redact),
                "charge": None if charge is None else charge.to_dict(),
            }
            journal.append(failed, durable=charge is not None)
            if charge is not None:
                with self._lock:
                    self._facts.charge(charge)
            raise
        if kind == COMPLETION:
            concurrency.give()
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


class AbsentModel:
    """The model of a replay: its name is known, and it is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, request: ModelRequest) -> Completion:
        raise ConfigError(
            f"a replay asks no model, and {printable(request.model)} was to be asked",
            where="replay",
            hint="replay with the version and the settings that the run had",
        )


class _Told(dict[str, object]):
    """A fact, or an object in one; a name that is missing is damage to the file."""

    def __init__(self, value: Mapping[str, Any], facts: FactIndex, place: str) -> None:
        super().__init__(value)
        self._facts = facts
        self._place = place

    @classmethod
    def of(cls, value: Mapping[str, Any], facts: FactIndex, place: str) -> _Told:
        def guarded(inner: Any) -> Any:
            return cls.of(inner, facts, place) if isinstance(inner, dict) else inner

        return cls({name: guarded(inner) for name, inner in value.items()}, facts, place)

    def __missing__(self, name: str) -> NoReturn:
        raise self._facts.misshapen(self._place)


class _LostError(Exception):
    """A call that was charged without an answer; ``again``: asking once more may help."""

    def __init__(self, error: RlmCiError, charge: Charge, *, again: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.charge = charge
        self.again = again


class _Patience:
    """The seconds that a model may take for one question; None is no limit."""

    def __init__(self, left: float | None) -> None:
        self.left = left

    @contextmanager
    def running(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            if self.left is not None:
                self.left = max(0.0, self.left - (time.monotonic() - began))


def _ask(
    model: Model,
    ledger: Ledger,
    request: ModelRequest,
    patience: _Patience,
    begin: Callable[[], None],
) -> Completion:
    """One call, reserved before and charged after. Raises _LostError, or what the model raised."""
    reservation = ledger.reserve(request)
    limits = [one for one in (patience.left, ledger.seconds_left()) if one is not None]
    try:
        begin()
        with patience.running():
            completion = model.complete(request.replace(seconds=min(limits, default=None)))
    except SpentError as error:
        charge = ledger.commit(reservation, error.usage)
        over = ledger.out_of_time()
        again = error.again and over is None
        raise _LostError(over or error, charge, again=again) from None
    except RemoteError:
        ledger.release(reservation)
        ledger.require_time()
        raise
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
