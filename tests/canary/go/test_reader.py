"""Tests of Go, changed: run by the real ``go test``, with right and with wrong code."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from rlm_ci.canary.forms import (
    ALTERED,
    IDLE,
    INVERTED,
    REACHED,
    REWORDED,
    STOPPED,
    ChangedText,
    UnparsableError,
)
from rlm_ci.canary.go import reader

if TYPE_CHECKING:
    from pathlib import Path

#: A machine without Go reads its files all the same.
needs_go = pytest.mark.skipif(not shutil.which("go"), reason="there is no Go")
CODE = """\
package sums

import "errors"

type Color uint8

const Limit = 9

func Add(a, b int) int { return a + b }
func Small(a int) int8 { return int8(Add(a, 0)) }
func Parse(s string) (int, error) {
	if s == "" {
		return 0, errors.New("empty")
	}
	return Add(len(s), 0), nil
}
"""
WRONG = CODE.replace("return a + b", "return a + b + 1").replace('s == ""', 's == "abc"')
HEAD = 'package sums_test\n\nimport (\n\t"reflect"\n\t"testing"\n\t"example.com/sums"\n)\n\n'
#: Each fails with the wrong code. An alteration is possible in those of the first group.
ALTERABLE = {
    "TestPlain": """(t *testing.T) {
	if sums.Add(1, 2) != 3 {
		t.Fatal("no three")
	}
}""",
    "TestInit": """(t *testing.T) {
	if got := sums.Add(1, 2); got != 3 || sums.Small(-5) != -5 {
		t.Errorf("got %d", got)
	} else if got > 100 {
		t.Error("large")
	}
}""",
    "TestTyped": """(tt *testing.T) {
	var small int8 = 127
	if sums.Small(127) != 127 || small != sums.Small(127) {
		tt.Fail()
	}
}""",
    "TestDeep": """(t *testing.T) {
	got := map[string][]int{"a": {sums.Add(1, 1)}, "b": nil}
	if !reflect.DeepEqual(got, map[string][]int{"a": {0x2}, "b": nil}) {
		t.Errorf("got %v", got["a"][0])
	}
}""",
    "TestLoop": """(t *testing.T) {
	for i := 0; i < 3; i++ {
		t.Run("sub", func(t *testing.T) {
			t.Parallel()
			if sums.Add(i, -i) != 0 {
				t.Errorf("no zero")
			}
		})
	}
}""",
}
OTHERS = {
    "TestTable": """(t *testing.T) {
	for _, one := range []struct{ a, b, want int }{{1, 2, 3}, {2, 2, 4}} {
		if got := sums.Add(one.a, one.b); got != one.want {
			t.Errorf("Add(%d, %d) = %d", one.a, one.b, got)
		}
	}
}""",
    "TestNegative": """(t *testing.T) {
	_, err := sums.Parse("")
	if err == nil {
		t.Fatal("no error")
	}
	if _, err = sums.Parse("abc"); err != nil {
		t.Fatalf("%s", err.Error())
	}
}""",
    "TestElse": """(t *testing.T) {
	if sums.Add(1, 2) == sums.Limit-6 {
		t.Log("right")
	} else {
		t.Fail()
	}
}""",
    "TestHelper": """(t *testing.T) {
	same(t, sums.Add(1, 2), 3)
}""",
    "TestDeferred": """(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	if sums.Add(1, 2) == 3 {
		panic("as it should")
	}
}""",
    "TestSwitch": """(t *testing.T) {
	check := func(got int) bool {
		if ok := got == 3; !ok {
			t.Error(got)
			return false
		}
		return true
	}
	check(sums.Add(1, 2))
}""",
}
HELPERS = """
func same(t testing.TB, got, want int) {
	t.Helper()
	nested(t, got == want)
}

func nested(t testing.TB, ok bool) {
	if !ok {
		t.Error("not the same")
	}
}
"""
#: Without a claim.
SILENT = {
    "TestNothing": "(t *testing.T) { _ = sums.Add(1, 2) }",
    "TestReturns": "(t *testing.T) {\n\tif sums.Add(1, 2) == 3 {\n\t\treturn\n\t}\n\tpanic(3)\n}",
}


def text_of(tests: dict[str, str]) -> str:
    return HEAD + "\n\n".join(f"func {name}{body}" for name, body in tests.items()) + HELPERS


@pytest.fixture(autouse=True)
def _one_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Go compiles and vets its library once, not in the home of each test."""
    monkeypatch.setenv("GOCACHE", str(tmp_path_factory.getbasetemp() / "go-cache"))


def changed(text: str, form: str, seed: int = 0, *, plain: bool = False) -> ChangedText:
    wanted = {one.name: form for one in reader.tests("sums_test.go", text)}
    return reader.change("sums_test.go", text, wanted, random.Random(seed), plain=plain)


def run(folder: Path, code: str, text: str) -> tuple[dict[str, str], dict[str, str]]:
    """How each test ends, and what it prints."""
    (folder / "go.mod").write_text("module example.com/sums\n\ngo 1.19\n")
    (folder / "sums.go").write_text(code)
    (folder / "sums_test.go").write_text(text)
    done = subprocess.run(
        ["go", "test", "-json"], cwd=folder, capture_output=True, text=True, check=False
    )
    ends: dict[str, str] = {}
    printed: defaultdict[str, str] = defaultdict(str)
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = event.get("Test", "").partition("/")[0]
        if event["Action"] == "output":
            printed[name] += event["Output"]
        elif "Test" in event:
            ends[event["Test"]] = event["Action"]
    assert ends, done.stdout + done.stderr  # it compiles
    return {name: end for name, end in ends.items() if "/" not in name}, printed


