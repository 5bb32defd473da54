"""OpenTelemetry: a span for each episode and each of its actions, sent where the user says.

Only with an OTLP endpoint in the standard variables; see decision 59 of the design. A span has
figures, ids and names of actions, no text of a model.
"""

from __future__ import annotations

import threading

from rlm_ci import __version__
from rlm_ci.errors import UnavailableError
from rlm_ci.lab.event_bus import RUN_END, RUN_START, STEP_END, STEP_START
from rlm_ci.lab.observability.jsonl import figures
from rlm_ci.system import installation
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.lab.event_bus import RLMRuntimeEvent

#: The standard variables with an endpoint, and the one that turns all off.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_OFF = "OTEL_SDK_DISABLED"
_SERVICE = "OTEL_SERVICE_NAME"
#: Seconds for one request, unless the user says so, and for what is left at the end.
_TIMEOUT, _PATIENCE = "OTEL_EXPORTER_OTLP_TIMEOUT", 3


class OTLPSink:
    """Sends spans to the collector that ``environ`` names; without one it does nothing."""

    name = "opentelemetry"

    def __init__(self, environ: Mapping[str, str], exporter: Any = None) -> None:
        """``exporter`` takes the spans instead of the collector."""
        self._endpoint = next((environ[name] for name in ENDPOINTS if environ.get(name)), "")
        off = environ.get(_OFF, "").strip().lower() == "true"
        self._enabled = bool(self._endpoint or exporter) and not off
        self._service = environ.get(_SERVICE) or "rlm-ci"
        self._seconds = None if environ.get(_TIMEOUT) else _PATIENCE
        self._provider: Any = None
        self._watched = _WatchedExporter(exporter)
        self._spans: dict[str, Any] = {}
        self._lock = threading.Lock()

    def status(self) -> dict[str, Any]:
        told = printable(self._endpoint) if self._endpoint else f"{ENDPOINTS[1]} is not set"
        there = _is_installed()
        if self._enabled and not there:
            told = f"{told}; to install it: {installation.command('otel')}"
        return {"name": self.name, "enabled": self._enabled, "available": there, "detail": told}

    def on_event(self, event: RLMRuntimeEvent) -> None:
        """Raises UnavailableError where OpenTelemetry is not installed, and what it raises."""
        if not self._enabled:
            return
        with self._lock:
            if event.name == RUN_START:
                self._start(event.run_id, "rlm.run", event.parent_run_id, event)
            elif event.name == STEP_START:
                self._start(f"{event.run_id} step", "rlm.step", event.run_id, event)
            elif event.name == STEP_END:
                self._end(f"{event.run_id} step", event)
            elif event.name == RUN_END:
                self._end(event.run_id, event)

    def flush(self) -> None:
        if self._provider is None:
            return
        is_sent = self._provider.force_flush(_PATIENCE * 1000)
        if not is_sent or self._watched.failed:
            raise UnavailableError(
                "the collector did not take all spans",
                where=self._endpoint,
                hint="check its address; the run itself is complete",
            )

    def _start(self, key: str, name: str, parent: str | None, event: RLMRuntimeEvent) -> None:
        tracer = self._tracer()  # says how to install what is missing
        from opentelemetry import trace

        above = self._spans.get(parent or "")
        context = None if above is None else trace.set_span_in_context(above)
        self._spans[key] = tracer.start_span(name, context=context, attributes=_attributes(event))

    def _end(self, key: str, event: RLMRuntimeEvent) -> None:
        span = self._spans.pop(key, None)
        if span is not None:  # a call with a mistake has no beginning
            span.set_attributes(_attributes(event))
            span.end()

    def _tracer(self) -> Any:
        if self._provider is None:
            self._provider = self._made()
        return self._provider.get_tracer("rlm-ci", __version__)

    def _made(self) -> Any:
        if not _is_installed():
            raise UnavailableError(
                "an OTLP endpoint is set, and OpenTelemetry is not installed",
                where=self._endpoint,
                hint=installation.command("otel"),
            )
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        if self._watched.inner is None:
            import logging

            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            # Its failures are ours to tell, once, where nobody handles its log.
            logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
            # It reads the standard variables.
            self._watched.inner = OTLPSpanExporter(timeout=self._seconds)
        provider = TracerProvider(resource=Resource.create({"service.name": self._service}))
        provider.add_span_processor(BatchSpanProcessor(self._watched))
        return provider


class _WatchedExporter:
    """Passes spans to ``inner``; ``failed``: not all of them arrived."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.failed = False

    def export(self, spans: Any) -> Any:
        result = self.inner.export(spans)
        self.failed = self.failed or result.name != "SUCCESS"
        return result

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return bool(self.inner.force_flush(timeout_millis))

    def shutdown(self) -> None:
        self.inner.shutdown()


def _attributes(event: RLMRuntimeEvent) -> dict[str, Any]:
    found = figures(event)
    usage = found.pop("usage", None) or {}
    told = {f"rlm.{name}": value for name, value in found.items() if value is not None}
    return told | {
        name: usage[key]
        for name, key in (
            ("gen_ai.usage.input_tokens", "prompt_tokens"),
            ("gen_ai.usage.output_tokens", "completion_tokens"),
        )
        if key in usage
    }


def _is_installed() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ImportError:
        return False
