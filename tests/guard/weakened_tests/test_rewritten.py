"""What reading alone cannot decide is told, and no alarm; what it can stays one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import RestOfTree, TextChange

PY, GO, JS = "tests/test_till.py", "till_test.go", "test/till.test.ts"
CODE = TextChange("till.py", "def due_of(a):\n    return a\n", "def due_all(a):\n    return a\n")
OTHER_CODE = TextChange("till.py", "A = 1\n", "A = 2\n")

CLASS = """\
def test_instance():
    with pytest.raises(TypeError) as error:
        fields(C())
    assert fields(C) == 3
"""
CLASS_NOW = """\
def test_instance():
    assert fields(C()) is fields(C)
    assert fields(C) == 3


def test_other():
    with pytest.raises(TypeError, match="must be a class"):
        fields(object())
"""
SAVES = """\
package till

func TestSave(t *testing.T) {
	require.NoError(t, save(f, "letter"))
	t.Cleanup(func() {
		assert.NoError(t, os.Remove("letter"))
	})
	assert.Equal(t, read("letter"), 1)
}
"""
SAVES_ELSEWHERE = """\
package till

func TestSave(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "below", "letter")
	require.NoError(t, save(f, dst))
	assert.Equal(t, read(dst), 1)
}
"""
FAKE = """\
def fail():
    raise OSError("write {}")


def test_write():
    assert write(fail) == "write {}"
"""
ASKS = """\
test('refuses', function (done) {
  const server = http.createServer((req, res) => res.end(all)).listen(4444, () => {
    let failure = false, error
    get(url, {most: 2000}).catch((e) => { error = e; failure = true })
    assert.equal(failure, true)
    assert.equal(error.message, 'size of 2000 exceeded')
    done()
  })
})
"""
ASKS_ANEW = """\
test('refuses', async function () {
  const server = await startServer((req, res) => {
    res.setHeader('Content-Type', 'text/html')
    res.end(Array(5000).join('#'))
  }, {port: 4444})
  await assert.rejects(() => get(url, {most: 2000, redirects: 0}), /size of 2000 exceeded/)
})
"""
LOST = (
    "def test_due():\n    assert due_of([20, 35]) == 55\n\n\ndef test_b():\n    assert 1 == b()\n"
)
KEPT = "def test_b():\n    assert 1 == b()\n"
ANEW = (
    "def test_prices_of_two():\n    till = open_till()\n    till.add(20)\n    till.add(35)\n"
    "    assert due_of(till.prices()) == [55]\n\n\n"
)
DUE = "def test_due():\n    assert due_of([20, 35]) == 55\n    assert due_of([]) == 0\n\n\n"

TWICE = """\
def test_shows():
    assert shown(re.compile("a")) == "re(a)"
    # as older versions have it
    assert shown(re.compile("a")) == "re(a)"
"""
HOSTS = """\
def test_host_matching():
    table = Map([Rule("/", host="www.<domain>")], host_matching=True)
    assert table.bind("www.example.com").match("/") == {"domain": "example.com"}
"""
HOST_CLASS = """\
class TestHostMatching(Routing):
    def test_match(self):
        assert self.match() == ("index", {})
"""
SKIPS = """\
describe('schemas', () => {
  test('can be skipped globally', () => {
    const api = makeApi({ skip: true })
    expect(api.run(1).error).toBeUndefined()
  })
})
"""
SKIPS_TABLE = """\
const cases = [['globally', { skip: true }], ['on the endpoint', { skipOne: true }]]
describe('schemas', () => {
  test.each(cases)('can be skipped %s', (_, options) => {
    expect(makeApi(options).run(1).error).toBeUndefined()
  })
})
"""
TYPES = "test('types', () => {{\n  {}\n}})\n"
RUNS = """\
test('subscribes', async () => {
  const promise = start()
  expect(isSubscribed(`${promise.id}_running`)).toBe(false)
  expect(await promise).toBe(3)
})
"""
RUNS_NOW = RUNS.replace("  expect(isSubscribed(`${promise.id}_running`)).toBe(false)\n", "")
BUILDER = (
    "test('builds', () => {{\n  builder.add(thunk, {{ {}() {{ expect(due()).toBe(1) }} }})\n}})\n"
)
GATED = """\
#[cfg({})]
fn from(x: &[u32]) -> Vec<u32> { x.to_vec() }

#[test]
fn sums() {
    assert_eq!(due(&from(&[20, 35])), 55);
}
"""
LARGE = """\
#[test]
#[cfg(feature = "large")]
fn large_numbers() {
    compare!(i128::MIN i128::MAX);
}

