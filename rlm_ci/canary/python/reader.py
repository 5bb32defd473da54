"""Tests in Python: functions of pytest, methods of unittest."""

from __future__ import annotations

import ast
import re

from rlm_ci.canary import forms
from rlm_ci.canary.forms import ChangedTest, ChangedText, FoundTest, UnparsableError
from rlm_ci.canary.python.alterations import HELPERS, ClaimQuestions
from rlm_ci.canary.python.source import PAD, PythonSource, first_of
from rlm_ci.canary.python.writing import ClaimWriter
from rlm_ci.canary.splicing import Edit
from rlm_ci.source.python.claims import BLOCK, HELPER, SHUT, PythonClaim, call_of, statements
from rlm_ci.source.python.names import callee
from rlm_ci.source.python.statements import COMPOUND
from rlm_ci.source.python.tests import is_fixture
from rlm_ci.source.test_files import MAY_JUDGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from random import Random

    from rlm_ci.canary.python.alterations import ClaimQuestion
    from rlm_ci.source.python.claims import PythonClaims
    from rlm_ci.source.python.names import Function


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
    path: str, text: str, form_by_name: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each test of ``form_by_name`` in its form, by the names that ``tests`` gives.

    Names for one function of a base class get the form of the first. ``altered`` alters every claim
    that has a literal; the test fails only if all of those fail.
    """
    del path
    try:
        source = PythonSource(text)
        names_by_test: dict[Function, list[str]] = {}
        for name, node in _Index(source).tests(form_by_name):
            names_by_test.setdefault(node, []).append(name)
        changes = [
            (names, _Change(source, chance, node, plain=plain).changed(form_by_name[names[0]]))
            for node, names in names_by_test.items()
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
        changes = [change for change in changes if source.edited(change[1][1]) is not None]
        text = source.edited(edit for _, (_, edits) in changes for edit in edits)
    if text is None:  # Python by themselves, but not together: one function in another
        changes, text = [], source.edited(())
    by_name: dict[str, list[ChangedTest]] = {}
    for names, (test, _) in changes:
        for name in names:
            by_name.setdefault(name, []).append(test)
    # A function may be defined twice: either may be the one that runs.
    both = {
        name: changed_tests[-1].replace(
            tokens=tuple(word for changed_test in changed_tests for word in changed_test.tokens)
        )
        for name, changed_tests in by_name.items()
    }
    return ChangedText(text or "", both)


class _Index:
    def __init__(self, source: PythonSource) -> None:
        self._all: dict[str, list[Function]] = {}
        self._usual: list[tuple[str, Function]] = []
        self._bases: dict[str, list[str]] = {}
        mixins: set[str] = set()
        for name, node, is_usual in source.tests.definitions():
            if isinstance(node, ast.ClassDef):
                base_names = [base.id for base in node.bases if isinstance(base, ast.Name)]
                self._bases.setdefault(name, []).extend(base_names)
                if not node.bases and not node.name.startswith("Test"):
                    mixins.add(name)
                continue
            self._all.setdefault(name, []).append(node)
            if is_usual and node.name.startswith("test") and not is_fixture(node):
                self._usual.append((name, node))
        self._usual = [test for each in self._usual for test in self._as_run(*each, mixins)]

    def _as_run(
        self, name: str, node: Function, mixins: Collection[str]
    ) -> list[tuple[str, Function]]:
        """A test by its name; of a mixin, by the names of the classes that inherit it."""
        owner, _, test_name = name.rpartition("::")
        heirs = [heir for heir, bases in self._bases.items() if owner in bases]
        if owner not in mixins or not heirs:
            return [(name, node)]
        return [(f"{heir}::{test_name}", node) for heir in heirs]

    def tests(self, names: Collection[str] | None) -> list[tuple[str, Function]]:
        if names is None:
            return self._usual
        tests = [(name, node) for name in names for node in self._nodes_of(name)]
        return sorted(tests, key=lambda pair: (pair[1].lineno, pair[1].col_offset))

    def _nodes_of(self, name: str) -> list[Function]:
        enclosing, _, test_name = name.rpartition("::")
        waiting, seen = [enclosing], set()
        while waiting:
            owner = waiting.pop(0)
            joined = f"{owner}::{test_name}" if owner else test_name
            if joined in self._all:
                return self._all[joined]
            seen.add(owner)
            waiting += [base for base in self._bases.get(owner, ()) if base not in seen]
        shorter = _NUMBERED.sub("", name)
        return [node for node in self._all.get(shorter, ()) if node.decorator_list]


def _helpers(test: Function, claims: PythonClaims) -> list[PythonClaim]:
    """The calls of a test that may judge by themselves, its claims apart."""
    claimed = {id(claim.node) for claim in claims.all}
    last = test.body[-1] if not claims.all else None
    return [
        PythonClaim(node, HELPER, shield)
        for node, shield in statements(test)
        if shield < SHUT and id(node) not in claimed and (call := call_of(node)) is not None
        if node is last or MAY_JUDGE.match(callee(call).lstrip("_"))
    ]


class _Change:
    def __init__(
        self, source: PythonSource, chance: Random, test: Function, *, plain: bool
    ) -> None:
        self._source = source
        self._test = test
        self._claims = source.tests.claims(test)
        self._token = forms.token(chance)
        self._chance = chance
        self._blank = source.blank_lines(test.end_lineno or 0)
        self._writer = ClaimWriter(source, chance, self._token, plain=plain)

    def changed(self, form: str) -> tuple[ChangedTest, list[Edit]]:
        if form in (forms.ACCEPTS, forms.JUDGES):
            return self._judging(form)
        if form in (forms.ALTERED, forms.NEARLY):
            form, edits = self._altered(form)
        elif form == forms.INVERTED:
            edits = self._reversed()
        elif form == forms.REWORDED:
            edits = [it for claim in self._claims.all for it in self._writer.reworded(claim)]
            edits = edits or [self._opening(self._writer.decoy())]
        elif form == forms.REACHED:
            claims = self._claims.reversible or self._claims.all
            edits = [
                self._writer.before(claim.node, self._writer.reaching(claim)) for claim in claims
            ]
        else:
            edits = [self._opening("return" if form == forms.IDLE else self._writer.fail)]
        if not edits:
            form, edits = forms.STOPPED, self._ending()
        test = ChangedTest(form, () if form in {forms.REWORDED, forms.IDLE} else (self._token,))
        more = sum(self._source.more_lines(edit) for edit in edits)
        return test, [*edits, *self._blank[: max(more, 0)]]

    def _reversed(self) -> list[Edit]:
        claims = self._claims.reversible
        self._writer.spare = len(self._blank) - sum(claim.kind == BLOCK for claim in claims)
        return [edit for claim in claims for edit in self._writer.reversed(claim)]

    def _altered(self, form: str) -> tuple[str, list[Edit]]:
        """The real form of the changed test, and the edits."""
        claims, writer = self._claims, self._writer
        queries = self._questions(form)
        if not queries:
            return forms.INVERTED, self._reversed()
        writer.spare = len(self._blank) - 1
        if claims.nested or not all(self._source.alone(claim.node) for claim, _ in queries):
            edits = []
            questions = {id(claim): them for claim, them in queries}
            for claim in (
                *claims.reversible,
                *(python_claim for python_claim, _ in queries if python_claim.kind == HELPER),
            ):
                if them := questions.get(id(claim)):
                    edits += writer.altered(claim, them, goes_on=False)
                elif claim.kind != HELPER:
                    edits += writer.reversed(claim)
            return form, edits
        edits = [edit for query in queries for edit in writer.altered(*query, goes_on=True)]
        return form, [*edits, *self._ending()]

    def _questions(
        self, form: str, helpers: str = ""
    ) -> list[tuple[PythonClaim, list[ClaimQuestion]]]:
        """The claims that can be altered, with their questions."""
        is_nearly = form != forms.ALTERED
        questions = ClaimQuestions(self._source, self._chance, helpers, is_nearly=is_nearly)
        claims = list(self._claims.all)
        if is_nearly:
            claims += _helpers(self._test, self._claims)
        queries = []
        for claim in claims:
            is_alone = self._source.alone(claim.node)
            them = questions.of(claim) if claim.shield < SHUT else []
            if not is_alone and form in (forms.ALTERED, forms.NEARLY):
                them = [
                    question for question in them if all(it.is_safe for it in question.alterations)
                ]
            if them:
                queries.append((claim, them))
        return queries

    def _judging(self, form: str) -> tuple[ChangedTest, list[Edit]]:
        """A test that fails with the words of what it accepts, or judges."""
        helpers, is_judged = forms.token(self._chance), form == forms.JUDGES
        edits, kinds, every = [], {}, []
        for claim, them in self._questions(form, helpers):
            steps, more = self._writer.noting(them, helpers, at_start=is_judged)
            edits.append(self._source.replaced(claim.node, "; ".join(steps) or "pass"))
            kinds.update(more)
            # At the start, the test may fail before its claim.
            every += steps if is_judged else []
        if not edits:
            return ChangedTest(form), []
        start, end = forms.halves(self._token, on_branch=False)
        words = f"{helpers} = {{'words': ['{start}' '{end}']}}; exec({HELPERS!r}, {helpers})"
        edits.append(self._opening("; ".join((words, *every))))
        failing = f'raise AssertionError(" ".join({helpers}["words"]))'
        test = ChangedTest(form, (self._token, *kinds), kinds)
        return test, [*edits, *self._ending(failing)]

    def _opening(self, statement: str) -> Edit:
        body = self._test.body
        if ast.get_docstring(self._test, clean=False) is not None:
            if len(body) == 1 or isinstance(body[1], COMPOUND):
                end = self._source.span(body[0])[1]
                return Edit(end, end, f"; {statement.replace(PAD, '')}")
            body = body[1:]
        return self._writer.before(body[0], statement)

    def _ending(self, failing: str = "") -> list[Edit]:
        returns = [node for node, _ in statements(self._test) if isinstance(node, ast.Return)]
        edits = [self._writer.returned(node, failing or self._writer.fail) for node in returns]
        last = self._test.body[-1]
        if not isinstance(last, ast.Return):
            edits.append(self._writer.after(last, failing or self._writer.failing()))
        return edits
