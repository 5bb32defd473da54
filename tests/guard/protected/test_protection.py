"""What is of tests, by the facts of the first run, and by names where a runner tells none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.git.objects import TreeEntry
from rlm_ci.guard.protected.protection import Protection, holding
from rlm_ci.validators.outcomes import PASSED, TestOutcome, TestOutcomes

if TYPE_CHECKING:
    from collections.abc import Iterable


def ran(*places: str, complete: bool = True, held: str = "") -> TestOutcomes:
    tests = tuple(TestOutcome(place, "test_a", PASSED) for place in places)
    return TestOutcomes(tests, complete, frozenset(held.split()))


def protection(files: str, outcomes: TestOutcomes, command: str = "") -> Protection:
    entries = {path: TreeEntry("100644", "blob", "0" * 40) for path in files.split()}
    return Protection.of(entries, lambda oids: [b"" for _ in oids], command).learning(
        outcomes, entries
    )


PY = "tests/test_shop.py tests/helpers.py tests/data/a.json tests/__init__.py conftest.py"
JS = "package.json web/cart.js web/cart.test.js web/__mocks__/api.js web/__snapshots__/x.snap"
#: The tree, what the first run told, what is of tests, and what is not.
KNOWN: dict[str, tuple[str, TestOutcomes, str, str]] = {
    "folders of tests": (
        f"{PY} shop/cart.py league/fixtures/teams.json",
        ran("tests/test_shop.py"),
        f"{PY} tests/data/new.json",
        "shop/cart.py league/fixtures/teams.json shop/test_bench.py",
    ),
    "no name says so": (
        "checks/cart.py shop/cart.py golden/a.txt pyproject.toml",
        ran("checks/cart.py"),
        "checks/cart.py",
        "shop/cart.py golden/a.txt checks/other.py pyproject.toml",
    ),
    "tests beside the product, in a folder called like theirs": (
        "school/tests/paper.py school/tests/mark.py school/tests/test_mark.py tests/test_a.py",
        ran("tests/test_a.py", "school/tests/test_mark.py"),
        "tests/test_a.py school/tests/test_mark.py tests/x.json",
        "school/tests/paper.py school/tests/mark.py school/tests/new.py",
    ),
    "a folder of a package": (
        "web/package.json web/test/a.js web/test/b.js web/test/c.test.js web/spec.js",
        ran("web/test/c.test.js"),
        "web/test/a.js web/test/b.js web/test/c.test.js",
        "web/spec.js",
    ),
    "names, as not all is told": (
        "shop/test_cart.py shop/cart.py web/a.test.js",
        ran("shop/test_cart.py", complete=False),
        "shop/test_cart.py shop/test_new.py web/a.test.js",
        "shop/cart.py",
    ),
    "names, as nothing is told": (
        (
            f"{JS} go/cart_test.go go/cart.go go/testdata/a.json src/test/java/A.java "
            "spec/paper.py src/test/java/CartTest.java"
        ),
        TestOutcomes(),
        (
            "web/cart.test.js web/__mocks__/api.js web/__snapshots__/x.snap go/cart_test.go "
            "go/testdata/a.json src/test/java/A.java"
        ),
        "web/cart.js go/cart.go spec/paper.py spec/new.json",
    ),
    "names of files, as a runner tells none": (
        f"{JS} test/cart.js test/data.txt web/tests/a.php web/composer.json lib/test/x.js",
        ran(""),
        "test/cart.js test/data.txt web/tests/a.php",
        "web/cart.js lib/test/x.js",
    ),
    "folders of another language than the one that is told": (
        "tests/test_a.py web/package.json web/spec/cart.js spec/model.py testing/a.py",
        ran("tests/test_a.py"),
        "tests/test_a.py web/spec/cart.js",
        "spec/model.py testing/a.py",
    ),
    "a package of Go": (
        "tests/run.go tests/run_test.go tests/testdata/a.go cart_test.go",
        ran(".", "tests"),
        "tests/run_test.go tests/testdata/a.go cart_test.go",
        "tests/run.go",
    ),
    "a package of Go at the top, named by one word": (
        "go.mod calc.go calc_test.go cart/calc.go",
        ran("calc"),
        "calc_test.go",
        "calc.go cart/calc.go",
    ),
    "modules of unittest": (
        "shop/tests/test_cart.py shop/cart.py lib/checks.py",
        ran("shop.tests.test_cart", "checks.CartCase"),
        "shop/tests/test_cart.py lib/checks.py",
        "shop/cart.py",
    ),
    "Rust, whose tests live beside the code": (
        "Cargo.toml src/lib.rs src/cart/tests.rs tests/it.rs tests/common/mod.rs",
        ran("src/lib.rs", "tests/it.rs", "src/cart/tests.rs"),
        "src/cart/tests.rs tests/it.rs tests/common/mod.rs",
        "src/lib.rs Cargo.toml",
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_of_tests_is_known_by_facts(case: str) -> None:
    files, outcomes, of_tests, others = KNOWN[case]
    known = protection(files, outcomes)
    assert [path for path in of_tests.split() if not known.is_of_tests(path)] == []
    assert [path for path in others.split() if known.is_of_tests(path)] == []
    for path in of_tests.split():
        assert known.is_protected(path)
        assert not known.is_protected(path, allow_test_edits=True)


def test_what_held_tests_is_told_even_where_it_is_source() -> None:
    files = "src/lib.rs tests/it.rs"
    assert protection(files, ran("src/lib.rs")).tests == {"src/lib.rs"}
    assert holding(ran(held="tests/it.rs gone.rs"), files.split()) == {"tests/it.rs"}


def test_a_source_in_which_vitest_looks_for_tests_is_source() -> None:
    paths = ("vitest.config.ts", "src/cart.ts", "src/cart.test.ts")
    entries = {path: TreeEntry("100644", "blob", "0" * 40) for path in paths}
    outcomes = ran("src/cart.ts", "src/cart.test.ts")
    for text, expected in ((b"test: { includeSource: ['src/*.ts'] }", False), (b"test: {}", True)):

        def read(oids: Iterable[str], text: bytes = text) -> list[bytes | None]:
            return [text for _ in oids]

        known = Protection.of(entries, read, "vitest run").learning(outcomes, entries)
        assert known.is_of_tests("src/cart.ts") is expected
        assert known.is_of_tests("src/cart.test.ts")
        assert "src/cart.ts" in known.tests


def test_a_module_with_examples_is_source() -> None:
    files = "shop/cart.py shop/__init__.py shop/lint.py tests/test_a.py"
    named = (("shop/cart.py", "shop.cart.add"), ("shop/__init__.py", "shop"))
    examples = tuple(TestOutcome(place, name, PASSED) for place, name in named)
    assert holding(TestOutcomes(examples), files.split()) == frozenset()
    linted = TestOutcomes(
        (TestOutcome("shop/lint.py", "mypy", PASSED),), test_files=frozenset(["tests/test_a.py"])
    )
    assert holding(linted, files.split()) == {"tests/test_a.py"}


def test_a_new_test_stays_and_what_tests_are_run_with_does_not() -> None:
    known = protection("tests/test_a.py shop.py", ran("tests/test_a.py"))
    for path in ("tests/test_b.py", "tests/data/x.json", "odd/cases.py"):
        assert not known.leaves_out(path, new=True)
    for path in ("conftest.py", "tests/conftest.py"):
        assert known.leaves_out(path, new=True)


def tree(texts: dict[str, str], command: str) -> Protection:
    """What decides in these files, where no runner names one."""
    entries = {path: TreeEntry("100644", "blob", path) for path in texts}

    def read(oids: Iterable[str]) -> list[bytes | None]:
        return [texts[oid].encode() for oid in oids]

    return Protection.of(entries, read, command)


def test_a_folder_called_like_tests_that_other_code_imports_is_product() -> None:
    texts = {
        "package.json": "{}", "spec/parse.js": "", "test/cart.js": "require('../spec/parse')",
        "src/index.js": "const { parse } = require('../spec/parse');", "run.js": "",
        "tests/paper.py": "", "school.py": "from tests.paper import Paper\n",
    }  # fmt: skip
    known = tree(texts, "mocha")
    assert known.is_of_tests("test/cart.js")
    assert not any(map(known.is_of_tests, ("spec/parse.js", "tests/paper.py", "run.js")))


def test_a_program_that_a_package_installs_is_product() -> None:
    texts = {
        "package.json": '{"main": "./lib/main.js", "bin": {"cart": "bin/cart.js"}, "scripts": '
        '{"test": "node bin/cart.js --check && node lib/main.js && node check.js"}}',
        "py/pyproject.toml": '[project.scripts]\ncart = "cart.cli:main"\n',
        "bin/cart.js": "", "lib/main.js": "", "check.js": "", "py/src/cart/cli.py": "",
    }  # fmt: skip
    assert tree(texts, "npm test").scripts == {"check.js"}
    assert tree(texts, "python py/src/cart/cli.py").scripts == frozenset()


def test_what_lies_beside_a_script_may_be_a_test() -> None:
    known = tree(dict.fromkeys(("ci/all.py", "ci/sums.py", "a.py"), ""), "python ci/all.py")
    assert known.may_be_test("ci/sums.py")
    assert known.may_be_test("lib/test/new.py")
    assert not known.may_be_test("a.py")


def test_what_the_command_names_is_restored() -> None:
    known = protection("check.py calc.py", TestOutcomes(), "python check.py")
    assert known.is_of_tests("check.py")
    assert not known.is_protected("calc.py")


@pytest.mark.parametrize(
    "path", [".github/workflows/ci.yml", "pytest.ini", "sitecustomize.py", "AGENTS.md", "tox.ini"]
)
def test_settings_are_as_they_were_whatever_is_allowed(path: str) -> None:
    assert Protection().is_protected(path, allow_test_edits=True)
    assert not Protection().is_of_tests(path)


@pytest.mark.full
@pytest.mark.timeout(30)
def test_places_meant_to_hurt_are_survived() -> None:
    places = ("a." * 5000, "/" * 5000, "../" * 5000, "\0", ".", "..", "a/" * 5000, "x" * 100_000)
    known = protection("a/b.py tests/test_a.py " + "d/" * 500 + "x.py", ran(*places))
    assert known.tests == frozenset()
    assert known.is_of_tests("tests/test_a.py")
