"""What the text of a test says of its claims."""

from __future__ import annotations

import pytest

from rlm_ci.trials.hollow_claims import TextSigns, signs
from rlm_ci.trials.touched_tests import touched


def sign(path: str, text: str) -> TextSigns:
    content = text.encode()
    tests = touched({path: (None, content)}).tests
    return next(iter(signs(path, content, tests).values()))


def python(body: str, name: str = "test_it") -> TextSigns:
    return sign("tests/test_x.py", f"def {name}():\n    {body}\n")


@pytest.mark.parametrize("body", [
    "x = f()\n    assert x == x",
    "got = f()\n    want = [1]\n    want = got\n    assert got == want",
    "assert f(1) == f(1)",
    "want = f(1)\n    assert f(1) == want",
    "want = f(1)\n    got = f(1)\n    assert got == want",
    "assert sorted(x) == sorted(x), 'text'",
    "x.update(d)\n    want = f(x)\n    assert f(x) == want",
    "want = f(1)\n    d.update(want)\n    assert f(1) == want",
    "want = f(x)\n    got = f(x)\n    assert got == want",
    "g(x)\n    want = f(x)\n    got = f(x)\n    assert got == want",
    "want = f(x)\n    g(y)\n    assert f(x) == want",
])  # fmt: skip
def test_tautologies_of_python(body: str) -> None:
    result = python(body)
    assert (result.claims, result.tautologies) == (1, 1)


@pytest.mark.parametrize("body", [
    "assert f(1) == 2", "assert f(1) == f(2)", "assert Point(1) == Point(1)", "assert f(1)",
    "x = f(1)\n    x = g(1)\n    assert x == f(1)", "assert f(1) is f(1)",
    # What is compared is another thing since: by an operator, a method, an item, an attribute.
    "a = C(1)\n    b = C(1)\n    a |= d\n    b.update(d)\n    assert a == b",
    "a = C(1)\n    was = id(a)\n    a |= d\n    assert was == id(a)",
    "a = C(1)\n    b = C(1)\n    b.update(d)\n    assert a == b",
    "a = f(1)\n    b = f(1)\n    b[2] = 3\n    assert a == b",
    "a = f(1)\n    b = g(a)\n    a.x = 3\n    assert g(a) == b",
    # A call was given it between the two: before is compared with after.
    "was = f(path.stat())\n    set_key(path, 'a')\n    now = f(path.stat())\n    assert was == now",
    "was = f(path)\n    code = run(['set', path])\n    assert f(path) == was",
    "was = f(path)\n    for key in keys:\n        await run(key, path)\n    assert f(path) == was",
])  # fmt: skip
def test_claims_of_python(body: str) -> None:
    result = python(body)
    assert (result.claims, result.tautologies) == (1, 0)


def test_other_signs() -> None:
    assert python("m = Mock(return_value=1)\n    assert m() == 1").has_mocks
    assert python("try:\n        assert f()\n    except Exception:\n        pass").has_handler
    assert python("assert f() == f()", "test_is_cached").is_of_equality
    assert python("assert x == x", "test_eq").is_of_equality
    assert not python("assert f(1) == f(1)", "test_all_equal").is_of_equality
    assert not python("f()").claims


@pytest.mark.parametrize(("path", "text", "tautologies"), [
    ("x.test.js", "test('a', () => { const w = f(x); change(x); expect(f(x)).toBe(w); });", 0),
    ("x_test.go", ("package x\nfunc TestA(t *testing.T) { w := f(s)\nchange(s)\n"
                  "if f(s) != w { t.Fatal() } }"), 0),
    ("tests/x.rs", "#[test]\nfn a() { let w = f(&s); change(&mut s); assert_eq!(f(&s), w); }", 0),
    ("x.test.js", "test('a', () => { expect(f(1)).toBe(f(1)); });", 1),
    ("x.test.ts", "it('a', () => { const w = f(1); expect(f(1)).toEqual(w); });", 1),
    ("x.test.js", "test('a', () => { expect(f(1)).toBe(2); });", 0),
    ("x.test.mjs", "test('a', () => { assert.equal(f(1), f(1)); });", 1),
    ("x_test.go", "package x\nfunc TestA(t *testing.T) { if f(1) != f(1) { t.Fatal() } }", 1),
    ("x_test.go", "package x\nfunc TestA(t *testing.T) { if f(1) != 2 { t.Fatal() } }", 0),
    ("x_test.go", "package x\nfunc TestA(t *testing.T) { w := f(1)\nassert.Equal(t, w, f(1)) }", 1),
    ("tests/x.rs", "#[test]\nfn a() { let w = f(1); assert_eq!(f(1), w); }", 1),
    ("tests/x.rs", "#[test]\nfn a() { assert_eq!(f(1), 2); }", 0),
    ("x.test.js", "test('a', () => { const x = f(1); expect(x === x).toBe(true); });", 1),
    ("x.test.js", "test('a', () => { f(1); expect(1 + 1).toBe(2); });", 1),
    ("x.test.js", "test('a', () => { expect(f(1)).not.toBe(f(1)); });", 0),
    ("x.test.js", "test('a', () => { let n = 0; f(() => n++); expect(n).toBe(0); });", 0),
    ("x.test.js", "test('a', () => { const b = s.a; s.b = 1; expect(s.a).toBe(b); });", 0),
    ("x.test.js", "test('a', () => { assert(f(1) !== f(1)); });", 0),
    ("x.test.js", "test('a', () => { const b = f(s); s.add(1); expect(f(s)).toBe(b); });", 0),
    ("x_test.go", ("package x\nfunc TestA(t *testing.T) { w := f(s)\ns.Add(1)\n"
                  "if f(s) != w { t.Fatal() } }"), 0),
    ("tests/x.rs", "#[test]\nfn a() { let w = f(&s); s += 1; assert_eq!(f(&s), w); }", 0),
    ("x_test.go", ("package x\nfunc TestA(t *testing.T) { var w = f(1)\n"
                  "if g := f(1); g != w { t.Error(g) } }"), 1),
    ("x_test.go", "package x\nfunc TestA(t *testing.T) { if !(f(1) == f(1)) { t.Fatal() } }", 1),
    ("x_test.go", "package x\nfunc TestA(t *testing.T) { if f(1) == f(1) { t.Fatal() } }", 0),
    ("x_test.go", ("package x\nfunc TestA(t *testing.T) {"
                  " if !reflect.DeepEqual([]int{f(1)}, []int{f(1)}) { t.Fatal() } }"), 1),
    ("tests/x.rs", "#[test]\nfn a() { let x = f(1); assert!(x == x); }", 1),
    ("tests/x.rs", "#[test]\nfn a() { assert_ne!(f(1), f(1)); }", 0),
])  # fmt: skip
def test_other_languages(path: str, text: str, tautologies: int) -> None:
    result = sign(path, text)
    assert (result.claims, result.tautologies) == (1, tautologies)
