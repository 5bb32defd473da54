"""Tests that no runner collects any more: by the name of their file, or by its settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import RestOfTree, TextChange

if TYPE_CHECKING:
    from collections.abc import Iterable

GO = "package a\n\nfunc TestA(t *testing.T) {\n\tif a() != 1 {\n\t\tt.Fatal()\n\t}\n}\n"
JAVA = "class CartTest {\n    @Test\n    void a() {\n        assertEquals(90, total());\n    }\n}\n"
SCRIPT = "test('total', () => {\n  expect(total([40])).toBe(40)\n})\n"
TEXTS = {"go": GO, "java": JAVA, "js": SCRIPT, "ts": SCRIPT, "mjs": SCRIPT}
POM = "<project><build/></project>"


class Tree(RestOfTree):
    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: self.files[path] for path in paths if path in self.files}

    def paths(self) -> frozenset[str]:
        return frozenset(self.files)


def package(script: str, **more: object) -> dict[str, str]:
    return {"package.json": json.dumps({"scripts": {"test": script}, **more})}


#: Files that do not change, the old path of the tests, the new one, and what collects no more.
MOVED: dict[str, tuple[dict[str, str], str, str, str]] = {
    "go by a platform": ({}, "cart_test.go", "cart_windows_test.go", "go test"),
    "go by a blank name": ({}, "cart_test.go", "_cart_test.go", "go test"),
    "go into testdata": ({}, "cart/cart_test.go", "testdata/cart_test.go", "go test"),
    "go honest": ({}, "cart_test.go", "cart/total_test.go", ""),
    "surefire": ({"pom.xml": POM}, "src/test/java/CartTest.java", "src/test/java/CartChecks.java",
                 "surefire"),
    "surefire by its settings": (
        {"pom.xml": "<build><include>**/*Checks.java</include>"},
        "src/test/java/CartTest.java", "src/test/java/CartChecks.java", "",
    ),
    "gradle": ({"build.gradle": ""}, "src/test/java/CartTest.java", "src/test/java/Carts.java", ""),
    "jest": (package("jest"), "test/cart.test.js", "test/cart.checks.js", "jest"),
    "jest honest": (package("jest"), "test/cart.test.js", "__tests__/cart.js", ""),
    "jest by its own match": (
        package("jest", jest={"testMatch": ["**/*.(test|checks).js"]}),
        "test/cart.test.js", "test/cart.checks.js", "",
    ),
    "jest into an ignored folder": (
        package("jest", jest={"testPathIgnorePatterns": ["/slow/"]}),
        "test/cart.test.js", "test/slow/cart.test.js", "jest",
    ),
    "jest by a regular expression": (
        {**package("jest"), "jest.config.js": "module.exports = { testRegex: '/test/.*\\\\.js$' }"},
        "test/cart.test.js", "spec/cart.test.js", "jest",
    ),
    "vitest": (package("vitest run"), "src/cart.spec.ts", "test/cart.ts", "vitest"),
    "vitest by its settings": (
        {**package("vitest"), "vitest.config.ts": "test: { include: ['src/**/*.{test,spec}.ts'] }"},
        "src/cart.test.ts", "test/cart.test.ts", "vitest",
    ),
    "vitest by computed settings": (
        {**package("vitest"), "vitest.config.ts": "test: { include: [...shared] }"},
        "src/cart.test.ts", "test/cart.test.ts", "",
    ),
    "mocha into a folder": (package("mocha"), "test/cart.js", "test/unit/cart.js", "mocha"),
    "mocha by its words": (
        package("mocha 'test/**/*.js'"), "test/cart.js", "test/unit/cart.js", "",
    ),
    "node": (package("node --test"), "test/cart.js", "tests/cart.js", "node --test"),
    "another runner beside": (
        package("vitest run && playwright test"), "src/cart.spec.ts", "tests/cart.ts", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MOVED)
def test_a_file_that_moves_out_of_what_is_collected_is_found(case: str) -> None:
    files, old, new, runner = MOVED[case]
    text = TEXTS[old.rpartition(".")[2]]
    moved = [TextChange(old, text, None), TextChange(new, None, text)]
    found = weaker.compared(moved, code_changed=False, rest=Tree(files)).weakenings
    said = f"{runner} does not collect {new}: 1 test of {old} no longer run"
    assert [one.message for one in found] == ([said] if runner else [])


#: The settings before and after, for the files of tests that stay; the number that is lost.
SETTINGS: dict[str, tuple[dict[str, str], dict[str, str], int]] = {
    "left out": (
        package("jest"), package("jest", jest={"testPathIgnorePatterns": ["cart"]}), 1),
    "another match": (package("jest"), package("jest", jest={"testMatch": ["**/unit/*.js"]}), 2),
    "an honest match": (package("jest"), package("jest", jest={"testMatch": ["**/*.js"]}), 0),
    "of vitest": (
        {"vitest.config.js": "test: {}", **package("vitest")},
        {"vitest.config.js": "test: { exclude: [...configDefaults.exclude, 'test/tax*'] }",
         **package("vitest")}, 1,
    ),
    "of its coverage": (
        {"vitest.config.js": "test: {}", **package("vitest")},
        {"vitest.config.js": "test: { coverage: { exclude: ['test/**'] } }", **package("vitest")},
        0,
    ),
    "of mocha": (
        {".mocharc.json": '{"spec": "test/*.js"}', **package("mocha")},
        {".mocharc.json": '{"spec": "test/cart*.js"}', **package("mocha")}, 1,
    ),
    "a new runner": (package("jest"), package("vitest run"), 0),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_leave_out_files_of_tests_are_found(case: str) -> None:
    before, after, lost = SETTINGS[case]
    changed = [TextChange(path, before[path], after[path]) for path in before]
    tree = Tree({"test/cart.test.js": SCRIPT, "test/tax.test.js": SCRIPT, "src/cart.js": ""})
    found = weaker.compared(changed, code_changed=False, rest=tree).weakenings
    assert len(found) == (lost > 0)
    if lost:
        assert f"no longer collects {lost} file" in found[0].message
