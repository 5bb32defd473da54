"""What a Makefile would run for a target: its rules, read line by line. Nothing is run."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from rlm_ci.loop.shell import LONGEST, REFERENCE
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = ("GNUmakefile", "makefile", "Makefile")
_RULE = re.compile(r"^([^\s:=#][^:=#]{0,400}?)\s{0,9}::?(?!=)([^#]{0,4000})")
_SETTING = re.compile(r"^(?:export )?\s{0,9}([A-Za-z_]\w{0,63})\s{0,9}[:?+]?:?=\s{0,9}(.{0,1000})$")
_INCLUDE = re.compile(r"^ {0,9}(?:-|s)?include\s{1,9}([^#]{1,1000})")
_SHELL = re.compile(r"\$\(shell ([^()]{1,500})\)")
_DEEPEST = 5


class Rules(Value):
    """The rules by target, each with its needs and its recipe; ``first`` is the default.

    ``anyway`` are the commands that make runs to read the file.
    """

    known: dict[str, tuple[list[str], str]]
    first: str
    anyway: str

    def of(self, target: str) -> Iterator[str]:
        """The names under which there are rules for ``target``."""
        if target in self.known:
            yield target
        yield from (
            name
            for name in self.known
            if "%" in name and fnmatchcase(target, name.replace("%", "*"))
        )


def rules(text: str, include: Callable[[str], list[str]]) -> Rules:
    """The rules of a Makefile; ``include`` gives the texts that a word behind ``include`` names."""
    settings: dict[str, str] = {}
    known: dict[str, tuple[list[str], str]] = {}
    first, names, anyway = "", list[str](), list[str]()

    def filled(line: str) -> str:
        for _ in range(3):
            line = REFERENCE.sub(lambda one: settings.get(one[1], one[0]), line)[:LONGEST]
        return line.replace("$$", "$")

    for line in _lines(text, filled, include, 0):
        anyway += _SHELL.findall(line)
        if line.startswith("\t"):
            for name in names:
                needs, recipe = known[name]
                known[name] = (needs, f"{recipe}{filled(line).strip().lstrip('@-+')}\n")
            continue
        setting = _SETTING.match(line)
        if setting:
            settings.setdefault(setting[1], setting[2].strip())
            continue
        rule = _RULE.match(line)
        if rule:
            names = filled(rule[1]).split()
            needed, _, own = filled(rule[2]).partition(";")
            for name in names:
                old = known.get(name, ([], ""))
                known[name] = ([*old[0], *needed.replace("|", " ").split()], f"{old[1]}{own}\n")
                if not first and not name.startswith(".") and "%" not in name:
                    first = name
    return Rules(known, first, "\n".join(anyway))


def _lines(
    text: str, filled: Callable[[str], str], include: Callable[[str], list[str]], depth: int
) -> Iterator[str]:
    """The lines of a Makefile, with those of what it includes in their place."""
    for line in text.replace("\\\n", " ").split("\n"):
        found = _INCLUDE.match(line)
        if not found or depth > _DEEPEST:
            yield line
            continue
        for word in filled(found[1]).split():
            for more in include(word):
                yield from _lines(more, filled, include, depth + 1)
