"""Tests in other languages than Python are run by the command of the validator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlm_ci.review.proofs import launch
from rlm_ci.review.proofs.reproduction import Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.system.command_line import Command
from rlm_ci.trials.trees import ProofTrees
from testing import node_packages
from testing.proofs_stage import Facts, place_of
from testing.repositories.git_repo import GitRepo

PASSWORD = 'exports.password = (text) => text.slice(text.{}(":") + 1);\n'
CLAIM = """\
const test = require("node:test");
const assert = require("node:assert");
const {{ password }} = require("../shop.js");

test("the password", () => {{
  assert.strictEqual(password("a:b:c"), "{}");
}});
"""


@pytest.mark.full
def test_a_test_of_node(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "shop")
    base = repo.write("shop.js", PASSWORD.format("indexOf")).commit()
    head = repo.write("shop.js", PASSWORD.format("lastIndexOf")).commit()
    place = place_of(repo, base, head, validators=(Command.of("node", "--test"),))

    def claim(text: str, expects: str = "AssertionError: 'c' == 'b:c'") -> Reproduction:
        return Reproduction("test/claim.test.js", text, "test", expects)

    with ProofRunner(place, Facts()) as runner:
        assert not runner.available
        found = runner.check(claim(CLAIM.format("b:c"), "AssertionError"))
        assert found.level == "proven", found
        assert found.command == (
            "node --test '--test-name-pattern=(the password)$' test/claim.test.js"
        )
        # The runner names where the test begins, and the assertion in it.
        assert 'test("the password", () => {' in found.line
        assert 'assert.strictEqual(password("a:b:c"), "b:c");' in found.line
        told = runner.check(claim(CLAIM.format("b:c"), "no such host is known"))
        assert told.level == "argued"
        passes = runner.check(claim(CLAIM.format("c")))
        assert (passes.level, passes.head.status) == ("argued", "passed"), passes
        for text in ("// nothing\n", "test(", CLAIM.format("c") + "process.exit(0);\n"):
            none = runner.check(claim(text))
            assert none.level == "argued", (text, none)
    with ProofRunner(place.replace(validators=()), Facts()) as runner:
        assert runner.available == "no tests of this project can be run here"


READS = """\
const test = require("node:test");
const assert = require("node:assert");
const text = require("node:fs").readFileSync(require.resolve("../shop.js"), "utf8");

test("the password", () => {{
  assert.ok({});
}});
"""


@pytest.mark.full
def test_a_test_that_reads_code_as_text_ends_otherwise_with_comments_more(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "shop")
    base = repo.write("shop.js", PASSWORD.format("indexOf")).commit()
    head = repo.write("shop.js", PASSWORD.format("lastIndexOf")).commit()
    place = place_of(repo, base, head, validators=(Command.of("node", "--test"),))
    with ProofRunner(place, Facts()) as runner:
        one = Reproduction("test/claim.test.js", CLAIM.format("b:c"), "test", "AssertionError")
        assert runner.check(one).level == "proven"
        for reads in ('text.includes("text.indexOf(")', '!text.includes("text.lastIndexOf(")'):
            found = runner.check(one.replace(content=READS.format(reads)))
            assert (found.level, "code as text" in found.reason) == ("argued", True), found


GO_CLAIM = """\
package shop

import "testing"

func TestClaim(t *testing.T) {{
	if got := Password("a:b:c"); got != "{}" {{
		t.Fatalf("the password is cut to %s", got)
	}}
}}
"""


@pytest.mark.full
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go_compiles_its_library_once_for_a_side_and_runs_each_test_anew(tmp_path: Path) -> None:
    text = 'package shop\n\nimport "strings"\n\n'
    text += 'func Password(text string) string {{\n\treturn text[strings.{}(text, ":")+1:]\n}}\n'
    repo = GitRepo(tmp_path / "shop").write("go.mod", "module shop\n\ngo 1.19\n")
    base = repo.write("shop.go", text.format("Index")).commit()
    head = repo.write("shop.go", text.format("LastIndex")).commit()
    place = place_of(repo, base, head, validators=(Command.of("go", "test", "./..."),))

    def claim(wanted: str) -> Reproduction:
        return Reproduction("claim_test.go", GO_CLAIM.format(wanted), "test", "the password is cut")

    with ProofTrees(place) as trees:
        launcher = launch.Launcher(trees)
        assert launcher.run(claim("b:c"), "head")["status"] == "failed"
        (head_cache,) = (mount.source for mount in trees.caches("head"))
        compiled = {path.name for path in Path(head_cache, "go-build").rglob("*-d")}
        assert compiled
        for _ in range(2):
            passed = launcher.run(claim("c"), "head")
            assert passed["status"] == "passed", passed
            assert "(cached)" not in passed["output"]
        again = {path.name for path in Path(head_cache, "go-build").rglob("*-d")}
        assert compiled < again
        assert len(again) < 2 * len(compiled)
        # Code of the change makes up nothing for the base.
        assert trees.caches("base")[0].source != head_cache
        assert trees.caches("repair-1")[0].source == head_cache


#: A runner: its package's script, its files, and how its tests begin.
RUNNERS = {
    "node": ("node --test", {}, """\
