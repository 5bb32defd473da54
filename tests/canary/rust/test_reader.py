"""Tests of Rust, changed: run by the real ``cargo test``, which denies warnings."""

from __future__ import annotations

import os
import pwd
import random
import re
import shutil
import subprocess
from pathlib import Path

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
from rlm_ci.canary.rust import inline_tests, reader

#: A machine without Rust reads its files all the same.
needs_rust = pytest.mark.skipif(not shutil.which("cargo"), reason="there is no Rust")
CODE = """\
#![deny(warnings)]

pub fn add(a: i32, b: i32) -> i32 { a + b }
pub fn small(a: i8) -> i8 { add(a as i32, 0) as i8 }
#[derive(Debug, PartialEq)]
pub struct Point { pub x: u8, pub name: String }
pub fn point() -> Point { Point { x: add(1, 1) as u8, name: "a".to_string() } }
pub fn parse(text: &str) -> Result<i32, String> {
    if text.is_empty() { return Err("empty".into()); }
    Ok(add(text.len() as i32, 0))
}
#[derive(Debug, PartialEq)]
pub struct Cents(pub i32);
pub fn checked(a: i32) -> i32 {
    if add(a, 0) == 0 { panic!("zero is bad") }
    a
}

"""
WRONG = CODE.replace("{ a + b }", "{ a + b + 1 }").replace("text.is_empty()", 'text == "abc"')
#: Each fails with the wrong code. An alteration is possible in those of the first group.
ALTERABLE = """
    #[test]
    fn plain() {
        assert_eq!(add(1, 2), 3);
    }

    #[test]
    fn with_a_message() {
        let why = "because";
        assert_eq!(
            add(1, 2), // a comment
            3,
            "{} and {why}",
            why.len(),
        );
    }

    #[test]
    fn holds() {
        let seen = add(1, 2);
        assert!(seen == 3 && small(-5) == -5i8, "saw {}", seen);
        assert_ne!(seen, 4);
    }

    #[test]
    fn values() {
        assert_eq!(point(), Point { x: 2, name: "a".to_string() });
        assert_eq!(vec![Some(small(0x7f)); 1], [Some(0x7f)]);
    }

    #[test]
    fn constructed() {
        assert_eq!(Cents(add(1, 2)), Cents(3));
    }

    #[test]
    fn loops() -> Result<(), String> {
        for i in 0..3 {
            assert_eq!(0.5 + add(i, -i) as f64, 0.5);
        }
        let three = parse("abc")?;
        assert_eq!(Ok::<_, String>(three), Ok(3));
        Ok(())
    }

    #[test]
    #[should_panic(expected = "zero is bad")]
    fn panics_with() {
        checked(0);
    }
"""
OTHERS = """
    #[test]
    fn tables() {
        for (a, b, want) in [(1, 2, 3), (2, 2, 4)] {
            assert_eq!(add(a, b), want);
        }
    }

    #[test]
    fn helped() {
        same(add(1, 2), 3);
    }

    #[test]
    fn conditions() {
        if add(1, 2) != 3 {
            panic!("not three");
        }
        assert!(matches!(parse(""), Err(ref why) if why == "empty"));
    }

    #[test]
    fn differs() {
        assert_ne!(add(1, 2), 4);
        match add(1, 2) {
            3 => assert!(parse("").is_err()),
            other => assert!(other < 0, "{other}"),
        }
    }

    #[test]
    #[should_panic]
    fn panics() { checked(0); }

    fn same(got: i32, want: i32) {
        nested(got == want);
    }

    fn nested(ok: bool) {
        assert!(ok, "not the same");
    }
"""
#: Without a claim.
SILENT = """
    #[test]
    fn nothing() {}

    #[test]
    fn looks() { add(1, 2); }

    #[test]
    fn ends() -> Result<(), String> {
        parse("abc")?;
        Ok(())
    }

    #[test]
    fn branches() {
        if add(1, 2) == 3 {
            return;
        }
        for i in 0..3 {
            checked(i);
        }
    }
"""


def text_of(code: str, tests: str) -> str:
    return f"{code}#[cfg(test)]\nmod tests {{\n    use super::*;\n{tests}}}\n"


def changed(text: str, form: str, seed: int = 0, *, plain: bool = False) -> ChangedText:
    wanted = {one.name: form for one in reader.tests("src/lib.rs", text)}
    return reader.change("src/lib.rs", text, wanted, random.Random(seed), plain=plain)


def run(folder: Path, text: str) -> tuple[dict[str, str], dict[str, str]]:
    """How each test ends, and what it prints."""
    (folder / "src").mkdir(exist_ok=True)
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n'
        "[profile.test]\ndebug = false\nincremental = false\n"  # a third of the time
    )
    (folder / "src" / "lib.rs").write_text(text)
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # tests have another, without a toolchain
    environment = {"RUSTUP_HOME": f"{home}/.rustup", **os.environ}
    done = subprocess.run(
        ["cargo", "test", "--offline", "--lib"], cwd=folder, capture_output=True, text=True,
        check=False, env=environment,
    )  # fmt: skip
    ends = dict(
        re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (\w+)$", done.stdout, re.MULTILINE)
    )
    assert ends, done.stdout + done.stderr + text  # it compiles
    pieces = re.split(r"^---- (\S+) stdout ----$", done.stdout, flags=re.MULTILINE)
    return ends, dict(zip(pieces[1::2], pieces[2::2], strict=True))


