"""Read SARIF 2.1.0 of analyzers, which is hostile data."""

from __future__ import annotations

import json

from rlm_ci.text.printable import printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

#: Results of a printout, and places of a result.
MOST = 20_000
_PLACES = 5
#: Characters of a message, and of a rule's name or address.
_MESSAGE = 1000
_NAME = 200
#: A region of more lines, such as a class, becomes its first line.
_REGION = 12
#: The tag of security rules.
_SECURITY = "security"


class SarifError(ValueError):
    """Why a printout cannot be used."""


class ResultPlace(Row):
    """Lines of the text with this number, None for the whole file.

    ``column`` is 1-based, 0 if unknown.
    """

    text: int
    line_start: int | None
    line_end: int | None
    column: int = 0


class AnalyzerResult(Value):
    """One result. ``level`` is error, warning or note; ``score`` a security severity, 0 to 10.

    ``suppression`` is the justification of a suppressed one.
    """

    rule: str
    name: str
    message: str
    level: str
    spots: tuple[ResultPlace, ...]
    help: str = ""
    score: float | None = None
    is_security: bool = False
    suppression: str | None = None


class AnalyzerOutput(Value):
    """The results with known places, and the number of all others (``rejected``).

    ``failed`` is the tool's reason why it could not look at everything, ``version`` its own.
    ``placeless`` are the other results that have a message.
    """

    results: tuple[AnalyzerResult, ...]
    rejected: int
    failed: str = ""
    version: str = ""
    placeless: tuple[AnalyzerResult, ...] = ()


def read(data: bytes, find: Callable[[str], int | None]) -> AnalyzerOutput:
    """Read a printout; ``find`` gives the number of the text that an address means, if any.

    Raises SarifError.
    """
    try:
        log = json.loads(data)
    except (ValueError, RecursionError):
        raise SarifError("its output is not JSON") from None
    if not isinstance(log, dict) or not isinstance(log.get("runs"), list):
        raise SarifError("its output is not SARIF: it has no runs")
    results: list[AnalyzerResult] = []
    placeless: list[AnalyzerResult] = []
    rejected, failed, version = 0, "", ""
    runs = list(filter(_is_dict, log["runs"]))
    if not runs:
        failed = "it did not look: its SARIF has no run"
    for run in runs:
        failed = failed or _complaint(run)
        version = version or _text(_dict(_dict(run.get("tool")).get("driver")).get("version"))
        rules, find_in = _rules(run), _finder(run, find)
        for record in filter(_is_dict, _list(run.get("results"))):
            if record.get("kind", "fail") != "fail":
                continue
            if len(results) + rejected >= MOST:
                raise SarifError(f"it has more than {MOST:,} results")
            result = _result(record, rules, find_in)
            if result is not None and result.spots:
                results.append(result)
                continue
            rejected += 1
            if result is not None:
                placeless.append(result)
    return AnalyzerOutput(tuple(results), rejected, failed, version, tuple(placeless))


def merged(printouts: Sequence[AnalyzerOutput]) -> AnalyzerOutput:
    """Those of several calls as one."""
    return AnalyzerOutput(
        tuple(result for printout in printouts for result in printout.results),
        sum(printout.rejected for printout in printouts),
        next((printout.failed for printout in printouts if printout.failed), ""),
        next((printout.version for printout in printouts), ""),
        tuple(result for printout in printouts for result in printout.placeless),
    )


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any, limit: int = _NAME) -> str:
    if not isinstance(value, str):
        return ""
    return printable(" ".join(value[: 4 * limit].split()))[:limit]