import test from "node:test";
import assert from "node:assert";
const expect = (value) => ({ toBe: (other) => assert.strictEqual(value, other) });
"""),
    "jest": (
        "NODE_OPTIONS=--experimental-vm-modules jest",
        {"jest.config.mjs": "export default { testMatch: ['**/*.test.js'], reporters: [],"
         " collectCoverage: true, coverageThreshold: { global: { lines: 100 } } };\n"},
        'import { expect, test } from "@jest/globals";\n',
    ),
    "vitest": (
        "vitest",
        {"vitest.config.ts": "import { defineConfig } from 'vitest/config';\n"
         "const include: string[] = ['checks/*.test.ts'];\n"
         "export default defineConfig({ test: { include, reporters: ['dot'],"
         " coverage: { enabled: true } } });\n"},
        'import { expect, test } from "vitest";\nconst typed: number = 1;\n',
    ),
}  # fmt: skip
SHOP = "export const password = (text) => text.slice(text.{}(':') + 1);\n"
TIMES = "export const times = (a, b) => a + b;\n"


@pytest.mark.long
@pytest.mark.full
@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_with_its_own_settings(tmp_path: Path, name: str) -> None:
    script, files, beginning = RUNNERS[name]
    repo = GitRepo(tmp_path / "shop")
    package = json.dumps({"type": "module", "scripts": {"test": f"echo lint && {script}"}})
    for path, text in {**files, "package.json": package, ".gitignore": "node_modules\n"}.items():
        repo.write(path, text)
    if name != "node":
        node_packages.install(repo.path, name)
    source = "src/shop.ts" if name == "vitest" else "src/shop.js"
    base = repo.write(source, SHOP.format("indexOf")).commit()
    repo.write(source, SHOP.format("lastIndexOf") + TIMES)
    head = repo.write(source.replace("shop", "more"), "export const two = () => 3;\n").commit()
    place = place_of(repo, base, head, validators=(Command.of("npm", "test"),))

    def claim(imports: str, module: str, expression: str, wanted: str) -> Reproduction:
        text = (
            f'{beginning}import {imports} from "../{module}";\n\n'
            f'test("the claim", () => {{\n  expect({expression}).toBe({wanted});\n}});\n'
        )
        path = f"checks/a.test{source[-3:]}"
        return Reproduction(path, text, "test", "AssertionError")

    more = source.replace("shop", "more")
    with ProofRunner(place, Facts()) as runner:
        assert not runner.available
        found = runner.check(claim("{ password }", source, 'password("a:b:c")', '"b:c"'))
        assert found.level == "proven", found
        assert found.base is not None
        assert "the claim" in found.base.output
        for new in (
            claim("* as shop", source, "shop.times(2, 3)", "6"),  # what is not a function
            claim("{ times }", source, "times(2, 3)", "6"),  # an export that is not there
            claim("{ two }", more, "two()", "2"),  # nor is its file
        ):
            found = runner.check(new)
            assert (found.level, found.base and found.base.status) == (
                "reproduced",
                "not_applicable",
            ), (new.content, found.reason, found.base)
        reads = claim("* as shop", source, "[typeof shop.nothing, shop.nothing()]", "1")
        assert runner.check(reads).level == "argued"  # alike at both
        passes = runner.check(claim("{ password }", source, 'password("a:b:c")', '"c"'))
        assert (passes.level, passes.head.status) == ("argued", "passed"), passes


def test_without_a_runner_that_is_known_nothing_is_asked_for(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "shop")
    base = repo.write("shop.js", PASSWORD.format("indexOf")).commit()
    head = repo.write("shop.js", PASSWORD.format("lastIndexOf")).commit()
    place = place_of(repo, base, head, validators=(Command.of("make", "test"),))
    with ProofRunner(place, Facts()) as runner:
        assert runner.available == (
            "no program that runs single tests was found in `make test`: set loop.validator to its"
            " command, such as npx vitest run"
        )
