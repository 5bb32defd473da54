"""The tests of files that are read by their statements."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.statement_cases import read

GROUPS = """\
describe('x', () => {
  it('a', () => { expect(1).toBe(2); expect(2) })
  test.each([1, 2])('b %s', (n) => { assert(n) })
})
"""
JAVA = """\
class ATest {
  @Test
  public void a() { assertEquals(1, 2); fail(); }
  void b() {}
  @ParameterizedTest
  void c(int x) { }
}
"""
#: A path, a text, and its tests, each with the number of its assertions.
CASES: dict[str, tuple[str, str, dict[str, int]]] = {
    "groups": ("a.test.ts", GROUPS, {"a": 2, "b %s": 1}),
    "quotes in a name": (
        "a.test.js", "test('sets `a`', t => { t.is(1, 2) })\ntest(`it's b`, t => {})\n",
        {"sets `a`": 1, "it's b": 0},
    ),
    "by a function of one's own": (
        "a.test.ts", "browserTest('a', [x], async t => { t.is(loadTest('b'), 2) })\n", {"a": 1},
    ),
    "a helper": (
        "a_test.go", "func TestA(t *testing.T) { t.Error() }\nfunc helper() {}", {"TestA": 1},
    ),
    "names of a library of assertions": (
        "a_test.go",
        "func TestA(t *testing.T) { is := assert.New(t); is.Nil(a); b := err.Error() }",
        {"TestA": 1},
    ),
    "an example of Go that never runs": (
        "a_test.go", "func ExampleA() {}\nfunc ExampleB() { f()\n// Output: 1\n}", {"ExampleB": 0},
    ),
    "rust": ("tests/a.rs", "#[tokio::test]\nasync fn a() { assert!(x); }\nfn b() {}", {"a": 1}),
    "java": ("ATest.java", JAVA, {"a": 2, "c": 0}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_tests_are_found_with_their_claims(case: str) -> None:
    path, text, expected = CASES[case]
    assert {one.name: len(one.facts.claims) for one in read(path, text).cases} == expected


def test_what_cannot_be_parsed_is_told() -> None:
    assert read("a.js", "(" * 2000).flaw == "cannot be parsed"


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.ts", "export async function f(t) { t.is(1, 2) }\nconst g = () => 1\nlet h = 2", "f g"),
        ("a_test.go", "func a(t *testing.T) { t.Error() }\nfunc (s *S) b() {}", "a b"),
        ("tests/a.rs", "fn a() { assert!(x); }\n#[test]\nfn b() { fn c() {} }", "a"),
        ("src/a.rs", "fn a() { assert!(x); }", ""),
        ("ATest.java", JAVA, "b"),
    ],
)
def test_functions_beside_the_tests_are_found(path: str, text: str, names: str) -> None:
    assert [one.name for one in read(path, text).helpers] == names.split()
