"""Tests in other languages than Python are run by the command of the validator."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlm_ci.review.proofs import launch
from rlm_ci.review.proofs.reproduction import Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.review.proofs.trees import ProofTrees
from rlm_ci.system.command_line import Command
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
        assert found.command == "node --test"
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
