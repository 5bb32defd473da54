"""What the tests that a change adds or changes notice, by running them.

Four runs of these tests answer it: at head; with the base's code; on broken code, a process for
each break; and with each of their claims made to fail. A run may be several processes of the
runner, one for each language and, on broken code, one for each edit.
"""

from __future__ import annotations

import time
from random import SystemRandom

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.rust import inline_tests
from rlm_ci.trials import hollow_claims, line_breaks
from rlm_ci.trials.hollow_product import CALLED, SAME, hollow
from rlm_ci.trials.trees import BASE, HEAD
from rlm_ci.validators.outcomes import FAILED, PASSED
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from rlm_ci.trials.hollow_claims import TextSigns
    from rlm_ci.trials.line_breaks import LineBreak
    from rlm_ci.trials.test_runs import TestRun, TestRuns
    from rlm_ci.trials.touched_tests import TouchedTest
    from rlm_ci.trials.trees import ProofTrees

    Key = tuple[str, str]

#: Lines that are broken, one after the other.
MOST_LINES = 16
#: How much longer than at head a run may take, in times and seconds.
_SLOWER, _MORE = 4.0, 8.0
#: Why a test is hollow.
UNREACHED = "passes with each of its claims made to fail: it reaches none of them"
SWALLOWED = "passes with each of its claims made to fail: it catches their failure"
SELF = "compares what the code gives with itself, and passes whatever that is"
MOCKED = "calls nothing of the project, and claims what its mocks give"
ALONE = "uses nothing of the project"
NO_TIME = "the time limit was reached"
FEW_LINES = f"at most {MOST_LINES} lines are broken"


class HollowTest(Value):
    """A test that passes whatever the code does, and ``why``."""

    test: TouchedTest
    why: str


