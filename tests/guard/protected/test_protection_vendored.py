"""Dependencies that a repository keeps: tests claim by them, and no fix is made in them."""

from __future__ import annotations

import pytest

from rlm_ci.guard import guard
from rlm_ci.guard.protected.protection import Protection, vendored_folders
from rlm_ci.redaction.redactor import Redactor
from testing.guarded_trees import BASE, KEY, Objects, Tree, judged, rules

CHAI = "exports.equal = (a, b) => { if (a !== b) throw new Error(); };\n"
DEAF = "exports.equal = () => {};\n"
TESTIFY = "vendor/github.com/stretchr/testify/assert/assertions.go"
#: What stands there besides, and the file that is edited, put there or taken away.
KEPT: dict[str, tuple[Tree, str]] = {
    "a package of node": ({}, "node_modules/chai/index.js"),
    "one of a part": ({}, "web/node_modules/chai/index.js"),
    "tests of a package": ({}, "node_modules/chai/test/a.js"),
    "a module of Go": ({"vendor/modules.txt": "# x\n"}, TESTIFY),
    "a package of PHP": ({"api/vendor/autoload.php": "<?php\n"}, "api/vendor/phpunit/TestCase.php"),
    "a gem": ({"vendor/bundle/ruby/3.3.0/gems/a/LICENSE.txt": "x\n"}, "vendor/bundle/a.rb"),
    "a crate": ({"vendor/a/.cargo-checksum.json": "{}\n"}, "vendor/a/src/lib.rs"),
    "a library of C++": ({"third_party/gtest/LICENSE": "x\n"}, "third_party/gtest/src/gtest.cc"),
    "packages of Python": ({}, "lib/site-packages/hamcrest/core.py"),
}
#: As above; the repository's own.
OWN: dict[str, tuple[Tree, str]] = {
    "a shop has vendors": ({}, "shop/vendor/models.py"),
    "with a licence of their own": ({"vendor/LICENSE": "x\n"}, "vendor/models.py"),
    "that are a package": ({"vendor/package.json": "{}\n"}, "vendor/index.js"),
    "in which others are used": ({"vendor/node_modules/a/b.js": ""}, "vendor/index.js"),
    "a name that goes on": ({"vendored/a/LICENSE": "x\n"}, "vendored/a.py"),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_dependency_is_left_alone(case: str) -> None:
    beside, path = KEPT[case]
    base = BASE | beside
    for before, after in ((base | {path: CHAI}, base | {path: DEAF}),
                          (base, base | {path: DEAF}), (base | {path: CHAI}, base)):  # fmt: skip
        (finding,) = judged(before, after)
        assert finding.rule == "tamper/dependency"
        assert "--allow-test-edits" in (finding.hint or "")


@pytest.mark.parametrize("case", OWN)
def test_what_is_called_like_one_is_source(case: str) -> None:
    beside, path = OWN[case]
    base = BASE | beside
    assert judged(base | {path: CHAI}, base | {path: DEAF}) == []


@pytest.mark.parametrize("name", ["modules.txt", "autoload.php"])
def test_a_folder_that_becomes_one_is_found(name: str) -> None:
    assert rules(judged(BASE, BASE | {f"vendor/{name}": "x\n", TESTIFY: DEAF})) == {"dependency"}


def test_what_lies_with_the_tests_is_theirs() -> None:
    path = "tests/data/node_modules/a/index.js"
    assert judged(BASE, BASE | {path: CHAI}) == []
    assert judged(BASE | {path: CHAI}, BASE | {path: DEAF}) == []  # undone
    assert vendored_folders(["b/vendor/a/LICENSE", "b/a/LICENSE"]) == ("b/vendor/",)


def test_the_last_verdict_is_taken_with_the_old_one() -> None:
    objects = Objects()
    base = objects.entries(BASE | {"vendor/a/LICENSE": "x\n", "vendor/a/b.js": CHAI})
    protection = Protection.of(base, objects.contents, "npm test")
    for path in ("vendor/a/b.js", "node_modules/a/b.js"):
        assert protection.is_protected(path)
        assert not protection.is_protected(path, allow_test_edits=True)
    now = objects.entries(BASE | {"vendor/a/LICENSE": "x\n", "vendor/a/b.js": DEAF})
    assert guard.rewritten(base, now, objects, protection) == ("vendor/a/b.js",)
    found = guard.compared(base, now, objects, protection, Redactor({"AGENT": KEY}, ["AGENT"]))
    assert rules(found) == {"dependency"}
