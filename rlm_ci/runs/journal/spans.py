"""Spans: the steps of a run that a person wants to see, with beginning, end and outcome.

``span`` opens one below the span of its thread. ``events.jsonl`` has both ends, and each fact of
``calls.jsonl`` names the span that it was made in. Times are for readers: nothing depends on them.
A resumed run opens the spans of earlier sessions again, under the same ids.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from rlm_ci.errors import Paused, StorageError
from rlm_ci.runs.checksums import RUNNER
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Final

#: The events of a beginning, and of an end.
STARTED: Final = "span_started"
ENDED: Final = "span_ended"
#: How a span ended; one without an end is under way.
DONE: Final = "done"
FAILED: Final = "failed"
PARTIAL: Final = "partial"
INTERRUPTED: Final = "interrupted"
#: The events that say what a run begins to do; progress is within a span, or of an older version.
_ANNOUNCED = (STARTED, "progress")
#: Characters of a title, of an id, and of the words for a progress line.
_TITLE, _ID, _WORDS = 200, 400, 300


class Span:
    """A span while it lasts: its work sets ``title``, ``outcome``, ``details`` and ``files``.

    ``details`` are names and values for people; ``files`` are labels and paths below the run's
    folder.
    """

    def __init__(self, log: SpanLog | None, ident: str, parent: str | None, title: str) -> None:
        self.id = ident
        self.parent = parent
        self.title = title
        self.outcome = ""
        self.details: dict[str, Any] = {}
        self.files: dict[str, str] = {}
        self._log = log
        self._numbers: Counter[str] = Counter()

    def below(self, kind: str, title: str, key: str) -> Span:
        """A span in it; without a ``key`` its id counts those of its kind."""
        if not key:
            self._numbers[kind] += 1  # siblings in threads of their own have keys
            key = f"{kind}-{self._numbers[kind]}"
        ident = f"{self.id}/{key}" if self.id else key
        return Span(self._log, ident[:_ID], self.id or None, title)

    def write(self, event: str, **payload: Any) -> None:
        if self._log is not None:
            self._log.event(event, {"span": self.id, **payload})

    def announce(self, words: str) -> None:
        if self._log is not None:
            self._log.announce(words)


class SpanLog(Value):
    """Where the spans of a run go: its events, and what announces one to a person."""

    event: Callable[[str, Mapping[str, Any]], None]
    announce: Callable[[str], None]


_CURRENT: ContextVar[Span | None] = ContextVar("span", default=None)


def current() -> Span:
    """The span of this thread; one that is written nowhere outside of any."""
    return _CURRENT.get() or Span(None, "", None, "")


def current_id() -> str:
    """The id of this thread's span; "" outside of any."""
    open_span = _CURRENT.get()
    return "" if open_span is None else open_span.id


@contextmanager
def recorded(log: SpanLog) -> Iterator[None]:
    """Write the spans of this thread, and of threads with its context, to ``log``."""
    with _entered(Span(log, "", None, "")):
        yield


@contextmanager
def _entered(opened: Span) -> Iterator[None]:
    token = _CURRENT.set(opened)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def span(
    kind: str,
    title: str,
    *,
    key: str = "",
    words: str = "",
    since: float | None = None,
    files: Mapping[str, str] = {},
) -> AbstractContextManager[Span]:
    """One step of the run, around its work.

    ``key`` is its part of the id, needed where siblings run side by side. ``words`` announce it
    on the progress line. ``since`` is the monotonic time of a beginning that has passed. It is
    done unless an exception ends it, or the work says otherwise. Raises StorageError, and Paused
    where it is announced.
    """
    opened = current().below(kind, title[:_TITLE], key)
    opened.files |= files
    return _lasting(opened, kind, words, since)


def node(ident: str, parent: str | None, title: str) -> AbstractContextManager[Span]:
    """The work of a model on a node of a recursion, below the node ``parent``.

    It has the node's id, by which the journals of the recursion tell the rest of it: a node that
    no model is asked about has no span.
    """
    log = current()._log  # noqa: SLF001 - of this module
    return _lasting(Span(log, ident, parent, title[:_TITLE]), "node")


