"""Tests in JavaScript in other forms, run by the runners that people have."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.canary.forms import (
    ALTERED,
    IDLE,
    INVERTED,
    NEARLY,
    REACHED,
    REWORDED,
    STOPPED,
    UnparsableError,
)
from rlm_ci.canary.javascript import reader
from testing import node_packages

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.canary.forms import ChangedTest

FORMS = (ALTERED, INVERTED, REWORDED, STOPPED, REACHED, IDLE, NEARLY)
#: What is under test; a wrong one where WRONG is set.
CALC = """\
const wrong = Boolean(process.env.WRONG)
const add = (a, b) => a + b + (wrong ? 1 : 0)
const later = async (a, b) => add(a, b)
const fail = message => { throw new TypeError(wrong ? 'another' : message) }
const reject = async message => fail(message)
const user = () => ({ name: wrong ? 'Bob' : 'Ada', tags: ['é', 'b'], age: wrong ? 1 : 36 })
const call = (value, done) => setTimeout(() => done(null, wrong ? -1 : value), 1)
"""
EXPORTS = "{ add, later, fail, reject, user, call }"
NODE = """\
#!/usr/bin/env node
import { describe, it, test as check } from 'node:test'
import assert, { strictEqual } from 'node:assert/strict'
import { add, later, fail, reject, user, call } from './calc.mjs'

check('équal', () => {
  strictEqual(add(1, 2), 3) // ünicode
  assert.equal(user().name, "Ada")
})
check('deep', t => { t.diagnostic('x'); assert.deepEqual(user(), { name: 'Ada',
    tags: ['é', 'b'], // in between
    age: 36 }) })
check('arrow body', () => assert.equal(add(2, 2), 4))
check('truth', () => { assert(add(1, 1) === 2); assert.ok(!(add(1, 1) !== 2), 'said') })
check('thrown', () => assert.throws(() => fail('boom'), /boom/))
check('rejected', async () => { await assert.rejects(reject('boom'), { message: 'boom' }) })
check('returned', () => { return assert.rejects(() => reject('boom'), /boom/) })
check('callback', (t, done) => {
  call(5, (error, value) => { assert.equal(value, 5); done(error) })
})
check('of a context', async t => {
  t.assert?.equal
  const inner = async x => { assert.equal(await later(x, 1), x + 1) }
  for (const one of [1, 2]) await inner(one)
})
check('handled', () => {
  try { assert.ok(true); fail('boom'); assert.fail('not here') }
  catch (error) { assert.match(error.message, /boom/) }
})
check('no claim', () => { if (add(1, 1) !== 2) { throw new Error('no') } })
check('called back at once', (t, done) => {
  const heard = []; heard.push(done); heard.forEach(one => one(add(1, 1) === 2 ? null : 'no'))
})
check('request', (t, done) => {
  const ask = code => ({
    expect(one) { if (one !== code) throw new Error(`expected ${one}`); return this },
    end: ended => ended(),
  })
  ask(add(199, 1)).expect(200).end(done)
})
check('early return', () => { if (add(1, 1) === 2) return; throw new Error('no') })
check('promise', () => later(1, 1).then(sum => { if (sum !== 2) throw new Error('no') }))
check.skip('skipped', () => { assert.equal(1, 2) })
check('meant to fail', { todo: true }, () => { assert.equal(1, 2) })
describe('suite', () => {
  for (const n of [1, 2]) it(`adds ${n}`, () => {
    add(n, 0) === n || fail('x'); assert.equal(add(n, 0), n)
  })
  it('says ' + "so", () => { add(1, 2) && assert.equal(add(1, 2), 3), true })
})
"""
_LINE = re.compile(r"^ *(not )?ok \d+ - (.*?)(?: # (?:SKIP|TODO).*)?$", re.MULTILINE)


def made(
    name: str, text: str, form: str, *, seed: int = 0, plain: bool = False
) -> tuple[str, dict[str, ChangedTest]]:
    """The text with every test in a form; it can still be read, with the same tests."""
    found = [one.name for one in reader.tests(name, text)]
    chance = random.Random(seed)
    changed = reader.change(name, text, dict.fromkeys(found, form), chance, plain=plain)
    assert [one.name for one in reader.tests(name, changed.text)] == found
    assert {*changed.changed_tests} == {*found}
    return changed.text, changed.changed_tests


def node_outcomes(place: Path, name: str, *, wrong: bool = False) -> dict[str, tuple[bool, str]]:
    """Whether each test of a file passed, by its title, and what the runner says about it."""
    environ = {**os.environ, "WRONG": "1" if wrong else ""}
    command = ["node", "--test-reporter=tap", name]
    ran = subprocess.run(
        command, cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    found = list(_LINE.finditer(ran.stdout))
    ends = [one.start() for one in found[1:]] + [len(ran.stdout)]
    return {
        one[2]: (not one[1], ran.stdout[one.start() : end])
        for one, end in zip(found, ends, strict=True)
    }


def is_named(title: str, name: str) -> bool:
    last = re.escape(name.rpartition("::")[2]).replace(r"\*", ".*")
    return re.fullmatch(last, title) is not None


def judged(
    form: str,
    made: dict[str, ChangedTest],
    outcomes: dict[str, tuple[bool, str]],
    *,
    wrong: bool = False,
) -> None:
    """Every test ended as its form asks for, and says its token where it failed."""
    for name, what in made.items():
        ended = [one for title, one in outcomes.items() if is_named(title, name)]
        assert ended, (name, list(outcomes))
        passes = what.form in (REWORDED, IDLE) and not (wrong and what.form == REWORDED)
        for is_passed, output in ended:
            assert is_passed == passes, (form, name, output)
            if not passes and not wrong:
                assert any(word in output for word in what.tokens), (form, name, what, output)


@pytest.mark.full
@pytest.mark.parametrize("plain", [False, True])
def test_forms_of_tests_for_node(tmp_path: Path, *, plain: bool) -> None:
    (tmp_path / "calc.mjs").write_text(f"{CALC}export {EXPORTS}\n")
    for number, form in enumerate(FORMS):
        text, changes = made("a.mjs", NODE, form, seed=number, plain=plain)
        name = f"{form}.mjs"
        (tmp_path / name).write_text(text, encoding="utf-8")
        judged(form, changes, node_outcomes(tmp_path, name))
    judged(
        REWORDED,
        made("a.mjs", NODE, REWORDED)[1],
        node_outcomes(tmp_path, "reworded.mjs", wrong=True),
        wrong=True,
    )


VITEST = """\
import { describe, expect, it, test, vi } from 'vitest'
import { add, later, fail, reject, user, call } from './calc'

