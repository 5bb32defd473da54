"""The files of analyses: a result and a summary for each, and an index of all decisions."""

from __future__ import annotations

import json

from rlm_ci.fix.roles import spoken
from rlm_ci.text.printable import count, encodable, printable, printable_file
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.fix.rlms.analysis import AnalysisEnd, AnalysisTask, CheckedAnswer
    from rlm_ci.fix.rlms.trigger import ContextFigures, Decision, RlmsOptions

#: Their folder in a run, and the name of the index in it.
FOLDER = "rlm/rlms"
INDEX = "index.json"
SCHEMA = "rlms.schema.json"
VERSION = 1
#: Files of the context that a result lists.
_FILES = 160
RUN, SKIPPED, OK, FAILED = "run", "skipped", "ok", "failed"


class RoleContext(Value):
    """The role whose context is analysed, and the run: ``loop_id`` is its id."""

    loop_id: str
    role: str
    iteration: int

    @property
    def name(self) -> str:
        """The beginning of the names of its files."""
        return f"{self.role}-iter-{self.iteration}"


def figures_of(figures: ContextFigures) -> dict[str, int]:
    """As events and dry runs have them."""
    return {
        "lines": figures.lines,
        "estimated_tokens": figures.estimated_tokens,
        "files": figures.files,
    }


def result(
    whose: RoleContext,
    decision: Decision,
    options: RlmsOptions,
    task: AnalysisTask,
    ended: AnalysisEnd,
    *,
    requested: bool,
    goal: str,
    model: str,
    sandbox: str,
) -> dict[str, Any]:
    """The result of an analysis, as its file has it; a failure has no findings."""
    answer, stats = ended.answer, ended.stats
    error = {"error": ended.error or None, "error_code": ended.code or None}
    figures = decision.figures
    return {
        "version": VERSION,
        "ok": answer is not None,
        **error,
        "errors": [{"code": ended.code, "message": ended.error}] if ended.code else [],
        "generated_at": ended.at,
        "loop_id": whose.loop_id,
        "role": whose.role,
        "iteration": whose.iteration,
        "format": "json",
        "reason": decision.reason,
        "request_detected": requested,
        "task_summary": encodable(goal[:1000]),
        "final": answer.summary if answer else "",
        "findings": list(answer.findings) if answer else [],
        "citations": answer.citations if answer else [],
        "highlights": [finding["title"] for finding in answer.findings] if answer else [],
        "evidence": _evidence(answer),
        "metrics": {
            "steps": stats["steps"],
            "depth": stats["depth"],
            "duration_ms": round(stats["seconds"] * 1000),
            "subcalls": stats["subcalls"],
        },
        "stats": {
            "file_count": figures.files,
            "line_count": figures.lines,
            "char_count": figures.bytes,
            "estimated_tokens": figures.estimated_tokens,
            "step_count": stats["steps"],
            "subcall_count": stats["subcalls"],
            "elapsed_seconds": stats["seconds"],
        },
        "limits": {name: getattr(options, name) for name in options.limits},
        "signals": dict(ended.signals),
        "files": [encodable(path) for path in ended.files[:_FILES]],
        "files_not_listed": max(0, len(ended.files) - _FILES),
        "omitted": dict(ended.omitted),
        "trace": list(ended.trace),
        "metadata": {"model": model, "sandbox": sandbox, "tree": task.tree, "mode": options.mode},
    }


def _evidence(answer: CheckedAnswer | None) -> dict[str, Any]:
    return {
        "offered": answer.offered if answer else 0,
        "verified": answer.verified if answer else 0,
        "reanchored": answer.reanchored if answer else 0,
        "rejected": answer.offered - answer.verified if answer else 0,
        "findings_left_out": answer.left_out if answer else 0,
        "examples": list(answer.rejected) if answer else [],
    }


def as_markdown(row: Mapping[str, Any]) -> str:
    """A result for people, and for the role's prompt: without times."""
    lines = [f"# Analysis for the {spoken(row['role'])}, iteration {row['iteration']}", ""]
    if not row["ok"]:
        return "\n".join([*lines, f"It failed: {row['error']} ({row['error_code']})", ""])
    lines += [row["final"].strip(), ""]
    for finding in row["findings"]:
        places = ", ".join(map(_location, finding["citations"])) or "no place"
        detail = f" {' '.join(finding['detail'].split())}" if finding["detail"].strip() else ""
        lines.append(f"- {finding['title']} ({places}).{detail}")
    evidence = row["evidence"]
    citations = f"{count(evidence['verified'], 'citation')} of {evidence['offered']:,} held"
    left_out = f"{count(evidence['findings_left_out'], 'finding')} left out"
    lines += ["", f"Checked: {citations}; {left_out}.", ""]
    return "\n".join(lines)


def _location(row: Mapping[str, Any]) -> str:
    start, end = row["start_line"], row["end_line"]
    last = f"-{end}" if end != start else ""
    return printable(f"{row['path']}:{start}{last}")


class ResultFiles:
    """Writes the files of a run's analyses. ``current`` names the result of each role, if any."""

    def __init__(self, write: Callable[[str, bytes], None], loop_id: str) -> None:
        """``write`` takes the name of a file within the run."""
        self._write = write
        self._loop_id = loop_id
        self._entries: list[dict[str, Any]] = []
        self._current: dict[str, str | None] = {}

    def skip(self, whose: RoleContext, decision: Decision, reason: str) -> None:
        """Note that there is none for this turn: an earlier one of the role is not current."""
        self._add(whose, decision, {"status": SKIPPED, "reason": reason}, None)

    def add(self, whose: RoleContext, decision: Decision, told: Mapping[str, Any]) -> str:
        """Write a result and its summary; returns the name of the first."""
        name = f"{FOLDER}/{whose.name}.json"
        self._write(name, _as_json(told))
        summary = f"{FOLDER}/{whose.name}.md"
        self._write(summary, printable_file(as_markdown(told)))
        row = {
            "status": OK if told["ok"] else FAILED,
            "reason": decision.reason,
            "error_code": told["error_code"],
            "result_file": name,
            "summary_file": summary,
        }
        self._add(whose, decision, row, name if told["ok"] else None)
        return name

    def _add(
        self, whose: RoleContext, decision: Decision, row: Mapping[str, Any], current: str | None
    ) -> None:
        figures = figures_of(decision.figures)
        turn = {"role": whose.role, "iteration": whose.iteration}
        self._entries.append({**turn, **row, "figures": figures})
        self._current[whose.role] = current
        index = {
            "version": VERSION,
            "loop_id": self._loop_id,
            "current": self._current,
            "entries": self._entries,
        }
        self._write(f"{FOLDER}/{INDEX}", _as_json(index))


def _as_json(value: Mapping[str, Any]) -> bytes:
    # In one order, also if it comes from the record.
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
