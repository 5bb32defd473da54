"""Tests that were written anew: with helpers, other names, other words for the same claim."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.compare import CodeChange, compare
from rlm_ci.guard.weakening import TextChange

PY, JS, GO, RUST, JAVA = "tests/test_a.py", "test/a.ts", "a_test.go", "tests/a.rs", "ATest.java"

WRITES = """\
def test_writes(tmp_path):
    def writer(pager):
        pager.write("prefix")
        echo("middle", file=pager)
        pager.write("suffix")

    output = run(tmp_path, writer)
    assert output == "prefix middle suffix"
"""
LISTED = """\
def _write(pager):
    pager.write("prefix")
    echo("middle", file=pager)
    pager.write("suffix")


@pytest.mark.parametrize(
    ("writer", "expected"),
    [(_write, "prefix middle suffix"), (lambda pager: pager.write("hello"), "hello")],
)
def test_real(tmp_path, writer, expected):
    output = run(tmp_path, writer)
    assert output == expected
"""
EXTENDS = """\
test('ky.extend()', async t => {
  const server = await serve();
  const extended = ky.extend({hooks: {before: [() => { isOrigin = true }]}});
  await extended(server.url);
  t.is(isOrigin, true);
  t.is((await extended.head(server.url)).ok, true);
});
"""
MACRO = """\
const hooks = test.macro<[boolean]>(async (t, asFunction) => {
  const server = await serve();
  const options = {hooks: {before: [() => { isOrigin = true }]}};
  const extended = ky.extend(asFunction ? () => options : options);
  await extended(server.url);
  t.is(isOrigin, true);
  t.is((await extended.head(server.url)).ok, true);
});
test('appends', hooks, false);
test('appends of a function', hooks, true);
"""
TIMED = """\
test('respects the backoff', async t => {
  const seen = await measure(server);
  t.true(Math.abs(seen - expected) < offset, `took ${seen}`);
  t.is(await ky(server.url).text(), 'fixture');
});
"""
TIMED_ELSEWHERE = """\
test('respects the backoff', async t => {
  await within(t, 300, async () => {
    t.is(await ky(server.url).text(), 'fixture');
  });
});
"""
WITHIN = """\
export async function within(t, expected, run) {
  const seen = await measure(run);
  t.true(Math.abs(seen - expected) < offset, `took ${seen}`);
}
"""
ONE_OF_GO = "func TestA(t *testing.T) {\n\tassert.Equal(t, f(), 1)\n}\n"
LEAVE = "func leave(t *testing.T, msg string) {\n\tt.Skip(msg)\n}\n\n"
HOOKS = """\
func TestHooks(t *testing.T) {
	got := run(parent, child)
	for _, one := range got {
		if one != "onetwo" {
			t.Errorf("wrong: %s", one)
		}
	}
	if len(got) != 5 {
		t.Errorf("wrong number")
	}
}
"""
HOOKS_HELPED = """\
func TestHooks(t *testing.T) {
	runHooks(t, []string{"parent", "child"})
	runHooks(t, []string{"child"})
}

func runHooks(t *testing.T, order []string) {
	got := run(parent, child)
	for at, one := range got {
		if one != order[at] {
			t.Errorf("wrong: %s", one)
		}
	}
}
"""
BROWSER = "test.serial('prefix option', withPage, async (t, page) => {\n  t.is(await f(), 1)\n})\n"
THROWS = "test('a', async t => {\n  const got = await f();\n  t.is(got, undefined);\n});\n"
PLAIN = "test('a', t => {\n  t.is(f(), '119');\n});\n"
PLATFORMS = """\
test('a', t => {
  if (version < 24) {
    t.is(f(), '119');
  } else {
    t.is(f(), '121');
  }
});
"""
SESSION = """\
def test_session(app, client):
    def get():
        assert not session.modified
        v = session.get("value", "None")
        assert not session.modified
        return v

    assert client.get("/get").data == b"42"
"""
SESSION_ACCESSED = """\
def test_session_accessed(app, client):
    def do_get():
        return session.get("value", "None")

    with client:
        rv = client.get()
        assert rv.text == "42"
        assert "cookie" in rv.vary
        assert not context.session.modified
