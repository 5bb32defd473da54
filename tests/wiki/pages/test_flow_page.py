"""How a call flows, in small programs: steps with their lines, what is not known, what changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.wiki.deliver import flat
from rlm_ci.wiki.pages import flow_page
from testing import wiki_stage as stage
from testing.hostile_wiki import EVIL, NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

STORE = """\
class Base:
    def check(self, key):
        if not key:
            raise KeyError(key)


class Store(Base):
    def __init__(self, path):
        self.path = path

    def save(self, key):
        self.check(key)
        return self.path


class Other:
    def keep(self, key):
        return key


class Third:
    def keep(self, key):
        return key
"""
CLI = '''\
import sys
from . import render as view
from .store import Store


def main(argv=None):
    """Save what was asked for."""
    store = Store("x")
    store.save(sys.argv)
    view.table(argv)
    argv.keep(1)
    IO.keep(argv)


if __name__ == "__main__":
    main()
'''
PYTHON = {
    "README.md": "# Kept\n\nKeeps what it gets.\n",
    "pyproject.toml": '[project]\nname = "kept"\n[project.scripts]\nkept = "kept.cli:main"\n',
    "src/kept/__init__.py": "from .render import grid, table\n\n__all__ = ['grid', 'table']\n",
    "src/kept/__main__.py": "from kept.cli import main\n\nmain()\n",
    "src/kept/cli.py": CLI,
    "src/kept/store.py": STORE,
    "src/kept/render.py": """\
def table(rows):
    wide(rows)


def grid(rows):
    wide(rows)


def wide(rows):
    pass
""",
    "tests/test_render.py": "import kept\n\ndef test_it():\n    kept.grid(1)\n    kept.grid(2)\n",
}  # fmt: skip
GO = {
    "go.mod": "module example.com/bake\n",
    "cmd/bake/main.go": """package main

import "example.com/bake/oven"

func main() {
	o := oven.New(3)
	o.Heat()
}
""",
    "oven/oven.go": """package oven

// Oven heats.
type Oven struct{ to int }

// New returns an oven.
func New(to int) *Oven {
	check(to)
	return &Oven{to}
}

// Heat heats it.
func (o *Oven) Heat() { o.wait() }

func (o *Oven) wait() {}
""",
    "oven/check.go": """package oven

func check(to int) {
	if to > 300 {
		panic("too hot")
	}
}
""",
}
TYPESCRIPT = {
    "package.json": '{\n "name": "send",\n "bin": {\n  "send": "dist/cli.js"\n }\n}\n',
    "src/cli.ts": """import { Client } from './client';
import * as log from './log';

