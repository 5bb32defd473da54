"""A file in the place of what make would make: the last verdict is taken without it."""

from __future__ import annotations

from hashlib import sha1

import pytest

from rlm_ci.loop.protection import Protection
from rlm_ci.objects import Entry

RULE = "stamp: calc.txt\n\tgrep -q good calc.txt\n\ttouch stamp\n"
PATTERN = "%.ok: %.txt\n\tgrep -q good $<\n\ttouch $@\n"

#: The command, the files of the snapshot, a new one.
MADE: dict[str, tuple[str, dict[str, str], str]] = {
    "a stamp": ("make test", {"Makefile": f"test: stamp\n\t@echo ok\n{RULE}"}, "stamp"),
    "by another name": ("make", {"Makefile": "S = ./s\nall: $(S)\n$(S): a\n\tsh a\n"}, "s"),
    "beside the file": ("make", {"Makefile": "all: $(CURDIR)/s\n$(CURDIR)/s: a\n\tsh a\n"}, "s"),
    "the goal itself": ("make test", {"Makefile": "test:\n\tpytest -q\n"}, "test"),
    "a folder of its name": ("make lint", {"Makefile": "lint:\n\truff check\n"}, "lint/a.txt"),
    "the first goal": ("make", {"Makefile": RULE}, "stamp"),
    "one that it hangs on": ("make", {"Makefile": f"all: a\na: b\nb: stamp\n{RULE}"}, "stamp"),
    "before others": ("make", {"Makefile": f"all: | stamp\n\t@echo\n{RULE}"}, "stamp"),
    "a pattern": ("make", {"Makefile": f"all: calc.ok\n{PATTERN}"}, "calc.ok"),
    "a pattern of patterns": (
        "make", {"Makefile": f"all: calc.fine\n%.fine: %.ok\n\tcp $< $@\n{PATTERN}"}, "calc.fine",
    ),
    "names that make finds": (
        "make", {"Makefile": f"all: $(patsubst %.txt,%.ok,$(T))\n{PATTERN}"}, "calc.ok",
    ),
    "names that make finds, of one rule": (
        "make",
        {"Makefile": "O := $(addsuffix .ok,$(N))\nall: $(O)\n$(O): %.ok: %.txt\n\tgrep -q x $<\n"},
        "calc.ok",
    ),
    "elsewhere": (
        "make",
        {"Makefile": "all:\n\t$(MAKE) -C sub test\n", "sub/Makefile": f"test: stamp\n{RULE}"},
        "sub/stamp",
    ),
    "by a rule of make's own": (
        "make test", {"Makefile": "test: app\n\t./app\n", "app.c": "int main(){}\n"}, "app",
    ),
    "an included rule": (
        "make test", {"Makefile": "include ci/r.inc\ntest: stamp\n", "ci/r.inc": RULE}, "stamp",
    ),
}  # fmt: skip
KEPT: dict[str, tuple[str, dict[str, str], str]] = {
    "what is needed and made by nobody": (
        "make test", {"Makefile": "test: extra.cfg\n\tgrep -q x extra.cfg\n"}, "extra.cfg",
    ),
    "a header that may be missing": ("make", {"Makefile": "all: a.h\n\tcc a.c\na.h:\n"}, "a.h"),
    "a goal that is no file": (
        "make", {"Makefile": ".PHONY: all docs\nall: docs\n\tpytest\ndocs:\n\tmkdocs\n"},
        "docs/new.md",
    ),
    "another goal's": (
        "make test", {"Makefile": "test:\n\tpytest\nbuild:\n\tpython -m build\n"}, "build/a.py",
    ),
    "beside others of its folder": (
        "make test", {"Makefile": "test: lib\n\tpytest\nlib:\n\tunzip x\n", "lib/a.py": ""},
        "lib/b.py",
    ),
    "in a folder that is only made": (
        "make", {"Makefile": "all: out\n\tpytest\nout:\n\tmkdir -p out\n"}, "out/a.txt",
    ),
    "a pattern that does not apply": (
        "make", {"Makefile": "all: x.cfg\n\tpytest\n%.cfg: %.in\n\tm4 $<\n"}, "x.cfg",
    ),
    "one of the tree": ("make test", {"Makefile": f"test: stamp\n{RULE}", "stamp": ""}, "stamp"),
    "another command": ("pytest", {"Makefile": f"test: stamp\n{RULE}"}, "stamp"),
    "source beside it": ("make test", {"Makefile": f"test: stamp\n{RULE}"}, "new.py"),
}  # fmt: skip


def left_out(validator: str, files: dict[str, str], new: str) -> frozenset[str]:
    contents: dict[str, bytes] = {}

    def entries(tree: dict[str, str]) -> dict[str, Entry]:
        found = {}
        for path, text in tree.items():
            oid = sha1(text.encode()).hexdigest()
            contents[oid] = text.encode()
            found[path] = Entry("100644", "blob", oid)
        return found

    base = entries({"calc.txt": "bad\n", **files})
    now = {**base, **entries({new: ""})}
    protection = Protection.of(base, lambda oids: [contents[one] for one in oids], validator)
    return protection.made_in(now, base)


@pytest.mark.parametrize("case", MADE)
def test_what_make_makes_is_left_out(case: str) -> None:
    assert left_out(*MADE[case]) == {MADE[case][2]}


@pytest.mark.parametrize("case", KEPT)
def test_what_make_cannot_make_is_kept(case: str) -> None:
    assert not left_out(*KEPT[case])
