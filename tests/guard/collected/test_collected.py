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
RUST = "#[test]\nfn total() {\n    assert_eq!(due(&[40]), 40);\n}\n"
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
    "mocha with values of options": (
        package("mocha --check-leaks --reporter spec"), "test/cart.js", "test/unit/cart.js",
        "mocha",
    ),
    "mocha with short options": (
        package("mocha -r test/env -R dot -t 5000 --exit"), "test/cart.js", "test/unit/cart.js",
        "mocha",
    ),
    "mocha with a quoted value": (
        package("mocha --grep 'a b' --bail"), "test/cart.js", "test/unit/cart.js", "mocha",
    ),
    "mocha with a value and a folder": (
        package("mocha --reporter spec test/unit"), "test/unit/cart.js", "test/cart.js", "mocha",
    ),
    "node with a reporter": (
        package("node --test --test-reporter spec"), "test/cart.js", "tests/cart.js", "node --test",
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
    found = weaker.compared(moved, code_changed=False, tree=Tree(files)).weakenings
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
    "a target of cargo": (
        {"Cargo.toml": "[package]\n"},
        {"Cargo.toml": '[package]\n[[test]]\nname = "due"\ntest = false\n'}, 1,
    ),
    "a target with its own harness": (
        {"Cargo.toml": "[package]\n"},
        {"Cargo.toml": '[package]\n[[test]]\nname = "due"\nharness = false\n'}, 1,
    ),
    "a target that asks for a feature": (
        {"Cargo.toml": "[package]\n"},
        {"Cargo.toml": '[package]\n[[test]]\nname = "due"\nrequired-features = ["slow"]\n'}, 1,
    ),
    "a target that asks for a default feature": (
        {"Cargo.toml": "[package]\n"},
        {"Cargo.toml": '[[test]]\nname = "due"\nrequired-features = ["std"]\n'
         '[features]\ndefault = ["all"]\nall = ["std"]\n'}, 0,
    ),
    "no target by itself": (
        {"Cargo.toml": "[package]\n"}, {"Cargo.toml": "[package]\nautotests = false\n"}, 1,
    ),
    "the library": ({"Cargo.toml": "[lib]\n"}, {"Cargo.toml": "[lib]\ntest = false\n"}, 1),
    "a benchmark": (
        {"Cargo.toml": "[lib]\n"},
        {"Cargo.toml": '[lib]\nbench = false\n[[bench]]\nname = "a"\nharness = false\n'}, 0,
    ),
    "a new runner": (package("jest"), package("vitest run"), 0),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_leave_out_files_of_tests_are_found(case: str) -> None:
    before, after, lost = SETTINGS[case]
    changed = [TextChange(path, before[path], after[path]) for path in before]
    tree = Tree({"test/cart.test.js": SCRIPT, "test/tax.test.js": SCRIPT, "src/cart.js": ""})
    tree.files.update({"tests/due.rs": RUST, "src/lib.rs": RUST})
    found = weaker.compared(changed, code_changed=False, tree=tree).weakenings
    assert len(found) == (lost > 0)
    if lost:
        assert f"no longer collects {lost} file" in found[0].message


@pytest.mark.parametrize(
    ("manifest", "is_found"),
    [
        ("", True),
        ('[features]\ndefault = ["std"]\nstd = ["alloc"]\nalloc = []\n', False),
        ("[features]\ndefault = []\nalloc = []\n", True),
    ],
)
def test_a_feature_that_is_on_by_default_leaves_no_test_out(
    manifest: str, *, is_found: bool
) -> None:
    gated = RUST.replace("#[test]", '#[cfg(feature = "alloc")]\n#[test]')
    change = TextChange("tests/due.rs", RUST, gated)
    tree = Tree({"Cargo.toml": manifest})
    found = weaker.compared([change], code_changed=True, tree=tree).weakenings
    assert (found != ()) is is_found
