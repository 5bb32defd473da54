"""What the settings of pytest leave out of every run, and what no longer makes a run fail."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from rlm_ci.guard.collected.pytest_tests import options
from rlm_ci.guard.loosened.numbers import RUN
from rlm_ci.guard.loosened.test_commands import TestCommand
from rlm_ci.guard.weakening import Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakening import TextChange

#: Settings that are strict when they are on, and in addopts; ``strict`` is all of them.
_STRICT = (
    "strict", "xfail_strict", "strict_xfail", "strict_markers", "strict_config",
    "strict_parametrization_ids",
)  # fmt: skip
_ON = ("true", "True", "1", "yes", "on")
_ABOUT = {
    **dict.fromkeys(("xfail_strict", "strict_xfail"), "expected failures that pass"),
    "strict": "anything", "strict_markers": "marks", "strict_config": "its settings",
    "strict_parametrization_ids": "the names of cases", "warnings": "warnings",
}  # fmt: skip
#: Options that find more tests, or more failures.
_FINDS = {
    "--strict": "strict_markers", "--strict-markers": "strict_markers",
    "--strict-config": "strict_config", "--doctest-modules": "doctests",
    "--doctest-glob": "doctests",
}  # fmt: skip
#: A variable with more options.
_VARIABLE = re.compile(r"\bPYTEST_ADDOPTS\b[\"']?\s*[:=]\s*(.+)")
#: Options that leave out paths, each of which is looked for.
_OF_PATHS = ("--ignore", "--ignore-glob")


def loosened(changes: Sequence[TextChange], tree: TreeSide) -> Iterator[Weakening]:
    """What these settings leave out or let pass, and did not before."""
    before = [_Side(change.path, change.before or "") for change in changes]
    after = [_Side(change.path, change.after or "") for change in changes]
    strict = {what for side in after for what in side.strict}
    strict |= {*_STRICT, "strict_markers"} if "strict" in strict else set()
    for side in before if any(side.options for side in after) else ():
        for what in sorted(side.strict - strict):
            phrase = "finds doctests" if what == "doctests" else f"is strict about {_ABOUT[what]}"
            yield Weakening(RUN, f"pytest no longer {phrase}", side.path)
        strict |= side.strict  # another file may have said the same
    counts = Counter[tuple[str, str]]()
    for side in before:
        counts += side.left_out
    for side in after:
        for name, value in side.left_out - counts:
            if not (name == "-m" and _is_unused(value, tree)):
                shown = f"{name} {value}".strip()[:120]
                yield Weakening(RUN, f"every run of pytest leaves tests out: {shown}", side.path)


class _Side:
    """What a file says of every run."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.options = options(path, text) or {}
        self.strict = _strict(self.options)
        words = [*self.options.get("addopts", ())]
        for match in _VARIABLE.finditer(text):
            words += re.split(r"\s+(?=-)|(?<=-[km])\s+", match[1].strip("\"' "))
        narrowing = TestCommand(path, 0, 0, ("pytest", *words)).narrowing
        self.left_out = Counter({option: 1 for option in narrowing if option[0] not in _OF_PATHS})


def _strict(own_options: Mapping[str, tuple[str, ...]]) -> set[str]:
    """What a run is strict about."""
    strict = {name for name in _STRICT if own_options.get(name, ("",))[0] in _ON}
    words = own_options.get("addopts", ())
    strict |= {_FINDS[word.partition("=")[0]] for word in words if word.partition("=")[0] in _FINDS}
    filters = [*own_options.get("filterwarnings", ())]
    filters += [new for old, new in pairwise(words) if old == "-W"]
    return strict | ({"warnings"} if any(rule.startswith("error") for rule in filters) else set())


def _is_unused(expression: str, tree: TreeSide) -> bool:
    """Whether no test that was there has one of the marks."""
    marks = set(re.findall(r"\w+", expression)) - {"not", "and", "or"}
    return not any(
        re.search(rf"\bmark\.{re.escape(mark)}\b", text)
        for mark in marks
        for _, text in tree.naming(mark)
    )
