"""What a review says of its own limits: who looked, at how much, and who would look at the rest.

The figures come from a report that may be anybody's: numbers are checked, and no word of theirs is
shown but the languages that are known here.
"""

from __future__ import annotations

from rlm_ci.report.findings import REVIEW
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.report.findings import Report

_SCRIPTS = "JavaScript TypeScript TSX Vue Svelte"
_ANY = (
    "C C# C++ CUDA Clojure Dart Elixir HCL Java Julia Kotlin Lua OCaml Objective-C PHP R Ruby "
    "Scala Solidity Starlark Swift"
)
#: Who knows a language, and whether ``review.analyzers = "auto"`` finds it.
_ANALYZERS: dict[str, tuple[str, bool]] = {
    "Python": ("ruff", True),
    "Go": ("staticcheck, or golangci-lint with gosec", True),
    "Rust": ("clippy", True),
    "Shell": ("shellcheck", True),
    "Dockerfile": ("hadolint", True),
    **dict.fromkeys(_SCRIPTS.split(), ("eslint", True)),
    **dict.fromkeys(_ANY.split(), ("semgrep", False)),
}
_AUTO = '[review]\nanalyzers = "auto"'
_BY_NAME = """\
[[review.analyzers]]
name = "semgrep"
command = ["semgrep", "scan", "--quiet", "--sarif", "--config", "RULES.yml", "{folder}"]"""
#: Languages that are told apart.
_MOST = 6


def limits(report: Report) -> str:
    """What a reader must know beside the verdict; "" where a model read it, or none was asked."""
    found = _reach(report)
    if found is None:
        return ""
    of = "change" if found.get("change") else "repository"
    files, looked = _number(found, "files"), _number(found, "looked")
    if not files:
        return f"this {of} leaves no file to look at"
    told = f"{looked:,} of {count(files, 'changed file' if of == 'change' else 'file')}"
    if not looked:
        return f"no analyzer and no model read this {of}; looked at {told}"
    return f"analyzers only; no model read this {of}; looked at {told}"


def advice(report: Report) -> tuple[str, str] | None:
    """Who would look at the rest, and what to add to the configuration for that.

    None where everything was looked at that anybody could.
    """
    found = _reach(report)
    if found is None:
        return None
    others = found.get("others")
    others = others if isinstance(others, dict) else {}
    known = [name for name in others if name in _ANALYZERS and _number(others, name)]
    if not known:
        return None
    told = ", ".join(
        f"{count(_number(others, name), f'{name} file')} ({_ANALYZERS[name][0]})"
        for name in known[:_MOST]
    )
    rest = len(known) - _MOST
    told += f" and {count(rest, 'more language')}" if rest > 0 else ""
    found_by_auto = any(_ANALYZERS[name][1] for name in known)
    if found_by_auto and found.get("auto"):
        return f"Not looked at: {told}. Set up the tool in the repository and install it.", ""
    where = " on the base branch" if found.get("change") else ""
    add = f"add to `rlm-ci.toml`{where}:"
    if found_by_auto:
        return (
            f"Not looked at: {told}. Set up the tool in the repository and install it; then {add}",
            _AUTO,
        )
    return f"Not looked at: {told}. Install it, and {add}", _BY_NAME


def _reach(report: Report) -> Mapping[str, Any] | None:
    """The figures of the review, where no model took part in it."""
    for part in report.parts:
        found = part.metrics.get("reach") if part.id == REVIEW else None
        if isinstance(found, dict) and part.metrics.get("model") is None:
            return found
    return None


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    return value if type(value) is int and 0 < value < 10**9 else 0
