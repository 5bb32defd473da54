"""The rules of the validator: what each parser of a tool's output finds."""

from __future__ import annotations

from rlm_ci.report.findings import Severity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.report.rules import Rule


def _rule(finds: str, example: str, fix: str = "Fix the code until the test passes.") -> Rule:
    return {"severity": Severity.HIGH, "finds": finds, "example": example, "fix": fix}


_BUILD = "Fix the code until it compiles."
_TOLD = "Fix what the tool reports. Its own documentation explains the rule that the message names."

RULES: Mapping[str, Rule] = {
    "pytest-failure": _rule(
        "A test of pytest failed.", "tests/test_price.py::test_total: assert 10 == 11"
    ),
    "pytest-error": _rule(
        "pytest could not run a test: its fixtures, its import or its collection failed.",
        "tests/test_price.py: ModuleNotFoundError: No module named 'price'",
    ),
    "unittest-failure": _rule(
        "A test of unittest failed.",
        "test_total (tests.test_price.PriceTest): AssertionError: 10 != 11",
    ),
    "unittest-error": _rule(
        "A test of unittest raised another error than a failed assertion.",
        "test_total (tests.test_price.PriceTest): KeyError: 'price'",
    ),
    "jest-failure": _rule("A test of jest failed.", "price › adds up: expect(received).toBe(11)"),
    "jest-error": _rule(
        "jest could not run a test file.",
        "Test suite failed to run: Cannot find module './price'",
    ),
    "vitest-failure": _rule(
        "A test of vitest failed.", "src/price.test.ts > adds up: expected 10 to be 11"
    ),
    "vitest-error": _rule(
        "vitest could not run a test file.",
        "src/price.test.ts: Failed to resolve import './price'",
    ),
    "mocha-failure": _rule("A test of mocha failed.", "price adds up: expected 10 to equal 11"),
    "node-test-failure": _rule("A test of `node --test` failed.", "adds up: 10 !== 11"),
    "tap-failure": _rule("A test that reports in TAP failed.", "adds up: not ok"),
    "go-test-failure": _rule("A test of Go failed.", "TestTotal: got 10, want 11"),
    "go-build-error": _rule("A package of Go does not compile.", "undefined: Total", _BUILD),
    "cargo-test-failure": _rule(
        "A test of Rust failed.", "price::adds_up: assertion `left == right` failed"
    ),
    "rustc-error": _rule(
        "A crate of Rust does not compile.", "cannot find function `total` in this scope", _BUILD
    ),
    "eslint": _rule("A problem that eslint reports.", "'x' is never used (no-unused-vars)", _TOLD),
    "ruff": _rule("A problem that ruff reports.", "F401 `os` imported but unused", _TOLD),
    "flake8": _rule("A problem that flake8 reports.", "E302 expected 2 blank lines, got 1", _TOLD),
    "mypy": _rule(
        "An error of mypy.", 'Incompatible return value type (got "str", expected "int")', _TOLD
    ),
    "tsc": _rule(
        "An error of the TypeScript compiler.",
        "TS2322: Type 'string' is not assignable to type 'number'.",
        _TOLD,
    ),
    "make-error": _rule(
        "make has no rule for a target, or cannot read its Makefile.",
        "No rule to make target 'tset'.",
        "Fix the Makefile, or the command of the validator.",
    ),
    "npm-script": _rule(
        "npm has no script of that name.",
        'Missing script: "test"',
        "Add the script to `package.json`, or name another validator.",
    ),
}
