"""Read the JSON of analyzers without SARIF, which is hostile data."""

from __future__ import annotations

import json

from rlm_ci.review.analyzer_output import sarif
from rlm_ci.review.analyzer_output.sarif import (
    AnalyzerOutput,
    AnalyzerResult,
    ResultPlace,
    SarifError,
)
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    #: File, first and last line, column, rule, level, message, address of what explains it.
    Row = tuple[Any, Any, Any, Any, Any, Any, Any, Any]

SARIF = "sarif"
_LEVELS = {
    "error": "error", "fatal": "error", "warning": "warning", "note": "note", "info": "note",
    "information": "note", "help": "note", "style": "note", "ignore": "none",
}  # fmt: skip


def read(kind: str, data: bytes, find: Callable[[str], int | None]) -> AnalyzerOutput:
    """Read what a tool of this ``kind`` printed, as ``sarif.read`` does. Raises SarifError."""
    if kind == SARIF:
        return sarif.read(data, find)
    results: list[AnalyzerResult] = []
    placeless: list[AnalyzerResult] = []
    for row in _rows(kind, data):
        if len(results) + len(placeless) >= sarif.MOST:
            raise SarifError(f"it has more than {sarif.MOST:,} results")
        result = _result(row, find)
        if result is not None:
            (results if result.spots else placeless).append(result)
    return AnalyzerOutput(tuple(results), len(placeless), "", "", tuple(placeless))


def _rows(kind: str, data: bytes) -> Iterator[Row]:
    parse, by_line = _KINDS[kind]
    try:
        if by_line:
            records = [json.loads(line) for line in data.splitlines() if line.startswith(b"{")]
        else:
            records = [json.loads(data)]
    except (ValueError, RecursionError):
        raise SarifError("its output is not JSON") from None
    for record in records:
        try:
            yield from parse(record)
        except (TypeError, KeyError, AttributeError):
            raise SarifError(f"its output is not the JSON of {kind}") from None


def _result(row: Row, find: Callable[[str], int | None]) -> AnalyzerResult | None:
    path, start, end, column, rule, level, message, address = row
    if not isinstance(message, str) or not message.strip():
        return None
    text = find(path) if isinstance(path, str) else None
    if text is None or type(start) is not int or start < 1:
        spots: tuple[ResultPlace, ...] = () if text is None else (ResultPlace(text, None, None),)
    else:
        end = end if type(end) is int and end >= start else start
        spots = (ResultPlace(text, start, end, column if type(column) is int else 0),)
    first = " ".join(message.strip().splitlines()[0].split())
    name = str(rule)[:80] if rule else ""
    return AnalyzerResult(
        printable(name),
        "",
        printable(first)[:1000],
        _LEVELS.get(str(level).lower(), "warning"),
        spots,
        address if isinstance(address, str) else "",
    )


def _mypy(row: Mapping[str, Any]) -> Iterator[Row]:
    if row["severity"] != "note":  # a note belongs to the error before it
        code = row.get("code")
        column = row["column"] + 1
        yield row["file"], row["line"], None, column, code, "error", row["message"], ""


def _pyright(row: Mapping[str, Any]) -> Iterator[Row]:
    for flaw in row["generalDiagnostics"]:
        span = flaw.get("range") or {}
        lines = [span[end]["line"] + 1 for end in ("start", "end")] if span else [None, None]
        column = span["start"]["character"] + 1 if span else None
        yield flaw["file"], *lines, column, flaw.get("rule"), flaw["severity"], flaw["message"], ""


def _eslint(row: Any) -> Iterator[Row]:
    for file in row:
        for message in file["messages"]:
            level = "error" if message["severity"] == 2 else "warning"
            rule = message["ruleId"] or "fatal"
            places = message.get("line"), message.get("endLine"), message.get("column")
            yield file["filePath"], *places, rule, level, message["message"], ""


def _clippy(row: Mapping[str, Any]) -> Iterator[Row]:
    if row.get("reason") != "compiler-message":
        return
    message = row["message"]
    rule = (message.get("code") or {}).get("code", "").removeprefix("clippy::")
    for span in message["spans"]:
        if span["is_primary"]:
            places = span["line_start"], span["line_end"], span["column_start"]
            yield span["file_name"], *places, rule, message["level"], message["message"], ""
            return


def _golangci(row: Mapping[str, Any]) -> Iterator[Row]:
    for issue in row.get("Issues") or ():
        position = issue["Pos"]
        level = issue.get("Severity") or "warning"
        lines = position["Line"], None, position.get("Column")
        yield position["Filename"], *lines, issue["FromLinter"], level, issue["Text"], ""


def _staticcheck(row: Mapping[str, Any]) -> Iterator[Row]:
    start, end = row["location"], row.get("end") or {}
    code = row["code"]
    help_ = f"https://staticcheck.dev/docs/checks#{code}"
    lines = start["line"], end.get("line"), start["column"]
    yield start["file"], *lines, code, row.get("severity", "error"), row["message"], help_


def _shellcheck(row: Mapping[str, Any]) -> Iterator[Row]:
    for comment in row["comments"]:
        code = f"SC{comment['code']}"
        help_ = f"https://www.shellcheck.net/wiki/{code}"
        lines = comment["line"], comment["endLine"], comment["column"]
        yield comment["file"], *lines, code, comment["level"], comment["message"], help_


def _actionlint(row: Any) -> Iterator[Row]:
    for problem in row or ():
        lines = problem["line"], None, problem["column"]
        yield problem["filepath"], *lines, problem["kind"], "error", problem["message"], ""


def _hadolint(row: Any) -> Iterator[Row]:
    for problem in row:
        code = problem["code"]
        help_ = f"https://github.com/hadolint/hadolint/wiki/{code}"
        lines = problem["line"], None, problem["column"]
        yield problem["file"], *lines, code, problem["level"], problem["message"], help_


#: How each is read, and whether it prints a record a line.
_KINDS: dict[str, tuple[Callable[[Any], Iterator[Row]], bool]] = {
    "mypy": (_mypy, True),
    "pyright": (_pyright, False),
    "eslint": (_eslint, False),
    "clippy": (_clippy, True),
    "golangci-lint": (_golangci, False),
    "staticcheck": (_staticcheck, True),
    "shellcheck": (_shellcheck, False),
    "actionlint": (_actionlint, False),
    "hadolint": (_hadolint, False),
}
