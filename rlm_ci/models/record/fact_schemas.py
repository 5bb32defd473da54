"""The shapes of facts by kind: a journal may come from anywhere, and its sums prove nothing.

A shape is an annotation as a record has it, or an object with such members: a name that ends in
``?`` may be missing, and others are passed over.
"""

from __future__ import annotations

from rlm_ci import decoding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final


class _Shape:
    """A shape that others name."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape
        self._read: Callable[[Any], Any] | None = None

    def from_json(self, value: Any) -> Any:
        """Raises DecodeError for another one."""
        if self._read is None:
            self._read = _reader(self._shape)
        return self._read(value)


def _reader(shape: Any) -> Callable[[Any], Any]:
    if isinstance(shape, str):
        return decoding.reader(shape, _NAMES)
    if not isinstance(shape, dict):
        read: Callable[[Any], Any] = shape.from_json
        return read
    members = {name.rstrip("?"): _reader(inner) for name, inner in shape.items()}
    required = [name for name in shape if name[-1] != "?"]
    return decoding.object_reader(members, required, dict, ignores=True)


class _Terms:
    """Those of a question, or of an episode; a fix loop has others, and checks them itself."""

    @staticmethod
    def from_json(value: Any) -> None:
        if "branch_width" in value:
            _EPISODE.from_json(value)
            return
        decoding.reader("Rlms | None", _NAMES)(value.get("rlms"))
        if "limits" in value:
            _QUESTION.from_json(value)


def require(kind: str, value: Mapping[str, Any]) -> None:
    """Raise DecodeError for a fact of another shape than its ``kind`` has, if that has one."""
    if kind in _SHAPES:
        _SHAPES[kind].from_json(value)


#: The largest number that JSON holds exactly.
_MOST: Final = (1 << 53) - 1
_NAMES: Final[dict[str, Any]] = {
    "Positive": decoding.number(1, _MOST),
    "Whole": decoding.number(-_MOST, _MOST),
    "Amount": decoding.amount(),
    "Real": decoding.amount(minimum=-_MOST),
    "Artifact": _Shape({"bytes": "Count", "sha256": "str"}),
    "Exchange": _Shape({"user": "str", "assistant": "str", "run_id": "str", "timestamp": "str"}),
    "Failed": _Shape({
        "kinds": "tuple[str, ...]",
        "message": "str",
        "line": "str",
        "is_own": "bool",
        "errno": "Whole",
    }),
    "Failure": _Shape({
        "what": "str", "where": "str", "hint": "str", "code": "Count", "budget": "str | None"
    }),
    "Group": _Shape({"spans": "tuple[tuple[Count, ...], ...]", "hits": "Count"}),
    "McpTool": _Shape({
        "server": "str",
        "tool": "str",
        "name": "str",
        "description": "str",
        "schema": "dict",
    }),
    "Rlms": _Shape({
        "enabled": "bool",
        "mode": "str",
        "request_keyword": "str",
        "context": "str",
        "max_lines": "Count",
        "max_estimated_tokens": "Count",
        "max_files": "Count",
        "roles": "tuple[str, ...]",
        "force_on": "bool",
        "force_off": "bool",
        "max_steps": "Positive",
        "max_depth": "Positive",
        "timeout_seconds": "Positive",
        "max_subcalls": "Positive",
        "require_citations": "bool",
        "fail_mode": "str",
    }),
    "Session": _Shape({
        "id": "str",
        "history": "tuple[Exchange, ...]",
        "summaries": "tuple[str, ...]",
    }),
    "ToolCall": _Shape({"id": "str", "name": "str", "arguments": "str", "extra?": "dict"}),
    "Usage": _Shape({
        "prompt_tokens": "Count",
        "completion_tokens": "Count",
        "cached_tokens": "Count",
        "estimated": "bool",
    }),
}  # fmt: skip
_QUESTION: Final = _Shape(
    {
        "goal": "str",
        "limits": "Mapping[str, Positive]",
        "model?": "str",
        "provider?": "str",
        "head?": "str | None",
        "max_iterations?": "Amount | None",
        "max_minutes?": "Amount | None",
        "max_completion_tokens?": "Positive",
        "subcall_models?": "tuple[str, ...]",
        "environment?": decoding.one_of("symbolic", "repl"),
        "sandbox?": "str",
        "isolated?": "bool",
        "max_depth?": "Count",
        "block_seconds?": "Amount",
        "context_tokens?": "Positive | None",
    }
)
_EPISODE: Final = _Shape(
    {
        "task": "str",
        "environment": "str",
        "model": "str",
        "provider": "str",
        "head": "str | None",
        "max_steps": "Positive",
        "exec_timeout": "Amount",
        "branch_width": "Positive",
        "framework": "str | None",
        "max_depth": "Count",
        "max_children": "Positive",
        "parallelism": "Positive",
        "max_minutes": "Amount | None",
        "max_completion_tokens": "Positive",
        "sandbox": "str",
        "isolated": "bool",
        "rewards": "Mapping[str, Real]",
        "sub_model": "str | None",
        "engine": "bool",
        "validator": "str | None",
        "mark": "str",
        "session": "Session | None",
        "mcp?": "tuple[McpTool, ...]",
        "context_tokens?": "Positive | None",
    }
)
_BENCHMARK: Final = {
    "preset": "str",
    "pack": "str",
    "suite_hash": "str",
    "options": {
        "mode": "str",
        "repeats": "Positive",
        "limit": "Positive | None",
        "environment": "str | None",
        "framework": "str | None",
        "max_steps": "Positive | None",
        "exec_timeout": "Amount | None",
        "branch_width": "Positive",
        "sub_model": "str | None",
        "sub_provider": "str | None",
        "include_mcp": "bool",
        "mcp_server": "str | None",
        "harness_strategy": "str",
        "context_tokens": "Positive | None",
        "judge_model": "str | None",
        "seed": "Count | None",
        "tokens": "Positive | None",
    },
    "model": "str",
    "provider": "str",
    "started_at": "str",
}  # fmt: skip
_ATTEMPT: Final = {
    "case_id": "str",
    "repeat": "Positive",
    "scorer": "str",
    "completed": "bool",
    "steps": "Count",
    "total_reward": "Real",
    "usage": "Mapping[str, Count]",
    "final_response": "str",
    "score": "Amount",
    "score_note": "str",
    "cost_usd": "Amount | None",
    "error": "str",
    "seconds": "Amount",
    "context_bytes_left_out?": "Count",
}  # fmt: skip
_TABLE: Final[Mapping[str, Any]] = {
    "analysis": {"result": "dict", "files": "Mapping[str, str]"},
    "applied": {"done": "bool", "reason": "str"},
    "approval": {"approved": "bool", "said": "str"},
    "approval-asked": {"file": "str"},
    "artifacts": "Mapping[str, Artifact]",
    "attempt": _ATTEMPT,
    "benchmark": _BENCHMARK,
    "branches": {
        "chosen": "Positive",
        "scores": "tuple[Real | None, ...]",
        "errors": "tuple[str, ...]",
        "usage": "Mapping[str, Count]",
    },
    "canary": {"secret": "str"},
    "charge": {"usage": "Usage", "cost": "Decimal | None", "uncached_cost?": "Decimal"},
    "child": {"started": "bool"},
    "clock": {"seconds": "Amount", "at": "str"},
    "code": {
        "stdout": "str",
        "stderr": "str",
        "failed": "bool",
        "timed_out": "bool",
        "seconds": "Amount",
    },
    "completion": {
        "text": "str",
        "tool_calls": "tuple[ToolCall, ...]",
        "finish_reason": "str",
        "model": "str",
        "usage": "Usage | None",
        "cost": "Decimal | None",
        "uncached_cost?": "Decimal",
        "thoughts?": "str",
        "extra?": "dict",
        "left_out?": "str",
        "resumed_tokens?": "Count",
        "lost_tokens?": "Count",
    },
    "context": {
        "object_id": "str | None",
        "stamp?": "Mapping[str, int]",
        "adopted?": "bool",
        "notes?": "tuple[str, ...]",
        "why?": "str",
    },
    "count": {
        "error": "str | None",
        "by?": decoding.one_of("chunk", "file", "groups"),
        "hits?": "Count",
        "lines?": "Count",
        "chunks?": "Count",
        "values?": "Count",
        "rows?": "tuple[Group, ...]",
        "first?": "tuple[tuple[Count, ...], ...]",
    },
    "decision": {"run": "bool", "reason": "str"},
    "environment": {"variables": "tuple[str, ...]"},
    "episode": {"attempt": "str", "run_id": "str"},
    "execution": {
        "output": "str",
        "error": "str",
        "answer": "str | None",
        "seconds": "Amount",
        "variables": "tuple[tuple[str, str, Count], ...]",
        "state": "str | None",
        "state_error": "str",
        "asked": "Count",
        "failed": "Count",
        "cut": "Count",
        "not_allowed": "Count",
        "reward": "Real",
        "limit": "Failure | None",
        "left": "Count | None",
        "files": "Mapping[str, str]",
    },
    "failed": "Failure",
    "left": {"calls": "Count | None"},
    "look": {"text": "str"},
    "map": {
        "error": "str | None",
        "parts?": "Count",
        "calls?": "Count",
        "tokens?": "Count",
        "most_tokens?": "Count",
        "usd?": "Decimal | None",
        "most_usd?": "Decimal | None",
    },
    "mcp": {"text": "str", "failed": "bool", "timed_out": "bool"},
    "mode": {
        "name": decoding.one_of("iterative", "symbolic"),
        "reason": "str",
        "wanted": decoding.one_of("auto", "iterative", "symbolic"),
    },
    "share": {
        "rest": {
            "max_calls": "Count | None",
            "max_tokens": "Count | None",
            "budget_usd": "Decimal | None",
        },
        "used": {
            "calls": "Count",
            "prompt_tokens": "Count",
            "completion_tokens": "Count",
            "usd": "Decimal",
            "cached_tokens?": "Count",
        },
    },
    "repair": {"why": "str"},
    "repair-validator": {
        "reason": "str",
        "code": "Whole",
        "failed": "tuple[str, ...]",
        "passed": "Count",
        "last_line": "str",
        "own_conftest": "bool",
    },
    "reproducible": {"why": "str", "output": "str"},
    "reproduction": {
        "status": "str",
        "reason": "str",
        "output": "str",
        "failures": "tuple[Failed, ...]",
    },
    "standing": {"refuted": "Mapping[str, str]"},
    "structured": {"takes_schema": "bool", "said?": "str"},
    "subcall": {"error": "Failure | None"},
    "terms": _Terms,
    "figures": _Shape({"bytes_per_token": "Amount | None", "context_tokens": "Positive | None"}),
}
_SHAPES: Final = {kind: _Shape(shape) for kind, shape in _TABLE.items()}
