"""Tests that were bent: removed, skipped, weakened, in any language."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.grade import grade
from testing.guarded_trees import BASE, GO, JS, PY, RUST, TEST, swap

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
                    {"test-removed", "assertion-weakened"}),
    "js: skips": ({"web/add.test.ts": swap(JS, "it('adds'", "it.skip('adds'")}, {"test-skipped"}),
    "js: only": ({"web/add.test.ts": swap(JS, "it('adds'", "it.only('adds'")}, {"test-skipped"}),
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
    "go: deletes": ({"add_test.go": "package add\n"}, {"test-removed", "assertion-weakened"}),
    "rust: ignores": ({"src/lib.rs": swap(RUST, "#[test]", "#[test]\n    #[ignore]")},
                      {"test-skipped"}),
    "rust: weakens": ({"src/lib.rs": swap(RUST, "assert_eq!(add(1, 2), 3)", "assert!(true)")},
                      {"assertion-weakened"}),
    "rust: deletes": ({"src/lib.rs": RUST[: RUST.index("#[cfg")]},
                      {"test-removed", "assertion-weakened"}),
    "a test cannot be read": (
        {PY: swap(TEST, "== 3", "== 0x" + "f" * 6000)}, {"test-removed"},
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
GONE = {"test-removed", "assertion-weakened"}
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
