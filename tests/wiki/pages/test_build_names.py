"""What pages call public, declared and a summary, where sources say it in roundabout ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.source.outline import outline
from rlm_ci.wiki.facts.dependencies import declared
from rlm_ci.wiki.facts.file_facts import facts_of, pack, unpack
from rlm_ci.wiki.facts.python_notes import python_notes
from rlm_ci.wiki.facts.readme import introduction, paragraph, plain, sentence
from rlm_ci.wiki.pages.layout import drawn
from testing import wiki_stage as stage
from testing.wiki_pages import pages_of

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


GUARD = """\
a = 1
if __name__ == "__main__":
    def demo(): ...
    class B:
        def c(self): ...
    d = 1
else:
    e = 1
"""
STAND_IN = """\
try:
    import ssl
    from json import loads
except ImportError:
    ssl = None
    def loads(): ...
    HAS_SSL = False
import re
re_own = re
"""
LOOPS = """\
for name in ("a", "b"):
    target = name
    if target:
        mod = 1
    def f(): ...
while x:
    y = 1
z = 1
del z
"""
MEMBERS = """\
class A:
    for x in "ab":
        y: int = 1
    w: int = 1
"""


@pytest.mark.parametrize(
    ("source", "public"),
    [
        (GUARD, ["a", "e"]),
        (STAND_IN, ["HAS_SSL", "re_own"]),
        ("if a and __name__ == '__main__':\n    def demo(): ...\n", []),
        ("from x import load\nif y:\n    def load(): ...\n", ["load"]),
        (LOOPS, []),
        ("__all__ = ['kept']\nfor kept in 'ab':\n    kept = 1\n", ["kept"]),
        (MEMBERS, ["A", "A.w"]),
    ],
)
def test_a_name_is_public_where_others_can_import_it(source: str, public: list[str]) -> None:
    found = outline("mod.py", source.encode())
    assert [one.name for one in found.symbols if one.is_public] == public


DOOR = """\
from .exc import Gone
import os
from .exc import Lost, Found
from ._impl import *
from ._compat import Protocol
"""


def given(page: str) -> list[str]:
    line = next(
        line for line in page.split("\n") if line.startswith("From files within, the package")
    )
    return re.findall(r"`(\w+)`", line)


@pytest.mark.parametrize("listed", [False, True])
def test_a_package_gives_what_all_of_its_imports_take(
    repo: GitRepo, tmp_path: Path, *, listed: bool
) -> None:
    every = "__all__ = ['Gone', 'Lost']\n" if listed else ""
    files = {
        "README.md": "It gets what is far away.\n",
        "net/__init__.py": DOOR + every,
        "net/exc.py": "class Gone: ...\nclass Lost: ...\nclass Found: ...\nclass Own: ...\n",
        "net/_impl.py": "def go(): ...\ndef _hide(): ...\n",
        "net/_compat.py": "class Protocol: ...\n",
        "lot/__init__.py": "from net import Gone, go\nfrom net.exc import Own\n",
    }
    texts = pages_of(repo, tmp_path, files)
    taken = ["Gone", "Lost"] if listed else ["Found", "Gone", "Lost", "Protocol", "go"]
    assert given(texts["modules/net.md"]) == taken
    if listed:  # what another door gives is passed on
        assert given(texts["modules/lot.md"]) == ["Gone", "Own"]
    assert "| `__init__.py` | passes on names of other files | 2 |" in texts["modules/lot.md"]


ALIASES = """\
from ._wire import _Socket as Socket, Plain, Plain as Bare, Shut as _Shut
from .deep import Lamp as Light
"""
TALE = """\
def told(): ...
def _hidden(): ...
"""


@pytest.mark.parametrize("broken", ["", "print 1 if\n"])  # the other reader takes what ast refuses
def test_a_package_gives_names_as_others_take_them(
    repo: GitRepo, tmp_path: Path, broken: str
) -> None:
    files = {
        "README.md": "It gets what is far away.\n",
        "net/__init__.py": ALIASES + broken,
        "net/_wire.py": "class _Socket: ...\nclass Plain: ...\nclass Shut: ...\n",
        "net/deep/__init__.py": "from .lamp import _Bulb as Lamp\n",
        "net/deep/lamp.py": f"class _Bulb: ...\nclass Lamp: ...\n{TALE}",
        "lot/__init__.py": "from net import *\n",
        "some/__init__.py": "from net import Socket as Plug\n__all__ = ['Plug']\n",
    }
    texts = pages_of(repo, tmp_path, files)
    every = ["Bare", "Light", "Plain", "Socket"]
    assert given(texts["modules/net.md"]) == every
    assert given(texts["modules/lot.md"]) == every
    assert given(texts["modules/some.md"]) == ["Plug"]
    page = texts["modules/net.md"]
    assert re.search(r"\[`Light`\]\([^)]*net/deep/lamp.py#L1", page)
    assert "class Plain" in page  # an inner file's name is public by either of its names
    assert "class Shut" not in page


def test_every_file_is_something(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "README.md": "It gets what is far away.\n",
        "net/__init__.py": "from .tale import told as heard\n",
        "net/tale.py": TALE,
        "net/_own.py": "def _hidden(): ...\n",
        "net/about.py": "__version__ = '1'\n",
        "net/open.py": "from .tale import told\n__all__ = ['told']\n",
        "net/start.py": "import net.tale\nfrom . import open\nopen.told()\n",
        "net/empty.py": "",
        "net/index.js": "export * from './page.js';\n",
        "net/page.js": "start();\n",
        "net/go.sh": "net\n",
    }
    page = pages_of(repo, tmp_path, files)["modules/net.md"]
    page = re.sub(r"\[(`[^`]*`)\]\([^)]*\)", r"\1", page)
    rows = [line.split(" | ")[:2] for line in page.split("\n") if line.startswith("| `")]
    assert [(name.strip("| `"), told) for name, told in rows] == [
        ("__init__.py", "passes on names of other files"),
        ("_own.py", "no public names"),
        ("about.py", "no public names"),
        ("empty.py", "empty"),
        ("go.sh", "no public names"),
        ("index.js", "passes on names of other files"),
        ("open.py", "passes on names of other files"),
        ("page.js", "no public names"),
        ("start.py", "no public names"),
        ("tale.py", "largest definition: `told`"),
    ]


PYPROJECT = """\
[project]
name = "net"
[project.optional-dependencies]
all = [
    "net[x]",
    'lamp; python == "3"',
    "markdown-it-py", "git>=2"
]
"""


def test_a_page_says_each_thing_once_and_calls_it_what_it_is(repo: GitRepo, tmp_path: Path) -> None:
    files = {
        "setup.py": "setup(entry_points={'console_scripts': ['net = net.cli:main']})\n",
        "docs/Makefile": "html:\n\tsphinx\n",
        "Makefile": "all:\n\ttrue\n",
        "pyproject.toml": PYPROJECT,
        "net/__init__.py": "",
        "net/a.py": "from __future__ import a\nimport markdown_it\nlog = 1\nclass A: ...\n",
        "net/a.pyi": "log: int\nclass A:\n  def only(self): ...\n",
        "net/b.py": "LIMIT = 1\ndef b(): ...\n",
        "net/__main__.py": "def start(): ...\n",
        "tool/go.sh": "# Goes.\n:\n",
        "tool/up.sh": "# Comes.\n:\n",
        "net/signals.py": "sent = 1\nlost = 1\n",
        "net/c.pyi": "def native(): ...\n",
    }
    texts = pages_of(repo, tmp_path, files)
    index, page = texts["facts.md"], texts["modules/net.md"]
    assert re.search(
        r"\| \[net\]\(modules/net.md\) \| largest definition: \[`A`\]\S* \| 7 \|", index
    )
    assert "| [tool](modules/tool.md) |  | 2 |" in index
    summary = "2 files of Shell without public names, the largest [`tool/up.sh`]"
    assert f"| [tool](modules/tool.md) | {summary}" in texts["index.md"]
    assert "- script `net` " in index
    assert "- `make all` " in index
    assert "`html`" not in index
    assert "net[x]" not in index
    assert '- `lamp; python == "3"` ' in index
    assert "- `git>=2` " in index
    assert "| `markdown_it` | 1 | yes |" in index
    for row in (
        r"`a\.pyi` \| largest definition: \[`A`\]\S* \| 3 \| stub",
        r"`signals\.py` \| largest definition: \[`sent`\]\S* \| 2 \| 2",
        r"`__main__\.py` \| largest definition: \[`start`\]\S* \| 1 \| inner",
    ):
        assert re.search(rf"\| {row} \|", page)
    assert "only" not in page
    assert "def native()" in page
    assert "Variables of `net/a.py`: [`log`]" in page
    assert "Constants of `net/b.py`: [`LIMIT`]" in page
    assert "__future__" not in page


@pytest.mark.parametrize(
    ("doc", "summary"),
    [
        (":rtype: bool", ""),
        ("Sends it.\n:param url: Where to.", "Sends it."),
        ("See :class:`A` for it.", "See :class:`A` for it."),
        ("Args:\n  x: one", ""),
        ("Reads it\nReturns:\n  x", "Reads it"),
        ("Parameters\n----------\nx : int", ""),
        (".. versionadded:: 2.0\n   It is new.\n\nSends it.", "Sends it."),
        (">>> go()\n1", ""),
        ("Usage::\n\n  go()", ""),
        ("Sends it\n>>> go()", "Sends it"),
    ],
)
def test_a_summary_is_made_of_words(doc: str, summary: str) -> None:
    rows = "\n    ".join(doc.split("\n"))
    source = f'def go():\n    """\n    {rows}\n    """\n'
    found = outline("a.py", source.encode()).symbols[0]
    assert found.doc == summary
    assert (found.doc_start > 0) == bool(summary)


@pytest.mark.parametrize(
    ("source", "doc", "lines"),
    [
        ('"""net.wire\n\nSpeaks to the\nothers."""\nx = 1\n', "Speaks to the others.", (3, 4)),
        ('"""\nwire\n\nSpeaks.\n"""\n', "Speaks.", (4, 4)),
        ('"""wire"""\n\nx = 1\n', "", (0, 0)),
        ("\"\"\"wire\n\nTakes f'''{x}''' in.\"\"\"\n", "Takes f'''{x}''' in.", (3, 3)),
        ('"""wire\n"""\nx = 1\n', "", (0, 0)),
        ('"""Wires."""\n', "Wires.", (1, 1)),
    ],
)
def test_its_own_name_does_not_tell_what_a_module_is(
    source: str, doc: str, lines: tuple[int, int]
) -> None:
    found = facts_of("src/net/wire.py", source.encode()).outline
    assert (found.doc, (found.doc_start, found.doc_end)) == (doc, lines)


def test_what_leads_to_an_example_does_not_end_a_text() -> None:
    told = "It gets pages, for all of us. Basic GET usage:"
    assert paragraph(told) == "It gets pages, for all of us."
    assert sentence(told) == "It gets pages, for all of us."
    assert sentence("Pairs, of which it makes a dict::") == "Pairs, of which it makes a dict"


def test_emphasis_is_no_part_of_the_words() -> None:
    assert plain("*Read-only* view of *args and `*x*`, 2 * 3 * 4") == (
        "Read-only view of *args and `*x*`, 2 * 3 * 4"
    )
    assert plain("Called by __init__ and __new__") == "Called by __init__ and __new__"
    said = introduction(b"Makes _rich_ text of snake_case_names, **now**.\n")
    assert said is not None
    assert said.text == "Makes rich text of snake_case_names, now."


SETUP = b"""\
from setuptools import setup
requires = [
    "urllib3>=1.21.1,<3",
    "idna",
]
base = ('certifi',) + tuple(x)
setup(
    name="net",
    install_requires=requires + ["six"],
    extras_require={"socks": ["PySocks>=1.5.6"], "more": base_of(), "text": '''
one
two>=2
'''},
)
"""


def test_what_a_setup_script_writes_out_is_declared() -> None:
    found = [(name, place.text, place.line_start) for name, place in declared("setup.py", SETUP)]
    assert found[:4] == [
        ("urllib3", "urllib3>=1.21.1,<3", 3),
        ("idna", "idna", 4),
        ("six", "six", 9),
        ("PySocks", "PySocks>=1.5.6", 10),
    ]
    assert [(name, line) for name, _, line in found[4:]] == [("one", 11), ("two", 12)]
    assert facts_of("setup.py", SETUP).project == "net"
    looped = b"a = a + a\nsetup(name=a, install_requires=a)\n"
    assert declared("setup.py", looped) == ()
    assert facts_of("setup.py", looped).project == ""


def test_extras_of_a_setup_configuration_are_declared() -> None:
    extras = "[options.extras_require]\ntest =\n  pytest\n  tox>1\n[x]\ny = z\n"
    text = f"[options]\ninstall_requires = six\n{extras}".encode()
    assert [name for name, _ in declared("setup.cfg", text)] == ["six", "pytest", "tox"]


def test_what_is_raised_again_is_no_demand() -> None:
    source = b"def f(e, x):\n    if e:\n        raise e\n    if x:\n        raise Bad\n"
    assert [note.text for note in python_notes(source)] == ["Bad: x", "raise Bad"]


SPEAKING = b"""\
import urllib3
from urllib3.exceptions import HTTPError
from urllib3.poolmanager import PoolManager
import http.cookiejar
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import boto3
else:
    import smtplib

