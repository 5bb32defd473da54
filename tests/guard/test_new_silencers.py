"""Comments that silence a tool: which are new, and which say why."""

from __future__ import annotations

import pytest

from rlm_ci.guard.new_silencers import new_silencers
from rlm_ci.guard.weakening import TextChange

PY, JS, GO, RUST = "a.py", "a.js", "a.go", "a.rs"
BANS = "// eslint-disable-next-line no-eval\nexport const a = 1\n"
INDENTED = "\t// eslint-disable-next-line no-eval\n"


def silenced(*changes: TextChange) -> list[str]:
    weaker, _ = new_silencers(changes)
    assert {one.rule for one in weaker} <= {"check-silenced"}
    return [one.message for one in weaker]


def test_a_comment_that_silences_a_tool_is_told_once_a_file() -> None:
    new = "import os  # noqa\nimport re  # noqa\nx = f()  # type: ignore[arg-type]\n"
    assert silenced(TextChange(PY, "", new)) == [
        "silences a tool 2 times: # noqa", "silences a tool: # type: ignore[arg-type]",
    ]  # fmt: skip
    for words in (
        "eslint-disable-next-line no-eval",
        "eslint-disable-line @b/c",
        "istanbul ignore",
    ):
        assert silenced(TextChange(JS, "", f"/* {words.replace(' ', '  ')} */\n")) == [
            f"silences a tool: {words}"
        ]
    rust = "#[allow(dead_code)]\nfn a() {}\n"
    assert silenced(TextChange(RUST, "", rust)) == ["silences a tool: #[allow(dead_code)]"]


def test_the_end_of_what_coverage_leaves_out_silences_nothing() -> None:
    why = "/* c8 ignore start - covered, but c8 cannot see it */\nf()\n"
    for end in ("/* c8 ignore stop */\n", "/* v8 ignore end */\n"):
        assert silenced(TextChange(JS, "f()\n", f"{why}{end}")) == []
    bare = "/* c8 ignore start */\nf()\n/* c8 ignore stop */\n"
    assert silenced(TextChange(JS, "f()\n", bare)) == ["silences a tool: c8 ignore"]


def test_a_line_that_a_test_of_types_forbids_is_no_silence() -> None:
    line = "// @ts-expect-error\nf(1)\n"
    for path in ("dts-test/f.test-d.ts", "test/module/typings/index.ts", "test/types.test.ts"):
        assert silenced(TextChange(path, "", line)) == []
    assert silenced(TextChange("src/f.ts", "", line)) == ["silences a tool: @ts-expect-error"]
    # A test's own new line claims that it must not pass; above one that was there it is silence.
    for path in ("src/f.test.ts", "__tests__/f.ts"):
        assert silenced(TextChange(path, "", line)) == []
    assert silenced(TextChange("src/f.test.ts", "f(1)\n", line)) != []


def test_what_a_test_reads_as_text_silences_nothing() -> None:
    assert silenced(TextChange("tests/data/cases/skip.py", "", "x = 1  # fmt: skip\n")) == []
    assert silenced(TextChange("tests/errors/source/a.py", "", "x = 1  # fmt: skip\n")) == []
    assert silenced(TextChange("tests/cases.py", "", "x = 1  # fmt: skip\n")) != []


def test_one_that_moved_to_another_file_is_not_new() -> None:
    line = "import os  # noqa\n"
    assert silenced(TextChange(PY, line, ""), TextChange("b.py", None, line)) == []


def test_one_of_the_same_file_comes_first() -> None:
    first = TextChange(PY, "x = a  # type: ignore\n", "x = a,  # type: ignore[misc]\n")
    other = "y = (\n    b\n)  # type: ignore[misc]\n"
    assert silenced(first, TextChange("b.py", other, "y = b  # type: ignore[misc]\n")) == []


