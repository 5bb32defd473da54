"""Which outcomes belong to a test in a file, as each runner tells its place and its name."""

from __future__ import annotations

import pytest

from rlm_ci.validators.outcomes import FAILED, PASSED, OutcomeIndex, TestOutcome, TestOutcomes, lost
from rlm_ci.validators.parsers import outcomes

#: A place and a name as they are told; a path and a name of a test that they belong to, or not.
CASES = [
    ("tests/test_a.py", "TestA::test_x", "tests/test_a.py", "TestA::test_x", True),
    ("tests/test_a.py", "TestA::test_x", "tests/test_b.py", "TestA::test_x", False),
    ("tests/test_a.py", "TestA::test_x", "tests/test_a.py", "TestB::test_x", False),
    ("tests/test_a.py", "test_xy", "tests/test_a.py", "test_x", False),
    # unittest: a module, from the folder that it is started in
    ("tests.test_a", "TestA::test_x", "tests/test_a.py", "TestA::test_x", True),
    ("test_a", "TestA::test_x", "tests/test_a.py", "TestA::test_x", True),
    ("shop.tests.test_a", "TestA::test_x", "tests/test_a.py", "TestA::test_x", True),
    ("tests", "TestA::test_x", "tests/__init__.py", "TestA::test_x", True),
    ("tests.test_a", "TestA::test_x", "tests/test_ba.py", "TestA::test_x", False),
    ("tests.test_a", "TestA::test_x", "test_b.py", "TestA::test_x", False),
    # nothing is told of the place
    ("", "cart::adds", "test/cart.test.js", "cart::adds", True),
    # a package in a folder of a monorepo
    ("test/cart.test.js", "cart::adds", "packages/shop/test/cart.test.js", "cart::adds", True),
    ("test/cart.test.js", "cart::adds", "test/other.test.js", "cart::adds", False),
    # vitest joins by ">", the TAP of mocha by spaces
    ("test/a.test.js", "cart::in > out", "test/a.test.js", "cart::in > out", True),
    ("test/a.test.js", "cart::in::out", "test/a.test.js", "cart::in > out", True),
    ("", "cart adds two", "test/a.test.js", "cart::adds two", True),
    ("", "cart adds three", "test/a.test.js", "cart::adds two", False),
    # Go: a package
    ("example.com/shop/cart", "TestAdd", "cart/cart_test.go", "TestAdd", True),
    ("example.com/shop", "TestAdd", "cart_test.go", "TestAdd", True),
    ("shop", "TestAdd", "cart_test.go", "TestAdd", True),
    ("gopkg.in/yaml.v3", "TestAdd", "cart_test.go", "TestAdd", True),
    ("example.com/shop/cart", "TestAdd", "tax/tax_test.go", "TestAdd", False),
    ("example.com/shop", "TestAdd", "tests/test_a.py", "TestAdd", False),
    # Rust: the folder of a crate's modules, or the file of a test target
    ("src", "cart::tests::adds", "src/cart.rs", "tests::adds", True),
    ("src", "cart::tests::adds", "crates/shop/src/cart/mod.rs", "tests::adds", True),
    ("src", "tests::adds", "src/cart.rs", "cart::tests::adds", True),
    ("src", "tests::adds", "tests/cart.rs", "tests::adds", False),
    ("tests/cart.rs", "adds", "tests/cart.rs", "adds", True),
    ("tests/cart.rs", "adds", "tests/tax.rs", "adds", False),
    # parts that are computed
    ("a.test.js", "cart::adds 1", "a.test.js", "cart::adds *", True),
    ("a.test.js", "cart::adds 1 and 2", "a.test.js", "*::adds * and *", True),
    ("a.test.js", "cart::adds 1", "a.test.js", "adds *", True),
    ("a.test.js", "cart::takes 1", "a.test.js", "cart::adds *", False),
    ("a.test.js", "ab", "a.test.js", "ab*b", False),
]  # fmt: skip


@pytest.mark.parametrize(("place", "told", "path", "name", "fits"), CASES)
def test_an_outcome_belongs_to_a_test(
    place: str, told: str, path: str, name: str, fits: bool
) -> None:
    one = TestOutcome(place, told, PASSED)
    assert OutcomeIndex([one]).of(path, name) == ((one,) if fits else ())