def go():
    from http.client import HTTPConnection
    from . import redis
"""


def test_who_imports_what_speaks_to_a_network_does_so_too() -> None:
    found = [(note.kind, note.line_start, note.within) for note in python_notes(SPEAKING)]
    assert found == [("network", 1, ""), ("network", 9, ""), ("network", 12, "go")]


def test_a_script_tells_what_it_is_at_its_top() -> None:
    found = outline(
        "hooks/run", b"#!/bin/sh\n# Finds the program,\n# and runs it.\nset -eu\n# no\n"
    )
    assert (found.doc, found.doc_start, found.doc_end) == ("Finds the program, and runs it.", 2, 3)
    assert outline("run.sh", b"set -eu\n# no\n").doc == ""
    assert outline("a.xyz", b"# no\n").doc == ""


def test_a_repository_without_code_says_so(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, {"a.txt": "of note\n"}))
    pages, _, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path)
    assert len(pages.pages) == 2
    assert "It has no program code: [its files are only counted](facts.md)." in pages.pages[0].text


def test_facts_know_what_a_file_exports() -> None:
    one = facts_of("a.py", b"__all__ = ['b', 'a']\n")
    assert one.outline.exported == ("a", "b")
    assert unpack(pack([one]))[0] == one


def test_each_module_of_a_map_has_its_heaviest_arrows() -> None:
    heavy = [(a, b) for a in "abcdef" for b in "abcdef" if a != b]
    few = [*heavy, ("x", "a"), ("x", "b"), ("b", "y")]
    kept = drawn(few, 24)
    assert len(kept) == 24
    assert {("x", "a"), ("b", "y")} <= set(kept)
    assert ("x", "b") not in kept
    assert drawn(few, 5) == [pair for pair in few if pair in drawn(few, 24)][:5]
    assert drawn(few[:3], 24) == few[:3]


MADE = "// Code generated by mockgen. DO NOT EDIT.\n\n// Package store is made.\npackage store\n"
STORE = """\
//go:generate mockgen -source=store.go

