"""test-bite in JavaScript, TypeScript, Go and Rust: by the project's own runner, in the sandbox."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.checks import test_bite as check
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import INCOMPLETE, Severity
from rlm_ci.runs.store import RunStore
from testing import node_packages
from testing.guard_cases import PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.report.findings import Part
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.full


def judged(
    repo: GitRepo, before: Mapping[str, str], after: Mapping[str, str], **values: Any
) -> Part:
    """The part of a change from one set of files to another."""
    repo.write_all(before).commit("Sell things")
    repo.write_all(after).commit("Add reduced prices")
    rows = (*CORE, *check.OPTIONS)
    environ = {**os.environ, "PATH": PATH}
    options = Settings(rows, {}, environ)
    options.apply({"test_bite": values}, "rlm-ci.toml", rows)
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_range(opened, "HEAD~1", "HEAD", "test")
    return check.run(change, options, RunStore("", ""))


def subjects(part: Part, condition: str) -> set[str]:
    rule = f"{check.ID}/{condition}"
    return {str(one.subject) for one in part.findings if one.rule == rule}


def lines(part: Part) -> set[int | None]:
    return {one.evidence[0].line_start for one in part.findings if "unnoticed" in one.rule}


JS = "exports.total = (a, b) => a + b;\n"
JS_MORE = """\
exports.reduced = function (price, percent) {
  if (percent > 100) {
    throw new Error("too much");
  }
  return price - price * percent / 100;
};
"""
JS_TESTS = """\
{head}
test("reduced prices", () => {{ expect(shop.reduced(200, 25)).toBe(150); }});
test("the old total", () => {{ expect(shop.total(1, 2)).toBe(3); }});
test("itself", () => {{
  const price = shop.reduced(100, 10);
  expect(shop.reduced(100, 10)).toBe(price);
}});
test("swallowed", () => {{
  try {{ expect(shop.reduced(1, 2)).toBe(7); }} catch (error) {{ }}
}});
test("unreached", () => {{
  for (const price of []) {{ expect(price).toBe(7); }}
}});
"""
NODE = """\
const test = require("node:test");
const assert = require("node:assert");
const shop = require("../shop.js");
const expect = (value) => ({ toBe: (other) => assert.strictEqual(value, other) });
"""


def holds(part: Part, names: Mapping[str, str]) -> None:
    """What the tests above must give, each under the name that its language has."""
    assert part.metrics["judged"] == 5, (part.summary, part.findings)
    assert part.metrics["runs"] <= 4
    assert subjects(part, "hollow-test") == {
        names[key] for key in ("itself", "swallowed", "unreached") if key in names
    }
    assert names["old"] in subjects(part, "passes-without-change")
    assert names["new"] not in subjects(part, "passes-without-change")
    assert part.metrics["noticed"]
    assert part.metrics["unnoticed"]


SCRIPT = {"itself": "itself", "swallowed": "swallowed", "unreached": "unreached",
          "old": "the old total", "new": "reduced prices"}  # fmt: skip


def test_node(repo: GitRepo) -> None:
    before = {"shop.js": JS, "package.json": json.dumps({"scripts": {"test": "node --test"}})}
    after = {"shop.js": JS + JS_MORE, "test/shop.test.js": JS_TESTS.format(head=NODE)}
    part = judged(repo, before, after)
    holds(part, SCRIPT)
    assert lines(part) <= {3, 4}  # nothing asks for more than 100 percent


@pytest.mark.parametrize("runner", ["jest", "vitest"])
def test_runners_of_packages(repo: GitRepo, runner: str) -> None:
    repo.write(".gitignore", "node_modules\n")
    node_packages.install(repo.path, runner)
    script = "vitest run" if runner == "vitest" else runner
    head = 'const shop = require("../shop.js");\n'
    ending = "js"
    if runner == "vitest":
        head = 'import { test, expect } from "vitest";\nimport * as shop from "../shop.js";\n'
        ending = "ts"
    before = {"shop.js": JS, "package.json": json.dumps({"scripts": {"test": script}})}
    after = {"shop.js": JS + JS_MORE, f"test/shop.test.{ending}": JS_TESTS.format(head=head)}
    holds(judged(repo, before, after), SCRIPT)


def test_a_runner_that_is_not_installed_is_not_waited_for(repo: GitRepo) -> None:
    before = {"shop.js": JS, "package.json": json.dumps({"scripts": {"test": "jest"}})}
    after = {"shop.js": JS + JS_MORE, "test/shop.test.js": JS_TESTS.format(head="")}
    part = judged(repo, before, after, minutes=0.5)
    assert part.verdict(Severity.HIGH) == INCOMPLETE
    assert "too long" not in part.summary
    assert subjects(part, "not-judged")


GO = "package shop\n\nfunc Total(a, b int) int {\n\treturn a + b\n}\n"
GO_MORE = """
func Reduced(price, percent int) int {
	if percent > 100 {
		return 0
	}
	return price - price*percent/100
}
"""
GO_TESTS = """\
package shop