def test_all_cases_are_found_and_whole_names_come_first() -> None:
    cases = [TestOutcome("a.rs", "adds", PASSED, "1"), TestOutcome("a.rs", "adds", FAILED, "2")]
    longer = TestOutcome("a.rs", "other::adds", PASSED)
    index = OutcomeIndex([longer, *cases])
    assert index.of("a.rs", "adds") == tuple(cases)
    assert index.of("a.rs", "other::adds") == (longer,)
    assert index.of("a.rs", "more::other::adds") == (longer,)


def test_tests_of_rust_are_told_from_those_of_other_modules() -> None:
    names = ("tests::adds", "cart::tests::adds", "tax::rates::tests::adds")
    index = OutcomeIndex(TestOutcome("src", name, PASSED) for name in names)
    for path, name in zip(("lib.rs", "cart.rs", "tax/rates/mod.rs"), names, strict=True):
        assert [one.name for one in index.of(f"src/{path}", "tests::adds")] == [name]


def test_of_packages_the_nearest_is_meant() -> None:
    places = ("example.com/shop", "example.com/shop/cart", "example.com/shop/web/cart")
    index = OutcomeIndex(TestOutcome(place, "TestAdd", PASSED) for place in places)
    for path, place in (("a_test.go", 0), ("cart/a_test.go", 1), ("web/cart/a_test.go", 2)):
        assert [one.location for one in index.of(path, "TestAdd")] == [places[place]]


def test_what_another_run_told_is_found_whether_it_told_the_place_or_not() -> None:
    """Runners of JavaScript tell the file of a test that fails, and not of one that passes."""
    failed, passed = TestOutcome("a.test.js", "adds", FAILED), TestOutcome("", "adds", PASSED)
    for before, after in ((failed, passed), (passed, failed), (failed, failed)):
        assert OutcomeIndex([after]).of(before.location, before.name) == (after,)
        assert lost(TestOutcomes((before,)), TestOutcomes((after,), complete=True)) == ()
    other = TestOutcome("b.test.js", "adds", PASSED)
    gone = ("a.test.js::adds did not run",)
    assert lost(TestOutcomes((failed,)), TestOutcomes((other,), complete=True)) == gone


@pytest.mark.timeout(30)
def test_thousands_of_tests_are_found_in_a_moment() -> None:
    names = [(f"tests/test_{file}.py", f"test_{at}") for file in range(200) for at in range(100)]
    index = OutcomeIndex(TestOutcome(path, name, PASSED) for path, name in names)
    assert all(len(index.of(path, name)) == 1 for path, name in names)
    hostile = TestOutcome("a.js", "a" * 2000, PASSED)
    assert OutcomeIndex([hostile]).of("a.js", "*a" * 500 + "b") == ()


def cargo(*told: str, rows: bool = True) -> str:
    """What cargo prints of such tests, with a row for each or without."""
    failed, ignored = (sum(one.endswith(how) for one in told) for how in ("FAILED", "ignored"))
    listed = "".join(f"test {one}\n" for one in told) if rows else ""
    return (
        f"running {len(told)} tests\n{listed}\n"
        f"test result: {'FAILED' if failed else 'ok'}. {len(told) - failed - ignored} passed; "
        f"{failed} failed; {ignored} ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    )


FIRST = ("tests::a ... FAILED", "tests::b - should panic ... ok", "c ... ignored",
         "src/lib.rs - total (line 3) ... ok")  # fmt: skip
SAME = ("tests::a ... ok", "tests::b - should panic ... ok", "src/lib.rs - total (line 9) ... ok")
LAST = {
    "the same": (cargo(*SAME), False),
    "more": (cargo(*SAME, "other::new ... ok"), False),
    "another in the place of one": (cargo("other::a ... ok", *SAME[1:]), True),
    "one is ignored, and others are new": (
        cargo("tests::a ... ignored", *SAME[1:], "x ... ok", "y ... ok"), True,
    ),
    "no names": (cargo(*SAME, rows=False), False),
    "names that a test prints": (cargo(*SAME).replace("test c", "test x ... y\ntest c"), False),
    "a part was left out": (
        cargo("x ... ok", "y ... ok", "z ... ok").replace("test x ... ok\n", ""), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAST)
def test_another_test_in_the_place_of_one_is_one_less(case: str) -> None:
    after, is_less = LAST[case]
    first, last = (outcomes(text.split("\n"), "/") for text in (cargo(*FIRST), after))
    found = lost(first, last)
    assert bool(found) == is_less, found
    assert not is_less or "tests::a" in found[0]
