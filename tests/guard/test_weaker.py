"""Which files matter to the tests, and what is told of code beside them."""

from __future__ import annotations

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import TextChange, Weakening

KINDS = {
    "tests/test_a.py": weaker.TEST, "src/a_test.go": weaker.TEST, "web/a.spec.ts": weaker.TEST,
    "src/test/java/CartTest.java": weaker.TEST, "spec/a_spec.rb": weaker.TEST,
    "web/__snapshots__/a.snap": weaker.SNAPSHOT, ".github/workflows/ci.yml": weaker.CI,
    ".pre-commit-config.yaml": weaker.CI, "pyproject.toml": weaker.SETTINGS,
    "src/cart.py": weaker.CODE, "README.md": "", "tests/data/cart.json": "",
    "node_modules/a/a.test.js": "", "packages/a/.github/workflows/ci.yml": "",
    "internal/a/.travis.yml": "", "tests/cart.c": weaker.TEST, "tests/unit/cart.php": weaker.TEST,
    "tests/pages/cart.html": weaker.CODE, "src/cart.c": weaker.CODE,
}  # fmt: skip


def test_files_are_known_by_name() -> None:
    assert {path: weaker.kind_of(path) for path in KINDS} == KINDS
    products = [path for path in [*KINDS, "uv.lock"] if weaker.is_product(path)]
    assert products == [
        "pyproject.toml", "src/cart.py", "tests/pages/cart.html", "src/cart.c", "uv.lock",
    ]  # fmt: skip


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


@pytest.mark.parametrize(
    ("before", "after", "test", "is_told"),
    [
        ("def f(\n    url: str,\n): ...\n", "def f(): ...\n", "f(url=1)", True),
        ("def f(\n    address: str,\n): ...\n", "def f(): ...\n", "f(address=1)", False),
        ("KINDS = 'hcl', 'ini'\n", "KINDS = 'ini'\n", "f('hcl')", False),
        ("KINDS = 'hcl', 'ini'\n", "KINDS = 'ini', 'hcl_two'\nhcl = 2\n", "f('hcl')", True),
    ],
)
def test_a_test_goes_with_the_parameter_or_key_that_it_names(
    before: str, after: str, test: str, *, is_told: bool
) -> None:
    changes = [
        TextChange("tests/test_a.py", f"def test_a():\n    assert {test} == 1\n", ""),
        TextChange("a.py", before, after),
    ]
    assert bool(weaker.compared(changes, code_changed=True).weakenings) is is_told


def test_a_test_goes_with_what_its_class_is_named_of() -> None:
    test = "class TestBag:\n    def test_a(self):\n        assert self.kind() == 1\n"
    changes = [TextChange("tests/test_a.py", test, ""), TextChange("a.py", "class Bag: ...\n", "")]
    assert weaker.compared(changes, code_changed=True).weakenings == ()


def test_a_test_asks_for_the_feature_that_its_code_asks_for_by_now() -> None:
    test = "#[test]\nfn a() { assert!(f()); }\n"
    changes = [TextChange("tests/a.rs", test, f'#[cfg(feature = "env")]\n{test}')]
    assert weaker.compared(changes, code_changed=True).weakenings != ()
    gate = TextChange("src/f.rs", "fn f() {}\n", '#[cfg(feature = "env")]\nfn f() {}\n')
    assert weaker.compared([*changes, gate], code_changed=True).weakenings == ()


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        ("all(unix, any(x86))", "all(unix, any(x86, arm))", False),
        ("all(unix, not(miri))", "unix", False),
        ("unix", "all(unix, not(miri), not(wasi))", True),
        ("not(any(wasi))", "not(any(wasi, redox))", True),
        ('feature = "net"', 'feature = "slow"', True),
    ],
)
def test_a_gate_may_be_as_wide_as_before(before: str, after: str, *, is_told: bool) -> None:
    text = "#![cfg({})]\n#[test]\nfn a() {{ assert!(f()); }}\n"
    change = TextChange("tests/a.rs", text.format(before), text.format(after))
    assert bool(weaker.compared([change], code_changed=False).weakenings) is is_told


@pytest.mark.parametrize(
    ("before", "after", "comment", "is_told"),
    [
        ("[mypy]\nx = 1\n", "[mypy]\nx = 1\nstrict = True\n", "# type: ignore[misc]", False),
        ("[mypy]\nx = 1\n", "[mypy]\nx = 1\nstrict = True\n", "# noqa: E501", True),
        ("[mypy]\ndisable_error_code = misc\n", "[mypy]\n", "# type: ignore[misc]", False),
        ("[mypy]\ndisable_error_code = misc\n", "[mypy]\n", "# type: ignore[arg]", True),
        ("[mypy]\nx = 1\n", "[mypy]\nx = 2\n", "# type: ignore[misc]", True),
    ],
)
def test_what_a_tool_reports_for_the_first_time_may_be_left_out_by_line(
    before: str, after: str, comment: str, *, is_told: bool
) -> None:
    code = TextChange("a.py", "x = 1\n", f"x = 1  {comment}\n")
    found = weaker.compared([TextChange("mypy.ini", before, after), code], code_changed=True)
    assert bool(found.weakenings) is is_told


def test_a_plugin_that_is_new_may_be_silenced_by_line() -> None:
    config = TextChange("eslint.config.mjs", "a\n", "import b from 'eslint-plugin-dom'\n")
    for rule, told in (("dom/no-x", 0), ("web/no-x", 1)):
        code = TextChange("a.ts", "f()\n", f"// eslint-disable-next-line {rule}\nf()\n")
        assert len(weaker.compared([config, code], code_changed=True).weakenings) == told


def test_tests_in_a_source_of_rust_are_compared() -> None:
    source = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() { assert!(true); }\n}\n"
    found = weaker.compared([TextChange("src/a.rs", source, "fn a() {}\n")], code_changed=True)
    assert [one.message for one in found.weakenings] == ["b is gone"]