import "testing"

func TestReduced(t *testing.T) {
	if got := Reduced(200, 25); got != 150 {
		t.Fatalf("got %d", got)
	}
}

func TestItself(t *testing.T) {
	want := Reduced(100, 10)
	if Reduced(100, 10) != want {
		t.Fatal("another price")
	}
}

func TestSwallowed(t *testing.T) {
	if Reduced(100, 10) != 90 {
		t.Fatal("another price")
	}
}

func TestUnreached(t *testing.T) {
	for _, price := range []int{} {
		if Reduced(price, 1) != 7 {
			t.Fatal("another price")
		}
	}
}

func TestOld(t *testing.T) {
	if Total(1, 2) != 3 {
		t.Fatal("another total")
	}
}
"""


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go(repo: GitRepo) -> None:
    before = {"go.mod": "module shop\n\ngo 1.19\n", "shop.go": GO}
    part = judged(repo, before, {"shop.go": GO + GO_MORE, "shop_test.go": GO_TESTS})
    assert part.metrics["judged"] == 5, part.findings
    assert part.metrics["runs"] == 4
    assert subjects(part, "hollow-test") == {"TestItself", "TestUnreached"}
    assert not subjects(part, "passes-without-change")  # without Reduced nothing can be built
    assert part.metrics["noticed"]
    assert lines(part) <= {8, 9}


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go_at_the_base(repo: GitRepo) -> None:
    tests = GO_TESTS.partition("func TestReduced")[0]
    tests += 'func TestOld(t *testing.T) {\n\tif Total(1, 2) != 3 {\n\t\tt.Fatal("other")\n\t}\n}\n'
    after = {"shop.go": GO.replace("a + b", "b + a"), "shop_test.go": tests}
    part = judged(repo, {"go.mod": "module shop\n\ngo 1.19\n", "shop.go": GO}, after)
    assert subjects(part, "passes-without-change") == {"TestOld"}


RUST = "pub fn total(a: i32, b: i32) -> i32 {\n    a + b\n}\n"
RUST_MORE = """
pub fn reduced(price: i32, percent: i32) -> i32 {
    if percent > 100 {
        return 0;
    }
    price - price * percent / 100
}
"""
RUST_TESTS = """
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_reduced() {
        assert_eq!(reduced(200, 25), 150);
    }

    #[test]
    fn itself() {
        let want = reduced(100, 10);
        assert_eq!(reduced(100, 10), want);
    }

    #[test]
    fn unreached() {
        for price in Vec::<i32>::new() {
            assert_eq!(reduced(price, 1), 7);
        }
    }
}
"""


@pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")
def test_rust_with_tests_beside_the_code(repo: GitRepo) -> None:
    before = {"Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
              "src/lib.rs": RUST}  # fmt: skip
    part = judged(repo, before, {"src/lib.rs": RUST + RUST_MORE + RUST_TESTS})
    assert part.metrics["judged"] == 3, part.findings
    assert part.metrics["runs"] == 4
    assert subjects(part, "hollow-test") == {"tests::itself", "tests::unreached"}
    assert not subjects(part, "passes-without-change")
    assert part.metrics["noticed"]
    assert lines(part) <= {6, 7}
