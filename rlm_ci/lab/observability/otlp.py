"""OpenTelemetry: the spans of an episode's run, sent where the user says.

Only with an OTLP endpoint in the standard variables; see decision 59 of the design. A span has
figures, ids and names of tools, no text of a model.
"""

from __future__ import annotations

import threading

from rlm_ci import __version__
from rlm_ci.errors import UnavailableError
from rlm_ci.runs.journal.spans import ENDED, STARTED
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
_NANOSECONDS = 1_000_000  # of a millisecond
#: Kinds of spans that have another name there.
_NAMES = {"episode": "run", "tool": "step"}
#: Details of a span that may leave the run: figures, ids and names.
_FIGURES = (
    "run_id", "parent_run_id", "depth", "environment", "framework", "step", "tool", "reward",
    "completed", "steps", "status",
)  # fmt: skip
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
        #: What is open, by the span's id: it, and when it began.
        self._spans: dict[str, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    def status(self) -> dict[str, Any]:
        detail = printable(self._endpoint) if self._endpoint else f"{ENDPOINTS[1]} is not set"
        is_installed = _is_installed()
        if self._enabled and not is_installed:
            detail = f"{detail}; to install it: {installation.command('otel')}"
        return {
            "name": self.name,
            "enabled": self._enabled,
            "available": is_installed,
            "detail": detail,
        }

    def on_event(self, event: RLMRuntimeEvent) -> None:
        """Take a beginning or an end of a span; nothing else is sent.

        Raises UnavailableError where OpenTelemetry is not installed, and what it raises.
        """
        if not self._enabled or event.name not in (STARTED, ENDED):
            return
        payload = event.payload
        with self._lock:
            if event.name == STARTED:
                self._start(payload)
            else:
                self._end(payload)

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

    def _start(self, payload: Mapping[str, Any]) -> None:
        tracer = self._tracer()  # says how to install what is missing
        from opentelemetry import trace

        above, _ = self._spans.get(payload["parent"] or "", (None, 0))
        context = None if above is None else trace.set_span_in_context(above)
        name = f"rlm.{_NAMES.get(payload['kind'], payload['kind'])}"
        at = payload["at"] * _NANOSECONDS
        opened = tracer.start_span(name, context=context, start_time=at)
        self._spans[payload["span"]] = (opened, at)

    def _end(self, payload: Mapping[str, Any]) -> None:
        opened, at = self._spans.pop(payload["span"])
        opened.set_attribute("rlm.outcome", payload["outcome"])
        opened.set_attributes(_attributes(payload["details"]))
        opened.end(at + payload["ms"] * _NANOSECONDS)

    def _tracer(self) -> Any:
        if self._provider is None:
            self._provider = self._build_provider()
        return self._provider.get_tracer("rlm-ci", __version__)

    def _build_provider(self) -> Any:
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


def _attributes(details: Mapping[str, Any]) -> dict[str, Any]:
    usage = details.get("usage") or {}
    attributes = {f"rlm.{name}": details[name] for name in _FIGURES if name in details}
    return attributes | {
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
