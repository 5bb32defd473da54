"""Tests in other languages than Python are run by the command of the validator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.review.proofs.reproduction import Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.system.command_line import Command
from testing.proofs_stage import Facts, place_of
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

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
