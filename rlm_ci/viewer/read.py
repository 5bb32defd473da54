"""Read a stored run of any kind, as far as it can be read."""

from __future__ import annotations

import json
import os
import time

from rlm_ci.pipelines.stored_runs import event_text
from rlm_ci.report.findings import CLEAN, FINDINGS
from rlm_ci.runs import checksums
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.journal import spans
from rlm_ci.viewer import benchmark_steps, earlier_runs, quoted_lines
from rlm_ci.viewer.folder import (
    RunFolder,
    amount,
    mapping_in,
    mappings_in,
    number_in,
    text_in,
)
from rlm_ci.viewer.recursion_steps import ViewedRecursion
from rlm_ci.viewer.span_steps import Prompts, ViewedSpans, when
from rlm_ci.viewer.steps import DONE, FAILED, PARTIAL, RUNNING, ViewedRun, ViewedStep
from rlm_ci.workspace.stored_trees import PATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.models import ModelRequest
    from rlm_ci.runs.find import FoundRun
    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.viewer.folder import RecordedCall

_STATUSES = {
    "succeeded": DONE, "failed": FAILED, "cancelled": PARTIAL, "in_progress": RUNNING,
    "queued": RUNNING, "running": RUNNING, "pending": RUNNING, "skipped": PARTIAL,
}  # fmt: skip
_VERDICTS = {CLEAN: DONE, FINDINGS: FAILED}
#: What a fix loop leaves of its changes, by the names of the files.
_RESULTS = {f"rlm/{PATCH}": "The result", "rlm/tests.patch": "Edits to tests that were left out"}
#: The limits that a run was given, by the key of their setting.
_BUDGETS = ("max_calls", "max_tokens", "budget_usd")


def read(
    entry: FoundRun,
    repository: Repository,
    requests: Mapping[str, ModelRequest],
    lacking: str = "",
) -> ViewedRun:
    """The run; ``requests`` are its requests, by the place of the call.

    ``lacking`` says why some are missing; ``repository`` has the files that were judged.
    """
    run = entry.manifest
    folder = RunFolder(entry.path, manifests.moment(run.started_at) if run else 0.0)
    if entry.problem is not None:
        folder.problem(f"manifest.json: {entry.problem.what}")
    calls = folder.calls()
    report = folder.json("report.json")
    pipeline = run.pipeline_id if run else ""
    root = ViewedStep("run", pipeline or entry.run_id)
    diffs = _steps(folder, root, calls, Prompts(requests))
    if not root.children:
        _parts(report, root)
    _commands(folder, root, run)
    _span(root)
    status = entry.status_at(time.time())
    root.status = _STATUSES.get(status, PARTIAL)
    if run is not None:
        root.took(0.0, (_end(run) or time.time()) - folder.began)
    _explain(folder, run, status)
    if lacking:
        folder.problem(f"some prompts are missing, as the run cannot be repeated: {lacking}")
    goal = text_in(folder.json("request.json"), "goal")
    return ViewedRun(
        run_id=entry.run_id,
        pipeline=pipeline,
        title=goal or (run.commands[0].title if run and run.commands else pipeline),
        status=status,
        has_ended=run is not None and run.has_ended,
        summary=(run.summary if run else "") or "",
        began=folder.began,
        root=root,
        facts=_facts(entry, run, calls),
        budgets=_budgets(folder, calls),
        findings=tuple(mappings_in(report, "findings")),
        documents=tuple(mappings_in(report, "documents")),
        diffs=tuple(diffs),
        events=tuple(_events(folder)),
        problems=tuple(dict.fromkeys(folder.problems)),
        around=quoted_lines.read(report, repository),
    )


def _steps(
    folder: RunFolder, root: ViewedStep, calls: Sequence[RecordedCall], prompts: Prompts
) -> list[tuple[str, str]]:
    """Add the steps of a run to ``root``; returns its diffs."""
    if os.path.lexists(os.path.join(folder.path, *benchmark_steps.NAME.split("/"))):
        benchmark_steps.read(folder, root)
        return []
    nodes = ViewedRecursion(folder, root).read()
    records = spans.read(folder.events())
    if not records and not any(call.span for call in calls):
        records, calls = earlier_runs.spans_of(calls, nodes)
        if records:
            folder.problem("an older version made the run: its calls stand by their places")
    ViewedSpans(folder, root, prompts, nodes).read(records, calls)
    root.children.sort(key=when)
    changes = [
        (record.title, path)
        for record in records.values()
        for path in record.files.values()
        if path.endswith(".patch")
    ]
    diffs = [(f"After {title}", folder.text(path)) for title, path in changes]
    results = [(title, folder.text(path)) for path, title in _RESULTS.items()]
    return [(title, patch) for title, patch in (*results, *diffs) if patch.strip()]


def _span(root: ViewedStep) -> None:
    """Give each step without times those of the steps below it."""
    for _, step in reversed(list(root.walk())):
        starts = [child.start for child in step.children if child.start is not None]
        ends = [
            child.start + child.seconds
            for child in step.children
            if child.start is not None and child.seconds is not None
        ]
        if step.start is None and step.seconds is None and starts:
            step.took(min(starts), max(ends, default=None))


