"""The tests of a file of Go and what they assert, found once for all who ask."""

from __future__ import annotations

import re
from functools import cached_property

from rlm_ci.source.grammars import below, field, named_children, parts, text_of
from rlm_ci.source.test_files import MAY_JUDGE
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

#: Kinds of claims: an ``if`` that fails the test, a call of a library, one of another function.
CONDITION, ASSERTION, HELPER = "condition", "assertion", "helper"
_TEST = re.compile(r"(?:Test|Fuzz)(?![a-z])")
_EXAMPLE = re.compile(r"Example(?![a-z])")
_OUTPUT = re.compile(rb"(?i)/[/*]\s*((?:unordered )?output:)")
#: Comments that are no text: without a word, or for a tool.
_NO_TEXT = re.compile(rb"//(?:\s*$|[a-z0-9]+:[a-z0-9]|line |extern |export )|/\*\s*\*/")
#: Methods of a suite of testify that claim nothing.
_OF_SUITES = ("SetT", "Run", "T")
_FAILS, _ENDS = {"Error", "Errorf", "Fail"}, {"Fatal", "Fatalf", "FailNow"}
#: The last name in the path of a package of assertions, without its version.
_LIBRARY = re.compile(r"(?:.*/)?(?:assert|require|must|check|is|quicktest|qt|expect|td)(?:/v\d+)?")
#: Calls of assertions by names that no import explains.
_USUAL = re.compile(r"(?:assert|require|is|.+\.(?:Require|Assert)\(\))\.\w+|c\.(?:Assert|Check)")
#: Levels of nested ``if`` in which a failure of the test is found.
_DEEPEST = 8


class GoClaim(Value):
    """A claim. ``node`` is the condition, or the name of what is called; ``site`` the statement.

    ``body`` runs where a condition fails the test, ``other`` where not; ``ends``: ``body`` ends it.
    ``certain``: every passing run reaches it; ``passed``: it is in a function that others call.
    """

    kind: str
    node: Node
    site: Node
    reporter: str
    certain: bool = True
    body: Node | None = None
    ends: bool = False
    name: str = ""
    testify: bool = False
    other: Node | None = None
    values: tuple[Node, ...] = ()
    passed: bool = False


class GoTest:
    """A test that takes ``t`` (as ``reporter``), or an example, of a ``file``."""

    def __init__(self, file: GoTests, name: str, node: Node, reporter: str = "") -> None:
        self._file = file
        self.name, self.node, self.reporter = name, node, reporter
        self.body = field(node, "body")
        #: The place of the word that makes a comment the output of an example.
        self.output: tuple[int, int] | None = None

    @cached_property
    def _direct(self) -> list[GoClaim]:
        return list(self._file.claims(self)) if self.reporter else []

    @cached_property
    def claims(self) -> list[GoClaim]:
        return [claim for claim in self._direct if claim.kind != HELPER] or [
            claim
            for claim in (self._file.claims(self, passed=True) if self.reporter else ())
            if claim.kind != HELPER
        ]

    @property
    def helpers(self) -> list[GoClaim]:
        """Calls of functions that may fail the test."""
        return [claim for claim in self._direct if claim.kind == HELPER]

    @cached_property
    def names(self) -> set[str]:
        """Its variables, its parameters among them, whose names no new constant may have."""
        variables: set[str] = set()
        constants: set[str] = set()
        for node in below(self.node):
            if node.type in ("short_var_declaration", "range_clause"):
                variables |= {text_of(target) for target in named_children(field(node, "left"))}
            elif node.type in ("var_spec", "parameter_declaration", "const_spec"):
                names = {text_of(child) for name, child in parts(node) if name == "name"}
                (constants if node.type == "const_spec" else variables).update(names)
        return variables - constants


