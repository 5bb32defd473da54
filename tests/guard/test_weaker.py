"""Which files matter to the tests, and what is told of code beside them."""

from __future__ import annotations

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import TextChange, Weakening

KINDS = {
    "tests/test_a.py": weaker.TEST, "src/a_test.go": weaker.TEST, "web/a.spec.ts": weaker.TEST,
    "src/test/java/CartTest.java": weaker.TEST, "spec/a_spec.rb": weaker.TEST,
    "web/__snapshots__/a.snap": weaker.SNAPSHOT, ".github/workflows/ci.yml": weaker.CI,
    ".pre-commit-config.yaml": weaker.CI, "pyproject.toml": weaker.SETTINGS,
    "src/cart.py": weaker.CODE, "README.md": "", "tests/data/cart.json": "",
    "node_modules/a/a.test.js": "",
}  # fmt: skip


def test_files_are_known_by_name() -> None:
    assert {path: weaker.kind_of(path) for path in KINDS} == KINDS
    products = [path for path in [*KINDS, "uv.lock"] if weaker.is_product(path)]
    assert products == ["pyproject.toml", "src/cart.py", "uv.lock"]


def test_a_comment_that_silences_a_tool_is_counted_with_a_reason_and_told_with_none() -> None:
    found = weaker.compared([TextChange("a.py", "", "x = 1  # noqa\n")], code_changed=True)
    assert [one.rule for one in found.weakenings] == ["check-silenced"]
    text = "x = 1  # noqa: B028 - the caller's line\n"
    found = weaker.compared([TextChange("a.py", "", text)], code_changed=True)
    assert (found.weakenings, found.counted["explained"]) == ((), 1)


def test_a_test_goes_with_the_function_that_it_names() -> None:
    test = "def test_tax():\n    assert tax(10) == 2\n"
    gone = [
        TextChange("tests/test_tax.py", test, ""),
        TextChange("tax.py", "def tax(x):\n    return x / 5\n", "def vat(x):\n    return x / 5\n"),
    ]
    found = weaker.compared(gone, code_changed=True)
    assert (found.weakenings, found.counted["obsolete"]) == ((), 1)
    found = weaker.compared(gone[:1], code_changed=False)
    assert found.weakenings == (
        Weakening("test-removed", "test_tax is gone", "tests/test_tax.py", 1, "old"),
    )


def test_tests_in_a_source_of_rust_are_compared() -> None:
    source = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() { assert!(true); }\n}\n"
    found = weaker.compared([TextChange("src/a.rs", source, "fn a() {}\n")], code_changed=True)
    assert [one.message for one in found.weakenings] == ["b is gone"]