"""
LIMIT = """\
test('totalTimeout: wins over the retry limit', t => {
  const a = ky(server, {timeout: 5, retry: 2, x: y.z});
  t.is(a, 1);
});
"""
TOTAL_LIMIT = """\
test('total timeout wins over the limit', t => {
  const b = fetch(url, {timeout: 7, total: 3});
  t.is(b, 2);
});
"""

#: A file before and after, others before and after, and whether code changed with them.
PREFIXED = """\
func TestGo(t *testing.T) {
	where := run()
	if !strings.HasPrefix(where, "//") || !strings.HasSuffix(where, "/there") {
		t.Fatalf("not there")
	}
}
"""
WHOLE = """\
func TestGo(t *testing.T) {
	where := run()
	if where != "/there" {
		t.Fatalf("not there")
	}
}
"""
BY_KIND = """\
def test_list_by_kind():
    found = shop.list('new')
    assert found[0].name == 'a'
"""
BY_ALL = """\
def test_list_by_all_arguments():
    found = shop.list('new', 'up', 3)
    assert found[0].name == 'b'
    assert len(found) == 54
"""
REFUSED = """\
test('does not follow', async t => {
  await t.throwsAsync(get('/far'), {code: 1});
  await t.throwsAsync(get('/ordinary-host'), {code: 1});
});
"""
FOLLOWED = """\
test('does not follow', async t => {
  await t.throwsAsync(get('/far'), {code: 1});
});
test('follows a plain name', async t => {
  t.is(await get('/ordinary-host'), 'ok');
});
"""
FAILS = """\
test('a', async t => {
  try { await f() } catch (e) { t.fail(e.stack) }
});
"""
OPTION = """\
	t.Run("tty", func(t *testing.T) {
		if run(WithTTY()) != 1 {
			t.Error()
		}
	})