interface Row { a: number; sum: number }
describe('matchers', () => {
  it('equal', () => expect(add(1, 2)).toBe(3))
  it('not equal', () => { expect<number>(add(1, 2)).not.toBe(4); })
  it('objects', () => {
    expect(user()).toEqual({ name: 'Ada', tags: expect.arrayContaining(['b']), age: 36 })
    expect(user() as unknown).toMatchObject({ name: 'Ada' } as const)
  })
  it('thrown', () => { expect(() => fail('boom')).toThrow('boom') })
  it('resolved', async () => { await expect(later(1, 2)).resolves.toBe(3) })
  it('rejected', () => expect(reject('boom')).rejects.toThrow(/boom/))
  it('soft', () => { expect.soft(add(1, 1)).toBe(2) })
  it('chai', () => { expect(add(1, 1)).to.equal(2); expect(add(1, 1) === 2).to.be.true })
  it('snapshot', () => { expect(user().name).toMatchInlineSnapshot(`"Ada"`) })
  it('polled', async () => {
    let seen = 0
    setTimeout(() => { seen = add(1, 1) }, 5)
    await vi.waitFor(() => expect(seen).toBe(2), { timeout: 200 })
  })
  it('asked again', async () => {
    let seen = 0
    setTimeout(() => { seen = add(1, 1) }, 5)
    await expect.poll(() => seen, { interval: 2, timeout: 200 }).toBe(2)
    await expect.poll(() => seen, { interval: 2, timeout: 200 }).toBeGreaterThan(1)
  })
  it('spied', () => {
    const spy = vi.fn((x: number) => x)
    spy(add(1, 1))
    expect(spy).toHaveBeenCalledWith(2)
  })
  it.each([[1, 1, 2], [2, 1, 3]])('%d plus %i', (a, b, sum) => { expect(add(a, b)).toBe(sum) })
  test.for<Row>([{ a: 1, sum: 2 }])('one and $a', ({ a, sum }) => { expect(add(a, 1)).toBe(sum) })
  test.skip('skipped', () => { expect(1).toBe(2) })
  test.fails('meant to fail', () => { expect(1).toBe(2) })
})
"""
JEST = """\
/** @jest-environment node */
const { add, later, fail, reject, user, call } = require('./calc')