@contextmanager
def _lasting(
    opened: Span, kind: str, words: str = "", since: float | None = None
) -> Iterator[Span]:
    if words:
        opened.announce(words)
    began = time.monotonic() if since is None else since
    at = int((time.time() - (time.monotonic() - began)) * 1000)
    head = {"parent": opened.parent, "kind": kind, "title": opened.title, "at": at}
    opened.write(STARTED, **head, **({"summary": words[:_WORDS]} if words else {}))
    try:
        with _entered(opened):
            yield opened
    except BaseException as error:
        is_bad = isinstance(error, Exception) and not isinstance(error, Paused)
        opened.outcome = opened.outcome or (FAILED if is_bad else INTERRUPTED)
        if is_bad:
            opened.details.setdefault("error", str(error))
        with suppress(StorageError, ValueError):  # the error itself counts; the run may be closed
            _end(opened, began)
        raise
    opened.outcome = opened.outcome or DONE
    _end(opened, began)


def _end(ended: Span, began: float) -> None:
    empty: tuple[object, ...] = (None, "", [], {})
    details = {name: value for name, value in ended.details.items() if value not in empty}
    ended.write(
        ENDED,
        title=ended.title[:_TITLE],
        ms=int((time.monotonic() - began) * 1000),
        outcome=ended.outcome,
        details=details,
        files=ended.files,
    )


# ── what a run has left of them ──


class SpanRecord:
    """A span of a run, with those in it. ``start`` is in seconds of the epoch.

    ``seconds`` adds up what it took in all sessions of the run; None while it is under way.
    """

    __slots__ = ("children", "details", "files", "id", "kind", "outcome", "parent", "seconds",
                 "start", "title")  # fmt: skip

    def __init__(self, ident: str, parent: str, kind: str, title: str) -> None:
        self.id = ident
        self.parent = parent
        self.kind = kind
        self.title = title
        self.start: float | None = None
        self.seconds: float | None = None
        self.outcome = ""
        self.details: Mapping[str, Any] = {}
        self.files: Mapping[str, str] = {}
        self.children: list[SpanRecord] = []


def read(events: Iterable[Mapping[str, Any]]) -> dict[str, SpanRecord]:
    """The spans of a run's events by their ids, parents first.

    Unfit records do not count, and neither do those of other processes.
    """
    spans: dict[str, SpanRecord] = {}
    for event in events:
        payload = event.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        name, ident = event.get("event"), payload.get("span")
        if not isinstance(ident, str) or event.get("actor") != RUNNER:
            continue
        if name == STARTED:
            _begin(spans, ident, payload)
        elif name == ENDED and ident in spans:
            _close(spans[ident], payload)
    return spans


def _begin(spans: dict[str, SpanRecord], ident: str, payload: Mapping[str, Any]) -> None:
    record = spans.get(ident)
    if record is None:
        parent, kind = (_text(payload.get(name)) for name in ("parent", "kind"))
        record = spans[ident] = SpanRecord(ident, parent, kind, _text(payload.get("title")))
        at = payload.get("at")
        record.start = at / 1000 if type(at) is int and 0 <= at < 1 << 53 else None
        above = spans.get(parent)
        if above is not None and above is not record:
            above.children.append(record)
    record.outcome = ""


def _close(record: SpanRecord, payload: Mapping[str, Any]) -> None:
    took, details, files = (payload.get(name) for name in ("ms", "details", "files"))
    if type(took) is int and 0 <= took < 1 << 53:
        record.seconds = (record.seconds or 0.0) + took / 1000
    record.title = _text(payload.get("title")) or record.title
    record.outcome = _text(payload.get("outcome"))
    record.details = details if isinstance(details, dict) else {}
    paths = files if isinstance(files, dict) else {}
    record.files = {label: path for label, path in paths.items() if isinstance(path, str)}


def words_of(event: Mapping[str, Any]) -> str:
    """What an event of a span says to a person; "" for another event, and for a usual end."""
    payload = event.get("payload")
    if event.get("event") not in (STARTED, ENDED) or not isinstance(payload, dict):
        return ""
    words = _text(payload.get("summary")) or _text(payload.get("title"))
    if event.get("event") == ENDED:
        took = payload.get("ms")
        seconds = f" after {took / 1000:.1f} s" if type(took) is int else ""
        words = f"{words}: {_text(payload.get('outcome'))}{seconds}"
    return printable(words)


def latest(events: Iterable[Mapping[str, Any]]) -> str:
    """What the run was doing last, as it was announced; "" for nothing."""
    payloads = (event.get("payload") for event in events if event.get("event") in _ANNOUNCED)
    words = [payload.get("summary") for payload in payloads if isinstance(payload, dict)]
    return printable(next((text for text in reversed(words) if isinstance(text, str)), ""))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
