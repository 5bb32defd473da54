"""Where figures of episodes go, besides their runs: a JSONL file, an OpenTelemetry collector."""

from __future__ import annotations

import threading
from functools import partial

from rlm_ci.console.messages import warn
from rlm_ci.errors import RlmCiError
from rlm_ci.lab.observability import jsonl, otlp
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from rlm_ci.lab.event_bus import RLMRuntimeEvent

    class Sink(Protocol):
        """One place. Its errors never end a run."""

        name: str

        def status(self) -> dict[str, Any]:
            """``name``, ``enabled``, ``available`` and ``detail``."""

        def on_event(self, event: RLMRuntimeEvent) -> None:
            """Take an event of an episode, or of a span; called by several threads."""

        def flush(self) -> None:
            """Send what is left, at the end of an episode."""


class RLMObservability:
    """Passes events to sinks; a sink that fails is named once."""

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks = list(sinks)
        self._failed: set[str] = set()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, folder: str, environ: Mapping[str, str]) -> RLMObservability:
        """A file in ``folder``, and the collector that ``environ`` names, if it does."""
        return cls([jsonl.JSONLSink(folder), otlp.OTLPSink(environ)])

    def status(self) -> list[dict[str, Any]]:
        return [sink.status() for sink in self._sinks]

    def on_event(self, event: RLMRuntimeEvent) -> None:
        for sink in self._sinks:
            self._guarded(sink, partial(sink.on_event, event))

    def flush(self) -> None:
        for sink in self._sinks:
            self._guarded(sink, sink.flush)

    def _guarded(self, sink: Sink, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - no error of a sink ends a run
            with self._lock:
                is_known = sink.name in self._failed
                self._failed.add(sink.name)
            if not is_known:
                message = printable(str(error) or type(error).__name__)[:300]
                hint = error.hint if isinstance(error, RlmCiError) else "the run goes on without it"
                warn(RlmCiError(f"figures are lost: {message}", where=sink.name, hint=hint))