"""
KEPT = "def test_a():\n    assert g() == 1\n"
OWNED = "    def test_size(self):\n        assert f(self.size) == 1\n"
SAME: dict[str, tuple[str, str, str, dict[str, tuple[str, str]]]] = {
    "a case of a list, by a function beside": (PY, WRITES, LISTED, {}),
    "in a macro": (JS, EXTENDS, MACRO, {}),
    "a claim in a helper": (JS, TIMED, TIMED_ELSEWHERE, {"test/helpers/within.ts": ("", WITHIN)}),
    "claims in a helper of Go": (GO, HOOKS, HOOKS_HELPED, {}),
    "by a function of one's own": (
        JS, BROWSER, BROWSER.replace("test.serial(", "browsersTest(").replace("withPage, ", ""), {},
    ),
    "a rejection for a value": (
        JS, THROWS,
        "test('a', async t => {\n  await t.throwsAsync(f(), {message: /end of input/});\n});\n", {},
    ),
    "one claim for two": (
        JS, "test('a', t => {\n  t.true(n >= 2, 'few');\n  t.true(n < 30, 'many');\n});\n",
        "test('a', t => {\n  t.true(n >= 2 && n < 30, 'wrong');\n});\n", {},
    ),
    "one claim for two, in Python": (
        PY, "def test_a():\n    assert f(1) == 2\n    assert g(3) == 4\n",
        "def test_a():\n    assert f(1) == 2 and g(3) == 4\n", {},
    ),
    "one value for a range": (
        JS, "test('a', t => {\n  t.true(n >= 0 && n <= 1);\n});\n",
        "test('a', t => {\n  t.is(n, 1);\n});\n", {},
    ),
    "an error by a helper of Go": (
        GO, "func TestA(t *testing.T) {\n\tif r := f(); r == nil {\n\t\tt.Errorf(\"x\")\n\t}\n}\n",
        'func TestA(t *testing.T) {\n\tPanicMatches(t, f, "x")\n}\n', {},
    ),
    "a test of a class from its base": (
        PY, f"class Base:\n{OWNED}class TestA(Base):\n{OWNED}",
        f"class Base:\n{OWNED}class TestA(Base):\n    size = 2\n", {},
    ),
    "that something is there, which is used": (
        PY, "def test_a():\n    assert a.stats\n    stats = a.stats\n    assert stats.n == 1\n",
        "def test_a():\n    stats = a.stats\n    assert stats.n == 1\n", {},
    ),
    "what is tried until it holds": (
        JS, "it('a', async () => {\n  expect(await page.text('b')).toBe('c')\n})\n",
        "it('a', async () => {\n  await expect.poll(() => page.text('b')).toBe('c')\n})\n", {},
    ),
    "nothing, where something was": (
        PY, "def test_a():\n    assert f() == 'x'\n", "def test_a():\n    assert f() == ''\n", {},
    ),
    "by platform": (JS, PLAIN, PLATFORMS, {}),
    "an error that nobody raises": (
        PY, "def test_a():\n    def b(): AssertionError()\n    assert f(b) == 1\n",
        "def test_a():\n    assert f() == 1\n", {},
    ),
    "a longer name": (PY, SESSION, SESSION_ACCESSED, {}),
    "another name, in camel case": (JS, LIMIT, TOTAL_LIMIT, {}),
    "written anew in its place, for more": (PY, BY_KIND, BY_ALL, {}),
    "all of a text for both of its ends": (GO, PREFIXED, WHOLE, {}),
    "a refusal that is lifted": (JS, REFUSED, FOLLOWED, {}),
    "a failure that is thrown": (JS, FAILS, FAILS.replace("t.fail(e.stack)", "throw e"), {}),
    "a test that was left out already": (
        JS, "test.skip('old', t => { t.is(f(), 1) });\ntest('a', t => { t.is(g(), 1) });\n",
        "test('a', t => { t.is(g(), 1) });\n", {},
    ),
    "a test of nothing": (
        JS, "test('x', t => {\n  t.pass();\n});\ntest('a', t => { t.is(g(), 1) });\n",
        "test('a', t => { t.is(g(), 1) });\n", {},
    ),
    "brackets around what skips": (
        JS, "const fn = (os === 'win32') ? test.skip : test;\ntest('a', t => { t.is(g(), 1) });\n",
        "const fn = os === 'win32' ? test.skip : test;\ntest('a', t => { t.is(g(), 1) });\n", {},
    ),
    "a helper that is given the reason": (GO, ONE_OF_GO, LEAVE + ONE_OF_GO, {}),
    "another name for what skips": (
        JS, "const fn = darwin ? test.skip : test;\ntest('a', t => { t.is(g(), 1) });\n",
        "const testFunction = darwin ? test.skip : test;\ntest('a', t => { t.is(g(), 1) });\n", {},
    ),
}  # fmt: skip
#: The same for tests that ask for less, and what is told of them.
LESS: dict[str, tuple[str, str, str, str]] = {
    "a helper that nobody calls": (
        JS, TIMED, TIMED.replace("  t.true(Math", "  // t.true(Math") + WITHIN,
        "respects the backoff no longer says: t.true(Math.abs(seen-expected)<offset,`took ${seen}`",
    ),
    "a helper of Go that checks nothing": (
        GO, "func TestA(t *testing.T) {\n\tif r := f(); r == nil {\n\t\tt.Errorf(\"x\")\n\t}\n}\n",
        'func TestA(t *testing.T) {\n\tshow(t, f, "x")\n}\n', "TestA no longer says: if r:=f()",
    ),
    "a test of a class that its base has not": (
        PY, f"class Other:\n{OWNED}class TestA(Base):\n{OWNED}",
        f"class Other:\n{OWNED}class TestA(Base):\n    size = 2\n", "TestA.test_size is gone",
    ),
    "that something is there, which is not used": (
        PY, "def test_a():\n    assert a.stats\n    assert a.n == 1\n",
        "def test_a():\n    assert a.n == 1\n", "test_a no longer says: assert a.stats",
    ),
    "one of two in one": (
        JS, "test('a', t => {\n  t.true(n >= 2 && n < 30);\n});\n",
        "test('a', t => {\n  t.true(n >= 2);\n});\n",
        "a no longer says: t.true(n>=2&&n<30)",
    ),
    "an error that is raised": (
        PY, "def test_a():\n    if f():\n        raise AssertionError('x')\n    assert g()\n",
        "def test_a():\n    assert g()\n",
        "test_a no longer says: raise AssertionError('x')",
    ),
    "a rejection that is gone": (
        JS, "test('a', async t => {\n  await t.throwsAsync(f());\n  t.is(g(), 1);\n});\n",
        "test('a', async t => {\n  await f();\n  t.is(g(), 1);\n});\n",
        "a no longer says: await t.throwsAsync(f())",
    ),
    "another name, half alike": (
        PY, "def test_load_context():\n    context = make(verify=ssl)\n    assert context is ssl\n",
        "def test_context_repr():\n    ssl = context()\n    assert repr(ssl) == 'x'\n",
        "test_load_context is gone",
    ),
    "nothing, to be in it": (
        PY, "def test_a():\n    assert 'x' in f()\n    assert f() == 'x'\n",
        "def test_a():\n    assert 'x' in f()\n    assert f() is not None\n",
        "test_a asks for less than: assert f() == 'x'",
    ),
    "the claim that has no other": (
        PY, "def test_a():\n    assert made[0].text() == styled\n    assert pager is made[0]\n",
        "def test_a():\n    assert stream.text() == styled\n    assert not stream.closed\n",
        "test_a asks for less than: assert pager is made[0]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PY, "def test_a():\n    if left():\n        pytest.fail(f'left: one')\n"),
        (GO, 'func TestA(t *testing.T) {\n\tif a() != 1 {\n\t\tt.Errorf("one: %v", a())\n\t}\n}\n'),
    ],
)
def test_what_is_said_of_a_failure_is_no_claim(path: str, text: str) -> None:
    assert compare([TextChange(path, text, text.replace("one", "other"))]).weakenings == ()
    gone = text.replace("pytest.fail", "print").replace("t.Errorf", "t.Logf")
    assert len(compare([TextChange(path, text, gone)]).weakenings) == 1


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [
        ("assert future.result(1)", "assert future.result(5)", False),
        ("assert future.result() == 1", "assert future.result() == 5", True),
        ("assert f() == 'all'\n    assert g() == 1", "assert f() == 'all'", True),
    ],
)
def test_the_argument_of_what_is_true_is_no_expected_value(
    old: str, new: str, *, is_told: bool
) -> None:
    before = f"def test_a():\n    {old}\n"
    change = TextChange(PY, before, before.replace(old, new))
    assert bool(compare([change]).weakenings) is is_told


def test_with_no_code_a_test_in_its_place_claims_as_much() -> None:
    before = f"{KEPT}def test_list_of_all():\n    box = open(5)\n    assert box.list(6, 7) == 8\n"
    new = "def test_every_row_of_the_list():\n    box = fill(5)\n    assert box.rows(6, 7) == 4\n"
    more = TextChange(PY, before, f"{KEPT}{new}    assert box.rows(3) == 0\n")
    assert compare([more]).weakenings == ()
    less = new.replace("assert box.rows(6, 7) == 4", "box.rows(6, 7, box, fill, 4)")
    (found,) = compare([TextChange(PY, before, f"{KEPT}{less}")]).weakenings
    assert found.message == "test_list_of_all is gone"


def test_a_subtest_goes_with_the_option_that_it_names() -> None:
    other = OPTION.replace("tty", "file").replace("WithTTY", "WithFile")
    before = f"func TestOptions(t *testing.T) {{\n{OPTION}{other}}}\n"
    change = [TextChange(GO, before, before.replace(OPTION, ""))]
    assert compare(change, CodeChange(True, lambda: frozenset(("WithTTY",)))).weakenings == ()
    assert compare(change, CodeChange(True, lambda: frozenset(("WithNet",)))).weakenings != ()


@pytest.mark.parametrize("case", SAME)
def test_as_much_in_other_words_is_no_less(case: str) -> None:
    path, before, after, others = SAME[case]
    more = [TextChange(name, *sides) for name, sides in others.items()]
    found = compare([TextChange(path, before, after), *more], CodeChange(changed=True))
    assert found.weakenings == ()


@pytest.mark.parametrize("case", LESS)
def test_less_is_told_with_what_is_gone(case: str) -> None:
    path, before, after, message = LESS[case]
    found = compare([TextChange(path, before, after)], CodeChange(changed=True))
    assert [one.message[: len(message)] for one in found.weakenings] == [message]
