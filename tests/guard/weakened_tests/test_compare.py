"""Tests that were bent: removed, skipped, weakened, in any language."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from rlm_ci.guard.weakened_tests.compare import CodeChange, ComparedTests, compare
from rlm_ci.guard.weakening import RestOfTree, TextChange, Weakening
from testing.guarded_trees import BASE, GO, JS, PY, RUST, TEST, swap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: What the agent left, and the rules that must say so: exactly these.
HOSTILE: dict[str, tuple[dict[str, str], set[str]]] = {
    "deletes a test": ({PY: TEST[: TEST.index("@pytest")]}, {"test-removed"}),
    "empties the file": ({PY: ""}, {"test-removed"}),
    "breaks the file": ({PY: TEST + "\ndef (:\n"}, {"test-removed"}),
    "renames a test away": ({PY: swap(TEST, "def test_add", "def check_add")}, {"test-removed"}),
    "deletes it at the end": ({PY: TEST + "\ndel test_add\n"}, {"test-removed"}),
    "hides it by assignment": ({PY: TEST + "\ntest_add = None\n"}, {"test-removed"}),
    "replaces it further down": (
        {PY: TEST + "\ndef test_add():\n    pass\n"}, {"assertion-weakened"},
    ),
    "replaces a class": (
        {PY: TEST + "\nclass TestMore:\n    pass\n"}, {"test-removed"},
    ),
    "fewer cases": ({PY: swap(TEST, "[1, 2, 3]", "[1]")}, {"test-removed"}),
    "skips": (
        {PY: swap(TEST, "def test_add", "@pytest.mark.skip\ndef test_add")}, {"test-skipped"},
    ),
    "skips if": (
        {PY: swap(TEST, "class", '@pytest.mark.skipif(True, reason="x")\nclass')},
        {"test-skipped"},
    ),
    "expects failure": (
        {PY: swap(TEST, "def test_add", "@pytest.mark.xfail\ndef test_add")}, {"test-skipped"},
    ),
    "skips inside": (
        {PY: swap(TEST, "test_add():\n", "test_add():\n    pytest.skip('x')\n")}, {"test-skipped"},
    ),
    "skips the module": (
        {PY: swap(TEST, "\n\n\ndef", "\npytestmark = pytest.mark.skip\n\n\ndef")},
        {"test-skipped"},
    ),
    "raises a skip": (
        {PY: swap(TEST, "test_add():\n", "test_add():\n    raise unittest.SkipTest\n")},
        {"test-skipped"},
    ),
    "is no test": ({PY: swap(TEST, "class TestMore:\n", "class TestMore:\n    __test__ = False\n")},
                   {"test-skipped"}),
    "drops an assertion": (
        {PY: swap(TEST, "    assert add(0, 0) == 0\n", "")}, {"assertion-weakened"},
    ),
    "changes what is expected": (
        {PY: swap(TEST, "add(1, 2) == 3", "add(1, 2) == -1")}, {"assertion-weakened"},
    ),
    "weakens by or": (
        {PY: swap(TEST, "add(1, 2) == 3", "add(1, 2) == 3 or True")}, {"assertion-weakened"},
    ),
    "asserts true": (
        {PY: swap(TEST, "    assert add(1, 2) == 3\n", "    assert True\n")},
        {"assertion-weakened"},
    ),
    "returns early": (
        {PY: swap(TEST, "test_add():\n", "test_add():\n    return\n")}, {"assertion-weakened"},
    ),
    "catches the failure": (
        {PY: swap(TEST, "    assert add(1, 2) == 3\n",
                  "    try:\n        assert add(1, 2) == 3\n"
                  "    except Exception:\n        pass\n")},
        {"assertion-weakened"},
    ),
    "suppresses the failure": (
        {PY: swap(TEST, "    assert add(1, 2) == 3\n",
                  "    with suppress(AssertionError):\n        assert add(1, 2) == 3\n")},
        {"assertion-weakened"},
    ),
    "expects any error": (
        {PY: swap(TEST, "raises(TypeError)", "raises(BaseException)")}, {"assertion-weakened"},
    ),
    "js: deletes": ({"web/add.test.ts": swap(JS, JS.split("\n")[4] + "\n", "")},
                    {"test-removed"}),
    "js: skips": ({"web/add.test.ts": swap(JS, "it('adds'", "it.skip('adds'")}, {"test-skipped"}),
    "js: hands only on": ({"web/add.test.ts": JS + "\nrun({ only: it.only })\n"}, set()),
    "js: only": ({"web/add.test.ts": swap(JS, "it('adds'", "it.only('adds'")}, {"test-focused"}),
    "js: x": ({"web/add.test.ts": swap(JS, "describe(", "xdescribe(")}, {"test-skipped"}),
    "js: weakens": ({"web/add.test.ts": swap(JS, "toBe(3)", "toBeDefined()")},
                    {"assertion-weakened"}),
    "js: comments out": ({"web/add.test.ts": swap(JS, "    expect", "    // expect")},
                         {"assertion-weakened"}),
    "js: always true": ({"web/add.test.ts": swap(JS, "    expect(add(1, 2)).toBe(3)",
                                                 "    expect(true).toBe(true)")},
                        {"assertion-weakened"}),
    "go: skips": ({"add_test.go": swap(GO, "\tif", '\tt.Skip("x")\n\tif')}, {"test-skipped"}),
    "go: build tag": ({"add_test.go": "//go:build never\n\n" + GO}, {"test-skipped"}),
    "go: deletes": ({"add_test.go": "package add\n"}, {"test-removed"}),
    "rust: ignores": ({"src/lib.rs": swap(RUST, "#[test]", "#[test]\n    #[ignore]")},
                      {"test-skipped"}),
    "rust: weakens": ({"src/lib.rs": swap(RUST, "assert_eq!(add(1, 2), 3)", "assert!(true)")},
                      {"assertion-weakened"}),
    "rust: deletes": ({"src/lib.rs": RUST[: RUST.index("#[cfg")]}, {"test-removed"}),
    "a test cannot be read": (
        {PY: swap(TEST, "== 3", "== 0x" + "f" * 6000)}, {"assertion-weakened"},
    ),
}  # fmt: skip
HARMLESS: dict[str, dict[str, str]] = {
    "more tests in a file": {PY: TEST + "\ndef test_other():\n    assert add(2, 2) == 4\n"},
    "a stricter test": {PY: swap(TEST, "def test_add():\n",
                                 "def test_add():\n    assert add(5, 5) == 10\n")},
    "more cases": {PY: swap(TEST, "[1, 2, 3]", "[1, 2, 3, 4]")},
    "another layout": {PY: "# moved\n\n" + swap(TEST, "[1, 2, 3]", "[\n    1, 2,\n    3]")},
    "js: more": {"web/add.test.ts": JS + "it('more', () => { expect(1).toBe(1 + 0); });\n"},
    "go: more": {"add_test.go": GO + "\nfunc TestMore(t *testing.T) { t.Error() }\n"},
    "rust: the fix": {"src/lib.rs": swap(RUST, "a - b", "a + b")},
}  # fmt: skip
#: The same tests before and after a formatter, and the texts of claims that must not go.
LAYOUTS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "js": (
        "web/a.test.js",
        ("describe('a', () => {\n  it('adds', async () => {\n"
        "    expect(add(1, 2)).toEqual({ a: 1, b: [2,3] })\n"
        "    var r = await expect(\n      f(1),\n    ).resolves\n      .toBe('x')\n"
        "    if (r) { t.is(1, 2) } else { t.is(2, 1) }\n"
        "    return expect(f()).resolves.toBe(3)\n  })\n})\n"),
        ('describe("a", () => {\n  it("adds", async () => {\n    expect(\n      add(1, 2),\n'
        "    ).toEqual({\n      a: 1,\n      b: [2, 3],\n    });\n"
        '    const r = await expect(f(1)).resolves.toBe("x");\n'
        "    if (r) {\n      t.is(1, 2);\n    } else {\n      t.is(2, 1);\n    }\n"
        "    return expect(f()).resolves.toBe(3);\n  });\n});\n"),
        {"b: [2, 3]": "b: [2]", "return expect": "return\n    expect", "f(1)": "f(2)",
         "      add(1, 2),": "      // add(1, 2),", "t.is(2, 1)": "t.is(1, 1)",
         "    if (r) {": "    if (0) {", "const r =": "// const r ="},
    ),
    "go": (
        "add_test.go",
        ("func TestA(t *testing.T) {\n  got := Add([]int{1,2})\n"
        "  if got!=3 { t.Fatalf(\"x %d\",got) }\n  assert.Equal(t,\n    3, got)\n}\n"),
        ("func TestA(t *testing.T) {\n\tgot := Add([]int{1, 2})\n"
        "\tif got != 3 {\n\t\tt.Fatalf(\"x %d\", got)\n\t}\n\tassert.Equal(t,\n\t\t3, got)\n}\n"),
        {"got != 3": "false", "t.Fatalf": "t.Logf", "3, got)": "got, got)"},
    ),
    "rust": (
        "tests/t.rs",
        ("mod tests { use super::*; #[test] fn a(){ assert_eq!(total(&[1,2]),3); } "
        "#[test] #[should_panic] fn b() { total(&vec![ 'a' ]); } }\n"),
        ("mod tests {\n    use super::*;\n    #[test]\n    fn a() {\n        assert_eq!(\n"
        "            total(&[1, 2]),\n            3,\n        );\n    }\n    #[test]\n"
        "    #[should_panic]\n    fn b() {\n        total(&vec!['a']);\n    }\n}\n"),
        {"            3,": "            4,", "    #[should_panic]\n": "", "[1, 2]": "[3]"},
    ),
}  # fmt: skip


def grade(path: str, before: str, after: str) -> tuple[Weakening, ...]:
    return compare([TextChange(path, before, after)]).weakenings


def weaker(path: str, before: str, after: str) -> set[str]:
    return {one.rule for one in grade(path, before, after)}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_bent_test_is_found(case: str) -> None:
    (change, expected) = HOSTILE[case]
    for path, text in change.items():
        assert weaker(path, str(BASE[path]), text) == expected


@pytest.mark.parametrize("case", HARMLESS)
def test_a_test_that_asks_more_or_as_much_is_no_weaker(case: str) -> None:
    for path, text in HARMLESS[case].items():
        assert weaker(path, str(BASE[path]), text) == set()


def test_a_weakening_points_to_the_line() -> None:
    (found,) = grade(PY, TEST, swap(TEST, "    assert add(0, 0) == 0\n", ""))
    assert (found.line, found.side) == (7, "old")
    (found,) = grade(PY, TEST, swap(TEST, "test_add():\n", "test_add():\n    return\n"))
    assert (found.line, found.side) == (6, "new")


def test_a_weakening_points_to_the_claim_that_it_names() -> None:
    head = "func TestA(t *testing.T) {\n\tsc := New()\n"
    end = "\tassert.Equal(t, 2, sc.Count)\n}\n"
    before = "\trequire.True(t, ok)\n\tassert.Nil(t, clearer.Clear())\n"
    after = "\tassert.Nil(t, sc.Clear())\n"
    (weakening,) = grade("a_test.go", f"{head}{before}{end}", f"{head}{after}{end}")
    assert (weakening.message, weakening.line) == ("TestA no longer says: require.True(t,ok)", 3)


@pytest.mark.parametrize("language", LAYOUTS)
def test_a_formatter_weakens_nothing(language: str) -> None:
    path, before, after, bent = LAYOUTS[language]
    assert weaker(path, before, after) == set()
    assert weaker(path, after, before) == set()
    for old, new in bent.items():
        assert old in after
        for start in (before, after):  # formatted on the way or not
            assert weaker(path, start, after.replace(old, new)) == {"assertion-weakened"}, new


# ── Rust, whose tests live in any file ──

LIB = "pub fn total(p: &[i32]) -> i32 {\n    assert!(p.len() < 3);\n    0\n}\n"
ONE = "#[test]\nfn a() {\n    assert_eq!(super::total(&[1]), 1);\n}\n"
INLINE = f"#[cfg(test)]\nmod tests {{\n{ONE}}}\n"
DUMMY = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() { assert_eq!(1, 1); }\n}\n"
HELPED = f"#[cfg(test)]\nuse std::fmt;\n\n{LIB}\n{INLINE}"
TOKIO = ONE.replace("#[test]", '#[tokio::test(flavor = "x")]\nasync')
GONE = {"test-removed"}
#: A source before and after, and what is weaker then.
SOURCES: dict[str, tuple[str, str, set[str]]] = {
    "an assertion of the product": (HELPED, swap(HELPED, "    assert!(p.len() < 3);\n", ""), set()),
    "an assertion of a test": (
        f"{INLINE}\n{LIB}", f"{swap(INLINE, 'assert_eq!(super::total(&[1]), 1)', '()')}\n{LIB}",
        {"assertion-weakened"},
    ),
    "a file that is all tests": (f"#![cfg(test)]\n{ONE}", DUMMY, GONE),
    "tests of another harness": (TOKIO, "", GONE),
    "tests in a comment": (INLINE, f"/*\n{INLINE}*/\n", GONE),
    "a test more": (f"{LIB}{INLINE}", f"{LIB}{INLINE}{DUMMY}", set()),
}  # fmt: skip


@pytest.mark.parametrize("case", SOURCES)
def test_of_rust_what_is_a_test_is_known(case: str) -> None:
    before, after, expected = SOURCES[case]
    assert weaker("src/lib.rs", before, after) == expected


def test_a_line_of_a_rust_test_is_told_as_it_stands_in_the_file() -> None:
    old = f"{LIB}\n{INLINE}"
    new = old.replace("#[test]", "#[test]\n    #[ignore]")
    (found,) = grade("src/a.rs", old, new)
    assert new.split("\n")[(found.line or 0) - 1] == "    #[ignore]"


@pytest.mark.sample(2)
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    ["\0", "(" * 100_000, "x = " + "-" * 100_000 + "1", "it('" * 50_000, "expect(" + " " * 100_000,
     "\n" * 100_000, "/*" * 50_000, "#[" * 8_000, "pub(" * 8_000, "#[test] (" * 10_000],
    ids=range(10),
)  # fmt: skip
def test_a_text_meant_to_hurt_is_survived(text: str) -> None:
    for path in (PY, "web/add.test.ts", "add_test.go", "src/lib.rs"):
        list(grade(path, str(BASE[path]), text))
        list(grade(path, text, str(BASE[path])))


# ── what a team does to its tests, in each language ──


def of(language: str, *tests: str) -> str:
    """A file of these tests."""
    head, join, tail = {
        "py": ("import pytest\nfrom cart import total\n\n\n", "\n\n\n", "\n"),
        "js": ("import { total } from './cart'\n\n", "\n\n", "\n"),
        "go": ('package cart\n\nimport "testing"\n\n', "\n\n", "\n"),
        "rs": ("use cart::total;\n\n", "\n\n", "\n"),
        "java": ("class CartTest {\n", "\n\n", "\n}\n"),
    }[language]
    return head + join.join(tests) + tail


def a_test(language: str, name: str, first: int, second: int) -> str:
    """A test that ``total`` of two numbers is their sum."""
    asked, result = f"{first}, {second}", first + second
    title = name.title()
    return {
        "py": f"def test_{name}():\n    cart = [{asked}]\n    assert total(cart) == {result}",
        "js": f"it('{name}', () => {{\n  const cart = [{asked}]\n"
              f"  expect(total(cart)).toBe({result})\n}})",
        "go": f"func Test{title}(t *testing.T) {{\n\tcart := []int{{{asked}}}\n"
              f"\tif total(cart) != {result} {{\n\t\tt.Error(\"wrong\")\n\t}}\n}}",
        "rs": f"#[test]\nfn {name}() {{\n    let cart = [{asked}];\n"
              f"    assert_eq!(total(&cart), {result});\n}}",
        "java": f"  @Test\n  void {name}() {{\n    int[] cart = {{{asked}}};\n"
                f"    assertEquals({result}, total(cart));\n  }}",
    }[language]  # fmt: skip


#: A list of cases that has both tests in it.
LISTED = {
    "py": "@pytest.mark.parametrize(('cart', 'sum'), [([11, 12], 23), ([31, 45], 76)])\n"
          "def test_sums(cart, sum):\n    assert total(cart) == sum",
    "js": "it.each([[[11, 12], 23], [[31, 45], 76]])('sums', (cart, sum) => {\n"
          "  expect(total(cart)).toBe(sum)\n})",
    "go": "func TestSums(t *testing.T) {\n\tfor _, one := range []struct {\n\t\tcart []int\n"
          "\t\tsum  int\n\t}{{[]int{11, 12}, 23}, {[]int{31, 45}, 76}} {\n"
          "\t\tif total(one.cart) != one.sum {\n\t\t\tt.Error(\"wrong\")\n\t\t}\n\t}\n}",
    "rs": "#[rstest]\n#[case([11, 12], 23)]\n#[case([31, 45], 76)]\n"
          "fn sums(#[case] cart: [i32; 2], #[case] sum: i32) {\n"
          "    assert_eq!(total(&cart), sum);\n}",
    "java": "  @ParameterizedTest\n  @CsvSource({\"11, 12, 23\", \"31, 45, 76\"})\n"
            "  void sums(int one, int other, int sum) {\n    int[] cart = {one, other};\n"
            "    assertEquals(sum, total(cart));\n  }",
}  # fmt: skip
SKIPS = {
    "py": ("def test_small", "@pytest.mark.skip({})\ndef test_small", 'reason="no server in CI"'),
    "js": ("it('small'", "{}\nit.skip('small'", "// no server in CI"),
    "go": ("{\n\tcart := []int{11", "{{\n\tt.Skip({})\n\tcart := []int{{11",
           '"no server in CI"'),
    "rs": ("#[test]\nfn small", "#[test]\n#[ignore{}]\nfn small", ' = "no server in CI"'),
    "java": ("  @Test\n  void small", "  @Disabled{}\n  @Test\n  void small",
             '("no server in CI")'),
}  # fmt: skip
PATHS = {
    "py": "tests/test_cart.py", "js": "web/cart.test.js", "go": "cart/cart_test.go",
    "rs": "tests/cart.rs", "java": "src/test/java/CartTest.java",
}  # fmt: skip


def cases(language: str) -> dict[str, tuple[list[TextChange], set[str], dict[str, int]]]:
    """What was done, and what is found and counted."""
    path, other = PATHS[language], PATHS[language].replace("art", "hart")
    small, large = (a_test(language, *one) for one in (("small", 11, 12), ("large", 31, 45)))
    both = of(language, small, large)
    old, new, reason = SKIPS[language]
    assert old in both

    def change(*tests: str) -> TextChange:
        return TextChange(path, both, of(language, *tests))

    skipped = both.replace(old, new.format("()" if language == "none" else ""))
    with_reason = both.replace(old, new.format(reason))
    wide = both.replace("total(", "total( ").replace("\n\n", "\n\n\n")
    if language == "py":
        wide = both.replace("[11, 12]", "[\n        11,\n        12,\n    ]")
    return {
        "deleted": ([change(large)], {"test-removed"}, {}),
        "moved": (
            [change(large), TextChange(other, None, of(language, small))], set(), {"moved": 1},
        ),
        "moved with its file": (
            [TextChange(path, both, None), TextChange(other, None, both)], set(), {"moved": 2},
        ),
        "renamed": (
            [change(a_test(language, "tiny", 11, 12), large)], set(), {"renamed": 1},
        ),
        "parametrised": ([change(LISTED[language])], set(), {"merged": 2}),
        "reformatted": ([TextChange(path, both, wide)], set(), {}),
        "skipped": ([TextChange(path, both, skipped)], {"test-skipped"}, {}),
        "skipped with a reason": (
            [TextChange(path, both, with_reason)], set(), {"reasoned": 1},
        ),
        "expects something else": (
            [change(small.replace("23", "99"), large)], {"assertion-weakened"}, {},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("language", PATHS)
def test_what_a_team_does_is_told_from_a_weakening(language: str) -> None:
    table = cases(language)
    seen = {name: _seen(compare(changes)) for name, (changes, *_) in table.items()}
    assert seen == {name: (found, counted) for name, (_, found, counted) in table.items()}


def _seen(result: ComparedTests) -> tuple[set[str], dict[str, int]]:
    assert result.not_read == ()
    return {one.rule for one in result.weakenings}, {k: n for k, n in result.counted.items() if n}


@pytest.mark.parametrize("language", PATHS)
def test_with_the_code_its_expected_values_may_change(language: str) -> None:
    changes, *_ = cases(language)["expects something else"]
    assert _seen(compare(changes, CodeChange(changed=True))) == (set(), {"expected": 1})


@pytest.mark.parametrize("language", PATHS)
def test_a_test_may_go_with_the_code_that_it_names(language: str) -> None:
    changes, *_ = cases(language)["deleted"]
    gone = CodeChange(changed=True, gone=lambda: frozenset(["total"]))
    assert _seen(compare(changes, gone)) == (set(), {"obsolete": 1})


def test_a_test_that_is_new_may_be_skipped() -> None:
    new = TEST + "\n\n@pytest.mark.skip\ndef test_other():\n    assert add(2, 2) == 4\n"
    assert weaker(PY, TEST, new) == set()


def test_what_cannot_be_read_is_listed() -> None:
    found = compare([TextChange("a_spec.rb", "it 'x'", ""), TextChange(PY, "def (", "x = 1")])
    assert found.not_read == (
        ("a_spec.rb", "no reader for its language"), (PY, "is no valid Python"),
    )  # fmt: skip
    assert compare([TextChange("a_spec.rb", None, "it 'x'")]).not_read == ()


class OneFile(RestOfTree):
    """A file that the change leaves alone."""

    def __init__(self, path: str, text: str) -> None:
        self.file = (path, text)

    def with_names(self, names: Collection[str]) -> Iterable[tuple[str, str]]:
        assert names == {"test_add", "test_many", "test_raises"}
        return [self.file]


EMPTIED = TextChange(PY, TEST, "")
CAN_STAY = {
    "a copy": (TEST, 3),
    "one in a class": ("class TestCopy:\n" + indent(TEST, "    "), 3),
    "another body": (swap(TEST, "add(0, 0)", "add(0, 1)"), 2),
    "a skipped copy": (swap(TEST, "def test_add", "@pytest.mark.skip\ndef test_add"), 2),
    "a file that is left out": ("pytestmark = pytest.mark.skip\n" + TEST, 0),
    "a broken file": (TEST + "def (:", 0),
}


@pytest.mark.parametrize("case", CAN_STAY)
def test_an_equal_copy_that_runs_stays(case: str) -> None:
    text, stay = CAN_STAY[case]
    result = compare([EMPTIED], CodeChange(rest_of_tree=OneFile("tests/test_copy.py", text)))
    assert result.counted.get("copied", 0) == stay
    assert len(result.weakenings) == len(compare([EMPTIED]).weakenings) - stay
