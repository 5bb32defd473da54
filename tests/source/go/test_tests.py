"""The tests of a Go file, and the calls by which it asserts something."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.source.go.tests import GoTests
from rlm_ci.source.grammars import parse, text_of

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
package till
import (
  "fmt"
  "testing"
  tassert "github.com/stretchr/testify/assert"
  "github.com/stretchr/testify/suite"
)
"""
#: Bodies of ``TestA``, with the calls that assert.
CALLS: dict[str, list[str]] = {
    "if a != b { t.Errorf(b) }": ["t.Errorf(b)"],
    "select { case <-a: default: t.Fatal() }": ["t.Fatal()"],
    "tassert.Equal(t, 1, 2)": ["tassert.Equal(t, 1, 2)"],
    "r := tassert.New(t); r.True(ok)": ["r.True(ok)"],
    "assert.Equal(t, 1, 2)": ["assert.Equal(t, 1, 2)"],
    "s.Require().NoError(err)": ["s.Require().NoError(err)"],
    "t.Run(a, func(tt *testing.T) { tt.Fail() })": ["tt.Fail()"],
    "same(t, a, err.Error())": [],
    "got := err.Error()": [],
    "fmt.Error(a); t.Log(a)": [],
    "c.Assert(a, qt.Equals, 0); c.Run(a)": ["c.Assert(a, qt.Equals, 0)"],
}
FUNCTIONS = """\
func TestA(t *testing.T) {}
func TestMain(m *testing.M) {}
func Testify(t *testing.T) {}
func TestHelp(a, b int) {}
func FuzzB(f *testing.F) {}
func ExampleC() { fmt.Println(1) // Output: 1
}
func ExampleD() { fmt.Println(1) }
func TestSuite(t *testing.T) { suite.Run(t, new(S)) }
func (s *S) TestE() {}
func (s *Other) TestF() {}
func (s *S) Helper() {}
"""
#: Bodies of an example, and whether ``go test`` runs it.
EXAMPLES = {
    "f() // Output: 1": True,
    "f() // note\n// Output: 1": True,
    "// Output: 1\nf()": True,
    "f()\n/*  Unordered output:\n1 */": True,
    "f()\n//\n//go:note\n// Output: 1\n//nolint:all": True,
    "f()\n\n// note\n\n// Output: 1": True,
    "f()\n// Output: 1\n// 2": True,
    "f()\n// Output: 1\n\n// note": False,
    "f()\n// note\n// Output: 1": False,
    "f()\n/* note */\n// Output: 1": False,
    "f() // Output: 1\n// note": False,
    "f() // see Output: 1": False,
    "f()": False,
}


def go_tests(text: str) -> GoTests:
    content = (HEAD + text).encode()
    root = parse("Go", content)
    assert root is not None
    return GoTests(content, root)


@pytest.mark.parametrize("body", CALLS)
def test_calls_that_assert_are_found(body: str) -> None:
    calls = go_tests(f"func TestA(t *testing.T) {{ {body} }}\n").assertions()
    assert [text_of(call) for call, _ in calls] == CALLS[body]


def test_a_failure_is_no_call_of_a_library() -> None:
    text = "func TestA(t *testing.T) { t.Fail(); tassert.Fail(t, a) }\n"
    assert [is_failure for _, is_failure in go_tests(text).assertions()] == [True, False]


def test_a_method_of_a_suite_asserts_by_itself() -> None:
    text = "func (s *S) TestA() { s.Equal(1, 2); s.Run(a, b); s.helper(1) }\n"
    assert [text_of(call) for call, _ in go_tests(text).assertions()] == ["s.Equal(1, 2)"]


def test_tests_have_the_names_that_a_run_reports() -> None:
    names = [test.name for test in go_tests(FUNCTIONS).tests]
    assert names == ["TestA", "FuzzB", "ExampleC", "TestSuite::TestE", "*::TestF"]


def test_what_runs_a_suite_counts_as_a_test_and_an_example_without_output_does_not() -> None:
    names = [test.name.rpartition("::")[2] for test in go_tests(FUNCTIONS).functions]
    assert names == ["TestA", "FuzzB", "ExampleC", "TestSuite", "TestE", "TestF"]


@pytest.mark.parametrize("body", EXAMPLES)
def test_an_example_runs_if_its_last_comment_begins_as_an_output(body: str) -> None:
    examples = go_tests(f"func ExampleA() {{\n{body}\n}}\n")
    assert bool(examples.tests) is EXAMPLES[body]
    for example in examples.tests:
        assert example.output is not None
        start, end = example.output
        assert examples.content[start:end].lower().removeprefix(b"unordered ") == b"output:"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_go_runs_the_same_examples(tmp_path: Path) -> None:
    functions = (f"func Example_n{at}() {{\n{body}\n}}\n" for at, body in enumerate(EXAMPLES))
    (tmp_path / "go.mod").write_text("module till\ngo 1.18\n")
    text = "package till\n\nfunc f() {}\n\n" + "".join(functions)
    (tmp_path / "a_test.go").write_text(text)
    command = ["go", "test", "-v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    ran = {int(number) for number in re.findall(r"=== RUN +Example_n(\d+)", done.stdout)}
    assert ran == {at for at, body in enumerate(EXAMPLES) if EXAMPLES[body]}
