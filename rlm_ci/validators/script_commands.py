"""What a command runs: the commands of package.json's scripts, of a Makefile, of a shell."""

from __future__ import annotations

import json
import os
import re
import shlex

from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEEPEST = 5
#: What runs the scripts of package.json.
MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
#: A variable that is set before a command.
ASSIGNMENT = re.compile(r"\w+=")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))


class ScriptCommand(Value):
    """A simple command, the ``variables`` set for it, and where it stands, "" for the start."""

    words: tuple[str, ...]
    origin: str
    variables: tuple[str, ...] = ()


def commands(
    source: str, text: Callable[[str], str], origin: str = "", depth: int = 0
) -> Iterator[ScriptCommand]:
    """The simple commands of a shell text, and of the scripts that these run.

    ``text`` gives the text of a file of the repository, or "".
    """
    for variables, words in _simple(source):
        yield ScriptCommand(tuple(words), origin, tuple(variables))
        if depth < _DEEPEST:
            for more, where in _scripts(words, text):
                yield from commands(more, text, where, depth + 1)


def _simple(source: str) -> Iterator[tuple[list[str], list[str]]]:
    """The simple commands, each with the variables that stand before its words."""
    for line in source.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quote is open
            tokens = line.split()
        variables: list[str] = []
        words: list[str] = []
        for token in (*tokens, ";"):
            if token and set(token) <= set(";&|()"):
                if words:
                    yield variables, words
                variables, words = [], []
            else:
                is_variable = not words and ASSIGNMENT.match(token)
                (variables if is_variable else words).append(token)


def _scripts(words: list[str], text: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """What a command runs of the repository's own: texts, and where they stand."""
    program = os.path.basename(words[0].lstrip("@-"))
    arguments = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if program in MANAGERS:
        arguments = arguments[1:] if arguments[:1] in (["run"], ["run-script"]) else arguments
        if program == "bun" and words[1:2] == ["test"]:
            return  # its own runner
        script = "test" if arguments[:1] == ["t"] else "".join(arguments[:1])
        if isinstance(command := _package_scripts(text).get(script), str):
            extra = words[words.index("--") + 1 :] if "--" in words else []
            yield " ".join((command, *extra)), f"script {script} of package.json"
    elif program in ("make", "gmake", "$(MAKE)", "${MAKE}"):
        for target in arguments[:3]:
            for file in _MAKEFILES:
                yield _recipe(text(file), target), f"target {target} of {file}"
    elif program in _SHELLS or words[0].endswith(".sh"):
        script = words[0] if words[0].endswith(".sh") else "".join(arguments[:1])
        yield text(os.path.normpath(script)), printable(script)
        if "-c" in words[:-1]:
            yield words[words.index("-c") + 1], ""


def _package_scripts(text: Callable[[str], str]) -> dict[str, object]:
    try:
        manifest = json.loads(text("package.json"))
    except (ValueError, RecursionError):
        return {}
    scripts = manifest.get("scripts") if isinstance(manifest, dict) else None
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
            targets = [] if not is_ours or needed.startswith("=") else needed.split("#")[0].split()
            lines += [f"make {name}" for name in targets if name.isidentifier()]
    return "\n".join(lines)