const client = new Client('x');
log.say('begun');
export function unused() { return client; }
""",
    "src/client.ts": """export class Client {
  constructor(private host: string) {
    this.open();
  }
  open(): void {
    if (!this.host) throw new RangeError('no host');
  }
}
""",
    "src/log.ts": "export function say(text: string) { return text; }\n",
}


def flows(repo: GitRepo, tmp_path: Path, files: dict[str, str]) -> str:
    """The page of flows, its links as plain lines; "" without one."""
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    out = tmp_path / "wiki"
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    stage.judge(pages, corpus, out, stage.opened(repo))
    text = stage.texts(out).get(flow_page.NAME, "")
    return re.sub(r"\[`([^`]*)`\]\([^)]*\)", r"\1", text)


def outline(text: str) -> list[str]:
    """Headings and steps, without the lines that they cite."""
    rows = re.findall(r"^(?:#+ .*|\d+\. .*| +- .*)$", text, re.MULTILINE)
    return [re.sub(r" \S+#L\d+(?:-L\d+)?", "", row).replace("`", "").strip() for row in rows]


def test_a_command_of_python_is_followed_through_imports_classes_and_bases(
    repo: GitRepo, tmp_path: Path
) -> None:
    text = flows(repo, tmp_path, PYTHON)
    assert outline(text) == [
        "# How a call flows",
        "## command kept",
        "1. main — Save what was asked for.",
        "- calls Store (step 2)",
        "- calls Store.save (step 3)",
        "- calls view.table (step 5)",
        "- calls outside or unresolved: 2",
        "2. Store.__init__",
        "3. Store.save",
        "- calls self.check (step 4)",
        "4. Base.check",
        "- raises KeyError",
        "5. table",
        "- calls wide (step 6)",
        "6. wide",
        "## function grid",
        "1. grid",
        "- calls wide (step 2)",
        "2. wide",
    ]
    assert "Begins as script `kept` pyproject.toml#L4" in text
    assert "- calls `self.check` (step 4) src/kept/store.py#L12" in text
    assert "- raises `KeyError` src/kept/store.py#L4" in text
    assert "A public name; 2 calls by that name in the 6 files that were counted." in text
    assert stage.diagrams(text)[0].split("\n") == [
        "sequenceDiagram",
        "  autonumber",
        "  participant p0 as caller",
        "  participant p1 as kept/cli.py",
        "  participant p2 as Store in kept/store.py",
        "  participant p3 as Base in kept/store.py",
        "  participant p4 as kept/render.py",
        "  p0->>p1: main#40;#41;",
        "  p1->>p2: __init__#40;#41;",
        "  p1->>p2: save#40;#41;",
        "  p2->>p3: check#40;#41;",
        "  Note over p3: raises KeyError",
        "  p1->>p4: table#40;#41;",
        "  p4->>p4: wide#40;#41;",
    ]
    front = (tmp_path / "wiki" / "index.md").read_text(encoding="utf-8")
    assert "[Step by step](flows.md), with conditions and diagrams: `kept`, `grid`." in front


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            GO,
            [
                "## start of cmd/bake/main.go",
                "1. main",
                "- calls oven.New (step 2)",
                "- calls o.Heat (step 4)",
                "2. New — New returns an oven.",
                "- calls check (step 3)",
                "3. check",
                "- raises panic",
                "4. Oven.Heat — Heat heats it.",
                "- calls Oven.wait (step 5)",
                "5. Oven.wait",
            ],
        ),
        (
            TYPESCRIPT,
            [
                "## command send",
                "1. src/cli.ts",
                "- calls Client (step 2)",
                "- calls log.say (step 4)",
                "2. Client.constructor",
                "- calls this.open (step 3)",
                "3. Client.open",
                "- raises RangeError",
                "4. say",
            ],
        ),
    ],
    ids=["go", "typescript"],
)
def test_go_and_typescript(
    repo: GitRepo, tmp_path: Path, files: dict[str, str], expected: list[str]
) -> None:
    assert outline(flows(repo, tmp_path, files))[1:] == expected


def test_an_update_renews_the_page_and_nothing_else_does(repo: GitRepo, tmp_path: Path) -> None:
    flows(repo, tmp_path, PYTHON)
    out = tmp_path / "wiki"
    page = (out / flow_page.NAME).read_bytes()
    aside = PYTHON["tests/test_render.py"] + "\n# nothing\n"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {"tests/test_render.py": aside}))
    stage.wiki(corpus, out, tmp_path)
    assert (out / flow_page.NAME).read_bytes() == page
    moved = STORE.replace(
        "        self.check(key)\n", "        key = key or 1\n        self.check(key)\n"
    )
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {"src/kept/store.py": moved}))
    _, touched, _ = stage.wiki(corpus, out, tmp_path)
    assert flow_page.NAME in touched
    assert "store.py#L13" in (out / flow_page.NAME).read_text(encoding="utf-8")
    fresh = tmp_path / "fresh"
    stage.wiki(corpus, fresh, tmp_path / "elsewhere")
    assert stage.texts(fresh)[flow_page.NAME] == stage.texts(out)[flow_page.NAME]


def test_files_without_a_start_and_loops_have_no_endless_page(
    repo: GitRepo, tmp_path: Path
) -> None:
    readme = {"README.md": "# Few\n\nA few files, and no program.\n"}
    assert flows(repo, tmp_path, readme | {"a.py": "def go():\n    return 1\n"}) == ""
    assert not (tmp_path / "wiki" / flow_page.NAME).exists()
    rows = [f"def f{n}():\n    f{n + 1}()\n    f{n}()\n    g{n}()\n\n\ndef g{n}():\n    f0()\n"
            for n in range(40)]  # fmt: skip
    rows.append(
        "class A(B.C, A):\n    pass\n\n\nclass B(A.X, B):\n    pass\n\n\ndef h():\n    A.y()\n"
    )
    rows.append("from a import *\nfrom b import *\n\n\ndef f40():\n    h()\n    nowhere()\n")
    loop = "\n\n".join([*rows, "if __name__ == '__main__':\n    f0()\n    h()\n    nowhere()\n"])
    text = flows(repo, tmp_path, {"a.py": loop, "b.py": "from a import *\nfrom b import *\n"})
    assert len(re.findall(r"^\d+\. ", text, re.MULTILINE)) <= 16
    assert "Not followed further: " in text


def test_hostile_names_are_only_text(repo: GitRepo, tmp_path: Path) -> None:
    text = f'''"""{EVIL}"""
def go():
    """{EVIL} @alice [l](javascript:alert(1))"""
    if 1:
        raise Gone("{EVIL}")

def main():
    go()

if __name__ == "__main__":
    main()
    go()
'''
    files = {f"pkg/{name}/run_{number}.py": text for number, name in enumerate(NAMES)}
    scripts = "".join(f'"{name}" = "pkg.x:go"\n' for name in ("a`b", "<i>", "c|d"))
    files["pyproject.toml"] = f'[project]\nname = "x"\n[project.scripts]\n{scripts}'
    files["package.json"] = (
        '{"name": "y", "bin": {"z": "../../etc/passwd", "w": ["no"], "v": "./v"}}'
    )
    files["v"] = "#!/bin/sh\necho\n"
    made = flows(repo, tmp_path, files)
    assert made.count("\n## ") == 8
    assert EVIL not in made.replace(f"`{EVIL}`", "")


def test_links_of_all_pages_lead_somewhere_in_a_wiki_without_folders() -> None:
    pages = {
        "index.md": b"[a](flows.md) [b](modules/flows.md) [c](modules/x.md#L1)",
        "flows.md": b"[a](index.md) [b](modules/x.md)",
        "modules/flows.md": b"[a](../index.md) [b](x.md) [c](flows.md) [d](../flows.md)",
        "modules/x.md": b"[a](flows.md) [b](gone.md)",
    }
    found = {name: text.decode() for name, text in flat(pages).items() if name.endswith(".md")}
    assert found == {
        "Home.md": "[a](flows) [b](modules-flows) [c](modules-x#L1)",
        "flows.md": "[a](Home) [b](modules-x)",
        "modules-flows.md": "[a](Home) [b](modules-x) [c](modules-flows) [d](flows)",
        "modules-x.md": "[a](modules-flows) [b](gone.md)",
    }