class GoTests:
    """The ``tests`` of a file whose names a run reports.

    ``functions`` also has those that run suites, and methods of which another file says whether a
    suite has them.
    """

    def __init__(self, content: bytes, root: Node) -> None:
        self.content = content
        self.tests: list[GoTest] = []
        self.functions: list[GoTest] = []
        self._root = root
        self._libraries: dict[str, bool] = {}
        self._packages: set[str] = set()
        self.testing, self._suites = "testing", ""
        #: The tests that run a suite, by its type.
        self._runners: dict[str, str] = {}
        for _, node in parts(root):
            if node.type == "import_declaration":
                for spec in below(node):
                    if spec.type == "import_spec":
                        self._import(spec)
            elif node.type in ("function_declaration", "method_declaration"):
                self._function(node)
        for test in self.tests:
            suite, separator, name = test.name.rpartition("::")
            if separator:
                test.name = f"{self._runners.get(suite, '*')}::{name}"

    def _import(self, node: Node) -> None:
        path = text_of(field(node, "path"))[1:-1]
        alias = field(node, "name")
        last = re.sub(r"/v\d+$", "", path).rpartition("/")[2]
        name = last.partition(".")[0] if alias is node else text_of(alias)
        self._packages.add(name)
        if path == "testing":
            self.testing = name
        elif path == "github.com/stretchr/testify/suite":
            self._suites = name
        elif _LIBRARY.fullmatch(path):
            self._libraries[name] = "/testify/" in path

    def reporters(self, node: Node) -> list[str]:
        """The parameters that can fail a test."""
        kinds = {f"{self.testing}.{name}" for name in ("T", "TB", "B", "F")}
        names = [
            text_of(child)
            for parameter in named_children(field(node, "parameters"))
            if text_of(field(parameter, "type")).lstrip("*") in kinds
            for name, child in parts(parameter)
            if name == "name"
        ]
        return [name for name in names if name != "_"]

    def _function(self, node: Node) -> None:
        name = text_of(field(node, "name"))
        if field(node, "body") is node:
            return
        parameters = named_children(field(node, "parameters"))
        if node.type == "method_declaration":
            if _TEST.match(name):
                self._method(name, node, is_suite=bool(self._suites) and not parameters)
            return
        if _EXAMPLE.match(name) and not parameters:
            self._example(GoTest(self, name, node))
        elif _TEST.match(name) and len(parameters) == 1 and (reporters := self.reporters(node)):
            test = GoTest(self, name, node, reporters[0])
            self.functions.append(test)
            if not self._is_runner(test):
                self.tests.append(test)

    def _method(self, name: str, node: Node, *, is_suite: bool) -> None:
        """Note a test of a suite, by the type of that."""
        receiver = next(iter(named_children(field(node, "receiver"))), node)
        called = field(receiver, "name")
        suite = text_of(field(receiver, "type")).lstrip("*")
        test = GoTest(self, f"{suite}::{name}", node, f"{text_of(called)}.T()")
        self.functions.append(test)
        if is_suite and receiver.type == "parameter_declaration" and called is not receiver:
            self.tests.append(test)

    def _is_runner(self, function: GoTest) -> bool:
        """Whether a function runs suites; it ends as their tests do."""
        is_runner = False
        for node in below(function.body) if self._suites else ():
            if node.type == "call_expression" and self._called(node) == (self._suites, "Run"):
                is_runner = True
                for argument in below(field(node, "arguments")):
                    if argument.type in ("identifier", "type_identifier"):
                        self._runners[text_of(argument)] = function.name
        return is_runner

    def _example(self, example: GoTest) -> None:
        """Note an example that runs: the text of its last comment begins as an output."""
        for comment in self._last_comment(example.body):
            if _NO_TEXT.match(comment.text or b""):
                continue
            if match := _OUTPUT.match(comment.text or b""):
                start, end = match.span(1)
                example.output = comment.start_byte + start, comment.start_byte + end
            break
        if example.output:
            self.tests.append(example)
            self.functions.append(example)

    def _last_comment(self, body: Node) -> list[Node]:
        """The lines of the last comment, as Go's parser joins them; one behind code is alone."""
        lines: list[Node] = []
        for node in below(body):
            if node.type != "comment":
                continue
            if lines:
                start = lines[0].start_byte
                before = self.content[self.content.rfind(b"\n", 0, start) + 1 : start]
                between = self.content[lines[-1].end_byte : node.start_byte]
                if between.strip() or between.count(b"\n") > (not before.strip()):
                    lines = []
            lines.append(node)
        return lines

    def assertions(self) -> Iterator[tuple[Node, bool]]:
        """The calls in all functions that assert something, and whether a call is a failure."""
        for _, function in parts(self._root):
            if function.type in ("function_declaration", "method_declaration"):
                yield from self._assertions(function)

    def _assertions(self, function: Node) -> Iterator[tuple[Node, bool]]:
        reporters = set(self.reporters(function))
        bound: dict[str, tuple[str, bool]] = {}
        if self._suites and function.type == "method_declaration":
            receiver = next(iter(named_children(field(function, "receiver"))), function)
            called = text_of(field(receiver, "name"))
            bound[called] = "", True
            reporters.add(f"{called}.T()")
        for node in below(function):
            if node.type == "func_literal":
                reporters.update(self.reporters(node))
            elif node.type == "short_var_declaration":
                self._bind(node, reporters, bound)
            elif node.type == "call_expression":
                owner, name = self._called(node)
                is_library = owner in self._libraries or owner in bound
                if is_library or _USUAL.fullmatch(f"{owner}.{name}"):
                    is_assertion = name[:1].isupper() and name not in (*_OF_SUITES, "New")
                    if is_assertion and named_children(field(node, "arguments")):
                        yield node, False
                elif name in _FAILS | _ENDS:
                    above = node.parent
                    is_statement = above is not None and above.type.endswith("_statement")
                    if owner in reporters or (is_statement and owner not in self._packages):
                        yield node, True

    def claims(self, function: GoTest, *, passed: bool = False) -> Iterator[GoClaim]:
        """The claims of a test; those in functions that others may run only if ``passed``."""
        reporters = {function.reporter}
        bound: dict[str, tuple[str, bool]] = {}
        if function.node.type == "method_declaration":
            suite = function.reporter.removesuffix(".T()")
            for text in (suite, f"{suite}.Require()", f"{suite}.Assert()"):
                bound[text] = function.reporter, True
        waiting = [(function.body, function.body, True)]
        while waiting:
            node, site, certain = waiting.pop()
            claim: GoClaim | None = None
            if node.type == "func_literal":
                reporters.update(self.reporters(node))
            elif node.type == "short_var_declaration":
                self._bind(node, reporters, bound)
            elif node.type == "if_statement":
                claim = self._condition(node, site, reporters)
            elif node.type == "expression_statement":
                claim = self._call(node, reporters, bound)
            if claim is not None:
                yield claim.replace(certain=certain and not passed, passed=passed)
            starts = node.type in ("statement_list", "block")
            inside = [
                (child, child if starts and child.is_named else site,
                 certain and self._is_certain(node, name, child))
                for name, child in parts(node)
                if not self._is_left(node, child, claim, passed=passed)
            ]  # fmt: skip
            waiting += reversed(inside)

    def _is_left(self, node: Node, child: Node, claim: GoClaim | None, *, passed: bool) -> bool:
        if claim is not None and claim.body == child:
            return True  # it does not run if the claim is true
        is_given = child.type == "func_literal" and node.type == "argument_list" and not passed
        return is_given and not self._is_run(node)

    def _is_certain(self, node: Node, name: str, child: Node) -> bool:
        if node.type == "if_statement":
            return name in ("initializer", "condition")
        if child.type == "func_literal":
            return node.type == "argument_list"
        return not node.type.endswith(("_case", "_clause")) or node.type == "range_clause"

    def _is_run(self, arguments: Node) -> bool:
        """Whether it is ``t.Run("name", func(t *testing.T) {…})``, or ``f.Fuzz(…)``."""
        at = arguments.start_byte
        before = self.content[max(at - 5, 0) : at]
        return before.endswith((b".Run", b".Fuzz"))

    def _bind(self, node: Node, reporters: set[str], bound: dict[str, tuple[str, bool]]) -> None:
        """Note ``assert := assert.New(t)``."""
        names, values = named_children(field(node, "left")), named_children(field(node, "right"))
        if len(names) != 1 or len(values) != 1 or values[0].type != "call_expression":
            return
        package, name = self._called(values[0])
        arguments = [
            text_of(argument) for argument in named_children(field(values[0], "arguments"))
        ]
        if package in self._libraries and name == "New" and {*arguments} & reporters:
            bound[text_of(names[0])] = arguments[0], self._libraries[package]

    def _called(self, call: Node) -> tuple[str, str]:
        """The called function: the part before the dot, and the name."""
        called = field(call, "function")
        if called.type != "selector_expression":
            return "", text_of(called)
        return text_of(field(called, "operand")), text_of(field(called, "field"))

    def _condition(self, node: Node, site: Node, reporters: set[str]) -> GoClaim | None:
        for name in ("consequence", "alternative"):
            body = field(node, name)
            if call := self._failure(body, reporters):
                other = field(node, "alternative") if name == "consequence" else node
                return GoClaim(
                    CONDITION, field(node, "condition"), site, call[0], body=body, ends=call[1],
                    name=name, other=None if other == node else other,
                )  # fmt: skip
        return None

    def _failure(self, body: Node, reporters: set[str], deep: int = 0) -> tuple[str, bool] | None:
        """The call that fails the test on every path through a block, and whether it ends it."""
        for statement in _statements(body) if body.type == "block" and deep < _DEEPEST else ():
            if statement.type == "if_statement":
                ways = [
                    self._failure(field(statement, name), reporters, deep + 1)
                    for name in ("consequence", "alternative")
                ]
                if ways[0] and ways[1]:
                    return ways[0][0], ways[0][1] and ways[1][1]
            elif statement.type == "expression_statement":
                call = named_children(statement)[0]
                reporter, called = self._called(call)
                if reporter in reporters and called in _FAILS | _ENDS:
                    return reporter, called in _ENDS
        return None

    def _call(
        self, node: Node, reporters: set[str], bound: dict[str, tuple[str, bool]]
    ) -> GoClaim | None:
        call = named_children(node)[0]
        if call.type != "call_expression":
            return None
        owner, name = self._called(call)
        values = named_children(field(call, "arguments"))
        function = field(call, "function")
        argument = next((text for value in values if (text := text_of(value)) in reporters), "")
        if owner in bound:
            reporter, testify = bound[owner]
        elif owner in self._libraries and values and text_of(values[0]) in reporters:
            reporter, testify, values = argument, self._libraries[owner], values[1:]
        elif values and text_of(values[0]) == argument and MAY_JUDGE.match(name):
            return GoClaim(HELPER, call, node, argument, name=name, values=tuple(values[1:]))
        else:
            return None
        if not name[:1].isupper() or (owner not in self._libraries and name in _OF_SUITES):
            return None
        return GoClaim(
            ASSERTION, field(function, "field"), node, reporter, name=name, testify=testify,
            values=tuple(values),
        )  # fmt: skip


def _statements(body: Node) -> list[Node]:
    return [
        node
        for child in named_children(body)
        for node in (named_children(child) if child.type == "statement_list" else [child])
    ]


def departs(body: Node) -> bool:
    """Whether a block ends with a jump out of it, which the compiler may require."""
    return any(statement.type == "return_statement" for statement in _statements(body)[-1:])
