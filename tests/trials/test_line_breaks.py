"""The edits of changed lines, in four languages."""

from __future__ import annotations

import pytest

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.trials.line_breaks import breaks, is_code


def broken(path: str, text: str, line: int) -> list[str]:
    """The line in each of its edits, the strongest first."""
    content = text.encode()
    edits = breaks(path, content, {line}).get(line, [])
    texts = [edit.broken(content) for edit in edits]
    return [made.decode().split("\n")[line - 1].strip() for made in texts if is_code(path, made)]


@pytest.mark.parametrize(("line", "first"), [
    ("if a and b: c()", "if not (a and b): c()"),
    ("c(a, b)", "pass"),
    ("raise ValueError(a)", "pass"),
    ("return a < b", "return a >= b"),
    ("x = f(a, b)", "x = f(b, a)"),
    ("x = 30", "x = 31"),
    ("return g", "return None"),
    ("x = y if a else b", "x = y if not (a) else b"),
])  # fmt: skip
def test_python(line: str, first: str) -> None:
    assert broken("shop.py", f"def f(a, b):\n    {line}\n", 2)[0] == first


@pytest.mark.parametrize("line", ['"""Text."""', "log.info(a)", "print(a, b)", "import os"])
def test_what_no_test_can_notice_is_left(line: str) -> None:
    assert not broken("shop.py", f"def f(a, b):\n    {line}\n", 2)


@pytest.mark.parametrize(("line", "first"), [
    ("if (a && b) c();", "if (!(a && b)) c();"),
    ("c(a, b);", ";"),
    ("return a === b;", "return a !== b;"),
    ("const x = f(a, b);", "const x = f(b, a);"),
    ("return g;", "return undefined;"),
])  # fmt: skip
@pytest.mark.parametrize("ending", ["js", "ts"])
def test_javascript(ending: str, line: str, first: str) -> None:
    assert broken(f"shop.{ending}", f"function f(a, b) {{\n  {line}\n}}\n", 2)[0] == first


@pytest.mark.parametrize(("line", "first"), [
    ("if a > b {", "if !(a > b) {"),
    ("c(a, b)", ""),
    ("return a + 1", "return a - 1"),
    ("x := f(a, b)", "x := f(b, a)"),
])  # fmt: skip
def test_go(line: str, first: str) -> None:
    close = "}\n" if line.endswith("{") else ""
    text = f"package shop\nfunc f(a, b int) int {{\n{line}\n{close}return 0 }}\n"
    assert broken("shop.go", text, 3)[0] == first


@pytest.mark.parametrize(("line", "first"), [
    ("if a > b { return 1; }", "if !(a > b) { return 1; }"),
    ("c(a, b);", ""),
    ("let x = f(a, b);", "let x = f(b, a);"),
    ("a + 1", "a - 1"),
])  # fmt: skip
def test_rust(line: str, first: str) -> None:
    assert broken("src/lib.rs", f"fn f(a: u8, b: u8) -> u8 {{\n{line}\n}}\n", 2)[0] == first


def test_lines_of_inline_tests_are_left() -> None:
    text = "fn f() -> u8 { 1 }\n#[cfg(test)]\nmod tests {\n#[test]\nfn t() { g(1, 2); }\n}\n"
    assert not broken("src/lib.rs", text, 5)
    assert broken("src/lib.rs", text, 1)


def test_other_languages_are_refused() -> None:
    with pytest.raises(UnparsableError):
        breaks("shop.rb", b"1\n", {1})