def check_reversed(folder: Path, text: str, form: str, *, seed: int = 0, plain: bool) -> None:
    made = changed(text, form, seed, plain=plain)
    ends, printed = run(folder, CODE, made.text)
    assert {*ends.values()} == {"fail"}, (made.text, printed)
    for name, one in made.changed_tests.items():
        assert any(word in printed[name] for word in one.tokens), (name, made.text, printed)


@pytest.mark.full
@needs_go
def test_claims_are_reversed_and_taken_apart(tmp_path: Path) -> None:
    text = text_of(ALTERABLE | OTHERS)
    names = [one.name for one in reader.tests("sums_test.go", text)]
    assert names == [*ALTERABLE, *OTHERS]
    wanted = {name: [ALTERED, INVERTED, REWORDED][number % 3] for number, name in enumerate(names)}
    made = reader.change("sums_test.go", text, wanted, random.Random(1))
    ends, printed = run(tmp_path, CODE, made.text)
    for name, one in made.changed_tests.items():
        assert ends[name] == ("pass" if one.form == REWORDED else "fail"), (name, made.text)
        assert not one.tokens or any(word in printed[name] for word in one.tokens)


@pytest.mark.full
@needs_go
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("form", [ALTERED, INVERTED, REACHED, STOPPED])
def test_reversed_claims_fail_with_right_code(tmp_path: Path, form: str, *, plain: bool) -> None:
    text = text_of(ALTERABLE | OTHERS | SILENT)
    check_reversed(tmp_path, text, form, plain=plain)
    made = changed(text, form, plain=plain).changed_tests
    if form == ALTERED:
        assert [name for name, one in made.items() if one.form == ALTERED] == [*ALTERABLE]


@pytest.mark.full
@needs_go
@pytest.mark.parametrize("plain", [False, True])
def test_reworded_claims_pass_with_right_code_and_fail_with_wrong(
    tmp_path: Path, *, plain: bool
) -> None:
    made = changed(text_of(ALTERABLE | OTHERS | SILENT), REWORDED, plain=plain)
    ends, _ = run(tmp_path, CODE, made.text)
    assert {*ends.values()} == {"pass"}
    made = changed(text_of(ALTERABLE | OTHERS), REWORDED, plain=plain)
    for code in (WRONG, WRONG.replace("a + b + 1", "-127 - a")):
        ends, printed = run(tmp_path, code, made.text)
        assert {*ends.values()} == {"fail"}, printed


@pytest.mark.full
@needs_go
def test_idle_tests_do_not_fail_whatever_the_code(tmp_path: Path) -> None:
    fuzz = {
        "FuzzAdd": """(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(t *testing.T, a int) {
		if sums.Add(a, 1) != a+1 {
			t.Error(a)
		}
	})
}"""
    }
    text = text_of(ALTERABLE | OTHERS | SILENT | fuzz)
    ends, _ = run(tmp_path, WRONG, changed(text, IDLE).text)
    assert ends.pop("FuzzAdd") == "skip"
    assert {*ends.values()} == {"pass"}


EXAMPLE = """\
package sums

import "fmt"

func ExampleAdd() {
	fmt.Println(Add(1, 2))
	// Output:
	// 3
}

func ExampleParse() { fmt.Println("compiled only") }
"""


@pytest.mark.full
@needs_go
def test_examples_are_judged_by_their_output(tmp_path: Path) -> None:
    assert [one.name for one in reader.tests("sums_test.go", EXAMPLE)] == ["ExampleAdd"]
    check_reversed(tmp_path, EXAMPLE, INVERTED, plain=False)
    made = changed(EXAMPLE, REWORDED)
    assert run(tmp_path, CODE, made.text)[0] == {"ExampleAdd": "pass"}
    assert run(tmp_path, WRONG, made.text)[0] == {"ExampleAdd": "fail"}


def test_lines_stay() -> None:
    text = text_of(ALTERABLE | OTHERS)
    heads = [(at, line) for at, line in enumerate(text.splitlines()) if "func " in line]
    for form in (ALTERED, INVERTED, REWORDED, REACHED, STOPPED, IDLE):
        lines = changed(text, form).text.splitlines()
        assert all(lines[at].startswith(line[:9]) for at, line in heads)


@pytest.mark.parametrize("head", ["Testing()", "TestX(_ *testing.T)", "TestX(*testing.T)"])
def test_what_nothing_can_fail_is_no_test(head: str) -> None:
    text = f'package a\n\nimport "testing"\n\nfunc {head} {{}}\n'
    assert reader.tests("a_test.go", text) == []


@pytest.mark.parametrize("text", ["\0", "package", "func TestX(t *testing.T) {", "(" * 900])
def test_what_is_no_go_is_refused(text: str) -> None:
    with pytest.raises(UnparsableError, match=r"a_test\.go"):
        reader.tests("a_test.go", text)