def check_reversed(folder: Path, text: str, form: str, *, plain: bool) -> ChangedText:
    made = changed(text, form, plain=plain)
    ends, printed = run(folder, made.text)
    assert {*ends.values()} == {"FAILED"}, (ends, made.text)
    assert {*ends} == {*made.changed_tests}
    for name, one in made.changed_tests.items():
        assert not one.tokens or any(word in printed[name] for word in one.tokens), printed[name]
    return made


@pytest.mark.full
@needs_rust
def test_claims_are_reversed_and_taken_apart(tmp_path: Path) -> None:
    text = text_of(CODE, ALTERABLE + OTHERS)
    names = [one.name for one in reader.tests("src/lib.rs", text)]
    wanted = {name: [ALTERED, INVERTED, REWORDED][number % 3] for number, name in enumerate(names)}
    made = reader.change("src/lib.rs", text, wanted, random.Random(1))
    ends, printed = run(tmp_path, made.text)
    for name, one in made.changed_tests.items():
        assert ends[name] == ("ok" if one.form == REWORDED else "FAILED"), (name, made.text)
        assert not one.tokens or any(word in printed[name] for word in one.tokens)


@pytest.mark.full
@needs_rust
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("form", [ALTERED, INVERTED, REACHED, STOPPED])
def test_reversed_claims_fail_with_right_code(tmp_path: Path, form: str, *, plain: bool) -> None:
    made = check_reversed(
        tmp_path, text_of(CODE, ALTERABLE + OTHERS + SILENT), form, plain=plain
    ).changed_tests
    if form == ALTERED:
        altered = {name for name, one in made.items() if one.form == ALTERED}
        others = {name for name in made if f"fn {name.removeprefix('tests::')}(" not in ALTERABLE}
        assert altered & others == {"tests::panics"}  # asked for a message that it has not
        assert altered | others == {*made}


@pytest.mark.full
@needs_rust
@pytest.mark.parametrize("plain", [False, True])
def test_reworded_claims_pass_with_right_code_and_fail_with_wrong(
    tmp_path: Path, *, plain: bool
) -> None:
    made = changed(text_of(CODE, ALTERABLE + OTHERS + SILENT), REWORDED, plain=plain)
    assert {*run(tmp_path, made.text)[0].values()} == {"ok"}
    made = changed(text_of(WRONG, ALTERABLE + OTHERS), REWORDED, plain=plain)
    ends, printed = run(tmp_path, made.text)
    assert {*ends.values()} == {"FAILED"}, (ends, printed)


@pytest.mark.full
@needs_rust
def test_idle_tests_pass_whatever_the_code(tmp_path: Path) -> None:
    made = changed(text_of(WRONG, ALTERABLE + OTHERS + SILENT), IDLE)
    assert {*run(tmp_path, made.text)[0].values()} == {"ok"}


def test_lines_stay() -> None:
    text = text_of(CODE, ALTERABLE + OTHERS)
    heads = [(at, line) for at, line in enumerate(text.splitlines()) if " fn " in line]
    for form in (ALTERED, INVERTED, REWORDED, REACHED, STOPPED, IDLE):
        lines = changed(text, form).text.splitlines()
        assert all(line[:14].strip() in lines[at] for at, line in heads)


def test_names_have_the_modules_of_the_file_and_a_star_for_cases() -> None:
    text = "mod a { mod b { #[tokio::test] async fn c() {} } }\n#[rstest]\n#[case(1)]\nfn d() {}\n"
    assert [one.name for one in reader.tests("src/a.rs", text)] == ["a::b::c", "d::*"]


def test_a_file_without_tests_has_none() -> None:
    assert reader.tests("a.rs", "#[cfg(test)]\nfn test() {}\n") == []


@pytest.mark.parametrize("text", ["\0", "fn", "#[test] fn a() {", "(" * 900])
def test_what_is_no_rust_is_refused(text: str) -> None:
    with pytest.raises(UnparsableError, match=r"a\.rs"):
        reader.tests("a.rs", text)


PRODUCT = """\
//! Sums.
#[cfg(test)]
mod more;
use std::fmt;

pub fn add(a: i32) -> i32 { a }

impl Point {
    pub fn new() -> Self { Point }
    #[cfg(test)]
    fn made() -> Self { Point }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() { assert_eq!(add(1), 2); }
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add(1), 2", "add(1), 1"),
        ("#[cfg(test)]\nmod tests", "#[cfg(not(test))]\nmod tests"),
        ("#[cfg(test)]\nmod more;\n", ""),
        ("    #[cfg(test)]\n    fn made() -> Self { Point }\n", ""),
        ("fn made() -> Self { Point }", "fn made() -> Self { Wrong }"),
        (PRODUCT[PRODUCT.index("#[cfg(test)]\nmod tests") :], ""),
        ("use std::fmt;\n", "use std::fmt;\n#[cfg(test)]\nmod new { #[test] fn passes() {} }\n"),
    ],
)
def test_the_tests_of_the_start_are_restored(old: str, new: str) -> None:
    """The code stays as it is in the result."""
    assert PRODUCT.count(old) == 1
    changed = PRODUCT.replace(old, new).replace("-> i32 { a }", "-> i32 { a + 1 }")
    made = inline_tests.restored(PRODUCT, changed)
    assert made is not None
    right = PRODUCT.replace("-> i32 { a }", "-> i32 { a + 1 }")
    assert made.split() == right.split()
    assert inline_tests.restored(PRODUCT, made) == made


def test_tests_whose_place_is_gone_cannot_be_restored() -> None:
    assert inline_tests.restored(PRODUCT, PRODUCT.replace("impl Point", "impl Other")) is None
    assert inline_tests.restored(PRODUCT, "fn add( {") is None
    assert inline_tests.restored(PRODUCT, f"#![cfg(test)]\n{PRODUCT}") is None
