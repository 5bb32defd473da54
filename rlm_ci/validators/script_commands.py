"""What a command runs.

Scripts of package.json, targets of a Makefile and shell scripts are followed. Their words
alone show validators that wait for changes of files and never end.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from itertools import islice, pairwise
from posixpath import join, normpath

from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Text = Callable[[str], str]


_DEEPEST = 5
#: What runs the scripts of package.json.
MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
#: A variable that is set before a command.
ASSIGNMENT = re.compile(r"\w+=")
_MAKE = ("GNUmakefile", "makefile", "Makefile")
#: What runs recipes, and the files that have them.
_RECIPES = {
    "make": _MAKE, "gmake": _MAKE, "${MAKE}": _MAKE, "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"),
}  # fmt: skip
#: What a line of a recipe has before its command.
_LEAD = re.compile(r"""(?:[-@+\s]|cmd:|"|')*""")
#: Options whose value is a folder to start in; and what has a script run in every package.
_IN_FOLDER = frozenset(("-C", "--directory", "--prefix", "--cwd", "-d", "--dir"))
_IN_ALL = re.compile(r"-r|--recursive|-ws?|--workspaces?(?:=.*)?|--filter(?:=.*)?|-F|workspaces?")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh"))


class ScriptCommand(Value):
    """A simple command, the ``variables`` set for it, and where it stands, "" for the start.

    It starts in ``folder``, and stands in the shell script ``script``, if in any; ``reader`` is
    the program that gets its output, ``$`` for the shell itself.
    """

    words: tuple[str, ...]
    origin: str
    variables: tuple[str, ...] = ()
    folder: str = ""
    script: str = ""
    reader: str = ""


def commands(source: str, text: Text, packages: tuple[str, ...] = ()) -> Iterator[ScriptCommand]:
    """The simple commands of a shell text, and of the scripts that these run.

    ``text`` gives the text of a file of the repository, or ""; ``packages`` are the folders that
    have a package.json, beside the top.
    """
    seen = set[tuple[str, str]]()

    def below(parent: ScriptCommand, depth: int) -> Iterator[ScriptCommand]:
        folder = parent.folder
        for script_command in _simple(parent.words[0]):
            words = script_command.words
            if words[0] == "cd" and len(words) > 1 and "$" not in words[1]:
                folder = normpath(join(folder, words[1]))
            command = script_command.replace(
                origin=parent.origin, folder=folder, script=parent.script
            )
            yield command
            for inner in _scripts(command, text, packages) if depth < _DEEPEST else ():
                if (key := (inner.words[0], inner.folder)) not in seen:
                    seen.add(key)
                    yield from below(inner, depth + 1)

    return below(ScriptCommand((source,), ""), 0)


def _simple(source: str) -> Iterator[ScriptCommand]:
    """The simple commands, each with the variables that stand before its words."""
    source = re.sub(r"\$\((\w+)\)", r"${\1}", source.replace("\\\n", " "))
    for line in source.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quote is open
            tokens = line.split()
        waiting: ScriptCommand | None = None
        variables: list[str] = []
        words: list[str] = []
        is_asked = False
        for part in (*tokens, ";"):
            if not part or not set(part) <= set(";&|()"):
                is_variable = not words and ASSIGNMENT.match(part)
                (variables if is_variable else words).append(part)
                continue
            if waiting:
                yield waiting.replace(reader=words[0] if words else "")
                waiting = None
            last = (*variables, *words)[-1:]
            if words:
                command = ScriptCommand(tuple(words), "", tuple(variables), reader="$" * is_asked)
                if part == "|":
                    waiting = command
                else:
                    yield command
            is_asked = part == "(" and bool(last) and last[0].endswith("$")
            variables, words = [], []


def _scripts(
    command: ScriptCommand, text: Text, packages: tuple[str, ...]
) -> Iterator[ScriptCommand]:
    """What a command runs of the repository's own: texts, and where they stand."""
    words, folder = command.words, command.folder
    program = os.path.basename(words[0].lstrip("@-"))
    for option, value in pairwise(words):
        folder = normpath(join(folder, value)) if option in _IN_FOLDER else folder
    arguments = [
        word
        for last, word in pairwise(words)
        if not word.startswith("-") and "=" not in word and last not in _IN_FOLDER
    ]
    if program in MANAGERS:
        is_own = program == "bun" and words[1:2] == ("test",)  # its own runner
        is_of_all = any(map(_IN_ALL.fullmatch, words))
        extra = words[words.index("--") + 1 :] if "--" in words else ()
        for root in () if is_own else dict.fromkeys((folder, *(packages if is_of_all else ()))):
            scripts = _package_scripts(text(join(root, "package.json")))
            for name, line in _of_package(scripts, arguments, " ".join(extra)):
                yield ScriptCommand((line,), f"script {name} of package.json", folder=root)
    elif files := _RECIPES.get(program):
        for file in files:
            content = text(join(folder, file))
            for target in arguments[:3] or ([_first(content)] if content else []):
                for line in _recipe(content, target, program):
                    yield ScriptCommand((line,), f"target {target} of {file}", folder=folder)
    elif program in _SHELLS or words[0].endswith(".sh"):
        script = words[0] if words[0].endswith(".sh") else "".join(arguments[:1])
        path = within(folder, script)
        yield ScriptCommand((text(path),), printable(script), folder=folder, script=path)
        yield from (ScriptCommand((word,), "", folder=folder) for word in words[1:] if " " in word)


