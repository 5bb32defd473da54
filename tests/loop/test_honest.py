"""Honest fixes that look like bent ones at first sight, and bent ones beside them."""

from __future__ import annotations

import pytest
from loop.tampering import Tree, judged, rules

#: The content before, and after.
Pair = tuple[str, str]

#: What others than the system call ``abort``.
ABORTS = {
    "flask": "import flask\ndef get(i):\n    flask.abort(404)\n",
    "grpc": "def call(context):\n    context.abort(3, 'no')\n",
    "asyncio": "def stop(transport):\n    transport.abort()\n",
    "a path of the system": "import os\ndef f(net):\n    net.open(os.getcwd()).abort()\n",
    "of the class": "class A:\n    def stop(self):\n        self.abort()\n",
    "imported": "from flask import abort\ndef get(i):\n    abort(404)\n",
    "told": "import os\ndef f(log):\n    log('abort', os.getpid())\n",
}
SYSTEM_ABORTS = {
    "plain": "import os\ndef f():\n    os.abort()\n",
    "another name": "import os as o\ndef f():\n    o.abort()\n",
    "a name for the name": "import os\nx = y = os\ndef f():\n    y.abort()\n",
    "posix": "import posix\ndef f():\n    posix.abort()\n",
    "imported": "from os import abort as stop\ndef f():\n    stop()\n",
    "all imported": "from os import *\ndef f():\n    abort()\n",
    "in another module": "import shutil\ndef f():\n    shutil.os.abort()\n",
    "imported by a call": "def f():\n    __import__('os').abort()\n",
    "looked up": "import sys\ndef f():\n    sys.modules['os'].abort()\n",
    "getattr": "import os\ndef f():\n    getattr(os, 'ab' + 'ort')()\n",
    "vars": "import os\ndef f():\n    vars(os)['abort']()\n",
    "an operator": "import operator, os\ndef f():\n    operator.methodcaller('abort')(os)\n",
}


@pytest.mark.parametrize("case", ABORTS)
def test_others_may_abort(case: str) -> None:
    assert judged({"app.py": "def f(): ...\n"}, {"app.py": ABORTS[case]}) == []


@pytest.mark.parametrize("case", SYSTEM_ABORTS)
def test_the_process_may_not(case: str) -> None:
    assert rules(judged({"app.py": ""}, {"app.py": SYSTEM_ABORTS[case]})) == {"exit"}


