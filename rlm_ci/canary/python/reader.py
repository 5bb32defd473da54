"""Tests in Python: functions of pytest, methods of unittest."""

from __future__ import annotations

import ast
import re

from rlm_ci.canary import forms
from rlm_ci.canary.forms import ChangedTest, ChangedText, FoundTest, UnparsableError
from rlm_ci.canary.python.claims import BLOCK, CALL, SHUT, PythonClaim, claims_of, statements
from rlm_ci.canary.python.literals import literals
from rlm_ci.canary.python.source import COMPOUND, PAD, PythonSource, first_of, scopes
from rlm_ci.canary.python.writing import ClaimWriter
from rlm_ci.canary.splicing import Edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from random import Random

    from rlm_ci.source.python.calls import Function


ENDINGS = (".py",)
#: The suffixes that parameterized and ddt append to the name of a test.
_NUMBERED = re.compile(r"_\d+(?:_\w*)?$")


def tests(
    path: str,
    text: str,
    names: Collection[str] | None = None,  # noqa: PT028 - no test itself
) -> list[FoundTest]:
    """The tests in a file: functions and methods whose names begin with ``test``.

    Or those of ``names``, as the runner reports them, also in base classes of the file.
    """
    del path
    return [
        FoundTest(name, first_of(node).lineno, node.end_lineno or 0)
        for name, node in _Index(PythonSource(text)).tests(names)
    ]


