"""What one change takes away and another uses, in languages of both kinds; names added twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.open_branches import FILES, PARSE, TOTAL, Branches
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

USE = "from shop.text import parse\n\n\ndef read():\n    return parse('a b')\n"
GO = {
    "go.mod": "module example.com/shop\n\ngo 1.21\n",
    "text/text.go": "package text\n\nfunc Parse(s string) string {\n\treturn s\n}\n",
    "main.go": "package main\n\nfunc main() {}\n",
}
TS = {
    "package.json": '{"name": "shop", "version": "1.0.0"}\n',
    "src/text.ts": "export function parse(text: string): string {\n  return text;\n}\n",
    "src/index.ts": "export * from './text';\n",
}
GO_USE = """\
package main

import "example.com/shop/text"

func main() {
\ttext.Parse("a")
}
"""
TS_USE = "import { parse } from './text';\n\nexport const read = () => parse('a');\n"
RUST_USE = """\
pub mod text;

pub fn read() -> &'static str {
    crate::text::parse("a")
}
"""
RUST = {
    "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\n',
    "src/lib.rs": "pub mod text;\n",
    "src/text.rs": "pub fn parse(text: &str) -> &str {\n    text\n}\n",
}


def shop(folder: Path, files: dict[str, str] = FILES) -> Branches:
    return Branches(GitRepo(folder / "shop"), files)


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        ({"shop/text.py": "import re\n"}, "removes `parse` (shop/text.py:4)"),
        (
            {"shop/text.py": "import re\n", "shop/words.py": PARSE},
            "moves `parse` (shop/words.py:1; from `shop/text.py`)",
        ),
        ({"shop/text.py": None, "shop/words.py": f"import re\n\n\n{PARSE}"},
         "removes the file shop/text.py:1"),
        (
            {"shop/text.py": f"import re\n\n\n{PARSE.replace('text)', 'text, sep)', 1)}"},
            "changes `parse` (shop/text.py:4; ",
        ),
    ],
    ids=["removed", "moved", "renamed file", "changed"],
)  # fmt: skip
def test_python(tmp_path: Path, taken: dict[str, str | None], words: str) -> None:
    (message,) = shop(tmp_path).sides(one=taken, two={"shop/read.py": USE})
    assert f"one {words}" in message
    assert "which two uses in new lines (shop/read.py:" in message


def test_a_name_that_stays_importable_is_not_taken(tmp_path: Path) -> None:
    kept = {"shop/text.py": "from shop.words import parse\n", "shop/words.py": PARSE}
    assert shop(tmp_path).sides(one=kept, two={"shop/read.py": USE}) == []


def test_an_option_more_breaks_no_use(tmp_path: Path) -> None:
    more = {"shop/text.py": f"import re\n\n\n{PARSE.replace('text)', 'text, sep=None)', 1)}"}
    assert shop(tmp_path).sides(one=more, two={"shop/read.py": USE}) == []


def test_a_call_that_fits_both_versions_is_not_broken(tmp_path: Path) -> None:
    """A parameter in front breaks who passes by position; nobody else."""
    more = f"import re\n\n\n{PARSE.replace('(text', '(sep=None, text=None')}"
    by_name = {"shop/read.py": USE.replace("('a b')", "(text='a b')")}
    branches = shop(tmp_path)
    assert branches.sides(one={"shop/text.py": more}, two=by_name) == []
    branches.branch("three", {"shop/read.py": USE})
    (message,) = branches.messages("one", "three")
    assert message.startswith("changed high: one changes `parse`")


def test_only_calls_mind_another_constructor(tmp_path: Path) -> None:
    cart = "class Cart:\n    def __init__(self, owner):\n        self.owner = owner\n"
    files = {**FILES, "shop/cart.py": cart}
    more = {"shop/cart.py": cart.replace("owner)", "owner, place)", 1)}
    use = "from shop.cart import Cart\n\n\ndef is_cart(x: Cart):\n    return isinstance(x, Cart)\n"
    branches = shop(tmp_path, files)
    assert branches.sides(one=more, two={"shop/read.py": use}) == []
    branches.branch("three", {"shop/read.py": f"{use}\n\nprint(Cart('ada'))\n"})
    (message,) = branches.messages("one", "three")
    assert "changes `Cart.__init__` (shop/cart.py:2; requires `place`)" in message
    assert "(shop/read.py:8)" in message


def test_a_name_of_another_file_is_not_meant(tmp_path: Path) -> None:
    other = {"shop/json.py": PARSE, "shop/read.py": USE.replace("shop.text", "shop.json")}
    assert shop(tmp_path).sides(one={"shop/text.py": "import re\n"}, two=other) == []


@pytest.mark.parametrize(
    ("name", "is_named"), [("parse", True), ("Parser.parse", True), ("_parse", False)]
)
def test_a_name_that_all_leaves_out_is_used_by_other_files(
    tmp_path: Path, name: str, *, is_named: bool
) -> None:
    owner, _, last = name.rpartition(".")
    body = f"def {last}({'self, ' if owner else ''}text):\n    return text\n"
    if owner:
        body = f"class {owner}:\n    {body.replace(chr(10) + ' ', chr(10) + '     ')}"
    text = f"import re\n\n__all__ = []\n\n\n{body}"
    files = {**FILES, "shop/text.py": text}
    call = f"{owner}().{last}" if owner else last
    use = f"from shop.text import {owner or last}\n\n\ndef read():\n    return {call}('a')\n"
    messages = shop(tmp_path, files).sides(
        one={"shop/text.py": text.replace("text):", "text, sep):")}, two={"shop/read.py": use}
    )
    assert bool(messages) is is_named, messages


def test_old_lines_are_the_own_matter_of_who_removes(tmp_path: Path) -> None:
    """What used the name before is broken by that change alone, and seen by its own checks."""
    taken = {"shop/till.py": "RATE = 2\n"}
    edited = {"shop/page.py": f"{FILES['shop/page.py']}\n\ndef more():\n    return 1\n"}
    assert shop(tmp_path).sides(one=taken, two=edited) == []


@pytest.mark.parametrize(
    ("files", "taken", "used"),
    [
        (
            GO,
            {"text/text.go": "package text\n\nfunc Split(s string) string {\n\treturn s\n}\n"},
            {"main.go": GO_USE},
        ),
        (
            TS,
            {"src/text.ts": "export function split(text: string): string {\n  return text;\n}\n"},
            {"src/read.ts": TS_USE},
        ),
        (
            RUST,
            {"src/text.rs": "pub fn split(text: &str) -> &str {\n    text\n}\n"},
            {"src/lib.rs": RUST_USE},
        ),
    ],
    ids=["Go", "TypeScript", "Rust"],
)  # fmt: skip
def test_other_languages(
    tmp_path: Path, files: dict[str, str], taken: dict[str, str], used: dict[str, str]
) -> None:
    messages = shop(tmp_path, files).sides(one=taken, two=used)
    assert len(messages) == 1, messages
    path, line = next(iter(taken)), 3 if files is GO else 1
    assert f"one removes `{'Parse' if files is GO else 'parse'}` ({path}:{line})" in messages[0]
    assert f"which two uses in new lines ({next(iter(used))}:" in messages[0]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("src/macros.rs", 'macro_rules! read {\n    () => { $crate::text::parse("a") };\n}\n'),
        ("src/read.rs", 'pub fn read() -> &\'static str {\n    crate::text::parse("a")\n}\n'),
        ("src/read.rs", 'pub fn read() {\n    assert_eq!(crate::text::parse("a"), "a");\n}\n'),
        ("src/more/read.rs", "pub const READ: fn(&str) -> &str = crate::text::parse;\n"),
    ],
    ids=["macro", "call", "in a macro's arguments", "value"],
)
def test_a_path_through_the_crate_needs_no_import(tmp_path: Path, path: str, code: str) -> None:
    taken = {"src/text.rs": "pub fn split(text: &str) -> &str {\n    text\n}\n"}
    (message,) = shop(tmp_path, RUST).sides(one=taken, two={path: code})
    assert f"one removes `parse` (src/text.rs:1), which two uses in new lines ({path}:" in message


def test_a_path_through_the_crate_to_another_module_is_no_use(tmp_path: Path) -> None:
    files = {**RUST, "src/json.rs": RUST["src/text.rs"]}
    taken = {"src/text.rs": "pub fn split(text: &str) -> &str {\n    text\n}\n"}
    used = {"src/read.rs": 'pub fn read() {\n    crate::json::parse("a");\n}\n'}
    assert shop(tmp_path, files).sides(one=taken, two=used) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "use", "is_broken"),
    [
        ("src/text.ts", "interface Page extends Words {", "interface Page {",
         "const page: Page = read();", False),
        ("src/text.ts", "class Page<T> {", "class Page<T> extends Words<T> implements Sized {",
         "const page = new Page<string>();", False),
        ("src/text.ts", "interface Page {", "interface Page extends Words {",
         "class Sheet implements Page {}", True),
        ("src/text.ts", "interface Page<T extends A> extends Words {",
         "interface Page<T extends A, U> {", "const page: Page<A> = read();", True),
        ("src/text/Page.java", "public class Page extends Words {", "public class Page {",
         "class Sheet { Page page; }", False),
    ],
)  # fmt: skip
def test_other_parents_of_a_type_break_its_heirs_alone(
    tmp_path: Path, path: str, old: str, new: str, use: str, *, is_broken: bool
) -> None:
    """Who names a type has what the type has; what that is, its members say."""
    if path.endswith(".java"):
        begin, user = "package text;\n\n", {"src/text/Sheet.java": f"package text;\n\n{use}\n"}
        files = {"pom.xml": "<project/>\n"}
    else:
        old, new, begin = f"export {old}", f"export {new}", ""
        files = {"package.json": TS["package.json"]}
        user = {"src/use.ts": f"import {{ Page }} from './text';\n\n{use}\n"}
    files[path] = f"{begin}{old}\n  size: number;\n}}\n"
    messages = shop(tmp_path, files).sides(one={path: files[path].replace(old, new)}, two=user)
    assert bool(messages) is is_broken, messages


def test_a_renamed_module_of_typescript(tmp_path: Path) -> None:
    taken = {"src/text.ts": None, "src/words.ts": TS["src/text.ts"],
             "src/index.ts": "export * from './words';\n"}  # fmt: skip
    used = {"src/read.ts": "import { parse } from './text';\n\nexport const read = parse('a');\n"}
    (message,) = shop(tmp_path, TS).sides(one=taken, two=used)
    assert "one removes the file src/text.ts:1, which two uses in new lines (src/read.ts:1" in (
        message
    )  # fmt: skip


def test_a_new_import_beside_an_old_one_of_the_same_module(tmp_path: Path) -> None:
    """The old one is followed by who moves the file, the new one by nobody."""
    old = "from shop.text import parse\n\n\ndef read():\n    return parse('a')\n"
    files = {**FILES, "shop/read.py": old, "shop/text.py": f"{FILES['shop/text.py']}\n\nX = 1\n"}
    moved = {"shop/text.py": None, "shop/words.py": files["shop/text.py"],
             "shop/read.py": old.replace("shop.text", "shop.words")}  # fmt: skip
    (message,) = shop(tmp_path, files).sides(
        one=moved, two={"shop/read.py": f"{old}\n\nfrom shop.text import X\n\nprint(X)\n"}
    )
    assert "which two uses in new lines (shop/read.py:8" in message


def test_a_module_that_became_a_package_is_still_there(tmp_path: Path) -> None:
    package = {"shop/text.py": None, "shop/text/__init__.py": FILES["shop/text.py"]}
    assert shop(tmp_path).sides(one=package, two={"shop/read.py": USE}) == []


# ── twice ──


def test_the_same_name_in_one_file(tmp_path: Path) -> None:
    top = f"def slug(word):\n    return word\n\n\n{FILES['shop/till.py']}"
    end = f"{FILES['shop/till.py']}\n\ndef slug(text):\n    return text.lower()\n"
    messages = shop(tmp_path).sides(one={"shop/till.py": top}, two={"shop/till.py": end})
    assert messages == [
        "added-twice medium: one and two both add `slug` (shop/till.py:1 and shop/till.py:8)"
    ]


def test_a_name_that_one_moves_to_where_the_other_adds_it(tmp_path: Path) -> None:
    top = f"import json\n\n\n{PARSE}\n\n{FILES['shop/till.py']}"
    end = f"{FILES['shop/till.py']}\n\ndef parse(text):\n    return text.lower()\n"
    changed = {"shop/text.py": "import re\n", "shop/till.py": top}
    messages = shop(tmp_path).sides(one=changed, two={"shop/till.py": end})
    assert messages == [
        "added-twice medium: one and two both add `parse` (shop/till.py:4 and shop/till.py:8)"
    ]


@pytest.mark.parametrize("head", ["__all__ = ['total']\n", "__all__ = ['slug', 'total']\n", ""])
def test_a_name_that_is_not_public_is_added_twice_too(tmp_path: Path, head: str) -> None:
    """The second takes the place of the first, whoever may use it."""
    till = head + FILES["shop/till.py"]
    name = "slug" if head else "_slug"
    top = f"def {name}(word):\n    return word\n\n\n{till}"
    end = f"{till}\n\ndef {name}(text):\n    return text.lower()\n"
    files = {**FILES, "shop/till.py": till}
    (message,) = shop(tmp_path, files).sides(one={"shop/till.py": top}, two={"shop/till.py": end})
    assert f"one and two both add `{name}` (shop/till.py:1 and " in message


def test_what_each_file_of_a_package_of_go_may_have(tmp_path: Path) -> None:
    files = {**GO, "cmd/a.go": "package main\n", "cmd/b.go": "package main\n"}
    both = {"one": {"cmd/a.go": "package main\n\nfunc init() {\n\tslug()\n}\n"},
            "two": {"cmd/b.go": "package main\n\nfunc init() {}\n"}}  # fmt: skip
    assert shop(tmp_path, files).sides(**both) == []
    both = {side: {path: f"{text}\nfunc slug() {{}}\n" for path, text in changed.items()}
            for side, changed in both.items()}  # fmt: skip
    (message,) = shop(tmp_path / "again", files).sides(**both)
    assert "one and two both add `slug` (cmd/a.go:7 and cmd/b.go:5)" in message


def test_a_file_that_both_move_brings_its_names_once(tmp_path: Path) -> None:
    text = f"{FILES['shop/till.py']}\n\ndef slug(word):\n    return word\n"
    files = {**FILES, "shop/till.py": text}
    changed = {"shop/till.py": None, "shop/desk.py": text}
    two = {"shop/till.py": None, "shop/desk.py": text.replace("return word", "return word.lower()")}
    messages = shop(tmp_path, files).sides(one=changed, two=two)
    assert not [message for message in messages if "added-twice" in message], messages


@pytest.mark.parametrize("path", ["setup.py", "docs/conf.py", "tasks.py", "tests/helpers.py"])
def test_a_name_of_a_file_beside_the_product_is_added_twice_too(tmp_path: Path, path: str) -> None:
    start = "import os\n\n\ndef here(name):\n    return os.path.join('.', name)\n"
    slug = "def slug(word):\n    return word\n"
    messages = shop(tmp_path, {**FILES, path: start}).sides(
        one={path: start.replace("def here", f"{slug}\n\ndef here")},
        two={path: f"{start}\n\n{slug.replace('word', 'text')}"},
    )
    assert messages == [f"added-twice medium: one and two both add `slug` ({path}:4 and {path}:8)"]


@pytest.mark.parametrize(
    ("files", "old", "new", "use", "is_broken"),
    [
        (GO, "s string)", "s string, more ...int)", {"main.go": GO_USE}, False),
        (GO, "s string)", "s string, more int)", {"main.go": GO_USE}, True),
        (GO, "s string)", "more ...int)", {"main.go": GO_USE}, True),
        (TS, "text: string)", "text: string, more?: number)", {"src/use.ts": TS_USE}, False),
        (TS, "text: string)", "text: string, more = 1)", {"src/use.ts": TS_USE}, False),
        (TS, "text: string)", "text: string, ...more: number[])", {"src/use.ts": TS_USE}, False),
        (TS, "text: string)", "text: string, more: number)", {"src/use.ts": TS_USE}, True),
        (TS, "text: string)", "more = 1, text: string)", {"src/use.ts": TS_USE}, True),
        (TS, "text: string)", "text: string, more: Map<A, B = C>)", {"src/use.ts": TS_USE}, True),
        (TS, "text: string)", "text: string, more: (a: A) => B)", {"src/use.ts": TS_USE}, True),
        (
            TS,
            "text: string)",
            "text: string, more: (a: A) => B = id)",
            {"src/use.ts": TS_USE},
            False,
        ),
        (
            RUST,
            "text: &str)",
            "text: &str, more: impl Iterator<Item = u8>)",
            {"src/lib.rs": RUST_USE},
            True,
        ),
        (RUST, "text: &str)", "text: &str, more: Foo<Item=u8>)", {"src/lib.rs": RUST_USE}, True),
    ],
)
def test_parameters_that_a_call_may_leave_out_break_none(
    tmp_path: Path, files: dict[str, str], old: str, new: str, use: dict[str, str], *,
    is_broken: bool,
) -> None:  # fmt: skip
    (path,) = (name for name in files if name.rpartition("/")[2].startswith("text."))
    one = {path: files[path].replace(old, new)}
    messages = shop(tmp_path, files).sides(one=one, two=use)
    assert bool(messages) is is_broken, messages


def test_a_method_of_go_called_as_a_function_is_no_use_of_it(tmp_path: Path) -> None:
    text = GO["text/text.go"] + "\ntype two struct{}\n\nvar Two two\n\n"
    text += "func (two) Parse(s string) string { return s }\n"
    files = GO | {"text/text.go": text}
    one = {"text/text.go": text.replace("func Parse(s string", "func Parse(s string, n int")}
    method = {"text/use.go": 'package text\n\nvar parsed = Two.Parse("a")\n'}
    assert shop(tmp_path / "method", files).sides(one=one, two=method) == []
    function = {"text/use.go": 'package text\n\nvar parsed = Two.Parse(Parse("a"))\n'}
    (message,) = shop(tmp_path / "function", files).sides(one=one, two=function)
    assert "changes `Parse` (text/text.go:3; " in message


@pytest.mark.parametrize("folder", ["text", "go-text", "text.v3", "text/v2"])
def test_a_package_of_go_is_called_as_its_files_say(tmp_path: Path, folder: str) -> None:
    text = f"{GO['text/text.go']}\ntype two struct{{}}\n"
    files = {"go.mod": GO["go.mod"], f"{folder}/text.go": text}
    longer = text.replace("func Parse(s string", "func Parse(s string, n int")
    module = GO["go.mod"].split()[1]
    test = f'package text_test\n\nimport text "{module}/{folder}"\n\nvar parsed = text.Parse("a")\n'
    (message,) = shop(tmp_path, files).sides(
        one={f"{folder}/text.go": longer}, two={f"{folder}/text_test.go": test}
    )
    assert "changes `Parse` (" in message


def test_the_same_name_in_two_files_of_a_package_of_go(tmp_path: Path) -> None:
    body = "package text\n\nfunc Slug(s string) string {\n\treturn s\n}\n"
    messages = shop(tmp_path, GO).sides(one={"text/a.go": body}, two={"text/b.go": body})
    assert messages == [
        "added-twice medium: one and two both add `Slug` (text/a.go:3 and text/b.go:3)"
    ]


def test_the_same_name_in_two_modules_of_python_is_none(tmp_path: Path) -> None:
    assert shop(tmp_path).sides(one={"shop/a.py": TOTAL}, two={"shop/b.py": TOTAL}) == []


def test_one_commit_in_two_branches_is_merged_once(tmp_path: Path) -> None:
    branches = shop(tmp_path)
    branches.branch("one", {"shop/new.py": TOTAL})
    branches.repo.checkout("one").checkout("two", new=True)
    branches.repo.write("shop/two.py", "x = 1\n").commit("Two")
    branches.repo.checkout("one").write("shop/one.py", "y = 1\n").commit("One")
    branches.repo.checkout("main")
    assert branches.messages("one", "two") == []


def test_overloads_of_java_differ(tmp_path: Path) -> None:
    head = "package shop;\n\npublic class Till {\n"
    other = "    int other() { return 1; }\n"
    till = f"{head}    int rate() {{ return 1; }}\n\n{other}}}\n"
    files = {"pom.xml": "<project/>\n", "src/shop/Till.java": till}
    number = till.replace(head, f"{head}    public int sum(int a) {{ return a; }}\n\n")
    text = till.replace(other, f"    public int sum(String a) {{ return 1; }}\n\n{other}")
    both = {"one": {"src/shop/Till.java": number}, "two": {"src/shop/Till.java": text}}
    assert shop(tmp_path, files).sides(**both) == []
    again = text.replace("sum(String a) { return 1", "sum(int a) { return 2")
    both["two"] = {"src/shop/Till.java": again}
    messages = shop(tmp_path / "again", files).sides(**both)
    assert "added-twice medium: one and two both add `Till.sum`" in messages[0]
