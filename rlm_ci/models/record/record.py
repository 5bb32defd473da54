"""``calls.jsonl``: the facts of a run, each written before it is used.

A fact is an answer of a model or the output of a command. Its kind, its place in the run and all
that it depends on identify it. A resume runs again and finds the facts; a replay does so without
a model; a cache over runs looks them up without the place. ``at`` and ``ms``, when a fact was begun
and how long it took, and ``span``, the step that it belongs to, are for readers of the record:
nothing depends on them.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from hashlib import sha256

from rlm_ci.console.progress import ActiveAnswers
from rlm_ci.errors import ConfigError, DamagedError, LimitError, RemoteError, StorageError
from rlm_ci.models import Completion, SpentError
from rlm_ci.models.record import errors
from rlm_ci.models.record.broken_answer import BrokenAnswer
from rlm_ci.models.record.index import COMPLETION, VERSION, FactIndex
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Final, NoReturn, TypeVar

    from rlm_ci.console.progress import ActiveAnswer
    from rlm_ci.errors import RlmCiError
    from rlm_ci.models import Model, ModelRequest
    from rlm_ci.models.budget import BudgetUse, Charge, Ledger, Reservation
    from rlm_ci.models.record.index import Identity

    Shaped = TypeVar("Shaped")
    #: Makes a fact; calls its argument before the work begins.
    Produce = Callable[[Callable[[], None]], Mapping[str, Any]]
    OnAnswer = Callable[[ModelRequest, str], None]

#: Its name in the folder of a run.
FILE: Final = "calls.jsonl"
#: Attempts at an answer that is lost on the way.
_TRIES: Final = 2
_SHARED: Final = 0.02  # seconds of completions that a failure of power may lose in a batch


class Record(Closing):
    """The facts of a run, for all of its threads; memory holds only their places in the file.

    ``calls`` counts the completions asked for now, ``replayed`` those found, ``repeated`` those
    that an earlier process had begun and not ended. ``spent`` is the use of all completions of
    the run; ``active`` are those that are being written.
    """

    def __init__(
        self,
        facts: FactIndex,
        redact: Callable[[str], str],
        *,
        replay_only: bool = False,
        cache: tuple[FactIndex, ...] = (),
        on_answer: OnAnswer | None = None,
    ) -> None:
        self.calls = 0
        self.replayed = 0
        self.repeated = 0
        self._left_out: set[str] = set()
        self._broke_off = 0  # answers of now, and their tokens
        self._lost_tokens = 0
        self._unresumed: set[str] = set()  # models that do not go on from a part of an answer
        self.active = ActiveAnswers()
        self._facts = facts
        self._replay_only = replay_only
        self._redact = redact
        self._cache = cache
        self._on_answer = on_answer
        self._lock = threading.Lock()
        self._busy: dict[Identity, threading.Event] = {}
        self._open: set[_OpenCall] = set()
        self._is_closed = False
        self._batches = 0
        self._synced = 0.0

    @classmethod
    def open(
        cls,
        path: str,
        *,
        redact: Callable[[str], str],
        replay_only: bool = False,
        cache: Iterable[str] = (),
        on_answer: OnAnswer | None = None,
    ) -> Record:
        """The facts at ``path``, which is made where it is missing.

        With ``replay_only`` nothing is produced and nothing written. ``cache`` are journals of
        other runs to look up completions; unreadable ones do not count. ``on_answer`` gets
        each request that has an answer, and its place. Raises DamagedError, StorageError.
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
        index, *others = opened
        more = tuple(others)
        return cls(index, redact, replay_only=replay_only, cache=more, on_answer=on_answer)

    def losses(self) -> list[str]:
        """What was lost on the way to the answers of now, in words for the end of a run."""
        with self._lock:
            repeated, left_out = self.repeated, sorted(self._left_out)
            broke_off, lost = count(self._broke_off, "answer"), self._lost_tokens
        losses = [f"too large to give back to the endpoint: {names}" for names in left_out]
        if lost:
            lost_tokens = f"{count(lost, 'token')} of {broke_off} that broke off"
            losses.insert(0, f"asked again, and paid for again: about {lost_tokens}")
        if repeated:
            calls = count(repeated, "call")
            losses.insert(0, f"asked again, because their answers were lost: {calls}")
        return losses

    @property
    def spent(self) -> BudgetUse:
        with self._lock:
            return self._facts.spent

    def usage(self) -> dict[str, Any]:
        """The ``usage`` of report.json."""
        with self._lock:
            spent, priced, saved = self._facts.spent, self._facts.priced, self._facts.saved
            lost = self._facts.lost_tokens
        cached: dict[str, float] = {"lost_tokens": lost} if lost else {}
        if spent.cached_tokens:
            cached["cached_tokens"] = spent.cached_tokens
        if spent.cached_tokens and priced:
            cached["uncached_cost_usd"] = float(spent.usd + saved)
        return {
            "calls": spent.calls,
            "replayed": self.replayed,
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "cost_usd": float(spent.usd) if priced else None,
            **cached,
        }

    def fact(
        self,
        kind: str,
        step: str,
        key: Mapping[str, Any],
        produce: Callable[[], Mapping[str, Any]],
    ) -> dict[str, Any]:
        """The stored result of ``produce``, called when the fact is new.

        ``step`` is where in the run it is asked, ``key`` all that it depends on, as JSON. Other
        threads wait meanwhile. Raises what ``produce`` raises; ConfigError for what a replay does
        not find; StorageError. The lookup of a missing name raises DamagedError.
        """

        def begun(begin: Callable[[], None]) -> Mapping[str, Any]:
            begin()
            return produce()

        return _FactRow.of(self._fact(kind, (step, _digest(kind, key)), begun), self._facts, step)

    def find(self, kind: str, step: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """A fact of this run, if there is one."""
        with self._lock:
            return self._facts.find((step, _digest(kind, key)))

    def places(self, prefix: str) -> list[str]:
        """The places of all facts that begin with ``prefix``."""
        with self._lock:
            return self._facts.places(prefix)

    @property
    def path(self) -> str:
        return self._facts.path

    def shaped(
        self,
        kind: str,
        step: str,
        key: Mapping[str, Any],
        produce: Callable[[], Mapping[str, Any]],
        shape: Callable[[dict[str, Any]], Shaped],
    ) -> Shaped:
        """``fact`` as ``shape`` reads it, or DamagedError. Raises as ``fact``."""
        value = self.fact(kind, step, key, produce)
        with self._facts.shaping(step):
            return shape(value)

    def complete(
        self,
        model: Model,
        ledger: Ledger,
        request: ModelRequest,
        step: str,
        *,
        seconds: float | None = None,
    ) -> Completion:
        """The answer of ``model``: found, or reserved in ``ledger``, asked for, and charged.

        A lost answer is charged, as if it were whole where that is not known, and asked for once
        more; if it can, it goes on from the text that came. All take ``seconds``, without those in
        which tokens come, and what is left of the ledger's minutes, at most. Raises RemoteError,
        LimitError, ConfigError, StorageError.
        """
        identity = (step, completion_key(model.name, request))
        patience, broken = _Patience(seconds), BrokenAnswer(request)

        def produce(begin: Callable[[], None]) -> Mapping[str, Any]:
            reservation = ledger.reserve(broken.question())
            active = self.active.begin(ledger.seconds_left())
            call = _OpenCall(identity, ledger, reservation, active)
            with self._lock:
                self._open.add(call)
            try:
                with patience.running(active):
                    completion = _ask(model, call, patience, begin, self._end)
                return broken.joined(completion).to_dict()
            finally:
                self.active.end(active)

        tries_left = _TRIES
        while True:
            tries_left -= 1
            try:
                value = self._fact(COMPLETION, identity, produce)
                if self._on_answer is not None:
                    self._on_answer(request, step)
                with self._facts.shaping(step):
                    return Completion.from_dict(value)
            except (_LostError, RemoteError, LimitError) as error:
                if not isinstance(error, _LostError) or not error.tokens:
                    if broken.part:  # the endpoint does not go on from it, or says nothing more
                        self._unresumed.add(request.model)
                        broken.part, tries_left = "", 1
                        continue
                    if not isinstance(error, _LostError):
                        raise
                if not (error.again and tries_left and patience.left != 0):
                    raise error.error from None
                resumes = request.model not in self._unresumed
                broken.take(error.tokens, error.part if resumes else "")

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Completions share an fsync inside, and are on the disk at the end. Raises StorageError.

        Use it where nothing acts on one of them before another fact.
        """
        with self._lock:
            self._batches += 1
        try:
            yield
        finally:
            with self._lock:
                self._batches -= 1
            if not self._replay_only:
                self._facts.journal.sync()

    def close(self) -> None:
        """Charge what answers have cost that are left behind, and close the files.

        Raises StorageError.
        """
        with self._lock:
            calls, self._open = self._open, set()
        for call in calls:
            if call.active.first is not None:
                error = SpentError(
                    f"the run was interrupted, after about {count(call.active.tokens, 'token')} of "
                    "this answer",
                    hint="resume the run",
                )
                charge = call.ledger.commit(call.reservation, None, size=call.active.bytes)
                self._fail(COMPLETION, call.identity, error, charge)
        self._is_closed = True
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
            value = self._known_fact(kind, identity)
            return self._produced(kind, identity, produce) if value is None else value
        finally:
            with self._lock:
                self._busy.pop(identity).set()

    def _known_fact(self, kind: str, identity: Identity) -> dict[str, Any] | None:
        """The fact from this run's journal, or from another's, which is then copied."""
        with self._lock:
            value = self._facts.find(identity)
            is_new = value is None
            if value is None and kind == COMPLETION:
                value = self._cached(identity)
            if value is not None and kind == COMPLETION:
                self.replayed += 1
        if is_new and value is not None and not self._replay_only:
            self._keep(kind, identity, value)
        return value

    def _cached(self, identity: Identity) -> dict[str, Any] | None:
        """The answer in another run, preferably at the same place; the lock is held."""
        hits = (facts.find(identity) or facts.find_anywhere(identity[1]) for facts in self._cache)
        return next((value for value in hits if value is not None), None)

    def _produced(self, kind: str, identity: Identity, produce: Produce) -> dict[str, Any]:
        if self._replay_only:
            raise self._missing(identity)
        journal = self._facts.journal
        intent = _head("intent", kind, identity)
        times: dict[str, int] = {}
        since = 0.0

        def begin() -> None:
            nonlocal since
            with self._lock:
                open_before = self._facts.take_open(identity)
                self.repeated += open_before if kind == COMPLETION else 0
            since, times["at"] = time.monotonic(), int(time.time() * 1000)
            # Not synced: it survives a kill, which is enough.
            journal.append({**intent, **times}, durable=False)

        def end() -> None:
            if times:
                times["ms"] = int((time.monotonic() - since) * 1000)

        try:
            value = produce(begin)
            end()
        except Exception as error:
            end()
            charge = error.charge if isinstance(error, _LostError) else None
            cause = error.error if isinstance(error, _LostError) else error
            if not self._is_closed:
                self._fail(kind, identity, cause, charge, times)
            raise
        if kind == COMPLETION:
            with self._lock:
                self.calls += 1
                self._left_out.update(filter(None, [value.get("left_out")]))
                self._broke_off += bool(value.get("lost_tokens"))
                self._lost_tokens += value.get("lost_tokens", 0)
        fact: dict[str, Any] = _redacted_json(dict(value), self._redact)
        self._keep(kind, identity, fact, times)
        return fact

    def _fail(
        self,
        kind: str,
        identity: Identity,
        error: Exception,
        charge: Charge | None,
        times: Mapping[str, int] = {},
    ) -> None:
        """Write that a fact was not produced, and what it cost all the same."""
        record = _head("failed", kind, identity)
        record |= {"error": errors.to_dict(error, self._redact), **times}
        record |= {"charge": None if charge is None else charge.to_dict()}
        self._facts.journal.append(record, durable=charge is not None)
        if charge is not None:
            with self._lock:
                self._facts.charge(charge)

    def _end(self, call: _OpenCall) -> None:
        """Take a call that has ended. Raises RemoteError where the record was closed before."""
        with self._lock:
            if call not in self._open:
                raise RemoteError("the run has ended", hint="resume the run")
            self._open.remove(call)

    def _keep(
        self,
        kind: str,
        identity: Identity,
        value: dict[str, Any],
        times: Mapping[str, int] | None = None,
    ) -> None:
        """Write a fact durably: produced now, at ``times``, or found in another run's journal."""
        record = _head("fact", kind, identity)
        record |= {"cached": times is None, "value": value, **(times or {})}
        now = time.monotonic()
        with self._lock:
            is_late = now - self._synced > _SHARED
            durable = not self._batches or kind != COMPLETION or is_late
            self._synced = now if durable else self._synced
        seq = self._facts.journal.append(record, durable=durable)
        with self._lock:
            self._facts.add(identity, seq, record)

    def _missing(self, identity: Identity) -> RlmCiError:
        """Why a replay ends here: the error of the run, where it is known."""
        with self._lock:
            failure = self._facts.failure(identity)
            is_other = self._facts.has_place(identity[0])
        if failure is not None:
            return failure
        printed = printable(identity[0])
        what = f"the run ended before {printed} was answered"
        hint = "resume the run first, then replay it"
        if is_other:
            what = f"something else was asked at {printed} when it ran"
            # A run that was killed may have been about to ask again.
            hint = (
                "resume the run first if it has not ended; else replay with the version and the"
                " settings that it ran with"
            )
        return ConfigError(what, where=self._facts.path, hint=hint)


class AbsentModel:
    """The model of a replay: it has a name, and refuses to answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, request: ModelRequest) -> Completion:
        raise ConfigError(
            f"a replay asks no model, and {printable(request.model)} was to be asked",
            where="replay",
            hint="replay with the version and the settings that the run had",
        )


class _FactRow(dict[str, object]):
    """A fact, or an object in one; a missing name raises DamagedError."""

    def __init__(self, value: Mapping[str, Any], facts: FactIndex, step: str) -> None:
        super().__init__(value)
        self._facts = facts
        self._place = step

    @classmethod
    def of(cls, value: Mapping[str, Any], facts: FactIndex, step: str) -> _FactRow:
        below = {
            key: cls.of(item, facts, step) for key, item in value.items() if type(item) is dict
        }
        return cls({**value, **below}, facts, step)

    def __missing__(self, name: str) -> NoReturn:
        raise self._facts.misshapen(self._place)

    def __reduce__(self) -> tuple[type, tuple[dict[str, object]]]:
        return dict, (dict(self),)  # another process gets the values alone


class _LostError(Exception):
    """A call was charged without an answer; ``again``: asking once more may help."""

    def __init__(
        self, error: RlmCiError, charge: Charge, *, again: bool, tokens: int, part: str
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.charge = charge
        self.again = again
        self.tokens = tokens
        self.part = part


class _Patience:
    """The seconds left for one question; None is no limit."""

    def __init__(self, left: float | None) -> None:
        self.left = left

    @contextmanager
    def running(self, active: ActiveAnswer) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            if self.left is not None:
                waited = time.monotonic() - began - active.flowed()
                self.left = max(0.0, self.left - waited)


class _OpenCall:
    """A call that is under way: its place and key, and the room that it has in a ledger."""

    def __init__(
        self, identity: Identity, ledger: Ledger, reservation: Reservation, active: ActiveAnswer
    ) -> None:
        self.identity = identity
        self.ledger = ledger
        self.reservation = reservation
        self.active = active


def _ask(
    model: Model,
    call: _OpenCall,
    patience: _Patience,
    begin: Callable[[], None],
    end: Callable[[_OpenCall], None],
) -> Completion:
    """One call, charged after it. Raises _LostError, or the model's error."""
    ledger, reservation = call.ledger, call.reservation
    limits = [limit for limit in (patience.left, ledger.seconds_left()) if limit is not None]
    try:
        begin()
        completion = model.complete(
            reservation.request.replace(
                seconds=min(limits, default=None),
                max_tokens=reservation.ceiling.completion_tokens,
                active=call.active,
            )
        )
    except SpentError as error:
        end(call)
        charge = ledger.commit(reservation, error.usage, size=error.size)
        over = ledger.out_of_time()
        again = error.again and over is None
        tokens, part = error.tokens, error.part
        raise _LostError(over or error, charge, again=again, tokens=tokens, part=part) from None
    except RemoteError:
        end(call)
        ledger.release(reservation)
        ledger.require_time()
        raise
    except BaseException as error:
        # What a signal has left behind is charged when the record is closed.
        if isinstance(error, Exception) or call.active.first is None:
            end(call)
            ledger.release(reservation)
        raise
    end(call)
    charge = ledger.commit(reservation, completion.usage)
    costs = {"cost": charge.cost, "uncached_cost": charge.uncached_cost}
    return completion.replace(usage=charge.usage, **costs)


def _head(what: str, kind: str, identity: Identity) -> dict[str, Any]:
    """The first fields of a record, with the span that it is made in."""
    place, key = identity
    head = {"v": VERSION, "type": what, "kind": kind, "place": place, "key": key}
    span = spans.current_id()
    return {**head, "span": span} if span else head


def completion_key(provider: str, request: ModelRequest) -> str:
    """The key of the answer to ``request``."""
    return _digest(COMPLETION, {"provider": provider, **request.to_dict()})


def _digest(kind: str, key: Mapping[str, Any]) -> str:
    """SHA-256 over the kind and the canonical JSON of ``key``."""
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return sha256(f"{kind}\0{text}".encode("ascii")).hexdigest()


def _redacted_json(value: Any, redact: Callable[[str], str]) -> Any:
    """``value`` as JSON has it, without secrets."""
    if isinstance(value, str):
        return redact(encodable(value))
    if isinstance(value, dict):
        return {
            _redacted_json(name, redact): _redacted_json(inner, redact)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted_json(inner, redact) for inner in value]
    return value
