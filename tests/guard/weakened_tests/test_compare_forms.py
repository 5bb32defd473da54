"""Forms by which a test asks for less, or does not run, in each language; and honest ones."""

from __future__ import annotations

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import TextChange

JS = """\
import { due, load } from '../src/till'

describe('till', () => {
  it('sums', async () => {
    expect(due([20, 35])).toBe(55)
    await expect(load('shop')).rejects.toThrow('no shop')
  })
  it.each([[1, 1], [2, 2]])('one %s', (price, sum) => {
    expect(due([price])).toBe(sum)
  })
})
"""
GO = """\
package till

import "testing"

func TestDue(t *testing.T) {
	for _, test := range []int{} {
	}
	rows := []struct{ a, want int }{
		{1, 1},
		{2, 2},
	}
	for _, row := range rows {
		if sum := Due(row.a); sum != row.want {
			t.Errorf("got %d", sum)
		}
	}
}

func TestNone(t *testing.T) {
	if Due() != 0 {
		t.Fatal("none")
	}
}
"""
RUST = """\
pub fn due(a: &[i32]) -> i32 { a.iter().sum() }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        assert_eq!(due(&[20, 35]), 55);
    }
}
"""
JAVA = """\
class TillTest {
  @Test
  void sums() {
    assertEquals(55, Till.due(20, 35));
  }
  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void one(int price) {
    assertEquals(price, Till.due(price));
  }
}
"""
TEXTS = {
    "test/till.test.js": JS,
    "till_test.go": GO,
    "src/lib.rs": RUST,
    "src/test/java/TillTest.java": JAVA,
}
SCRIPT, GOLANG, CRATE, JUNIT = TEXTS
CALLS = "    expect(due([20, 35])).toBe(55)\n"
SUM = "assertEquals(55, Till.due(20, 35));"
MAIN = "func TestMain(m *testing.M) {{\n{}}}\n\nfunc TestNone"
TRY = "    try {{\n      expect(due([20, 35])).toBe(55)\n    }} {}\n"
REMOVED, SKIPPED, FOCUSED = ["test-removed"], ["test-skipped"], ["test-focused"]
WEAKENED = ["assertion-weakened"]
#: A file, what is changed in it, and the rules that this breaks.
FORMS: dict[str, tuple[str, str, str, list[str]]] = {
    "only where a variable is": (SCRIPT, "it('sums'", "it.runIf(process.env.SLOW)('sums'", SKIPPED),
    "skipped by a condition": (SCRIPT, "it('sums'", "it.skipIf(!process.env.CI)('sums'", SKIPPED),
    "a group where a variable is": (
        SCRIPT, "describe('till'", "if (process.env.SLOW) describe('till'", SKIPPED,
    ),
    "only one": (SCRIPT, "it('sums'", "it.only('sums'", FOCUSED),
    "only one of node": (SCRIPT, "it('sums', async", "it('sums', { only: true }, async", FOCUSED),
    "caught": (SCRIPT, CALLS, TRY.format("catch {}"), WEAKENED),
    "caught and logged": (
        SCRIPT, CALLS, TRY.format("catch (e) { console.log(e) }"),
        WEAKENED,
    ),
    "caught and thrown": (SCRIPT, CALLS, TRY.format("catch (e) { throw e }"), []),
    "caught and asserted": (
        SCRIPT, CALLS, TRY.format("catch (e) { expect(e.code).toBe(1) }"), [],
    ),
    "nothing caught": (SCRIPT, CALLS, TRY.format("finally { close() }"), []),
    "a rejection without await": (SCRIPT, "await expect(load", "expect(load", WEAKENED),
    "a rejection that is returned": (SCRIPT, "await expect(load", "return expect(load", []),
    "fewer cases": (SCRIPT, "[[1, 1], [2, 2]]", "[[1, 1]]", REMOVED),
    "no cases": (SCRIPT, "[[1, 1], [2, 2]]", "[]", REMOVED),
    "more cases": (SCRIPT, "[[1, 1], [2, 2]]", "[[1, 1], [2, 2], [3, 3]]", []),
    "cases in a name": (SCRIPT, "describe('till', () => {\n  it.each",
                        "const rows = [[1, 1], [2, 2]]\ndescribe('till', () => {\n  it.each", []),
    "a slice of the cases": (SCRIPT, "[[1, 1], [2, 2]]", "rows.slice(0, 1)", []),
    "a mock of the module": (
        SCRIPT, "\n\ndesc", "\njest.mock('../src/till', () => ({ due: () => 55 }))\n\ndesc",
        WEAKENED * 2,
    ),
    "a mock with the rest of the module": (
        SCRIPT, "\n\ndesc",
        "\nvi.mock('../src/till', async () => ({ ...(await importOriginal()) }))\n\ndesc", [],
    ),
    "a mock of another module": (SCRIPT, "\n\ndesc", "\njest.mock('../src/bank')\n\ndesc", []),
    "a function is replaced": (
        SCRIPT, CALLS, f"    vi.spyOn(till, 'due').mockReturnValue(55)\n{CALLS}", WEAKENED,
    ),
    "a function is watched": (SCRIPT, CALLS, f"    vi.spyOn(till, 'due')\n{CALLS}", []),
    "a group that nobody calls": (
        SCRIPT, "describe('till', () => {", "function till() {", REMOVED * 2,
    ),
    "a group that is called": (SCRIPT, "describe('till', () => {", "till()\nfunction till() {", []),
    "go: a row less": (GOLANG, "\t\t{2, 2},\n", "", REMOVED),
    "go: no rows": (GOLANG, "\t\t{1, 1},\n\t\t{2, 2},\n", "", REMOVED),
    "go: a slice of the rows": (GOLANG, "range rows", "range rows[:1]", REMOVED),
    "go: skipped": (GOLANG, "\tif Due() !", "\tt.SkipNow()\n\tif Due() !", SKIPPED),
    "go: a tag": (GOLANG, "package till", "//go:build nightly\n\npackage till", SKIPPED),
    "go: a tag that no build has": (
        GOLANG, "package till", "//go:build go1.22 && !tinygo\n\npackage till", [],
    ),
    "go: a tag of a system": (
        GOLANG, "package till", "//go:build go1.22 && !linux\n\npackage till", SKIPPED,
    ),
    "go: ends well": (
        GOLANG, "func TestNone", MAIN.format("\tdefer os.Exit(0)\n\tm.Run()\n"),
        SKIPPED,
    ),
    "go: runs none": (
        GOLANG, "func TestNone", MAIN.format("\tsetup()\n"), SKIPPED,
    ),
    "go: ends as the tests do": (
        GOLANG, "func TestNone", MAIN.format("\tsetup()\n\tos.Exit(m.Run())\n"),
        [],
    ),
    "go: a child ends": (
        GOLANG, "func TestNone",
        MAIN.format('\tif os.Getenv("A") != "" {\n\t\tos.Exit(0)\n\t}\n\tleak.VerifyTestMain(m)\n'),
        [],
    ),
    "rust: panics": (CRATE, "#[test]", "#[test]\n    #[should_panic]", SKIPPED),
    "rust: panics, as it says": (
        CRATE, "#[test]", '#[test]\n    #[should_panic(expected = "left == right")]', SKIPPED,
    ),
    "rust: a feature": (CRATE, "#[cfg(test)]", '#[cfg(all(test, feature = "slow"))]', SKIPPED),
    "rust: a feature of a test": (
        CRATE, "    #[test]", '    #[cfg(feature = "slow")]\n    #[test]', SKIPPED,
    ),
    "rust: ignored": (CRATE, "#[test]", "#[test]\n    #[ignore]", SKIPPED),
    "rust: not for miri": (CRATE, "#[test]", "#[test]\n    #[cfg_attr(miri, ignore)]", []),
    "java: disabled": (JUNIT, "@Test", "@Test\n  @org.junit.jupiter.api.Disabled", SKIPPED),
    "java: disabled if": (JUNIT, "@Test", '@Test\n  @DisabledIf("slow")', SKIPPED),
    "java: of TestNG": (JUNIT, "@Test", "@Test(enabled = false)", SKIPPED),
    "java: ignored": (JUNIT, "@Test", "@org.junit.Ignore @Test", SKIPPED),
    "java: a class": (JUNIT, "class Till", "@Disabled class Till", SKIPPED),
    "java: a case less": (JUNIT, "{1, 2}", "{1}", REMOVED),
    "java: caught": (JUNIT, SUM, f"try {{ {SUM} }} catch (AssertionError e) {{ }}", WEAKENED),
    "java: an exception caught": (JUNIT, SUM, f"try {{ {SUM} }} catch (IOException e) {{ }}", []),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_a_test_that_asks_for_less_is_found(case: str) -> None:
    path, old, new, rules = FORMS[case]
    before = TEXTS[path]
    if case == "cases in a name":
        after = before.replace("[[1, 1], [2, 2]]", "rows") + "\nconst rows = [[1, 1], [2, 2]]\n"
    else:
        assert old in before
        after = before.replace(old, new, 1)
    found = weaker.compared([TextChange(path, before, after)], code_changed=False).weakenings
    assert [one.rule for one in found] == rules, found


def test_a_table_beside_the_tests_counts() -> None:
    before = JS.replace("[[1, 1], [2, 2]]", "rows").replace("\n\n", "\nconst rows = [1, 2]\n\n", 1)
    for old, new in (("= [1, 2]", "= [1]"), ("each(rows)", "each(rows.slice(0, 1))"),
                     ("each(rows)", "each([rows[0]])")):  # fmt: skip
        change = TextChange(SCRIPT, before, before.replace(old, new))
        found = weaker.compared([change], code_changed=False).weakenings
        assert [one.rule for one in found] == REMOVED, (new, found)


SUBTEST = """	t.Run("two of one", func(t *testing.T) {
		if sum := Due(2); sum != 2 {
			t.Errorf("got %d", sum)
		}
	})
}

func TestNone"""
SKIPS_IT = '\tif runtime.GOOS == "plan9" {\n\t\tt.Skip("fails")\n\t}\n'
HEAD = "func TestNone(t *testing.T) {\n"
FATAL = 'if Due() != 0 {\n\t\tt.Fatal("none")\n\t}'
CHOSEN = "  (process.version === 'v18' ? it.skip : it)('sums', async"
RULES = "it('sums', async"
#: A file, before and after: no weakening.
HONEST: dict[str, tuple[str, str, str]] = {
    "a case of a table becomes a subtest": (
        "till_test.go", GO, GO.replace("\t\t{2, 2},\n", "").replace("}\n\nfunc TestNone", SUBTEST),
    ),
    "a comment says why an if skips": (
        "till_test.go", GO, GO.replace(HEAD, f"{HEAD}\t// it has no such files\n{SKIPS_IT}"),
    ),
    "a test is chosen by a condition, with its reason": (
        "web/till.test.js", JS, JS.replace(f"  {RULES}", f"  // ignore it on version 18\n{CHOSEN}"),
    ),
    "an attribute of Rust with its reason above others": (
        "src/till.rs", RUST,
        RUST.replace("    #[test]", "    /// It has no such paths.\n    #[test]\n    #[cfg(unix)]"),
    ),
    "a test that must unwind": (
        "src/till.rs", RUST,
        RUST.replace("#[test]", '#[test]\n#[cfg_attr(not(panic = "unwind"), ignore)]'),
    ),
    "a claim of a lambda": (
        "src/test/java/TillTest.java", JAVA.replace(SUM, "run(x -> { assertEquals(55, x); });"),
        JAVA.replace(SUM, "run(x -> assertEquals(55, x));"),
    ),
    "a value that has a name": (
        "web/till.test.js", JS.replace("load('shop')", "load('no shop')"),
        JS.replace("    await", "    const none = 'no shop'\n    await")
        .replace("load('shop')", "load(none)").replace("('no shop')", "(none)"),
    ),
    "a name of a file that is its constraint": (
        "till_linux_test.go", GO, f"//go:build linux\n\n{GO}",
    ),
}  # fmt: skip
WEAK = {
    "a case of a table is gone": ("till_test.go", GO, GO.replace("\t\t{2, 2},\n", "")),
    "a claim of quicktest": (
        "till_test.go", GO.replace(FATAL, "c.Assert(Due(), qt.Equals, 0)"),
        GO.replace(FATAL, "Due()"),
    ),
    "an if skips": ("till_test.go", GO, GO.replace(HEAD, f"{HEAD}{SKIPS_IT}")),
    "a test is chosen by a condition": (
        "web/till.test.js", JS, JS.replace(f"  {RULES}", CHOSEN),
    ),
    "an attribute of Rust": (
        "src/till.rs", RUST, RUST.replace("    #[test]", "    #[test]\n    #[cfg(unix)]"),
    ),
    "a name of a file that is another constraint": (
        "till_linux_test.go", GO, f"//go:build linux && arm\n\n{GO}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [*HONEST, *WEAK])
def test_a_reason_or_another_place_weakens_nothing(case: str) -> None:
    change = TextChange(*(HONEST | WEAK)[case])
    assert change.before != change.after
    found = weaker.compared([change], code_changed=False).weakenings
    assert bool(found) is (case in WEAK), found


def test_a_gate_of_go_that_its_code_has_as_well_is_no_weakening() -> None:
    gate = "//go:build !windows\n\n"
    test = TextChange("shop/till_test.go", GO, gate + GO)
    for path, number in (("shop/till.go", 0), ("till.go", 1)):
        code = TextChange(path, "package till\n", f"{gate}package till\n")
        assert len(weaker.compared([test, code], code_changed=True).weakenings) == number
    known = TextChange("shop/till.go", f"{gate}package till\n", f"{gate}package  till\n")
    assert len(weaker.compared([test, known], code_changed=True).weakenings) == 1


def test_of_several_skips_the_new_one_is_told() -> None:
    """The one that was there before is not taken for it."""
    both = GO.replace('0 {\n\t\tt.Fatal("none")', '0 {\n\t\tt.Skip("broken on it")\n\t\tt.Fatal()')
    change = TextChange("till_test.go", both, both.replace(HEAD, f"{HEAD}\tt.Skip()\n"))
    (found,) = weaker.compared([change], code_changed=False).weakenings
    assert found.message.endswith("TestNone: t.Skip()")


def test_a_mark_that_has_a_name_may_have_its_reason_in_another_file() -> None:
    before = "from marks import SKIP_WITHOUT_FORK\n\n\ndef test_due():\n    assert due() == 1\n"
    after = before.replace("def test", "@SKIP_WITHOUT_FORK\ndef test")
    mark = "SKIP_WITHOUT_FORK: Mark = pytest.mark.skipif(\n    not CAN, {}\n)\n"
    test = TextChange("tests/test_due.py", before, after)
    for said, number in (("reason='no fork there'", 0), ("run=False", 1)):
        marks = TextChange("tests/marks.py", "", mark.format(said))
        found = weaker.compared([test, marks], code_changed=False).weakenings
        assert len(found) == number, found