#[test]
fn numbers() {
    compare!(0 1 100);
    assert_eq!(due(&[]), 0);
}
"""
LARGE_MERGED = """\
#[test]
fn numbers() {
    compare!(0 1 100);
    assert_eq!(due(&[]), 0);
    #[cfg(feature = "large")]
    compare!(i128::MIN i128::MAX);
}
"""
REDIRECTS = """\
package till

func TestRedirect(t *testing.T) {
	if code, body := ask("/none"); body != "none" && code != 200 {
		t.Fatal(body)
	}
}
"""
GATE = '#[cfg(feature = "small")]\n'
ISSUE = "test('refuses', () => {{\n  expect(ok).toBe(true)\n  {}\n}})\n"
WRITER = """\
package till

func TestWrite(t *testing.T) {
	c.Writer = &mockWriter{err: fmt.Errorf("broken")}
	assert.Equal(t, 3, write(c))
}
"""
FIELDS = """\
#[test]
fn writes() {
    let encoded = encode(Encode {
        head: &mut head,
        date_header: true,
    });
    assert_eq!(encoded, "head");
}
"""
TITLED = """\
test('exchangeMessage() answers', async t => {
  t.is(await make(), 'a')
})
"""
OTHER = "test('other', t => { t.is(one(), 1) })\n"
EXCHANGE = TextChange("src/a.ts", "export function exchangeMessage() {}\n", "export {}\n")
ROW = "test('escapes spaces{}', async t => {{\n  t.is(await run({}), 'x')\n}})\n"
MACRO_ROWS = """\
const check = async (t, given, expected) => { t.is(await run(given), expected) }
test('escapes spaces', check, 'a b', 'x')
test('escapes many spaces', check, 'a  b', 'x')
"""
BRANCHED = """\
test('ends', async t => {
  const {code} = await end()
  if (isWindows) {
    t.is(code, 'EPERM')
  } else {
    t.is(code, undefined)
  }
})
"""
BRANCHED_NO_MORE = (
    "test('ends', async t => {\n  const {code} = await end()\n  t.is(code, undefined)\n})\n"
)
ERROR = "#[test]\nfn a() {\n    let err = ask();\n    assert!({});\n}\n"
CASE = """\
    ("/a|b", "category", 17),
    ("/b|c", "product", 18),
"""
HOSTED = f"""\
@pytest.mark.parametrize(("path", "name", "number"), [
    ("/host", "domain", 12),
{CASE}])
def test_host(path, name, number):
    assert match(path) == (name, number)


@pytest.mark.parametrize(("path", "name", "number"), [
    ("/path", "page", 13),
])
def test_path(path, name, number):
    assert match(path) == (name, number)
"""
HOSTED_APART = HOSTED.replace(CASE, "").replace('"page", 13),\n', f'"page", 13),\n{CASE}')
NOTHING = "#[test]\nfn a() {\n    assert_eq!(due(&[20]), None);\n}\n"
NOTHING_AT_ALL = NOTHING.replace("assert_eq!(due(&[20]), None)", "assert!(due(&[20]).is_none())")
BOTH_FORMS = "//go:build linux\n// +build linux\n\n"
FORM = """\
test('{}', async t => {{
  const form = new {}()
  form.append('a', 'b')
  t.is((await post(form)).headers['{}'], '{}')
}})
"""
FORMS = FORM.format("form-data manual type header", "FormData", "type", "custom") + FORM.format(
    "sets type header for compliant form data", "FormNode", "type", "multipart"
)
FORMS_NATIVE = FORM.format("sets type header for native form data", "Native", "type", "multipart")
LINKS = """\
package till

func TestLinks(t *testing.T) {
	link, err := makeLink(t, "a")
	if err != nil {
		t.Fatal("no link", err)
	}
	assert.True(t, exists(link))
}

func makeLink(t *testing.T, file string) (string, error) {
	return file, os.Symlink(file, file)
}
"""
LINKS_HELPED = """\
package till

func TestLinks(t *testing.T) {
	link := makeLink(t, "a")
	assert.True(t, exists(link))
}

func makeLink(t *testing.T, file string) string {
	if err := os.Symlink(file, file); err != nil {
		t.Fatal("no link", err)
	}
	return file
}
"""
TIDY = """\
package till

func TestFiles(t *testing.T) {
	assert.True(t, exists("a"))
	errs := tidyUp("a")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
}

