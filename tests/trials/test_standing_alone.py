"""Whether a test uses nothing of the project."""

from __future__ import annotations

import pytest

from rlm_ci.trials.hollow_claims import signs
from rlm_ci.trials.touched_tests import touched

_GO = 'package x\nimport "testing"\ntype fake struct{ price int }\n'
_GO += "func (f fake) Price() int { return f.price }\nfunc TestA(t *testing.T) { %s }\n"
_RUST = (
    "struct Fake { price: i32 }\nimpl Priced for Fake { fn price(&self) -> i32 { self.price } }\n"
)
_RUST += "#[test]\nfn a() { %s }\n"


def is_alone(path: str, text: str) -> bool:
    content = text.encode()
    tests = touched({path: (None, content)}).tests
    (sign,) = signs(path, content, tests).values()
    assert sign.claims
    return sign.is_alone


@pytest.mark.parametrize(("path", "text"), [
    ("x.test.js", "test('a', () => { const f = jest.fn(() => 5); expect(f()).toBe(5); });"),
    ("x.test.ts", ("import { vi, test } from 'vitest';\nimport shop from './shop';\n"
                  "test('a', async () => { const f = vi.fn().mockResolvedValue({a: 1});"
                  " expect((await f()).a).toBe(1); });")),
    ("x.test.js", ("const test = require('node:test');\nconst assert = require('node:assert');\n"
                  "test('a', () => { const f = { get: () => 5 }; assert.equal(f.get(), 5); });")),
    ("x.test.js", ("class Fake { price() { return 5; } }\n"
                  "test('a', () => { expect(new Fake().price()).toBe(5); });")),
    ("x_test.go", _GO % "f := fake{price: 5}; if f.Price() != 5 { t.Fatal() }"),
    ("x_test.go", _GO % "f := func(a int) int { return 5 }; if f(1) != 5 { t.Fatal() }"),
    ("tests/x.rs", _RUST % "let f = Fake { price: 5 }; assert_eq!(f.price(), 5);"),
    ("tests/x.rs", _RUST % "assert!(true);"),
])  # fmt: skip
def test_nothing_of_the_project_is_used(path: str, text: str) -> None:
    assert is_alone(path, text)


@pytest.mark.parametrize(("path", "text"), [
    ("test_x.py", "def test_a():\n    assert 1 == 2\n"),
    ("x.test.js", ("test('a', () => { const f = jest.fn(); shop.each([1], f);"
                  " expect(f).toHaveBeenCalled(); });")),
    ("x.test.js", "import './extend';\ntest('a', () => { expect([1].last()).toBe(1); });"),
    ("x.test.js", "test('a', () => { expect(3).toBeOdd(); });"),
    ("x.test.js", "test('a', async () => { const s = await import('./s'); expect(s).toBe(1); });"),
    ("x.test.js", "test('a', function () { expect(this.shop.total()).toBe(1); });"),
    ("x.test.js", ("let shop;\nbeforeEach(() => { shop = open(); });\n"
                  "test('a', () => { expect(shop.total()).toBe(1); });")),
    ("x.test.js", ("class Fake extends Shop {}\n"
                  "test('a', () => { expect(new Fake().price()).toBe(5); });")),
    ("x.test.js", "import { expect } from '../src';\ntest('a', () => { expect(1).toBe(1); });"),
    ("x.test.ts", ("test('a', () => { const f = (s: z.Text) => s.min(1);"
                  " expect(z.text().apply(f)).toBe(1); });")),
    ("x.test.ts", "test('the types', () => { const f = () => 5; expect(f()).toBe(5); });"),
    ("x.test.tsx", "test('a', () => { const A = () => 'a'; expect(String(<A />)).toBe('a'); });"),
    ("x_test.go", _GO % "f := fake{5}; if Charge(f) != 5 { t.Fatal() }"),
    ("x_test.go", _GO.replace("price int", "Shop") % "f := fake{}; if f.Sum() != 5 { t.Fatal() }"),
    ("tests/x.rs", _RUST % "let f = Fake { price: 5 }; assert_eq!(f.charge(), 10);"),
    ("tests/x.rs", _RUST % "assert_eq!(charge(5), 10);"),
    ("src/lib.rs", ("pub fn charge(p: i32) -> i32 { p }\n#[cfg(test)]\nmod tests {\n"
                   "#[test]\nfn a() { assert_eq!(super::charge(5), 10); }\n}\n")),
])  # fmt: skip
def test_what_may_use_the_project(path: str, text: str) -> None:
    assert not is_alone(path, text)