#: A file, what it said, and what it says: no more silence than before.
SAME: dict[str, tuple[str, str, str]] = {
    "further down": (PY, "import os  # noqa\n", "\nimport os  # noqa\n"),
    "narrower": (PY, "x = 1  # type: ignore\n", "x = 1  # type: ignore[misc]\n"),
    "narrower, beside other code": (
        PY, "x = a(self.b, b)  # type: ignore\n", "x = self.a(b)  # type: ignore[misc]\n",
    ),
    "narrower, by a formatter": (
        PY, "def f(\n    self, x: int | None = None  # type: ignore\n): ...\n",
        "def f(\n    self,\n    x: int | None = None,  # type: ignore[misc]\n): ...\n",
    ),
    "expected, where it was allowed": (
        RUST, "#[allow(dead_code)]\nfn a() {}\n", "#[expect(dead_code)]\nfn a() {}\n",
    ),
    "two rules for all": (PY, "x = 1  # type: ignore\n", "x = 1  # type: ignore[misc, arg]\n"),
    "another rule": (PY, "x = 1  # noqa: E501\n", "x = 1  # noqa: F401\n"),
    "another rule above the code": (JS, BANS, BANS.replace("no-eval", "no-new-func")),
    "further in, where others stay": (
        JS, f"{INDENTED}a()\n{INDENTED}b()\n", f"{INDENTED}a()\n\t{INDENTED}\tb()\n",
    ),
    "further in, past one of the same depth": (
        JS, f"{INDENTED}a()\nif (x)\n\t{INDENTED}b()\n",
        f"\tif (y)\n\t{INDENTED}\ta()\n\tif (x)\n\t\t{INDENTED}\tb()\n",
    ),
}  # fmt: skip
#: The same for more silence.
MORE: dict[str, tuple[str, str, str]] = {
    "a second rule": (PY, "x = 1  # noqa: E501\n", "x = 1  # noqa: E501, F401\n"),
    "all for one": (PY, "x = 1  # noqa: E501\n", "x = 1  # noqa\n"),
    "again": (JS, BANS, f"{BANS}// eslint-disable-next-line no-eval\nb()\n"),
    "beside a known line": (PY, "f()  # noqa\ng()\n", "f()  # noqa\ng()\nf()  # noqa\n"),
    "of another tool": (PY, "x = 1  # noqa\n", "x = 1  # type: ignore\n"),
    "one rule, where all were silenced elsewhere": (
        PY, "x = a  # type: ignore\ny = b\n", "x = a\ny = b  # type: ignore[misc]\n",
    ),
    "moved, and another in its place": (
        PY, "x = 1  # noqa: E501\ny = 2\n", "x = 1  # noqa: F401\ny = 2  # noqa: E501\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_as_much_silence_as_before_is_no_news(case: str) -> None:
    assert silenced(TextChange(*SAME[case])) == []


@pytest.mark.parametrize("case", MORE)
def test_more_silence_is_told(case: str) -> None:
    (told,) = silenced(TextChange(*MORE[case]))
    assert told.startswith("silences a tool: ")


#: A file, what it said, and what it says: with a reason.
EXPLAINED: dict[str, tuple[str, str, str]] = {
    "noqa": (PY, "", "x = 1  # noqa: B028 - the caller's line\n"),
    "two comments": (PY, "", "x = 1  # type: ignore[misc]  # mypy takes it for a union\n"),
    "in front": (PY, "", "x = 1  # mypy takes it for a union  # type: ignore[misc]\n"),
    "of a name": (PY, "", "x = 1  # noqa: A1  # `__init__` has the exports\n"),
    "a version": (PY, "", "except A:  # pragma: no cover\n    # tools < 0.6.3\n    pass\n"),
    "a directive that must have one": (GO, "", "//lint:ignore ST1005 Windows has a capital\nf()\n"),
    "nolint": (GO, "", "f() //nolint:gosec // the user owns this path\n"),
    "eslint": (JS, "", "f() // eslint-disable-line no-eval -- it is our own text\n"),
    "typescript": ("a.ts", "", "// @ts-expect-error the types lack it\nf()\n"),
    "typescript, of a type": ("a.ts", "", "// @ts-expect-error {a: null} is no option\nf()\n"),
    "above, for a whole file of rust": (
        RUST, "", "// the text has a test in it\n#![allow(dead_code)]\n",
    ),
    "above, for code of rust": (
        RUST, "", "// no system calls this\n#[allow(dead_code)]\nfn a() {}\n",
    ),
    "above, long since": (PY, "# a is a union\nx = a\n", "# a is a union\nx = a  # noqa\n"),
    "above code that is new": (PY, "", "# add both numbers up\nx = a  # type: ignore\n"),
    "above, to do": (
        JS, "", "// TODO: Enable it with a parser\n// eslint-disable-next-line no-eval\na()\n",
    ),
    "above, about the tool": (
        PY, "", "# mypy takes it for a union here\nx = a  # type: ignore\n",
    ),
    "at the top of its block": (
        PY, "", "except OSError:  # pragma: no cover\n    # only a full disk ends here\n    a()\n",
    ),
    "above, with it": (PY, "x = a\n", "# a is taken for a union here\nx = a  # type: ignore\n"),
}  # fmt: skip
BOTH = "a() // eslint-disable-line no-eval\nb() // eslint-disable-line no-eval -- it is our text\n"
#: The same with none.
UNEXPLAINED: dict[str, tuple[str, str, str]] = {
    "another tool": (PY, "", "x = 1  # type: ignore[misc]  # pragma: no cover\n"),
    "two rules of rust": (RUST, "", "#[allow(dead_code, unused_mut)]\nfn a() {}\n"),
    "documented code of rust": (
        RUST, "", "/// Adds both numbers up.\n#[allow(dead_code)]\nfn a() {}\n",
    ),
    "two rules of bandit": (PY, "", "x = 1  # nosec B101 B102\n"),
    "a directive that must have a reason": (GO, "", "//lint:ignore ST1005\nf()\n"),
    "below, of no block": (PY, "", "x = a  # noqa\n# a is a union, as all here\n"),
    "above, apart": (PY, "x = a\n", "# a is a union\ny = 1\nx = a  # noqa\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPLAINED)
def test_one_with_a_reason_is_counted(case: str) -> None:
    weaker, explained = new_silencers([TextChange(*EXPLAINED[case])])
    assert (weaker, len(explained)) == ([], 1)


def test_the_reason_may_stand_at_the_line_beside() -> None:
    assert silenced(TextChange(JS, "", BOTH)) == []
    assert silenced(TextChange(JS, "", BOTH.replace("\n", "\n\n", 1))) != []


@pytest.mark.parametrize("case", UNEXPLAINED)
def test_one_with_no_reason_is_told(case: str) -> None:
    weaker, explained = new_silencers([TextChange(*UNEXPLAINED[case])])
    assert weaker
    assert explained == []


@pytest.mark.parametrize(
    ("first", "comment", "is_told"),
    [
        ("# pyright: strict", "# pyright: ignore[reportUnknown]", False),
        ("# pyright: strict", "# noqa: E501", True),
        ("# pyright: basic", "# pyright: ignore[reportUnknown]", True),
        ("", "# pyright: ignore[reportUnknown]", True),
    ],
)
def test_a_checker_that_looks_at_more_of_a_file_may_be_silenced_in_it(
    first: str, comment: str, *, is_told: bool
) -> None:
    assert bool(silenced(TextChange(PY, "x = 1\n", f"{first}\nx = f()  {comment}\n"))) is is_told
    assert silenced(TextChange(PY, None, f"{first}\nx = f()  {comment}\n")) != []


#: By language, what its linter obeys.
OBEYED = {
    "a.py": ["x = 1  # noqa\n", 'x = """\n"""  # type: ignore\n', "@no_type_check\ndef f(): ...\n",
             "x = f'{y}'  # pragma: no cover\n", "x = '# no'  # noqa\n", "x = (  # noqa\n"],
    "a.pyi": ["x: int  # pyright: ignore\n"],
    "a.pyx": ["cdef int x  # noqa\n"],
    "a.go": ['f("//")  //nolint\n', "f(`a\nb`) //nolint:gosec\n", "//lint:ignore SA1 it\n"],
    "a.rs": ["#[allow(dead_code)]\nfn a() {}\n", "#![allow(warnings)]\n",
             "let c = '\"';\n#[expect(dead_code)]\nfn b<'a>() {}\n"],
    "a.ts": ["f(`a ${b}`) // eslint-disable-line\n", "// @ts-ignore\nf()\n",
             "/* istanbul ignore next */\n", "const q = /['\"`]/ // eslint-disable-line\n"],
    "a.tsx": ["<p>{/* @ts-expect-error */}</p>\n", "<p>Don't {/* eslint-disable-line */}</p>\n"],
    "a.js": ["/*\n * eslint-disable no-eval\n */\n", "f('http://x') // prettier-ignore\n"],
    "a.vue": ["<!-- eslint-disable -->\n", "<script>\nf() // eslint-disable-line\n</script>\n"],
    "a.svelte": ["<!-- eslint-disable -->\n", "<p>don't</p> <!-- prettier-ignore -->\n"],
    "a.html": ["<!-- eslint-disable -->\n"],
    "a.css": ["/* stylelint-disable */\n"],
    "a.scss": ["a { b: c; } // stylelint-disable-line\n"],
    "a.rb": ["x = 'a' # rubocop:disable Lint/X\n"],
    "a.php": ["/** @phpstan-ignore-next-line */\n", "f(); // phpcs:ignore\n"],
    "a.sh": ["# shellcheck disable=SC1\nx\n"],
    "a.swift": ["// swiftlint:disable x\n"],
    "a.sql": ["SELECT 1 -- noqa\n"],
}  # fmt: skip
#: The same words where no linter reads them.
UNREAD = {
    "a.py": ['HELP = "put # noqa behind the line"\n', '"""Doc.\n\nWrite # type: ignore.\n"""\n',
             "x = f'# pragma: no cover {y}'\n", "x = '@no_type_check'\n", "x = 'eslint-disable'\n",
             "x = 1  # eslint-disable-line\n", "# see @no_type_check\n"],
    "a.pyi": ['x: Literal["# noqa"]\n'],
    "a.html": ["<code># noqa: E501</code>\n", "<p>eslint-disable</p>\n", "<!-- # noqa -->\n",
               "<script>f() // eslint-disable-line\n</script>\n"],
    "a.htm": ["<code># type: ignore</code>\n"],
    "a.jinja2": ["{# # noqa #}\n"],
    "a.css": ['.x::after { content: "# noqa"; }\n', '.x { content: "stylelint-disable"; }\n'],
    "a.js": ["const a = 1; // say: # type: ignore\n", "const a = 'eslint-disable'\n"],
    "a.ts": ['export const help = "write # noqa: E501 there";\n', "f(`\n// @ts-ignore\n`)\n",
             "const r = /eslint-disable/\n"],
    "a.vue": ['const help = "eslint-disable"\n', "<p># noqa</p>\n"],
    "a.go": ['x := "//nolint"\n', "x := `\n//nolint\n`\n", "// # noqa\n"],
    "a.rs": ["// #[allow(dead_code)]\n", 'let a = "#[allow(x)]";\n',
             'let a = r#"\n#[allow(x)]"#;\n'],
    "a.java": ['class A { String s = "# noqa"; }\n', "// eslint-disable-line\n"],
    "a.c": ["/* # noqa */\n"],
    "a.sh": ["echo '# shellcheck disable=SC1'\n", "# noqa\n"],
    "a.rb": ["x = '# rubocop:disable Lint/X'\n"],
    "a.sql": ["SELECT '-- noqa'\n", "SELECT 1 # noqa\n"],
}  # fmt: skip


@pytest.mark.parametrize("path", OBEYED)
def test_a_comment_that_the_linter_of_its_language_obeys_counts(path: str) -> None:
    assert [text for text in OBEYED[path] if not silenced(TextChange(path, "", text))] == []


@pytest.mark.parametrize("path", UNREAD)
def test_what_no_linter_reads_silences_none(path: str) -> None:
    assert [text for text in UNREAD[path] if silenced(TextChange(path, "", text))] == []


def test_a_comment_counts_where_the_rest_of_its_text_was_there() -> None:
    before = 'A = """\na\nb\n"""\n'
    assert not silenced(TextChange(PY, before, before.replace("b", "b # noqa")))
    assert silenced(TextChange(PY, before, f"{before}b = 1 # noqa\n"))


@pytest.mark.full
@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", ["a.py", "a.ts", "a.rs"])
def test_no_literal_takes_long(path: str) -> None:
    end = "\n# noqa // eslint-disable-line #[allow(x)] shellcheck disable=X\n"
    parts = (
        "'",
        '"',
        "`",
        "\\`\n",
        '\\"',
        "/*",
        "=/[",
        "=/a",
        "<!--",
        "r#",
        "(",
        "f'{",
        "'" * 3,
        "#",
    )
    for part in parts:
        new_silencers([TextChange(path, "", part * (300_000 // len(part)) + end)])


@pytest.mark.full
@pytest.mark.timeout(30)
def test_no_source_takes_long() -> None:
    text = "# noqa: " + "A1," * 100_000 + "#noqa" * 100_000 + "\n# noqa\n" * 20_000
    new_silencers([TextChange(PY, "x = 1\n", f"{text}{'#ab' * 500_000}\nx = 1  # noqa\n")])
