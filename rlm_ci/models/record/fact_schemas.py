"""The shapes of facts by kind: a journal may come from anywhere, and its sums prove nothing.

A shape is a type, a test, ``[shape]`` for a list, or a dict for an object with these members;
a name that ends in ``?`` may be missing.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    Shape = type | Callable[[Any], bool] | list[Any] | dict[str, Any]

#: Larger numbers are no JSON numbers any more once they are added up.
_MOST: Final = 1 << 53


def require(kind: str, value: Mapping[str, Any]) -> None:
    """Raise TypeError for a fact of another shape than its ``kind`` has, if that has one."""
    if kind in _SHAPES and not _fits(_SHAPES[kind], value):
        raise TypeError(kind)


def _fits(shape: Shape, value: Any) -> bool:
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(shape[0], one) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _fits(inner, value[name.rstrip("?")]) if name.rstrip("?") in value else name[-1] == "?"
            for name, inner in shape.items()
        )
    return shape(value)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _positive(value: Any) -> bool:
    return _count(value) and value > 0


def _number(value: Any) -> bool:
    return type(value) in (int, float) and value >= 0 and math.isfinite(value)


def _reward(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _money(value: Any) -> bool:
    try:
        return type(value) is str and 0 <= Decimal(value) < _MOST
    except InvalidOperation:
        return False


def _maybe(shape: Shape) -> Callable[[Any], bool]:
    return lambda value: value is None or _fits(shape, value)


def _one_of(*texts: str) -> Callable[[Any], bool]:
    return lambda value: value in texts


def _named(shape: Shape) -> Callable[[Any], bool]:
    """An object with any names."""
    return lambda value: isinstance(value, dict) and all(_fits(shape, v) for v in value.values())


def _variable(value: Any) -> bool:
    """Name, type and size of a variable."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and [type(one) for one in value[:2]] == [str, str]
        and _count(value[2])
    )


def _terms(value: Any) -> bool:
    """Those of a question, or of an episode; a fix loop has others, and checks them itself."""
    if not isinstance(value, dict):
        return True
    if "branch_width" in value:
        return _fits(_EPISODE, value)
    if not _maybe(_RLMS)(value.get("rlms")):
        return False
    return "limits" not in value or _fits(_QUESTION, value)


