"""How code fails: the messages that it gives, and the codes with which a process ends."""

from __future__ import annotations

import pytest

from rlm_ci.wiki.facts.file_facts import facts_of

PYTHON = """\
import sys

EX_LOST = 7
EXIT_NAME = "not a code"


class ExitCode(IntEnum):
    BROKEN = 3


class Full(Exception):
    exit_code: int = 4

    def show(self):
        sys.exit(self.exit_code)


def main():
    try:
        raise Full(f"no room for {name}")
    except (Full, shop.Odd):
        sys.exit(5)
    except KeyboardInterrupt as stopped:
        raise SystemExit(130)
    except OSError:
        sys.exit("told, and failed")
    raise ValueError(_("it is {} here").format(place))
    raise ValueError("word")
    sys.exit(main())
    sys.exit()
"""
FOUND = [
    ("exit", 3, "", "EX_LOST", "7"),
    ("exit", 8, "", "ExitCode.BROKEN", "3"),
    ("code of", 12, "Full", "exit_code", "4"),
    ("message", 20, "main", "Full", "no room for …"),
    ("caught", 22, "main", "Full", "5"),
    ("caught", 22, "main", "Odd", "5"),
    ("caught", 24, "main", "KeyboardInterrupt", "130"),
    ("caught", 26, "main", "OSError", "1"),
    ("message", 27, "main", "ValueError", "it is {} here"),
    ("exit", 30, "main", "sys.exit()", "0"),
]
BY_VARIABLE = """\
def _log_and_exit(msg, code):
    print(msg)
    raise SystemExit(code)


def handle():
    try:
        yield
    except Exception as e:
        if isinstance(e, Fatal):
            msg, code = "fatal", 1
        elif isinstance(e, KeyboardInterrupt):
            msg, code = "interrupted", 130
        else:
            code = 3
        _log_and_exit(msg, code)


def stop():
    _log_and_exit("x", code=4)


def main(argv):
    result = 0
    if argv:
        result = 2
    sys.exit(result)
"""
RUST = """\
fn find() -> Result<()> {
    // bail!("not a message");
    print_error(format!(
        "Command not found: {}",
        name
    ));
    bail!("no such \\
           place")
}
impl From<ExitCode> for i32 {
    fn from(code: ExitCode) -> Self {
        match code { ExitCode::Killed => 130, }
    }
}
#[cfg(test)]
mod tests {
    fn fails() { panic!("in a test"); process::exit(3); }
}
"""


CHOSEN = """\
def main(strict):
    if strict:
        parser.error("not with that")
        sys.exit(3)
    code = 2 if strict else 0
    sys.exit(code)
"""


RESCUED = """\
def f
  g
rescue Shop::Errors::Changed => e
  puts e
  exit 78 # said
rescue Lost,
       Shop::Gone
  exit 64
rescue Odd => e
  exit 3 if true
end
"""
NAMED = """\
import click

LOST_CODE = 254
FINE = 0


@click.pass_context
def handle(ctx, exc):
    if isinstance(exc, Lost):
        ctx.exit(LOST_CODE)
    elif done:
        parser.exit(FINE)
    try:
        go()
    except Gone:
        sys.exit(LOST_CODE)
    other.exit(LOST_CODE)
    if a:
        raise typer.Exit(code=3)
    raise Exit("the door")
    ctx.exit(code=5)
"""


def test_a_code_that_a_name_stands_for_is_read() -> None:
    assert failures("shop/cli.py", NAMED) == [
        ("exit", 10, "handle", "ctx.exit(LOST_CODE) if isinstance(exc, Lost)", "254"),
        ("exit", 12, "handle", "parser.exit(FINE) if done", "0"),
        ("caught", 16, "handle", "Gone", "254"),
        ("exit", 19, "handle", "raise typer.Exit(code=3) if a", "3"),
        ("message", 20, "handle", "Exit", "the door"),
        ("exit", 21, "handle", "ctx.exit(code=5)", "5"),
    ]


def failures(path: str, text: str) -> list[tuple[str, int, str, str, str]]:
    kinds = ("message", "exit", "caught", "code of")
    return [
        (one.kind, one.line_start, one.within, one.text, one.detail)
        for one in facts_of(path, text.encode()).notes
        if one.kind in kinds
    ]


def test_codes_that_variables_have_are_found_where_they_are_set() -> None:
    assert failures("shop/cli.py", BY_VARIABLE) == [
        ("exit", 11, "handle", "isinstance(e, Fatal)", "1"),
        ("exit", 13, "handle", "isinstance(e, KeyboardInterrupt)", "130"),
        ("exit", 15, "handle", "code = 3", "3"),
        ("exit", 20, "stop", "_log_and_exit('x', code=4)", "4"),
        ("exit", 24, "main", "result = 0", "0"),
        ("exit", 26, "main", "argv", "2"),
    ]


def test_a_code_is_said_with_the_condition_next_to_it() -> None:
    assert failures("shop/cli.py", CHOSEN) == [
        ("message", 3, "main", "error", "not with that"),
        ("exit", 4, "main", "sys.exit(3) if strict", "3"),
        ("exit", 5, "main", "code = 2 if strict else 0", "2"),
        ("exit", 5, "main", "code = 2 if strict else 0", "0"),
    ]