def _components(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    tool = _dict(run.get("tool"))
    yield _dict(tool.get("driver"))
    yield from filter(_is_dict, _list(tool.get("extensions")))


def _rules(run: Mapping[str, Any]) -> dict[str | int, dict[str, Any]]:
    rules: dict[str | int, dict[str, Any]] = {}
    for component in _components(run):
        for index, rule in enumerate(_list(component.get("rules"))):
            if isinstance(rule, dict):
                rules.setdefault(index, rule)
                if isinstance(rule.get("id"), str):
                    rules.setdefault(rule["id"], rule)
    return rules


def _finder(
    run: Mapping[str, Any], find: Callable[[str], int | None]
) -> Callable[[Mapping[str, Any]], int | None]:
    """A function for the text that an artifact's location means, by its address or index."""
    artifacts = _list(run.get("artifacts"))

    def text_number(location: Mapping[str, Any]) -> int | None:
        address, index = location.get("uri"), location.get("index")
        if address is None and type(index) is int and 0 <= index < len(artifacts):
            address = _dict(_dict(artifacts[index]).get("location")).get("uri")
        return find(address) if isinstance(address, str) else None

    return text_number


def _result(
    record: Mapping[str, Any],
    rules: Mapping[str | int, dict[str, Any]],
    find: Callable[[Mapping[str, Any]], int | None],
) -> AnalyzerResult | None:
    """One result, without spots if it has no place; None if it has no message."""
    spots = tuple(
        spot
        for location in _list(record.get("locations"))[:_PLACES]
        if (spot := _spot(_dict(location), find)) is not None
    )
    reference = _dict(record.get("rule"))
    key = record.get("ruleId") or reference.get("id")
    index = record.get("ruleIndex", reference.get("index"))
    rule = rules.get(key) if isinstance(key, str) else None
    if rule is None and type(index) is int:
        rule = rules.get(index)
    rule = rule or {}
    message = _message(_dict(record.get("message")), rule)
    if not message:
        return None
    properties = _dict(rule.get("properties"))
    default = _dict(rule.get("defaultConfiguration")).get("level")
    level = record.get("level", default)
    score = _score(properties.get("security-severity"))
    return AnalyzerResult(
        _text(key) or _text(rule.get("id")),
        _text(properties.get("name")) or _text(rule.get("name")),
        message,
        level if level in ("error", "warning", "note", "none") else "warning",
        spots,
        _text(rule.get("helpUri")),
        score,
        score is not None or _SECURITY in _list(properties.get("tags")),
        _suppression(record),
    )


def _message(message: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    text = message.get("text")
    if not isinstance(text, str) and isinstance(message.get("id"), str):
        strings = _dict(rule.get("messageStrings"))
        text = _dict(strings.get(message["id"])).get("text")
    for number, argument in enumerate(_list(message.get("arguments"))[:10]):
        if isinstance(text, str):
            text = text.replace(f"{{{number}}}", str(argument)[:_NAME])
    return _text(text, _MESSAGE)


def _score(value: Any) -> float | None:
    """GitHub's ``security-severity``, a number in a text."""
    try:
        score = float(value) if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    return score if 0 <= score <= 10 else None


def _suppression(record: Mapping[str, Any]) -> str | None:
    for entry in filter(_is_dict, _list(record.get("suppressions"))):
        if entry.get("status", "accepted") == "accepted":
            return _text(entry.get("justification"), _MESSAGE) or "suppressed in the tool's own way"
    return None


def _spot(
    location: Mapping[str, Any], find: Callable[[Mapping[str, Any]], int | None]
) -> ResultPlace | None:
    physical = _dict(location.get("physicalLocation"))
    text = find(_dict(physical.get("artifactLocation")))
    if text is None:
        return None
    region = _dict(physical.get("region"))
    start, end = region.get("startLine"), region.get("endLine")
    if type(start) is not int:
        return ResultPlace(text, None, None)
    if type(end) is not int or end < start:
        end = start
    if end > start and region.get("endColumn") == 1:  # it ends before that line
        end -= 1
    column = region.get("startColumn")
    column = column if type(column) is int else 0
    return ResultPlace(text, start, end if end - start < _REGION else start, column)


def _complaint(run: Mapping[str, Any]) -> str:
    for invocation in filter(_is_dict, _list(run.get("invocations"))):
        if invocation.get("executionSuccessful") is False:
            for notice in filter(_is_dict, _list(invocation.get("toolExecutionNotifications"))):
                text = _text(_dict(notice.get("message")).get("text"))
                if text:
                    return text
            return "it says that it did not finish"
    # SARIF 2.1.0, 3.14.23: a tool that looked and found nothing gives an empty list.
    return "" if isinstance(run.get("results"), list) else "it did not look: it gives no results"