describe('matchers', () => {
  it('equal', () => { expect(add(1, 2)).toBe(3) })
  it('objects', () => { expect(user()).toStrictEqual({ name: 'Ada', tags: ['é', 'b'], age: 36 }) })
  it('flag', () => { expect(add(1, 1) === 2).toBe(true) })
  it('thrown', () => { expect(() => fail('boom')).toThrow(new TypeError('boom')) })
  it('resolved', () => { return expect(later(1, 2)).resolves.toBe(3) })
  it('rejected', async () => {
    expect.assertions(1); await expect(reject('boom')).rejects.toThrow('boom')
  })
  it('callback', done => {
    call(5, (error, value) => { try { expect(value).toBe(5); done(error) } catch (e) { done(e) } })
  })
  it('no claim', done => { call(5, (error, value) => done(value === 5 ? error : 'no')) })
  it.each([add])('given %p', given => { if (given(1, 1) !== 2) throw new Error('no') })
  it('inline', () => { expect(user().name).toMatchInlineSnapshot(`"Ada"`) })
  it('kept', () => { expect(user().name).toMatchSnapshot() })
  it.each`
    a    | sum
    ${1} | ${2}
  `('$a and one', ({ a, sum }) => { expect(add(a, 1)).toBe(sum) })
})
"""


def suite_outcomes(
    command: list[str], place: Path, *, wrong: bool = False
) -> dict[str, dict[str, tuple[bool, str]]]:
    """What jest, or vitest, reports of each file: title, whether it passed, and its messages."""
    environ = {**os.environ, "WRONG": "1" if wrong else "", "CI": "1"}
    subprocess.run(command, cwd=place, env=environ, capture_output=True, check=False, timeout=120)
    report = json.loads((place / "report.json").read_text(encoding="utf-8"))
    return {
        file["name"].rpartition("/")[2].partition(".")[0]: {
            one["title"]: (one["status"] == "passed", "".join(one["failureMessages"]))
            for one in file["assertionResults"]
            if one["status"] in ("passed", "failed")
        }
        for file in report["testResults"]
    }


def forms_in(place: Path, text: str, ending: str, command: list[str]) -> None:
    (place / "package.json").write_text('{"private": true}')
    changes = {}
    for number, form in enumerate(FORMS):
        text_, changes[form] = made(f"a{ending}", text, form, seed=number)
        (place / f"{form}{ending}").write_text(text_, encoding="utf-8")
    found = suite_outcomes(command, place)
    for form in FORMS:
        judged(form, changes[form], found[form])
    wrong = suite_outcomes([*command, REWORDED], place, wrong=True)[REWORDED]
    judged(REWORDED, changes[REWORDED], wrong, wrong=True)


@pytest.mark.full
def test_forms_of_tests_for_vitest(tmp_path: Path) -> None:
    node_packages.install(tmp_path, "vitest")
    (tmp_path / "calc.js").write_text(f"{CALC}export {EXPORTS}\n")
    command = ["node_modules/.bin/vitest", "run", "--reporter=json", "--outputFile=report.json"]
    forms_in(tmp_path, VITEST, ".test.ts", command)


@pytest.mark.full
def test_forms_of_tests_for_jest(tmp_path: Path) -> None:
    node_packages.install(tmp_path, "jest")
    (tmp_path / "calc.js").write_text(f"{CALC}module.exports = {EXPORTS}\n")
    (tmp_path / "__snapshots__").mkdir()
    head = "// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing"
    kept = f'{head}\n\nexports[`matchers kept 1`] = `"Ada"`;\n'
    for form in FORMS:
        (tmp_path / "__snapshots__" / f"{form}.test.js.snap").write_text(kept)
    command = ["node_modules/.bin/jest", "--ci", "--json", "--outputFile=report.json"]
    forms_in(tmp_path, JEST, ".test.js", command)


NAMES = """\
const names = require('tape'); const own = test.extend({ a: 1 })
names('of tape', t => { t.equal(1, 1, 'said'); t.end() })
describe("it's \\u00e9", function () {
  context(`a ${b} c`, () => { it("x" + (y) + 'z', () => {}) })
  describe.each([1])('row %s of $b.c', n => { own('same', () => {}); own('same', () => {}) })
  it(name, wrapped(async () => { expect(1).toBe(1) }), 5000)
  xit('left', () => {}); it.todo('later'); it.skip.each([1])('%s', () => {})
  describe.skip('left', () => { it('out', () => {}) })
})
function shared() { it('shared', () => {}) }
test('outer', async t => { await t.test('inner', () => {}) })
regex.test(text); on('click', () => {}); jest.mock('./a', () => {})
"""


def test_names_are_as_in_outcomes_and_what_is_computed_is_a_star() -> None:
    assert [(one.name, one.line, one.end) for one in reader.tests("a.js", NAMES)] == [
        ("of tape", 2, 2),
        ("it's é::a * c::x*z", 4, 4),
        ("it's é::row * of *::same", 5, 5),
        ("it's é::row * of *::same", 5, 5),
        ("it's é::*", 6, 6),
        ("*::shared", 10, 10),
        ("outer::inner", 11, 11),
    ]


def test_only_what_is_asked_for_changes() -> None:
    changed = reader.change("a.js", NAMES, {"of tape": ALTERED}, random.Random(1))

    [word] = changed.changed_tests["of tape"].tokens
    assert changed.text == NAMES.replace("t.equal(1, 1,", f"t.equal(1, {word},")
    crlf = NAMES.replace("\n", "\r\n")
    assert reader.change("a.js", crlf, {}, random.Random(1)).text == crlf


@pytest.mark.parametrize("name", ["a.js", "a.ts", "a.tsx"])
@pytest.mark.parametrize("text", ["test('x', () => {", "\0", "(" * 5000, "a.b()" * 9 + "\udcff("])
def test_what_is_no_code_is_an_error(name: str, text: str) -> None:
    with pytest.raises(UnparsableError, match=name):
        reader.tests(name, text)


def test_tests_of_types_do_not_run() -> None:
    text = "test('x', () => { expectTypeOf(f).returns.toBeString() })\n"
    assert reader.tests("f.test.ts", text)
    with pytest.raises(UnparsableError, match="types"):
        reader.tests("f.test-d.ts", text)