def _of_package(
    scripts: dict[str, object], arguments: list[str], extra: str
) -> Iterator[tuple[str, str]]:
    """The script that is asked for, with those that run before it and after it."""
    names = ["test" if word == "t" else word for word in arguments]
    name = next((name for name in names if name in scripts), "")
    for script in (f"pre{name}", name, f"post{name}") if name else ():
        if isinstance(line := scripts.get(script), str):
            yield script, f"{line} {extra}".strip() if script == name else line


def within(folder: str, word: str) -> str:
    """The path that a word names in a folder; a variable that it begins with is left out."""
    return normpath(join(folder, re.sub(r"^\$[^/]*/", "", word)))


def _package_scripts(manifest: str) -> dict[str, object]:
    try:
        read = json.loads(manifest)
    except (ValueError, RecursionError):
        return {}
    scripts = read.get("scripts") if isinstance(read, dict) else None
    return scripts if isinstance(scripts, dict) else {}


def _first(text: str) -> str:
    """The target that is made where none is named."""
    match = re.search(r"^@?(\w[\w-]*)[^:=\n]*:(?!=)", text, re.MULTILINE)
    return "default" if match is None or match[1] == "version" else match[1]


def _recipe(text: str, target: str, program: str) -> Iterator[str]:
    """The lines of a recipe, and those that it asks for first."""
    depth = -1
    for line in text.replace("\\\n", " ").splitlines():
        indent = len(line) - len(line.lstrip())
        if depth >= 0 and (indent > depth or not line.strip()):
            body = _LEAD.sub("", line, count=1).rstrip("\"'")
            if body.startswith(("deps:", "task:")):
                yield from _prerequisites(body[5:], program)
            else:
                yield body
            continue
        names, _, needed = line.partition(":")
        is_head = target in (name.strip("@\"'") for name in names.split())
        is_head = is_head and (program == "task" or not indent) and not needed.startswith("=")
        depth = indent if is_head else -1
        if is_head and program == "task":
            yield needed
        elif is_head:
            yield from _prerequisites(needed, program)


def _prerequisites(names: str, program: str) -> Iterator[str]:
    names, _, recipe = names.partition("#")[0].partition(";")
    yield from (f"{program} {name}" for name in re.findall(r"[\w.-]+", names))
    yield recipe


_MOST, _SHOWN = 400, 200
#: What starts another program, named behind its own words.
_LAUNCHERS = MANAGERS | frozenset(
    ("npx", "bunx", "node", "cross-env", "dotenv", "env", "nyc", "c8", "time", "timeout")
)
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
    location: str
    once: str
    ends: bool = False


def find(command: str, text: Callable[[str], str], *, is_ci: bool = False) -> WatchedCommand | None:
    """The first command that a validator runs, and that never ends; None if none is seen.

    ``text`` gives the text of a file of the repository, or "".
    """
    for script_command in islice(commands(command, text), _MOST):
        words, origin = list(script_command.words), script_command.origin
        for at, word in enumerate(words):
            name, arguments = os.path.basename(word), words[at + 1 :]
            is_program = not at or os.path.basename(words[0]) in _LAUNCHERS
            if not is_program or not _watches(name, arguments, is_ci=is_ci):
                continue
            once = [argument for argument in arguments if not _ON.fullmatch(argument)]
            if name == "vitest":
                once = ["run", *(word for word in once if word not in ("watch", "dev", "-w"))]
            elif name in _SHORT:
                once = [word for word in once if word != "-w"]
            program = ["npx", name] if name in _RUNNERS and name != "bun" else [name]
            return WatchedCommand(
                printable(shlex.join(words))[:_SHOWN],
                origin,
                printable(shlex.join((*program, *once))) if once != arguments else "",
                ends=name == "vitest" and once[1:] == arguments,
            )
    return None


def _watches(name: str, words: list[str], *, is_ci: bool) -> bool:
    """Whether a program with these words watches, where it has a terminal."""
    has_false = any(_ON.fullmatch(word) and after == "false" for word, after in pairwise(words))
    if has_false or any(map(_OFF.fullmatch, words)):
        return False
    first = next((word for word in words if not word.startswith("-")), "")
    if name == "node":  # behind its script, options are those of the script
        return "--watch" in (words[: words.index(first)] if first else words)
    if name == "vitest" and first not in ("run", "bench", "list", "related", "init"):
        return True
    always = (*_ALWAYS, *(() if is_ci else _UNLESS_CI))
    if any(name == program and word in ("", first) for program, word in always):
        return True
    is_on = any(map(_ON.fullmatch, words)) or (name in _SHORT and "-w" in words)
    return name in _RUNNERS and is_on