_FAILURE: Final = {
    "what": str, "where": str, "hint": str, "code": _count, "budget": _maybe(str)
}  # fmt: skip
_USAGE: Final = {
    "prompt_tokens": _count,
    "completion_tokens": _count,
    "cached_tokens": _count,
    "estimated": bool,
}
_QUESTION: Final = {
    "goal": str,
    "limits": _named(_positive),
    "model?": str,
    "provider?": str,
    "head?": _maybe(str),
    "max_iterations?": _maybe(_number),
    "max_minutes?": _maybe(_number),
    "max_completion_tokens?": _positive,
    "subcall_models?": [str],
    "environment?": _one_of("symbolic", "repl"),
    "sandbox?": str,
    "isolated?": bool,
    "max_depth?": _count,
    "block_seconds?": _number,
    "context_tokens?": _maybe(_positive),
}
_EPISODE: Final = {
    "task": str,
    "environment": str,
    "model": str,
    "provider": str,
    "head": _maybe(str),
    "max_steps": _positive,
    "exec_timeout": _number,
    "branch_width": _positive,
    "framework": _maybe(str),
    "max_depth": _count,
    "max_children": _positive,
    "parallelism": _positive,
    "max_minutes": _maybe(_number),
    "max_completion_tokens": _positive,
    "sandbox": str,
    "isolated": bool,
    "rewards": _named(_reward),
    "sub_model": _maybe(str),
    "engine": bool,
    "validator": _maybe(str),
    "mark": str,
    "session": _maybe({
        "id": str,
        "history": [{"user": str, "assistant": str, "run_id": str, "timestamp": str}],
        "summaries": [str],
    }),
    "mcp?": [{"server": str, "tool": str, "name": str, "description": str, "schema": dict}],
    "context_tokens?": _maybe(_positive),
}  # fmt: skip
_RLMS: Final = {
    "enabled": bool,
    "mode": str,
    "request_keyword": str,
    "context": str,
    "max_lines": _count,
    "max_estimated_tokens": _count,
    "max_files": _count,
    "roles": [str],
    "force_on": bool,
    "force_off": bool,
    "max_steps": _positive,
    "max_depth": _positive,
    "timeout_seconds": _positive,
    "max_subcalls": _positive,
    "require_citations": bool,
    "fail_mode": str,
}
_BENCHMARK: Final = {
    "preset": str,
    "pack": str,
    "suite_hash": str,
    "options": {
        "mode": str,
        "repeats": _positive,
        "limit": _maybe(_positive),
        "environment": _maybe(str),
        "framework": _maybe(str),
        "max_steps": _maybe(_positive),
        "exec_timeout": _maybe(_number),
        "branch_width": _positive,
        "sub_model": _maybe(str),
        "sub_provider": _maybe(str),
        "include_mcp": bool,
        "mcp_server": _maybe(str),
        "harness_strategy": str,
        "context_tokens": _maybe(_positive),
        "judge_model": _maybe(str),
        "seed": _maybe(_count),
        "tokens": _maybe(_positive),
    },
    "model": str,
    "provider": str,
    "started_at": str,
}  # fmt: skip
_ATTEMPT: Final = {
    "case_id": str,
    "repeat": _positive,
    "scorer": str,
    "completed": bool,
    "steps": _count,
    "total_reward": _reward,
    "usage": _named(_count),
    "final_response": str,
    "score": _number,
    "score_note": str,
    "cost_usd": _maybe(_number),
    "error": str,
    "seconds": _number,
    "context_bytes_left_out?": _count,
}  # fmt: skip
_SHAPES: Final[Mapping[str, Shape]] = {
    "analysis": {"result": dict, "files": _named(str)},
    "applied": {"done": bool, "reason": str},
    "approval": {"approved": bool, "said": str},
    "approval-asked": {"file": str},
    "artifacts": _named({"bytes": _count, "sha256": str}),
    "attempt": _ATTEMPT,
    "benchmark": _BENCHMARK,
    "branches": {
        "chosen": _positive,
        "scores": [_maybe(_reward)],
        "errors": [str],
        "usage": _named(_count),
    },
    "canary": {"secret": str},
    "charge": {"usage": _USAGE, "cost": _maybe(_money), "uncached_cost?": _money},
    "child": {"started": bool},
    "clock": {"seconds": _number, "at": str},
    "code": {
        "stdout": str,
        "stderr": str,
        "failed": bool,
        "timed_out": bool,
        "seconds": _number,
    },
    "completion": {
        "text": str,
        "tool_calls": [{"id": str, "name": str, "arguments": str, "extra?": dict}],
        "finish_reason": str,
        "model": str,
        "usage": _maybe(_USAGE),
        "cost": _maybe(_money),
        "uncached_cost?": _money,
        "thoughts?": str,
        "extra?": dict,
        "left_out?": str,
    },
    "context": {
        "object_id": _maybe(str),
        "stamp?": _named(int),
        "adopted?": bool,
        "notes?": [str],
        "why?": str,
    },
    "count": {
        "error": _maybe(str),
        "by?": _one_of("chunk", "file", "groups"),
        "hits?": _count,
        "lines?": _count,
        "chunks?": _count,
        "values?": _count,
        "rows?": [{"spans": [[_count]], "hits": _count}],
        "first?": [[_count]],
    },
    "decision": {"run": bool, "reason": str},
    "environment": {"variables": [str]},
    "episode": {"attempt": str, "run_id": str},
    "execution": {
        "output": str,
        "error": str,
        "answer": _maybe(str),
        "seconds": _number,
        "variables": [_variable],
        "state": _maybe(str),
        "state_error": str,
        "asked": _count,
        "failed": _count,
        "cut": _count,
        "not_allowed": _count,
        "reward": _reward,
        "limit": _maybe(_FAILURE),
        "left": _maybe(_count),
        "files": _named(str),
    },
    "failed": _FAILURE,
    "left": {"calls": _maybe(_count)},
    "look": {"text": str},
    "map": {
        "error": _maybe(str),
        "parts?": _count,
        "calls?": _count,
        "tokens?": _count,
        "most_tokens?": _count,
        "usd?": _maybe(_money),
        "most_usd?": _maybe(_money),
    },
    "mcp": {"text": str, "failed": bool, "timed_out": bool},
    "mode": {
        "name": _one_of("iterative", "symbolic"),
        "reason": str,
        "wanted": _one_of("auto", "iterative", "symbolic"),
    },
    "share": {
        "rest": {
            "max_calls": _maybe(_count),
            "max_tokens": _maybe(_count),
            "budget_usd": _maybe(_money),
        },
        "used": {
            "calls": _count,
            "prompt_tokens": _count,
            "completion_tokens": _count,
            "usd": _money,
            "cached_tokens?": _count,
        },
    },
    "repair": {"why": str},
    "repair-validator": {
        "reason": str,
        "code": int,
        "failed": [str],
        "passed": _count,
        "last_line": str,
        "own_conftest": bool,
    },
    "reproducible": {"why": str, "output": str},
    "reproduction": {
        "status": str,
        "reason": str,
        "output": str,
        "failures": [
            {"kinds": [str], "message": str, "line": str, "is_own": bool, "errno": int},
        ],
    },
    "standing": {"refuted": _named(str)},
    "structured": {"takes_schema": bool, "said?": str},
    "subcall": {"error": _maybe(_FAILURE)},
    "terms": _terms,
}