def _events(folder: RunFolder) -> Iterator[tuple[float, str]]:
    """Seconds since the beginning, and what each event says."""
    for record in folder.events():
        stamp = record.get("timestamp")
        if isinstance(stamp, str) and manifests.is_time(stamp):
            yield manifests.moment(stamp) - folder.began, event_text(record)


def _parts(report: Mapping[str, Any], root: ViewedStep) -> None:
    """The checks of a run that has no other steps."""
    for part in mappings_in(report, "parts"):
        verdict = text_in(part, "verdict")
        step = root.add(ViewedStep("check", text_in(part, "id"), _VERDICTS.get(verdict, PARTIAL)))
        step.tell("verdict", verdict.replace("_", " "))
        step.tell("summary", text_in(part, "summary"))
        metrics = mapping_in(part, "metrics")
        step.show("Metrics", json.dumps(metrics, indent=2) if metrics else "", "json")


def _commands(folder: RunFolder, root: ViewedStep, run: Manifest | None) -> None:
    """The stages of a pipeline, and runs within the run."""
    stages = () if run is None else run.commands
    if len(stages) > 1 or not root.children:
        for stage in stages:
            step = root.add(
                ViewedStep("stage", stage.title or stage.id, _STATUSES.get(stage.status, ""))
            )
            step.tell("exit code", stage.exit_code)
            step.tell("summary", stage.summary)
            step.tell("run", stage.sub_run_id)
            step.show("Command", stage.command)
            if stage.log_path and run is not None:
                name = stage.log_path.removeprefix(f"{run.artifact_root}/")
                step.show("Output", folder.text(name))
            moments = [manifests.moment(at) for at in (stage.started_at, stage.completed_at) if at]
            if moments:
                ended = moments[1] - folder.began if len(moments) > 1 else None
                step.took(moments[0] - folder.began, ended)
    for inner in sorted(checksums.children(folder.path)):
        within = RunFolder(os.path.join(folder.path, *inner.split("/")), folder.began)
        status = text_in(within.json(manifests.NAME), "status")
        title = f"{inner.partition('/')[0]}, a run of its own"
        step = root.add(ViewedStep("run", title, _STATUSES.get(status, "")))
        step.tell("folder", inner)
        _steps(within, step, within.calls(), Prompts({}))
        for problem in within.problems:
            folder.problem(f"{inner}/{problem}")


def _end(run: Manifest) -> float | None:
    if run.completed_at:
        return manifests.moment(run.completed_at)
    return None if run.heartbeat_at is None else manifests.moment(run.heartbeat_at)


def _explain(folder: RunFolder, run: Manifest | None, status: str) -> None:
    """Say what a run lacks that has not ended."""
    if run is not None and not run.has_ended:
        gone = "its end was not reported" if run.recorded_by else "its process is gone"
        outlook = gone if status == "gone" else "it goes on"
        folder.problem(f"the run has not ended ({outlook}): the page shows what there is so far")


def _facts(
    entry: FoundRun, run: Manifest | None, calls: Sequence[RecordedCall]
) -> tuple[tuple[str, str], ...]:
    terms = next((call.value for call in calls if call.kind == "terms"), {})
    mode = next((call.value for call in calls if call.kind == "mode"), {})
    facts: list[tuple[str, Any]] = [("run", entry.run_id), ("task", entry.task_id)]
    if run is not None:
        facts += [
            ("pipeline", run.pipeline_id),
            ("started", run.started_at),
            ("ended", run.completed_at),
            ("exit code", run.exit_code),
            ("detail", run.status_detail),
            ("sandbox", run.sandbox),
            ("recorded by", run.recorded_by and f"{run.recorded_by.name}, not run by rlm-ci"),
            ("part of", run.parent_run_id),
        ]
        facts += [
            ("child run", f"{child_run.run_id} ({child_run.status})")
            for child_run in run.child_runs
        ]
    facts += [("mode", text_in(mode, "name")), ("because", text_in(mode, "reason"))]
    for name in ("model", "agent", "roles", "validator"):
        facts.append((name, text_in(terms, name)))
    for name in ("max_iterations", "max_minutes", "max_completion_tokens"):
        facts.append((name, number_in(terms, name)))
    return tuple((name, str(value)) for name, value in facts if value not in (None, ""))


def _budgets(folder: RunFolder, calls: Sequence[RecordedCall]) -> Mapping[str, float]:
    """The limits of the command line, or of the settings where the run has ended, or raised."""
    budgets: dict[str, float] = {}
    flags = mapping_in(folder.json("request.json"), "flags")
    settings: Mapping[str, Any] = {}
    for record in folder.events():
        rests_on = mapping_in(mapping_in(record, "payload"), "rests_on")
        settings = mapping_in(rests_on, "settings") or settings
    for name in _BUDGETS:
        setting = settings.get(name)
        limit = amount(setting[0] if isinstance(setting, list) and setting else flags.get(name))
        if limit is not None:
            budgets[name] = limit
    for call in calls:
        if call.kind == "raised":
            budgets |= {
                name: value
                for name in _BUDGETS
                if (value := number_in(call.value, name)) is not None
            }
    return budgets
