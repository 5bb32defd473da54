"""Source of other languages as statements: the same ones, however they are laid out."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.statements import statements


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("rs", 'let a = r"x\\"; let b = 1;\n', ['let a=r"x\\"', "let b=1"]),
        ("rs", 'let a = r#"q"z"#; let b = 1;\n', ['let a=r#"q"z"#', "let b=1"]),
        ("rs", 'let a = br##"q"#z"##; let b = 1;\n', ['let a=br##"q"#z"##', "let b=1"]),
        ("rs", "let c = '\"'; let d: &'a str = \"x\";\n", ["let c='\"'", 'let d:&\'a str="x"']),
        ("rs", 'let open = r#"never closed;\n', ['let open=r#"never closed;\n']),
        ("go", "a := `x\n;` ; b := 'c'\n", ["a:=`x\n;`", "b:='c'"]),
        ("js", "let a = 'it'; f(\n  a,\n)\n", ['let a="it"', "f(a)"]),
        ("js", "const a = `;${b}`\nreturn\nc\n", ["let a=`;${b}`", "return", "c"]),
    ],
)
def test_texts_are_no_code(language: str, text: str, found: list[str]) -> None:
    assert [one for _, one in statements(language, text)] == found
