"""What a Makefile would run for a target: its rules, read line by line. Nothing is run.

A file that a rule makes is as good as the rule having run, to make: which files those are is told,
so that a verdict can do without those that an agent has put there.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from rlm_ci.loop.shell import LONGEST, REFERENCE, commands, joined, last, program
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

NAMES = ("GNUmakefile", "makefile", "Makefile")
_RULE = re.compile(r"^([^\s:=#][^:=#]{0,400}?)\s{0,9}::?(?!=)([^#]{0,4000})")
_SETTING = re.compile(r"^(?:export )?\s{0,9}([A-Za-z_]\w{0,63})\s{0,9}[:?+]?:?=\s{0,9}(.{0,1000})$")
_INCLUDE = re.compile(r"^ {0,9}(?:-|s)?include\s{1,9}([^#]{1,1000})")
_SHELL = re.compile(r"\$\(shell ([^()]{1,500})\)")
_DEEPEST = 5
#: How many rules of patterns one behind the other are looked for.
_CHAIN = 2
#: The folder that make is started in.
_HERE = re.compile(r"\$[({](?:CURDIR|PWD)[)}]/")
#: What make knows to compile without a rule.
_SOURCES = (".c", ".cc", ".cpp", ".C", ".s", ".S", ".f", ".F", ".p", ".y", ".l", ".sh")
#: Commands that look at nothing: a recipe of them alone may be left out.
_IDLE = frozenset(("mkdir", "echo", "printf", ":", "true"))


class Made(Value):
    """Files of the name ``target`` are made by a rule, with what its other names stand for.

    A ``%`` stands for the same words in ``target`` and in ``needs``, which must be there.
    """

    target: str
    needs: tuple[str, ...] = ()

    def covers(self, path: str, files: Container[str]) -> bool:
        """Whether the rule would make ``path``, out of ``files``."""
        if "%" not in self.target:
            return path == self.target
        stem = self.stem(path)
        return bool(stem) and all(need.replace("%", stem) in files for need in self.needs)

    def stem(self, path: str) -> str:
        """What the ``%`` stands for in the name ``path``, or ""."""
        before, _, after = self.target.partition("%")
        stem = path[len(before) : len(path) - len(after)]
        return stem if f"{before}{stem}{after}" == path else ""


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

    def made(self, target: str, folder: str, files: Container[str]) -> Iterator[Made]:
        """Files that make would make on the way to ``target``, as it is started in ``folder``.

        Where only make knows what a word stands for, any file of a pattern may be meant.
        """
        if "$" in target:
            patterns = (name for name in self.known if "%" in name)
            yield from (self._pattern(name, folder) for name in patterns if self._works(name))
        elif target not in self.known.get(".PHONY", ([],))[0]:
            path = joined(folder, target)
            names = (name for name in self.of(target) if self._works(name))
            if any(self._applies(name, path, folder, files) for name in names) or any(
                f"{path.removesuffix('.o')}{ending}" in files for ending in _SOURCES
            ):
                yield Made(path)

    def _works(self, name: str) -> bool:
        """Whether it would be missed if the recipe of a rule were not run."""
        found = (program(words) for words in commands(self.known[name][1]))
        return any(words and last(words[0]) not in _IDLE for words in found)

    def _applies(
        self, name: str, path: str, folder: str, files: Container[str], depth: int = 0
    ) -> bool:
        """Whether a rule makes ``path``: one of a pattern does if what it needs can be had."""
        if "%" not in name:
            return True
        one = self._pattern(name, folder)
        needs = [need.replace("%", one.stem(path)) for need in one.needs]
        patterns = [other for other in self.known if "%" in other] if depth < _CHAIN else []
        return all(
            need in files
            or any(need == joined(folder, other) for other in self.known)
            or any(
                self._pattern(other, folder).stem(need)
                and self._applies(other, need, folder, files, depth + 1)
                for other in patterns
            )
            for need in needs
        )

    def _pattern(self, name: str, folder: str) -> Made:
        needs = (need for need in self.known[name][0] if "%" in need)
        return Made(joined(folder, name), tuple(joined(folder, need) for need in needs))


def rules(text: str, include: Callable[[str], list[str]]) -> Rules:
    """The rules of a Makefile; ``include`` gives the texts that a word behind ``include`` names."""
    settings: dict[str, str] = {}
    known: dict[str, tuple[list[str], str]] = {}
    first, names, anyway = "", list[str](), list[str]()

    def filled(line: str) -> str:
        for _ in range(3):
            line = REFERENCE.sub(lambda one: settings.get(one[1], one[0]), line)[:LONGEST]
        return _HERE.sub("", line).replace("$$", "$")

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
            pattern, is_static, rest = needed.partition(":")
            if is_static and "%" in pattern:  # for those names that only make may know
                names, needed = [*names, *pattern.split()], rest
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