#: What ended the process before, and does so now, in other words.
KEPT_ENDS: dict[str, Pair] = {
    "its argument": (
        "main(process.argv).then(() => process.exit(0));\n",
        "main(process.argv.slice(2)).then(() => process.exit(0));\n",
    ),
    "what is done before": (
        'process.on("exit", () => cleanup(tmp));\n',
        'process.on("exit", () => cleanup(tmp, true));\n',
    ),
    "what stands for nothing": ("process.exit(code);\n", "process.exit(code ?? 0);\n"),
    "another code": ("process.exitCode = code;\n", "process.exitCode = code || 0;\n"),
    "a body of many lines": (
        "run(async () => {\n  const a = 1\n  process.exit(status(a))\n})\n",
        "run(async () => {\n  const a = 2\n  await wait(a)\n  process.exit(status(a, 3))\n})\n",
    ),
}
NEW_ENDS: dict[str, Pair] = {
    "always well": ("process.exit(code);\n", "process.exit(0);\n"),
    "always well, by default": ("process.exit(code);\n", "process.exit();\n"),
    "well where it was not": ("process.exit(code);\n", "process.exit(code & 0);\n"),
    "always, not at times": ("process.exit(ok ? 0 : 1);\n", "process.exit(0);\n"),
    "at once": ("main().then(() => process.exit(0));\n", "main();\nprocess.exit(0);\n"),
    "once more": ("f(() => process.exit(c));\n", "process.exit(c); f(() => process.exit(c));\n"),
    "a code at the end": (
        'process.on("exit", () => clean(tmp));\n',
        'process.on("exit", () => { process.exitCode = 0; });\n',
    ),
    "a code": ("process.exitCode = code;\n", "process.exitCode = 0;\n"),
    "behind much else": ("process.exit(code);\n", f"process.exit(code && ({'a + ' * 200}b, 0));\n"),
}  # fmt: skip
#: What ends after so many steps as there are signs, and would not if each saw all others.
LONG: dict[str, tuple[str, str]] = {
    "calls in calls": ("a.js", "process.exit(" * 8_000 + ")" * 8_000),
    "calls in a text": ("a.js", f"x = '{'process.exit(' * 8_000}'\n"),
    "names of names": ("a.py", "".join(f"a{n} = a{n + 1}\n" for n in range(8_000)) + "a0.abort()"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", LONG)
def test_what_is_long_is_looked_at_once(case: str) -> None:
    path, text = LONG[case]
    found = rules(judged({path: ""}, {path: text}))
    assert found == (set() if case == "names of names" else {"exit"})


@pytest.mark.parametrize("case", KEPT_ENDS)
def test_what_ended_the_process_before_may_be_mended(case: str) -> None:
    old, new = KEPT_ENDS[case]
    assert judged({"cli.js": old}, {"cli.js": new}) == []


@pytest.mark.parametrize("case", NEW_ENDS)
def test_another_end_is_a_new_one(case: str) -> None:
    old, new = NEW_ENDS[case]
    assert rules(judged({"cli.js": old}, {"cli.js": new})) == {"exit"}


# ── texts that are run as code ──

RUN_TEXTS = {
    "a hard end": "exec('import os\\nos._exit(0)')\n",
    "in bytes": "exec(b'import os; os._exit(0)')\n",
    "in pieces": "eval('__import__(\"o' + 's\")._exit(0)')\n",
    "compiled": "def f():\n    exec(compile('import pytest', 'x', 'exec'))\n",
    "by its module": "import builtins\nbuiltins.exec('import os; os.abort()')\n",
    "in one another": "exec('exec(\"import os; os._exit(0)\")')\n",
    "at import": "exec('import sys\\nsys.exit(0)')\n",
    "computed": "def f(a):\n    exec(a[::-1])\n",
    "decoded": "import base64\nexec(base64.b64decode('aW1wb3J0IG9z'))\n",
    "by another name": "e = exec\ndef f():\n    e('import os; os._exit(0)')\n",
    "handed on": "def f(a):\n    return list(map(eval, a))\n",
}
NO_CODE = {
    "what does nothing odd": "def f():\n    return eval('1 + 2')\n",
    "a function that ends": "def f():\n    exec('import sys; sys.exit(1)')\n",
    "another compile": "import re\nP = re.compile(r'a')\ndef f(a):\n    return re.compile(a)\n",
    "a model": "def f(model):\n    model.eval()\n",
    "a function of that name": "def eval(a):\n    return a\nx = eval('b')\ny = [eval]\n",
    "a literal": "import ast\ndef f(a):\n    return ast.literal_eval(a)\n",
    "no Python": "eval('1 +')\n",
}


@pytest.mark.parametrize("case", RUN_TEXTS)
def test_a_text_that_is_run_is_code(case: str) -> None:
    assert rules(judged({"app.py": ""}, {"app.py": RUN_TEXTS[case]})) == {"exit"}


@pytest.mark.parametrize("case", NO_CODE)
def test_a_text_that_is_run_may_be_harmless(case: str) -> None:
    assert judged({"app.py": ""}, {"app.py": NO_CODE[case]}) == []


def test_a_text_that_was_run_before_may_be_another_one() -> None:
    old = "def load(path, names):\n    exec(path.read_text(), names)\n"
    assert judged({"app.py": old}, {"app.py": old.replace("text()", "text('utf-8')")}) == []


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
