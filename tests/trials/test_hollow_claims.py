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
])  # fmt: skip
def test_tautologies_of_python(body: str) -> None:
    result = python(body)
    assert (result.claims, result.tautologies) == (1, 1)


@pytest.mark.parametrize("body", [
    "assert f(1) == 2", "assert f(1) == f(2)", "assert Point(1) == Point(1)", "assert f(1)",
    "x = f(1)\n    x = g(1)\n    assert x == f(1)", "assert f(1) is f(1)",
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
