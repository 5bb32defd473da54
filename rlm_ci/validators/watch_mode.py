"""Validators that wait for changes of files and never end, by their words alone.

Scripts of package.json, targets of a Makefile and shell scripts are followed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from itertools import islice, pairwise

from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEEPEST, _MOST, _SHOWN = 5, 400, 200
_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
#: What starts another program, named behind its own words.
_LAUNCHERS = _MANAGERS | frozenset(
    ("npx", "bunx", "node", "cross-env", "dotenv", "env", "nyc", "c8", "time", "timeout")
)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
#: Runners and compilers that have such an option; ``-w`` is another one of some.
_RUNNERS = frozenset(
    (
        "jest", "vitest", "mocha", "ava", "tsc", "vue-tsc", "bun", "deno", "wtr", "karma", "ng",
        "web-test-runner", "react-scripts", "craco", "vue-cli-service", "tap", "uvu", "tsx",
    )
)  # fmt: skip
_SHORT = frozenset(("vitest", "mocha", "ava", "tsc", "vue-tsc"))
#: What watches unless it is told otherwise: a program, and its first word.
_ALWAYS = (
    ("nodemon", ""), ("ptw", ""), ("pytest-watch", ""), ("watchexec", ""), ("entr", ""),
    ("chokidar", ""), ("cargo", "watch"), ("dotnet", "watch"), ("tsx", "watch"),
    ("ng", "test"), ("karma", "start"),
)  # fmt: skip
#: The same, but where CI is set.
_UNLESS_CI = (("react-scripts", "test"), ("craco", "test"))
_ASSIGNMENT = re.compile(r"\w+=")
_ON = re.compile(r"--watch(?:-?[aA]ll)?(?:=true)?")
_OFF = re.compile(r"--no-watch|--watch(?:-?[aA]ll)?=false|--run|--single-?[rR]un(?:=true)?")
#: What a tool prints when it begins to wait.
WAITING = re.compile(
    rb"Watch Usage|[Ww]aiting for (?:file )?changes|[Ww]atching for (?:file )?changes"
    rb"|press h to show help|\[nodemon\] (?:watching|clean exit)"
)


class WatchedCommand(Value):
    """The command that watches, where it stands, and the one that runs once, "" if unknown.

    ``ends``: without a terminal it does not watch.
    """

    text: str
    place: str
    once: str
    ends: bool = False


def find(command: str, text: Callable[[str], str], *, is_ci: bool = False) -> WatchedCommand | None:
    """The first command that a validator runs, and that never ends; None if none is seen.

    ``text`` gives the text of a file of the repository, or "".
    """
    for words, place in islice(_commands(command, "", text, 0), _MOST):
        for at, word in enumerate(words):
            name, rest = os.path.basename(word), words[at + 1 :]
            is_program = not at or os.path.basename(words[0]) in _LAUNCHERS
            if not is_program or not _watches(name, rest, is_ci=is_ci):
                continue
            once = [one for one in rest if not _ON.fullmatch(one)]
            if name == "vitest":
                once = ["run", *(one for one in once if one not in ("watch", "dev", "-w"))]
            elif name in _SHORT:
                once = [one for one in once if one != "-w"]
            program = ["npx", name] if name in _RUNNERS and name != "bun" else [name]
            return WatchedCommand(
                printable(shlex.join(words))[:_SHOWN],
                place,
                printable(shlex.join((*program, *once))) if once != rest else "",
                ends=name == "vitest" and once[1:] == rest,
            )
    return None


def _watches(name: str, rest: list[str], *, is_ci: bool) -> bool:
    """Whether a program with these words watches, where it has a terminal."""
    has_false = any(_ON.fullmatch(one) and after == "false" for one, after in pairwise(rest))
    if has_false or any(map(_OFF.fullmatch, rest)):
        return False
    first = next((one for one in rest if not one.startswith("-")), "")
    if name == "node":  # behind its script, options are those of the script
        return "--watch" in (rest[: rest.index(first)] if first else rest)
    if name == "vitest" and first not in ("run", "bench", "list", "related", "init"):
        return True
    always = (*_ALWAYS, *(() if is_ci else _UNLESS_CI))
    if any(name == program and word in ("", first) for program, word in always):
        return True
    is_on = any(map(_ON.fullmatch, rest)) or (name in _SHORT and "-w" in rest)
    return name in _RUNNERS and is_on


def _commands(
    source: str, place: str, text: Callable[[str], str], depth: int
) -> Iterator[tuple[list[str], str]]:
    """The simple commands of a shell text, and of the scripts that these run."""
    for words in _simple(source):
        yield words, place
        if depth < _DEEPEST:
            for more, where in _scripts(words, text):
                yield from _commands(more, where, text, depth + 1)


def _simple(source: str) -> Iterator[list[str]]:
    for line in source.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quote is open
            tokens = line.split()
        words: list[str] = []
        for token in (*tokens, ";"):
            if token and set(token) <= set(";&|()"):
                if words:
                    yield words
                words = []
            elif words or not _ASSIGNMENT.match(token):
                words.append(token)


def _scripts(words: list[str], text: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """What a command runs of the repository's own: texts, and where they stand."""
    program = os.path.basename(words[0].lstrip("@-"))
    named = [one for one in words[1:] if not one.startswith("-") and "=" not in one]
    if program in _MANAGERS:
        named = named[1:] if named[:1] in (["run"], ["run-script"]) else named
        if program == "bun" and words[1:2] == ["test"]:
            return  # its own runner
        script = "test" if named[:1] == ["t"] else "".join(named[:1])
        if isinstance(found := _package_scripts(text).get(script), str):
            extra = words[words.index("--") + 1 :] if "--" in words else []
            yield " ".join((found, *extra)), f"script {script} of package.json"
    elif program in ("make", "gmake", "$(MAKE)", "${MAKE}"):
        for target in named[:3]:
            for file in _MAKEFILES:
                yield _recipe(text(file), target), f"target {target} of {file}"
    elif program in _SHELLS or words[0].endswith(".sh"):
        script = words[0] if words[0].endswith(".sh") else "".join(named[:1])
        yield text(os.path.normpath(script)), printable(script)
        if "-c" in words[:-1]:
            yield words[words.index("-c") + 1], ""


def _package_scripts(text: Callable[[str], str]) -> dict[str, object]:
    try:
        found = json.loads(text("package.json"))
    except (ValueError, RecursionError):
        return {}
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return scripts if isinstance(scripts, dict) else {}


def _recipe(makefile: str, target: str) -> str:
    """The lines of a target, and of those that it asks for first."""
    lines: list[str] = []
    is_ours = False
    for line in makefile.splitlines():
        if line.startswith("\t"):
            lines += [line.strip().lstrip("@-+")] if is_ours else []
        elif ":" in line and not line.startswith("#"):
            names, _, needed = line.partition(":")
            is_ours = target in names.split()
            asked = [] if not is_ours or needed.startswith("=") else needed.split("#")[0].split()
            lines += [f"make {one}" for one in asked if one.isidentifier()]
    return "\n".join(lines)
