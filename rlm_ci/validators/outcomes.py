"""How each test ended, by its file and its name, as its runner reports it."""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STATES = PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_NAME = 200


class TestOutcome(Value):
    """How one test, or one case of it, ended.

    ``location`` is a path relative to the root, the dotted name of a module, a package's folder,
    or "". ``name`` has its parts joined by ``::``, outer ones first, without parameters; ``case``
    tells one case from others. ``message`` is what it failed with, shortened.
    """

    location: str
    name: str
    state: str
    case: str = ""
    message: str = ""


class TestOutcomes(Value):
    """All outcomes of a run; ``complete`` if every test that passed is named."""

    tests: tuple[TestOutcome, ...] = ()
    complete: bool = False
    #: For pytest: files of the tree that held tests.
    test_files: frozenset[str] = frozenset()


#: The worse of two outcomes of one case counts.
_RANKS = {SKIPPED: 0, PASSED: 1, FAILED: 2}


def merged(outcomes: Iterable[TestOutcome]) -> tuple[TestOutcome, ...]:
    """The worst outcome of each case, of all its phases and runs, with the first message."""
    worst: dict[tuple[str, str, str], TestOutcome] = {}
    for outcome in outcomes:
        key = outcome.location, outcome.name, outcome.case
        test_outcome = worst.get(key)
        if test_outcome is None or _RANKS[outcome.state] > _RANKS[test_outcome.state]:
            worst[key] = outcome.replace(
                message=outcome.message or (test_outcome.message if test_outcome else "")
            )
        elif outcome.message and not test_outcome.message:
            worst[key] = test_outcome.replace(message=outcome.message)
    return tuple(worst.values())


_MODULE = re.compile(r"(?:/__init__)?\.\w+$")
#: Endings of what is a file, and no folder or package.
_FILE = re.compile(r"\.(?:pyi?|[cm]?[jt]sx?|rs|go|java|kt|groovy|scala|rb|txt|rst|md)$")


class OutcomeIndex:
    """Finds the outcomes of a test in a file among thousands, each as its runner names it.

    A place fits a path if it is that file, its module (the beginning of either may be missing), a
    folder above it, or a package whose name ends in its folder; no place, or no path, fits all. A
    name fits best if it is the same, next if it ends in ``::`` and the other (Rust names a test
    with or without its modules), last if its parts are joined by spaces. Place and name may also
    be those of another run's outcome.
    """

    def __init__(self, tests: Iterable[TestOutcome]) -> None:
        self._by_place: dict[str, dict[str, list[tuple[str, TestOutcome]]]] = {}
        for test in tests:
            names = self._by_place.setdefault(test.location, {})
            name = _joined(test.name)
            names.setdefault(name.rpartition("::")[2], []).append((name, test))
        self._fitting: dict[str, tuple[str, ...]] = {}

    def of(self, path: str, name: str) -> tuple[TestOutcome, ...]:
        """The outcomes of all cases of the test; ``*`` in ``name`` stands for anything."""
        name = _joined(name)
        last, flat = name.rpartition("::")[2], name.replace("::", " ")
        pairs: list[tuple[str, TestOutcome]] = []
        for place in self.places(path):
            names = self._by_place[place]
            if "*" in name:
                pairs += (pair for several in names.values() for pair in several)
            else:
                pairs += names.get(last, ())
                pairs += names.get(flat, ()) if flat != last else ()
        module = _module(path)
        fits, full_name = _fitting(name), f"{module}::{name}"
        if module and any(test_name == full_name for test_name, _ in pairs):
            fits = _fitting(full_name)
        ranks = [fits(test_name) for test_name, _ in pairs]
        best = max(ranks, default=0)
        return tuple(
            outcome
            for (_, outcome), rank in zip(pairs, ranks, strict=True)
            if rank and rank == best
        )

    def of_each(self, path: str, names: Iterable[str]) -> dict[str, tuple[TestOutcome, ...]]:
        """The same for all tests in a file; what fits several belongs to the longest name."""
        outcomes_by_name: dict[str, tuple[TestOutcome, ...]] = {}
        taken: set[TestOutcome] = set()
        for name in sorted(set(names), key=lambda name: ("*" in name, -len(name))):
            outcomes = self.of(path, name)
            outcomes_by_name[name] = tuple(
                outcome for outcome in outcomes if "*" not in name or outcome not in taken
            )
            taken.update(outcomes_by_name[name])
        return outcomes_by_name

    def places(self, path: str) -> tuple[str, ...]:
        """The places that fit a path: of several packages that do so only the shortest."""
        if path not in self._fitting:
            ranked = [(_rank(place, path), place) for place in self._by_place]
            packages = [len(place) for rank, place in ranked if rank == _PACKAGE]
            shortest = min(packages, default=0)
            self._fitting[path] = tuple(
                place
                for rank, place in ranked
                if rank == _FITS or (rank == _PACKAGE and len(place) == shortest)
            )
        return self._fitting[path]