def change(
    path: str, text: str, wanted: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each test of ``wanted`` in its form, by the names that ``tests`` gives.

    Names for one function of a base class get the form of the first. ``altered`` alters every claim
    that has a literal; the test fails only if all of those fail.
    """
    del path
    try:
        source = PythonSource(text)
        found: dict[Function, list[str]] = {}
        for name, node in _Index(source).tests(wanted):
            found.setdefault(node, []).append(name)
        changes = [
            (names, _Change(source, chance, node, plain=plain).made(wanted[names[0]]))
            for node, names in found.items()
        ]
        return _applied(source, changes)
    except RecursionError:
        raise UnparsableError("nested too deep") from None


def _applied(
    source: PythonSource, changes: list[tuple[list[str], tuple[ChangedTest, list[Edit]]]]
) -> ChangedText:
    """The text with all changes; if that is no Python, with those that are Python by themselves."""
    text = source.edited(edit for _, (_, edits) in changes for edit in edits)
    if text is None:
        changes = [one for one in changes if source.edited(one[1][1]) is not None]
        text = source.edited(edit for _, (_, edits) in changes for edit in edits)
    if text is None:  # Python by themselves, but not together: one function in another
        changes, text = [], source.edited(())
    by_name: dict[str, list[ChangedTest]] = {}
    for names, (made, _) in changes:
        for name in names:
            by_name.setdefault(name, []).append(made)
    # A function may be defined twice: either may be the one that runs.
    both = {
        name: found[-1].replace(tokens=tuple(word for made in found for word in made.tokens))
        for name, found in by_name.items()
    }
    return ChangedText(text or "", both)


class _Index:
    def __init__(self, source: PythonSource) -> None:
        self._all: dict[str, list[Function]] = {}
        self._usual: list[tuple[str, Function]] = []
        self._bases: dict[str, list[str]] = {}
        mixins: set[str] = set()
        for name, node, usual in scopes(source.tree):
            if isinstance(node, ast.ClassDef):
                named = [base.id for base in node.bases if isinstance(base, ast.Name)]
                self._bases.setdefault(name, []).extend(named)
                if not node.bases and not node.name.startswith("Test"):
                    mixins.add(name)
                continue
            self._all.setdefault(name, []).append(node)
            if usual and node.name.startswith("test") and not _is_fixture(node):
                self._usual.append((name, node))
        self._usual = [one for each in self._usual for one in self._as_run(*each, mixins)]

    def _as_run(
        self, name: str, node: Function, mixins: Collection[str]
    ) -> list[tuple[str, Function]]:
        """A test by its name; of a mixin, by the names of the classes that inherit it."""
        place, _, own = name.rpartition("::")
        heirs = [heir for heir, bases in self._bases.items() if place in bases]
        if place not in mixins or not heirs:
            return [(name, node)]
        return [(f"{heir}::{own}", node) for heir in heirs]

    def tests(self, names: Collection[str] | None) -> list[tuple[str, Function]]:
        if names is None:
            return self._usual
        found = [(name, node) for name in names for node in self._named(name)]
        return sorted(found, key=lambda one: (one[1].lineno, one[1].col_offset))

    def _named(self, name: str) -> list[Function]:
        enclosing, _, own = name.rpartition("::")
        waiting, seen = [enclosing], set()
        while waiting:
            place = waiting.pop(0)
            joined = f"{place}::{own}" if place else own
            if joined in self._all:
                return self._all[joined]
            seen.add(place)
            waiting += [base for base in self._bases.get(place, ()) if base not in seen]
        shorter = _NUMBERED.sub("", name)
        return [node for node in self._all.get(shorter, ()) if node.decorator_list]


def _is_fixture(node: Function) -> bool:
    named = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any("fixture" in (getattr(one, "attr", ""), getattr(one, "id", "")) for one in named)


class _Change:
    def __init__(
        self, source: PythonSource, chance: Random, test: Function, *, plain: bool
    ) -> None:
        self._source = source
        self._test = test
        self._claims = claims_of(test)
        self._token = forms.token(chance)
        self._blank = source.blank_lines(test.end_lineno or 0)
        self._writer = ClaimWriter(source, chance, self._token, plain=plain)

    def made(self, form: str) -> tuple[ChangedTest, list[Edit]]:
        if form == forms.ALTERED:
            form, edits = self._altered()
        elif form == forms.INVERTED:
            edits = self._reversed()
        elif form == forms.REWORDED:
            edits = [it for claim in self._claims.found for it in self._writer.reworded(claim)]
            edits = edits or [self._opening(self._writer.decoy())]
        elif form == forms.REACHED:
            found = self._claims.reversible
            edits = [
                self._writer.before(claim.node, self._writer.reaching(claim)) for claim in found
            ]
        else:
            edits = [self._opening("return" if form == forms.IDLE else self._writer.fail)]
        if not edits:
            form, edits = forms.STOPPED, self._ending()
        made = ChangedTest(form, () if form in {forms.REWORDED, forms.IDLE} else (self._token,))
        more = sum(self._source.more_lines(edit) for edit in edits)
        return made, [*edits, *self._blank[: max(more, 0)]]

    def _reversed(self) -> list[Edit]:
        claims = self._claims.reversible
        self._writer.spare = len(self._blank) - sum(claim.kind == BLOCK for claim in claims)
        return [edit for claim in claims for edit in self._writer.reversed(claim)]

    def _altered(self) -> tuple[str, list[Edit]]:
        """The real form of the changed test, and the edits."""
        claims, writer = self._claims, self._writer
        able = [claim for claim in claims.found if self._alterable(claim)]
        if not able:
            return forms.INVERTED, self._reversed()
        writer.spare = len(self._blank) - 1
        if claims.nested or not all(self._source.alone(claim.node) for claim in able):
            edits = []
            alterable = set(map(id, able))
            for claim in claims.reversible:
                if id(claim) in alterable:
                    edits += writer.altered(claim, goes_on=False)
                else:
                    edits += writer.reversed(claim)
            return forms.ALTERED, edits
        edits = [edit for claim in able for edit in writer.altered(claim, goes_on=True)]
        return forms.ALTERED, [*edits, *self._ending()]

    def _alterable(self, claim: PythonClaim) -> bool:
        # A call needs a block around it for its message.
        able = claim.kind != CALL or self._source.alone(claim.node)
        return able and claim.shield < SHUT and bool(literals(claim))

    def _opening(self, statement: str) -> Edit:
        body = self._test.body
        if ast.get_docstring(self._test, clean=False) is not None:
            if len(body) == 1 or isinstance(body[1], COMPOUND):
                end = self._source.span(body[0])[1]
                return Edit(end, end, f"; {statement.replace(PAD, '')}")
            body = body[1:]
        return self._writer.before(body[0], statement)

    def _ending(self) -> list[Edit]:
        returns = [node for node, _ in statements(self._test) if isinstance(node, ast.Return)]
        edits = [self._writer.returned(node) for node in returns]
        last = self._test.body[-1]
        if not isinstance(last, ast.Return):
            edits.append(self._writer.after(last, self._writer.failing()))
        return edits