// Package store keeps what is sold.
//go:generate stringer
package store

// Keep keeps it.
//go:noinline
func Keep() {}
"""


def test_what_a_program_has_written_says_nothing(repo: GitRepo, tmp_path: Path) -> None:
    mock = "".join(f"// M{n} mocks.\nfunc M{n}() {{ panic({n}) }}\n" for n in range(9))
    files = {
        "README.md": "It keeps what is sold.\n",
        "store/store.go": STORE,
        "store/mock.go": f"{MADE}{mock}",
        "api/api.go": MADE + mock,
    }
    texts = pages_of(repo, tmp_path, files)
    assert sorted(texts) == ["facts.md", "index.md", "modules/store.md", "wiki.json"]
    index, page = texts["facts.md"], texts["modules/store.md"]
    assert "| [store](modules/store.md) | Package store keeps what is sold. [" in index
    assert "- generated (2): `api/api.go`, `store/mock.go`\n" in index
    assert "1 file, 9 lines of Go" in page
    assert "`func Keep()`](" in page
    assert "mock.go" not in page
    assert "go:" not in index + page


def test_a_program_that_is_generated_as_a_whole_has_pages(repo: GitRepo, tmp_path: Path) -> None:
    texts = pages_of(repo, tmp_path, {"README.md": "An API.\n", "api/api.go": MADE})
    assert "| [api](modules/api.md) | " in texts["index.md"]
    assert "Left out" not in texts["facts.md"]


def test_where_one_begins_is_listed_before_what_runs_by_itself(
    repo: GitRepo, tmp_path: Path
) -> None:
    files = {
        ".github/workflows/ci.yml": "name: CI\non: push\n",
        "action.yml": "name: Check it\nruns:\n  using: composite\n",
        "src/main.rs": "fn main() {}\nfn more() {}\n",
    }
    index = stage.facts_page(repo, tmp_path, files)
    below = index.split("\n## Entry points\n\n")[1].split("\n\n")[0]
    assert below == (
        "- action `Check it` [`action.yml#L1`]\n"
        "- main `src/main.rs` [`src/main.rs#L1`]\n"
        "- task `workflow: CI` [`.github/workflows/ci.yml#L1`]"
    )


def test_what_is_beside_the_program_says_what_it_is(repo: GitRepo, tmp_path: Path) -> None:
    index = pages_of(repo, tmp_path, {
        "README.md": "It keeps what is sold.\n",
        "shop/a.py": "def a(): ...\ndef b(): ...\ndef c(): ...\ndef d(): ...\n",
        "examples/till/README.md": "# Till\n\nA till that counts in the shop. And more.\n",
        "examples/till/package.json": '{"description": "a manifest of a till"}\n',
        "examples/till/run.py": "print(1)\n",
        "examples/scale/run.py": '"""Weighs bread for the shop."""\n',
        "tests/test_a.py": '"""Says nothing of all tests."""\n',
    })["facts.md"]  # fmt: skip
    beside = index.partition("## Beside the program")[2]
    assert (
        "| `examples/till/` | A till that counts in the shop. [`examples/till/README.md#L3`]"
        in (beside)
    )
    assert "| `examples/scale/` | Weighs bread for the shop. [`examples/scale/run.py#L1`]" in beside
    assert "| folder | files | lines |" in index.partition("## Tests")[2].partition("##")[0]


def test_what_is_called_as_a_test_and_has_none_is_of_the_program(
    repo: GitRepo, tmp_path: Path
) -> None:
    page = pages_of(repo, tmp_path, {
        "README.md": "It keeps what is sold.\n",
        "shop/test_price.py": "def weigh(): ...\ndef b(): ...\ndef c(): ...\ndef d(): ...\n",
        "shop/test_till.py": "class TillCase(Base):\n    def test_it(self): ...\n",
        "shop/conftest.py": "def till(): ...\n",
        "shop/tests/test_help.py": "def helps(): ...\n",
    })["modules/shop.md"]  # fmt: skip
    assert re.findall(r"^\| \S*`([\w.]+)`", page, re.MULTILINE) == ["test_price.py"]