class BiteResult(Value):
    """What the runs show.

    ``judged`` tests pass at head; ``failing`` do not, or did not run. ``same`` pass on the base's
    code. ``unnoticed`` lines were broken and no test failed; ``noticed`` is the number of the
    others, ``untried`` of those that were left. ``cut`` says why something was left.
    """

    judged: tuple[TouchedTest, ...] = ()
    failing: tuple[TouchedTest, ...] = ()
    same: tuple[TouchedTest, ...] = ()
    unnoticed: tuple[LineBreak, ...] = ()
    noticed: int = 0
    untried: int = 0
    hollow: tuple[HollowTest, ...] = ()
    runs: int = 0
    cut: str = ""
    output: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether something was left out that no limit of lines explains."""
        return bool(self.cut) and self.cut != FEW_LINES


class ChangedCode(Value):
    """The changed files of a change by path, each with its bytes before and after.

    ``product`` are those of code, ``lines`` their added lines at head; ``is_test`` says which paths
    belong to the tests; ``python`` is all of the head's code in Python.
    """

    product: Mapping[str, tuple[bytes | None, bytes | None]]
    tests: Mapping[str, tuple[bytes | None, bytes | None]]
    lines: Mapping[str, Collection[int]]
    is_test: Callable[[str], bool]
    python: Callable[[], Mapping[str, bytes]]


class Bite:
    """One trial of the touched tests of a change; ``tell`` hears what is going on."""

    def __init__(
        self,
        trees: ProofTrees,
        runs: TestRuns,
        change: ChangedCode,
        tests: Sequence[TouchedTest],
        tell: Callable[[str], object],
    ) -> None:
        self._trees, self._runs, self._change, self._tests = trees, runs, change, tests
        self._tell = tell
        self._count = 0
        self._judged: tuple[TouchedTest, ...] = ()
        self._cut = ""

    def result(self) -> BiteResult:
        """Run the tests. Raises RlmCiError where nothing can be run."""
        self._tell("running the touched tests at head")
        began = time.monotonic()
        head = self._ran(self._tests)
        self._runs.longest = (time.monotonic() - began) * _SLOWER + _MORE
        states = [(test, head.state(test)) for test in self._tests]
        self._judged = tuple(test for test, state in states if state == PASSED)
        failing = tuple(test for test, state in states if state != PASSED)
        if not self._judged:
            return BiteResult(failing=failing, runs=self._count, cut=head.cut, output=head.output)
        same = self._on_base() if self._change.product else ()
        hollow_tests = self._unfailing()
        unnoticed, noticed, untried, more = self._on_broken()
        by_key = {item.test.key: item for item in (*more, *hollow_tests)}
        return BiteResult(
            self._judged, failing, same, tuple(unnoticed), noticed, untried,
            tuple(by_key.values()), self._count, self._cut,
        )  # fmt: skip

    def _ran(self, tests: Sequence[TouchedTest], side: str = HEAD, **more: object) -> TestRun:
        self._count += 1
        return self._runs.run(tests, side, **more)  # type: ignore[arg-type]

    def _noting_cut(self, run: TestRun) -> TestRun:
        """The run; one that was stopped is said to be, as tests may be left."""
        if run.cut and not self._cut:
            self._cut = f"a run was stopped: {run.cut}"
        return run

    def _is_over(self) -> bool:
        if self._runs.left <= 0:
            self._cut = NO_TIME
        return self._cut == NO_TIME

    # ── the base's code ──

    def _on_base(self) -> tuple[TouchedTest, ...]:
        """The tests that pass on the base's code."""
        if self._is_over():
            return ()
        self._tell("running the touched tests with the code of the base")
        texts = dict(self._inline())
        tests = [
            test for test in self._judged if test.path in texts or self._change.is_test(test.path)
        ]
        run = self._ran(tests, BASE, texts=texts, of_head=self._change.is_test)
        return tuple(test for test in tests if run.states.get(test.key) == PASSED)

    def _inline(self) -> Iterator[tuple[str, bytes]]:
        """Files of Rust with the code of the base and the tests of the head."""
        for path, (before, after) in self._change.product.items():
            if path.endswith(".rs") and before is not None and after is not None:
                texts = [data.decode("utf-8", "surrogateescape") for data in (after, before)]
                if (text := inline_tests.restored(*texts)) is not None:
                    yield path, text.encode("utf-8", "surrogateescape")

    # ── claims that fail ──

    def _signs(self) -> dict[Key, TextSigns]:
        return {
            (path, name): sign
            for path in {test.path for test in self._judged}
            for name, sign in hollow_claims.signs(
                path, self._content(path), [test for test in self._judged if test.path == path]
            ).items()
        }

    def _content(self, path: str) -> bytes:
        sides = self._change.tests.get(path) or self._change.product.get(path)
        return (sides[1] if sides else None) or b""

    def _unfailing(self) -> list[HollowTest]:
        """The tests that pass although each of their claims fails, or are tautologies."""
        signs = self._signs()
        results = [
            HollowTest(test, why)
            for test in self._judged
            if (sign := signs.get(test.key)) and (why := _why_by_text(sign))
        ]
        contents = {test.path: self._content(test.path) for test in self._judged}
        texts, keys = hollow_claims.failing(contents, self._judged, SystemRandom())
        tests = [test for test in self._judged if test.key in keys]
        if not tests or self._is_over():
            return results
        self._tell("running the touched tests with claims that fail")
        run = self._noting_cut(self._ran(tests, texts=texts))
        for test in tests:
            if run.states.get(test.key) == PASSED:
                sign = signs.get(test.key)
                why = SWALLOWED if sign and sign.has_handler else UNREACHED
                results.append(HollowTest(test, why))
        return results

    # ── broken code ──

    def _on_broken(self) -> tuple[list[LineBreak], int, int, list[HollowTest]]:
        """Unnoticed edits, how many were noticed and left, and tests that notice no code at all."""
        before = self._count
        hollow_tests = self._on_hollow()
        by_line = list(self._candidates())
        unnoticed: list[LineBreak] = []
        noticed = untried = 0
        if by_line and not self._is_over():
            self._tell(f"running the touched tests on {len(by_line[:MOST_LINES])} broken lines")
        for candidates in by_line[:MOST_LINES]:
            end = "" if self._is_over() else self._broken(candidates)
            if end == FAILED:
                noticed += 1
            elif end == PASSED:
                unnoticed.append(candidates[0])
            else:
                untried += 1
        untried += len(by_line[MOST_LINES:])
        if by_line[MOST_LINES:] and not self._cut:
            self._cut = FEW_LINES
        self._count = before + (self._count > before)
        worst = sorted(unnoticed, key=lambda edit: line_breaks.KINDS.index(edit.kind))
        return worst, noticed, untried, hollow_tests

    def _broken(self, candidates: list[LineBreak]) -> str:
        """How the tests end on the first edit that can be built: FAILED, PASSED, or ""."""
        while candidates:
            edit = candidates[0]
            content = edit.broken(self._content(edit.path))
            if line_breaks.is_code(edit.path, content):
                run = self._ran(self._judged, texts={edit.path: content})
                if run.cut:  # it never ends, or takes all memory: a person sees that
                    return "" if self._runs.left <= 0 else FAILED
                if run.built:
                    states = {run.state(test) for test in self._judged}
                    return FAILED if FAILED in states else PASSED if PASSED in states else ""
            candidates.pop(0)
        return ""

    def _candidates(self) -> Iterator[list[LineBreak]]:
        """The edits of each changed line of code that has any, a line of each function first."""
        by_line: list[list[LineBreak]] = []
        for path, (_, after) in sorted(self._change.product.items()):
            lines = set(self._change.lines.get(path, ()))
            lines -= {at for test in self._tests if test.path == path
                      for at in range(test.line, test.end + 1)}  # fmt: skip
            if after is None or not lines:
                continue
            try:
                by_line += line_breaks.breaks(path, after, lines).values()
            except UnparsableError:
                continue
        seen: dict[tuple[str, str], int] = {}
        ranked = []
        for candidates in by_line:
            first = candidates[0]
            key = first.path, first.within
            seen[key] = seen.get(key, 0) + 1
            ranked.append((seen[key], line_breaks.KINDS.index(first.kind), candidates))
        ranked.sort(key=lambda row: row[:2])
        return (candidates for _, _, candidates in ranked)

    def _on_hollow(self) -> list[HollowTest]:
        """The tests in Python that pass where functions of the project do nothing."""
        tests = [test for test in self._judged if test.path.endswith(".py")]
        if not tests or self._is_over():
            return []
        signs = self._signs()
        paths = [path.removeprefix(self._trees.root).lstrip("/")
                 for path in self._trees.python_paths(HEAD)]  # fmt: skip
        first = f"{paths[0]}/" if paths[0] else ""
        product = hollow(self._change.python(), tests, self._trees.root, first)
        events: dict[Key, set[str]] = {}
        run = self._noting_cut(
            self._ran(
                tests,
                texts=product.texts,
                look=lambda folder: events.update(product.events(folder)),
            )
        )
        return [
            HollowTest(test, why)
            for test in tests
            if run.states.get(test.key) == PASSED
            and (why := _why(events.get(test.key, set()), signs.get(test.key)))
        ]


def _why_by_text(sign: TextSigns) -> str:
    """Why a test is hollow whatever happens when it runs; "" where it may be none."""
    if not sign.claims:
        return ""
    if sign.claims == sign.tautologies and not sign.is_of_equality:
        return SELF
    return (MOCKED if sign.has_mocks else ALONE) if sign.is_alone else ""


def _why(events: Collection[str], sign: TextSigns | None) -> str:
    """Why a test that passes without the code is hollow; "" where it may be none."""
    if sign is None or not sign.claims:
        return ""  # it asks only that nothing is raised
    if SAME in events and not sign.is_of_equality:
        return SELF
    return MOCKED if sign.has_mocks and CALLED not in events else ""
