"""Conditions and loops around lines, in each language that is read for them."""

from __future__ import annotations

import re

import pytest

from rlm_ci.source.uses.branches import around, branches

PYTHON = """\
def main(args):
    setup()
    if args.command == "run":
        run()
    elif args.command == "clean":
        clean()
    else:
        raise SystemExit
    if args.fast: hurry()
    for one in (
        args.files
    ):
        read(one)
    try:
        write()
    except OSError:
        tell()
    match args:
        case [first]:
            go(first)
        case _ if args.quiet:
            stay()
"""
GO = """\
package a

func main() {
	if err := open(); err != nil {
		fail()
	} else if quiet {
		stay()
	} else {
		tell()
	}
	switch *reporter {
	case "local":
		local()
	default:
		none()
	}
	for _, one := range files {
		read(one)
	}
	if fast { hurry() }
}
"""
RUST = """\
fn main() {
    match self {
        Cmd::Add(cmd) => cmd.run(),
        Cmd::Edit(cmd) => {
            cmd.run()
        }
        _ => none(),
    }
    if let Some(x) = y {
        go(x);
    }
    while more() {
        read();
    }
}
"""
SCRIPT = """\
function main() {
  if (!(a && b)) {
    go()
  } else if (c) {
    stay()
  }
  switch (kind) {
    case 'x':
      left()
      break
    default:
      right()
  }
  for (const one of all) {
    read(one)
  }
  try {
    write()
  } catch (error) {
    tell()
  }
}
"""
JAVA = """\
class A { void main() {
  switch (flag) {
    case "-i":
      go();
      break;
    default:
      stay();
  }
  for (String one : all) {
    read(one);
  }
} }
"""
RUBY = """\
def main
  if quiet
    stay
  elsif fast
    go
  else
    tell
  end
  unless more
    stop
  end
  case kind
  when :x
    left
  else
    right
  end
  while more
    read
  end
end
"""


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("a.py", PYTHON, {
            2: [], 4: ["alt args.command == 'run'"], 6: ["alt args.command == 'clean'"],
            8: ["alt else"], 9: [], 13: ["loop for one in args.files"], 15: [],
            17: ["opt on OSError"], 20: ["alt args is [first]"], 22: ["alt args is _"],
        }),
        ("a.go", GO, {
            4: [], 5: ["alt err := open(); err != nil"], 7: ["alt quiet"], 9: ["alt else"],
            13: ['alt *reporter is "local"'], 15: ["alt else"],
            18: ["loop for _, one := range files"], 20: [],
        }),
        ("a.rs", RUST, {
            3: ["alt self is Cmd::Add(cmd)"], 5: ["alt self is Cmd::Edit(cmd)"], 7: ["alt else"],
            10: ["opt let Some(x) = y"], 13: ["loop while more()"],
        }),
        ("a.ts", SCRIPT, {
            3: ["alt !(a && b)"], 5: ["alt c"], 9: ["alt kind is 'x'"], 12: ["alt else"],
            15: ["loop for (const one of all)"], 18: [], 20: ["opt on an error"],
        }),
        ("A.java", JAVA, {
            4: ['alt flag is "-i"'], 7: ["alt else"], 10: ["loop for (String one : all)"],
        }),
        ("a.rb", RUBY, {
            3: ["alt quiet"], 5: ["alt fast"], 7: ["alt else"], 10: ["opt not more"],
            14: ["alt kind is :x"], 19: ["loop while more"],
        }),
        ("a.md", "if\n  so\n", {2: []}),
        ("a.py", "if (\n", {1: []}),
    ],
)  # fmt: skip
def test_a_line_knows_what_is_around_it(
    path: str, source: str, expected: dict[int, list[str]]
) -> None:
    found = branches(path, source.encode())
    told = {line: [f"{one.kind} {one.text}" for one in around(found, line)] for line in expected}
    assert told == expected
    rows = source.split("\n")
    for one in found:  # its line has the condition, or the first statement of an else
        said = one.text.removeprefix("not ").removeprefix("on ").partition(" is ")
        word = re.split(r"\W+", (said[2] or said[0]).strip("(_[:'\""))[0]
        assert one.text in ("else", "on an error") or word in rows[one.line - 1]


ELSE_IFS = {
    "a.go": "package a\n\nfunc f() {\n\tif a {\n\t\tb()\n\t} else if asks() {\n\t\tc()\n\t}\n}\n",
    "a.js": "function f() {\n\n\n  if (a) {\n    b()\n  } else if (asks()) {\n    c()\n  }\n}\n",
    "a.rs": "fn f() {\n\n\n  if a {\n    b();\n  } else if asks() {\n    c();\n  }\n}\n",
    "a.rb": "def f\n\n\n  if a\n    b()\n  elsif asks()\n    c()\n  end\nend\n",
    "A.java": "class A {\n  void f() {\n\n    if (a) {\n      b();\n    } else if (asks()) {\n"
    "      c();\n    }\n  }\n}\n",
    "a.php": "<?php\nfunction f() {\n\n  if ($a) {\n    b();\n  } elseif (asks()) {\n"
    "    c();\n  }\n}\n",
    "a.py": "def f():\n\n\n    if a:\n        b()\n    elif asks():\n        c()\n",
}


@pytest.mark.parametrize("path", ELSE_IFS)
def test_what_a_condition_asks_is_in_no_branch_before_it(path: str) -> None:
    found = branches(path, ELSE_IFS[path].encode())
    assert around(found, 6) == ()
    assert [len(around(found, line)) for line in (5, 7)] == [1, 1]