def _joined(name: str) -> str:
    """A name whose parts are joined by ``::``, where a runner may join them by signs of its own."""
    return name.replace(" > ", "::").replace(" › ", "::")


_FITS, _PACKAGE = 1, 2


def _rank(shown_path: str, path: str) -> int:
    """How a place fits a path: 0, well, or as a package that others may fit better."""
    if not shown_path or not path or shown_path == path:
        return _FITS
    folder = path.rpartition("/")[0]
    if _FILE.search(shown_path):
        return _FITS * (
            f"/{path}".endswith(f"/{shown_path}") or f"/{shown_path}".endswith(f"/{path}")
        )
    if f"/{shown_path}/" in f"/{folder}/":
        return _FITS
    module = "." + _MODULE.sub("", path).replace("/", ".")
    if module.endswith(f".{shown_path}") or f".{shown_path}".endswith(module):
        return _FITS
    is_package = path.endswith(".go") and f"/{shown_path}".endswith(f"/{folder}" if folder else "")
    return _PACKAGE * is_package


def _module(path: str) -> str:
    """The module that a file of Rust is: its tests are named with it, unless it is the crate."""
    if not path.endswith(".rs"):
        return ""
    parts = path.removesuffix(".rs").rpartition("src/")[2].split("/")
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return "::".join(parts)


def _fitting(test_name: str) -> Callable[[str], int]:
    """How well a name fits: 0, without its marks (1), by its end, as a whole."""
    flat = test_name.replace("::", " ")
    exact = len(test_name) + 3
    if "*" in test_name:
        forms = (test_name.split("*"), f"*::{test_name}".split("*"), flat.split("*"))
        return lambda name: next(
            (3 - at for at, form in enumerate(forms) if _is_like(name, form)), 0
        )

    def fits(name: str) -> int:
        if name == test_name:
            return exact
        if name.endswith(f"::{test_name}") or test_name.endswith(f"::{name}"):
            return 1 + min(len(name), len(test_name))
        return int(name == flat)

    return fits


def _is_like(text: str, parts: list[str]) -> bool:
    """Whether a text has these parts one after the other, the first and the last at its ends."""
    first, *middle, last = parts
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return text.endswith(last)


def lost(first: TestOutcomes, last: TestOutcomes) -> tuple[str, ...]:
    """What ran in the ``first`` run and not in the ``last``, in words.

    Tests that are gone, skipped now, or have fewer cases; names of cases may depend on the code.
    """
    if not last.complete:
        return ()
    before = Counter(
        (outcome.location, outcome.name)
        for outcome in first.tests
        if outcome.name and outcome.state != SKIPPED
    )
    index = OutcomeIndex(last.tests)
    losses = []
    for (place, test), cases in before.items():
        name = printable("::".join(filter(None, (place, test))))[:_NAME]
        # Of a test that passes, a runner may not tell the file, though it does where it fails.
        same = [outcome for outcome in index.of(place, test) if outcome.name == test]
        same = [
            outcome
            for outcome in same
            if outcome.location == place or not (outcome.location and place)
        ]
        now = sum(outcome.state != SKIPPED for outcome in same)
        if not same:
            losses.append(f"{name} did not run")
        elif not now:
            losses.append(f"{name} is skipped, and ran before")
        elif now < cases:
            losses.append(f"{name} ran {now:,} of {cases:,} cases")
    return tuple(losses)
