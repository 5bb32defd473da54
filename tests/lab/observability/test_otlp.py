"""Figures of episodes: in a file, at a collector; a sink that fails ends no run."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.evaluation import RLMObservability, RLMRunner
from rlm_ci.lab.observability.jsonl import JSONLSink
from rlm_ci.lab.observability.otlp import OTLPSink

if TYPE_CHECKING:
    from pathlib import Path


class Connector:
    """Delegates once, then answers."""

    def generate_response(self, prompt: str) -> str:
        if "Child 1 is done" in prompt or "TASK: part" in prompt:
            return json.dumps({"action": "final", "final_response": "a private answer"})
        return json.dumps({"action": "delegate", "task": "TASK: part"})


class Engine:
    def execute_code(self, _code: str) -> str:
        return ""


def runner(folder: Path, *sinks: Any) -> RLMRunner:
    told = RLMObservability(sinks) if sinks else None
    return RLMRunner(Connector(), Engine(), workdir=folder, observability=told)


def test_figures_and_no_texts_are_in_a_file(tmp_path: Path) -> None:
    made = runner(tmp_path)
    result = made.run_task("a private question")
    [path] = tmp_path.glob(".runs/*/episodes.jsonl")
    text = path.read_text()
    assert "private" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(one["event"], one["depth"]) for one in lines] == [
        ("run_start", 0), ("run_start", 1), ("step_end", 1), ("run_end", 1),
        ("step_end", 0), ("step_end", 0), ("run_end", 0),
    ]  # fmt: skip
    assert lines[-1]["run_id"] == result.run_id
    assert lines[-1]["total_reward"] == 1.7
    assert path.stat().st_mode & 0o077 == 0
    [jsonl, otlp] = made.observability_status()
    assert (jsonl["enabled"], jsonl["detail"]) == (True, str(path))
    assert otlp["enabled"] is False


def test_a_sink_that_fails_is_named_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gone").mkdir()
    broken = JSONLSink(str(tmp_path / "gone" / "nowhere"))
    assert runner(tmp_path, broken).run_task("x").completed
    assert capfd.readouterr().err.count("figures are lost") == 1


def test_spans_reach_a_collector(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
            sink = OTLPSink({"OTEL_EXPORTER_OTLP_ENDPOINT": address})
            result = runner(tmp_path, sink).run_task("a private question")
    finally:
        server.shutdown()
        server.server_close()
    spans = [
        span
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    names = ["rlm.run"] * 2 + ["rlm.step"] * 3 + ["rlm.turn"] * 3
    assert sorted(span.name for span in spans) == names
    begun = {span.span_id: span for span in spans}
    above = {(begun[span.parent_span_id].name, span.name) for span in spans if span.parent_span_id}
    assert above == {("rlm.run", "rlm.turn"), ("rlm.turn", "rlm.step"), ("rlm.step", "rlm.run")}
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    [root] = [span for span in spans if not span.parent_span_id]
    told = {one.key: one.value for one in root.attributes}
    assert told["rlm.run_id"].string_value == result.run_id
    assert told["rlm.completed"].bool_value
    assert told["gen_ai.usage.input_tokens"].int_value > 0
    tools = [
        {one.key: one.value.string_value for one in span.attributes}["rlm.tool"]
        for span in spans
        if span.name == "rlm.step"
    ]
    assert sorted(tools) == ["delegate", "final", "final"]
    assert len({span.trace_id for span in spans}) == 1
    assert b"private" not in b"".join(bodies)


@pytest.mark.full
def test_a_collector_that_is_gone_is_named_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    monkeypatch.setenv(*next(iter(nowhere.items())))
    assert runner(tmp_path, OTLPSink(nowhere)).run_task("x").completed
    [warning, hint] = capfd.readouterr().err.splitlines()
    assert "the collector did not take all spans" in warning
    assert hint.startswith("hint: check its address")


def test_without_the_extra_an_endpoint_says_how_to_install_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm_ci.lab.observability.otlp._is_installed", lambda: False)
    sink = OTLPSink({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert runner(tmp_path, sink).run_task("x").completed
    said = capfd.readouterr().err
    assert said.count("OpenTelemetry is not installed") == 1
    assert "[otel]" in said
    assert OTLPSink({}).status()["enabled"] is False
