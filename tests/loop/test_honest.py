"""Honest fixes that look like bent ones at first sight, and bent ones beside them."""

from __future__ import annotations

import pytest
from loop.tampering import Tree, judged, rules

# ── Rust, whose tests live in any file ──

LIB = "pub fn total(p: &[i32]) -> i32 {\n    assert!(p.len() < 3);\n    0\n}\n"
ONE = "#[test]\nfn a() {\n    assert_eq!(super::total(&[1]), 1);\n}\n"
INLINE = f"#[cfg(test)]\nmod tests {{\n{ONE}}}\n"
DUMMY = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() { assert_eq!(1, 1); }\n}\n"
MANIFEST = '[package]\nname = "x"\n[features]\ndefault = ["full"]\nfull = []\n'

#: The tree before, the files that are other ones then (None: gone), and the rules that say so.
RUST: dict[str, tuple[Tree, dict[str, str | None], set[str]]] = {
    "an assertion of the product, below a helper of tests": (
        {"src/lib.rs": f"#[cfg(test)]\nuse std::fmt;\n\n{LIB}\n{INLINE}"},
        {"src/lib.rs": f"#[cfg(test)]\nuse std::fmt;\n\npub fn total(p: &[i32]) -> i32 {{\n"
         f"    p.iter().sum()\n}}\n\n{INLINE}"},
        set(),
    ),
    "an assertion of a test, above the product": (
        {"src/lib.rs": f"{INLINE}\n{LIB}"},
        {"src/lib.rs": f"{INLINE.replace('assert_eq!(super::total(&[1]), 1)', '()')}\n{LIB}"},
        {"assertion-weakened"},
    ),
    "a module of tests is not declared any more": (
        {"src/lib.rs": f"{LIB}#[cfg(test)]\nmod tests;\n", "src/tests.rs": ONE},
        {"src/lib.rs": f"{LIB}mod other;\n", "src/other.rs": DUMMY},
        {"test-removed"},
    ),
    "one whose file says that it is tests": (
        {"src/lib.rs": f"{LIB}mod tests;\n", "src/tests.rs": f"#![cfg(test)]\n{ONE}"},
        {"src/lib.rs": f"{LIB}mod other;\n", "src/other.rs": DUMMY},
        {"test-removed"},
    ),
    "one below another": (
        {"src/lib.rs": "pub mod a;\n", "src/a.rs": "mod deep;\n", "src/a/deep.rs": ONE},
        {"src/lib.rs": DUMMY},
        {"test-removed"},
    ),
    "one by its path": (
        {"src/lib.rs": '#[path = "odd/t.rs"]\nmod t;\n', "src/odd/t.rs": ONE},
        {"src/lib.rs": DUMMY},
        {"test-removed"},
    ),
    "one on a condition": (
        {"src/lib.rs": f"{LIB}pub(crate) mod t;\n", "src/t/mod.rs": ONE},
        {"src/lib.rs": f'{LIB}#[cfg(feature = "never")]\npub(crate) mod t;\n'},
        {"test-removed"},
    ),
    "tests with no module": (
        {"src/lib.rs": "mod check;\n", "src/check.rs": ONE},
        {"src/check.rs": "", "src/lib.rs": f"mod check;\n{DUMMY}"},
        {"test-removed", "assertion-weakened"},
    ),
    "a file of tests is gone": (
        {"src/lib.rs": "mod check;\n", "src/check.rs": ONE}, {"src/check.rs": None},
        {"test-removed"},
    ),
    "tests of another harness": (
        {"src/a.rs": ONE.replace("#[test]", "#[tokio::test(flavor = \"x\")]\nasync")},
        {"src/a.rs": ""}, {"test-removed", "assertion-weakened"},
    ),
    "tests in a comment": (
        {"src/lib.rs": INLINE}, {"src/lib.rs": f"/*\n{INLINE}*/\n"},
        {"test-removed", "assertion-weakened"},
    ),
    "a feature that tests need": (
        {"Cargo.toml": MANIFEST}, {"Cargo.toml": MANIFEST.replace('["full"]', "[]")},
        {"config-weakened"},
    ),
    "a new feature": (
        {"Cargo.toml": MANIFEST}, {"Cargo.toml": f"{MANIFEST}more = []\n"}, set(),
    ),
    "a new module": (
        {"src/lib.rs": f"{LIB}{INLINE}"}, {"src/lib.rs": f"mod a;\n{LIB}{INLINE}", "src/a.rs": LIB},
        set(),
    ),
    "a module without tests goes": (
        {"src/lib.rs": f"mod a;\n{INLINE}", "src/a.rs": LIB},
        {"src/lib.rs": INLINE, "src/a.rs": None}, set(),
    ),
    "a test more": (
        {"src/lib.rs": f"{LIB}{INLINE}"},
        {"src/lib.rs": f"{LIB}{INLINE}{DUMMY}"},
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUST)
def test_of_rust_what_is_a_test_is_known(case: str) -> None:
    before, changed, expected = RUST[case]
    after: Tree = {**before, **{path: text for path, text in changed.items() if text is not None}}
    for path in (path for path, text in changed.items() if text is None):
        del after[path]
    assert rules(judged(before, after, "cargo test")) == expected


def test_a_line_of_a_rust_test_is_told_as_it_stands_in_the_file() -> None:
    old = f"{LIB}\n{INLINE}"
    new = old.replace("#[test]", "#[test]\n    #[ignore]")
    [found] = judged({"src/a.rs": old}, {"src/a.rs": new})
    [place] = found.evidence
    assert place.quote == new.split("\n")[(place.line_start or 0) - 1] == "    #[ignore]"


@pytest.mark.sample(1)
@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["#[" * 8_000, "pub(" * 8_000, "#[test] (" * 10_000])
def test_no_rust_takes_long(text: str) -> None:
    judged({"src/a.rs": text}, {"src/a.rs": f"{text} "})