func tidyUp(file string) []error {
	return remove(file)
}
"""
STARTS = TextChange(
    "src/start.ts", "ask(`${id}_running`)\n", "const all = getSubscriptions()\nask(all)\n"
)
OTHER_SCRIPT = TextChange("src/start.ts", "a()\n", "b()\n")
PACKAGE = TextChange("examples/old/package.json", '{"name": "old"}\n', None)

PARSES = """\
#[cfg(test)]
mod tests {
    #[test]
    fn parse_hour() {
        let parser = Parser::new(b"5");
        assert_eq!(parser.hour(), Ok(5));
    }
}
"""

#: The path, before, after, and what else changes: what a reviewer is told of.
TOLD: dict[str, tuple[str, str, str | None, list[TextChange]]] = {
    "an error that another test asks for": (PY, CLASS, CLASS_NOW, [OTHER_CODE]),
    "files that a test removes, and other paths": (GO, SAVES, SAVES_ELSEWHERE, []),
    "a value that a helper of the tests makes": (
        PY, FAKE.format("2", "2"), FAKE.format("error", "error"), [],
    ),
    "a test with other set-up": (JS, ASKS, ASKS_ANEW, []),
    "a test of what the code says no more": (PY, LOST, KEPT, [CODE]),
    "a test in whose place another one stands": (PY, DUE + KEPT, ANEW + KEPT, [OTHER_CODE]),
    "another value, which is empty": (
        PY, DUE, DUE.replace("== 55", "is None"), [OTHER_CODE],
    ),
    "a claim that stands there twice": (PY, TWICE, TWICE[: TWICE.index("    #")], []),
    "a test that became a class": (PY, HOSTS, HOST_CLASS, [OTHER_CODE]),
    "a test that became a row of a table": (JS, SKIPS, SKIPS_TABLE, []),
    "a claim about what the code says no more": (JS, RUNS, RUNS_NOW, [STARTS]),
    "a claim about types in another form": (
        JS, TYPES.format("expectTypeOf(f).parameter(0).not.toMatchTypeOf({ input: 3 })"),
        TYPES.format("expectTypeOf<Parameters<typeof f>[0]>().not.toExtend<{ input: number }>()"),
        [],
    ),
    "a key that is named like a skip": (
        JS, BUILDER.format("add"), BUILDER.format("pending"), [OTHER_SCRIPT],
    ),
    "a gate of a helper": (
        "tests/a.rs", GATED.replace("{}", "small"), GATED.replace("{}", 'arithmetic = "32"'), [],
    ),
    "a property that a snapshot in the test has": (
        JS, ISSUE.format("expect(issues[0].inclusive).toBe(false)"),
        ISSUE.format('expect(issues).toMatchInlineSnapshot(`[{ "inclusive": false }]`)'), [],
    ),
    "an error that a helper returns": (
        GO, WRITER, WRITER.replace('fmt.Errorf("broken")', 'errors.New("broken")'), [],
    ),
    "a test with a name that is much the same": (JS, FORMS, FORMS_NATIVE, [OTHER_SCRIPT]),
    "a constraint of Go in its new form": (
        GO, f"// +build linux\n\n{SAVES}", f"{BOTH_FORMS}{SAVES}", [],
    ),
    "nothing, in Rust's words": ("tests/a.rs", NOTHING, NOTHING_AT_ALL, [OTHER_CODE]),
    "a test whose title names what the code says no more": (JS, TITLED + OTHER, OTHER, [EXCHANGE]),
    "a row of a macro with a longer name": (JS, ROW.format(" in words", "'a b'"), MACRO_ROWS, []),
    "a claim that had a condition": (JS, BRANCHED, BRANCHED_NO_MORE, [OTHER_SCRIPT]),
    "a text that is a name by now": (
        "tests/a.rs", ERROR.replace("{}", 'err.to_string().contains("Timeout")'),
        ERROR.replace("{}", "matches!(err, Failure::Timeout { .. })"), [],
    ),
    "a value that a helper in another file makes": (
        JS, TITLED, TITLED.replace("'a'", "'b'"),
        [TextChange("test/helpers/make.ts", "export function make() { f('a') }\n",
                    "export function make() { f('b') }\n")],
    ),
    "a value that has a name by now": (
        GO, REDIRECTS, REDIRECTS.replace("code != 200", "code != http.StatusOK"), [],
    ),
    "cases that moved to another test": (PY, HOSTED, HOSTED_APART, []),
    "a panic that is mended": (
        "tests/a.rs", NOTHING.replace("#[test]", '#[test]\n#[should_panic = "broken"]'), NOTHING,
        [OTHER_CODE],
    ),
    "an error that a helper looks at": (GO, LINKS, LINKS_HELPED, []),
    "a helper that tidied up": (GO, TIDY, TIDY.partition("	errs")[0] + "}\n", []),
    "a gate of a field": (
        "tests/a.rs", FIELDS, FIELDS.replace("        date", f"        {GATE}        date"), [],
    ),
    "a gate that the code beside has, too": (
        "src/due.rs", f"fn due() {{}}\n\n{PARSES}",
        f"{GATE}fn due() {{}}\n\n{PARSES}".replace("    #[test]", f"    {GATE}    #[test]"), [],
    ),
    "a gate of a part of a test": ("tests/a.rs", LARGE, LARGE_MERGED, []),
    "two conditions, each of which fails the test": (
        GO, REDIRECTS, REDIRECTS.replace("&& code != 200", "|| code != 404"), [],
    ),
    "a test of a package that is gone": ("examples/old/test/a.test.js", SKIPS, None, [PACKAGE]),
}  # fmt: skip
#: The same where it is certain.
ALARMS: dict[str, tuple[str, str, str | None, list[TextChange]]] = {
    "an error that no other test asks for": (
        PY, CLASS, CLASS.replace("with pytest.raises(TypeError) as error", "if C"), [OTHER_CODE],
    ),
    "another value": (PY, FAKE.format("2", "2"), FAKE.format("2", "error"), []),
    "another input in the claim": (PY, LOST, LOST.replace("[20, 35]", "[55]"), []),
    "less of the product": (
        GO, SAVES, SAVES.replace('require.NoError(t, save(f, "letter"))', 'save(f, "letter")'), [],
    ),
    "other set-up that asks for less": (
        JS, ASKS, ASKS_ANEW.replace("await assert.rejects", "await Promise.any"), [],
    ),
    "a test of what the code still says": (PY, LOST, KEPT, [OTHER_CODE]),
    "an empty value, where no code changed": (PY, DUE, DUE.replace("== 55", "is None"), []),
    "one of two claims that differ": (PY, TWICE.replace('"a")', '"b")', 1), TWICE[: 70], []),
    "a constraint of Go that asks for more": (
        GO, f"// +build linux\n\n{SAVES}", f"//go:build linux && nightly\n\n{SAVES}", [],
    ),
    "cases that no other test has": (PY, HOSTED, HOSTED.replace(CASE, ""), []),
    "an error that no helper looks at": (
        GO, LINKS, LINKS.partition("	if err")[0] + LINKS[LINKS.index("	assert") :], [],
    ),
    "a helper that stays": (
        GO, TIDY, TIDY.replace("	if len(errs) > 0 {\n		t.Fatal(errs)\n	}\n", ""), [],
    ),
    "a gate that the code beside has not": (
        "src/due.rs", f"fn due() {{}}\n\n{PARSES}",
        f"fn due() {{}}\n\n{PARSES}".replace("    #[test]", f"    {GATE}    #[test]"), [],
    ),
    "a claim about what the code still says": (JS, RUNS, RUNS_NOW, [OTHER_SCRIPT]),
    "a test of a package that stays": ("examples/old/test/a.test.js", SKIPS, None, []),
    "a test beside its function in Rust": (
        "src/due.rs", f"fn due() {{}}\n\n{PARSES}", "fn due() {}\n", [OTHER_SCRIPT],
    ),
}  # fmt: skip


def compared(path: str, before: str, after: str | None, more: list[TextChange]) -> list[str]:
    changes = [TextChange(path, before, after), *more]
    return [one.rule for one in weaker.compared(changes, code_changed=bool(more)).weakenings]


@pytest.mark.parametrize("case", TOLD)
def test_what_reading_cannot_decide_is_no_alarm(case: str) -> None:
    assert compared(*TOLD[case]) == []


@pytest.mark.parametrize("case", ALARMS)
def test_what_is_certain_stays_an_alarm(case: str) -> None:
    assert compared(*ALARMS[case]) != []


class OtherCrate(RestOfTree):
    """A crate of its own with a test that did not change."""

    def __init__(self, text: str) -> None:
        self.text = text

    def with_names(self, _names: Collection[str]) -> Iterable[tuple[str, str]]:
        return [("core/src/posix.rs", self.text)]


@pytest.mark.parametrize(
    ("there", "is_told"),
    [
        (PARSES.replace("Parser::new", "parser::Parser::of"), False),
        ("#[test]\nfn parse_hour() {\n    assert!(all());\n}\n", True),
        (PARSES.replace("parse_hour", "parse_minute"), True),
    ],
)  # fmt: skip
def test_code_may_go_with_its_tests_that_another_crate_has(there: str, *, is_told: bool) -> None:
    gone = [TextChange("src/posix.rs", PARSES, None), TextChange("src/lib.rs", "mod posix;\n", "")]
    found = weaker.compared(gone, code_changed=True, tree=OtherCrate(there)).weakenings
    assert bool(found) is is_told


def test_what_no_runner_collected_is_no_test() -> None:
    text = "def test(x):\n    assert total(x) == 3\n"
    for path, told in (("tests/typing_example.py", 0), ("tests/test_example.py", 1)):
        gone = [TextChange(path, text, None)]
        assert len(weaker.compared(gone, code_changed=False).weakenings) == told
