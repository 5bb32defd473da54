"""Numbers that decide what passes: required coverage, timeouts, how often a failure is retried.

They are found by the names that tools give them, in a file of any form.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.guard.weakening import Weakening
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.guard.weakening import TextChange

COVERAGE = "coverage-lowered"
RUN = "run-loosened"

_WAIT = "a timeout"
#: Of these, one that was not there before is looser, too.
_AGAIN = "how often what fails is tried again"
_NUMBER = r"[\"']?\s{0,4}[:=(,]?\s{0,4}[\"']?(\d{1,9}(?:\.\d{1,9})?)"


class _Kind(Value):
    """A number in words, what its name looks like, and what it means if it goes."""

    what: str
    pattern: re.Pattern[str]
    rule: str
    #: Whether more is looser; else less is.
    upwards: bool
    #: What else the file must say.
    only: re.Pattern[str] | None = None
    #: Whether tests say it of themselves, too; of other words they may say it of the product.
    in_tests: bool = True


_KINDS = (
    _Kind("the coverage that is required",
          re.compile(rf"(?:(?:cov-)?fail[-_]under|--coverage\b){_NUMBER}(?![\d>&])"), COVERAGE,
          upwards=False),
    _Kind("the coverage that is required",
          re.compile(rf"[\"']?\b(?:branches|functions|lines|statements|per-?file){_NUMBER}"),
          COVERAGE, upwards=False,
          only=re.compile(r"coverageThreshold|\bthresholds?\b|check-?[cC]overage")),
    _Kind("the coverage that is required",
          re.compile(r"\btarget:\s{0,4}[\"']?(\d{1,3}(?:\.\d+)?)%"),
          COVERAGE, upwards=False),
    _Kind("the coverage that is required",
          re.compile(rf"\bminimum(?:_coverage(?:_by_file)?)?>?{_NUMBER}"), COVERAGE, upwards=False,
          only=re.compile(r"(?i)jacoco|simplecov|minimum_coverage")),
    _Kind("how far coverage may fall", re.compile(r"\bthreshold:\s{0,4}[\"']?(\d{1,3}(?:\.\d+)?)%"),
          COVERAGE, upwards=True),
    _Kind(_WAIT, re.compile(
        rf"(?:\bmark\.timeout|jest\.setTimeout|testTimeout|this\.timeout|@Timeout"
        rf"|faulthandler_timeout){_NUMBER}"), RUN, upwards=True),
    _Kind(_WAIT, re.compile(rf"(?:timeout-minutes|--timeout|^timeout){_NUMBER}", re.MULTILINE),
          RUN, upwards=True, in_tests=False),
    _Kind(_AGAIN, re.compile(
        rf"(?:--reruns|\breruns|jest\.retryTimes|this\.retries|max_runs|rerunFailingTestsCount"
        rf"|\bconfigure\(\{{[^}}\n]{{0,80}}\bretries"
        rf"|\b(?:it|test|describe|suite)\([^\n]{{1,200}}?,\s{{0,4}}\{{[^}}\n]{{0,80}}\bretry)"
        rf"{_NUMBER}"), RUN, upwards=True),
    _Kind(_AGAIN, re.compile(
        rf"(?:max-retries|^\s*retries|^\s*retry|--retries|max_attempts){_NUMBER}", re.MULTILINE),
          RUN, upwards=True, in_tests=False),
)  # fmt: skip


def loosened(
    changes: Sequence[TextChange], tests: Sequence[TextChange] = ()
) -> Iterator[Weakening]:
    """The numbers that let more pass than before. One that moved to another file did not change."""
    required = {
        kind.what
        for kind in _KINDS
        for text_change in changes
        if any(_numbers(kind, text_change, text_change.after, ""))
    }
    for kind in _KINDS:
        read = [*changes, *tests] if kind.in_tests else changes
        before = [
            number for change in read for number in _numbers(kind, change, change.before, "old")
        ]
        after = [
            number for change in read for number in _numbers(kind, change, change.after, "new")
        ]
        yield from _looser(kind, before, after, is_required=kind.what in required)


class _NumberAt(Value):
    path: str
    line: int
    side: str
    number: float


def _numbers(kind: _Kind, change: TextChange, text: str | None, side: str) -> Iterator[_NumberAt]:
    if text is None or (kind.only and not kind.only.search(text)):
        return
    for match in kind.pattern.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        yield _NumberAt(change.path, line, side, float(match[1]))


def _looser(
    kind: _Kind, before: list[_NumberAt], after: list[_NumberAt], *, is_required: bool
) -> Iterator[Weakening]:
    lost, gained = _surplus(before, after), _surplus(after, before)
    lost.sort(key=lambda figure: figure.number, reverse=True)
    gained.sort(key=lambda figure: figure.number, reverse=True)
    for at, figure in enumerate(gained if kind.upwards else lost):
        other = (lost if kind.upwards else gained)[at : at + 1]
        if kind.upwards and (other or kind.what == _AGAIN):
            was, now = other[0].number if other else 0, figure.number
        elif not kind.upwards and not (other or is_required):
            yield Weakening(kind.rule, f"{kind.what} was {figure.number:g}, and none is now",
                            figure.path, figure.line, figure.side)  # fmt: skip
            continue
        elif not kind.upwards and other:
            was, now, figure = figure.number, other[0].number, other[0]  # noqa: PLW2901 - where it is now
        else:
            continue
        if (now > was) is kind.upwards and now != was:
            message = f"{kind.what} was {was:g}, and is {now:g} now"
            yield Weakening(kind.rule, message, figure.path, figure.line, figure.side)


def _surplus(entries: Iterable[_NumberAt], other: Iterable[_NumberAt]) -> list[_NumberAt]:
    counts = Counter(figure.number for figure in other)
    left = []
    for figure in entries:
        counts[figure.number] -= 1
        if counts[figure.number] < 0:
            left.append(figure)
    return left