def test_python_is_read_for_its_messages_and_exit_codes() -> None:
    assert failures("shop/cli.py", PYTHON) == FOUND
    assert failures("tests/test_cli.py", PYTHON) == []


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("src/find.rs", RUST, [
            ("message", 3, "find", "print_error", "Command not found: {}"),
            ("message", 7, "find", "bail!", "no such place"),
            ("exit", 12, "i32.from", "ExitCode::Killed", "130"),
        ]),
        ("src/errors.rs", ('enum E {\n    #[a]\n    #[error("no route {0}")]\n    Route(String),\n'
                           '    #[error("no path\nuse `a`")]\n    Path,\n'
                           "    #[error(transparent)]\n    Io,\n}\n"), [
            ("message", 3, "E", "error", "no route {0}"),
            ("message", 5, "E", "error", "no path use `a`"),
        ]),
        ("a.js", ("function f(options) {\n  if (!passed) {\n    process.exitCode = 1\n  }\n"
                  "  fatalError(options, `no place: ${x}`)\n  console.error('it is lost')\n}\n"), [
            ("exit", 3, "f", "process.exitCode = 1 if !passed", "1"),
            ("message", 5, "f", "fatalError", "no place: ${x}"),
            ("message", 6, "f", "console.error", "it is lost"),
        ]),
        ("a.rb", ("def f\n  fail \"no \\\"place\\\" for it\"\n"
                  "  raise ArgumentError, 'too many'\nend\n"), [
            ("message", 2, "f", "fail", 'no "place" for it'),
            ("message", 3, "f", "ArgumentError", "too many"),
        ]),
        ("codes.go", "package a\n\nconst (\n\texitOK = iota\n\texitOpen\n\texitRead\n)\n", [
            ("exit", 4, "", "exitOK", "0"),
            ("exit", 5, "", "exitOpen", "1"),
            ("exit", 6, "", "exitRead", "2"),
        ]),
        ("a.go", ('package a\n\nfunc F() {\n\t_ = fmt.Errorf("unknown command %q", x)\n'
         '\tlog.Print("fmt.Errorf(\\"no no no\\")")\n\tos.Exit(2)\n}\n'), [
            ("message", 4, "F", "fmt.Errorf", "unknown command %q"),
            ("exit", 6, "F", "os.Exit(2)", "2"),
        ]),
        ("a.ts", ("class A {\n  run() {\n    const e = new RangeError(`over ${most} items`);\n"
         "    process.exit(9);\n  }\n}\n"), [
            ("message", 3, "A.run", "RangeError", "over ${most} items"),
            ("exit", 4, "A.run", "process.exit(9)", "9"),
        ]),
        ("A.java", ('class A { void f() {\n throw new IllegalStateException("not open yet");\n'
         " } }\n"), [("message", 2, "A.f", "IllegalStateException", "not open yet")]),
        ("a.rb", "def f\n  raise ArgumentError, 'no such item'\n  exit 4\nend\n", [
            ("message", 2, "f", "ArgumentError", "no such item"),
            ("exit", 3, "f", "exit 4", "4"),
        ]),
        ("a.c", "#define EXIT_USAGE 64\nenum { EXIT_LOST = 65 };\nint f(void) { exit(3); }\n", [
            ("exit", 2, "", "EXIT_LOST", "65"), ("exit", 3, "f", "exit(3)", "3"),
        ]),
        ("a.rb", RESCUED, [
            ("caught", 5, "f", "Changed", "78"),
            ("caught", 8, "f", "Gone", "64"),
            ("caught", 8, "f", "Lost", "64"),
            ("exit", 10, "f", "exit 3", "3"),
        ]),
        ("A.java", ("class A { void f() {\n try { g(); }\n catch (IOException | Gone e) {\n"
         "  log(e);\n  System.exit(4);\n }\n } }\n"), [
            ("caught", 5, "A.f", "Gone", "4"), ("caught", 5, "A.f", "IOException", "4"),
        ]),
        ("a.php", ("<?php\nfunction f() {\n try { g(); } catch (\\Shop\\Lost $e) { exit(5); }\n"
         "}\n"), [
            ("caught", 3, "f", "Lost", "5"),
        ]),
        ("a.ts", "export enum ExitCode {\n  Fine = 0,\n  Wrong = 9,\n}\nenum Other { A = 1 }\n", [
            ("exit", 2, "ExitCode", "ExitCode.Fine", "0"),
            ("exit", 3, "ExitCode", "ExitCode.Wrong", "9"),
        ]),
        ("a.rs", "pub enum ExitCode {\n    Lost = 4,\n}\n", [
            ("exit", 2, "ExitCode", "ExitCode.Lost", "4"),
        ]),
        ("A.cs", "enum ExitStatus : int {\n  Lost = 7\n}\n", [
            ("exit", 2, "ExitStatus", "ExitStatus.Lost", "7"),
        ]),
        ("a.md", "exit 3\n", []),
    ],
)  # fmt: skip
def test_other_languages_are_read_for_what_is_hard_to_mistake(
    path: str, text: str, found: list[tuple[str, int, str, str, str]]
) -> None:
    assert failures(path, text) == found
